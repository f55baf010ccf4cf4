// Random numbers inside compiled functions have eager's bits, and leave the generator where eager
// leaves it.
#include "runtime/random/draw.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

struct Drawing {
  const char *name, *overload;
  at::ScalarType dtype;
  std::vector<c10::IValue> numbers;
};

const std::vector<Drawing>& drawings() {
  static const std::vector<Drawing> all{
      {"aten::bernoulli_", "float", at::kBool, {0.3}},
      {"aten::bernoulli_", "float", at::kBool, {0.0}},
      {"aten::bernoulli_", "float", at::kBool, {1.0}},
      {"aten::bernoulli_", "float", at::kBool, {0x1p-53}},
      {"aten::uniform_", "", at::kFloat, {0.0, 1.0}},
      {"aten::uniform_", "", at::kFloat, {-0.7, 12.3}},
      {"aten::uniform_", "", at::kFloat, {2.0, 2.0}},
      {"aten::exponential_", "", at::kFloat, {1.0}},
      {"aten::exponential_", "", at::kFloat, {0.3}},
      {"aten::exponential_", "", at::kFloat, {1e-37}},
      {"aten::exponential_", "", at::kFloat, {1e37}},
      {"aten::normal_", "", at::kFloat, {0.0, 1.0}},
      {"aten::normal_", "", at::kFloat, {-3.5, 0.01}},
      {"aten::normal_", "", at::kFloat, {1.0, 0.0}},
  };
  return all;
}

c10::OperatorHandle find(const Drawing& drawing) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(drawing.name, drawing.overload);
}

torch::jit::Stack arguments(const Drawing& drawing, const Tensor& self, const at::Generator& from) {
  torch::jit::Stack stack{self};
  for (const c10::IValue& number : drawing.numbers) stack.push_back(number);
  stack.emplace_back(from);
  return stack;
}

bool same_state(const at::Generator& a, const at::Generator& b) {
  return a.get_state().equal(b.get_state());
}

/// Each draw starts where the last ended: within a block of words, at its end, before the first.
/// Its mask is a result, too.
TEST(Random, NativeDropout) {
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    for (auto train : {std::optional<bool>(true), std::optional<bool>(false), {}}) {
      auto dropout = [=](const Tensor& x) -> std::vector<Tensor> {
        auto [kept, mask] = at::native_dropout(x * 2, 0.3, train);
        return {kept, mask, kept.sum(-1)};
      };
      auto compiled = compile(dropout, at_once("native_dropout"));
      for (int call = 0; call < 4; ++call) {
        const Tensor x = at::randn({7, 45}).to(type);
        at::manual_seed(call);
        const std::vector<Tensor> expected = dropout(x);
        const Tensor next = at::rand({3});
        at::manual_seed(call);
        const std::vector<Tensor> came = compiled(x);
        EXPECT_TRUE(same(came[0], expected[0]) && same(came[1], expected[1])) << type;
        EXPECT_TRUE(same(at::rand({3}), next));
      }
      EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
      EXPECT_EQ(compiled.explain().find("native_dropout extern"), std::string::npos);
    }
}

TEST(Random, DrawsHaveEagersBitsAndLeaveItsState) {
  const at::Generator ours = at::detail::createCPUGenerator(7),
                      eager = at::detail::createCPUGenerator(7);
  for (int64_t count : {0, 1, 5, 15, 16, 17, 31, 311, 312, 313, 623, 624, 625, 2048, 2049, 70001}) {
    for (const Drawing& drawing : drawings()) {
      const auto op = find(drawing);
      const auto draw = runtime::draw_of(op);
      if (draw == nullptr) continue;
      const auto options = at::TensorOptions().dtype(drawing.dtype);
      const Tensor a = at::empty({count}, options), b = at::empty({count}, options);
      auto mine = arguments(drawing, a, ours), atens = arguments(drawing, b, eager);
      if (!draw(mine)) op.callBoxed(mine);
      op.callBoxed(atens);
      EXPECT_EQ(mine.size(), atens.size());
      EXPECT_TRUE(same(mine[0].toTensor(), atens[0].toTensor())) << drawing.name << " of " << count;
      ASSERT_TRUE(same_state(ours, eager)) << drawing.name << " of " << count;
    }
  }
}

TEST(Random, WhatIsNotPlainIsLeftToTheOperator) {
  const at::Generator ours = at::detail::createCPUGenerator(7), before = ours.clone();
  for (const Drawing& drawing : drawings()) {
    const auto draw = runtime::draw_of(find(drawing));
    if (draw == nullptr) continue;
    const auto options = at::TensorOptions().dtype(drawing.dtype);
    for (const Tensor& self :
         {at::empty({20, 20}, options).t(), at::empty({40}, options).slice(0, 0, 40, 2),
          at::empty({40}, options.dtype(at::kDouble))}) {
      auto stack = arguments(drawing, self, ours);
      EXPECT_FALSE(draw(stack)) << drawing.name;
    }
  }
  EXPECT_TRUE(same_state(ours, before));
}

/// After a change of the caller's memory no check may give up: ATen's operator is called, or what
/// gives its places.
TEST(Random, OnePlaceOfEachRowAfterAChangeInPlace) {
  const auto sample = [](const Tensor& x) {
    Tensor logits = x;
    logits.mul_(0.5).add_(1);
    const Tensor weights = at::softmax(logits, -1);
    return std::make_pair(at::multinomial(weights, 1), at::rand({3}));
  };
  for (const int64_t count : {1, 9, 31, 33000}) {
    auto compiled = compile(sample, at_once());
    for (int call = 0; call < 5; ++call) {
      const Tensor x = at::randn({4, count}), ours = x.clone();
      at::manual_seed(call);
      const auto eager = sample(x);
      at::manual_seed(call);
      const auto came = compiled(ours);
      EXPECT_TRUE(same(eager.first, came.first) && same(eager.second, came.second)) << count;
    }
    EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
    const Tensor bad = at::full({4, count}, std::nanf(""));
    EXPECT_THROW(compiled(bad), c10::Error);
  }
}

