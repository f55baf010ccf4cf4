// What cannot be compiled, and how it is said.
#include <ATen/core/grad_mode.h>

#include <cstdlib>

#include "runtime/helpers.h"
#include "runtime/memory/pool.h"

namespace graft::test {
namespace {

/// A reason names what came and ends with the next step.
void expect_break(const Report& report, const std::string& what) {
  EXPECT_EQ(report.verdict, Verdict::Break) << report;
  EXPECT_NE(report.reason.find(what), std::string::npos) << report.reason;
  EXPECT_NE(report.reason.find("; "), std::string::npos) << report.reason;
  EXPECT_GT(report.breaks, 0);
  EXPECT_EQ(report.plan_hits, 0);
}

TEST(Breaks, ReadingData) {
  auto body = [](const at::Tensor& x) { return x.sum().item<float>() > 0 ? x * 2 : x * 3; };
  auto f = compile(body, at_once());
  at::Tensor x = at::ones({4});
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(same(f(x), x * 2));
    EXPECT_TRUE(same(f(-x), x * -3));
  }
  expect_break(f.report(), "_local_scalar_dense");
  EXPECT_EQ(f.report().records, 2) << "a broken record is tried once more, then never again";
}

TEST(Breaks, StayEagerWithThePoolsMemory) {
  auto f = compile([](const at::Tensor& x) { return x * x.sum().item<float>(); }, at_once());
  const at::Tensor x = at::ones({4});
  f(x), f(x);
  EXPECT_TRUE(runtime::pool_owns(f(x).data_ptr()));
  expect_break(f.report(), "_local_scalar_dense");
  EXPECT_FALSE(runtime::pool_owns((x * 2).data_ptr())) << "the guard ends with the call";
  set_stance(Stance::ForceEager);
  EXPECT_FALSE(runtime::pool_owns(f(x).data_ptr()));
  set_stance(Stance::Default);
}

// Once proven, these gave stale results.
TEST(Breaks, ReadingDataWithinAComposite) {
  auto f = compile(
      [](const at::Tensor& x, const at::Tensor& at) { return x.tensor_split(at, 0)[0] * 2; },
      at_once());
  at::Tensor x = at::arange(8, at::kFloat);
  for (int64_t n : {3, 3, 3, 5})
    EXPECT_TRUE(same(f(x, at::full({1}, n, at::kLong)), x.narrow(0, 0, n) * 2));
  expect_break(f.report(), "tensor_split");
}

/// A view of an argument that an operator gives another size: the argument keeps its own.
TEST(Breaks, ViewsOfArgumentsResized) {
  const at::Tensor held = at::randn({6, 6});
  for (const bool captured : {false, true}) {
    auto body = [&](const at::Tensor& x, const at::Tensor& w) {
      at::Tensor y = (captured ? held : x).detach();
      at::linalg_inv_out(y, w);
      return y * 2;
    };
    auto f = compile(body, at_once());
    at::Tensor x = at::randn({6, 6});
    for (int call = 0; call < 5; ++call) {
      const at::Tensor w = at::randn({3, 3}), expected = body(x, w);
      EXPECT_TRUE(same(f(x, w), expected));
      EXPECT_EQ(x.sizes(), at::IntArrayRef({6, 6}));
      EXPECT_EQ(held.sizes(), at::IntArrayRef({6, 6}));
    }
    expect_break(f.report(), "resized an argument or captured tensor, or a view of one");
  }
}

TEST(Breaks, SeedsSetInside) {
  auto body = [](const at::Tensor& x) {
    at::manual_seed(7);
    return at::rand({3}) * x;
  };
  auto f = compile(body, at_once());
  at::Tensor x = at::ones({3}), expected = body(x);
  for (int i = 0; i < 4; ++i) {
    at::manual_seed(7);  // as if it proved something
    EXPECT_TRUE(same(f(x), expected));
  }
  EXPECT_TRUE(same(f(x), expected));
  expect_break(f.report(), "seed");
}

TEST(Breaks, ALazyTableBreaksTheFirstRecordOnly) {
  at::Tensor table;
  auto f = compile(
      [&](const at::Tensor& x) {
        if (!table.defined()) table = at::arange(8, at::kFloat) * 2;
        return x * table + 1;
      },
      at_once());
  at::Tensor x = at::randn({8});
  f(x);
  expect_break(f.report(), "keeps a tensor");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(f(x), x * table + 1));
  EXPECT_EQ(f.report().verdict, Verdict::Faster);
}

