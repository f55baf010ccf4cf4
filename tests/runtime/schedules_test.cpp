// Programs whose schedules are chosen by cost, at sizes where the choices differ, against eager.
#include <gtest/gtest.h>

#include <functional>

#include "helpers.h"

namespace graft {
namespace {

using test::Tensors;
using Function = std::function<Tensors(const Tensors&)>;

/// Three calls of the plan on other data give eager's results: its bits where `bitwise`.
void expect_eager(const Function& f, const std::function<Tensors(int)>& arguments, bool bitwise) {
  auto compiled = compile(f, test::at_once());
  for (int call = 0; call < 5; ++call) {
    Tensors plain = arguments(call), given;
    for (const at::Tensor& t : plain)
      given.push_back(at::empty_strided(t.sizes(), t.strides(), t.options()).copy_(t));
    Tensors expected = f(plain), came = compiled(given);
    plain.insert(plain.end(), expected.begin(), expected.end());
    given.insert(given.end(), came.begin(), came.end());
    for (size_t k = 0; k < plain.size(); ++k)
      if (bitwise)
        EXPECT_EQ(test::difference(plain[k], given[k]), "") << "call " << call << ", tensor " << k;
      else
        EXPECT_TRUE(at::allclose(plain[k], given[k], 1e-4, 1e-4)) << "call " << call << ", " << k;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
}

at::Tensor drawn(at::IntArrayRef sizes, int call) {
  at::manual_seed(static_cast<uint64_t>(7 * call + sizes.back()));
  return at::randn(sizes);
}

TEST(Schedules, AComputedScalarScalesALargeTensor) {
  expect_eager([](const Tensors& t) { return Tensors{t[0].mul_(t[1] / 4096)}; },
               [](int call) { return Tensors{drawn({1 << 20}, call), drawn({1}, call).squeeze()}; },
               true);
}

/// Values that are changed in place several times, of arguments and of temporaries, and readers of
/// each state: in the vector loop they stay in registers, and only the last state is stored.
TEST(Schedules, ChainsInPlace) {
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kInt})
    for (int64_t count : {1, 37, 20000})
      expect_eager(
          [](const Tensors& t) {
            at::Tensor fresh = t[0] + t[1];
            t[1].mul_(3).add_(fresh);
            at::Tensor kept = t[1] * fresh;
            fresh.sub_(t[1]).mul_(fresh);
            t[0].copy_(at::where(fresh > 0, kept, t[0]));
            t[0].mul_(2);
            kept.add_(t[0]);
            return Tensors{kept * fresh};
          },
          [&](int call) {
            return Tensors{(drawn({3, count}, call) * 9).to(type),
                           (drawn({3, count}, call + 50) * 5).to(type)};
          },
          true);
}

/// One element per row is stored or added to, in rows that were just made, along either axis.
TEST(Schedules, OneElementPerRow) {
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong})
    for (int64_t width : {1, 50, 1000})
      expect_eager(
          [](const Tensors& t) {
            at::Tensor rows = t[0] * 2, zeros = at::zeros_like(t[0]), columns = t[0] + t[0];
            rows.scatter_add_(1, t[1], at::ones_like(t[1], t[0].options()));
            zeros.scatter_(1, t[1], -1);
            columns.index_copy_(1, t[1][0], t[0].narrow(1, 0, 1));
            return Tensors{rows.sub_(3), zeros + t[0], columns * 5};
          },
          [&](int call) {
            return Tensors{(drawn({40, width}, call) * 9).to(type),
                           (drawn({40, 1}, call).abs() * 1000).to(at::kLong).remainder(width)};
          },
          true);
}

/// Complex numbers as pairs, and pixels of three and four colours, of every dtype that ATen adds.
TEST(Schedules, InterleavedParts) {
  for (at::ScalarType type :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kChar, at::kLong, at::kBool})
    for (int64_t parts : {2, 3, 4})
      for (int64_t count : {64, 1001})
        expect_eager(
            [&](const Tensors& t) {
              // In turn, each plus the next; what the parts hold is moved in place, too.
              Tensors in = t[0].unbind(-1), out;
              for (size_t k = 0; k < in.size(); ++k) out.push_back(in[k] + in[(k + 1) % in.size()]);
              at::Tensor joined = at::stack(out, -1);
              for (at::Tensor& x : in) x.add_(t[1]);
              return Tensors{joined, joined.to(at::kFloat) * 0.5, at::cat(out, -1)};
            },
            [&](int call) {
              return Tensors{(drawn({5, count, parts}, call) * 9).to(type),
                             (drawn({5, count}, call) * 9).to(type)};
            },
            true);
}

