// Whole models quantised: what is written and how it reads back, runs that end early and go on, and
// input that must be refused before anything has its final name.
#include "workloads/gptq/quantize_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>

#include "lab/safetensors.h"
#include "lab/safetensors_writer.h"
#include "support/tiny_checkpoints.h"
#include "workloads/decoder/model.h"
#include "workloads/decoder/names.h"
#include "workloads/gptq/checksum.h"
#include "workloads/minilm/model.h"

namespace graft::workloads::gptq {
namespace {

namespace fs = std::filesystem;
using at::Tensor;
using test::TinyCheckpoint;

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Every file in a folder, by its path in it.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      out[entry.path().lexically_relative(folder).string()] = content(entry.path());
  }
  return out;
}

// Bit by bit, and with loops: shares nothing with the packer.
Tensor unpacked_weight(const lab::Safetensors& file, const std::string& module, int bits) {
  const Tensor packed = file.get(module + ".weight_packed"),
               scale = file.get(module + ".weight_scale"),
               shape = file.get(module + ".weight_shape");
  const auto if_there = [&](const std::string& name) {
    const auto found = file.tensors.find(module + name);
    return found == file.tensors.end() ? Tensor() : found->second;
  };
  const Tensor zeros = if_there(".weight_zero_point"), index = if_there(".weight_g_idx");
  const int64_t rows = shape[0].item<int64_t>(), columns = shape[1].item<int64_t>(),
                groups = scale.size(1);
  const auto number = [bits](const int32_t* words, int64_t stride, int64_t i) {
    int64_t out = 0;
    for (int bit = 0; bit < bits; ++bit) {
      const int64_t at = i * bits + bit;
      out |= static_cast<int64_t>((static_cast<uint32_t>(words[at / 32 * stride]) >> (at % 32)) & 1)
             << bit;
    }
    return out;
  };
  Tensor out = at::empty({rows, columns});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t group =
          index.defined() ? index.const_data_ptr<int32_t>()[column] : column / (columns / groups);
      const int64_t zero = zeros.defined()
                               ? number(zeros.const_data_ptr<int32_t>() + group, groups, row)
                               : int64_t{1} << (bits - 1);
      const int64_t code =
          number(packed.const_data_ptr<int32_t>() + row * packed.size(1), 1, column);
      out.mutable_data_ptr<float>()[row * columns + column] =
          static_cast<float>(code - zero) * scale.const_data_ptr<float>()[row * groups + group];
    }
  }
  return out;
}

class QuantizeModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("graft_quantize_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    at::set_num_threads(1);  // threads cost such small models more than they gain
  }
  void TearDown() override {
    fs::remove_all(folder_);
    at::set_num_threads(threads_);
  }

  fs::path model() const { return folder_ / "model"; }
  fs::path out(const std::string& name = "out") const { return folder_ / name; }

  QuantizeOptions options(const std::string& name = "out") const {
    QuantizeOptions o;
    o.model = model();
    o.out = out(name);
    o.settings.group = 16;
    o.settings.block = 16;
    o.calibration.samples = 12;
    o.calibration.sequence = 24;
    o.compiled = false;
    return o;
  }

  // That quantising fails saying `part`, and gives no file its final name.
  void expect_refused(const QuantizeOptions& o, const std::string& part) const {
    try {
      quantize_model(o);
      ADD_FAILURE() << "accepted; expected an error with: " << part;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    if (!fs::exists(o.out) || !fs::is_directory(o.out)) return;
    for (const fs::directory_entry& entry : fs::directory_iterator(o.out))
      EXPECT_EQ(entry.path().filename(), ".graft-quantize");
  }
  void expect_refused(const TinyCheckpoint& tiny, const std::string& part, int shards = 1) const {
    fs::remove_all(model());
    tiny.write(model(), shards);
    expect_refused(options(), part);
    EXPECT_FALSE(fs::exists(out()));  // no layer was done, so nothing is kept
  }

  // The recorded checksums are those of the weights that are on the disk, all linear layers are
  // there, and no weight is far from the original's.
  void expect_whole(const QuantizeReport& report, const TinyCheckpoint& tiny,
                    const fs::path& folder, int bits) const {
    const lab::Safetensors file = lab::read_checkpoint(folder);
    size_t replaced = 0;
    for (const LayerReport& layer : report.layers) {
      for (const LinearReport& linear : layer.linears) {
        ++replaced;
        EXPECT_FALSE(file.tensors.contains(linear.module + ".weight"));
        const Tensor weight = unpacked_weight(file, linear.module, bits);
        EXPECT_EQ(crc_text(crc32(weight)), linear.weight_crc32) << linear.module;
        const Tensor before = tiny.tensors.at(linear.module + ".weight").to(at::kFloat);
        const double relative =
            (weight - before).norm().item<double>() / before.norm().item<double>();
        EXPECT_LT(relative, bits == 8 ? 0.02 : bits == 4 ? 0.3 : 0.6) << linear.module;
        EXPECT_GT(relative, 0) << linear.module;
      }
    }
    for (const auto& [name, tensor] : tiny.tensors) {
      if (file.tensors.contains(name)) {
        EXPECT_TRUE(at::equal(file.get(name), tensor)) << name;
      } else {
        --replaced;
      }
    }
    EXPECT_EQ(replaced, 0u);
    EXPECT_FALSE(fs::exists(folder / ".graft-quantize"));
  }

  fs::path folder_;
  const int threads_ = at::get_num_threads();
};

TEST_F(QuantizeModelTest, EverySettingReadsBack) {
  const TinyCheckpoint bert = TinyCheckpoint::bert(), qwen2 = TinyCheckpoint::qwen2();
  int number = 0;
  for (const TinyCheckpoint* tiny : {&bert, &qwen2}) {
    fs::remove_all(model());
    tiny->write(model(), /*shards=*/tiny == &bert ? 1 : 3);
    for (const int bits : {3, 4, 8}) {
      for (const bool symmetric : {true, false}) {
        for (const bool act_order : {false, true}) {
          if (act_order && bits == 3) continue;
          QuantizeOptions o = options("out" + std::to_string(number++));
          o.settings.bits = bits;
          o.settings.symmetric = symmetric;
          o.settings.act_order = act_order;
          o.settings.group = bits == 8 ? -1 : 16;
          const QuantizeReport report = quantize_model(o);
          EXPECT_EQ(report.layers.size(), 3u);
          expect_whole(report, *tiny, o.out, bits);
          EXPECT_GT(report.similarity.mean, bits == 8 ? 0.99 : bits == 4 ? 0.85 : 0.6) << bits;
          EXPECT_LT(report.bytes, report.source_bytes);
        }
      }
    }
  }
}

TEST_F(QuantizeModelTest, WritesWhatReadersLookFor) {
  TinyCheckpoint::qwen2().write(model());
  QuantizeOptions o = options();
  o.targets = "mlp|o_proj";
  o.settings.symmetric = false;
  quantize_model(o);
  const auto config = nlohmann::json::parse(content(out() / "config.json"));
  EXPECT_EQ(config["hidden_size"], 32);  // the source's keys are kept
  const auto& quantization = config["quantization_config"];
  EXPECT_EQ(quantization["quant_method"], "compressed-tensors");
  EXPECT_EQ(quantization["format"], "pack-quantized");
  const auto& weights = quantization["config_groups"]["group_0"]["weights"];
  EXPECT_EQ(weights["num_bits"], 4);
  EXPECT_EQ(weights["symmetric"], false);
  EXPECT_EQ(weights["strategy"], "group");
  EXPECT_EQ(weights["group_size"], 16);
  const auto ignore = quantization["ignore"].get<std::vector<std::string>>();
  EXPECT_EQ(ignore.size(), 1u + 3 * 3);  // the head, and q, k and v of each layer
  EXPECT_EQ(ignore.front(), "lm_head");
  EXPECT_EQ(ignore[1], "model.layers.0.self_attn.q_proj");
  EXPECT_TRUE(fs::exists(out() / "tokenizer_config.json"));
  const auto index = nlohmann::json::parse(content(out() / "model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"]["model.layers.1.mlp.up_proj.weight_packed"],
            "model-00002-of-00004.safetensors");
  EXPECT_EQ(index["weight_map"]["lm_head.weight"], "model-00004-of-00004.safetensors");
}