TEST(Breaks, OtherDevices) {
  auto f = compile([](const at::Tensor& x) { return x * 2 + 1; }, at_once());
  f(at::zeros({2}, at::kMeta));
  expect_break(f.report(), "argument 0 is on meta");
}

TEST(Breaks, FullgraphThrowsWithTheReason) {
  Options options = at_once("whole");
  options.fullgraph = true;
  auto f = compile([](const at::Tensor& x) { return x.sum().item<float>() > 0 ? x * 2 : x * 3; },
                   options);
  for (int i = 0; i < 2; ++i) {
    try {
      f(at::ones({4}));
      FAIL();
    } catch (const Error& error) {
      std::string text = error.what();
      EXPECT_EQ(text.find("whole: aten::_local_scalar_dense"), 0u) << text;
      EXPECT_NE(text.find("; "), std::string::npos) << text;
    }
  }
  auto fine = compile([](const at::Tensor& x) { return x * 2 + 1; }, options);
  at::Tensor x = at::ones({4});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(fine(x), x * 3));
  EXPECT_THROW(fine(at::ones({4}, at::kMeta)), Error);
}

TEST(Breaks, StanceForceEager) {
  auto f = compile([](const at::Tensor& x) { return x * 2 + 1; }, at_once());
  at::Tensor x = at::ones({4});
  set_stance(Stance::ForceEager);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(f(x), x * 3));
  set_stance(Stance::Default);
  EXPECT_EQ(f.report().records, 0);
  EXPECT_EQ(f.report().calls, 3);
  EXPECT_EQ(f.report().plan_hits, 0);
}

TEST(Breaks, StanceFailOnRerecordNamesTheArgument) {
  auto f = compile([](const at::Tensor& x, const at::Tensor& y) { return x * 2 + y; },
                   at_once("strict"));
  set_stance(Stance::FailOnRerecord);
  at::Tensor x = at::ones({4});
  warm_up(f, x, x);  // the first record is none again
  try {
    f(x, at::ones({1}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "strict: no plan fits this call: argument 1: sizes [4] expected, [1] came; call "
                 "it as before, or "
                 "set_stance(Stance::Default) to let it be recorded again");
  }
  EXPECT_TRUE(same(f(x, x), x * 3));
  set_stance(Stance::Default);
  EXPECT_TRUE(same(f(x, at::ones({1})), x * 3));
}

TEST(Breaks, ReportAndExplainCanBeRead) {
  auto f = compile([](const at::Tensor& x) { return (x * 2 + 1).cumsum(0); }, at_once("readable"));
  EXPECT_EQ(f.report().text(), "readable: not called yet\n");
  at::Tensor x = at::randn({16});
  for (int i = 0; i < 3; ++i) f(x);
  std::string report = f.report().text(), explained = f.explain();
  EXPECT_EQ(report.find(
                "readable: compiled\n  why       proven equal; not raced (Options::race is off)\n"),
            0u)
      << report;
  for (const char* part :
       {"1 of them compiled", "1 record, 1 plan, 0 breaks", "aten::mul.Scalar", "fused"})
    EXPECT_NE(report.find(part), std::string::npos) << part << " in\n" << report;
  for (const char* part :
       {"== trace ==", "== 00-lower ==", "fuse", "== pass-times ==", "== code generator =="})
    EXPECT_NE(explained.find(part), std::string::npos) << part << " in\n" << explained;
}

}  // namespace
}  // namespace graft::test
