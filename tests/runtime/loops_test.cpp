// Programs that loop over parts of a tensor, as users write them: they are rerolled, and their
// results are eager's for any size, dtype and layout.
#include <functional>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using Tensors = std::vector<at::Tensor>;
using Program = std::function<Tensors(const Tensors&)>;

struct Case {
  const char* name;
  Program run;
  /// Arguments for a number of rows and of steps.
  std::function<Tensors(int64_t rows, int64_t steps)> inputs;
  int64_t most_kernels;  ///< of a program with many steps
  bool exact = true;     ///< false: a sum may round another way
};

Tensors matrix(int64_t rows, int64_t steps) {
  return {at::randn({rows, steps})};
}

at::Tensor spd(int64_t batch, int64_t n) {
  at::Tensor x = at::randn({batch, n, 2 * n});
  return at::matmul(x, x.transpose(1, 2)) / (2 * n) + at::eye(n);
}

Tensors gptq(const Tensors& t) {
  at::Tensor W = t[0].clone();
  at::Tensor Q = at::zeros_like(W), E = at::zeros_like(W);
  for (int64_t i = 0; i < W.size(1); ++i) {
    at::Tensor w = W.select(1, i), d = t[1].select(0, i).select(0, i);
    at::Tensor q = at::clamp(at::round(w / t[2]), -8, 7) * t[2];
    at::Tensor e = (w - q) / d;
    W.slice(1, i) -= e.unsqueeze(1) * t[1].select(0, i).slice(0, i).unsqueeze(0);
    Q.select(1, i).copy_(q);
    E.select(1, i).copy_(e);
  }
  return {Q, E};
}

