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

/// One store is left of four: two are to memory of the kernel's own, whose readers have the value,
/// and one is stored over before anybody loads it.
TEST(Source, StoresThatNobodyLoadsAreLeftOut) {
  for (bool own : {true, false}) {
    KernelMaker k;
    ir::View x = k.storage(tame({100}, at::kFloat)), y = k.storage(at::zeros({100}, at::kFloat)),
             t = k.storage(at::zeros({100}, at::kFloat));
    std::vector<ir::Statement> in_turn;
    auto add = [&](const ir::View& to, const ir::View& a, const ir::View& b) {
      StatementBuilder s({100});
      in_turn.push_back(s.store(to, s.load(a) * s.load(b)));
    };
    add(t, x, x);
    add(y, t, y);
    add(t, y, t);
    add(y, t, x);
    if (own) k.kernel.own = {t.storage};
    ir::TreeNode loop = KernelMaker::loop(k.vector(100));
    for (ir::Statement& s : in_turn) loop.loop->body.push_back(k.place(std::move(s), {0}));
    k.body(std::move(loop));
    const std::string text = source_of(k);
    size_t stores = 0;
    for (size_t at = text.find("\n    p"); at != std::string::npos;
         at = text.find("\n    p", at + 1))
      ++stores;
    EXPECT_EQ(stores, own ? 1 : 2) << text;
  }
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
