// Averages of gradients over processes by each compressor: how near the exact average, the same
// bits everywhere, what error feedback makes up for, bytes, and what is refused.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "graft/systems/gradient_compression.h"

namespace graft::systems {
namespace {

using Make = std::function<std::shared_ptr<Compressor>()>;

const std::vector<std::pair<std::string, Make>> kAll = {
    {"uncompressed", uncompressed},
    {"top_k", [] { return top_k({.share = 0.1}); }},
    {"power_sgd", [] { return power_sgd({.rank = 3}); }},
    {"eight_bit", [] { return eight_bit(); }},
    {"eight_bit stochastic", [] { return eight_bit({.block = 64, .stochastic = true}); }},
    {"one_bit", [] { return one_bit(); }},
};

/// The gradient of a process in a step.
at::Tensor gradient_of(int rank, int step, at::IntArrayRef sizes) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(100 * step + rank));
}

/// By process, the averages of `steps` calls of one compressor.
std::vector<std::vector<at::Tensor>> averages(
    int processes, int steps, const Make& make,
    const std::function<at::Tensor(int rank, int step)>& gradient) {
  std::vector<std::vector<at::Tensor>> out(static_cast<size_t>(processes));
  run_ranks(processes, [&](Group& group) {
    const auto compressor = make();
    for (int step = 0; step < steps; ++step) {
      const at::Tensor value = gradient(group.rank(), step).clone();
      compressor->reduce(group, value);
      out[static_cast<size_t>(group.rank())].push_back(value);
    }
  });
  return out;
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

TEST(Compression, SameBitsOnAllProcessesAndInEachRun) {
  const auto gradient = [](int rank, int step) { return gradient_of(rank, step, {37, 53}); };
  for (const auto& [name, make] : kAll)
    for (const int processes : {1, 2, 3}) {
      SCOPED_TRACE(name + ' ' + std::to_string(processes));
      const auto first = averages(processes, 3, make, gradient);
      const auto second = averages(processes, 3, make, gradient);
      for (const auto& run : {first, second})
        for (const auto& process : run)
          for (size_t step = 0; step < process.size(); ++step)
            EXPECT_TRUE(process[step].equal(first[0][step]));
    }
}

TEST(Compression, OneProcessKeepsItsGradient) {
  const at::Tensor gradient = gradient_of(0, 0, {300});
  for (const auto& [name, make] : kAll)
    EXPECT_TRUE(averages(1, 1, make, [&](int, int) { return gradient; })[0][0].equal(gradient));
}

/// Distance of one average over three processes from the exact one.
double error_of(const Make& make, at::IntArrayRef sizes) {
  const auto got = averages(3, 1, make, [&](int rank, int) { return gradient_of(rank, 0, sizes); });
  const at::Tensor exact =
      (gradient_of(0, 0, sizes) + gradient_of(1, 0, sizes) + gradient_of(2, 0, sizes)) / 3;
  return relative(got[0][0], exact);
}

TEST(Compression, NearTheExactAverage) {
  EXPECT_LT(error_of(uncompressed, {1000}), 1e-6);
  EXPECT_LT(error_of([] { return top_k({.share = 1}); }, {1000}), 1e-6);
  EXPECT_LT(error_of([] { return eight_bit(); }, {1000}), 0.015);
  EXPECT_LT(error_of([] { return eight_bit({.block = 7}); }, {1000}), 0.008);
  EXPECT_LT(error_of([] { return eight_bit({.stochastic = true}); }, {1000}), 0.02);
  EXPECT_LT(error_of([] { return one_bit(); }, {1000}), 1.0);
  EXPECT_GT(error_of([] { return one_bit(); }, {1000}), 0.3);
  // A quarter of the values has most of the norm.
  EXPECT_LT(error_of([] { return top_k({.share = 0.25}); }, {1000}), 0.7);
  // Fewer values than there are processes, and more than the blocks hold evenly.
  for (const auto& [name, make] : kAll) {
    SCOPED_TRACE(name);
    EXPECT_LT(error_of(make, {2}), 2.0);
    EXPECT_LT(error_of(make, {257}), 1.0);
  }
}

TEST(Compression, PowerSgdIsExactWhereTheRankIs) {
  const at::Tensor left = gradient_of(7, 7, {40, 2}), right = gradient_of(8, 8, {2, 30});
  const auto gradient = [&](int rank, int) {
    return (left * (rank + 1)).matmul(right);  // average: 1.5 left right
  };
  for (const int64_t rank : {2, 4}) {  // 4: two rows of the factors depend on the others
    const auto got = averages(2, 3, [&] { return power_sgd({.rank = rank}); }, gradient);
    for (const at::Tensor& average : got[0])
      EXPECT_LT(relative(average, left.matmul(right) * 1.5), 1e-5);
  }
}

TEST(Compression, PowerSgdBeginsAfterItsStartAndSurvivesZeros) {
  const auto gradient = [](int rank, int step) {
    return step < 2 ? at::zeros({32, 32}) : gradient_of(rank, 0, {32, 1}).expand({32, 32});
  };
  const auto got = averages(2, 3, [] { return power_sgd({.rank = 1}); }, gradient);
  EXPECT_EQ(got[0][1].abs().max().item<float>(), 0);
  EXPECT_GT(got[0][2].abs().max().item<float>(), 0.1);
  const auto random = [](int rank, int step) { return gradient_of(rank, step, {32, 32}); };
  const auto late = averages(2, 2, [] { return power_sgd({.rank = 1, .start_step = 1}); }, random);
  EXPECT_LT(relative(late[0][0], (random(0, 0) + random(1, 0)) / 2), 1e-6);
  EXPECT_GT(relative(late[0][1], (random(0, 1) + random(1, 1)) / 2), 0.1);
}

/// How far the sum of the averages of a constant gradient is from what it should be.
double drift(const Make& make, int steps) {
  const auto gradient = [](int rank, int) { return gradient_of(rank, 0, {48, 48}); };
  const auto got = averages(2, steps, make, gradient);
  const at::Tensor exact = (gradient(0, 0) + gradient(1, 0)) / 2 * steps;
  return relative(at::stack(got[0]).sum(0), exact);
}

TEST(Compression, ErrorFeedbackMakesUpForWhatWasLeftOut) {
  const int steps = 60;
  EXPECT_LT(drift([] { return top_k({.share = 0.1}); }, steps), 0.15);
  EXPECT_GT(drift([] { return top_k({.share = 0.1, .error_feedback = false}); }, steps), 0.5);
  EXPECT_LT(drift([] { return one_bit(); }, steps), 0.15);
  EXPECT_GT(drift([] { return one_bit({.error_feedback = false}); }, steps), 0.3);
  EXPECT_LT(drift([] { return power_sgd({.rank = 4}); }, steps), 0.25);
  EXPECT_GT(drift([] { return power_sgd({.rank = 4, .error_feedback = false}); }, steps), 0.6);
  // By chance right on average, where the nearest code always errs to one side.
  EXPECT_LT(drift([] { return eight_bit({.stochastic = true}); }, steps),
            0.7 * drift([] { return eight_bit(); }, steps));
}

TEST(Compression, CountsWhatItSends) {
  const int64_t count = 4096;
  const auto bytes = [&](const Make& make, int processes) {
    int64_t sent = 0;
    run_ranks(processes, [&](Group& group) {
      const auto compressor = make();
      compressor->reduce(group, at::ones({64, 64}));
      if (group.rank() == 0) sent = compressor->bytes_sent();
    });
    return sent;
  };
  EXPECT_EQ(bytes(uncompressed, 2), 4 * count);
  EXPECT_EQ(bytes(uncompressed, 4), 6 * count);
  EXPECT_EQ(bytes([] { return top_k({.share = 0.125}); }, 2), 8 * count / 8);
  EXPECT_EQ(bytes([] { return top_k({.share = 0.125}); }, 3), 2 * 8 * count / 8);
  EXPECT_EQ(bytes([] { return power_sgd({.rank = 2}); }, 2), 4 * 2 * (64 + 64));
  EXPECT_EQ(bytes([] { return eight_bit(); }, 2), count + 4 * count / 256);
  EXPECT_EQ(bytes([] { return eight_bit(); }, 4), 2 * 3 * (count + 4 * count / 256) / 4);
  EXPECT_EQ(bytes([] { return one_bit(); }, 2), count / 8 + 4 * count / 1024);
}

TEST(Compression, WhatIsNotFiniteIsSeenAndNotRemembered) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const auto& [name, make] : kAll) {
      SCOPED_TRACE(name);
      const auto gradient = [&](int rank, int step) {
        at::Tensor out = gradient_of(rank, step, {32, 32});
        if (step == 1 && rank == 1) out.slice(0, 3, 20).fill_(bad);
        return out;
      };
      const auto got = averages(2, 4, make, gradient);
      EXPECT_TRUE(got[0][0].isfinite().all().item<bool>());
      EXPECT_FALSE(got[0][1].isfinite().all().item<bool>());
      EXPECT_TRUE(got[0][2].isfinite().all().item<bool>());
      EXPECT_GT(got[0][3].abs().max().item<float>(), 0);
      EXPECT_LT(got[0][3].abs().max().item<float>(), 20);
      for (size_t step : {size_t{2}, size_t{3}}) EXPECT_TRUE(got[0][step].equal(got[1][step]));
    }
}

