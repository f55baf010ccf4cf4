// Complex tensors beside eager: loops over their parts, lazy conjugates, and gradients through
// them.
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <string>
#include <vector>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct ComplexProgram {
  const char* name;
  Tensors (*run)(const Tensors&);
};

/// Arguments: two complex tensors of one size, and a real one.
const std::vector<ComplexProgram>& complex_programs() {
  static const std::vector<ComplexProgram> all = {
      {"arithmetic",
       [](const Tensors& a) {
         return Tensors{a[0] * a[1] + a[0] / (a[1] + 3), a[0] - a[2] * a[1], 1 - a[0] * 2.5};
       }},
      {"with complex numbers",
       [](const Tensors& a) {
         const c10::complex<double> i(0, 1);
         return Tensors{a[0] * i + a[1], at::add(a[0], a[1], i), at::sub(a[0], a[1], 0.5)};
       }},
      {"magnitude and angle",
       [](const Tensors& a) {
         return Tensors{a[0].abs(), a[1].angle(), at::polar(a[2].abs(), a[2]),
                        at::complex(a[2], -a[2])};
       }},
      {"in place, reading what it stores",
       [](const Tensors& a) {
         Tensor z = a[0] * 2;
         z.mul_(z).mul_(a[1]).add_(z, 0.25).neg_();
         z.select(0, 0).copy_(a[2].select(0, 0));
         return Tensors{z};
       }},
      {"arguments in place",
       [](const Tensors& a) {
         a[0].mul_(a[1]);
         a[1].copy_(a[0].conj());
         return Tensors{};
       }},
      {"moves",
       [](const Tensors& a) {
         const Tensor z = at::cat({a[0] + a[1], a[0] - a[1]}, -1);
         return Tensors{z,
                        at::stack({a[1], a[0]}, 1),
                        at::roll(a[0] * 2, 1, 0),
                        a[1].t().clone(),
                        at::zeros_like(a[0]) + a[1],
                        at::constant_pad_nd(a[0], {1, 2})};
       }},
      {"lazy conjugates",
       [](const Tensors& a) {
         const Tensor z = a[0].conj();
         return Tensors{at::real(a[0] * z) + 1, (z * a[1]).conj_physical(), z.t().resolve_conj(),
                        at::matmul(a[1], z.t()), at::real(z) + at::cat({z, a[1]}).abs().sum()};
       }},
      {"a conjugate sees its memory change",
       [](const Tensors& a) {
         Tensor z = a[0] + 1;
         const Tensor later = z.conj();
         z.mul_(a[1]);
         return Tensors{later + a[0], later.abs()};
       }},
      {"as pairs",
       [](const Tensors& a) {
         const Tensor z = at::view_as_complex(at::stack({a[2], a[2] * 2}, -1));
         return Tensors{at::view_as_real(z * a[0]).clone(), at::imag(z * a[1]) + 1};
       }},
      {"sums",
       [](const Tensors& a) {
         const Tensor z = a[0] * a[1];
         return Tensors{z.sum(1), z.sum(), z.mean({0}, true), z.cumsum(1)};
       }},
      {"functions",
       [](const Tensors& a) {
         return Tensors{a[0].exp(),         a[1].log(),
                        a[0].sqrt() + a[1], a[1].reciprocal(),
                        a[0].sgn(),         at::exp(a[0] * c10::complex<double>(0, 1)).abs()};
       }},
      {"by index",
       [](const Tensors& a) {
         const Tensor picked = at::tensor({3, 0, 3, 1}, at::kLong), z = a[0] + a[1];
         const Tensor each = (at::arange(95) * 7 % 19).view({5, 19});
         return Tensors{z.index_select(0, picked),
                        z.index({picked}),
                        z.gather(1, each),
                        at::where(a[2] > 0, z, a[1]),
                        at::index_add(z, 0, picked, a[1].slice(0, 0, 4)),
                        at::scatter_add(z, 1, each, a[1]),
                        at::index_put(z, {picked}, a[0].slice(0, 0, 4), /*accumulate=*/true)};
       }},
      {"by index, in place",
       [](const Tensors& a) {
         const Tensor picked = at::tensor({4, 1}, at::kLong);
         a[0].index_add_(0, picked, a[1].slice(0, 0, 2), 0.5);
         a[1].index_copy_(0, picked, a[0].slice(0, 2, 4));
         return Tensors{};
       }},
  };
  return all;
}

