// Differences from eager that fp64 decides: eager's mistakes, and mistakes of a plan.
#include "ops/replay.h"

#include <algorithm>
#include <cmath>

#include "record/recorder.h"
#include "runtime/function/compile.h"
#include "runtime/function/scales.h"
#include "runtime/helpers.h"
#include "runtime/proof/shadow.h"
#include "support/lowered.h"

namespace graft::runtime {
namespace {

using T = at::Tensor;
using Function = std::function<T(const T&)>;

struct Use {
  std::string name;
  Function body;
  T x;
};

/// Squared, they are beyond float's range.
T huge() {
  return at::full({1000}, 1e19);
}

Report expect_in_use(const Use& use) {
  SCOPED_TRACE(use.name);
  at::NoGradGuard no_grad;
  auto f = compile(use.body, test::at_once(use.name));
  for (int i = 0; i < 4; ++i) f(use.x);
  Report report = f.report();
  EXPECT_EQ(report.verdict, Verdict::Faster) << report;
  return report;
}

/// In use, though eager is further off than the tolerance.
void expect_decided(const Use& use) {
  SCOPED_TRACE(use.name);
  const Report report = expect_in_use(use);
  EXPECT_TRUE(report.fp64_decided) << report;
  EXPECT_NE(report.text().find("fp64 decided"), std::string::npos) << report;
}

/// How far eager is off depends on how many lanes it adds in.
TEST(Reference, LongSumsThatEagerRounds) {
  const T uniform = at::rand({1 << 24}), equal = at::full({1 << 24}, 0.1);
  expect_in_use({"softmax", [](const T& t) { return t.softmax(0) * 1; }, uniform});
  expect_in_use({"columns", [](const T& t) { return t.view({-1, 4}).softmax(0) * 1; }, uniform});
  expect_in_use({"norm", [](const T& t) { return t.norm() * 1; }, equal});
  expect_in_use({"norm 1", [](const T& t) { return t.norm(1) * 1; }, equal});
}

TEST(Reference, RangeThatEagerLeaves) {
  auto norm = [](const T& t) { return t.norm() * 1; };
  expect_decided({"overflow", norm, huge()});
  expect_decided({"underflow", norm, at::full({1000}, 1e-25)});
}

TEST(Reference, ComparisonsAndIndices) {
  expect_decided({"above a part", [](const T& t) { return t > t.norm() * 0.001; }, huge()});
  auto largest = [](const T& t) { return t.view({2, -1}).norm(2, 1).argmax(0) + 0; };
  expect_decided({"argmax", largest, at::cat({huge(), huge() * 2})});
}

TEST(Reference, MemoryThatAFunctionHoldsAndChanges) {
  at::NoGradGuard no_grad;
  const T given = huge();
  T last = at::zeros({});
  auto f = compile(
      [&](const T& x) {
        T norm = x.norm() * 1;
        last.copy_(norm);
        return norm + 1;
      },
      test::at_once("held"));
  for (int i = 0; i < 4; ++i) f(given);
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_TRUE(f.report().fp64_decided) << f.report();
}

TEST(Reference, RandomNumbersAreDrawnAgain) {
  expect_decided(
      {"dropout", [](const T& t) { return at::dropout(t, 0.5, true).norm() * 1; }, huge()});
}

TEST(Reference, NotWhereResultsAgree) {
  at::NoGradGuard no_grad;
  auto f = compile([](const T& x) { return x.norm() * 1; }, test::at_once("agrees"));
  for (int i = 0; i < 4; ++i) f(at::randn({1000}));
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_FALSE(f.report().fp64_decided) << f.report();
}

/// A call of `body`, as the core sees it.
class Call final : public detail::CallBase {
 public:
  Call(Function body, T x) : body_(std::move(body)), x_(std::move(x)) {
    args.tensors.push_back(&x_);
  }
  void run_eager() override { result_ = body_(x_); }
  std::vector<detail::FlatArgs> arguments() const override { return {args}; }
  std::vector<T> result_tensors() const override { return {result_}; }
  std::vector<uint64_t> result_words() const override { return {}; }
  std::shared_ptr<const void> result_prototype() const override { return {}; }
  void set_result(const void*, T*) override {}
  std::shared_ptr<detail::KeptCall> keep() const override { return nullptr; }

