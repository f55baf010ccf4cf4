#include "workloads/decoder/tiny.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "formats/safetensors_writer.h"
#include "lab/progress.h"
#include "lab/thread_count.h"
#include "workloads/decoder/tiny_training.h"

namespace graft::workloads::decoder {
namespace {

using at::Tensor;
using nlohmann::json;
namespace fs = std::filesystem;

// Raised by every change to what the same settings train.
constexpr int kVersion = 1;
constexpr int kThreads = 2;  // always: the count of threads decides how sums are split
constexpr int64_t kBytes = 256;

// Unlike one another enough that the held-out one is new text.
constexpr const char* kTrainFiles[] = {"Apache-2.0", "Artistic", "BSD",    "CC0-1.0", "GFDL-1.2",
                                       "GFDL-1.3",   "GPL-1",    "GPL-2",  "GPL-3",   "LGPL-2",
                                       "LGPL-2.1",   "LGPL-3",   "MPL-1.1"};
constexpr const char* kHeldOutFile = "MPL-2.0";

std::string read_text(const fs::path& file) {
  std::string text;
  if (fs::is_regular_file(file)) {
    std::ifstream in(file, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  if (text.empty()) {
    throw std::runtime_error(
        file.string() +
        ": cannot be read, or is empty; the small decoder learns from the licence texts that "
        "Debian's package base-files installs in /usr/share/common-licenses (copy that folder and "
        "name it in TinySettings::texts)");
  }
  return text;
}

json config_json(const Config& c) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", c.model_type},
          {"hidden_size", c.hidden},
          {"num_hidden_layers", c.layers},
          {"num_attention_heads", c.heads},
          {"num_key_value_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"intermediate_size", c.intermediate},
          {"vocab_size", c.vocabulary},
          {"max_position_embeddings", c.positions},
          {"rms_norm_eps", c.eps},
          {"rope_theta", c.rope_theta},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"tie_word_embeddings", c.tie_embeddings},
          {"torch_dtype", "float32"},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr}};
}

// FNV-1a, 64 bits: tells texts apart, nothing more.
uint64_t fingerprint(const TinyText& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::string* part : {&text.train, &text.held_out}) {
    for (const char c : *part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    hash = (hash ^ part->size()) * 0x100000001b3;
  }
  return hash;
}

// What must be equal for a saved model to be used again.
json settings_json(const TinySettings& s, const TinyText& text) {
  return {{"version", kVersion},  {"layers", s.layers},
          {"hidden", s.hidden},   {"heads", s.heads},
          {"batch", s.batch},     {"kv_heads", s.kv_heads},
          {"steps", s.steps},     {"intermediate", s.intermediate},
          {"context", s.context}, {"learning_rate", s.learning_rate},
          {"seed", s.seed},       {"texts", fingerprint(text)}};
}

// What a folder was trained with, if it holds a whole model.
std::optional<TinyResult> saved(const fs::path& folder, const json& settings) {
  if (!fs::is_regular_file(folder / "tiny.json")) return std::nullopt;
  std::ifstream in(folder / "tiny.json");
  const json note = json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!note.is_object() || note.value("settings", json()) != settings) return std::nullopt;
  try {
    Decoder::read(folder);
    return TinyResult{true, note.at("seconds").get<double>(),
                      note.at("losses").get<std::vector<double>>()};
  } catch (const std::runtime_error&) {
    return std::nullopt;  // damaged: trained again
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

// Before the work, so that it is not lost: the folder is new, empty, or one of ours, and can be
// made.
void check_folder(const fs::path& folder) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error(folder.string() + ": " + what);
  };
  std::error_code error;
  if (fs::exists(folder) && !fs::is_directory(folder)) fail("is not a folder");
  if (fs::exists(folder) && !fs::is_empty(folder) && !fs::exists(folder / "tiny.json")) {
    fail("has files, but no tiny.json; expected a new folder, or one with a small decoder");
  }
  const fs::path parent = fs::absolute(folder).parent_path();
  fs::create_directories(parent, error);
  if (error) fail("its parent cannot be made: " + error.message());
  if (::access(parent.c_str(), W_OK) != 0) fail("its parent cannot be written to");
}

void write_json(const fs::path& file, const json& value) {
  std::ofstream out(file);
  out << value.dump(2) << '\n';
  out.close();
  if (!out) throw std::runtime_error(file.string() + ": cannot be written (is the disk full?)");
}

