// What graft quantize wrote, read to generate with, against the weights that its codes stand for;
// and graft generate from outside.
#include <fstream>
#include <memory>

#include "quantizer/model/read_generator.h"
#include "quantizer/quantize_fixture.h"
#include "support/command.h"
#include "workloads/decoder/names.h"

namespace graft::quantizer {
namespace {

using at::Tensor;

class GeneratorTest : public QuantizeModelTest {
 protected:
  /// The logits behind a prompt, of the folder as it is.
  static Tensor logits_of(const std::filesystem::path& folder, const GeneratorOptions& options) {
    const auto model =
        std::make_shared<const workloads::decoder::Generator>(read_generator(folder, options));
    return workloads::decoder::Session(model, 8, false)
        .feed(at::tensor({1, 70, 200, 5}, at::kLong));
  }
};

TEST_F(GeneratorTest, ReadsWhatQuantizeWrote) {
  test::TinyCheckpoint tiny = test::TinyCheckpoint::qwen2();
  tiny.write(model());
  int run = 0;
  for (const int bits : {3, 4, 8})
    for (const bool symmetric : {true, false})
      for (const bool ordered : {false, true}) {
        QuantizeOptions o = options("out" + std::to_string(run++));
        o.settings.bits = bits;
        o.settings.symmetric = symmetric;
        o.settings.act_order = ordered;
        quantize_model(o);
        // The same model with the numbers in place of the codes.
        const formats::Safetensors file = formats::read_checkpoint(o.out);
        test::TinyCheckpoint numbers = tiny;
        const auto config = workloads::decoder::Config::read(model() / "config.json");
        for (const auto& name : workloads::decoder::linears(config))
          numbers.tensors[name.tensor] = unpacked_weight(file, name.module(), bits);
        numbers.write(out("numbers" + std::to_string(run)));
        const Tensor expected = logits_of(out("numbers" + std::to_string(run)), {});
        EXPECT_TRUE(at::allclose(logits_of(o.out, {}), expected, 1e-4, 1e-5))
            << bits << " bits" << (symmetric ? ", symmetric" : "") << (ordered ? ", ordered" : "");
      }
}

TEST_F(GeneratorTest, PlainWeightsBecomeCodesWhereAskedFor) {
  test::TinyCheckpoint::qwen2().write(model());
  const Tensor plain = logits_of(model(), {});
  const Tensor eight = logits_of(model(), {.bits = 8, .group = 16});
  EXPECT_FALSE(at::equal(plain, eight));
  EXPECT_TRUE(at::allclose(eight, plain, 0.1, 0.1));
  (void)logits_of(model(), {.bits = 4, .group = 24});  // divides no layer's columns
}

TEST_F(GeneratorTest, SaysWhatDoesNotFit) {
  test::TinyCheckpoint::qwen2().write(model());
  quantize_model(options());
  nlohmann::json config = nlohmann::json::parse(content(out() / "config.json"));
  const auto refused = [&](const nlohmann::json& changed, const std::string& part) {
    std::ofstream(out() / "config.json") << changed.dump();
    try {
      read_generator(out());
      ADD_FAILURE() << "accepted; expected an error with: " << part;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  nlohmann::json other = config;
  other["quantization_config"]["format"] = "gptq";
  refused(other, "pack-quantized");
  other = config;
  other["quantization_config"]["config_groups"].begin()->at("weights")["num_bits"] = 5;
  refused(other, "num_bits is 5");
  other = config;
  other["quantization_config"]["config_groups"].begin()->at("weights")["num_bits"] = 8;
  refused(other, "packed numbers");
  other = config;
  other["quantization_config"]["config_groups"].begin()->at("weights")["num_bits"] = "four";
  refused(other, "num_bits is \"four\"");
  other = config;
  other["quantization_config"] = 3;
  refused(other, "pack-quantized");
  other = config;
  other.erase("quantization_config");
  refused(other, "has no quantization_config");
}

TEST_F(GeneratorTest, TheCommandContinuesAPrompt) {
  test::TinyCheckpoint::qwen2().write(model());
  const std::string folder = model().string();
  const test::Ran ran = test::graft("generate " + folder +
                                    " --prompt 'Some text' --tokens 12 --compare --repeat 3 "
                                    "--threads 1 --json " +
                                    out("run.json").string());
  EXPECT_EQ(ran.code, 0) << ran.out;
  for (const char* text : {"Some text", "eager", "compiled", "ms per token", "of eager's time"})
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << '\n' << ran.out;
  const auto json = nlohmann::json::parse(content(out("run.json")));
  ASSERT_EQ(json["runs"].size(), 2U);
  EXPECT_EQ(json["runs"][0]["tokens"].size(), 12U);
  EXPECT_EQ(json["prompt"].size(), 9U);
  EXPECT_GT(json["runs"][1]["compiled"]["layer"]["plan_hits"], 0);
  const test::Ran ids = test::graft("generate " + folder + " --ids 1,2,3 --tokens 3 --bits 4");
  EXPECT_EQ(ids.code, 0) << ids.out;
  test::expect_usage_error("generate " + folder + " --ids 1,2x3", "--ids: came");
  test::expect_usage_error("generate " + folder + " --ids 1,2,", "behind each comma");
  test::expect_usage_error("generate " + folder + " --ids ''", "--ids: came ''");
  test::expect_usage_error("generate " + folder + " --group 16", "--bits");
  test::expect_usage_error("generate " + folder + " --ids 1,999 --tokens 3",
                           "the vocabulary has 256");
  test::expect_usage_error("generate " + folder + " --tokens 1000000", "--tokens");
  test::expect_usage_error("generate " + folder + " --prompt ''", "--prompt");
  test::expect_usage_error("generate " + folder + "/nothing", "nothing");
}

}  // namespace
}  // namespace graft::quantizer
