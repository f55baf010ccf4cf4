// What calibration files may hold, and what they may not.
#include "quantizer/model/calibration.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "quantizer/model/error.h"
#include "support/tiny_checkpoints.h"

namespace graft::quantizer {
namespace {

namespace fs = std::filesystem;

class CalibrationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("graft_calibration_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Architecture> make(const test::TinyCheckpoint& tiny) {
    tiny.write(folder_);
    return read_architecture(Checkpoint(folder_));
  }
  Calibration read(const Architecture& model, const std::string& name, const std::string& text,
                   int64_t samples = 8, int64_t sequence = 4) const {
    CalibrationOptions options;
    options.samples = samples;
    options.sequence = sequence;
    if (!name.empty()) {
      options.file = folder_ / name;
      std::ofstream(options.file) << text;
    }
    return read_calibration(options, model, folder_);
  }
  void expect_refused(const Architecture& model, const std::string& name, const std::string& text,
                      const std::string& part) const {
    try {
      read(model, name, text);
      ADD_FAILURE() << "accepted; expected an error with: " << part;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  fs::path folder_;
};

std::vector<std::vector<int64_t>> rows(const Calibration& calibration) {
  std::vector<std::vector<int64_t>> out;
  for (const at::Tensor& batch : calibration.batches) {
    for (int64_t i = 0; i < batch.size(0); ++i) {
      const int64_t* row = batch.const_data_ptr<int64_t>() + i * batch.size(1);
      out.emplace_back(row, row + batch.size(1));
    }
  }
  return out;
}

using Rows = std::vector<std::vector<int64_t>>;

TEST_F(CalibrationTest, TextForBert) {
  const auto model = make(test::TinyCheckpoint::bert());
  // Ids by vocab.txt's lines: [CLS] 2, [SEP] 3, a 5, b 6, c 7.
  EXPECT_EQ(rows(read(*model, "x.txt", "a\n\n  \nb c\r\nA b C a b c\n")),
            (Rows{{2, 6, 7, 3}, {2, 5, 6, 3}, {2, 5, 3}}));
  std::string longer;  // than what is cut at a time
  for (int i = 0; i < 50'000; ++i) longer += "a  b\t";
  EXPECT_EQ(rows(read(*model, "x.txt", longer, 8, 64)),
            rows(read(*model, "x.txt", longer.substr(0, 1000), 8, 64)));
  EXPECT_EQ(read(*model, "", "").source, "8 built-in English sentences");
  EXPECT_NE(read(*model, "", "").warning, "");
  EXPECT_EQ(read(*model, "x.txt", "a").warning, "");
  expect_refused(*model, "x.txt", "\n\n", "holds no samples");
  expect_refused(*model, "x.txt", "a\ncaf\xe9 b", "x.txt: is not UTF-8 at byte 5; ");
  EXPECT_EQ(read(*model, "x.txt", "a \xef\xbf\xbd b").samples, 1);  // U+FFFD is a character
  fs::remove(folder_ / "vocab.txt");
  expect_refused(*model, "x.txt", "a", "vocab.txt: is missing");
}

TEST_F(CalibrationTest, BytesAndIdsForDecoders) {
  const auto model = make(test::TinyCheckpoint::qwen2());
  EXPECT_EQ(rows(read(*model, "x.txt", "abcdefghi")),
            (Rows{{97, 98, 99, 100}, {101, 102, 103, 104}}));
  EXPECT_EQ(rows(read(*model, "x.json", "[[1, 2], [3, 4, 5, 6, 7]]")),
            (Rows{{3, 4, 5, 6}, {1, 2}}));
  EXPECT_EQ(rows(read(*model, "x.json", "[1, 2, 3, 4, 5, 6]")), (Rows{{1, 2, 3, 4}, {5, 6}}));
  EXPECT_EQ(rows(read(*model, "x.json", R"({"input_ids": [[9]], "attention_mask": [[1]]})")),
            (Rows{{9}}));
  // Evenly spread over a longer file.
  EXPECT_EQ(rows(read(*model, "x.json", "[[0], [1], [2], [3], [4], [5]]", 3)),
            (Rows{{0}, {2}, {4}}));
  expect_refused(*model, "x.json", "[[256]]",
                 "token id 256 is not in the model's vocabulary of 256");
  expect_refused(*model, "x.json", "[[-1]]", "token id -1");
  expect_refused(*model, "x.json", "[[1.5]]", "holds 1.5 where a token id is expected");
  expect_refused(*model, "x.json", "[[1], 2]", "mixes lists and numbers");
  expect_refused(*model, "x.json", "{\"ids\": []}", "expected token ids");
  expect_refused(*model, "x.json", "[[1]", "is not valid JSON");
  expect_refused(*model, "x.json", "[[]]", "holds no samples");
  fs::create_directories(folder_ / "folder");
  CalibrationOptions options;
  options.file = folder_ / "folder";
  EXPECT_THROW(read_calibration(options, *model, folder_), std::runtime_error);
  options.file = folder_ / "nowhere.txt";
  EXPECT_THROW(read_calibration(options, *model, folder_), std::runtime_error);
  options.file = "/dev/zero";
  EXPECT_THROW(read_calibration(options, *model, folder_), std::runtime_error);
}

TEST_F(CalibrationTest, NumbersAsTextForALargerVocabulary) {
  test::TinyCheckpoint tiny = test::TinyCheckpoint::qwen2();
  tiny.config["vocab_size"] = 300;
  tiny.tensors["model.embed_tokens.weight"] = at::zeros({300, 32}, at::kBFloat16);
  tiny.tensors["lm_head.weight"] = at::zeros({300, 32}, at::kBFloat16);
  const auto model = make(tiny);
  EXPECT_EQ(rows(read(*model, "x.txt", "1, 2 299\n7\n")), (Rows{{1, 2, 299}, {7}}));
  expect_refused(*model, "x.txt", "a text", "the tokenizer of this decoder is not known here");
  expect_refused(*model, "x.txt", "1 300", "token id 300");
}

TEST_F(CalibrationTest, RandomIdsAreTheSameEachTimeAndWarnedOf) {
  const auto model = make(test::TinyCheckpoint::qwen2());
  const Calibration one = read(*model, "", ""), two = read(*model, "", "");
  EXPECT_EQ(rows(one), rows(two));
  EXPECT_EQ(one.samples, 8);
  EXPECT_EQ(one.tokens, 32);
  EXPECT_NE(one.warning.find("--calibration FILE"), std::string::npos);
  EXPECT_THROW(read(*model, "", "", 8, 65), GptqError);  // longer than the model's positions
  EXPECT_EQ(read(*model, "", "", 2, 0).batches.front().size(1), 64);
}

}  // namespace
}  // namespace graft::quantizer