TEST_F(QuantizeModelTest, WarnsOfTooFewTokens) {
  TinyCheckpoint::bert().write(model());
  QuantizeOptions o = options();
  std::vector<std::string> warnings;
  o.warning = [&](const std::string& text) { warnings.push_back(text); };
  o.calibration.samples = 2;
  quantize_model(o);
  ASSERT_EQ(warnings.size(), 2u);  // the other: built-in sentences
  EXPECT_NE(warnings[1].find("48 tokens, fewer than the 64 columns"), std::string::npos)
      << warnings[1];
}

TEST_F(QuantizeModelTest, CompiledAndEagerWriteTheSameBytes) {
  TinyCheckpoint::bert().write(model());
  const QuantizeReport eager = quantize_model(options("eager"));
  EXPECT_FALSE(eager.compiled.has_value());
  QuantizeOptions o = options("compiled");
  o.compiled = true;
  const QuantizeReport compiled = quantize_model(o);
  ASSERT_TRUE(compiled.compiled.has_value());
  EXPECT_GT(compiled.compiled->calls, 0);
  EXPECT_NE(compiled.compiled->verdict, Verdict::Mismatch) << compiled.compiled->text();
  EXPECT_EQ(contents(out("eager")), contents(out("compiled")));
}

// The similarity and the weights are those of the models as their own code runs them.
TEST_F(QuantizeModelTest, TheQuantisedDecoderRunsAsTheReportSays) {
  TinyCheckpoint::qwen2().write(model());
  QuantizeOptions o = options();
  o.settings.bits = 8;
  const QuantizeReport report = quantize_model(o);
  const decoder::Decoder before = decoder::Decoder::read(model());
  decoder::Decoder after = before;
  const lab::Safetensors file = lab::read_checkpoint(out());
  for (const decoder::LinearName& name : decoder::linears(before.config)) {
    decoder::weight_of(after.layers[static_cast<size_t>(name.layer)], name.linear) =
        unpacked_weight(file, name.module(), 8);
  }
  const Tensor ids = at::arange(24).unsqueeze(0);
  const Tensor cosine = at::cosine_similarity(before.forward(ids), after.forward(ids), -1);
  EXPECT_GT(cosine.min().item<double>(), 0.999);
  EXPECT_GT(report.similarity.least, 0.99);
  EXPECT_LT(report.similarity.least, 1);
}

TEST_F(QuantizeModelTest, GoesOnWhereARunEnded) {
  struct Killed {};
  for (const TinyCheckpoint& tiny : {TinyCheckpoint::bert(), TinyCheckpoint::qwen2()}) {
    fs::remove_all(folder_);
    tiny.write(model());
    quantize_model(options("whole"));
    for (int64_t last = 0; last < 3; ++last) {
      QuantizeOptions o = options("cut" + std::to_string(last));
      o.layer_done = [&](const LayerReport& report, int64_t layers) {
        EXPECT_EQ(layers, 3);
        if (report.layer == last) throw Killed();
      };
      EXPECT_THROW(quantize_model(o), Killed);
      EXPECT_FALSE(fs::exists(o.out / "config.json"));
      int64_t resumed = 0;
      o.layer_done = [&](const LayerReport& report, int64_t) { resumed += report.resumed ? 1 : 0; };
      const QuantizeReport report = quantize_model(o);
      EXPECT_EQ(resumed, last + 1);
      EXPECT_EQ(report.layers.size(), 3u);
      EXPECT_EQ(contents(o.out), contents(out("whole")));
      expect_whole(report, tiny, o.out, 4);
    }
  }
}

