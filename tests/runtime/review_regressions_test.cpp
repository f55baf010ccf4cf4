// Wrong results that a review traced in the code, one program each.
#include <ATen/CPUGeneratorImpl.h>

#include <limits>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

/// An operator that stores a part of what it writes before it throws must not run twice.
TEST(Review, AnInPlaceOperatorThatThrowsHalfWayRunsOnce) {
  auto add_at = [](at::Tensor& x, const at::Tensor& i, const at::Tensor& s) {
    x.index_add_(0, i, s);
    return x * 2;
  };
  auto f = compile(add_at, at_once());
  const at::Tensor s = at::ones({2});
  for (int call = 0; call < 3; ++call) {
    at::Tensor x = at::zeros({3});
    f(x, at::tensor({int64_t{0}, int64_t{1}}), s);
  }
  ASSERT_TRUE(was_compiled(f.report())) << f.explain();
  at::Tensor ours = at::zeros({3}), theirs = at::zeros({3});
  const at::Tensor bad = at::tensor({int64_t{0}, int64_t{7}});
  EXPECT_ANY_THROW(f(ours, bad, s));
  EXPECT_ANY_THROW(add_at(theirs, bad, s));
  EXPECT_TRUE(same(ours, theirs)) << ours;
}

/// Its schema does not say that it writes the running statistics.
TEST(Review, BatchNormUpdateStatsWritesItsStatistics) {
  at::NoGradGuard no_grad;
  auto update = [](const at::Tensor& x, const at::Tensor& mean, const at::Tensor& var) {
    at::batch_norm_update_stats(x, mean, var, 0.1);
    return x * 2 + 1;
  };
  auto f = compile(update, at_once());
  at::Tensor ours_mean = at::zeros({4}), ours_var = at::ones({4}), theirs_mean = at::zeros({4}),
             theirs_var = at::ones({4});
  for (int call = 0; call < 5; ++call) {
    const at::Tensor x = at::randn({8, 4, 5});
    EXPECT_TRUE(same(f(x, ours_mean, ours_var), update(x, theirs_mean, theirs_var)));
    EXPECT_TRUE(same(ours_mean, theirs_mean)) << call;
    EXPECT_TRUE(same(ours_var, theirs_var)) << call;
  }
}

/// Lowering runs later, on a thread of its own: promotion is that of the recorded run.
TEST(Review, TheDefaultDtypeIsThatOfTheRecordedRun) {
  struct Restore {
    caffe2::TypeMeta before = c10::get_default_dtype();
    ~Restore() { c10::set_default_dtype(before); }
  } restore;
  Options options;
  options.race = false;
  auto third = [](const at::Tensor& i) { return i / 3 * 1.5; };
  auto f = compile(third, options);
  const at::Tensor threes = at::arange(0, 30, 3, at::kLong), ones = at::ones({10}, at::kLong);
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kDouble));
  f(threes);
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kFloat));
  f.wait();
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kDouble));
  for (int call = 0; call < 3; ++call) f(threes);
  EXPECT_TRUE(same(f(ones), third(ones)));
}

/// Eager may give in the proof what no plan can: a sparse tensor, one with a lazy conjugation.
TEST(Review, EagersResultInTheProofIsNoDenseTensor) {
  bool other = false;
  auto sparse = compile(
      [&](const at::Tensor& x) { return other ? (x * 2).to_sparse() : x * 2 + 0; }, at_once());
  auto conjugated = compile(
      [&](const at::Tensor& a, const at::Tensor& b) {
        const at::Tensor z = at::complex(a * 2, b * 2);
        return other ? z.conj() : z;
      },
      at_once());
  const at::Tensor x = at::ones({2, 3});
  sparse(x), conjugated(x, x);
  other = true;
  for (int call = 0; call < 3; ++call) {
    EXPECT_TRUE(sparse(x).is_sparse());
    EXPECT_TRUE(conjugated(x, x).is_conj());
  }
  EXPECT_FALSE(was_compiled(sparse.report())) << sparse.report();
  EXPECT_FALSE(was_compiled(conjugated.report())) << conjugated.report();
}

