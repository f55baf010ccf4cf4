// The writer against the reader, against what may not be written, and against a disk that is full.
#include "formats/safetensors_writer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace graft::formats {
namespace {

namespace fs = std::filesystem;

class SafetensorsWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("graft_writer_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "x.safetensors"; }
  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  template <class F>
  void expect_refused(const F& run, const std::string& part) const {
    try {
      run();
      ADD_FAILURE() << "accepted; expected an error with: " << part;
    } catch (const SafetensorsError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(part), text.npos) << text;
      EXPECT_EQ(text.find(file().string()), 0u) << text;
    }
  }

  fs::path folder_;
};

TEST_F(SafetensorsWriterTest, EveryTypeComesBack) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const at::ScalarType type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt,
                                    at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    tensors.emplace_back(std::string("tensor \"") + c10::toString(type) + "\" \xc3\xa9",
                         at::arange(15).view({3, 5}).to(type));
  }
  tensors.emplace_back("scalar", at::scalar_tensor(2.5));
  tensors.emplace_back("empty", at::empty({0, 3}));
  tensors.emplace_back("transposed", at::arange(6.0).view({2, 3}).t());
  write_safetensors(file(), tensors, {{"format", "pt"}});
  const Safetensors read = read_safetensors(file());
  EXPECT_EQ(read.tensors.size(), tensors.size());
  EXPECT_EQ(read.metadata.at("format"), "pt");
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(at::equal(read.get(name, tensor.scalar_type(), tensor.sizes()), tensor)) << name;
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(SafetensorsWriterTest, AFileOfNoTensors) {
  write_safetensors(file(), {});
  EXPECT_TRUE(read_safetensors(file()).tensors.empty());
}

TEST_F(SafetensorsWriterTest, AddsInAnyOrderAndKeepsTheOldFileUntilTheEnd) {
  write_safetensors(file(), {{"old", at::ones({2})}});
  {
    SafetensorsWriter writer(file(), {{"a", at::kFloat, {2}}, {"b", at::kInt, {3}}});
    writer.add("b", at::arange(3, at::kInt));
    writer.add("a", at::ones({2}));
    EXPECT_TRUE(read_safetensors(file()).tensors.contains("old"));
    writer.finish();
    EXPECT_TRUE(read_safetensors(file()).tensors.contains("b"));
  }
  {
    const SafetensorsWriter unfinished(file(), {{"c", at::kFloat, {2}}});
  }
  EXPECT_FALSE(read_safetensors(file()).tensors.contains("c"));
  EXPECT_EQ(files(), 1u);  // the unfinished one is gone
}

TEST_F(SafetensorsWriterTest, RefusesWhatIsWrong) {
  using Declared = SafetensorsWriter::Declared;
  const auto declare = [&](std::vector<Declared> list) {
    return [this, list] { SafetensorsWriter(file(), list); };
  };
  expect_refused(declare({{"a", at::kFloat, {2}}, {"a", at::kInt, {2}}}), "declared twice");
  expect_refused(declare({{"__metadata__", at::kFloat, {2}}}), "cannot be named");
  expect_refused(declare({{"a", at::kComplexFloat, {2}}}), "has no name for");
  expect_refused(declare({{"a", at::kFloat, {-1}}}), "negative sizes");
  expect_refused(declare({{"a", at::kFloat, {int64_t{1} << 40, int64_t{1} << 40}}}), "2^64 bytes");
  expect_refused(declare({{"\xff", at::kFloat, {2}}}), "not UTF-8");
  expect_refused([&] { write_safetensors(file(), {{"a", at::Tensor()}}); }, "is undefined");

  SafetensorsWriter writer(file(), {{"a", at::kFloat, {2}}, {"b", at::kFloat, {2}}});
  expect_refused([&] { writer.add("c", at::ones({2})); }, "\"c\" was not declared");
  expect_refused([&] { writer.add("a", at::ones({3})); }, "declared as Float [2]");
  expect_refused([&] { writer.add("a", at::ones({2}, at::kInt)); }, "is Int [2]");
  writer.add("a", at::ones({2}));
  expect_refused([&] { writer.add("a", at::ones({2})); }, "was added already");
  expect_refused([&] { writer.finish(); }, "\"b\" was declared, but never added");
  writer.add("b", at::ones({2}));
  writer.finish();
  expect_refused([&] { writer.finish(); }, "finished already");
  expect_refused([&] { writer.add("b", at::ones({2})); }, "after the file was finished");
}

TEST_F(SafetensorsWriterTest, AFolderThatIsNotThere) {
  try {
    write_safetensors(folder_ / "no" / "x.safetensors", {{"a", at::ones({2})}});
    ADD_FAILURE();
  } catch (const SafetensorsError& error) {
    EXPECT_NE(std::string(error.what()).find("No such file or directory"), std::string::npos);
  }
}

// A limit on a file's size stands for a disk that is full: the same calls fail, with another errno.
TEST_F(SafetensorsWriterTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  write_safetensors(file(), {{"old", at::ones({2})}});
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_refused([&] { write_safetensors(file(), {{"new", at::ones({10000})}}); },
                 "there is no room for its 40");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, before);
  EXPECT_TRUE(read_safetensors(file()).tensors.contains("old"));
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace graft::formats
