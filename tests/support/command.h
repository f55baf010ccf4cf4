// Runs the graft command as a process, for tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace graft::test {

struct Ran {
  int code = -1;
  std::string out;  ///< stdout and stderr together
};

/// `build/graft args` by the shell, after `before`, with nothing on its stdin.
Ran graft(const std::string& args, const std::string& before = "");

/// Exit code 1, and `text` in what it says.
void expect_usage_error(const std::string& args, const std::string& text);

/// A folder that goes with the test.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  size_t size() const;  ///< entries in it

 private:
  std::filesystem::path path_;
};

}  // namespace graft::test