// Whole or not at all: beside the folder first, then in its place.
void save(const fs::path& folder, const Decoder& decoder, const json& note) {
  const fs::path beside =
      fs::absolute(folder).parent_path() /
      ('.' + fs::absolute(folder).filename().string() + ".tmp" + std::to_string(::getpid()));
  struct Remove {
    const fs::path& path;
    ~Remove() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } const remove{beside};
  fs::create_directory(beside);
  write_json(beside / "config.json", config_json(decoder.config));
  formats::write_safetensors(beside / "model.safetensors", named(decoder), {{"format", "pt"}});
  write_json(beside / "tiny.json", note);
  fs::remove_all(folder);
  fs::rename(beside, folder);
}

}  // namespace

Config tiny_config(const TinySettings& s) {
  const auto check = [](bool holds, const std::string& what) {
    if (!holds) throw std::invalid_argument("train_tiny: " + what);
  };
  const auto positive = [&](const char* name, int64_t value) {
    check(value >= 1 && value <= 1'000'000,
          std::string(name) + " is " + std::to_string(value) + "; expected 1 to 1000000");
  };
  positive("layers", s.layers);
  positive("hidden", s.hidden);
  positive("heads", s.heads);
  positive("kv_heads", s.kv_heads);
  positive("intermediate", s.intermediate);
  positive("context", s.context);
  positive("batch", s.batch);
  positive("steps", s.steps);
  check(s.hidden % (2 * s.heads) == 0, "hidden is " + std::to_string(s.hidden) +
                                           "; expected a multiple of twice heads, " +
                                           std::to_string(2 * s.heads));
  check(s.heads % s.kv_heads == 0, "kv_heads is " + std::to_string(s.kv_heads) +
                                       "; expected a divisor of heads, " + std::to_string(s.heads));
  check(s.learning_rate > 0 && s.learning_rate <= 1,
        "learning_rate is " + std::to_string(s.learning_rate) + "; expected above 0, at most 1");
  Config c;
  c.model_type = "llama";
  c.hidden = s.hidden;
  c.layers = s.layers;
  c.heads = s.heads;
  c.kv_heads = s.kv_heads;
  c.head_dim = s.hidden / s.heads;
  c.intermediate = s.intermediate;
  c.vocabulary = kBytes;
  c.positions = s.context;
  c.eps = 1e-5;
  return c;
}

TinyText tiny_text(const TinySettings& settings) {
  TinyText out;
  for (const char* file : kTrainFiles) out.train += read_text(settings.texts / file);
  out.held_out = read_text(settings.texts / kHeldOutFile);
  return out;
}

TinyResult train_tiny(const fs::path& folder, const TinySettings& settings, std::ostream* log) {
  const Config config = tiny_config(settings);
  const TinyText text = tiny_text(settings);
  if (static_cast<int64_t>(text.train.size()) <= settings.context) {
    throw std::invalid_argument("train_tiny: context is " + std::to_string(settings.context) +
                                "; expected less than the texts' " +
                                std::to_string(text.train.size()) + " bytes");
  }
  const json wanted = settings_json(settings, text);
  if (auto found = saved(folder, wanted)) return *std::move(found);
  check_folder(folder);

  const lab::ThreadCount threads(kThreads);
  std::optional<lab::Progress> progress;
  if (log != nullptr)
    progress.emplace(*log, log == &std::cerr && ::isatty(STDERR_FILENO) == 1,
                     report_count(settings));
  const auto start = std::chrono::steady_clock::now();
  const at::Generator generator = at::detail::createCPUGenerator(settings.seed);
  Decoder decoder = random_decoder(config, generator);
  TinyResult out;
  out.losses =
      train(decoder, settings, byte_ids(text.train), generator, progress ? &*progress : nullptr);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  save(folder, decoder, {{"settings", wanted}, {"seconds", out.seconds}, {"losses", out.losses}});
  return out;
}

TinyResult train_tiny(const fs::path& folder, const TinySettings& settings) {
  return train_tiny(folder, settings, &std::cerr);
}

Tensor byte_ids(std::string_view text) {
  Tensor out = at::empty({static_cast<int64_t>(text.size())}, at::kLong);
  std::transform(text.begin(), text.end(), out.data_ptr<int64_t>(),
                 [](char c) { return static_cast<unsigned char>(c); });
  return out;
}

std::string byte_text(const Tensor& ids) {
  const Tensor dense = ids.contiguous();
  const int64_t* at = dense.const_data_ptr<int64_t>();
  std::string out(static_cast<size_t>(dense.numel()), '\0');
  std::transform(at, at + dense.numel(), out.begin(),
                 [](int64_t id) { return static_cast<char>(static_cast<unsigned char>(id)); });
  return out;
}

}  // namespace graft::workloads::decoder
