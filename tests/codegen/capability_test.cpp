// The same tests at the other vector widths that this host has.
#include <ATen/Version.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "codegen/backend.h"

namespace graft::test {
namespace {

TEST(Capability, OtherWidthsPassToo) {
  if (std::getenv("ATEN_CPU_CAPABILITY")) GTEST_SKIP() << "runs inside of itself";
  int own = codegen::host_target(1).lanes;
  for (auto [name, lanes] : {std::pair{"avx2", 8}, std::pair{"default", 4}}) {
    if (lanes >= own) continue;
    std::string self = std::filesystem::canonical("/proc/self/exe").string();
    // The source backend's test starts the system's compiler for every kernel: at the host's width.
    std::string command = std::string("ATEN_CPU_CAPABILITY=") + name + " '" + self +
                          "' --gtest_brief=1 --gtest_filter=-Source.* 1>&2";
    EXPECT_EQ(std::system(command.c_str()), 0) << name;
  }
}

TEST(Capability, BackendSaysWhatItIs) {
  const ir::Target target = codegen::host_target(1);
  std::string text = codegen::host_backend().describe(target);
  EXPECT_NE(text.find("LLVM"), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(target.lanes * 32) + "-bit"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::test