TEST(Compression, HalfPrecisionAndEmptyGradients) {
  for (const auto& [name, make] : kAll)
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(name);
      const auto got = averages(
          2, 1, make, [&](int rank, int) { return gradient_of(rank, 0, {16, 16}).to(type); });
      EXPECT_EQ(got[0][0].scalar_type(), type);
      EXPECT_TRUE(got[0][0].equal(got[1][0]));
      averages(2, 1, make, [&](int, int) { return at::empty({0}, type); });
    }
}

void expect_error(int processes, const std::string& part, const std::function<void(Group&)>& work) {
  run_ranks(processes, [&](Group& group) {
    try {
      work(group);
      ADD_FAILURE() << "nothing was thrown; expected: " << part;
    } catch (const c10::ValueError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  });
}

TEST(Compression, Refuses) {
  expect_error(1, "expected a dense, contiguous CPU tensor",
               [](Group& group) { one_bit()->reduce(group, at::ones({4, 4}).t().slice(0, 0, 2)); });
  expect_error(1, "[3] Double",
               [](Group& group) { top_k()->reduce(group, at::ones({3}, at::kDouble)); });
  expect_error(1, "got an undefined one", [](Group& group) { top_k()->reduce(group, {}); });
  expect_error(1, "the shapes have 6 values and the gradient 5",
               [](Group& group) { power_sgd()->reduce(group, at::ones({5}), 0, {{2, 3}}); });
  expect_error(2, "expected the same gradients in the same order on all",
               [](Group& group) { eight_bit()->reduce(group, at::ones({4 + group.rank()})); });
  expect_error(2, "another compressor or other options", [](Group& group) {
    top_k({.share = 0.1 + group.rank() / 10.0})->reduce(group, at::ones({4}));
  });
  for (const auto& make : std::vector<Make>{
           [] { return top_k({.share = 0}); }, [] { return top_k({.share = 1.5}); },
           [] { return power_sgd({.rank = 0}); }, [] { return eight_bit({.block = 0}); },
           [] { return one_bit({.block = 12}); }})
    EXPECT_THROW(make(), c10::ValueError);
}

TEST(Compression, BucketsOfOtherShapesOrParametersStartAnew) {
  run_ranks(2, [](Group& group) {
    const at::Tensor gradient = gradient_of(group.rank(), 0, {96});
    const auto reduce = [&](Compressor& compressor, std::vector<std::vector<int64_t>> shapes,
                            std::vector<int64_t> parameters) {
      const at::Tensor value = gradient.clone();
      compressor.reduce(group, value, 0, shapes, parameters);
      return value;
    };
    const auto make = [] { return power_sgd({.rank = 1}); };
    const auto fresh = make();
    const at::Tensor wide = reduce(*make(), {{8, 12}}, {0}), high = reduce(*fresh, {{12, 8}}, {0});
    // As many values each time: what is remembered of others must not come in.
    const auto used = make();
    EXPECT_TRUE(reduce(*used, {{8, 12}}, {0}).equal(wide));
    EXPECT_FALSE(reduce(*used, {{8, 12}}, {0}).equal(wide));
    EXPECT_TRUE(reduce(*used, {{12, 8}}, {0}).equal(high));
    EXPECT_TRUE(reduce(*used, {{8, 12}}, {0}).equal(wide));
    EXPECT_TRUE(reduce(*used, {{8, 12}}, {1}).equal(wide));
  });
  expect_error(2, "other shapes or parameters in bucket 0",
               [](Group& group) { top_k()->reduce(group, at::ones({4}), 0, {}, {group.rank()}); });
}

TEST(Compression, DefaultDtypeMakesNoDifference) {
  const auto before = c10::get_default_dtype();
  const auto gradient = [](int rank, int step) {
    return at::randn({37, 53}, at::make_generator<at::CPUGeneratorImpl>(100 * step + rank),
                     at::TensorOptions(at::kFloat));
  };
  for (const auto& [name, make] : kAll) {
    SCOPED_TRACE(name);
    const auto expected = averages(2, 2, make, gradient);
    c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
    std::vector<std::vector<at::Tensor>> got;
    EXPECT_NO_THROW(got = averages(2, 2, make, gradient));
    c10::set_default_dtype(before);
    ASSERT_EQ(got.size(), 2u);
    ASSERT_EQ(got[0].size(), 2u);
    for (size_t step : {0, 1}) EXPECT_TRUE(got[0][step].equal(expected[0][step]));
  }
}

TEST(Compression, ChanceIsOfEachBucket) {
  run_ranks(2, [](Group& group) {
    const at::Tensor gradient = gradient_of(group.rank(), 0, {512});
    const auto reduce = [&](Compressor& compressor, size_t bucket) {
      const at::Tensor value = gradient.clone();
      compressor.reduce(group, value, bucket);
      return value;
    };
    const auto make = [] { return eight_bit({.block = 64, .stochastic = true}); };
    const auto alone = make(), beside = make();
    std::vector<at::Tensor> of_alone, of_beside;
    for (int call = 0; call < 3; ++call) of_alone.push_back(reduce(*alone, 0));
    for (int call = 0; call < 3; ++call) {
      of_beside.push_back(reduce(*beside, 0));
      const at::Tensor other = at::ones({8 + call});
      beside->reduce(group, other, 1);  // forgets bucket 1 each time
    }
    for (size_t call = 0; call < 3; ++call) EXPECT_TRUE(of_alone[call].equal(of_beside[call]));
    EXPECT_FALSE(of_alone[0].equal(of_alone[1]));
    EXPECT_FALSE(reduce(*make(), 1).equal(of_alone[0]));
  });
}

TEST(Compression, ResetForgets) {
  run_ranks(2, [](Group& group) {
    const auto compressor = top_k({.share = 0.1});
    const at::Tensor first = gradient_of(group.rank(), 0, {100}), again = first.clone();
    compressor->reduce(group, first);
    compressor->reset();
    compressor->reduce(group, again);
    EXPECT_TRUE(first.equal(again));
    // So does a bucket that comes with another size; what another remembers stays.
    const at::Tensor other = at::ones({7}), third = gradient_of(group.rank(), 0, {100});
    compressor->reduce(group, other);
    compressor->reduce(group, third);
    EXPECT_TRUE(third.equal(first));
    const at::Tensor fourth = third.clone().copy_(gradient_of(group.rank(), 0, {100}));
    compressor->reduce(group, other, 1);
    compressor->reduce(group, fourth);
    EXPECT_FALSE(fourth.equal(first));
  });
}

}  // namespace
}  // namespace graft::systems