/// On a machine with AVX2 whose kernels ATen uses.
TEST(Random, TheRoutinesGiveTheseBitsHere) {
  const char* capability = std::getenv("ATEN_CPU_CAPABILITY");
  if (capability != nullptr && std::string(capability) == "default") GTEST_SKIP();
  if (__builtin_cpu_supports("avx2") <= 0) GTEST_SKIP();
  for (const Drawing& drawing : drawings())
    EXPECT_NE(runtime::draw_of(find(drawing)), nullptr) << drawing.name;
}

/// Calls with one seed each; gives the compiled function.
template <class F>
auto compiled_with_seeds(F f, const Tensor& x) {
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 6; ++call) {
    at::manual_seed(call);
    const Tensors ours = compiled(x);
    const Tensor state = at::detail::getDefaultCPUGenerator().get_state();
    at::manual_seed(call);
    const Tensors eager = f(x);
    for (size_t k = 0; k < eager.size(); ++k) EXPECT_TRUE(same(ours[k], eager[k])) << call;
    EXPECT_TRUE(state.equal(at::detail::getDefaultCPUGenerator().get_state()));
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  return compiled;
}

TEST(Random, DropoutIsFused) {
  auto dropped = [](const Tensor& x) -> Tensors {
    const Tensor first = at::dropout(x.relu() + 1, 0.1, true);
    return {at::dropout(first * 2, 0.5, true), first.amax(-1)};
  };
  for (auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    auto f = compiled_with_seeds(dropped, at::randn({33, 77}).to(dtype));
    EXPECT_EQ(f.explain().find("aten::bernoulli_ extern"), std::string::npos) << f.explain();
  }
}

/// ATen draws along the memory, not along the dimensions.
TEST(Random, OnePlaceOfEachRow) {
  const auto sample = [](const Tensor& x) -> Tensors {
    const Tensor weights = (x * 2).exp(), place = at::multinomial(weights, 1);
    return {place, weights.gather(-1, place), at::rand({3})};
  };
  for (const at::ScalarType type : {at::kFloat, at::kDouble})
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{5}, {1}, {3000}, {7, 100}, {1, 400}, {16, 1}})
      compiled_with_seeds(sample, at::randn(sizes, type));
}

TEST(Random, WeightsThatAreNoneThrowEagersErrorsAndDrawNothing) {
  const auto sample = [](const Tensor& x) {
    const Tensor first = at::rand({2});
    return std::make_pair(at::multinomial(x * 1, 1), first);
  };
  auto compiled = compile(sample, at_once());
  for (int call = 0; call < 4; ++call) compiled(at::rand({4, 9}));
  ASSERT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  for (const float bad : {std::nanf(""), INFINITY, -1.0F, 0.0F}) {
    Tensor x = at::rand({4, 9});
    x[2][3] = bad;
    if (bad == 0) x[2].zero_();
    const auto outcome = [&](const auto& f) {
      at::manual_seed(3);
      std::string error = "none";
      try {
        f(x);
      } catch (const c10::Error& thrown) {
        error = thrown.what_without_backtrace();
      }
      return std::make_pair(error, at::rand({1}).item<float>());
    };
    EXPECT_EQ(outcome(compiled), outcome(sample)) << bad;
  }
}

TEST(Random, DropoutOfATransposedTensor) {
  auto dropped = [](const Tensor& x) -> Tensors {
    Tensor noise = at::empty_like(x).bernoulli_(0.7);
    return {x * noise, noise.to(at::kBool).logical_not()};
  };
  compiled_with_seeds(dropped, at::randn({33, 77}).t());
  compiled_with_seeds(dropped, at::randn({5, 6, 7}).permute({2, 0, 1}));
}

TEST(Random, EachCallDrawsAnew) {
  auto noisy = [](const Tensor& x) -> Tensors {
    const Tensor a = at::randn_like(x), b = at::rand_like(x), c = at::empty_like(x).bernoulli_(0.5);
    return {x + a * b, a - c, at::empty_like(x).uniform_(-1, 3) * c};
  };
  compiled_with_seeds(noisy, at::randn({20, 30}));
  compiled_with_seeds(noisy, at::randn({3, 3}));
}

/// Masks of a training step.
TEST(Random, DropoutOfATrainingStep) {
  const Tensor start = at::randn({16, 16});
  Tensor w = start.clone().requires_grad_(true);
  auto step = [&w](const Tensor& x) -> Tensors {
    w.mutable_grad() = Tensor();
    const Tensor loss = at::dropout(at::matmul(x, w).tanh(), 0.25, true).square().mean();
    loss.backward();
    at::NoGradGuard no_grad;
    w.sub_(w.grad(), 0.1);
    return {loss.detach()};
  };
  auto compiled = compile(step, at_once());
  const Tensor x = at::randn({8, 16});
  auto train = [&](auto& f) {
    {
      at::NoGradGuard no_grad;
      w.copy_(start);
    }
    at::manual_seed(3);
    std::vector<float> losses;
    for (int i = 0; i < 8; ++i) losses.push_back(f(x)[0].template item<float>());
    return losses;
  };
  const auto eager = train(step);
  for (int round = 0; round < 3; ++round) {
    const auto ours = train(compiled);
    for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(ours[i], eager[i], 1e-5) << round;
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

}  // namespace
}  // namespace graft::test
