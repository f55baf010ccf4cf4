// Mode::ReduceOverhead: results that are given again when nobody holds them, and calls that are
// served without a look-up.
#include <c10/core/InferenceMode.h>

#include <functional>
#include <set>
#include <thread>

#include "runtime/helpers.h"

namespace graft {
namespace {

using at::Tensor;

Options reducing(const char* name = "") {
  Options options = test::at_once(name);
  options.mode = Mode::ReduceOverhead;
  return options;
}

Tensor chain(const Tensor& x, const Tensor& y) {
  return (x * 2 + y).relu() * y;
}

TEST(ReduceOverhead, ResultsThatAreHeldStay) {
  auto f = compile(chain, reducing());
  std::vector<Tensor> held, expected;
  for (int call = 0; call < 20; ++call) {
    const Tensor x = at::randn({7, 9}), y = at::randn({7, 9});
    held.push_back(f(x, y));
    expected.push_back(chain(x, y));
    if (call % 3 == 0) held.back() = held.back().narrow(0, 1, 3).t();  // only a view is held
    if (call % 3 == 0) expected.back() = expected.back().narrow(0, 1, 3).t();
  }
  for (size_t k = 0; k < held.size(); ++k) EXPECT_TRUE(at::equal(held[k], expected[k])) << k;
  EXPECT_EQ(f.report().plan_hits, 18) << f.report();
}

TEST(ReduceOverhead, ResultsThatAreDroppedComeAgain) {
  const c10::InferenceMode inference;
  auto f = compile(chain, reducing());
  const Tensor x = at::randn({7, 9}), y = at::randn({7, 9}), expected = chain(x, y);
  for (int call = 0; call < 4; ++call) f(x, y);
  std::set<const void*> places;
  for (int call = 0; call < 30; ++call) {
    const Tensor result = f(x, y);
    EXPECT_TRUE(at::equal(result, expected));
    places.insert(result.data_ptr());
  }
  EXPECT_LE(places.size(), 3u);
}

/// What a caller does to a result goes with it.
TEST(ReduceOverhead, ResultsAreAsNew) {
  auto f = compile(chain, reducing());
  const Tensor x = at::randn({7, 9}), y = at::randn({7, 9}), expected = chain(x, y);
  for (int call = 0; call < 4; ++call) f(x, y);
  const std::vector<std::function<void(Tensor&)>> changes = {
      [](Tensor& r) { r.add_(1); },
      [](Tensor& r) { r.t_(); },
      [](Tensor& r) { r.resize_({3, 50}); },
      [](Tensor& r) { r.requires_grad_(); },
      [](Tensor& r) { r.unsqueeze_(0); },
      [](Tensor& r) { r.set_data(at::zeros({2, 2})); },
      [](Tensor& r) { r.storage().unsafeGetStorageImpl()->set_nbytes(4); },
      [](Tensor& r) { r.zero_(); },
      [](Tensor& r) { r.requires_grad_(), (r * 2).sum().backward(); },
  };
  for (size_t k = 0; k < 6 * changes.size(); ++k) {
    Tensor result = f(x, y);
    ASSERT_TRUE(at::equal(result, expected)) << k;
    EXPECT_EQ(result._version(), 0) << k;
    EXPECT_FALSE(result.requires_grad());
    EXPECT_EQ(result.strides(), expected.strides());
    changes[k % changes.size()](result);
  }
}

TEST(ReduceOverhead, LayoutsOverlapsAndModesAreSeen) {
  auto f = compile(
      [](Tensor a, const Tensor& b) {
        a.mul_(2);
        return (a + b) * b;
      },
      reducing());
  auto eager = [](Tensor a, const Tensor& b) {
    a.mul_(2);
    return (a + b) * b;
  };
  const Tensor whole = at::randn({40});
  struct Pair {
    Tensor a, b;
  };
  auto pairs = [&](const Tensor& base) {
    return std::vector<Pair>{
        {base.narrow(0, 0, 12), base.narrow(0, 20, 12)},
        {base.narrow(0, 0, 12), base.narrow(0, 4, 12)},
        {base.narrow(0, 4, 12), base.narrow(0, 0, 12)},
        {base.narrow(0, 0, 12), base.narrow(0, 0, 12)},
        {base.narrow(0, 0, 24).view({12, 2}).select(1, 0), base.narrow(0, 24, 12)},
        {base.narrow(0, 0, 12).view({3, 4}), base.narrow(0, 20, 4)}};
  };
  for (int round = 0; round < 6; ++round) {
    const size_t count = pairs(whole).size();
    for (size_t k = 0; k < count; ++k) {
      const Tensor mine = whole.clone(), theirs = whole.clone();
      const Pair a = pairs(mine)[k], b = pairs(theirs)[k];
      const auto version = a.a._version();
      const Tensor came = f(a.a, a.b), expected = eager(b.a, b.b);
      EXPECT_TRUE(at::equal(came, expected)) << round << " " << k;
      EXPECT_TRUE(at::equal(mine, theirs)) << round << " " << k;
      EXPECT_GT(a.a._version(), version);
    }
  }
  auto g = compile(chain, reducing());
  const Tensor x = at::randn({5}), y = at::randn({5});
  for (int round = 0; round < 12; ++round) {
    if (round % 2 == 0) {
      const c10::InferenceMode inference;
      EXPECT_TRUE(g(x, y).is_inference());
    } else {
      EXPECT_FALSE(g(x, y).is_inference());
    }
  }
}

TEST(ReduceOverhead, CapturedTensorsAreSeen) {
  struct Model {
    Tensor weight = at::randn({9}), bias = at::randn({9});
  };
  auto model = std::make_shared<Model>();
  auto eager = [model](const Tensor& x) { return x * model->weight + model->bias; };
  auto f = compile(eager, reducing());
  const Tensor x = at::randn({4, 9});
  auto check = [&](const char* what) {
    for (int call = 0; call < 5; ++call) EXPECT_TRUE(at::equal(f(x), eager(x))) << what;
  };
  check("as recorded");
  model->weight.mul_(3);
  check("changed in place");
  model->weight.set_data(at::randn({9}));
  check("other memory");
  model->weight = at::randn({9});
  check("replaced");
  model->bias.set_data(at::randn({4, 9}));
  check("another layout");
  f.reset();
  check("reset");
  const std::weak_ptr<Model> gone = model;
  Tensor alone = at::randn({9});
  auto holds = compile([alone](const Tensor& a) { return a + alone; }, reducing());
  EXPECT_EQ(alone.use_count(), 2);
  for (int call = 0; call < 5; ++call) holds(x);
  EXPECT_EQ(alone.use_count(), 2) << "the plan keeps no model alive";
}

/// A result that is captured elsewhere is gone when its owner drops it.
TEST(ReduceOverhead, ResultsThatAreDroppedAreGone) {
  auto g = compile(chain, reducing());
  const Tensor x = at::randn({7, 9}), y = at::randn({7, 9});
  for (int call = 0; call < 6; ++call) g(x, y);
  Tensor held = g(x, y);
  auto uses = [&](const Tensor& a) { return a + held; };
  auto f = compile(uses, test::at_once());
  for (int call = 0; call < 4; ++call) f(x);
  held = g(y, x);
  EXPECT_TRUE(at::equal(f(x), uses(x)));
  // Memory that a lazy clone shares.
  const Tensor expected = chain(x, y);
  std::vector<Tensor> clones;
  for (int call = 0; call < 9; ++call) clones.push_back(g(x, y)._lazy_clone());
  for (int call = 0; call < 9; ++call) g(y, x);
  for (const Tensor& clone : clones) EXPECT_TRUE(at::equal(clone, expected));
}

TEST(ReduceOverhead, ManyLayoutsInTurn) {
  auto f = compile(chain, reducing());
  for (int round = 0; round < 8; ++round)
    for (int64_t n : {3, 5, 7, 9, 11}) {
      const Tensor x = at::randn({n, 4}), y = at::randn({n, 4});
      EXPECT_TRUE(at::equal(f(x, y), chain(x, y)));
    }
  f.reset();
  const Tensor x = at::randn({3, 4}), y = at::randn({3, 4});
  for (int call = 0; call < 5; ++call) EXPECT_TRUE(at::equal(f(x, y), chain(x, y)));
}

TEST(ReduceOverhead, WhatAPlanCannotDoEagerDoes) {
  auto f = compile([](const Tensor& x, const Tensor& i) { return x.index_select(0, i) * 2; },
                   reducing());
  const Tensor x = at::randn({10, 3}), good = at::arange(0, 10, 2), bad = at::full({5}, 12);
  for (int call = 0; call < 6; ++call) {
    EXPECT_TRUE(at::equal(f(x, good), x.index_select(0, good) * 2));
    EXPECT_THROW(f(x, bad), c10::Error);
  }
  auto g = compile([](const Tensor& a) { return at::sort(a * 2); }, reducing());
  for (int call = 0; call < 5; ++call)
    EXPECT_TRUE(at::equal(std::get<0>(g(x)), std::get<0>(at::sort(x * 2))));
}

TEST(ReduceOverhead, ThreadsAtOnce) {
  auto f = compile(chain, reducing());
  const Tensor x = at::randn({64}), y = at::randn({64}), expected = chain(x, y);
  for (int call = 0; call < 3; ++call) f(x, y);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      std::vector<Tensor> held;
      for (int call = 0; call < 2000; ++call) {
        held.push_back(f(x, y));
        if (held.size() > 5) {
          for (const Tensor& one : held) wrong += !at::equal(one, expected);
          held.clear();
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ReduceOverhead, Regions) {
  auto f = compile([](const Tensor& x) { return (x * x).tanh().sum(1); }, reducing());
  const Tensor x = at::randn({5, 6}).requires_grad_();
  for (int call = 0; call < 5; ++call) {
    x.mutable_grad() = Tensor();
    f(x).sum().backward();
    const Tensor came = x.grad().clone();
    x.mutable_grad() = Tensor();
    (x * x).tanh().sum(1).sum().backward();
    EXPECT_TRUE(at::allclose(came, x.grad()));
  }
}

}  // namespace
}  // namespace graft
