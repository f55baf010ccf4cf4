// Whole functions, from the call to compiled code: what a user would write, against eager.
#include <ATen/autocast_mode.h>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

at::Tensor rotate_half(const at::Tensor& x) {
  auto halves = x.chunk(2, -1);
  return at::cat({-halves[1], halves[0]}, -1);
}
std::tuple<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& cos, const at::Tensor& sin) {
  return {q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin};
}

class Dtypes : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor randn(at::IntArrayRef sizes) { return at::randn(sizes).to(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Examples, Dtypes,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble),
                         [](const auto& info) { return c10::toString(info.param); });

TEST_P(Dtypes, Rope) {
  auto f = compile(rope, at_once("rope"));
  for (int i = 0; i < 5; ++i) {
    at::Tensor q = randn({2, 4, 33, 16}), k = randn({2, 2, 33, 16}), cos = randn({33, 16}),
               sin = randn({33, 16});
    auto [q1, k1] = f(q, k, cos, sin);
    auto [q2, k2] = rope(q, k, cos, sin);
    EXPECT_TRUE(same(q1, q2));
    EXPECT_TRUE(same(k1, k2));
  }
  Report report = f.report();
  EXPECT_EQ(report.verdict, Verdict::Faster) << report;
  EXPECT_TRUE(report.bitwise);
  EXPECT_EQ(report.plan_hits, 3);
  for (const OperatorReport& row : report.operators)
    EXPECT_NE(row.fate, "extern") << row.name << ": " << row.why;
}

