// Attention over processes against attention of one process on the whole sequence, forward and
// backward; what each process computes and holds; arguments that do not fit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "graft/systems/ring_attention.h"

namespace graft::systems {
namespace {

using Attention = decltype(&ring_attention);

/// softmax(q k^T scale) v written out, differentiable, in fp64.
at::Tensor written_out(const at::Tensor& q, at::Tensor k, at::Tensor v,
                       const SequenceOptions& options) {
  const int64_t length = q.size(2), shared = q.size(1) / k.size(1);
  k = k.repeat_interleave(shared, 1), v = v.repeat_interleave(shared, 1);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  at::Tensor scores = q.matmul(k.transpose(2, 3)) * scale;
  if (options.causal)
    scores = scores.masked_fill(at::ones({length, length}, at::kBool).triu(1), -INFINITY);
  return scores.softmax(-1).matmul(v);
}

struct Case {
  int processes = 1;
  at::ScalarType type = at::kFloat;
  SequenceOptions options = {};
  int64_t heads_of_keys = 2;
  int64_t local_length = 6;
};

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

struct Results {
  at::Tensor out, q, k, v;  // and gradients
};

Results of_processes(Attention attention, const Case& c, const std::vector<at::Tensor>& whole) {
  std::vector<Results> parts(static_cast<size_t>(c.processes));
  run_ranks(c.processes, [&](Group& group) {
    std::vector<at::Tensor> local;
    for (const at::Tensor& x : whole)
      local.push_back(split_sequence(x, 2, group.rank(), group.size(), c.options.split).detach());
    for (int i = 0; i < 3; ++i) local[static_cast<size_t>(i)].requires_grad_();
    const at::Tensor out = attention(local[0], local[1], local[2], group, c.options);
    out.backward(local[3]);
    parts[static_cast<size_t>(group.rank())] = {out.detach(), local[0].grad(), local[1].grad(),
                                                local[2].grad()};
  });
  const auto join = [&](at::Tensor Results::* member) {
    std::vector<at::Tensor> all;
    for (const Results& part : parts) all.push_back(part.*member);
    return join_sequence(all, 2, c.options.split);
  };
  return {join(&Results::out), join(&Results::q), join(&Results::k), join(&Results::v)};
}

void expect_equal(Attention attention, const Case& c, double tolerance) {
  at::manual_seed(7);
  const int64_t length = c.local_length * c.processes;
  std::vector<at::Tensor> whole;
  for (int64_t heads : {int64_t{4}, c.heads_of_keys, c.heads_of_keys, int64_t{4}})
    whole.push_back(at::randn({2, heads, length, 8}).to(c.type));
  std::vector<at::Tensor> exact;
  for (const at::Tensor& x : whole) exact.push_back(x.to(at::kDouble));
  for (int i = 0; i < 3; ++i) exact[static_cast<size_t>(i)].requires_grad_();
  const at::Tensor expected = written_out(exact[0], exact[1], exact[2], c.options);
  expected.backward(exact[3]);
  const Results got = of_processes(attention, c, whole);
  EXPECT_EQ(got.out.scalar_type(), c.type);
  EXPECT_LT(difference(got.out, expected), tolerance);
  EXPECT_LT(difference(got.q, exact[0].grad()), tolerance);
  EXPECT_LT(difference(got.k, exact[1].grad()), tolerance);
  EXPECT_LT(difference(got.v, exact[2].grad()), tolerance);
}

TEST(RingAttention, EqualsOneProcess) {
  for (const int processes : {1, 2, 3, 4})
    for (const bool causal : {false, true})
      for (const Split split : {Split::ZigZag, Split::Contiguous}) {
        SCOPED_TRACE(
            c10::str(processes, causal ? " causal" : "", " split ", static_cast<int>(split)));
        const Case c{.processes = processes, .options = {.causal = causal, .split = split}};
        expect_equal(ring_attention, c, 2e-5);
        expect_equal(gathered_attention, c, 2e-5);
      }
}

TEST(RingAttention, DtypesScaleAndSharedHeads) {
  const SequenceOptions causal{.causal = true, .scale = 0.2};
  expect_equal(ring_attention, {3, at::kDouble, causal, 1}, 1e-6);
  expect_equal(ring_attention, {3, at::kFloat, causal, 4}, 2e-5);
  expect_equal(ring_attention, {3, at::kBFloat16, causal, 2}, 0.08);
  expect_equal(gathered_attention, {2, at::kBFloat16, causal, 2}, 0.08);
  expect_equal(ring_attention, {2, at::kHalf, causal, 2}, 0.02);
}

TEST(RingAttention, LongerThanTheKernelsBlocks) {
  expect_equal(ring_attention, {2, at::kFloat, {.causal = true}, 2, 1100}, 1e-4);
}

TEST(RingAttention, LargeScoresDoNotOverflow) {
  at::manual_seed(3);
  const at::Tensor whole = at::randn({1, 1, 16, 8});
  run_ranks(2, [&](Group& group) {
    const at::Tensor x = split_sequence(whole, 2, group.rank(), 2) * 100;
    const at::Tensor out = ring_attention(x, x, x, group, {.causal = true});
    EXPECT_TRUE(out.isfinite().all().item<bool>());
  });
}

TEST(RingAttention, HeadsBeforeLengthInMemoryAndExpandedGradient) {
  at::manual_seed(5);
  const at::Tensor whole = at::randn({1, 8, 2, 8});  // (batch, length, heads, width)
  at::Tensor expected = whole.clone().requires_grad_();
  const at::Tensor heads_first = expected.transpose(1, 2);
  written_out(heads_first, heads_first, heads_first, {}).sum().backward();
  run_ranks(2, [&](Group& group) {
    at::Tensor x = split_sequence(whole, 1, group.rank(), 2).requires_grad_();
    const at::Tensor view = x.transpose(1, 2);
    ring_attention(view, view, view, group).sum().backward();
    EXPECT_LT(difference(x.grad(), split_sequence(expected.grad(), 1, group.rank(), 2)), 2e-5);
  });
}

TEST(RingAttention, ZigZagSharesTheWork) {
  const int64_t length = 64;
  for (const int size : {2, 4, 8}) {
    const int64_t whole = length * size, triangle = whole * (whole + 1) / 2;
    int64_t zigzag = 0, contiguous = 0;
    for (int rank = 0; rank < size; ++rank) {
      const int64_t own = scores_of_process(length, rank, size, {.causal = true});
      EXPECT_EQ(own, triangle / size);
      zigzag += own;
      contiguous +=
          scores_of_process(length, rank, size, {.causal = true, .split = Split::Contiguous});
      EXPECT_EQ(scores_of_process(length, rank, size, {}), length * whole);
    }
    EXPECT_EQ(zigzag, triangle);  // each score once, and none that the mask leaves out
    EXPECT_EQ(contiguous, triangle);
    EXPECT_EQ(
        scores_of_process(length, size - 1, size, {.causal = true, .split = Split::Contiguous}),
        length * (length + 1) / 2 + (size - 1) * length * length);
  }
}

}  // namespace
}  // namespace graft::systems
