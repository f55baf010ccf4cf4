// What is structure and what is an argument, and compiling from several threads.
#include <gtest/gtest.h>

#include <algorithm>
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

/// Of a serial loop over 5 groups, each a vector loop.
TEST(Bind, ShortLoopsThatStartAgainAreStructure) {
  auto of = [](int64_t size, bool any_size = false) {
    KernelMaker k;
    k.kernel.any_size = any_size;
    StatementBuilder s({5, size});
    nest(k, s.store(k.storage(at::zeros({5, size})), s.load(k.storage(at::zeros({5, size})))), 0,
         1);
    return structure(k);
  };
  EXPECT_NE(of(64), of(128));
  EXPECT_NE(of(64), of(60));
  EXPECT_EQ(of(60), of(68)) << "only powers of two are usual";
  EXPECT_EQ(of(512), of(1024));
  EXPECT_EQ(of(64, true), of(128, true));
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
  const ir::Target target = codegen::host_target(1);
  std::vector<std::thread> threads;
  std::atomic<int> fresh{0};
  std::vector<std::string> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        KernelMaker k = scaled(tame({3, 50 + t}, at::kFloat), 100.0 + i);
        bool is_new;
        codegen::get_or_compile(k.kernel, codegen::bind(k.kernel), target, nullptr, is_new);
        fresh += is_new;
        std::string difference_ = difference(k);
        if (!difference_.empty()) wrong[static_cast<size_t>(t)] = difference_;
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& text : wrong) EXPECT_EQ(text, "");
  EXPECT_EQ(fresh, 8);
}

codegen::Code code_of(const std::vector<const KernelMaker*>& made, const ir::Target& target,
                      std::vector<codegen::Listing>* listings = nullptr) {
  std::vector<const ir::Kernel*> kernels;
  for (const KernelMaker* k : made) kernels.push_back(&k->kernel);
  return codegen::host_backend().compile(kernels, target, listings);
}

TEST(Compile, SeveralKernelsAreOneObjectAndItsTexts) {
  KernelMaker a = scaled(tame({3, 50}, at::kFloat), 77), b = scaled(tame({3, 50}, at::kFloat), 78);
  std::vector<codegen::Listing> listings;
  const ir::Target target = codegen::host_target(1);
  codegen::Code code = code_of({&a, &b}, target, &listings);
  ASSERT_EQ(code.functions.size(), 2u);
  ASSERT_EQ(listings.size(), 2u);
  EXPECT_EQ(listings[0].kind, "ll");
  EXPECT_EQ(listings[1].kind, "s");
  for (const std::string& name : code.functions)
    for (const codegen::Listing& listing : listings)
      EXPECT_NE(listing.text.find(name), std::string::npos) << listing.kind;
  codegen::Loaded loaded = codegen::host_backend().load(code);
  ASSERT_EQ(loaded.functions.size(), 2u);
  EXPECT_NE(loaded.functions[0], loaded.functions[1]);
}

/// exp, of MKL's and of SLEEF's, so that there are routines to look up.
KernelMaker exponentials(const at::Tensor& x, const at::Tensor& y) {
  KernelMaker k;
  StatementBuilder s({x.numel()});
  Value value = s.load(k.storage(x));
  nest(k,
       s.store(k.storage(y),
               ir::call(ir::Routine::ArrayExp, value) + ir::call(ir::Routine::VectorExpm1, value)),
       0, 0);
  return k;
}

