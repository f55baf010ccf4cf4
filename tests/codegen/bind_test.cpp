// What is structure and what is an argument, and compiling from several threads.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "codegen/kernels.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;

/// out = x * w + 2 with `x` as laid out.
KernelMaker scaled(const at::Tensor& x, double constant = 2, c10::Scalar scalar = 3) {
  KernelMaker k;
  StatementBuilder s(x.sizes().vec());
  Value value = s.load(k.storage(x)) * s.load(k.storage(tame({x.size(-1)}, at::kFloat))) + constant;
  nest(k, s.store(k.storage(at::zeros(x.sizes())), value - s.scalar(scalar, at::kFloat)),
       static_cast<int>(x.dim()) - 1, static_cast<int>(x.dim()) - 1);
  return k;
}

std::string structure(const KernelMaker& k) {
  return codegen::bind(k.kernel).structure;
}

TEST(Bind, SizesAndNumbersOfACallShareCode) {
  KernelMaker a = scaled(tame({5, 100}, at::kFloat)), b = scaled(tame({70, 33}, at::kFloat), 2, 4);
  EXPECT_EQ(structure(a), structure(b));
  EXPECT_EQ(difference(a), "");
  EXPECT_EQ(difference(b), "");
  // Which accesses share their strides is structure, what these are is not.
  KernelMaker wide = scaled(at::zeros({5, 300}).slice(1, 0, 100));
  KernelMaker wider = scaled(at::zeros({5, 999}).slice(1, 0, 70));
  EXPECT_EQ(structure(wide), structure(wider));
}

TEST(Bind, WhatCodeDependsOnIsStructure) {
  std::set<std::string> all;
  at::Tensor x = tame({5, 100}, at::kFloat);
  all.insert(structure(scaled(x)));
  all.insert(structure(scaled(x, 2.5)));                          // a constant
  all.insert(structure(scaled(tame({100, 5}, at::kFloat).t())));  // a stride along the lanes
  all.insert(structure(scaled(tame({1, 100}, at::kFloat))));      // an extent of 1
  all.insert(structure(scaled(tame({5, 1}, at::kFloat).expand({5, 100}))));  // a broadcast
  all.insert(structure(scaled(tame({2, 5, 100}, at::kFloat))));
  EXPECT_EQ(all.size(), 6u);
}

TEST(Bind, SharedStorageIsStructure) {
  auto made = [](bool shared) {
    KernelMaker k;
    ir::View x = k.storage(tame({64}, at::kFloat)), y = k.storage(tame({64}, at::kFloat)),
             z = k.storage(at::zeros({64}));
    StatementBuilder s({64});
    nest(k, s.store(z, s.load(x) + s.load(shared ? x : y)), 0, 0);
    return k;
  };
  EXPECT_NE(structure(made(true)), structure(made(false)));
  EXPECT_EQ(codegen::bind(made(true).kernel).pointers.size(), 2u);
}

TEST(Compile, FromSeveralThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> fresh{0};
  std::vector<std::string> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        KernelMaker k = scaled(tame({3, 50 + t}, at::kFloat), 100.0 + i);
        bool is_new;
        codegen::get_or_compile(k.kernel, codegen::bind(k.kernel), is_new);
        fresh += is_new;
        std::string difference_ = difference(k);
        if (!difference_.empty()) wrong[static_cast<size_t>(t)] = difference_;
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& text : wrong) EXPECT_EQ(text, "");
  EXPECT_EQ(fresh, 8);
}

TEST(Compile, TextAndLifetime) {
  KernelMaker k = scaled(tame({3, 50}, at::kFloat), 77);
  codegen::Compiled compiled = codegen::host_backend().compile(k.kernel, true);
  EXPECT_NE(compiled.ir.find("define void @graft_kernel"), std::string::npos);
  EXPECT_NE(compiled.assembly.find("graft_kernel"), std::string::npos);
  EXPECT_GT(compiled.milliseconds, 0);
  compiled = {};
  EXPECT_EQ(difference(k), "");
}

TEST(Compile, WhatCannotBeCompiledIsSaid) {
  KernelMaker k;
  ir::View x = k.storage(at::zeros({8}, at::kComplexFloat)),
           y = k.storage(at::zeros({8}, at::kComplexFloat));
  StatementBuilder s({8});
  nest(k, s.store(y, s.load(x)), 0, 0);
  try {
    codegen::host_backend().compile(k.kernel, false);
    FAIL() << "compiled";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("ComplexFloat"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace graft::test
