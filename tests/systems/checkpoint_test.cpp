// A function that backward runs again: the bits of one whose activations are kept, for less memory.
#include <ATen/autocast_mode.h>
#include <ATen/ops/mm.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/systems/checkpoint_support.h"

namespace graft::systems::test {
namespace {

using at::Tensor;
using testing::HasSubstr;

class Checkpoint : public testing::TestWithParam<std::tuple<Recompute, at::ScalarType>> {};

TEST_P(Checkpoint, HasTheBitsOfTheFunction) {
  const auto [what, dtype] = GetParam();
  const std::vector<Block> blocks = {Block(32, 1, dtype), Block(32, 11, dtype),
                                     Block(32, 21, dtype)};
  const Tensor x = random({2, 8, 32}, 5, dtype).requires_grad_();
  std::vector<Tensor> leaves = {x};
  for (const Block& block : blocks)
    leaves.insert(leaves.end(), block.parameters.begin(), block.parameters.end());
  const auto with = [&](Recompute how) {
    return run(
        [&] {
          Tensor y = x;
          for (const Block& block : blocks) y = checkpoint(how, block, y);
          return y;
        },
        leaves);
  };
  EXPECT_EQ(difference(with(Recompute::Nothing), with(what)), "");
}

TEST_P(Checkpoint, KeepsAutocast) {
  const auto [what, dtype] = GetParam();
  const Block first(32, 1), second(32, 11);
  const Tensor x = random({2, 8, 32}, 5);  // needs no gradient: the parameters do
  std::vector<Tensor> leaves = first.parameters;
  leaves.insert(leaves.end(), second.parameters.begin(), second.parameters.end());
  const auto with = [&](Recompute how, const Block& last) {
    const bool before = at::autocast::is_autocast_enabled(at::kCPU);
    return run(
        [&] {
          at::autocast::set_autocast_enabled(at::kCPU, true);
          at::autocast::set_autocast_dtype(at::kCPU, dtype == at::kFloat ? at::kHalf : dtype);
          // Within a function a weight is cast once and used twice.
          const auto twice = [&](const Tensor& in) { return first(first(in)); };
          const Tensor y = checkpoint(how, last, checkpoint(how, twice, x));
          at::autocast::clear_cache();
          at::autocast::set_autocast_enabled(at::kCPU, before);
          return y;
        },
        leaves);
  };
  EXPECT_EQ(difference(with(Recompute::Nothing, second), with(what, second)), "");
  // Where functions share weights, gradients are added up after the casts and not before.
  const Outcome plain = with(Recompute::Nothing, first), again = with(what, first);
  EXPECT_TRUE(plain.loss.equal(again.loss));
  for (size_t i = 0; i < first.parameters.size(); ++i)
    EXPECT_LT((plain.gradients[i] - again.gradients[i]).norm().item<double>(),
              0.02 * plain.gradients[i].norm().item<double>())
        << i;
}

INSTANTIATE_TEST_SUITE_P(All, Checkpoint,
                         testing::Combine(testing::Values(Recompute::CheapOperators,
                                                          Recompute::Everything),
                                          testing::Values(at::kFloat, at::kBFloat16)));

TEST(CheckpointOfContainers, RebuildsThem) {
  using Nested = std::vector<std::pair<Tensor, std::vector<Tensor>>>;
  const Tensor a = parameter({4, 4}, 1), b = parameter({4, 4}, 2), c = random({4, 4}, 3);
  const auto f = [](const Nested& in, double scale, int64_t power) {
    Nested out;
    for (const auto& [first, others] : in)
      out.push_back({(first * scale).pow(power).tanh(), {others[0] + first, others[1]}});
    return std::make_tuple(out, power + 1, Tensor());
  };
  const Nested in = {{a, {b, c}}, {b, {a, c}}};
  int64_t number = 0;
  const auto with = [&](Recompute what) {
    return run(
        [&] {
          const auto [out, next, nothing] = checkpoint(what, f, in, 0.5, int64_t{3});
          number = next;
          EXPECT_FALSE(nothing.defined());
          EXPECT_FALSE(out[0].second[1].requires_grad());
          return out[0].first * out[1].second[0] + out[1].first + out[0].second[1];
        },
        {a, b, c});
  };
  EXPECT_EQ(difference(with(Recompute::Nothing), with(Recompute::Everything)), "");
  EXPECT_EQ(number, 4);
}

TEST(CheckpointOfCapturedTensors, GivesThemTheirGradientsOnce) {
  const Tensor w = parameter({8, 8}, 1), u = parameter({8, 8}, 2);
  const Tensor x = random({4, 8}, 3);
  int hooks = 0;
  w.register_hook([&](const Tensor& gradient) {
    ++hooks;
    return gradient * 3;
  });
  const auto with = [&](Recompute what) {
    return run(
        [&] {
          const Tensor inner = u.exp();  // captured, and no leaf
          inner.register_hook([&](const Tensor& gradient) { return gradient * 2; });
          inner.retain_grad();
          const auto f = [=](const Tensor& in) { return at::mm(in, w).tanh() + at::mm(in, inner); };
          return checkpoint(what, f, checkpoint(what, f, x)) * inner.sum();
        },
        {w, u});
  };
  const Outcome plain = with(Recompute::Nothing);
  EXPECT_EQ(difference(plain, with(Recompute::Everything)), "");
  EXPECT_EQ(difference(plain, with(Recompute::CheapOperators)), "");
  EXPECT_EQ(hooks, 3);
}

TEST(CheckpointOfCapturedTensors, LeavesGradientsAloneThatWereNotAskedFor) {
  const Tensor w = parameter({8, 8}, 1), x = parameter({4, 8}, 2);
  const Tensor y =
      checkpoint(Recompute::Everything, [=](const Tensor& in) { return at::mm(in, w).tanh(); }, x);
  const auto of_x = torch::autograd::grad({y.sum()}, {x});
  EXPECT_TRUE(of_x[0].defined());
  EXPECT_FALSE(w.grad().defined());
  EXPECT_FALSE(x.grad().defined());
}

TEST(CheckpointInCheckpoint, HasTheBits) {
  const Block block(32, 1), other(32, 11);
  const Tensor x = random({2, 8, 32}, 5).requires_grad_();
  std::vector<Tensor> leaves = block.parameters;
  leaves.insert(leaves.end(), other.parameters.begin(), other.parameters.end());
  leaves.push_back(x);
  const auto with = [&](Recompute outside, Recompute inside) {
    return run(
        [&] {
          return checkpoint(
              outside, [=](const Tensor& in) { return checkpoint(inside, block, other(in)) * 2; },
              x);
        },
        leaves);
  };
  const Outcome plain = with(Recompute::Nothing, Recompute::Nothing);
  for (const Recompute outside : {Recompute::CheapOperators, Recompute::Everything})
    for (const Recompute inside : {Recompute::CheapOperators, Recompute::Everything})
      EXPECT_EQ(difference(plain, with(outside, inside)), "")
          << static_cast<int>(outside) << static_cast<int>(inside);
}

TEST(CheckpointOfCheapOperators, UsesTheProductsOfTheFirstRun) {
  const Tensor w = parameter({8, 8}, 1), x = parameter({4, 8}, 2);
  std::vector<const void*> products, sums;
  const auto f = [&](const Tensor& in) {
    const Tensor product = at::mm(in, w), sum = product + 1;
    products.push_back(product.const_data_ptr());
    sums.push_back(sum.const_data_ptr());
    return sum.tanh();
  };
  const Tensor y = checkpoint(Recompute::CheapOperators, f, x).sum();
  const Tensor taken = at::mm(random({4, 8}, 3), w);  // of the memory that the sum had
  y.backward();
  ASSERT_EQ(products.size(), 2u);
  EXPECT_EQ(products[0], products[1]);
}

TEST(CheckpointOfCheapOperators, RunsProductsAgainThatWereChangedInPlace) {
  const Tensor w = parameter({8, 8}, 1), x = parameter({4, 8}, 2);
  const auto with = [&](Recompute what) {
    return run(
        [&] {
          // Changed inside of the function, and its result outside.
          const Tensor y = checkpoint(
              what, [&](const Tensor& in) { return at::mm(at::mm(in, w).sigmoid_(), w); }, x);
          return y.mul_(2) + 1;
        },
        {w, x});
  };
  EXPECT_EQ(difference(with(Recompute::Nothing), with(Recompute::CheapOperators)), "");
}

TEST(CheckpointErrors, SayWhatHappened) {
  const Tensor w = parameter({8, 8}, 1), x = parameter({4, 8}, 2);
  const auto f = [=](const Tensor& in) { return at::mm(in.tanh(), w); };
  const auto y = [&] { return checkpoint(Recompute::Everything, f, x).square().sum(); };
  EXPECT_THAT(message_of([&] { torch::autograd::grad({y()}, {x}, {}, true, true); }),
              HasSubstr("create_graph = true"));

  const Tensor twice = y();
  twice.backward({}, true);
  const Tensor once = w.grad().clone();
  twice.backward();
  EXPECT_TRUE(w.grad().equal(once * 2));
  EXPECT_THAT(message_of([&] { twice.backward(); }), HasSubstr("a second time"));

  const auto changed = [](const Tensor& tensor) {
    const c10::NoGradGuard no_grad;
    tensor.add_(1);
  };
  const Tensor before = y();
  changed(w);
  EXPECT_THAT(message_of([&] { before.backward(); }),
              HasSubstr("sizes [8, 8] that a checkpointed function captures was changed in place"));
  const Tensor input = y();
  changed(x);
  EXPECT_THAT(message_of([&] { input.backward(); }), HasSubstr("modified by an inplace operation"));

  int runs = 0;
  const auto other = [&](const Tensor& in) {
    return ++runs == 1 ? at::mm(at::mm(in, w), w) : at::mm(in, w);
  };
  const Tensor different = checkpoint(Recompute::CheapOperators, other, x).sum();
  EXPECT_THAT(message_of([&] { different.backward(); }), HasSubstr("did other work"));
}

TEST(CheckpointWithoutGradients, IsAPlainCall) {
  const Tensor w = parameter({8, 8}, 1), x = random({4, 8}, 2);
  int runs = 0;
  const auto f = [&](const Tensor& in) {
    ++runs;
    return at::mm(in, w);
  };
  {
    const c10::NoGradGuard no_grad;
    EXPECT_FALSE(checkpoint(Recompute::Everything, f, x).requires_grad());
  }
  const auto frozen = [&](const Tensor& in) { return in + w.detach().sum(); };
  EXPECT_FALSE(checkpoint(Recompute::Everything, frozen, x).requires_grad());
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace graft::systems::test