at::Tensor gptq_of_three(const at::Tensor& W, const at::Tensor& H, const at::Tensor& scale) {
  return gptq({W, H, scale})[0];
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"gptq", gptq,
       [](int64_t rows, int64_t steps) {
         return Tensors{at::randn({rows, steps}),
                        at::randn({steps, steps}).triu() * 0.1 + at::eye(steps),
                        at::rand({rows}) + 0.5};
       },
       2},
      {"gptq_in_place",
       [](const Tensors& t) {
         at::Tensor W = t[0];
         for (int64_t i = 0; i + 1 < W.size(1); ++i)
           W.slice(1, i + 1) -= W.select(1, i).unsqueeze(1) * t[1].select(0, i).slice(0, i + 1);
         return Tensors{};
       },
       [](int64_t rows, int64_t steps) {
         return Tensors{at::randn({rows, steps}), at::randn({steps, steps}) * 0.1};
       },
       2},
      {"a_row_for_all",
       [](const Tensors& t) {
         at::Tensor W = t[0].clone();
         for (int64_t i = 0; i + 1 < W.size(1); ++i) {
           at::Tensor row = t[1].select(0, i).slice(0, i) / t[1].select(0, i).select(0, i);
           at::Tensor scaled = row.abs() / (row + 3);
           W.slice(1, i) -= W.select(1, i).unsqueeze(1) * scaled + scaled.sqrt();
         }
         return Tensors{W};
       },
       [](int64_t rows, int64_t steps) {
         return Tensors{at::randn({rows, steps}), at::rand({steps, steps}) * 0.2 + 0.1};
       },
       2},
      {"lanes_around_a_norm",
       [](const Tensors& t) {
         at::Tensor x = t[0].view({t[0].size(0), -1, 3, 5}), out = at::empty_like(x);
         at::Tensor h = at::zeros_like(x.select(1, 0));
         for (int64_t i = 0; i < x.size(1); ++i) {
           h = h + x.select(1, i);
           h = h / h.abs().amax(-1, true);
           out.select(1, i).copy_(h);
         }
         return Tensors{out};
       },
       [](int64_t rows, int64_t steps) { return Tensors{at::randn({rows, steps * 15})}; }, 6},
      {"stacked_outputs",
       [](const Tensors& t) {
         at::Tensor h = at::zeros_like(t[0].select(1, 0));
         Tensors outputs;
         for (int64_t i = 0; i < t[0].size(1); ++i) {
           h = h * 0.5 + t[0].select(1, i);
           outputs.push_back(h.abs() + h * h);
         }
         return Tensors{at::stack(outputs, 1), h};
       },
       matrix, 3},
      {"a_maximum_for_all",
       [](const Tensors& t) {
         at::Tensor W = t[0].clone(), v = t[1].select(1, 0) * 1;
         for (int64_t i = 0; i < W.size(1); ++i) W.select(1, i).sub_(v.amax(0));
         return Tensors{W};
       },
       [](int64_t rows, int64_t steps) {
         return Tensors{at::randn({rows, steps}), at::randn({rows, 2})};
       },
       2},
      {"growing_temporary",
       [](const Tensors& t) {
         at::Tensor out = at::zeros_like(t[0]);
         for (int64_t i = 2; i <= t[0].size(1); ++i) {
           at::Tensor e = at::exp(t[0].slice(1, 0, i) * t[1].slice(1, 0, i));
           out.select(1, i - 1).copy_((e / e.amax(1, true)).amin(1));
         }
         return Tensors{out};
       },
       [](int64_t rows, int64_t steps) {
         return Tensors{at::randn({rows, steps}), at::randn({rows, steps})};
       },
       200},
      {"flattened_temporary",
       [](const Tensors& t) {
         at::Tensor out = at::zeros({t[0].size(1)}, t[0].options());
         for (int64_t i = 0; i < t[0].size(1); ++i) {
           at::Tensor e = at::exp(t[0].slice(1, i).contiguous()), f = e.view(-1);
           out.select(0, i).copy_((f / f.amax()).amin());
         }
         return Tensors{out};
       },
       matrix, 200},
      {"differences",
       [](const Tensors& t) {
         Tensors firsts;
         at::Tensor h = t[0];
         for (int64_t i = 0; i + 1 < t[0].size(1); ++i) {
           h = h.slice(1, 1) * 0.5 + h.slice(1, 0, -1);
           firsts.push_back(h.select(1, 0));
         }
         if (firsts.empty()) return Tensors{t[0] * 2};
         return Tensors{at::stack(firsts), h};
       },
       matrix, 200},
      {"growing_state",
       [](const Tensors& t) {
         at::Tensor h = t[0].slice(1, 0, 2) * 1.0;
         for (int64_t i = 2; i < t[0].size(1); ++i)
           h = at::cat({h * 0.5 + h.flip(1), t[0].slice(1, i, i + 1)}, 1);
         return Tensors{h};
       },
       matrix, 200},
      {"scattered",
       [](const Tensors& t) {
         at::Tensor previous = at::zeros_like(t[0]), count = previous.clone();
         for (int64_t i = 0; i < t[0].size(1); ++i) {
           at::Tensor index = (t[0] - previous * t[0].select(1, i).unsqueeze(1)).argmin(1, true);
           at::Tensor g = at::zeros_like(previous).scatter(1, index, 1);
           count = count + g * previous;
           previous = g;
         }
         return Tensors{count, previous};
       },
       matrix, 200},
      {"recurrence_functional",
       [](const Tensors& t) {
         at::Tensor h = at::zeros_like(t[0].select(0, 0));
         for (int64_t i = 0; i < t[0].size(0); ++i) h = at::tanh(h * t[1] + t[0].select(0, i));
         return Tensors{h};
       },
       [](int64_t rows, int64_t steps) {
         return Tensors{at::randn({steps, rows, 3}), at::randn({3})};
       },
       8},
      {"recurrence_stacked",
       [](const Tensors& t) {
         Tensors states;
         at::Tensor h = at::zeros_like(t[0].select(1, 0));
         for (int64_t i = 0; i < t[0].size(1); ++i) {
           h = h * 0.5 + t[0].select(1, i) * t[0].select(1, i);
           states.push_back(h);
         }
         return Tensors{at::stack(states, 1)};
       },
       matrix, 8},
      {"cumulative_product",
       [](const Tensors& t) {
         at::Tensor out = t[0].clone();
         for (int64_t i = 1; i < out.size(1); ++i) out.select(1, i).mul_(out.select(1, i - 1));
         return Tensors{out};
       },
       matrix, 2},
      {"backwards",
       [](const Tensors& t) {
         at::Tensor out = t[0].clone();
         for (int64_t i = out.size(1) - 2; i >= 0; --i)
           out.select(1, i).sub_(out.select(1, i + 1), 0.5);
         return Tensors{out};
       },
       matrix, 2},
      {"two_states",
       [](const Tensors& t) {
         at::Tensor c = at::zeros_like(t[0].select(1, 0)), h = c.clone();
         at::Tensor out = at::empty_like(t[0]);
         for (int64_t i = 0; i < t[0].size(1); ++i) {
           at::Tensor x = t[0].select(1, i);
           at::Tensor next = at::sigmoid(x + h) * c + at::sigmoid(x - h) * at::tanh(x);
           h = at::sigmoid(x * h) * at::tanh(next);
           c = next;
           out.select(1, i).copy_(h);
         }
         return Tensors{out, c};
       },
       matrix, 8, false},
      {"swapped_states",
       [](const Tensors& t) {
         at::Tensor a = t[0].select(1, 0) * 1.0, b = a + 1;
         for (int64_t i = 0; i < t[0].size(1); ++i) {
           at::Tensor next = (a * 0.5 + b).sin() + t[0].select(1, i);
           at::Tensor other = (a - b * 0.25).cos();
           a = other;
           b = next;
         }
         return Tensors{a, b};
       },
       matrix, 8},
      {"cholesky",
       [](const Tensors& t) {
         at::Tensor L = t[0].clone();
         for (int64_t k = 0; k < L.size(1); ++k) {
           at::Tensor pivot = L.select(1, k).select(1, k);
           pivot.sqrt_();
           if (k + 1 == L.size(1)) break;
           at::Tensor column = L.slice(1, k + 1).select(2, k);
           column.div_(pivot.unsqueeze(1));
           L.slice(1, k + 1).slice(2, k + 1).sub_(column.unsqueeze(2) * column.unsqueeze(1));
         }
         return Tensors{L.tril_()};
       },
       [](int64_t rows, int64_t steps) { return Tensors{spd(rows, steps)}; }, 4},
      {"triangular_solve",
       [](const Tensors& t) {
         at::Tensor x = t[1].clone();
         for (int64_t i = 0; i < x.size(1); ++i) {
           if (i > 0)
             x.select(1, i).sub_((t[0].select(1, i).slice(1, 0, i) * x.slice(1, 0, i)).sum(1));
           x.select(1, i).div_(t[0].select(1, i).select(1, i));
         }
         return Tensors{x};
       },
       [](int64_t rows, int64_t steps) {
         return Tensors{at::linalg_cholesky(spd(rows, steps)), at::randn({rows, steps})};
       },
       8, false},
      {"gram_schmidt",
       [](const Tensors& t) {
         at::Tensor A = t[0].clone();
         for (int64_t i = 0; i < A.size(2); ++i) {
           at::Tensor v = A.select(2, i);
           v.div_((v * v).sum(1, true).sqrt());
           if (i + 1 == A.size(2)) break;
           at::Tensor rest = A.slice(2, i + 1);
           rest.sub_(v.unsqueeze(2) * (v.unsqueeze(2) * rest).sum(1, true));
         }
         return Tensors{A};
       },
       [](int64_t rows, int64_t steps) { return Tensors{at::randn({rows, 3 * steps, steps})}; }, 8,
       false},
      {"codebook",
       [](const Tensors& t) {
         at::Tensor rest = t[0].clone(), Q = at::empty_like(rest);
         for (int64_t i = 0; i < rest.size(1); ++i) {
           at::Tensor w = rest.select(1, i), code = t[1].select(0, i);
           at::Tensor q = code.index_select(0, (w.unsqueeze(1) - code).abs().argmin(1));
           Q.select(1, i).copy_(q);
           if (i + 1 < rest.size(1)) rest.select(1, i + 1).add_(w - q, 0.5);
         }
         return Tensors{Q};
       },
       [](int64_t rows, int64_t steps) {
         return Tensors{at::randn({rows, steps}), at::randn({steps, 5})};
       },
       6},
      {"index_constants",
       [](const Tensors& t) {
         at::Tensor out = at::zeros_like(t[0]);
         for (int64_t i = 0; i < t[0].size(1); ++i)
           out.add_(at::triu(t[0], i - 2) * t[0].select(1, i).unsqueeze(1));
         return Tensors{out};
       },
       matrix, 4},
      {"stencil",
       [](const Tensors& t) {
         at::Tensor u = t[0].clone();
         for (int64_t i = 0; i < 12; ++i)
           u.slice(1, 1, -1).add_((u.slice(1, 2) - 2 * u.slice(1, 1, -1) + u.slice(1, 0, -2)) *
                                  0.1);
         return Tensors{u};
       },
       matrix, 40},
      {"integers",
       [](const Tensors& t) {
         at::Tensor a = t[0].to(at::kInt), out = at::zeros_like(a);
         for (int64_t i = 0; i + 1 < a.size(1); ++i) {
           a.select(1, i + 1).add_(a.select(1, i) * 3);
           out.select(1, i).copy_(a.select(1, i + 1).bitwise_xor(a.select(1, i)));
         }
         return Tensors{out, a};
       },
       [](int64_t rows, int64_t steps) { return Tensors{at::randn({rows, steps}) * 100}; }, 4},
  };
  return all;
}

