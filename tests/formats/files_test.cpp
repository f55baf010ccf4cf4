// What is said of files that are not what was expected.
#include "formats/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

namespace graft::formats {
namespace {

namespace fs = std::filesystem;

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void expect_refused(const fs::path& file, const std::string& part) const {
    try {
      read_json(file);
      ADD_FAILURE() << "accepted; expected an error with: " << part;
    } catch (const FileError& error) {
      EXPECT_EQ(std::string(error.what()).find(file.string() + ": "), 0u) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("graft_files_" + std::to_string(::getpid()));
};

TEST_F(FilesTest, SaysWhatIsThereInstead) {
  expect_refused(folder_, "is a folder; expected a file");
  expect_refused(folder_ / "absent", "cannot be opened: No such file or directory");
  fs::create_symlink("/no/such/blob", folder_ / "link");
  expect_refused(folder_ / "link", "is a symbolic link to /no/such/blob, which is not there");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect_refused(folder_ / "pipe", "is a device or a pipe; expected a regular file");
  write_file(folder_ / "cut", R"({"a": [1, )");
  expect_refused(folder_ / "cut", "is not valid JSON: it ends too early, after byte 10; ");
  write_file(folder_ / "broken", R"({"a": x, "b": 1})");
  expect_refused(folder_ / "broken", "is not valid JSON at byte 7 of 16; ");
  write_file(folder_ / "huge", "[1e999]");
  expect_refused(folder_ / "huge", "holds a number that is too large");
  write_file(folder_ / "pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:ab\n");
  expect_refused(folder_ / "pointer", "run 'git lfs pull'");
}

TEST_F(FilesTest, WritesAndReadsBack) {
  write_file(folder_ / "x.json", R"({"a": 1})");
  EXPECT_EQ(read_file(folder_ / "x.json"), R"({"a": 1})");
  EXPECT_EQ(read_json(folder_ / "x.json")["a"], 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  try {
    write_file(folder_ / "no" / "x.json", "{}");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("No such file or directory"), std::string::npos);
  }
}

}  // namespace
}  // namespace graft::formats
