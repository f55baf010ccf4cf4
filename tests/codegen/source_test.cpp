// The backend that prints C++: every kernel of these tests and every node has the bits of LLVM's
// code, and the text reads as the program does.
#include "codegen/source/source.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "codegen/kernels.h"
#include "codegen/system_compiler.h"

namespace graft::test {
namespace {

using ir::StatementBuilder;
using ir::Value;

std::string source_of(const KernelMaker& k) {
  const ir::Kernel* kernel = &k.kernel;
  return codegen::compile_source({&kernel, 1}, {}).bytes;
}

TEST(Source, ReadsAsTheProgramDoes) {
  KernelMaker k;
  StatementBuilder s({5, 100});
  Value x = s.load(k.storage(tame({5, 100}, at::kFloat))),
        w = s.load(k.storage(tame({100}, at::kFloat)));
  nest(k, s.store(k.storage(at::zeros({5, 100}, at::kBFloat16)), (x * w + 2.0).to(at::kBFloat16)),
       1, 1);
  std::string text = source_of(k);
  EXPECT_EQ(text.substr(text.find("\n// kernel")),
            R"(
// kernel  v0:5 grain 1
//   vector v1:100
//     %2[v0*100+v1] bf16 = bf16(((%0.f32[v0*100+v1] * %1[v1]) + 2))
extern "C" void graft_kernel_0([[maybe_unused]] const LaunchArgs* args, [[maybe_unused]] char* scratch, int64_t begin, int64_t end) {
  if (begin >= end) return;
)" + text.substr(text.find("  const int64_t n0")));
  EXPECT_NE(text.find(" = cast<bf16>(((p1["), std::string::npos) << text;
}

TEST(Source, WhatHasNoCppIsSaidByName) {
  KernelMaker k;
  ir::View x = k.storage(at::zeros({8}, at::kComplexFloat)),
           y = k.storage(at::zeros({8}, at::kComplexFloat));
  StatementBuilder s({8});
  nest(k, s.store(y, s.load(x)), 0, 0);
  try {
    source_of(k);
    FAIL() << "printed";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("ComplexFloat"), std::string::npos) << e.what();
  }
}

/// In a process of its own, that runs the other tests of this program and keeps their kernels.
TEST(Source, KernelsOfTheseTestsHaveLlvmsBits) {
  if (std::getenv("GRAFT_SOURCE")) GTEST_SKIP() << "runs inside of itself";
  std::string self = std::filesystem::canonical("/proc/self/exe").string();
  std::string command =
      "GRAFT_SOURCE=1 GRAFT_KERNELS=60 '" + self +
      "' --gtest_brief=1 --gtest_filter=-Source.*:Capability.*:Compile.*:Bind.* 1>&2";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

/// After all tests of that process.
class CompareSources : public testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("GRAFT_SOURCE")) keep_kernels();
  }
  void TearDown() override {
    if (!std::getenv("GRAFT_SOURCE")) return;
    size_t count = 0;
    EXPECT_EQ(source_differences(count), "");
    EXPECT_GT(count, 200u) << "these tests have more kernels than that";
  }
};
const auto* const kEnvironment = testing::AddGlobalTestEnvironment(new CompareSources);

}  // namespace
}  // namespace graft::test
