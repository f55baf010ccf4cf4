// Differences from eager that are the rounding of sums, and such that are not.
#include "runtime/helpers.h"

namespace graft::test {
namespace {

/// Recorded, refused by the plain tolerance perhaps, weighed and proven.
template <class F, class Make>
void expect_proven(const std::string& name, F body, Make make) {
  SCOPED_TRACE(name);
  at::NoGradGuard no_grad;
  auto f = compile(body, at_once(name));
  for (int i = 0; i < 6; ++i) f(make());
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

using T = at::Tensor;

TEST(Rounding, WhatCancels) {
  auto numbers = [] { return at::randn({1000}) + 5; };
  expect_proven("centred", [](const T& x) { return (x - x.mean()).sum(); }, numbers);
  expect_proven(
      "centred 16 bit", [](const T& x) { return (x - x.mean()).sum(); },
      [] { return (at::randn({1000}) + 5).to(at::kBFloat16); });
  expect_proven(
      "centred in place",
      [](T x) {
        x.sub_(x.mean());
        return x.sum();
      },
      numbers);
  expect_proven(
      "kl_div",
      [](const T& x) { return at::kl_div(x.log_softmax(1), x.softmax(1), at::Reduction::Sum); },
      [] { return at::randn({8, 100}); });
}

TEST(Rounding, RowsWithoutVariance) {
  auto norm = [](const T& x) { return at::layer_norm(x, {x.size(1)}); };
  expect_proven("constant rows", norm, [] { return (at::randn({16, 1}) * 50).repeat({1, 300}); });
  expect_proven("one element", norm, [] { return at::randn({300, 1}) * 50; });
}

TEST(Rounding, LongSums) {
  const std::vector<T> large = {at::randn({10'000'000}), at::full({10'000'000}, 0.1)};
  for (const T& x : large) {
    auto make = [&] { return x; };
    expect_proven("norm", [](const T& t) { return t.norm() * 1; }, make);
    expect_proven("norm 1", [](const T& t) { return t.norm(1) * 1; }, make);
  }
}

TEST(Rounding, LongProductsOf16Bits) {
  for (at::ScalarType type : {at::kBFloat16, at::kHalf})
    for (int64_t n : {100, 300})
      expect_proven(
          "prod", [](const T& x) { return x.prod(1) * 1; },
          [=] { return (at::rand({64, n}) * 0.2 + 0.9).to(type); });
}

/// The second call is another function, off by `by` of the result.
void expect_mismatch(const std::string& name, std::function<T(const T&)> body, const T& x,
                     double by) {
  SCOPED_TRACE(name);
  at::NoGradGuard no_grad;
  const auto calls = std::make_shared<int>(0);  // where it is not seen to change
  auto f = compile([=](const T& t) { return body(t) * ((*calls)++ == 0 ? 1.0 : 1.0 + by); },
                   at_once(name));
  for (int i = 0; i < 6; ++i) f(x);
  EXPECT_EQ(f.report().verdict, Verdict::Mismatch) << f.report();
}

TEST(Rounding, NoExcuseForAnotherFunction) {
  expect_mismatch(
      "centred", [](const T& x) { return (x - x.mean()).sum(); }, at::randn({1000}) + 5, 0.5);
  expect_mismatch("norm", [](const T& x) { return x.norm(); }, at::full({1'000'000}, 0.1), 1e-4);
  expect_mismatch(
      "prod", [](const T& x) { return x.prod(1); },
      (at::rand({64, 300}) * 0.2 + 0.9).to(at::kBFloat16), 1.0);
}

/// Of so many numbers some lie at a tie, which the last bit of a sum or product decides.
TEST(Rounding, BytesOfSums) {
  at::manual_seed(5);
  const T colours = at::rand({3, 3}) * 0.1 + 0.25;
  auto image = [] { return at::randint(0, 256, {480, 640, 3}, at::kByte); };
  auto bytes = [](const T& x) { return (x * 255).round().clamp(0, 255).to(at::kByte); };
  expect_proven(
      "colours", [&](const T& x) { return bytes(at::matmul(x.to(at::kFloat) / 255, colours)); },
      image);
  expect_proven(
      "grey world",
      [&](const T& x) {
        const T f = x.to(at::kFloat) / 255, mean = f.mean(at::IntArrayRef({0, 1}));
        return bytes(f * (mean.mean() / mean));
      },
      image);
}

TEST(Rounding, NoExcuseForOtherBytes) {
  expect_mismatch(
      "scaled", [](const T& x) { return (x * (0.5 / x.mean())).clamp(0, 1); },
      at::randint(0, 256, {480, 640, 3}, at::kByte).to(at::kFloat), 1e-4);
  at::NoGradGuard no_grad;
  const auto calls = std::make_shared<int>(0);
  auto f = compile(
      [=](const T& t) {
        return (t * (100 / t.mean())).round().to(at::kByte) + ((*calls)++ == 0 ? 0 : 1);
      },
      at_once("next byte"));
  for (int i = 0; i < 6; ++i) f(at::rand({480, 640}));
  EXPECT_EQ(f.report().verdict, Verdict::Mismatch) << f.report();
}

TEST(Rounding, AnAuditWeighsToo) {
  at::NoGradGuard no_grad;
  Options options = at_once("audited");
  options.audit_every = 1;
  auto f = compile([](const T& x) { return (x - x.mean()).sum(); }, options);
  for (int i = 0; i < 12; ++i) f(at::randn({1000}) + 5);
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

}  // namespace
}  // namespace graft::test