TEST_P(Dtypes, RmsNorm) {
  auto rms_norm = [](const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight) {
    at::Tensor h = x + residual, wide = h.to(at::kFloat);
    at::Tensor scale = at::rsqrt(wide.pow(2).mean(-1, true) + 1e-6);
    return std::make_pair(weight * (wide * scale).to(h.scalar_type()), h);
  };
  auto f = compile(rms_norm, at_once("rms_norm"));
  for (int i = 0; i < 5; ++i) {
    at::Tensor x = randn({17, 96}), residual = randn({17, 96}), weight = randn({96});
    auto [y1, h1] = f(x, residual, weight);
    auto [y2, h2] = rms_norm(x, residual, weight);
    EXPECT_TRUE(same(h1, h2));
    EXPECT_TRUE(at::allclose(y1, y2, 1e-2, 1e-2));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_EQ(f.report().kernels, 1) << f.explain();
}

TEST_P(Dtypes, ScaledMaskedSoftmax) {
  auto softmax = [](const at::Tensor& scores, const at::Tensor& mask) {
    return at::softmax((scores * 0.125).masked_fill(mask, -10000.0), -1);
  };
  auto f = compile(softmax, at_once("softmax"));
  at::Tensor mask = at::ones({31, 31}, at::kBool).triu(1);
  for (int i = 0; i < 5; ++i) {
    at::Tensor scores = randn({3, 31, 31});
    EXPECT_TRUE(at::allclose(f(scores, mask), softmax(scores, mask), 1e-2, 1e-2));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

TEST(Examples, AdamWOverAListOfParameters) {
  auto step = [](std::vector<at::Tensor>& p, const std::vector<at::Tensor>& g,
                 std::vector<at::Tensor>& m, std::vector<at::Tensor>& v, const at::Tensor& rate) {
    for (size_t i = 0; i < p.size(); ++i) {
      p[i].mul_(0.99);
      m[i].mul_(0.9).add_(g[i], 0.1);
      v[i].mul_(0.999).addcmul_(g[i], g[i], 0.001);
      p[i].sub_(rate * m[i] / (v[i].sqrt() + 1e-8));
    }
  };
  auto f = compile(step, at_once("adamw"));
  auto list = [] {
    std::vector<at::Tensor> all;
    for (int i = 0; i < 5; ++i) all.push_back(at::rand({10 + i, 7}));
    return all;
  };
  auto clone = [](std::vector<at::Tensor> all) {
    for (at::Tensor& t : all) t = t.clone();
    return all;
  };
  auto p = list(), m = list(), v = list(), p2 = clone(p), m2 = clone(m), v2 = clone(v);
  for (int i = 0; i < 6; ++i) {
    auto g = list();
    at::Tensor rate = at::full({}, 0.1f / static_cast<float>(i + 1));
    f(p, g, m, v, rate);
    step(p2, g, m2, v2, rate);
    for (size_t k = 0; k < p.size(); ++k) {
      EXPECT_TRUE(same(p[k], p2[k]));
      EXPECT_TRUE(same(m[k], m2[k]));
      EXPECT_TRUE(same(v[k], v2[k]));
    }
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_EQ(f.report().plan_hits, 4);
}

TEST(Examples, MatmulsStayAtens) {
  at::Tensor w1 = at::randn({32, 64}) / 8, w2 = at::randn({64, 32}) / 8;
  auto mlp = [&](const at::Tensor& x) {
    return at::linear(at::gelu(at::linear(x, w2) * 2), w1) + 1;
  };
  auto f = compile(mlp, at_once("mlp"));
  for (int i = 0; i < 5; ++i) {
    at::Tensor x = at::randn({9, 32});
    EXPECT_TRUE(at::allclose(f(x), mlp(x), 1e-5, 1e-5));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

TEST(Examples, Autocast) {
  at::Tensor w = at::randn({32, 32}) / 8;
  auto body = [&](const at::Tensor& x) { return at::softmax(at::mm(x * 2, w), -1) + 1; };
  auto f = compile(body, at_once("autocast"));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  for (int i = 0; i < 5; ++i) {
    at::Tensor x = at::randn({9, 32});
    at::Tensor got = f(x), expected = body(x);
    EXPECT_EQ(got.scalar_type(), expected.scalar_type());
    EXPECT_TRUE(at::allclose(got, expected, 1e-2, 1e-2));
  }
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

TEST(Examples, WhatEagerChecksIsCheckedAtEachCall) {
  auto gather = compile(
      [](const at::Tensor& x, const at::Tensor& i) { return at::index_select(x, 0, i) * 2 + 1; },
      at_once("gather"));
  at::Tensor x = at::randn({5, 3}), good = at::tensor({4, 0, 1}), bad = at::tensor({4, 0, 5});
  warm_up(gather, x, good);
  EXPECT_TRUE(same(gather(x, good), x.index_select(0, good) * 2 + 1));
  EXPECT_THROW(gather(x, bad), c10::Error);
  EXPECT_TRUE(same(gather(x, good), x.index_select(0, good) * 2 + 1));

  auto divide =
      compile([](const at::Tensor& a, const at::Tensor& b) { return at::floor_divide(a, b) + 1; },
              at_once("divide"));
  at::Tensor a = at::arange(6), ones = at::ones({6}, at::kLong);
  warm_up(divide, a, ones);
  EXPECT_THROW(divide(a, a), c10::Error);
  EXPECT_EQ(divide.report().verdict, Verdict::Faster);
}

TEST(Examples, ALongLoopOfInPlaceRowUpdates) {
  auto quantise = [](at::Tensor w, const at::Tensor& h) {
    at::Tensor out = at::empty_like(w);
    for (int64_t i = 0; i < w.size(1); ++i) {
      at::Tensor column = w.select(1, i);
      at::Tensor q = at::clamp(at::round(column * 4), -8, 7) / 4;
      out.select(1, i).copy_(q);
      at::Tensor error = (column - q) / h.select(0, i).select(0, i);
      w.slice(1, i).sub_(error.unsqueeze(1) * h.select(0, i).slice(0, i).unsqueeze(0));
    }
    return out;
  };
  auto f = compile(quantise, at_once("quantise"));
  at::Tensor h = at::rand({16, 16}) + at::eye(16) * 4;
  for (int i = 0; i < 4; ++i) {
    at::Tensor w = at::randn({40, 16}), copy = w.clone();
    at::Tensor got = f(w, h), expected = quantise(copy, h);
    EXPECT_TRUE(same(got, expected));
    EXPECT_TRUE(same(w, copy));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

}  // namespace
}  // namespace graft::test
