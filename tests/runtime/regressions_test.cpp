// Small programs that once gave another result than eager; most were found by the fuzzer.
#include "runtime/helpers.h"

namespace graft::test {
namespace {

/// Calls four times with fresh arguments: the record, the shadow run and the plan, against eager.
template <class F>
void expect_as_eager(const F& body, const std::function<std::vector<at::Tensor>()>& make) {
  auto f = compile(
      [&](const std::vector<at::Tensor>& args) -> std::vector<at::Tensor> { return body(args); },
      at_once());
  for (int call = 0; call < 4; ++call) {
    std::vector<at::Tensor> args = make(), eager_args;
    for (const at::Tensor& t : args) eager_args.push_back(t.clone());
    std::vector<at::Tensor> came = f(args), eager = body(eager_args);
    ASSERT_EQ(came.size(), eager.size());
    for (size_t i = 0; i < came.size(); ++i)
      EXPECT_TRUE(same(came[i], eager[i])) << "call " << call;
    for (size_t i = 0; i < args.size(); ++i)
      EXPECT_TRUE(same(args[i], eager_args[i])) << "argument " << i << ", call " << call;
  }
  EXPECT_EQ(f.report().plan_hits, 2) << f.explain();
}

/// The copy is made of two pieces; the one that is read last reads what the first has overwritten.
TEST(Regressions, InPlaceThroughARolledCopy) {
  expect_as_eager(
      [](const std::vector<at::Tensor>& a) -> std::vector<at::Tensor> {
        at::Tensor rolled = a[0].roll({-1}, {1}), x = a[0];
        at::bitwise_and_out(x, rolled, x);
        return {x};
      },
      [] { return std::vector<at::Tensor>{at::randint(0, 255, {4, 33}, at::kByte)}; });
  expect_as_eager(
      [](const std::vector<at::Tensor>& a) -> std::vector<at::Tensor> {
        at::Tensor rolled = a[0].roll({2}, {1}), x = a[0];
        at::hardtanh_out(x, rolled);
        return {rolled};
      },
      [] { return std::vector<at::Tensor>{at::randn({2, 3, 4, 17}) * 2}; });
}

/// What was stored before an operator that throws, the caller sees, though a later operator would
/// have overwritten it.
TEST(Regressions, AStoreBeforeAThrowingOperatorIsNotDead) {
  auto body = [](at::Tensor& x, const at::Tensor& y) {
    x.neg_();
    at::Tensor quotient = y.fmod(y.slice(0, 1, 2));
    x.fill_(0);
    return quotient;
  };
  auto f = compile(body, at_once());
  for (int call = 0; call < 5; ++call) {
    at::Tensor x = at::randint(1, 9, {16}, at::kLong), y = at::randint(1, 9, {3}, at::kLong);
    if (call == 3) y[1].fill_(0);
    at::Tensor eager_x = x.clone();
    if (call == 3) {
      EXPECT_THROW(f(x, y), c10::Error);
      EXPECT_THROW(body(eager_x, y), c10::Error);
    } else {
      EXPECT_TRUE(same(f(x, y), body(eager_x, y)));
    }
    EXPECT_TRUE(same(x, eager_x)) << "call " << call;
  }
  EXPECT_GT(f.report().plan_hits, 0) << f.explain();
}

/// A later out= makes the result of a matmul larger than its operator made it.
TEST(Regressions, OutEnlargesWhatAnExternMade) {
  expect_as_eager(
      [](const std::vector<at::Tensor>& a) -> std::vector<at::Tensor> {
        at::Tensor product = a[0].mm(a[0].t());
        at::Tensor wide = product.unsqueeze(0).expand({4, 5, 5}) + 1;
        at::hypot_out(product, wide, wide);
        return {product};
      },
      [] { return std::vector<at::Tensor>{at::ones({5, 4})}; });
}

/// mul_ by a number swaps its operands in ATen, which rounds the number where mul does not.
TEST(Regressions, InPlaceProductOfHalvesByANumber) {
  expect_as_eager(
      [](const std::vector<at::Tensor>& a) -> std::vector<at::Tensor> {
        at::Tensor x = a[0];
        return {x.mul(0.7), x.mul_(0.7)};
      },
      [] { return std::vector<at::Tensor>{at::randn({257}).to(at::kHalf)}; });
}

/// oneDNN's gelu makes memory of its own where out= has other strides, and leaves out= as it was.
TEST(Regressions, GeluIntoStridedMemory) {
  expect_as_eager(
      [](const std::vector<at::Tensor>& a) -> std::vector<at::Tensor> {
        at::Tensor out = a[1].t();
        at::gelu_out(out, a[0]);
        return {a[0] + 1};
      },
      [] { return std::vector<at::Tensor>{at::randn({7, 33}), at::randn({33, 7})}; });
}

/// With num_classes its size is known; without, the data says it.
TEST(Regressions, OneHotCountsClassesOnlyWhereAsked) {
  at::Tensor index = at::randint(5, {3, 4}, at::kLong);
  auto f = compile([](const at::Tensor& x) { return at::one_hot(x); }, at_once());
  for (int call = 0; call < 3; ++call) EXPECT_TRUE(same(f(index), at::one_hot(index)));
  EXPECT_EQ(f.report().verdict, Verdict::Break);
  EXPECT_NE(f.report().reason.find("pass num_classes"), std::string::npos) << f.report();
  auto g = compile([](const at::Tensor& x) { return at::one_hot(x, 5); }, at_once());
  for (int call = 0; call < 3; ++call) EXPECT_TRUE(same(g(index), at::one_hot(index, 5)));
  EXPECT_EQ(g.report().plan_hits, 1) << g.explain();
  EXPECT_THROW(g(at::full({3, 4}, 5, at::kLong)), c10::Error);
}

TEST(Regressions, UnknownPassesAreNamed) {
  Options options = at_once();
  options.skip_passes = {"fuse", "fusion"};
  auto make = [&] { compile([](const at::Tensor& x) { return x + 1; }, options); };
  EXPECT_THROW(make(), Error);
  options.skip_passes = {"fuse", "stream"};
  EXPECT_NO_THROW(make());
}

/// Roundings that change nothing vanish, others stay: NaN, infinities and denormals among them.
TEST(Regressions, BFloat16Chains) {
  auto bits = at::arange(65536, at::kInt).to(at::kShort).view(at::kBFloat16);
  expect_as_eager(
      [](const std::vector<at::Tensor>& a) -> std::vector<at::Tensor> {
        return {-a[0].abs() + a[1], (a[0] * a[1]).maximum(a[1]) * a[0], a[0].clamp_min(0.5) - a[1]};
      },
      [&] { return std::vector<at::Tensor>{bits, bits.index_select(0, at::randperm(65536))}; });
}

/// A result that its own kernel reads again is stored past the cache, and read from a copy.
TEST(Regressions, LargeResultsThatAreReadAgain) {
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{2101, 2048}, {2099, 2051}})
    for (at::ScalarType type : {at::kFloat, at::kBFloat16})
      expect_as_eager(
          [](const std::vector<at::Tensor>& a) -> std::vector<at::Tensor> {
            at::Tensor sum = a[0] + a[1];
            return {sum, sum - sum.amax({1}, true), sum.flip({1}) + 1, sum.roll({1}, {0}) * 2};
          },
          [&] {
            return std::vector<at::Tensor>{at::randn(sizes).to(type), at::randn(sizes).to(type)};
          });
}