Tensors cloned(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& t : tensors) {
    at::Tensor copy = at::empty_strided(t.sizes(), t.strides(), t.options());
    copies.push_back(copy.copy_(t));
  }
  return copies;
}

class Loops : public testing::TestWithParam<Case> {
 protected:
  /// Compiled calls against eager ones on the same inputs, arguments included.
  static void check(const Tensors& inputs, bool exact) {
    auto f = compile(GetParam().run, at_once(GetParam().name));
    for (int call = 0; call < 3; ++call) {
      Tensors ours = cloned(inputs), theirs = cloned(inputs);
      Tensors came = f(ours), expected = GetParam().run(theirs);
      came.insert(came.end(), ours.begin(), ours.end());
      expected.insert(expected.end(), theirs.begin(), theirs.end());
      ASSERT_EQ(came.size(), expected.size());
      for (size_t k = 0; k < came.size(); ++k) {
        if (exact) {
          EXPECT_TRUE(same(came[k], expected[k])) << "tensor " << k << " of call " << call;
        } else {
          EXPECT_TRUE(at::allclose(came[k], expected[k], 1e-4, 1e-5, true)) << k;
        }
      }
    }
    EXPECT_TRUE(was_compiled(f.report()));
  }
};

TEST_P(Loops, BecomeFewKernels) {
  auto f = compile(GetParam().run, at_once(GetParam().name));
  for (int call = 0; call < 2; ++call) f(GetParam().inputs(70, 24));
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_LE(f.report().kernels, GetParam().most_kernels) << f.explain();
}

