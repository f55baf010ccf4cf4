// Processes of one group, as threads: what they say to each other, alone and in compiled functions.
#include "graft/systems/processes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <graft/graft.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "graft/systems/data_parallel.h"

namespace graft::systems {
namespace {

using at::Tensor;

TEST(Processes, SayWhatTheyAreAskedTo) {
  run_ranks(3, [](Group& group) {
    const Tensor x = at::full({5}, 1.0 + group.rank());
    group.all_reduce(x);
    EXPECT_TRUE(at::equal(x, at::full({5}, 6.0)));
    const Tensor y = at::full({2}, 1.0 * group.rank());
    group.broadcast(y, 2);
    EXPECT_TRUE(at::equal(y, at::full({2}, 2.0)));
    const Tensor all = group.all_gather(at::full({2}, 1.0 * group.rank()));
    EXPECT_TRUE(at::equal(all.select(1, 0), at::arange(3, at::kFloat)));
    const Tensor from = at::empty({4});
    const Tensor own = at::full({4}, 1.0 * group.rank());
    Pending sent = group.start_send(own, (group.rank() + 1) % 3);
    Pending came = group.start_receive(from, (group.rank() + 2) % 3);
    sent.wait(), came.wait();
    EXPECT_TRUE(at::equal(from, at::full({4}, 1.0 * ((group.rank() + 2) % 3))));
    group.barrier();
  });
}

/// Tensors larger and smaller than what shared memory holds, several under way, of several dtypes.
void sum_many(GroupOptions::Sums sums, int count) {
  GroupOptions options;
  options.sums = sums;
  run_ranks(
      count,
      [&](Group& group) {
        for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt,
                                 at::kChar, at::kBool, at::kComplexFloat})
          for (const int64_t length : {0, 1, 1000, 100'003, 1 << 18, 2'500'001}) {
            const auto of = [&](int rank) {
              return at::arange(length, at::kInt).remainder(19).add(rank);
            };
            const Tensor x = of(group.rank()).to(dtype), y = of(group.rank() + 1).to(dtype),
                         z = x.clone();
            Tensor wanted_x = at::zeros({length}, at::kInt), wanted_y = wanted_x.clone();
            for (int rank = 0; rank < count; ++rank) wanted_x += of(rank), wanted_y += of(rank + 1);
            Pending first = group.start_all_reduce(x), second = group.start_all_reduce(y);
            second.wait(), first.wait();
            EXPECT_TRUE(at::equal(x, wanted_x.to(dtype))) << dtype << ' ' << length;
            EXPECT_TRUE(at::equal(y, wanted_y.to(dtype))) << dtype << ' ' << length;
            group.all_reduce(z);
            EXPECT_TRUE(at::equal(z, wanted_x.to(dtype))) << dtype << ' ' << length;
          }
      },
      options);
}

TEST(Processes, SumByMemory) {
  sum_many(GroupOptions::Sums::ByMemory, 1);
  sum_many(GroupOptions::Sums::ByMemory, 2);
  sum_many(GroupOptions::Sums::ByMemory, 3);
}

/// Who has put in its numbers may do other things before it waits: nobody waits for that.
TEST(Processes, SumsAreThereThoughOthersAreBusy) {
  GroupOptions options;
  options.sums = GroupOptions::Sums::ByMemory;
  for (const int count : {2, 3})
    for (const int64_t length : {1000, 300'000})
      run_ranks(
          count,
          [&](Group& group) {
            Tensor x = at::full({length}, 1.0 + group.rank()), first = at::ones({1}),
                   done = at::zeros({1});
            if (group.rank() > 0) {
              Pending sum = group.start_all_reduce(x);
              group.start_send(first, 0).wait();
              group.start_receive(done, 0).wait();
              sum.wait();
            } else {
              for (int other = 1; other < count; ++other) group.start_receive(first, other).wait();
              group.start_all_reduce(x).wait();
              for (int other = 1; other < count; ++other) group.start_send(done, other).wait();
            }
            EXPECT_TRUE(at::equal(x, at::full({length}, count * (count + 1) / 2.0)));
          },
          options);
}

TEST(Processes, SumBySockets) {
  sum_many(GroupOptions::Sums::BySockets, 2);
}

TEST(Processes, OneThatLeavesIsAnErrorOfTheOthers) {
  GroupOptions options;
  options.timeout = std::chrono::seconds(5);
  std::string error;
  run_ranks(
      2,
      [&](Group& group) {
        if (group.rank() == 1) return;
        try {
          group.all_reduce(at::ones({1000}));
        } catch (const GroupError& came) {
          error = came.what();
        }
      },
      options);
  EXPECT_NE(error.find("process 0 of 2"), std::string::npos) << error;
  EXPECT_NE(error.find("all_reduce"), std::string::npos) << error;
}

TEST(Processes, ASlowOneIsAnErrorAfterTheTimeOut) {
  GroupOptions options;
  options.timeout = std::chrono::seconds(1);
  std::mutex mutex;
  int errors = 0;
  run_ranks(
      2,
      [&](Group& group) {
        if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        try {
          // What came before the time-out may still be summed.
          for (int i = 0; i < 2; ++i) group.all_reduce(at::ones({1000}));
        } catch (const GroupError&) {
          const std::lock_guard lock(mutex);
          ++errors;
        }
      },
      options);
  EXPECT_EQ(errors, 2);
}

TEST(Processes, SumsOfUnlikeTensorsAreErrors) {
  std::mutex mutex;
  int errors = 0;
  run_ranks(2, [&](Group& group) {
    try {
      group.all_reduce(at::ones({1000 + group.rank()}));
    } catch (const GroupError&) {
      const std::lock_guard lock(mutex);
      ++errors;
    }
  });
  EXPECT_GE(errors, 1);
}

TEST(Processes, AfterAnErrorNothingIsWaitedFor) {
  GroupOptions options;
  options.timeout = std::chrono::seconds(2);
  run_ranks(
      2,
      [&](Group& group) {
        if (group.rank() == 1) return std::this_thread::sleep_for(std::chrono::seconds(4));
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < 5; ++i) EXPECT_THROW(group.all_reduce(at::ones({10})), GroupError);
        EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
      },
      options);
}

TEST(Processes, PlacesThatMakeNoSenseAreRefused) {
  GroupOptions options{.rank = 2, .size = 2};
  options.store = "file:///tmp/nothing";
  EXPECT_THROW(Group::join(options), std::invalid_argument);
  options.rank = 0;
  for (const char* store :
       {"http://a:1", "tcp://host", "tcp://host:none", "tcp://host:70000", "file://"}) {
    options.store = store;
    EXPECT_THROW(Group::join(options), std::invalid_argument) << store;
  }
}

TEST(Processes, MeetByAFile) {
  const auto file =
      std::filesystem::temp_directory_path() / ("graft_store_" + std::to_string(getpid()));
  GroupOptions options{
      .name = "by a file", .store = "file://" + file.string(), .rank = 0, .size = 1};
  const auto group = Group::join(options);
  const Tensor x = at::ones({3});
  group->all_reduce(x);
  EXPECT_TRUE(at::equal(x, at::ones({3})));
  EXPECT_THROW(Group::join(options), std::invalid_argument) << "two of one name";
  std::filesystem::remove(file);
}

struct Model {
  std::vector<Tensor> w;
  explicit Model(uint64_t seed) {
    at::manual_seed(seed);
    for (int i = 0; i < 3; ++i) w.push_back((at::randn({32, 32}) * 0.2).requires_grad_());
  }
  Tensor loss(const Tensor& x) const {
    Tensor h = x;
    for (const Tensor& p : w) h = h.mm(p).tanh();
    return h.square().mean();
  }
  void descend() const {
    const at::NoGradGuard no_grad;
    for (const Tensor& p : w) {
      p.sub_(p.grad(), 0.5);
      p.mutable_grad().reset();
    }
  }
};

/// The losses of one process with the whole batch.
std::vector<float> alone(const Tensor& batch, int steps) {
  const Model model(1);
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step) {
    const Tensor loss = model.loss(batch);
    loss.backward();
    model.descend();
    losses.push_back(loss.item<float>());
  }
  return losses;
}

void train_in_parallel(bool compiled) {
  constexpr int kSteps = 10;
  at::manual_seed(3);
  const Tensor batch = at::randn({16, 32});
  const std::vector<float> wanted = alone(batch, kSteps);
  std::mutex seeds;  // ATen's generator is the process's
  run_ranks(2, [&](Group& group) {
    const auto model = [&] {
      const std::lock_guard lock(seeds);
      return std::make_unique<Model>(1 + group.rank());  // process 0's values come to all
    }();
    DataParallel parallel(model->w, group.shared_from_this(),
                          {.bucket_bytes = 8192, .first_bucket_bytes = 4096});
    EXPECT_EQ(parallel.buckets().size(), 2u);
    const auto step = [&](const Tensor& x) {
      const Tensor loss = model->loss(x);
      loss.backward();
      parallel.average_gradients();
      model->descend();
      return loss.detach();
    };
    Options options;
    options.async = false, options.race = false;
    auto fast = compile(step, options);
    const Tensor part = batch.chunk(2)[static_cast<size_t>(group.rank())];
    for (int k = 0; k < kSteps; ++k) {
      // Now and then one of them runs eagerly: both say the same.
      const bool eagerly = !compiled || (group.rank() == 1 && k % 4 == 3);
      const Tensor loss = parallel.average(eagerly ? step(part) : fast(part));
      EXPECT_NEAR(loss.item<float>(), wanted[static_cast<size_t>(k)], 1e-5) << "step " << k;
    }
    if (compiled) {
      EXPECT_EQ(fast.report().verdict, Verdict::Faster) << fast.report().text();
    }
  });
}

TEST(DataParallel, HasTheLossesOfOneProcess) {
  train_in_parallel(/*compiled=*/false);
}
TEST(DataParallel, CompiledAndNot) {
  train_in_parallel(/*compiled=*/true);
}

/// As most programs do: gradients are cleared at the next step's start.
TEST(DataParallel, GradientsMayStay) {
  std::mutex seeds;
  run_ranks(2, [&](Group& group) {
    const auto model = [&] {
      const std::lock_guard lock(seeds);
      return std::make_unique<Model>(1);
    }();
    DataParallel parallel(model->w, group.shared_from_this());
    Options options;
    options.async = options.race = false;
    auto step = compile(
        [&](const Tensor& x) {
          for (const Tensor& p : model->w) p.mutable_grad().reset();
          const Tensor loss = model->loss(x);
          loss.backward();
          parallel.average_gradients();
          return loss.detach();
        },
        options);
    for (int k = 0; k < 6; ++k) {
      step(at::full({8, 32}, 0.1 * (group.rank() + 1)));
      const Tensor all = group.all_gather(model->w[0].grad().contiguous());
      EXPECT_TRUE(at::equal(all[0], all[1])) << k;
    }
    EXPECT_EQ(step.report().verdict, Verdict::Faster) << step.report().text();
  });
}

TEST(DataParallel, OtherModelsAreRefused) {
  run_ranks(2, [](Group& group) {
    const std::vector<Tensor> parameters{at::zeros({4 + group.rank()})};
    EXPECT_THROW(DataParallel(parameters, group.shared_from_this()), GroupError);
  });
}

}  // namespace
}  // namespace graft::systems