/// autograd repeats such a view by a function, not by as_strided.
TEST(Review, AViewOfOtherNumbersKeepsItsHistory) {
  auto parts = [](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor z = at::complex(a * 2, b * 2);
    return std::vector<at::Tensor>{z, at::view_as_real(z)};
  };
  auto f = compile(parts, at_once());
  const at::Tensor a = at::randn({3}), b = at::randn({3});
  auto gradient = [&](auto&& function) {
    at::Tensor w = at::full({3, 2}, 2.0).requires_grad_();
    auto r = function(a, b);
    r[1].mul_(w);
    r[0].abs().sum().backward();
    return w.grad();
  };
  for (int call = 0; call < 4; ++call)
    EXPECT_TRUE(same(gradient(f), gradient(parts))) << call << f.report();
  EXPECT_TRUE(was_compiled(f.report())) << f.report();

  // The other way round; a part of a part; and parts of an argument.
  auto others = [](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor y = at::stack({a * 2, b * 3}, -1);
    const at::Tensor z = at::view_as_complex(y);
    return std::vector<at::Tensor>{y, z, at::imag(at::complex(a, b) * 2).slice(0, 1)};
  };
  auto g = compile(others, at_once());
  auto gradients = [&](auto&& function) {
    at::Tensor w = at::full({3}, 2.0).requires_grad_(), v = at::full({2}, 3.0).requires_grad_();
    auto r = function(a, b);
    r[1].mul_(w), r[2].mul_(v);
    (r[0].sum() + r[2].square().sum()).backward();
    return std::vector<at::Tensor>{w.grad(), v.grad()};
  };
  for (int call = 0; call < 4; ++call) {
    const auto expected = gradients(others), came = gradients(g);
    for (size_t k = 0; k < 2; ++k) EXPECT_TRUE(same(came[k], expected[k])) << call << g.report();
  }
  EXPECT_TRUE(was_compiled(g.report())) << g.report();
}

/// A base that begins within its memory, and a view of it that is changed in place.
TEST(Review, AViewOfOtherNumbersBehindAnOffset) {
  const at::Tensor a = at::randn({4, 6});
  auto half = [](const at::Tensor& x) {
    const at::Tensor z = at::complex(x * 2, x * 3).unsafe_chunk(2, 0)[1];
    return std::vector<at::Tensor>{at::view_as_real(z), z};  // of its parts eager's own fail
  };
  auto f = compile(half, at_once());
  auto gradient = [&](auto&& function) {
    at::Tensor w = at::full({2, 6, 2}, 2.0).requires_grad_();
    auto r = function(a);
    r[0].mul_(w);
    r[1].abs().sum().backward();
    return w.grad();
  };
  for (int call = 0; call < 4; ++call)
    EXPECT_TRUE(same(gradient(f), gradient(half))) << call << f.report();
}

/// How far a result may be from eager's follows what it was computed from, not what else there is.
TEST(Review, ABFloat16NeighbourLoosensNoFloatResult) {
  double scale = 1;
  auto f =
      compile([&](const at::Tensor& x,
                  const at::Tensor& y) { return std::vector<at::Tensor>{x.sum() * scale, y * 2}; },
              at_once());
  const at::Tensor x = at::rand({100}), y = at::ones({100}, at::kBFloat16);
  f(x, y);
  scale = 1.01;
  for (int call = 0; call < 3; ++call) EXPECT_TRUE(same(f(x, y)[0], x.sum() * scale));
  EXPECT_EQ(f.report().verdict, Verdict::Mismatch) << f.report();
}

/// LLVM 19 compiles a masked comparison of fp16 vectors, one of them on the stack, the wrong way
/// round on processors with fp16 instructions.
TEST(Review, AComparisonOfHalvesAroundACall) {
  at::NoGradGuard no_grad;
  const auto body = [](at::Tensor x) {
    const at::Tensor shares = at::_softmax(x, 1, false), above = at::ge(x, shares);
    x.log2_();
    at::gelu_out(const_cast<at::Tensor&>(shares), x);
    return at::amax(above, {1}, true);
  };
  auto f = compile(body, at_once());
  for (int call = 0; call < 12; ++call) {
    const at::Tensor memory = at::randn({1, 6}).abs().to(at::kHalf),
                     x = memory.as_strided({1, 3}, {6, 1}), other = memory.clone();
    const at::Tensor expected = body(other.as_strided({1, 3}, {6, 1}));
    EXPECT_TRUE(same(f(x), expected)) << call << f.report();
  }
  EXPECT_NE(f.report().verdict, Verdict::Mismatch) << f.report();
}