// A limit on a file's size stands for a disk that is full.
TEST_F(QuantizeModelTest, AFullDiskLosesNothingThatWasDone) {
  TinyCheckpoint::bert().write(model());
  quantize_model(options("whole"));
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  QuantizeOptions o = options();
  o.layer_done = [&](const LayerReport& report, int64_t) {
    rlimit small = limit;
    small.rlim_cur = 2000;
    if (report.layer == 1) ::setrlimit(RLIMIT_FSIZE, &small);
  };
  expect_refused(o, "model-00003-of-00004.safetensors: there is no room for its ");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, before);
  std::vector<bool> resumed;
  o.layer_done = [&](const LayerReport& report, int64_t) { resumed.push_back(report.resumed); };
  quantize_model(o);
  EXPECT_EQ(resumed, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(contents(out()), contents(out("whole")));
}

// All layers are done: what is left are the small files, of which none may be cut short.
TEST_F(QuantizeModelTest, AFullDiskAtTheEndLeavesNoFileCutShort) {
  TinyCheckpoint::bert().write(model());
  std::ofstream(model() / "tokenizer.json") << std::string(100'000, ' ');
  quantize_model(options("whole"));
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  QuantizeOptions o = options();
  o.layer_done = [&](const LayerReport& report, int64_t) {
    rlimit small = limit;
    small.rlim_cur = 50'000;
    if (report.layer == 2) ::setrlimit(RLIMIT_FSIZE, &small);
  };
  expect_refused(o, "tokenizer.json' (File too large)");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, before);
  o.layer_done = {};
  quantize_model(o);
  EXPECT_EQ(contents(out()), contents(out("whole")));
}

