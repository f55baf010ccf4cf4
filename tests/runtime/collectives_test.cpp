// Collectives inside compiled functions: each call says what eager says, in its order, whether it
// is recorded, proves, races or is compiled.
#include <ATen/core/dispatch/Dispatcher.h>
#include <graft/collective.h>

#include <string>
#include <vector>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

/// The sum over this process and another one, whose every element is `others`.
class Sum : public Collective {
 public:
  void start(const Tensor& tensor) override {
    said += "start " + std::to_string(tensor.numel()) + "; ";
    under_way.push_back(tensor);
  }
  void wait(const Tensor& tensor) override {
    said += "wait " + std::to_string(tensor.numel()) + "; ";
    const auto found = std::find_if(under_way.begin(), under_way.end(), [&](const Tensor& one) {
      return one.const_data_ptr() == tensor.const_data_ptr();
    });
    ASSERT_NE(found, under_way.end()) << "awaited what was not started";
    under_way.erase(found);
    tensor.add_(others);
  }
  double others = 0.25;
  std::string said;
  std::vector<Tensor> under_way;
};

class Collectives : public ::testing::Test {
 protected:
  Collectives() { register_collective("test", sum); }
  ~Collectives() override { register_collective("test", nullptr); }

  /// What one call says.
  template <class Call>
  std::string said_by(Call call) {
    sum->said.clear();
    call();
    return sum->said;
  }

  std::shared_ptr<Sum> sum = std::make_shared<Sum>();
};

Tensor summed(const Tensor& x) {
  start_collective(x, "test");
  await_collective(x, "test");
  return x;
}

/// Three linear layers. Their gradients are summed in two buckets, the last layer's first.
struct Model {
  std::vector<Tensor> w;
  Model() {
    at::manual_seed(5);
    for (int i = 0; i < 3; ++i) w.push_back((at::randn({24, 24}) * 0.2).requires_grad_());
  }
  Tensor step(const Tensor& x, double dropout = 0) {
    Tensor h = x;
    for (const Tensor& p : w) h = at::dropout(h.mm(p).tanh(), dropout, true);
    const Tensor loss = h.square().mean();
    loss.backward();
    const at::NoGradGuard no_grad;
    const Tensor last = w[2].grad().flatten().clone();
    start_collective(last, "test");
    const Tensor first = at::cat({w[1].grad().flatten(), w[0].grad().flatten()});
    start_collective(first, "test");
    await_collective(last, "test");
    await_collective(first, "test");
    w[2].sub_(last.view({24, 24}), 0.1);
    w[1].sub_(first.slice(0, 0, 576).view({24, 24}), 0.1);
    w[0].sub_(first.slice(0, 576).view({24, 24}), 0.1);
    for (const Tensor& p : w) p.mutable_grad().reset();
    return loss.detach();
  }
};