/// Without elements a view may begin behind its storage.
TEST(Review, ASliceOfATensorWithoutElements) {
  auto f = compile(
      [](const at::Tensor& x) {
        return std::vector<at::Tensor>{at::ones_like(x).slice(0, 25, 64), x * 2 + 1};
      },
      at_once());
  for (int call = 0; call < 3; ++call)
    EXPECT_EQ(f(at::ones({64, 0}))[0].sizes(), (std::vector<int64_t>{39, 0}));
  EXPECT_NE(f.report().verdict, Verdict::Failed) << f.report();
}

TEST(Review, AnUnsignedScalarBeyondInt64) {
  auto f = compile([](const at::Tensor& x, const at::Scalar& s) { return x * s.to<double>(); },
                   at_once());
  const uint64_t large = std::numeric_limits<uint64_t>::max();
  const at::Tensor x = at::ones({3}, at::kDouble);
  for (int call = 0; call < 3; ++call)
    EXPECT_TRUE(same(f(x, at::Scalar(large)), x * static_cast<double>(large)));
}

/// Of what BLAS does not read, nothing comes.
TEST(Review, ProductsTimesZero) {
  at::NoGradGuard no_grad;
  auto f = compile([](const at::Tensor& c, const at::Tensor& a,
                      const at::Tensor& b) { return at::addmm(c, a, b, 1, 0).relu(); },
                   test::at_once());
  const at::Tensor c = at::randn({16, 16}), a = at::randn({16, 4}), b = at::randn({4, 16});
  for (int call = 0; call < 4; ++call) {
    if (call == 3) a[0][0] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(test::difference(at::addmm(c, a, b, 1, 0).relu(), f(c, a, b)), "") << call;
  }
}

/// One term is no sum: -0 stays.
TEST(Review, ProductsOfOneTerm) {
  at::NoGradGuard no_grad;
  for (int64_t rows : {16, 2}) {
    auto f =
        compile([](const at::Tensor& a, const at::Tensor& b) { return at::mm(a, b).reciprocal(); },
                test::at_once());
    for (int call = 0; call < 4; ++call) {
      at::Tensor a = at::rand({rows, 1}) + 1, b = at::rand({1, rows}) + 1;
      if (call == 3) a.zero_(), b.fill_(-1);
      EXPECT_EQ(test::difference(at::mm(a, b).reciprocal(), f(a, b)), "") << call;
    }
  }
}

TEST(Review, UpsamplingOfInfinity) {
  at::NoGradGuard no_grad;
  for (std::vector<int64_t> size : {std::vector<int64_t>{16, 8}, {8, 8}, {16, 16}}) {
    auto grown = [size](const at::Tensor& x) {
      return at::upsample_bilinear2d(x, size, false) + 0;
    };
    auto f = compile(grown, test::at_once());
    for (int call = 0; call < 4; ++call) {
      at::Tensor x = at::rand({2, 3, 8, 8});
      if (call == 3) x[1][1][3][4] = std::numeric_limits<float>::infinity();
      EXPECT_TRUE(at::allclose(grown(x), f(x), 1e-5, 1e-6, /*equal_nan=*/true)) << call;
    }
  }
}

/// More is cut off on one side than there is, and the other side's border fills it.
TEST(Review, BordersBeyondTheOtherSide) {
  at::NoGradGuard no_grad;
  for (std::vector<int64_t> border : {std::vector<int64_t>{-5, 3}, {3, -5}}) {
    auto into = [border](const at::Tensor& x, const at::Tensor& big) {
      at::Tensor out = big.narrow(1, 3, 2);
      at::replication_pad2d_out(out, x, {0, 0, border[0], border[1]});
      return big + 0;
    };
    auto f = compile(into, test::at_once());
    for (int call = 0; call < 4; ++call) {
      const at::Tensor x = call < 3 ? at::ones({1, 4, 6}) : at::rand({1, 4, 6});
      const at::Tensor big = call < 3 ? at::ones({1, 8, 6}) : at::rand({1, 8, 6});
      const at::Tensor same = big.clone();
      EXPECT_EQ(test::difference(into(x, same), f(x, big)), "") << call;
      EXPECT_EQ(test::difference(same, big), "") << call;
    }
  }
}