TEST_F(QuantizeModelTest, ADamagedLayerIsDoneAgain) {
  struct Killed {};
  TinyCheckpoint::bert().write(model());
  quantize_model(options("whole"));
  QuantizeOptions o = options();
  o.layer_done = [&](const LayerReport& report, int64_t) {
    if (report.layer == 1) throw Killed();
  };
  EXPECT_THROW(quantize_model(o), Killed);
  const fs::path shard = out() / ".graft-quantize" / "model-00001-of-00004.safetensors";
  std::string bytes = content(shard);
  bytes[bytes.size() - 100] ^= 1;
  std::ofstream(shard, std::ios::binary) << bytes;
  std::ofstream(out() / ".graft-quantize" / "x.safetensors.tmp1-1") << "left by a killed process";
  std::vector<bool> resumed;
  o.layer_done = [&](const LayerReport& report, int64_t) { resumed.push_back(report.resumed); };
  quantize_model(o);
  EXPECT_EQ(resumed, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(contents(out()), contents(out("whole")));
}

TEST_F(QuantizeModelTest, RefusesAnUnfinishedRunOfOtherSettings) {
  struct Killed {};
  TinyCheckpoint::bert().write(model());
  QuantizeOptions o = options();
  o.layer_done = [](const LayerReport&, int64_t) { throw Killed(); };
  EXPECT_THROW(quantize_model(o), Killed);
  o.layer_done = {};
  o.settings.bits = 8;
  expect_refused(o, "unfinished run with --bits 4, and now it is --bits 8; give the same");
  o = options();
  o.calibration.samples = 3;
  expect_refused(o, "with no --calibration --samples 12 --sequence 24, and now it is");
  TinyCheckpoint::bert().write(model());  // newer files
  expect_refused(options(), "from before the checkpoint in " + model().string() + " changed");
  std::ofstream(out() / ".graft-quantize" / "state.json") << "{";
  expect_refused(options(), "state.json: is not valid JSON: it ends too early");
  expect_refused(options(), "; remove " + (out() / ".graft-quantize").string());
}

TEST_F(QuantizeModelTest, RefusesFoldersInUse) {
  TinyCheckpoint::bert().write(model());
  fs::create_directories(out());
  std::ofstream(out() / "notes.txt") << "mine";
  QuantizeOptions o = options();
  EXPECT_THROW(quantize_model(o), GptqError);
  EXPECT_EQ(content(out() / "notes.txt"), "mine");
  o.out = out() / "notes.txt";
  EXPECT_THROW(quantize_model(o), GptqError);
  const auto before = contents(model());
  for (const std::string& name : {"", "/", "/../model", "/deeper/still", "/./"}) {
    o.out = model().string() + name;
    EXPECT_THROW(quantize_model(o), GptqError) << o.out;
  }
  fs::create_symlink(model(), folder_ / "link");
  o.out = folder_ / "link";
  EXPECT_THROW(quantize_model(o), GptqError);
  o.out = fs::relative(model());
  EXPECT_THROW(quantize_model(o), GptqError);
  o.out = "";
  expect_refused(o, "--out '' is empty");
  EXPECT_EQ(contents(model()), before);
  // The work folder of a run that did nothing makes no folder of other files this tool's own.
  fs::create_directories(out() / ".graft-quantize");
  o.out = out();
  EXPECT_THROW(quantize_model(o), GptqError);
  EXPECT_EQ(content(out() / "notes.txt"), "mine");
  o.out = out("busy");
  o.layer_done = [&](const LayerReport& report, int64_t) {
    if (report.layer == 0) expect_refused(options("busy"), "another process is quantising");
  };
  quantize_model(o);
}

TEST_F(QuantizeModelTest, RefusesBadWeights) {
  TinyCheckpoint tiny = TinyCheckpoint::bert();
  const std::string name = "encoder.layer.2.output.dense.weight";
  tiny.tensors[name][3][4] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(tiny, "'" + name + "' holds NaN or Inf");
  tiny.tensors[name] = at::zeros({32, 63});
  expect_refused(tiny, "'" + name + "' is Float [32, 63]; config.json asks for");
  tiny.tensors[name] = at::zeros({32, 64}, at::kInt);
  expect_refused(tiny, "'" + name + "' is Int [32, 64]");
  tiny.tensors.erase(name);
  expect_refused(tiny, "has no tensor '" + name + "'");
  tiny = TinyCheckpoint::bert();
  tiny.tensors.erase("encoder.layer.2.output.LayerNorm.bias");
  expect_refused(tiny, "has no tensor 'encoder.layer.2.output.LayerNorm.bias'");
  tiny = TinyCheckpoint::bert();
  tiny.tensors.erase("encoder.layer.0.output.LayerNorm.bias");
  expect_refused(tiny, "encoder.layer.0.output.LayerNorm.bias");
  tiny = TinyCheckpoint::bert();
  tiny.tensors["encoder.layer.1.output.scale"] = at::ones({32});
  expect_refused(tiny, "tensor 'encoder.layer.1.output.scale' is not known to this tool");
  tiny = TinyCheckpoint::qwen2();
  for (const char* layer : {"0", "1", "2"}) {
    tiny.tensors["model.layers." + std::string(layer) + ".self_attn.o_proj.bias"] = at::ones({32});
  }
  expect_refused(tiny, "tensor 'model.layers.0.self_attn.o_proj.bias' is not known");
  tiny = TinyCheckpoint::bert();
  tiny.tensors["embeddings.LayerNorm.weight"].fill_(1e30);
  tiny.tensors["encoder.layer.0.attention.self.value.weight"].fill_(1e20);
  expect_refused(tiny, "NaN or Inf");  // finite weights, infinite activations
}

TEST_F(QuantizeModelTest, RefusesBadFiles) {
  const TinyCheckpoint tiny = TinyCheckpoint::qwen2();
  tiny.write(model(), 3);
  fs::resize_file(model() / "part-1.safetensors", 5000);
  expect_refused(options(), "part-1.safetensors");
  tiny.write(model(), 3);
  fs::remove(model() / "part-2.safetensors");
  expect_refused(options(), "part-2.safetensors: cannot be opened");
  fs::create_symlink("/no/such/blob", model() / "part-2.safetensors");
  expect_refused(options(), "is a symbolic link to /no/such/blob, which is not there");
  tiny.write(model(), 3);
  auto twice = lab::read_safetensors(model() / "part-0.safetensors");
  std::vector<std::pair<std::string, Tensor>> more(twice.tensors.begin(), twice.tensors.end());
  const auto second = lab::read_safetensors(model() / "part-1.safetensors");
  more.emplace_back(*second.tensors.begin());
  lab::write_safetensors(model() / "part-0.safetensors", more);
  expect_refused(options(), "is twice in the checkpoint, in part-0.safetensors and in part-1");
  // From one type in the header to one that the reader does not know, in as many bytes.
  fs::remove_all(model());
  tiny.write(model());
  std::string bytes = content(model() / "model.safetensors");
  bytes.replace(bytes.find("\"BF16\""), 6, "\"F8_X\"");
  std::ofstream(model() / "model.safetensors", std::ios::binary) << bytes;
  expect_refused(options(), "F8_X");
  fs::remove(model() / "model.safetensors");
  expect_refused(options(), "holds neither model.safetensors.index.json nor model.safetensors");
  QuantizeOptions o = options();
  o.model = folder_ / "nowhere";
  expect_refused(o, "does not exist");
}

TEST_F(QuantizeModelTest, RefusesOtherModels) {
  TinyCheckpoint tiny = TinyCheckpoint::bert();
  tiny.config["model_type"] = "t5";
  expect_refused(tiny,
                 "model_type is \"t5\"; this tool quantises \"bert\", \"llama\" and \"qwen2\"");
  tiny = TinyCheckpoint::bert();
  tiny.config["quantization_config"] = {{"bits", 4}};
  expect_refused(tiny, "quantised already");
  tiny.config["quantization_config"] = nullptr;  // as if it were not there
  fs::remove_all(model());
  tiny.write(model());
  EXPECT_NO_THROW(quantize_model(options("null")));
  std::ofstream(model() / "config.json") << "{";
  expect_refused(options(), "config.json: is not valid JSON: it ends too early");
}

TEST_F(QuantizeModelTest, RefusesSettingsThatFitNoLayer) {
  TinyCheckpoint::bert().write(model());
  QuantizeOptions o = options();
  o.settings.group = 24;
  expect_refused(o, "does not divide");
  o = options();
  o.targets = "nothing";
  expect_refused(o, "matches no linear layer; their names are such as 'encoder.layer.0.");
  o.targets = "(";
  expect_refused(o, "not a regular expression");
  o = options();
  o.available_memory = 1000;
  expect_refused(o, "but there are 1");
  EXPECT_FALSE(fs::exists(out()));  // known ahead
  o.available_memory = -1;
  o.model = out("qwen2");
  TinyCheckpoint::qwen2().write(o.model);
  o.calibration.samples = int64_t{1} << 30;  // random ids, were they made, of 200 GB
  expect_refused(o, "lower --samples or --sequence");
}

TEST_F(QuantizeModelTest, ASingularHessianIsDampenedAndDeadInputsAreCounted) {
  TinyCheckpoint tiny = TinyCheckpoint::bert();
  // Two inputs of layer 0's attention are always 0.
  tiny.tensors["embeddings.LayerNorm.weight"].slice(0, 0, 2).zero_();
  tiny.tensors["embeddings.LayerNorm.bias"].slice(0, 0, 2).zero_();
  tiny.write(model());
  QuantizeOptions o = options();
  o.settings.dampening = 0;
  o.calibration.samples = 1;  // far fewer tokens than columns
  const QuantizeReport report = quantize_model(o);
  const LinearReport& query = report.layers[0].linears[0];
  EXPECT_EQ(query.dead_columns, 2);
  EXPECT_GT(query.dampening, 0);
  const Tensor weight = unpacked_weight(lab::read_checkpoint(out()), query.module, 4);
  EXPECT_EQ(weight.slice(1, 0, 2).abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace graft::workloads::gptq