TEST(Compile, BytesAreLoadedAgainAndHoldNoAddress) {
  at::Tensor x = tame({100}, at::kFloat), y = at::zeros({100});
  KernelMaker k = exponentials(x, y);
  const ir::Target target = codegen::host_target(1);
  codegen::Code code = code_of({&k}, target);
  EXPECT_EQ(code.bytes, code_of({&k}, target).bytes) << "equal kernels, equal bytes";
  EXPECT_EQ(std::count(code.symbols.begin(), code.symbols.end(), "VMSEXP_"), target.vml);
  run_compiled(k.kernel, k.tensors);
  codegen::Binding binding = codegen::bind(k.kernel);
  for (int time = 0; time < 2; ++time) {
    codegen::Loaded loaded = codegen::host_backend().load(code);
    at::Tensor again = at::zeros({100});
    char* pointers[] = {static_cast<char*>(x.data_ptr()), static_cast<char*>(again.data_ptr())};
    if (k.tensors[static_cast<size_t>(binding.pointers[0].storage)].data_ptr() != x.data_ptr())
      std::swap(pointers[0], pointers[1]);
    codegen::LaunchArgs args{pointers, binding.integers.data(), binding.scalars.data()};
    loaded.functions[0](&args, nullptr, 0, binding.range_extent);
    EXPECT_TRUE(at::equal(again, y));
  }
}

TEST(Compile, ARoutineThatIsNotThereIsSaidByName) {
  KernelMaker k = exponentials(tame({100}, at::kFloat), at::zeros({100}));
  codegen::Code code = code_of({&k}, codegen::host_target(1));
  code.symbols.push_back("no_such_routine");
  try {
    codegen::host_backend().load(code);
    FAIL() << "loaded";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("no_such_routine"), std::string::npos) << e.what();
  }
}

TEST(Compile, ATargetIsAValue) {
  // The same kernel, for narrower vectors than the host's, in one process: structure is shared,
  // code is not.
  ir::Target target = codegen::host_target(1);
  for (; target.lanes >= 4; target.lanes /= 2) {
    target.fma = target.fma && target.avx2();
    KernelMaker k = scaled(tame({7, 93}, at::kFloat), 55);
    bool is_new = false;
    codegen::get_or_compile(k.kernel, codegen::bind(k.kernel), target, nullptr, is_new);
    EXPECT_TRUE(is_new) << target.lanes;
    EXPECT_EQ(difference(k, 0, target), "") << target.lanes;
    EXPECT_EQ(difference(exponentials(tame({100}, at::kFloat), at::zeros({100})), 1e-6, target), "")
        << target.lanes;
  }
}

TEST(Compile, AnotherProcessorsTargetIsRefused) {
  KernelMaker k = scaled(tame({3, 50}, at::kFloat), 77);
  ir::Target target;
  target.cpu = "GenuineElsewhere";
  try {
    code_of({&k}, target);
    FAIL() << "compiled";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("GenuineElsewhere"), std::string::npos) << e.what();
  }
}

TEST(Compile, WhatCannotBeCompiledIsSaid) {
  KernelMaker k;
  ir::View x = k.storage(at::zeros({8}, at::kComplexFloat)),
           y = k.storage(at::zeros({8}, at::kComplexFloat));
  StatementBuilder s({8});
  nest(k, s.store(y, s.load(x)), 0, 0);
  try {
    code_of({&k}, codegen::host_target(1));
    FAIL() << "compiled";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("ComplexFloat"), std::string::npos) << e.what();
  }
}

/// out = float(x & mask) * 3
KernelMaker masked(int64_t mask) {
  KernelMaker k;
  StatementBuilder s({5, 100});
  Value x = s.load(k.storage(at::randint(0, 256, {5, 100}, at::kByte)));
  Value kept = x & s.scalar(mask, at::kByte);
  nest(k, s.store(k.storage(at::zeros({5, 100})), kept.to(at::kFloat) * 3.0), 1, 1);
  return k;
}

TEST(Bind, CodesOfFourBitsAreStructure) {
  EXPECT_NE(structure(masked(15)), structure(masked(16)));
  EXPECT_NE(structure(masked(15)), structure(masked(7)));  // its bits above are to be cleared
  EXPECT_EQ(structure(masked(7)), structure(masked(13)));
  EXPECT_EQ(structure(masked(31)), structure(masked(16)));
  for (int64_t mask : {0, 7, 13, 15, 16, 31}) EXPECT_EQ(difference(masked(mask)), "") << mask;
}

}  // namespace
}  // namespace graft::test