/// Results larger than the last cache are stored past it, in whole lines; tails and odd rows are
/// not.
TEST(Regressions, LargeResults) {
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{4'000'017}, {2001, 2016}, {1999, 2003}})
    for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16})
      expect_as_eager(
          [](const std::vector<at::Tensor>& a) -> std::vector<at::Tensor> {
            at::Tensor turned = a[0].dim() == 2 ? a[0].t() : a[0];
            return {a[0] * a[0] + 1, a[0].relu(), a[0].gt(0), (a[0] * 0.1).exp(), -turned};
          },
          [&] { return std::vector<at::Tensor>{at::randn(sizes).to(type)}; });
}

/// The flag is the thread's: one thread, since ATen's pool has it in no other.
TEST(Regressions, FlushedSubnormals) {
  auto run = [](const at::Tensor& x) { return std::vector<at::Tensor>{x * 0.5, x.sqrt(), x + x}; };
  auto f = compile(run, at_once("flushed"));
  int threads = at::get_num_threads();
  at::set_num_threads(1);
  at::Tensor x = at::randn({1000}) * 2e-38;
  for (bool flush : {false, true, false, true}) {
    ASSERT_TRUE(at::globalContext().setFlushDenormal(flush));
    for (int call = 0; call < 3; ++call) {
      auto came = f(x), expected = run(x);
      at::globalContext().setFlushDenormal(false);  // comparing looks at the bits
      for (size_t i = 0; i < came.size(); ++i) EXPECT_TRUE(same(came[i], expected[i])) << flush;
      at::globalContext().setFlushDenormal(flush);
    }
  }
  at::globalContext().setFlushDenormal(false);
  at::set_num_threads(threads);
  EXPECT_TRUE(was_compiled(f.report()));
  EXPECT_EQ(f.report().records, 2);
}

