// Splitting and joining a sequence, memory per process, chained calls, and arguments that do not
// fit: what is thrown, and on which process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "graft/systems/ring_attention.h"
#include "lab/memory/memory.h"

namespace graft::systems {
namespace {

TEST(SplitSequence, JoinsToTheWholeAndIsDifferentiable) {
  for (const Split split : {Split::ZigZag, Split::Contiguous}) {
    at::Tensor whole = at::randn({2, 12, 3}).requires_grad_();
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < 3; ++rank) parts.push_back(split_sequence(whole, 1, rank, 3, split));
    const at::Tensor joined = join_sequence(parts, -2, split);
    EXPECT_TRUE(joined.equal(whole));
    (joined * at::arange(12).view({1, 12, 1})).sum().backward();
    EXPECT_TRUE(
        whole.grad().equal(at::arange(12).view({1, 12, 1}).expand_as(whole).to(at::kFloat)));
  }
}

TEST(SplitSequence, GivesACopy) {
  for (const Split split : {Split::ZigZag, Split::Contiguous})
    for (const int size : {1, 3}) {
      const at::Tensor whole = at::randn({1, 12, 3}), before = whole.clone();
      const at::Tensor part = split_sequence(whole, 1, 0, size, split);
      EXPECT_FALSE(part.is_alias_of(whole));
      EXPECT_TRUE(part.is_contiguous());
      part.zero_();
      EXPECT_TRUE(whole.equal(before));
    }
}

TEST(SplitSequence, ZigZagTakesOneChunkFromEachEnd) {
  EXPECT_TRUE(sequence_positions(4, 0, 2).equal(at::tensor({0, 1, 6, 7}, at::kLong)));
  EXPECT_TRUE(sequence_positions(4, 1, 2).equal(at::tensor({2, 3, 4, 5}, at::kLong)));
  EXPECT_TRUE(
      sequence_positions(4, 1, 2, Split::Contiguous).equal(at::tensor({4, 5, 6, 7}, at::kLong)));
}

TEST(SplitSequence, JoinsOverTheGroup) {
  const at::Tensor whole = at::randn({2, 12});
  run_ranks(3, [&](Group& group) {
    const at::Tensor part = split_sequence(whole, 1, group.rank(), group.size());
    EXPECT_TRUE(join_sequence(part, 1, group).equal(whole));
  });
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

void expect_message(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(SplitSequence, Refuses) {
  const at::Tensor whole = at::zeros({2, 10});
  expect_message(message_of([&] { split_sequence(whole, 1, 0, 4); }),
                 "10 tokens, which do not make 8 equal chunks; pad the sequence to 16");
  expect_message(message_of([&] { split_sequence(whole, 2, 0, 2); }), "the dimension came as 2");
  expect_message(message_of([&] { split_sequence(whole, 1, 2, 2); }), "came rank 2 of 2");
  expect_message(message_of([&] { join_sequence({whole, whole.t()}, 1); }), "expected equal ones");
  expect_message(message_of([&] { join_sequence({at::zeros({3})}, 0); }),
                 "Is the split contiguous?");
}

/// What each process was told; the call must end on all of them at once.
std::map<int, std::string> refusals(int processes, const std::function<void(Group&)>& call) {
  std::map<int, std::string> out;
  std::mutex mutex;
  run_ranks(processes, [&](Group& group) {
    const std::string message = message_of([&] { call(group); });
    const std::lock_guard lock(mutex);
    out[group.rank()] = message;
  });
  return out;
}

at::Tensor some(int64_t length, int64_t heads = 2) {
  return at::ones({1, heads, length, 8});
}

TEST(RingAttention, RefusesOnEveryProcess) {
  const auto lengths = refusals(2, [](Group& group) {
    const at::Tensor x = some(4 + 2 * group.rank());
    ring_attention(x, x, x, group);
  });
  expect_message(lengths.at(0), "process 0 came with q of (1, 2, 4, 8) Float");
  expect_message(lengths.at(0), "process 1 with q of (1, 2, 6, 8)");
  expect_message(lengths.at(1), "expected the same on all");
  const auto own = refusals(3, [](Group& group) {
    const at::Tensor x = some(4), narrow = at::ones({1, 2, 4, 7});
    ring_attention(x, group.rank() == 1 ? narrow : x, group.rank() == 1 ? narrow : x, group);
  });
  expect_message(own.at(0), "process 1 refused its arguments");
  expect_message(own.at(1), "k [1, 2, 4, 7] Float on cpu");
  expect_message(own.at(1), "queries and keys of one batch, local length and width");
  const auto options = refusals(2, [](Group& group) {
    ring_attention(some(4), some(4), some(4), group, {.causal = group.rank() == 0});
  });
  expect_message(options.at(1), "8) Float, 2 heads of keys, causal, zig-zag");
  const auto exchange = refusals(2, [](Group& group) {
    (group.rank() == 0 ? ring_attention : gathered_attention)(some(4), some(4), some(4), group, {});
  });
  expect_message(exchange.at(0), "gathered_attention");
  const auto gradients = refusals(2, [](Group& group) {
    const at::Tensor q = some(4).requires_grad_(group.rank() == 1);
    ring_attention(q, some(4), some(4), group);
  });
  expect_message(gradients.at(0), "requires grad");
}

TEST(RingAttention, RefusesWhatDoesNotFit) {
  const auto told = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       bool causal = false) {
    return refusals(2, [&](Group& group) { ring_attention(q, k, v, group, {.causal = causal}); })
        .at(1);
  };
  const at::Tensor x = some(4);
  expect_message(told({}, x, x), "q undefined");
  expect_message(told(x[0], x[0], x[0]), "(batch, heads, local length, width)");
  expect_message(told(x.to(at::kInt), x, x), "fp32, fp64, bf16 or fp16");
  expect_message(told(x, x, x.to(at::kDouble)), "one dtype");
  expect_message(told(x, x, some(6)), "keys and values of one size");
  expect_message(told(some(4, 3), x, x), "heads of keys that divide");
  expect_message(told(some(0), some(0), some(0)), "not empty");
  expect_message(told(some(3), some(3), some(3), true), "an even local length");
}

TEST(RingAttention, HasNoSecondDerivative) {
  run_ranks(1, [](Group& group) {
    const at::Tensor x = some(4).requires_grad_();
    const at::Tensor loss = ring_attention(x, x, x, group).sum();
    EXPECT_THROW(loss.backward({}, std::nullopt, true), c10::Error);
  });
}

// Each layer's backward communicates: the order must hold when several are in one graph.
TEST(RingAttention, LayersFollowOneAnother) {
  at::manual_seed(1);
  const at::Tensor whole = at::randn({1, 2, 24, 8});
  const auto layers = [](const at::Tensor& x, Group& group) {
    at::Tensor y = x;
    for (int layer = 0; layer < 3; ++layer)
      y = y + ring_attention(y, y * 2, y, group, {.causal = true});
    return y;
  };
  at::Tensor expected;
  run_ranks(1, [&](Group& group) {
    const at::Tensor x = whole.clone().requires_grad_();
    layers(x, group).square().sum().backward();
    expected = x.grad();
  });
  run_ranks(3, [&](Group& group) {
    const at::Tensor x = split_sequence(whole, 2, group.rank(), 3).requires_grad_();
    layers(x, group).square().sum().backward();
    EXPECT_TRUE(x.grad().allclose(split_sequence(expected, 2, group.rank(), 3), 1e-3, 1e-3));
  });
}

/// The most that one process's tensors take in a training step, its parts of the arguments
/// included.
int64_t peak_of(int processes, decltype(&ring_attention) attention) {
  const int64_t length = 16384;
  std::vector<int64_t> peaks(static_cast<size_t>(processes));
  run_ranks(processes, [&](Group& group) {
    const lab::MemoryTracker memory;
    const at::Tensor q = at::randn({1, 1, length / processes, 16}).requires_grad_();
    const at::Tensor k = at::randn_like(q).requires_grad_(), v = at::randn_like(q);
    attention(q, k, v, group, {.causal = true}).sum().backward();
    peaks[static_cast<size_t>(group.rank())] = memory.report().peak_bytes;
  });
  return *std::max_element(peaks.begin(), peaks.end());
}

TEST(RingAttention, MemoryPerProcessFallsWithTheirNumber) {
  const int64_t two = peak_of(2, ring_attention), eight = peak_of(8, ring_attention);
  // What does not depend on the length: the kernel's blocks of scores, 256 x 512.
  const int64_t blocks = 4 * 256 * 512 * 4;
  EXPECT_LT(eight, two / 4 + blocks);
  EXPECT_LT(two, int64_t{16384} * 8192);  // scores would take 8192 x 8192 x 4 bytes
  EXPECT_GT(peak_of(8, gathered_attention), eight);
}

}  // namespace
}  // namespace graft::systems