TEST(Schedules, ProductsOfComplexNumbersAsPairs) {
  expect_eager(
      [](const Tensors& t) {
        at::Tensor a = t[0].select(-1, 0), b = t[0].select(-1, 1), c = t[1].select(-1, 0),
                   d = t[1].select(-1, 1);
        at::Tensor product = at::stack({a * c - b * d, a * d + b * c}, -1);
        return Tensors{product, (product * product).sum(-1), product.flatten() + 1};
      },
      [](int call) { return Tensors{drawn({33, 57, 2}, call), drawn({57, 2}, call + 9)}; }, true);
}

TEST(Schedules, ColumnSumsWithTheirProducer) {
  for (int64_t rows : {64, 101, 128, 1000, 4099})
    expect_eager(
        [](const Tensors& t) {
          at::Tensor g = t[0] * at::tanh(t[1]);
          return Tensors{g, g.sum(0), (g * t[1]).sum(0)};
        },
        [&](int call) { return Tensors{drawn({rows, 520}, call), drawn({rows, 520}, call + 9)}; },
        false);
}

TEST(Schedules, ColumnSumsOverSeveralAxes) {
  expect_eager(
      [](const Tensors& t) {
        return Tensors{t[0].sum(at::IntArrayRef{0, 1}), t[0].amax(at::IntArrayRef{0, 1})};
      },
      [](int call) { return Tensors{drawn({5, 201, 512}, call)}; }, false);
  expect_eager(  // turned: the sum runs along memory
      [](const Tensors& t) { return Tensors{t[0].t().sum(0)}; },
      [](int call) { return Tensors{drawn({600, 700}, call)}; }, false);
}

TEST(Schedules, ValuesPickedOfALogSoftmax) {
  expect_eager(
      [](const Tensors& t) {
        at::Tensor log = at::log_softmax(t[0], -1);
        return Tensors{log.gather(1, t[1]).squeeze(1), log.index_select(0, t[1].squeeze(1))};
      },
      [](int call) {
        return Tensors{drawn({300, 350}, call), at::randint(0, 300, {300, 1}, at::kLong)};
      },
      false);
}

TEST(Schedules, ValuesPickedOfWhatLiesTurned) {
  auto arguments = [](int call) {
    return Tensors{drawn({64, 48}, call).t(), at::randint(0, 48, {5}, at::kLong)};
  };
  expect_eager(
      [](const Tensors& t) {
        at::Tensor y = at::sqrt(t[0].abs()).contiguous();
        return Tensors{y.view({-1}).index_select(0, t[1] * 60), y.index_select(0, t[1]),
                       y.index_select(1, t[1])};
      },
      arguments, true);
  expect_eager(
      [](const Tensors& t) {
        at::Tensor y = at::sqrt(t[0].abs()).contiguous();
        return Tensors{y.as_strided({40, 60}, {30, 1}).index_select(1, t[1] + 11)};
      },
      arguments, true);
}

TEST(Schedules, FieldsOfOtherSizesThatUpdateEachOther) {
  expect_eager(
      [](const Tensors& t) {
        t[1].sub_(t[0].slice(1, 1) - t[0].slice(1, 0, -1), 0.5);
        t[2].add_(t[0].slice(0, 1) - t[0].slice(0, 0, -1), 0.5);
        return Tensors{t[1].t() + t[2]};
      },
      [](int call) {
        return Tensors{drawn({600, 600}, call), drawn({600, 599}, call), drawn({599, 600}, call)};
      },
      true);
}

TEST(Schedules, ListsOfParameters) {
  expect_eager(
      [](const Tensors& t) {
        Tensors p{t[0], t[1]}, g{t[2], t[3]};
        Tensors decayed = at::_foreach_add(g, p, 1e-4);
        at::_foreach_mul_(g, 0.9);
        at::_foreach_add_(g, decayed);
        at::_foreach_addcmul_(p, g, decayed, -0.01);
        return Tensors{at::_foreach_norm(p)[1]};
      },
      [](int call) {
        return Tensors{drawn({512, 513}, call), drawn({77}, call), drawn({512, 513}, call + 5),
                       drawn({77}, call + 5)};
      },
      false);
}