/// out= that leaves nothing to store raises its argument's version all the same.
TEST(Regressions, AnOutArgumentMadeEmpty) {
  expect_as_eager(
      [](const std::vector<at::Tensor>& a) -> std::vector<at::Tensor> {
        at::Tensor none = a[0].slice(0, -1, 0), out = a[0].view({2, 1, 3, 8});
        at::addcmul_out(out, a[0].unsqueeze(1), none, none, 0.5);
        return {out, a[0] * 2};
      },
      [&] { return std::vector<at::Tensor>{at::randn({2, 3, 8})}; });
}

TEST(Regressions, DenseLstm) {
  at::Tensor input = at::randn({5, 2, 3});
  const std::vector<at::Tensor> parameters{at::randn({16, 3}), at::randn({16, 4}), at::randn({16}),
                                           at::randn({16})};
  auto body = [&](const at::Tensor& x, const at::Tensor& h, const at::Tensor& c) {
    return at::lstm(x * 2, {h, c}, parameters, /*has_biases=*/true, /*num_layers=*/1,
                    /*dropout=*/0, /*train=*/false, /*bidirectional=*/false,
                    /*batch_first=*/false);
  };
  for (bool grad : {true, false}) {
    at::AutoGradMode mode(grad);
    auto f = compile(body, at_once());
    for (int i = 0; i < 4; ++i) {
      at::Tensor x = at::randn({5, 2, 3}), h = at::randn({1, 2, 4}), c = at::randn({1, 2, 4});
      auto [y, hn, cn] = f(x, h, c);
      auto [y2, hn2, cn2] = body(x, h, c);
      EXPECT_TRUE(same(y, y2) && same(hn, hn2) && same(cn, cn2)) << i;
    }
    EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  }
}