TEST_F(Collectives, AStepSaysInEachCallWhatEagerSays) {
  Model ours, theirs;
  Options options = at_once();
  auto compiled = compile([&](const Tensor& x) { return ours.step(x); }, options);
  at::manual_seed(1);
  for (int call = 0; call < 16; ++call) {
    const Tensor x = at::randn({8, 24});
    sum->others = 0.01 * call;  // the plan must take it from the collective, not from a record
    Tensor a, b;
    const std::string eager = said_by([&] { b = theirs.step(x); });
    EXPECT_EQ(said_by([&] { a = compiled(x); }), eager) << "call " << call;
    EXPECT_TRUE(at::allclose(a, b, 1e-4, 1e-6)) << "loss, call " << call;
    for (size_t k = 0; k < 3; ++k)
      EXPECT_TRUE(at::allclose(ours.w[k], theirs.w[k], 1e-4, 1e-6)) << k << ", call " << call;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.report().text();
}

TEST_F(Collectives, RandomNumbersGoOnFromWhereEagerLeftThem) {
  Model ours, theirs;
  auto compiled = compile([&](const Tensor& x) { return ours.step(x, 0.3); }, at_once());
  for (int call = 0; call < 8; ++call) {
    const Tensor x = at::ones({8, 24});
    at::manual_seed(call);
    const Tensor a = compiled(x), after = at::rand({3});
    at::manual_seed(call);
    const Tensor b = theirs.step(x, 0.3), wanted = at::rand({3});
    EXPECT_TRUE(at::allclose(a, b, 1e-4, 1e-6)) << call;
    EXPECT_TRUE(at::equal(after, wanted)) << call;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.report().text();
}

TEST_F(Collectives, ArgumentsAreSummedInPlace) {
  auto compiled = compile([](const Tensor& x) { return summed(x.mul_(2)) + 1; }, at_once());
  for (int call = 0; call < 6; ++call) {
    Tensor x = at::full({300}, 1.0 * call), y = at::full({300}, 1.0 * call);
    const Tensor got = compiled(x), wanted = summed(y.mul_(2)) + 1;
    EXPECT_TRUE(at::equal(got, wanted)) << call;
    EXPECT_TRUE(at::equal(x, y)) << call;
  }
  EXPECT_NE(compiled.report().verdict, Verdict::Mismatch) << compiled.report().text();
}

TEST_F(Collectives, ThatNobodyReadsAreSaid) {
  auto compiled = compile(
      [](const Tensor& x) {
        summed(x + 1);
        return x * 2;
      },
      at_once());
  for (int call = 0; call < 6; ++call)
    EXPECT_EQ(said_by([&] { compiled(at::ones({40})); }), "start 40; wait 40; ") << call;
}

TEST_F(Collectives, AFunctionThatSaysSomethingElseIsAMismatch) {
  bool other = false;
  auto compiled = compile(
      [&](const Tensor& x) {
        summed(other ? x.narrow(0, 0, 2).clone() : x + 1);
        return x * 2;
      },
      at_once());
  const Tensor x = at::ones({40});
  compiled(x);
  other = true;
  compiled(x);
  EXPECT_EQ(compiled.report().verdict, Verdict::Mismatch) << compiled.report().text();
}

/// A call that throws between a start and its end: the next call finds nothing under way.
TEST_F(Collectives, AreAwaitedWhenACallThrows) {
  auto compiled = compile(
      [](const Tensor& x, const Tensor& m) {
        const Tensor sum = x + 1;
        start_collective(sum, "test");
        const Tensor root = at::linalg_cholesky(m);  // throws where m has none
        await_collective(sum, "test");
        return sum + root.sum();
      },
      at_once());
  const Tensor x = at::ones({40}), m = at::eye(3);
  for (int call = 0; call < 4; ++call) compiled(x, m);
  ASSERT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.report().text();
  m.zero_();
  EXPECT_THROW(compiled(x, m), c10::Error);
  EXPECT_TRUE(sum->under_way.empty()) << sum->said << compiled.report().text();
  m.fill_diagonal_(1);
  EXPECT_EQ(said_by([&] { compiled(x, m); }), "start 40; wait 40; ");
}

/// Plans of ranges are proven too, and timed.
TEST_F(Collectives, SaysTheSameWhateverTheSizes) {
  Options options = at_once();
  options.sizes = graft::Sizes::Family;
  options.race = true;
  auto compiled = compile([](const Tensor& x) { return summed(x + 1) * 2; }, options);
  for (int64_t rows = 3; rows < 40; ++rows) {
    const Tensor x = at::ones({rows, 16});
    Tensor got;
    const std::string count = std::to_string(rows * 16);
    EXPECT_EQ(said_by([&] { got = compiled(x); }), "start " + count + "; wait " + count + "; ");
    EXPECT_TRUE(at::equal(got, at::full({rows, 16}, 4.5)));
  }
}

TEST_F(Collectives, ARegionStaysEager) {
  const Tensor w = at::ones({8, 8}).requires_grad_();
  auto compiled = compile(
      [&](const Tensor& x) {
        summed(x.clone());
        return x.mm(w);
      },
      at_once());
  for (int call = 0; call < 4; ++call)
    EXPECT_EQ(said_by([&] { compiled(at::ones({4, 8})).sum().backward(); }), "start 32; wait 32; ");
  EXPECT_EQ(compiled.report().verdict, Verdict::Break) << compiled.report().text();
}

TEST_F(Collectives, C10dsOperatorsAreABreak) {
  const auto wait = c10::Dispatcher::singleton().findSchema({"_c10d_functional::wait_tensor", ""});
  ASSERT_TRUE(wait.has_value());
  auto compiled = compile(
      [&](const Tensor& x) { return wait->typed<Tensor(const Tensor&)>().call(x + 1).mul(2); },
      at_once());
  const Tensor x = at::ones({40});
  compiled(x);
  const Report report = compiled.report();
  EXPECT_EQ(report.verdict, Verdict::Break) << report.text();
  EXPECT_NE(report.text().find("graft::systems::Group"), std::string::npos) << report.text();
}

TEST_F(Collectives, NamesAreKnownOnce) {
  EXPECT_THROW(register_collective("test", std::make_shared<Sum>()), std::invalid_argument);
  EXPECT_THROW(start_collective(at::ones({2}), "nobody"), std::invalid_argument);
}

}  // namespace
}  // namespace graft::test