/// Its kernel reads the numbers on the host.
TEST(Schedules, ListsScaledByATensorOfNumbers) {
  auto step = [](const Tensors& t) {
    Tensors p{t[0], t[1]};
    at::_foreach_addcdiv_(p, {t[1], t[0]}, {t[0], t[1]}, t[2]);
    return Tensors{p[0] + 1};
  };
  auto compiled = compile(Function(step), test::at_once());
  for (int call = 0; call < 6; ++call) {
    Tensors mine{drawn({40}, call), drawn({41}, call).slice(0, 1),
                 at::full({2}, call < 3 ? 1 : call)};
    Tensors theirs{mine[0].clone(), mine[1].clone(), mine[2].clone()};
    EXPECT_EQ(test::difference(step(theirs)[0], compiled(mine)[0]), "") << call;
  }
}

TEST(Schedules, LongSumsOfDoublesKeepTheirDigits) {
  expect_eager([](const Tensors& t) { return Tensors{t[0].exp().sum(1), t[0].sum(1)}; },
               [](int call) { return Tensors{drawn({4, 20000, 64}, call).to(at::kDouble)}; },
               false);
}

TEST(Schedules, SumsWithAxesOfOneElement) {
  expect_eager(
      [](const Tensors& t) {
        return Tensors{t[0].sum(), t[0].sum(at::IntArrayRef{0, 1}),
                       t[1].sum(at::IntArrayRef{0, 1})};
      },
      [](int call) { return Tensors{drawn({1, 131072}, call), drawn({700, 2, 512}, call)}; },
      false);
}

TEST(Schedules, StepsOverChannels) {
  for (int64_t channels : {64, 100, 1024, 1500})
    expect_eager(
        [](const Tensors& t) {
          at::Tensor out = at::empty_like(t[0]), state = at::zeros_like(t[0].select(1, 0));
          for (int64_t k = 0; k < t[0].size(1); ++k) {
            state = at::tanh(state * 0.5 + t[0].select(1, k));
            out.select(1, k).copy_(state * t[1]);
          }
          return Tensors{out, state};
        },
        [&](int call) { return Tensors{drawn({3, 17, channels}, call), drawn({channels}, call)}; },
        true);
}

TEST(Schedules, SoftmaxUnderALinearBiasKeepsNoSubnormals) {
  expect_eager(
      [](const Tensors& t) {
        at::Tensor at = at::arange(400, at::kFloat);
        at::Tensor apart = at.unsqueeze(0) - at.unsqueeze(1);
        at::Tensor scores = t[0] + t[1].view({-1, 1, 1}) * apart;
        return Tensors{at::softmax(scores.masked_fill(apart.gt(0), -INFINITY), -1)};
      },
      [](int call) { return Tensors{drawn({4, 400, 400}, call), at::arange(1, 5).to(at::kFloat)}; },
      false);
}

/// Copies whose sides lie along different axes go by squares in registers, of every dtype, with
/// edges beside the squares; several of one shape, and into parts of what there is.
TEST(Schedules, TransposedCopies) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble, at::kChar, at::kLong})
    for (auto [rows, columns] : {std::pair(64, 48), {257, 131}, {16, 16}, {1000, 17}, {300, 15}}) {
      expect_eager(
          [](const Tensors& t) {
            const at::Tensor turned = t[0].transpose(1, 2).contiguous();
            t[1].transpose(0, 1).copy_(t[0][1]);
            return Tensors{turned, t[0].permute({2, 0, 1}).contiguous(),
                           t[0].transpose(1, 2).contiguous() + 1, t[1] + 1};
          },
          [&](int call) {
            return Tensors{(drawn({3, rows, columns}, call) * 50).to(dtype),
                           drawn({columns, rows}, call).to(dtype)};
          },
          /*bitwise=*/true);
    }
}

TEST(Schedules, LossesOfLogits) {
  expect_eager(
      [](const Tensors& t) {
        return Tensors{at::binary_cross_entropy_with_logits(t[0], t[1].sigmoid()),
                       at::binary_cross_entropy_with_logits(t[0], t[1].sigmoid(), {}, t[2],
                                                            at::Reduction::None)};
      },
      [](int call) {
        return Tensors{drawn({200, 300}, call), drawn({200, 300}, call + 3), drawn({300}, call)};
      },
      false);
}