TEST(LargeLoops, OfIndependentStepsStayParallelKernels) {
  auto each = [](const at::Tensor& x) {
    at::Tensor out = at::empty_like(x);
    for (int64_t i = 0; i < x.size(0); ++i)
      out.select(0, i).copy_((x.select(0, i) * 2).sin() - x.select(0, i));
    return out;
  };
  auto small = compile(each, at_once()), large = compile(each, at_once());
  for (int call = 0; call < 3; ++call) {
    at::Tensor x = at::randn({8, 100}), y = at::randn({8, 400000});
    EXPECT_TRUE(at::allclose(small(x), each(x)));
    EXPECT_TRUE(at::allclose(large(y), each(y)));
  }
  EXPECT_EQ(small.report().kernels, 1);
  EXPECT_GT(large.report().kernels, 1);
}

TEST(LargeLoops, ATileMakesASharedRowItself) {
  auto solve = [](const at::Tensor& x, const at::Tensor& h) {
    at::Tensor W = x.clone();
    for (int64_t i = 0; i + 1 < W.size(1); ++i) {
      at::Tensor row = h.select(0, i) / h.select(0, i).select(0, i);
      W.sub_(W.select(1, i).clone().unsqueeze(1) * (row / (row.abs() + 2)));
    }
    return W;
  };
  auto f = compile(solve, at_once());
  for (int call = 0; call < 3; ++call) {
    at::Tensor x = at::randn({2000, 60}), h = at::rand({60, 60}) + 0.1;
    EXPECT_TRUE(same(f(x, h), solve(x, h)));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_LE(f.report().kernels, 2) << f.explain();
}

TEST(LargeLoops, WithoutAParallelAxisAreUnrolledAgain) {
  auto diffuse = [](const at::Tensor& x) {
    at::Tensor u = x.clone();
    for (int64_t i = 0; i < 9; ++i)
      u.slice(0, 1, -1).add_((u.slice(0, 2) + u.slice(0, 0, -2)) * 0.25);
    return u;
  };
  auto f = compile(diffuse, at_once());
  for (int call = 0; call < 3; ++call) {
    at::Tensor x = at::randn({100000});
    EXPECT_TRUE(same(f(x), diffuse(x)));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

TEST(LargeLoops, ShareKernelsBetweenSizes) {
  auto f = compile(gptq_of_three, at_once());
  for (int64_t rows : {70, 70, 200, 200})
    for (int64_t steps : {24, 9, 33}) {
      at::Tensor W = at::randn({rows, steps}), scale = at::rand({rows}) + 0.5;
      at::Tensor H = at::randn({steps, steps}).triu() * 0.1 + at::eye(steps);
      f(W, H, scale);
    }
  EXPECT_EQ(f.report().records, 6);
  EXPECT_LE(f.report().kernels_compiled, 2);
}

TEST_P(Loops, AnyNumberOfRowsAndSteps) {
  for (int64_t rows : {1, 5, 16, 33, 100})
    for (int64_t steps : {2, 3, 7, 20}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(steps) + " steps");
      check(GetParam().inputs(rows, steps), GetParam().exact);
    }
}

TEST_P(Loops, OtherLayouts) {
  Tensors inputs = GetParam().inputs(40, 12), sliced;
  for (at::Tensor& t : inputs) {
    t = t.transpose(0, -1).contiguous().transpose(0, -1);  // the first dimension is contiguous
    at::Tensor wide = at::randn(t.sizes().vec());
    wide = at::cat({wide, wide}, -1).slice(-1, 0, t.size(-1)).copy_(t);  // a slice of wider rows
    sliced.push_back(wide);
  }
  check(inputs, GetParam().exact);
  check(sliced, GetParam().exact);
}

TEST_P(Loops, OtherDtypes) {
  for (at::ScalarType type : {at::kDouble, at::kBFloat16}) {
    Tensors inputs = GetParam().inputs(35, 12);
    for (at::Tensor& t : inputs) t = t.to(type);
    if (!GetParam().exact && type == at::kBFloat16) continue;
    check(inputs, GetParam().exact);
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Loops, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace graft::test