/// Where gradients are off inside alone, the plan's call makes a workspace that the record lacks.
TEST(Regressions, LstmWithoutGradients) {
  const std::vector<at::Tensor> parameters{at::randn({16, 3}), at::randn({16, 4}), at::randn({16}),
                                           at::randn({16})};
  const auto with_gradients = [&](const at::Tensor& x) {
    const at::Tensor none = at::zeros({1, 2, 4});
    return std::get<0>(at::lstm(x, {none, none}, parameters, true, 1, 0, true, false, false)) * 2;
  };
  auto body = [&](const at::Tensor& x) {
    at::NoGradGuard off;
    return with_gradients(x);
  };
  const at::Tensor example = at::randn({5, 2, 3});
  if (!same(body(example), with_gradients(example)))
    GTEST_SKIP() << "this machine's LSTM has other bits without gradients";
  auto f = compile(body, at_once());
  for (int i = 0; i < 4; ++i) {
    const at::Tensor x = at::randn({5, 2, 3});
    EXPECT_TRUE(same(f(x), body(x)));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

TEST(Regressions, Rrelu) {
  for (bool train : {false, true}) {
    auto body = [=](const at::Tensor& x) { return at::rrelu(x * 2, 0.1, 0.4, train) + 1; };
    auto f = compile(body, at_once());
    for (int i = 0; i < 4; ++i) {
      at::Tensor x = at::randn({32});
      at::manual_seed(static_cast<uint64_t>(i));
      at::Tensor ours = f(x);
      at::manual_seed(static_cast<uint64_t>(i));
      EXPECT_TRUE(same(ours, body(x))) << train << ", call " << i;
    }
    EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  }
}

TEST(Regressions, CallsThatThrowAreNoLayouts) {
  auto f = compile(
      [](const at::Tensor& x) {
        TORCH_CHECK(x.size(0) % 2 == 0, "odd");
        return x * 2 + 1;
      },
      at_once());
  for (int64_t i = 0; i < 300; ++i) EXPECT_THROW(f(at::ones({2 * i + 1})), c10::Error);
  EXPECT_EQ(f.report().records, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(at::ones({4}))[0].item<float>(), 3);
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

// A tensor that backward needs, changed by a call that then throws: backward raises, as in eager.
TEST(Regressions, ACallThatThrowsHalfWayRaisesVersions) {
  using Body = std::function<at::Tensor(at::Tensor&, at::Tensor&, const at::Tensor&)>;
  const std::vector<Body> bodies{
      [](at::Tensor& x, at::Tensor&, const at::Tensor& i) {
        x.add_(1);
        return x.index_select(0, i);
      },
      [](at::Tensor& x, at::Tensor& z, const at::Tensor& i) {
        x.add_(1), z.mul_(2);
        return std::get<0>(at::linalg_inv_ex(x.index_select(0, i), /*check_errors=*/true));
      },
      [](at::Tensor& x, at::Tensor& z, const at::Tensor& i) {
        x.add_(1);
        auto inverse = std::get<0>(at::linalg_inv_ex(at::diag(i.to(at::kFloat) - 7), true));
        z.add_(inverse);
        return inverse;
      },
      [](at::Tensor& x, at::Tensor& z, const at::Tensor& i) {
        x.add_(1);
        z.scatter_(0, i.view({3, 1}), x);
        return z * 2;
      }};
  for (size_t b = 0; b < bodies.size(); ++b) {
    const Body& body = bodies[b];
    auto f = compile(body, at_once());
    at::Tensor good = at::arange(3), bad = at::full({3}, 7, at::kLong);
    auto plain = [&](at::Tensor& x, at::Tensor& z, const at::Tensor& i) { return body(x, z, i); };
    auto versions = [&](const auto& call) {
      at::Tensor x = at::rand({3, 3}) + 3 * at::eye(3), z = at::rand({3, 3});
      auto before_x = x._version(), before_z = z._version();
      at::Tensor w = at::ones({3, 3}).requires_grad_();
      at::Tensor y = (w * x).sum() + (w * z).sum();
      try {
        call(x, z, bad);
        ADD_FAILURE() << "body " << b << " did not throw";
      } catch (const c10::Error&) {
      }
      std::string text =
          std::to_string(x._version() > before_x) + std::to_string(z._version() > before_z);
      try {
        y.backward();
        return text + " backward ran";
      } catch (const c10::Error&) {
        return text + " backward raised";
      }
    };
    at::Tensor x = at::rand({3, 3}) + 3 * at::eye(3), z = at::rand({3, 3});
    for (int i = 0; i < 3; ++i) f(x, z, good);
    EXPECT_EQ(f.report().verdict, Verdict::Faster) << "body " << b << f.report();
    EXPECT_EQ(versions(f), versions(plain)) << "body " << b << f.report();
  }
}

}  // namespace
}  // namespace graft::test