/// Rows of few elements: lanes of a vector, whose rows go through registers in whole and in parts
/// of squares, beside the last rows, which fill no vector.
TEST(Schedules, ShortRows) {
  const std::vector<std::pair<Function, bool>> functions{
      {[](const Tensors& t) { return Tensors{(t[0] * t[0] + 1).sum(-1), t[0].amax(-1)}; }, false},
      {[](const Tensors& t) { return Tensors{t[0].softmax(-1), t[0].argmax(-1)}; }, false},
      {[](const Tensors& t) {
         at::Tensor d = t[0] - t[0].mean(-1, true);
         return Tensors{d * (d.square().mean(-1, true) + 0.1).rsqrt()};
       },
       false},
      {[](const Tensors& t) { return Tensors{(t[0] * 2).cumsum(-1) + t[0]}; }, false},
      {[](const Tensors& t) {
         t[0].sub_(t[0].amax(-1, true)).clamp_(-3, 3);
         return Tensors{t[0].amin(-1)};
       },
       true},
  };
  const std::vector<std::pair<at::ScalarType, std::vector<int64_t>>> widths{
      {at::kFloat, {5, 8, 10, 16, 19, 50}}, {at::kDouble, {13}}, {at::kBFloat16, {6, 21}}};
  for (const auto& [type, of] : widths)
    for (int64_t width : of)
      for (const auto& [f, bitwise] : functions) {
        const double off = c10::elementSize(type) == 2 ? 0.02 : 1e-4;
        auto compiled = compile(f, test::at_once());
        for (int call = 0; call < 4; ++call) {
          // Of a wider matrix: what lies beside the rows stays as it is.
          at::Tensor all = drawn({4099, width + 3}, call).to(type), other = all.clone();
          const Tensors expected = f({all.narrow(1, 1, width)}),
                        came = compiled(Tensors{other.narrow(1, 1, width)});
          EXPECT_EQ(test::difference(all, other), "") << type << ' ' << width;
          for (size_t k = 0; k < expected.size(); ++k)
            if (bitwise || !at::isFloatingType(expected[k].scalar_type()))
              EXPECT_EQ(test::difference(expected[k], came[k]), "") << type << ' ' << width;
            else
              EXPECT_TRUE(at::allclose(expected[k], came[k], off, off)) << type << ' ' << width;
        }
        EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
      }
}

/// Matrices of few elements: each is a lane, with loops over its rows and columns inside.
TEST(Schedules, SmallMatrices) {
  const std::vector<Function> functions{
      [](const Tensors& t) { return Tensors{at::bmm(t[0], t[1]) + t[0]}; },
      [](const Tensors& t) { return Tensors{at::bmm(t[0].transpose(1, 2), t[1]).sum(1)}; },
      [](const Tensors& t) {
        at::Tensor x = t[0].select(2, 0);
        return Tensors{x.unsqueeze(2) * x.unsqueeze(1) - t[1]};
      },
      [](const Tensors& t) {
        t[0].sub_(t[0].mean({1, 2}, true)).mul_(t[1].transpose(1, 2));
        return Tensors{t[0].amax(1)};
      },
  };
  for (at::ScalarType type : {at::kFloat, at::kDouble})
    for (int64_t n : {2, 3, 4, 6})
      for (const Function& f : functions)
        expect_eager(
            f,
            [&](int call) {
              return Tensors{
                  drawn({5001, n, n}, call).to(type),
                  drawn({n, n, 5001}, call + 9).to(type).permute({2, 0, 1}).contiguous()};
            },
            false);
}

/// Operands that lie along different dimensions: one of them goes through squares.
TEST(Schedules, TransposedOperands) {
  const std::vector<Function> functions{
      [](const Tensors& t) { return Tensors{t[0].t() + t[1]}; },
      [](const Tensors& t) { return Tensors{(t[0] + t[0].t()) * 2 - t[1]}; },
      [](const Tensors& t) { return Tensors{t[0].t().contiguous().relu() * 3}; },
      [](const Tensors& t) {
        t[0].t().add_(t[1]).mul_(2);
        return Tensors{t[0] - 1};
      },
      [](const Tensors& t) {
        at::Tensor x = t[0].t();
        return Tensors{(x.narrow(0, 1, x.size(0) - 16) - x.narrow(0, 0, x.size(0) - 16)) *
                       t[1].narrow(0, 3, x.size(0) - 16)};
      },
      [](const Tensors& t) { return Tensors{t[0].t().to(at::kFloat) * 0.5 + t[1].to(at::kFloat)}; },
  };
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kLong, at::kByte})
    for (int64_t n : {64, 144, 208})
      for (const Function& f : functions)
        expect_eager(
            f,
            [&](int call) {
              return Tensors{(drawn({n, n}, call) * 20).to(type),
                             (drawn({n, n}, call + 9) * 20).to(type)};
            },
            true);
}

}  // namespace
}  // namespace graft
