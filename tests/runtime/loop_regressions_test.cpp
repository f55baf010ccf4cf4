// Loops that once came out wrong.
#include "runtime/helpers.h"

namespace graft::test {
namespace {

using Tensors = std::vector<at::Tensor>;

/// The carried value is read where the next one is stored at the first step of the loop, and next
/// to it later.
TEST(LoopRegressions, ACarriedValueThatIsReadAtAnotherPlaceEachStep) {
  constexpr int64_t n = 40, most = 8;
  const auto run = [](const Tensors& t) {
    at::Tensor h = t[0];
    const at::Tensor out = at::empty({8, n + most});
    for (int i = 0; i < 8; ++i) {
      const int64_t back = i == 0 ? 3 : i - 1;
      const at::Tensor next = at::empty_like(t[0]), v = h.narrow(0, most - back, n);
      next.narrow(0, most, n).copy_((v * 0.5 + 1) / (v * v + 2));
      next.narrow(0, 0, most).copy_((t[1] * 2.0).sin() * 0.5 + t[1]);
      out.select(0, i).copy_(next * next);
      h = next;
    }
    return Tensors{h * 2, out};
  };
  const auto f = compile(run, at_once());
  for (int call = 0; call < 4; ++call) {
    // NaN first: a proof on such data alone proves little.
    const bool data = call > 1;
    const Tensors t{data ? at::randn({n + most}) : at::full({n + most}, NAN),
                    data ? at::randn({most}) : at::full({most}, NAN)};
    const Tensors expected = run(t), came = f(t);
    for (size_t k = 0; k < expected.size(); ++k) EXPECT_TRUE(same(came[k], expected[k]));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
}

/// A stack's parts move up to what they are made of, however many there are.
TEST(LoopRegressions, AThousandStackedOutputsAreOneLoop) {
  const auto run = [](const at::Tensor& x, const at::Tensor& start) {
    at::Tensor h = start;
    Tensors outputs;
    for (int64_t i = 0; i < x.size(0); ++i) {
      h = h * 0.5 + x.select(0, i);
      outputs.push_back(h.abs() + h * h);
    }
    return at::stack(outputs);
  };
  const auto f = compile(run, at_once());
  for (int call = 0; call < 3; ++call) {
    const at::Tensor x = at::randn({1000, 8}), start = at::randn({8});
    EXPECT_TRUE(same(f(x, start), run(x, start)));
  }
  EXPECT_EQ(f.report().kernels, 1) << f.explain();
}

/// Stacked copies move up to what they copy; a scatter by its own source does not pass its check.
TEST(LoopRegressions, AScatterIsNoCopyThatMoves) {
  const auto run = [](const Tensors& t) {
    at::Tensor h = at::zeros_like(t[0].select(1, 0));
    const at::Tensor index = t[1].sum(1, true), out = at::zeros({t[1].size(0), 8}, at::kLong);
    Tensors states;
    for (int64_t i = 0; i < t[0].size(1); ++i) {
      h = (h * 0.5 + t[0].select(1, i)) / (h * h + 2);
      states.push_back(h);
    }
    const at::Tensor stacked = at::stack(states, 1);
    out.scatter_(1, index, index);
    return Tensors{stacked, out};
  };
  const auto f = compile(run, at_once());
  const Tensors good{at::randn({40, 24}), at::randint(0, 2, {6, 4}, at::kLong)};
  for (int call = 0; call < 3; ++call) {
    const Tensors expected = run(good), came = f(good);
    for (size_t k = 0; k < expected.size(); ++k) EXPECT_TRUE(same(came[k], expected[k]));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
  Tensors bad = good;
  bad[1] = good[1].clone();
  bad[1].select(1, 0).fill_(int64_t{1} << 40);
  EXPECT_THROW(f(bad), c10::Error);
}

}  // namespace
}  // namespace graft::test
