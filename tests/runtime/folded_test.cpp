// What is computed of captured tensors alone and held (runtime/plan/folded.h): never stale, however
// these change.
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "helpers.h"

namespace graft {
namespace {

using at::Tensor;

Options folding() {
  Options options = test::at_once();
  options.mode = Mode::MaxAutotune;
  return options;
}

/// A mask made of nothing, and a table turned and scaled: kernels of their own, which are folded.
struct Table {
  Tensor table;
  Tensor operator()(const Tensor& x) const {
    const Tensor turned = (table.t() * 2).contiguous();
    return at::cumsum(turned, 0).matmul(x).relu() + at::ones({x.size(0), 1}).triu(0);
  }
};
Tensor table(int64_t n, int seed = 1) {
  at::manual_seed(static_cast<uint64_t>(seed));
  return at::randn({n, n});
}

void expect_equal(const Tensor& came, const Tensor& expected) {
  EXPECT_TRUE(at::allclose(came, expected, 1e-4, 1e-4));
}

TEST(Folded, IsComputedAgainWhenWhatItWasMadeOfChanges) {
  const at::NoGradGuard no_grad;
  const int64_t n = 64;
  Table f{table(n)};
  auto compiled = compile(f, folding());
  const Tensor x = table(n, 2);
  for (int call = 0; call < 4; ++call) expect_equal(compiled(x), f(x));
  ASSERT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
  ASSERT_GT(compiled.report().folded_bytes, 0) << compiled.explain();

  const auto expect_seen = [&](const char* what) {
    SCOPED_TRACE(what);
    const int64_t hits = compiled.report().plan_hits;
    expect_equal(compiled(x), f(x));
    expect_equal(compiled(x), f(x));
    EXPECT_EQ(compiled.report().plan_hits, hits + 2);
  };
  expect_seen("nothing changed");
  f.table.mul_(3);
  expect_seen("in place");
  f.table[3][5] = 100;
  expect_seen("one element, through a view");
  f.table.detach().add_(1);
  expect_seen("through a detached alias");
  f.table.data().mul_(0.5);  // goes around the version counter
  expect_seen("through data(), all of it");
}

TEST(Folded, IsAnotherOnesForAnotherTensorInTheSamePlace) {
  const at::NoGradGuard no_grad;
  const int64_t n = 64;
  const Tensor x = table(n, 2);
  for (int round = 0; round < 6; ++round) {
    const Table f{table(n, 10 + round)};
    auto compiled = compile(f, folding());
    for (int call = 0; call < 4; ++call) expect_equal(compiled(x), f(x));
    EXPECT_GT(compiled.report().folded_bytes, 0);
  }
}

TEST(Folded, FollowsSetData) {
  const at::NoGradGuard no_grad;
  Table f{table(64)};
  auto compiled = compile(f, folding());
  const Tensor x = table(64, 2);
  for (int call = 0; call < 4; ++call) expect_equal(compiled(x), f(x));
  for (int round = 0; round < 4; ++round) {
    f.table.set_data(table(64, 20 + round));
    for (int call = 0; call < 3; ++call) expect_equal(compiled(x), f(x));
  }
}

/// Slices share a storage, and a counter.
TEST(Folded, OfSlicesOfOneTensor) {
  const at::NoGradGuard no_grad;
  const Tensor all = at::randn({3, 64, 64}), x = table(64, 2);
  for (int64_t k = 0; k < 3; ++k) {
    const Table f{all[k]};
    auto compiled = compile(f, folding());
    for (int call = 0; call < 4; ++call) expect_equal(compiled(x), f(x));
  }
  Table f{table(64)};
  auto compiled = compile(f, folding());
  for (int round = 0; round < 6; ++round) {
    f.table.set_data(all[round % 3]);
    for (int call = 0; call < 3; ++call) expect_equal(compiled(x), f(x));
  }
}

/// What no counter tells, an audit finds.
TEST(Folded, IsAudited) {
  const at::NoGradGuard no_grad;
  const Table f{table(64)};
  Options options = folding();
  options.audit_every = 1;
  auto compiled = compile(f, options);
  const Tensor x = table(64, 2);
  for (int call = 0; call < 4; ++call) compiled(x);
  ASSERT_GT(compiled.report().folded_bytes, 0);
  f.table.data()[1][2] = 100;  // one element, around the counter
  for (int call = 0; call < 3; ++call) compiled(x);
  EXPECT_EQ(compiled.report().verdict, Verdict::Mismatch) << compiled.explain();
  expect_equal(compiled(x), f(x));
}

/// Indices are checked at each call.
TEST(Folded, IsNotWhatIndicesLeadTo) {
  const at::NoGradGuard no_grad;
  const Tensor held = table(64), ids = at::arange(64);
  const auto f = [&](const Tensor& x) {
    return at::cumsum(held.index_select(0, ids), 0).matmul(x).relu();
  };
  auto compiled = compile(f, folding());
  const Tensor x = table(64, 2);
  for (int call = 0; call < 4; ++call) expect_equal(compiled(x), f(x));
  ids.fill_(int64_t{1} << 40);
  EXPECT_ANY_THROW(compiled(x));
  ids.fill_(3);
  expect_equal(compiled(x), f(x));
}

TEST(Folded, KnowsWhetherSubnormalNumbersCount) {
  const at::NoGradGuard no_grad;
  const Table f{table(64) * 1e-38};
  auto compiled = compile(f, folding());
  const Tensor x = table(64, 2) * 1e30;
  for (bool flush : {false, true, false, true}) {
    if (!at::globalContext().setFlushDenormal(flush)) GTEST_SKIP() << "cannot be set here";
    for (int call = 0; call < 3; ++call) {
      const Tensor expected = f(x), came = compiled(x);
      EXPECT_TRUE(at::allclose(came, expected, 1e-3, 1e-12)) << flush;
    }
  }
  at::globalContext().setFlushDenormal(false);
}

TEST(Folded, NeedsAVersionCounter) {
  const c10::InferenceMode inference;
  Table f{table(64)};
  ASSERT_TRUE(f.table.is_inference());
  auto compiled = compile(f, folding());
  const Tensor x = table(64, 2);
  for (int call = 0; call < 6; ++call) {
    expect_equal(compiled(x), f(x));
    f.table[0][0].add_(1);  // no counter says so, and one element is no sample
  }
}

TEST(Folded, IsNotWhatThePlanWrites) {
  const at::NoGradGuard no_grad;
  Tensor state = table(64);
  const auto step = [](const Tensor& x, const Tensor& held) {
    const Tensor turned = (held.t() * 2).contiguous();
    const Tensor out = at::cumsum(turned, 0) + x;
    held.add_(x);
    return out;
  };
  auto compiled = compile([&](const Tensor& x) { return step(x, state); }, folding());
  Tensor eager_state = state.clone();
  const Tensor x = table(64, 2);
  for (int call = 0; call < 6; ++call) {
    expect_equal(compiled(x), step(x, eager_state));
    expect_equal(state, eager_state);
  }
}

TEST(Folded, KeepsToItsBudget) {
  const at::NoGradGuard no_grad;
  const Table f{table(64)};
  const Tensor x = table(64, 2);
  for (int64_t most : {int64_t{0}, int64_t{200}, int64_t{1} << 20}) {
    Options options = folding();
    options.most_folded_bytes = most;
    auto compiled = compile(f, options);
    for (int call = 0; call < 4; ++call) expect_equal(compiled(x), f(x));
    EXPECT_LE(compiled.report().folded_bytes, most);
    EXPECT_EQ(compiled.report().folded_bytes > 0, most > 200) << compiled.explain();
  }
  EXPECT_EQ(compile(f, test::at_once()).report().folded_bytes, 0);
}

TEST(Folded, ByManyThreadsAtOnce) {
  const at::NoGradGuard no_grad;
  const Table f{table(64)};
  auto compiled = compile(f, folding());
  const Tensor x = table(64, 2);
  for (int call = 0; call < 4; ++call) compiled(x);
  for (int round = 0; round < 5; ++round) {
    f.table.mul_(1.5);
    const Tensor expected = f(x);
    std::vector<std::thread> threads;
    std::vector<Tensor> came(6);
    for (Tensor& result : came)
      threads.emplace_back([&] {
        const at::NoGradGuard off;
        result = compiled(x);
      });
    for (std::thread& thread : threads) thread.join();
    for (const Tensor& result : came) expect_equal(result, expected);
  }
}

/// Linear layers whose weights lie in the order in which a product reads them.
TEST(Folded, WeightsOfProducts) {
  const at::NoGradGuard no_grad;
  for (c10::ScalarType type : {at::kFloat, at::kBFloat16})
    for (int64_t rows : {5, 16, 33, 130})
      for (auto [terms, columns] : {std::pair<int64_t, int64_t>{384, 384}, {200, 1000}}) {
        const Tensor x = at::randn({rows, terms}).to(type);
        const Tensor weight = at::randn({columns, terms}).to(type),
                     bias = at::randn({columns}).to(type);
        const auto layer = [&](const Tensor& t) {
          return at::gelu(at::linear(t, weight, bias)) + 1;
        };
        auto compiled = compile(layer, folding());
        for (int call = 0; call < 5; ++call) {
          const Tensor expected = layer(x), came = compiled(x);
          const double tolerance = type == at::kFloat ? 1e-4 : 0.05;
          EXPECT_TRUE(at::allclose(came, expected, tolerance, tolerance))
              << rows << " rows, " << terms << " terms, " << columns << " columns";
          weight.mul_(0.9);
        }
        EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
      }
}

/// Products of few rows whose weights cannot be held are loops, as in other modes.
TEST(Folded, FewRowsOfWeightsThatAreNotHeld) {
  const at::NoGradGuard no_grad;
  at::manual_seed(9);
  const Tensor weight = at::randn({384, 512}), narrow = at::randn({10, 512}),
               bias = at::randn({384});
  const auto expect_fused = [](auto layer, const Tensor& x, Options options) {
    auto compiled = compile(layer, options);
    for (int call = 0; call < 3; ++call) expect_equal(compiled(x), layer(x));
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
    for (const OperatorReport& row : compiled.report().operators)
      EXPECT_NE(row.fate, "extern") << row.name << ": " << row.why;
  };
  Options little = folding();
  little.most_folded_bytes = 1000;
  const auto linear = [&](const Tensor& x) { return at::relu(at::linear(x, weight, bias)); };
  expect_fused(linear, at::randn({6, 512}), little);
  Options elsewhere = test::at_once();
  elsewhere.most_folded_bytes = 1 << 30;
  expect_fused(linear, at::randn({6, 512}), elsewhere);
  expect_fused([&](const Tensor& x) { return at::relu(at::linear(x, narrow)); },
               at::randn({100, 512}), folding());
  expect_fused([&](const Tensor& x) { return at::addmm(bias, x, weight.t(), 2, 3).relu(); },
               at::randn({6, 512}), folding());
}

/// at::Context's switch, for a while.
class Precision {
 public:
  explicit Precision(const char* name) { at::globalContext().setFloat32MatmulPrecision(name); }
  ~Precision() { at::globalContext().setFloat32MatmulPrecision("highest"); }
  Precision(const Precision&) = delete;
  Precision& operator=(const Precision&) = delete;
};

double error(const Tensor& came, const Tensor& exact) {
  return ((came.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

/// With medium precision factors may have 8 bits, and only then.
TEST(Folded, ProductsOfMediumPrecision) {
  const at::NoGradGuard no_grad;
  at::manual_seed(5);
  // 320 terms lie in pairs, where machines take them so; few rows read a weight that is held.
  for (auto [rows, terms] : {std::pair<int64_t, int64_t>{100, 300}, {100, 320}, {6, 320}}) {
    const Tensor weight = at::randn({512, terms}), x = at::randn({rows, terms});
    const auto layer = [](const Tensor& t, const Tensor& w) { return at::relu(at::linear(t, w)); };
    const Tensor exact = layer(x.to(at::kDouble), weight.to(at::kDouble));
    auto compiled = compile([&](const Tensor& t) { return layer(t, weight); }, folding());
    for (const char* name : {"highest", "medium", "high", "medium", "highest"}) {
      SCOPED_TRACE(name);
      const Precision precision(name);
      for (int call = 0; call < 3; ++call)
        EXPECT_LT(error(compiled(x), exact), name == std::string("medium") ? 0.01 : 1e-6);
      EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
    }
    EXPECT_EQ(compiled.report().plans, 2) << "one for medium, one for the others";
  }
}

/// The routine that takes the bias last races against the kernel on the same operands.
TEST(Folded, RacesRoutinesThatTakeOperandsInAnotherOrder) {
  const at::NoGradGuard no_grad;
  at::manual_seed(8);
  const Tensor weight = at::randn({384, 1024}), bias = at::randn({384}),
               x = at::randn({1024, 1024});
  const auto layer = [](const Tensor& t, const Tensor& w, const Tensor& b) {
    return at::linear(t, w, b) * 2;
  };
  const Tensor exact = layer(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble));
  for (const char* name : {"highest", "medium"}) {
    const Precision precision(name);
    auto compiled = compile([&](const Tensor& t) { return layer(t, weight, bias); }, folding());
    for (int call = 0; call < 3; ++call) EXPECT_LT(error(compiled(x), exact), 0.01) << name;
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
  }
}

TEST(Folded, AttentionOfMediumPrecision) {
  const at::NoGradGuard no_grad;
  at::manual_seed(6);
  const auto attention = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor later = at::ones({q.size(-2), k.size(-2)}, at::kBool).triu(1);
    const Tensor scores = at::matmul(q, k.transpose(-2, -1)) * 0.125;
    return at::matmul(at::softmax(scores.masked_fill(later, -INFINITY), -1), v);
  };
  const Tensor q = at::randn({8, 500, 64}), k = at::randn({8, 500, 64}),
               v = at::randn({8, 500, 64});
  const Tensor exact = attention(q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble));
  const Precision precision("medium");
  auto compiled = compile(attention, test::at_once());
  for (int call = 0; call < 3; ++call) EXPECT_LT(error(compiled(q, k, v), exact), 0.01);
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
}

}  // namespace
}  // namespace graft