Tensors numbers(at::ScalarType type, int seed) {
  at::manual_seed(seed);
  const auto real = c10::toRealValueType(type);
  return {at::randn({5, 19}, type), at::randn({5, 19}, type), at::randn({5, 19}, real)};
}

void expect_close(const Tensors& eager, const Tensors& compiled, const std::string& what) {
  ASSERT_EQ(eager.size(), compiled.size()) << what;
  for (size_t k = 0; k < eager.size(); ++k) {
    EXPECT_EQ(eager[k].strides(), compiled[k].strides()) << what;
    EXPECT_FALSE(compiled[k].is_conj()) << what;
    const double bound =
        eager[k].dtype() == at::kComplexFloat || eager[k].dtype() == at::kFloat ? 1e-5 : 1e-13;
    EXPECT_TRUE(at::allclose(eager[k], compiled[k], bound, bound)) << what << ", result " << k;
  }
}

/// What becomes complex in the operator itself has no imaginary part, zeros at first or not.
TEST(ComplexByParts, RealNumbersBesideComplexOnes) {
  at::NoGradGuard no_grad;
  const auto mixed = [](const Tensor& counts, const Tensor& z) {
    return Tensors{at::where(counts > 1, counts, z), counts.sum({1}, false, at::kComplexFloat),
                   counts.cumsum(0, at::kComplexFloat), counts.mean({0}, false, at::kComplexFloat)};
  };
  auto f = compile(mixed, at_once());
  for (int call = 0; call < 6; ++call) {
    const Tensor counts = at::randint(0, call < 3 ? 1 : 9, {5, 7}),
                 z = at::randn({5, 7}, at::kComplexFloat);
    const Tensors ours = f(counts, z), eager = mixed(counts, z);
    for (size_t k = 0; k < eager.size(); ++k) EXPECT_TRUE(at::allclose(ours[k], eager[k])) << k;
  }
}

/// Each part one of these, as the C library has them (Annex G).
TEST(ComplexFunctions, SpecialValuesAreEagers) {
  const double infinity = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  auto f = [](const Tensor& z) -> Tensors {
    return {z.exp(), z.log(), z.sqrt(), z.sgn(), z.reciprocal()};
  };
  for (at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Tensor parts =
        at::tensor({0.,     -0.,   1.,   -1.,     0.3,      -2.5,     2e-8,      1e-45,
                    5e-324, 0.6,   0.8,  1e-30,   87.5,     88.8,     100.,      709.5,
                    -110.,  -800., 3e38, 1.3e308, -1.3e308, infinity, -infinity, nan},
                   at::kDouble)
            .to(type);
    const int64_t n = parts.numel();
    const Tensor z = at::complex(parts.view({n, 1}).expand({n, n}).contiguous(),
                                 parts.view({1, n}).expand({n, n}).contiguous());
    at::manual_seed(5);
    auto compiled = compile(f, at_once());
    const Tensor plain = at::randn({n, n}, z.options());
    for (int call = 0; call < 3; ++call) compiled(plain);
    compiled(z);
    const Tensors ours = compiled(z), eager = f(z);
    EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
    const double bound = type == at::kFloat ? 1e-5 : 1e-13;
    for (size_t k = 0; k < eager.size(); ++k) {
      const Tensor a = at::view_as_real(ours[k]), b = at::view_as_real(eager[k]);
      const Tensor right = a.isclose(b, bound, 1e-44, /*equal_nan=*/true) &
                           ((a != 0) | (b != 0) | (a.signbit() == b.signbit()));
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
          EXPECT_TRUE(right[i][j].all().item<bool>())
              << type << " result " << k << " of (" << parts[i].item<double>() << ", "
              << parts[j].item<double>() << "): " << a[i][j] << b[i][j];
    }
  }
}

