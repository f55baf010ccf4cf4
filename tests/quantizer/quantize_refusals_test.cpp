// Input that must be refused before anything has its final name.
#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "formats/safetensors_writer.h"
#include "quantizer/quantize_fixture.h"

namespace graft::quantizer {
namespace {

namespace fs = std::filesystem;
using at::Tensor;
using test::TinyCheckpoint;

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
  for (const char* name : {"", "/", "/../model", "/deeper/still", "/./"}) {
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
  auto twice = formats::read_safetensors(model() / "part-0.safetensors");
  std::vector<std::pair<std::string, Tensor>> more(twice.tensors.begin(), twice.tensors.end());
  const auto second = formats::read_safetensors(model() / "part-1.safetensors");
  more.emplace_back(*second.tensors.begin());
  formats::write_safetensors(model() / "part-0.safetensors", more);
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

}  // namespace
}  // namespace graft::quantizer
