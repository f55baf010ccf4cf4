// Samples are lists of ids; equal lengths become batches.
#include "quantizer/model/calibration.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "formats/files.h"
#include "quantizer/model/error.h"
#include "workloads/minilm/sentences.h"
#include "workloads/minilm/tokenizer.h"

namespace graft::quantizer {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int64_t>;

constexpr uint64_t kSeed = 0;

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw GptqError(file.string() + ": " + what);
}

// `count` of `items`, evenly spread, in order.
template <class T>
std::vector<T> spread(const std::vector<T>& items, int64_t count) {
  const auto total = static_cast<int64_t>(items.size());
  if (total <= count) return items;
  std::vector<T> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(items[static_cast<size_t>(i * total / count)]);
  return out;
}

// Views of `text`.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.find_first_not_of(" \t\r") != line.npos) out.push_back(line);
    at = end + 1;
  }
  return out;
}

// A long run of ids as pieces; a rest shorter than half a piece is left out unless it is all.
std::vector<Ids> pieces(const Ids& ids, int64_t length) {
  std::vector<Ids> out;
  const auto size = static_cast<size_t>(length);
  for (size_t at = 0; at < ids.size(); at += size) {
    const size_t end = std::min(at + size, ids.size());
    if (!out.empty() && end - at < size / 2) break;
    out.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(at),
                     ids.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return out;
}

Ids ids_of_json(const nlohmann::json& list, const fs::path& file) {
  Ids out;
  for (const nlohmann::json& id : list) {
    if (!id.is_number_integer())
      fail(file, "holds " + id.dump().substr(0, 40) + " where a token id is expected");
    out.push_back(id.get<int64_t>());
  }
  return out;
}

std::vector<Ids> samples_of_json(const fs::path& file, int64_t length) {
  const std::string expected =
      "expected token ids: a list of lists, one list, or an object with one as \"input_ids\"";
  nlohmann::json json = formats::read_json(file);
  if (json.is_object() && json.contains("input_ids")) json = nlohmann::json(json["input_ids"]);
  if (!json.is_array() || json.empty()) fail(file, "has no list of ids; " + expected);
  if (!json.front().is_array()) return pieces(ids_of_json(json, file), length);
  std::vector<Ids> out;
  for (const nlohmann::json& sample : json) {
    if (!sample.is_array()) fail(file, "mixes lists and numbers; " + expected);
    out.push_back(ids_of_json(sample, file));
  }
  return out;
}

std::vector<Ids> samples_of_numbers(const fs::path& file) {
  std::vector<Ids> out;
  const std::string text = formats::read_file(file);
  for (const std::string_view line : lines_of(text)) {
    Ids ids;
    const char *at = line.data(), *end = at + line.size();
    while (at != end) {
      if (std::isspace(static_cast<unsigned char>(*at)) || *at == ',') {
        ++at;
        continue;
      }
      int64_t id = 0;
      const auto [next, error] = std::from_chars(at, end, id);
      if (error != std::errc()) {
        fail(
            file,
            "holds text, but the tokenizer of this decoder is not known here; give token ids, such "
            "as Python's json.dump(tokenizer(texts)[\"input_ids\"], file) writes to a .json file");
      }
      ids.push_back(id);
      at = next;
    }
    out.push_back(std::move(ids));
  }
  return out;
}

std::vector<Ids> samples_of_bytes(const fs::path& file, int64_t length) {
  const std::string text = formats::read_file(file);
  Ids ids;
  for (char c : text) ids.push_back(static_cast<unsigned char>(c));
  return pieces(ids, length);
}

std::vector<Ids> samples_of_text(const std::vector<std::string_view>& lines, int64_t most,
                                 int64_t length, const fs::path& model_folder) {
  const fs::path vocabulary = model_folder / "vocab.txt";
  if (!fs::exists(vocabulary)) {
    fail(vocabulary,
         "is missing, so text cannot be cut into tokens; copy it there from where the model comes");
  }
  const workloads::minilm::Tokenizer tokenizer(vocabulary);
  std::vector<Ids> out;
  for (const std::string_view line : spread(lines, most))
    out.push_back(tokenizer.encode(line, static_cast<size_t>(length)));
  return out;
}

std::vector<Ids> samples_of_text_file(const fs::path& file, int64_t most, int64_t length,
                                      const fs::path& model_folder) {
  const std::string text = formats::read_file(file);
  if (const size_t good = workloads::minilm::valid_utf8(text); good < text.size()) {
    fail(file, "is not UTF-8 at byte " + std::to_string(good) +
                   "; convert it first, such as by 'iconv -f latin1 -t utf-8'");
  }
  return samples_of_text(lines_of(text), most, length, model_folder);
}

std::vector<Ids> random_samples(int64_t samples, int64_t length, int64_t vocabulary) {
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const at::Tensor ids =
      at::randint(vocabulary, {samples, length}, generator, at::TensorOptions().dtype(at::kLong));
  std::vector<Ids> out;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t* row = ids.const_data_ptr<int64_t>() + i * length;
    out.emplace_back(row, row + length);
  }
  return out;
}

