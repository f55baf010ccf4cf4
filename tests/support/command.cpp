#include "support/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace graft::test {

namespace fs = std::filesystem;

Ran graft(const std::string& args, const std::string& before) {
  const std::string program = GRAFT_BINARY_DIR "/graft";
  if (!fs::exists(program)) return {-1, program + " is not there: build the target graft_cli"};
  FILE* pipe = popen((before + program + ' ' + args + " 2>&1 < /dev/null").c_str(), "r");
  Ran ran;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) ran.out += static_cast<char>(c);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

void expect_usage_error(const std::string& args, const std::string& text) {
  const Ran ran = graft(args);
  EXPECT_EQ(ran.code, 1) << args << '\n' << ran.out;
  EXPECT_NE(ran.out.find(text), std::string::npos) << args << '\n' << ran.out;
}

Folder::Folder()
    : path_(fs::temp_directory_path() / ("graft_cli_test_" + std::to_string(getpid()))) {
  fs::create_directories(path_);
}
Folder::~Folder() {
  fs::remove_all(path_);
}
size_t Folder::size() const {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
}

}  // namespace graft::test
