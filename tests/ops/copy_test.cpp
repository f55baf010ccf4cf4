// Operators that move elements: copies, joins, pads, rolls, flips, triangles, fills and ranges.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "support/lowered.h"

namespace graft::test {

using at::Tensor;

class Moves : public testing::TestWithParam<at::ScalarType> {
 protected:
  Tensor of(std::vector<int64_t> sizes) { return grid(std::move(sizes), GetParam()); }
};

TEST_P(Moves, Joins) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        return {at::cat({t[0], t[1], t[0].t().t()}, -1), at::stack({t[0], t[0].mul(1)}, 1),
                at::cat({t[0], t[1]}, 1).t()};
      },
      {of({3, 4}), of({3, 2})});
  expect_as_eager(
      [](Tensors& t) -> Tensors { return {at::cat({t[0], t[1]}), at::stack({t[0], t[0]}, -1)}; },
      {of({0}), of({3})});
  expect_as_eager([](Tensors& t) -> Tensors { return {at::cat({t[0], t[1]})}; },
                  {of({4}), grid({3}, at::kDouble)});
}

TEST_P(Moves, Pads) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        return {at::constant_pad_nd(t[0], {1, 2, 3, 0}, 1), at::constant_pad_nd(t[0], {-1, 2}, 0),
                at::constant_pad_nd(t[0], {2, -2, -1, -1}, 1),
                at::constant_pad_nd(t[0], {0, 0, 0, 0})};
      },
      {of({3, 4})});
}

TEST_P(Moves, Repeats) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        return {t[0].repeat({2, 1, 3}), t[0].t().repeat({1, 2}), t[0].repeat({0, 1}),
                t[1].repeat({3})};
      },
      {of({2, 3}), of({})});
}

TEST_P(Moves, Rolls) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        return {at::roll(t[0], {1}, {0}), at::roll(t[0], {-5, 2}, {1, 0}), at::roll(t[0], {3}),
                at::roll(t[0].t(), {3}), at::roll(t[0], {8}, {1})};
      },
      {of({3, 4})});
}

TEST_P(Moves, Flips) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        return {at::flip(t[0], {0}), at::flip(t[0], {1, 0}), at::flip(t[0].t(), {-1}),
                at::flip(t[1], {})};
      },
      {of({3, 4}), of({})});
}

TEST_P(Moves, Triangles) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        t[1].tril_(-1);
        t[1].triu_(-2);
        return {at::tril(t[0]), at::triu(t[0], 1), at::tril(t[0].transpose(1, 2), -1)};
      },
      {of({2, 4, 5}), of({4, 4})});
}

TEST_P(Moves, Fills) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        auto options = t[0].options();
        t[0].slice(1, 1).fill_(1);
        t[0].select(0, 1).zero_();
        t[1].fill_(t[0][0][0]);
        return {at::zeros({3}, options), at::ones({2, 2}, options), at::full({3}, 1, options),
                at::full_like(t[0], 1),  t[0].new_zeros({2}),       at::zeros_like(t[0]),
                at::ones_like(t[1]),     t[0].new_ones({2}),        t[0].new_full({2}, 1),
                at::eye(3, 4, options)};
      },
      {of({3, 4}), of({5})});
}

TEST_P(Moves, Converts) {
  for (at::ScalarType to :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kChar, at::kBool})
    expect_as_eager(
        [to](Tensors& t) -> Tensors {
          Tensor copied = at::empty(t[0].sizes(), t[0].options().dtype(to));
          copied.copy_(t[0][0]);
          return {t[0].to(to) == 1, copied, t[0].t().contiguous(), t[0].to(to).clone()};
        },
        {of({5, 7})});
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Moves,
                         testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf,
                                         at::kLong, at::kChar, at::kBool),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(Ranges, AreExact) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        auto options = t[0].options();
        return {at::arange(5, options) + t[0], at::arange(10, 0, -2, options),
                at::arange(3, 8, at::kLong), at::arange(100, at::kBFloat16),
                at::arange(40000, options)};
      },
      {grid({5})});
  LoweredRun run =
      lower_run([](Tensors& t) -> Tensors { return {at::arange(0, 1, 0.1) + t[0]}; }, {grid({10})});
  EXPECT_EQ(fate(run.lowered, "aten::arange.start_step"), "extern: values that its dtype rounds");
}

}  // namespace graft::test
