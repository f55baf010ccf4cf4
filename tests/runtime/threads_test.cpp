// Any number of threads may call one function, cold or warm.
#include <atomic>
#include <thread>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

at::Tensor body(const at::Tensor& x, const at::Tensor& y) {
  return (x * y + 1).relu() - y;
}

template <class Work>
void on_threads(int count, Work work) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < count) std::this_thread::yield();
      work(t);
    });
  for (auto& thread : threads) thread.join();
}

void many_threads(Options options) {
  auto f = compile(body, options);
  on_threads(8, [&](int t) {
    for (int i = 0; i < 60; ++i) {
      at::Tensor x = at::randn({3 + (i + t) % 4, 16}), y = at::randn({16});
      ASSERT_TRUE(same(f(x, y), body(x, y)));
    }
  });
  f.wait();
  for (int i = 0; i < 40; ++i) {
    at::Tensor x = at::randn({3 + i % 4, 16}), y = at::randn({16});
    ASSERT_TRUE(same(f(x, y), body(x, y)));
  }
  EXPECT_EQ(f.report().records, 4) << "one thread records a layout, the others are eager meanwhile";
  EXPECT_EQ(f.report().calls, 8 * 60 + 40);
}

TEST(Threads, ColdSynchronous) {
  many_threads(at_once());
}
TEST(Threads, ColdAsynchronousWithRace) {
  many_threads({});
}

TEST(Threads, Warm) {
  auto f = compile(body, at_once());
  at::Tensor y = at::randn({16}), x = at::randn({4, 16}), expected = body(x, y);
  warm_up(f, x, y);
  on_threads(8, [&](int) {
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(same(f(x, y), expected));
  });
  EXPECT_EQ(f.report().plan_hits, 8 * 500);
}

TEST(Threads, ResetReportAndExplainWhileCalled) {
  Options options;
  options.race = false;
  auto f = compile(body, options);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      f.reset();
      f.report().text();
      f.explain();
      f.wait();
    }
  });
  on_threads(3, [&](int) {
    for (int i = 0; i < 100; ++i) {
      at::Tensor x = at::randn({4, 16}), y = at::randn({16});
      ASSERT_TRUE(same(f(x, y), body(x, y)));
    }
  });
  stop = true;
  other.join();
}

TEST(Threads, EachThreadsModesAreItsOwn) {
  auto f = compile(body, at_once());
  at::Tensor x = at::randn({4, 16}), y = at::randn({16});
  on_threads(4, [&](int t) {
    for (int i = 0; i < 50; ++i) {
      if (t % 2 == 0) {
        c10::InferenceMode mode;
        ASSERT_TRUE(f(x, y).is_inference());
      } else {
        ASSERT_FALSE(f(x, y).is_inference());
      }
    }
  });
  EXPECT_EQ(f.report().plans, 2);
}

TEST(Threads, AFunctionDestroyedWhileItIsCompiled) {
  for (int i = 0; i < 10; ++i) {
    auto f = compile(body, Options{});
    f(at::randn({2, 16 + i}), at::randn({16 + i}));
  }
}

TEST(Threads, AThreadCountThatChangesAfterPlanning) {
  auto f = compile(body, at_once());
  at::Tensor x = at::randn({512, 1024}), y = at::randn({1024});
  warm_up(f, x, y);
  int threads = at::get_num_threads();
  for (int n : {1, 4, threads}) {
    at::set_num_threads(n);
    EXPECT_TRUE(same(f(x, y), body(x, y)));
  }
}

/// Sums over rows picked by an index: tasks of a kernel each take some of the rows.
using Many = std::function<Tensors(const Tensors&)>;
const std::vector<std::pair<const char*, Many>> kScatters = {
    {"index_add",
     [](const Tensors& t) { return Tensors{at::zeros({900, 24}).index_add(0, t[1], t[0] * 2)}; }},
    {"index_add in place",
     [](const Tensors& t) {
       t[2].index_add_(0, t[1], t[0]);
       return Tensors{t[0].neg()};
     }},
    {"scatter_add",
     [](const Tensors& t) {
       const at::Tensor index = t[1].unsqueeze(1).expand({t[1].size(0), 24});
       return Tensors{at::zeros({900, 24}).scatter_add(0, index, t[0].tanh())};
     }},
    {"index_put",
     [](const Tensors& t) {
       return Tensors{t[2].index_put({t[1] - 900}, t[0], /*accumulate=*/true)};
     }},
    {"embedding backward", [](const Tensors& t) {
       return Tensors{at::embedding_dense_backward(t[0], t[1], 900, -1, false)};
     }}};

TEST(Threads, ScatteredRowsAreSharedByManyThreads) {
  constexpr int64_t kRows = 60000;  // more than any core's own cache
  for (const auto& [name, program] : kScatters) {
    auto f = compile(program, at_once());
    for (int call = 0; call < 6; ++call) {
      // Rows that come often, as hubs of graphs do, and some that never do.
      const at::Tensor index = at::rand({kRows}).pow(3).mul(899).to(at::kLong);
      const Tensors plain{at::randn({kRows, 24}), index, at::randn({900, 24})};
      const Tensors given{plain[0].clone(), plain[1].clone(), plain[2].clone()};
      at::set_num_threads(1);  // with more, eager's index_put adds in any order
      const Tensors expected = program(plain);
      at::set_num_threads(call == 5 ? 1 : 4);
      const Tensors came = f(given);
      if (call < 2 && std::string(name) == "index_put") continue;  // eager's
      EXPECT_TRUE(same(came[0], expected[0])) << name << ", call " << call;
      EXPECT_TRUE(same(given[2], plain[2])) << name << ", call " << call;
    }
    at::set_num_threads(4);
    EXPECT_NE(f.explain().find(" rows 900 "), std::string::npos) << name << f.explain();
  }
  at::set_num_threads(2);
}

}  // namespace
}  // namespace graft::test