void check_ids(const std::vector<Ids>& samples, int64_t vocabulary, const std::string& source) {
  for (const Ids& ids : samples) {
    for (int64_t id : ids) {
      if (id < 0 || id >= vocabulary) {
        throw GptqError(source + ": the token id " + std::to_string(id) +
                        " is not in the model's vocabulary of " + std::to_string(vocabulary) +
                        "; was another tokenizer used?");
      }
    }
  }
}

std::vector<at::Tensor> batches_of(const std::vector<Ids>& samples) {
  std::map<size_t, std::vector<const Ids*>, std::greater<>> by_length;
  for (const Ids& ids : samples) by_length[ids.size()].push_back(&ids);
  std::vector<at::Tensor> out;
  for (const auto& [length, list] : by_length) {
    const size_t most = std::max<size_t>(1, kBatchTokens / length);
    for (size_t at = 0; at < list.size(); at += most) {
      const size_t count = std::min(most, list.size() - at);
      at::Tensor batch =
          at::empty({static_cast<int64_t>(count), static_cast<int64_t>(length)}, at::kLong);
      for (size_t i = 0; i < count; ++i) {
        std::copy(list[at + i]->begin(), list[at + i]->end(),
                  batch.mutable_data_ptr<int64_t>() + i * length);
      }
      out.push_back(std::move(batch));
    }
  }
  return out;
}

}  // namespace

Calibration read_calibration(const CalibrationOptions& options, const Architecture& model,
                             const fs::path& model_folder,
                             const std::function<void(const CalibrationSize&)>& check) {
  if (options.samples < 1 || options.sequence < 0)
    throw GptqError("calibration needs at least one sample of at least one token");
  if (options.sequence > model.positions) {
    throw GptqError("--sequence " + std::to_string(options.sequence) + " is longer than the " +
                    std::to_string(model.positions) + " tokens that the model takes");
  }
  const int64_t length =
      options.sequence > 0 ? options.sequence : std::min(model.usual_sequence, model.positions);
  if (model.word_piece && length < 2)
    throw GptqError("--sequence 1 has no room for [CLS] and [SEP]; give 2 or more");
  Calibration out;
  std::vector<Ids> samples;
  out.source = options.file.string();
  if (options.file.empty() && model.word_piece && fs::exists(model_folder / "vocab.txt")) {
    const std::vector<std::string_view> lines(std::begin(workloads::minilm::kSentences),
                                              std::end(workloads::minilm::kSentences));
    samples = samples_of_text(lines, options.samples, length, model_folder);
    out.source = std::to_string(samples.size()) + " built-in English sentences";
    out.warning =
        "calibrated with the few built-in sentences; give texts of your own kind with "
        "--calibration FILE for a better model";
  } else if (options.file.empty()) {
    if (check) check({options.samples, options.samples * length, length});
    samples = random_samples(options.samples, length, model.vocabulary);
    out.source = "random token ids";
    out.warning =
        "calibrated with random token ids, which are far from any text: the model will be worse "
        "than it need be; " +
        (model.word_piece
             ? (model_folder / "vocab.txt").string() +
                   " is missing: copy it there from where the model comes, so that text can be used"
             : std::string("give token ids of real text with --calibration FILE"));
  } else if (model.word_piece) {
    samples = samples_of_text_file(options.file, options.samples, length, model_folder);
  } else if (options.file.extension() == ".json") {
    samples = samples_of_json(options.file, length);
  } else if (model.vocabulary == 256) {
    samples = samples_of_bytes(options.file, length);
  } else {
    samples = samples_of_numbers(options.file);
  }
  std::erase_if(samples, [](const Ids& ids) { return ids.empty(); });
  if (samples.empty()) fail(options.file, "holds no samples");
  for (Ids& ids : samples) ids.resize(std::min(ids.size(), static_cast<size_t>(length)));
  samples = spread(samples, options.samples);
  check_ids(samples, model.vocabulary, out.source);
  out.samples = static_cast<int64_t>(samples.size());
  int64_t longest = 0;
  for (const Ids& ids : samples) {
    out.tokens += static_cast<int64_t>(ids.size());
    longest = std::max(longest, static_cast<int64_t>(ids.size()));
  }
  if (check) check({out.samples, out.tokens, longest});
  out.batches = batches_of(samples);
  return out;
}

}  // namespace graft::quantizer