/// In halves of words two rows of one table had one load.
TEST(Review, RowsOfOneTableByTwoIndices) {
  at::NoGradGuard no_grad;
  auto edges = [](const at::Tensor& h, const at::Tensor& from, const at::Tensor& to) {
    return h.index_select(0, from) + h.index_select(0, to);
  };
  auto f = compile(edges, at_once());
  for (int call = 0; call < 4; ++call) {
    const at::Tensor h = at::randn({50, 200}, at::kBFloat16);
    const at::Tensor from = at::randint(0, 50, {300}, at::kLong),
                     to = at::randint(0, 50, {300}, at::kLong);
    EXPECT_EQ(test::difference(edges(h, from, to), f(h, from, to)), "") << call;
  }
  EXPECT_TRUE(was_compiled(f.report())) << f.explain();
}

/// Planning the strips of a kernel walked each way through the steps: minutes for 14 of them.
TEST(Review, ManyStepsThatUseWhatIsBeforeThemTwice) {
  at::NoGradGuard no_grad;
  auto paths = [](const at::Tensor& x) {
    at::Tensor variance = x, least = x;
    for (int step = 0; step < 48; ++step) {
      const at::Tensor positive = variance.clamp_min(0);
      variance = variance - positive + positive.sqrt() * x;
      least = at::minimum(least, variance);
    }
    return least;
  };
  auto f = compile(paths, at_once());
  for (int call = 0; call < 4; ++call) {
    const at::Tensor x = at::randn({10000}) * 0.1;
    EXPECT_EQ(test::difference(paths(x), f(x)), "") << call;
  }
  EXPECT_TRUE(was_compiled(f.report())) << f.explain();
}

/// LLVM compared the narrow numbers, and took -0 for less than 0 then.
TEST(Review, ZerosOfNumbersThatAreWidened) {
  at::NoGradGuard no_grad;
  auto signs = [](const at::Tensor& x) {
    const at::Tensor y = x.scalar_type() == at::kFloat ? x.to(at::kDouble) : x;
    const at::Tensor relu = at::where(y < 0, 0.0, y).to(x.scalar_type());
    return std::make_tuple(relu.reciprocal(), at::relu(x).reciprocal(), at::sign(x), at::sign(y));
  };
  for (at::ScalarType type : {at::kHalf, at::kBFloat16, at::kFloat}) {
    auto f = compile(signs, at_once());
    for (int call = 0; call < 5; ++call) {
      const at::Tensor x = (call < 4 ? at::randn({185}) : at::full({185}, -0.0)).to(type);
      EXPECT_EQ(test::difference(std::get<0>(signs(x)), std::get<0>(f(x))), "") << type << call;
      EXPECT_EQ(test::difference(std::get<1>(signs(x)), std::get<1>(f(x))), "") << type << call;
    }
    EXPECT_TRUE(was_compiled(f.report())) << f.explain();
  }
}

/// The stores to the part that is read went away, and the kernel read what nothing wrote.
TEST(Review, MemoryThatIsFilledInPart) {
  at::NoGradGuard no_grad;
  auto masked = [](const at::Tensor& x) {
    at::Tensor cache = at::empty({4});
    cache.narrow(0, 0, 2).copy_(x);
    return at::where(at::arange(4).lt(2), cache, at::zeros({4}));
  };
  auto f = compile(masked, at_once());
  for (int call = 0; call < 4; ++call) {
    const at::Tensor x = at::randn({2});
    EXPECT_EQ(test::difference(masked(x), f(x)), "") << call;
  }
  EXPECT_TRUE(was_compiled(f.report())) << f.explain();
}