 private:
  Function body_;
  T x_, result_;
};

record::Trace trace_of(const Function& body, const T& x) {
  T result;
  return record::record({x}, [&] { result = body(x); }, [&] { return std::vector<T>{result}; });
}

CompileSettings settings() {
  CompileSettings made;
  made.name = "reference";
  made.target = codegen::host_target(1);
  return made;
}

/// The proof of a plan that was compiled from `wrong` where it should be from `body`: what a
/// mistake of the compiler's does. The disturbed plans are right: kernels that are scheduled
/// otherwise need not have it.
Shadow proof_of(const Function& wrong, const Function& body, const T& x) {
  at::NoGradGuard no_grad;
  const record::Trace right = trace_of(body, x), other = trace_of(wrong, x);
  const Built built = compile_trace(other, settings());
  if (built.plan == nullptr) throw std::logic_error("no plan");
  StoredScales kept;
  const Scales scales = compile_scales(right, settings(), nullptr, kept);
  EXPECT_NE(scales.reference, nullptr);
  Call call(body, x);
  return run_shadow(*built.plan, built.tolerance, call, nullptr, {}, scales);
}

/// Mistakes just above what the tolerance allows are found; the program itself is right.
void expect_found(const std::string& name, const Function& body, const T& x, double by) {
  SCOPED_TRACE(name);
  auto scaled = [&](double factor) { return [=](const T& t) { return body(t) * factor; }; };
  EXPECT_EQ(proof_of(scaled(1), scaled(1), x).outcome, Shadow::Outcome::Equal);
  for (double factor : {1 + by, 1 - by}) {
    const Shadow found = proof_of(scaled(factor), scaled(1), x);
    EXPECT_EQ(found.outcome, Shadow::Outcome::Different);
    EXPECT_EQ(found.cause, Shadow::Cause::Unknown) << "eager did what was recorded";
    EXPECT_NE(found.what.find(", by fp64 "), std::string::npos) << found.what;
  }
}

TEST(Reference, FindsAWrongConstant) {
  at::manual_seed(1);
  expect_found("norm", [](const T& t) { return t.norm(); }, at::randn({1000}), 1e-4);
  expect_found("softmax", [](const T& t) { return t.softmax(1); }, at::randn({8, 100}), 1e-4);
  expect_found(
      "layer norm", [](const T& t) { return at::layer_norm(t, {100}); }, at::randn({8, 100}), 1e-4);
  expect_found("sum", [](const T& t) { return (t * t).sum(); }, at::randn({100000}), 1e-4);
  expect_found(
      "16 bit", [](const T& t) { return t.softmax(1); }, at::randn({8, 100}).to(at::kBFloat16),
      0.05);
}

/// A spacing of a sum in 16 bits is no rounding of its terms, and what comes after it no noise.
TEST(Reference, FindsAWrongSumIn16Bits) {
  at::manual_seed(1);
  const T x = (at::randn({16, 64}) + 5).to(at::kBFloat16);
  const auto right = [](const T& t) { return t.mean(1).exp() * 1; };
  const auto half = [](const T& t) { return (t.mean(1) * 0.5).exp() * 1; };
  EXPECT_EQ(proof_of(right, right, x).outcome, Shadow::Outcome::Equal);
  EXPECT_EQ(proof_of(half, right, x).outcome, Shadow::Outcome::Different);
}

TEST(Reference, FindsAWrongConstantInLongSums) {
  at::manual_seed(1);
  const T x = at::randn({1 << 24});
  expect_found("sum", [](const T& t) { return (t * t).sum(); }, x, 1e-4);
  expect_found("overflow", [](const T& t) { return t.norm(); }, huge(), 1e-4);
  // Not below eager's own error.
  const double exact = x.to(at::kDouble).norm().item<double>();
  const double off = std::abs(x.norm().item<double>() / exact - 1);
  RecordProperty("eager_is_off_by", std::to_string(off));
  expect_found("norm", [](const T& t) { return t.norm(); }, x, std::max(1e-4, 2 * off));
}

TEST(Reference, FindsAWrongIndex) {
  at::manual_seed(2);
  const T x = at::randn({64, 100});
  auto body = [](const T& t) { return t.softmax(1).roll(1, 0) * 1; };
  EXPECT_EQ(proof_of(body, body, x).outcome, Shadow::Outcome::Equal);
  auto row = [](const T& t) { return t.softmax(1).roll(2, 0) * 1; };
  EXPECT_EQ(proof_of(row, body, x).outcome, Shadow::Outcome::Different);
  auto best = [](const T& t) { return t.sum(1).argmax(0) + 0; };
  auto next = [](const T& t) { return t.sum(1).argmax(0) + 1; };
  EXPECT_EQ(proof_of(best, best, x).outcome, Shadow::Outcome::Equal);
  EXPECT_EQ(proof_of(next, best, x).outcome, Shadow::Outcome::Different);
}

TEST(Reference, KeepsRoundingsOfTheProgram) {
  // What a float does not hold of a sum: without the roundings in between, nothing.
  at::manual_seed(3);
  auto body = [](const T& t) {
    T s = t + 1000, lost = (s - 1000) - t;
    return lost * t.softmax(0);
  };
  auto nothing = [](const T& t) { return t.softmax(0) * 0; };
  const T x = at::randn({1000});
  EXPECT_EQ(proof_of(body, body, x).outcome, Shadow::Outcome::Equal);
  EXPECT_EQ(proof_of(nothing, body, x).outcome, Shadow::Outcome::Different);
}

TEST(Reference, CallsOnlyWhatIsApproximatedOnDoubles) {
  const T x = at::randn({3, 4});
  const record::Trace trace = trace_of(
      [](const T& t) {
        T y = t.exp();
        return y.softmax(1, at::kFloat).add_(y.norm());
      },
      x);
  const ops::Lowered lowered = ops::lower(trace);
  const std::string text =
      ir::print(ops::in_double(ops::lower_as_called(trace).program, trace, lowered.approximated));
  EXPECT_EQ(text.substr(text.find("%1 f32")),
            R"(%1 f32[3,4]:(4,1) = aten::exp(%0 f32[3,4]:(4,1)) writes %1
%4 f64[3,4]:(4,1) = aten::_to_copy(%1 f32[3,4]:(4,1), 7, None, None, None, false, 0) writes %4
%5 f64[3,4]:(4,1) = aten::_softmax(%4 f64[3,4]:(4,1), 1, false) writes %5
%2 f32[3,4]:(4,1) = aten::copy_(%2 f32[3,4]:(4,1), %5 f64[3,4]:(4,1), false) writes %2
%6 f64[3,4]:(4,1) = aten::_to_copy(%1 f32[3,4]:(4,1), 7, None, None, None, false, 0) writes %6
%7 f64[]:() = aten::norm.Scalar(%6 f64[3,4]:(4,1), 2) writes %7
%3 f32[]:() = aten::copy_(%3 f32[]:(), %7 f64[]:(), false) writes %3
%2 f32[3,4]:(4,1) = aten::add_.Tensor(%2 f32[3,4]:(4,1), %3 f32[]:(), 1) writes %2
result 0 = %2 f32[3,4]:(4,1)
)");
}

}  // namespace
}  // namespace graft::runtime
