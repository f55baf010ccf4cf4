// The small decoder that is trained here: a few steps of a one-layer model on a made-up text.
#include "workloads/decoder/tiny.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>

#include "workloads/decoder/tiny_training.h"

namespace graft::workloads::decoder {
namespace {

namespace fs = std::filesystem;

class TinyDecoderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("graft_tiny_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "texts");
    for (const char* file :
         {"Apache-2.0", "Artistic", "BSD", "CC0-1.0", "GFDL-1.2", "GFDL-1.3", "GPL-1", "GPL-2",
          "GPL-3", "LGPL-2", "LGPL-2.1", "LGPL-3", "MPL-1.1", "MPL-2.0"}) {
      std::ofstream(folder_ / "texts" / file) << "You may copy " << file << ", and change it.\n";
    }
    settings_.layers = 1;
    settings_.hidden = 16;
    settings_.heads = 2;
    settings_.kv_heads = 1;
    settings_.intermediate = 24;
    settings_.context = 16;
    settings_.batch = 8;
    settings_.steps = 40;
    settings_.learning_rate = 0.02;
    settings_.texts = folder_ / "texts";
  }
  void TearDown() override { fs::remove_all(folder_); }

  TinyResult train_into(const char* name, std::ostream* log = nullptr) const {
    return train_tiny(folder_ / name, settings_, log);
  }
  std::string error_of_training(const char* name = "model") const {
    try {
      train_into(name);
      return "accepted";
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  fs::path folder_;
  TinySettings settings_;
};

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_F(TinyDecoderTest, LearnsAndIsSavedAsItWasTrained) {
  std::ostringstream log;
  const TinyResult result = train_into("model", &log);
  ASSERT_EQ(result.losses.size(), 40);
  EXPECT_FALSE(result.reused);
  EXPECT_NE(log.str().find("[10/10] training a small decoder, step 36 of 40"), std::string::npos)
      << log.str();
  const auto mean = [](auto first, auto last) {
    return std::accumulate(first, last, 0.0) / static_cast<double>(last - first);
  };
  EXPECT_GT(mean(result.losses.begin(), result.losses.begin() + 5), 4.5);  // of ln 256, 5.5
  EXPECT_LT(mean(result.losses.end() - 5, result.losses.end()), 2.5);

  const Decoder saved = Decoder::read(folder_ / "model");
  const at::Tensor held_out = byte_ids(tiny_text(settings_).held_out);
  EXPECT_LT(perplexity(saved, held_out), 20);
  // The same training without the folder between.
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const at::Generator generator = at::detail::createCPUGenerator(settings_.seed);
  Decoder trained = random_decoder(saved.config, generator);
  EXPECT_EQ(train(trained, settings_, byte_ids(tiny_text(settings_).train), generator, nullptr),
            result.losses);
  at::set_num_threads(threads);
  const at::Tensor ids = held_out.slice(0, 0, 16).unsqueeze(0);
  EXPECT_TRUE(at::equal(trained.forward(ids), saved.forward(ids)));
  EXPECT_FALSE(trained.outer.head.requires_grad());
}

TEST_F(TinyDecoderTest, TheSameSettingsGiveTheSameBits) {
  settings_.steps = 8;
  train_into("one");
  train_into("two");
  EXPECT_EQ(bytes_of(folder_ / "one" / "model.safetensors"),
            bytes_of(folder_ / "two" / "model.safetensors"));
  settings_.seed = 1;
  train_into("three");
  EXPECT_NE(bytes_of(folder_ / "one" / "model.safetensors"),
            bytes_of(folder_ / "three" / "model.safetensors"));
}

TEST_F(TinyDecoderTest, IsReusedWhenNothingDiffers) {
  settings_.steps = 3;
  const TinyResult first = train_into("model");
  const auto time = fs::last_write_time(folder_ / "model" / "model.safetensors");
  const TinyResult again = train_into("model");
  EXPECT_TRUE(again.reused);
  EXPECT_EQ(again.losses, first.losses);
  EXPECT_EQ(again.seconds, first.seconds);
  EXPECT_EQ(fs::last_write_time(folder_ / "model" / "model.safetensors"), time);

  settings_.steps = 4;
  EXPECT_FALSE(train_into("model").reused);
  EXPECT_EQ(train_into("model").losses.size(), 4);
  std::ofstream(settings_.texts / "BSD") << "You may not copy it.\n";
  EXPECT_FALSE(train_into("model").reused);
  // Half a file, as a full disk leaves it.
  fs::resize_file(folder_ / "model" / "model.safetensors", 5000);
  EXPECT_FALSE(train_into("model").reused);
  EXPECT_TRUE(train_into("model").reused);
  std::ofstream(folder_ / "model" / "tiny.json") << "{";
  EXPECT_FALSE(train_into("model").reused);
  size_t left = 0;  // the texts and the model, nothing temporary
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++left;
  EXPECT_EQ(left, 2);
}

TEST_F(TinyDecoderTest, RefusesWhatCannotBeTrained) {
  settings_.steps = 1;
  const auto with = [&](auto TinySettings::* member, auto value) {
    const TinySettings before = settings_;
    settings_.*member = value;
    const std::string error = error_of_training();
    settings_ = before;
    return error;
  };
  const std::pair<std::string, const char*> rows[] = {
      {with(&TinySettings::layers, 0), "layers is 0; expected 1 to 1000000"},
      {with(&TinySettings::steps, -1), "steps is -1"},
      {with(&TinySettings::hidden, 18), "hidden is 18; expected a multiple of twice heads, 4"},
      {with(&TinySettings::kv_heads, 3), "kv_heads is 3; expected a divisor of heads, 2"},
      {with(&TinySettings::learning_rate, 0.0), "learning_rate is 0"},
      {with(&TinySettings::context, 100000), "context is 100000; expected less than the texts'"},
      {with(&TinySettings::texts, folder_), "Apache-2.0: cannot be read"},
  };
  for (const auto& [error, part] : rows) EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_FALSE(fs::exists(folder_ / "model"));

  EXPECT_NE(error_of_training("texts").find("has files, but no tiny.json"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "texts" / "BSD"));
  EXPECT_NE(error_of_training("texts/BSD").find("is not a folder"), std::string::npos);
  fs::remove(settings_.texts / "MPL-2.0");
  const std::string missing = error_of_training();
  EXPECT_NE(missing.find((settings_.texts / "MPL-2.0").string()), std::string::npos) << missing;
  EXPECT_NE(missing.find("base-files"), std::string::npos) << missing;
}

TEST(TinyBytesTest, AreTokens) {
  const std::string text("\0a\xff\n", 4);
  const at::Tensor ids = byte_ids(text);
  EXPECT_EQ(ids.sizes(), (at::IntArrayRef{4}));
  EXPECT_EQ(ids[2].item<int64_t>(), 255);
  EXPECT_EQ(byte_text(ids), text);
  EXPECT_EQ(byte_text(byte_ids("")), "");
}

}  // namespace
}  // namespace graft::workloads::decoder