/// Likewise where the steps of a loop read before one stores.
TEST(Review, MemoryThatStepsFillTooLate) {
  at::NoGradGuard no_grad;
  for (at::ScalarType type : {at::kFloat, at::kHalf, at::kLong, at::kBool, at::kDouble}) {
    auto late = [type](const at::Tensor& x, const at::Tensor& never) {
      at::Tensor held = at::empty({64}, type), sum = at::zeros({64});
      held.narrow(0, 0, 1).fill_(1);
      for (int step = 0; step < 16; ++step) {
        sum = sum * 0.5 + at::where(never, held, at::zeros_like(held)).to(at::kFloat) + x[step];
        held.copy_(x[step]);
      }
      return std::make_tuple(sum, held);
    };
    auto f = compile(late, at_once());
    const at::Tensor never = at::zeros({64}, at::kBool);
    for (int call = 0; call < 4; ++call) {
      const at::Tensor x = at::randn({16, 64}) * 3;
      const auto expected = late(x, never), got = f(x, never);
      EXPECT_EQ(test::difference(std::get<0>(expected), std::get<0>(got)), "") << type << call;
      EXPECT_EQ(test::difference(std::get<1>(expected), std::get<1>(got)), "") << type << call;
    }
    EXPECT_TRUE(was_compiled(f.report())) << type << f.explain();
  }
}

/// Doubles that are made of bits are added up as exactly as others.
TEST(Review, SumsOfDoublesMadeOfBits) {
  at::NoGradGuard no_grad;
  auto mean = [](const at::Tensor& bits) {
    return ((bits & ((int64_t{1} << 52) - 1)) | 0x3ff0000000000000).view(at::kDouble).sum(1);
  };
  auto f = compile(mean, at_once());
  for (int call = 0; call < 4; ++call) {
    const at::Tensor bits = at::randint(0, int64_t{1} << 62, {4, 100000}, at::kLong);
    EXPECT_TRUE(at::allclose(mean(bits), f(bits), 1e-14, 0)) << call;
  }
  EXPECT_TRUE(was_compiled(f.report())) << f.explain();
}

/// What is stored as one type and read as another of its size is computed in its reader.
TEST(Review, BitsOfComputedNumbers) {
  at::NoGradGuard no_grad;
  using Pair = std::pair<at::ScalarType, at::ScalarType>;
  for (auto [type, bits] : {Pair{at::kFloat, at::kInt},
                            {at::kDouble, at::kLong},
                            {at::kHalf, at::kShort},
                            {at::kBFloat16, at::kShort},
                            {at::kFloat8_e4m3fn, at::kByte},
                            {at::kFloat8_e5m2, at::kChar}}) {
    const auto type_of = type, bits_of = bits;
    auto around = [=](const at::Tensor& x) {
      const at::Tensor coded = (x * 1.5).to(type_of).view(bits_of);
      const at::Tensor other = (coded + (coded & 3)).view(type_of).to(at::kFloat);
      return std::make_tuple(coded.clone(), other.nan_to_num() * 2, coded.to(at::kFloat).sum(1),
                             coded.view(type_of).to(at::kFloat).slice(1, 3, 90));
    };
    auto f = compile(around, at_once());
    for (int call = 0; call < 4; ++call) {
      at::Tensor x = at::randn({31, 97}) * (call + 1);
      if (call == 3) x.select(0, 2).fill_(-0.0), x.select(0, 3).mul_(1e30);
      const auto expected = around(x), got = f(x);
      EXPECT_EQ(test::difference(std::get<0>(expected), std::get<0>(got)), "") << type << call;
      EXPECT_EQ(test::difference(std::get<1>(expected), std::get<1>(got)), "") << type << call;
      EXPECT_TRUE(at::allclose(std::get<2>(expected), std::get<2>(got), 1e-5, 1e-2)) << type;
      EXPECT_EQ(test::difference(std::get<3>(expected), std::get<3>(got)), "") << type << call;
    }
    EXPECT_TRUE(was_compiled(f.report())) << type << f.explain();
  }
  auto rounded = [](const at::Tensor& x, const at::Tensor& noise) {
    return ((x * 0.5).view(at::kInt) + noise).view(at::kFloat) + 1;
  };
  auto f = compile(rounded, at_once());
  for (int call = 0; call < 4; ++call)
    f(at::randn({64, 64}), at::randint(0, 65536, {64, 64}, at::kInt));
  EXPECT_EQ(f.report().kernels, 1) << f.explain();
}

}  // namespace
}  // namespace graft::test