/// Eager divides by complex numbers, and multiplies by them: an infinite part makes the other NaN.
TEST(ComplexByParts, InfinitePartsOfMeansAndScaledSums) {
  at::NoGradGuard no_grad;
  const auto sums = [](const Tensor& z) {
    const Tensor places = at::arange(4).remainder(3), rows = z.view({4, 2}),
                 none = at::zeros({3, 2}, z.options());
    return Tensors{z.mean(),
                   rows.mean(0),
                   rows.mean({1}, true),
                   none.index_add(0, places, rows),
                   none.index_add(0, places, rows, 3),
                   none.flatten().index_add(0, places, rows.select(1, 0)),
                   z.sum(),
                   rows.cumsum(1)};
  };
  auto f = compile(sums, at_once());
  for (int call = 0; call < 7; ++call) {
    const Tensor z = at::randn({8}, at::kComplexFloat);
    if (call > 3) at::real(z)[call] = call == 4 ? NAN : INFINITY;
    if (call == 6) at::imag(z)[2] = -INFINITY;
    const Tensors ours = f(z), eager = sums(z);
    for (size_t k = 0; k < eager.size(); ++k)
      EXPECT_TRUE(at::allclose(at::view_as_real(ours[k]), at::view_as_real(eager[k]), 1e-5, 1e-5,
                               /*equal_nan=*/true))
          << call << " " << k;
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

/// Matrices of few terms: batches, single ones, conjugates, transposed ones.
TEST(ComplexByParts, ProductsOfFewTerms) {
  at::NoGradGuard no_grad;
  const auto products = [](const Tensor& u, const Tensor& v, const Tensor& m) {
    const Tensor uv = at::bmm(u, v);
    return Tensors{uv, at::bmm(uv, v.mH()), at::mm(m, m.t()), at::mm(m.conj(), u[0].t()),
                   at::mm(m.slice(0, 0, 0), u[0])};
  };
  for (at::ScalarType type : {at::kComplexFloat, at::kComplexDouble}) {
    auto f = compile(products, at_once());
    for (int call = 0; call < 5; ++call) {
      const Tensor u = at::randn({40, 3, 3}, type), v = at::randn({40, 3, 3}, type),
                   m = at::randn({7, 3}, type);
      const Tensors ours = f(u, v, m), eager = products(u, v, m);
      for (size_t k = 0; k < eager.size(); ++k)
        EXPECT_TRUE(at::allclose(ours[k], eager[k], 1e-5, 1e-5)) << call << " " << k;
    }
    EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
    for (const OperatorReport& op : f.report().operators)
      EXPECT_NE(op.fate, "extern") << op.name << ": " << op.why;
  }
}

class Complex : public testing::TestWithParam<at::ScalarType> {};

TEST_P(Complex, ProgramsBesideEager) {
  at::NoGradGuard no_grad;
  for (const ComplexProgram& program : complex_programs()) {
    auto f = compile(program.run, at_once(program.name));
    for (int call = 0; call < 6; ++call) {
      const Tensors ours = numbers(GetParam(), call), theirs = numbers(GetParam(), call);
      const std::string what = program.name + std::string(", call ") + std::to_string(call);
      expect_close(program.run(theirs), f(ours), what);
      expect_close(theirs, ours, what + ", arguments");
    }
    const Report report = f.report();
    EXPECT_EQ(report.verdict, Verdict::Faster) << report;
    for (const OperatorReport& op : report.operators)
      EXPECT_TRUE(op.fate != "extern" || op.name == "aten::bmm" || op.name == "aten::mm" ||
                  op.name == "aten::cat" || op.name == "aten::sum" ||
                  op.name == "aten::index_add_" || op.name == "aten::log")
          << program.name << ": " << op.name << ": " << op.why;
  }
}

/// On a plan that was proven with other data.
TEST_P(Complex, SpecialValues) {
  at::NoGradGuard no_grad;
  const auto real = c10::toRealValueType(GetParam());
  const Tensor parts = at::tensor({0., -0., 1., -2.5, INFINITY, -INFINITY, NAN, 1e15}, real);
  const Tensor one = at::complex(parts.repeat_interleave(8), parts.repeat(8));
  const Tensors special = {one.repeat_interleave(64), one.repeat(64), parts.repeat(512)};
  auto run = [](const Tensors& a) {
    return Tensors{a[0] + a[1], a[0] - a[1], a[0] + a[2], 1 - a[0],    a[0] * a[1],
                   a[0] / a[1], a[0] / a[2], a[0].abs(),  a[0].angle()};
  };
  auto f = compile(run, at_once("special"));
  for (int call = 0; call < 6; ++call)
    f(Tensors{at::randn({4096}, GetParam()), at::randn({4096}, GetParam()),
              at::randn({4096}, real)});
  ASSERT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  const Tensors eager = run(special), ours = f(special);
  for (size_t k = 0; k < eager.size(); ++k) {
    auto flat = [](const Tensor& t) { return t.is_complex() ? at::view_as_real(t) : t; };
    const Tensor e = flat(eager[k]), o = flat(ours[k]);
    const Tensor apart = at::logical_not(at::isclose(e, o, 1e-5, 1e-6, /*equal_nan=*/true));
    EXPECT_EQ(apart.sum().item<int64_t>(), 0) << "result " << k << " at " << at::nonzero(apart)[0];
  }
}

/// Calls whose tensors loops do not take run as eager's.
TEST_P(Complex, BesideOtherTensors) {
  at::NoGradGuard no_grad;
  auto run = [](const Tensors& a) {
    Tensor truth = at::zeros({5, 19}, at::kBool), size = at::zeros_like(a[0]);
    truth.copy_(a[0] - at::real(a[0]));
    at::abs_out(size, a[1]);
    return Tensors{at::cat({a[0], a[2]}), at::cat({a[2], a[0]}), truth, size * 2,
                   at::full({3}, c10::Scalar(c10::complex<double>(1.5, 0)), at::kFloat) + 1};
  };
  auto f = compile(run, at_once("mixed"));
  for (int call = 0; call < 4; ++call) {
    const Tensors a = numbers(GetParam(), call);
    const Tensors eager = run(a), ours = f(a);
    for (size_t k = 0; k < eager.size(); ++k) EXPECT_TRUE(at::allclose(eager[k], ours[k])) << k;
  }
  EXPECT_EQ(f.report().breaks, 0) << f.report();
}

/// The backward of a product is one with a conjugate.
TEST_P(Complex, GradientsInsideAStep) {
  auto step = [](const Tensors& a) {
    const Tensor z = at::view_as_complex(at::stack({a[2], a[2].sin()}, -1));
    const Tensor loss = ((z * a[0]).abs() + at::real(z * a[1].conj())).square().mean();
    return Tensors{torch::autograd::grad({loss}, {a[2]})[0], loss.detach()};
  };
  auto f = compile(step, at_once("gradients"));
  for (int call = 0; call < 6; ++call) {
    const Tensors a = numbers(GetParam(), call);
    a[2].requires_grad_();
    expect_close(step(a), f(a), "call " + std::to_string(call));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Complex, testing::Values(at::kComplexFloat, at::kComplexDouble));

/// A conjugate that is written, captured or returned is no tensor of a plan.
TEST(ComplexBreaks, ConjugatesThatAreNotOnlyRead) {
  at::NoGradGuard no_grad;
  const Tensor z = at::randn({4, 3}, at::kComplexFloat), held = z.conj();
  auto written = compile(
      [](const Tensor& x) {
        Tensor y = x * 2;
        y.conj().add_(x);
        return y;
      },
      at_once());
  auto captured = compile([&](const Tensor& x) { return x * 2 + held; }, at_once());
  auto returned = compile([](const Tensor& x) { return (x * 2).conj(); }, at_once());
  for (int call = 0; call < 3; ++call) {
    EXPECT_TRUE(at::allclose(written(z), z * 2 + z.conj()));
    EXPECT_TRUE(at::allclose(captured(z), z * 2 + held));
    EXPECT_TRUE(returned(z).is_conj());
  }
  for (const Report& report : {written.report(), captured.report(), returned.report()})
    EXPECT_NE(report.reason.find("lazily conjugated"), std::string::npos) << report;
}

}  // namespace
}  // namespace graft::test
