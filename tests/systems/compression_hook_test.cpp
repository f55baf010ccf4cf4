// Compressors in c10d's reducer, as DistributedDataParallel uses it; and the loops below them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "graft/systems/gradient_compression.h"
#include "systems/compression/codec.h"
#include "systems/compression/factors.h"

namespace graft::systems {
namespace {

/// Gradients after a backward in a reducer, by process. Two buckets, of three parameters.
std::vector<std::vector<at::Tensor>> reduced(
    const std::function<std::shared_ptr<Compressor>()>& make) {
  std::vector<std::vector<at::Tensor>> out(2);
  run_ranks(2, [&](Group& group) {
    std::vector<at::Tensor> parameters;
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{16, 8}, {16}, {4, 16}})
      parameters.push_back(at::ones(sizes).requires_grad_());
    c10::intrusive_ptr<c10d::ProcessGroup> shared =
        c10::intrusive_ptr<c10d::ProcessGroup>::unsafe_reclaim_from_nonowning(
            &group.process_group());
    c10d::Reducer reducer(parameters, {{2}, {0, 1}}, shared, {false, false, false}, 1 << 20, false,
                          false, {}, 1 << 20, false, false, {});
    reducer.register_comm_hook(comm_hook(make(), group));
    const at::Tensor x = at::full({3, 8}, 1.0 + group.rank());
    const at::Tensor y =
        (x.matmul(parameters[0].t()) + parameters[1]).matmul(parameters[2].t()).sum();
    reducer.prepare_for_backward({y});
    y.backward();
    for (const at::Tensor& parameter : parameters)
      out[static_cast<size_t>(group.rank())].push_back(parameter.grad().clone());
  });
  return out;
}

TEST(CompressionHook, AveragesInTheReducer) {
  const auto exact = reduced(uncompressed);
  // d y / d bias = 3 rows x 4 outputs; d y / d weight = that times the mean of x, 1.5.
  EXPECT_TRUE(exact[0][1].equal(at::full({16}, 12.0)));
  EXPECT_TRUE(exact[0][0].allclose(at::full({16, 8}, 18.0)));
  // These gradients have rank 1, so that PowerSGD of the parameters' own matrices is exact: it got
  // their shapes. Signs times the mean magnitude are exact in a bucket of equal values.
  for (const auto& got : {reduced([] { return power_sgd({.rank = 1}); }),
                          reduced([] { return eight_bit({.block = 8}); })})
    for (size_t process : {0, 1})
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(got[process][i].allclose(exact[0][i], 0.02));
        EXPECT_TRUE(got[process][i].equal(got[0][i]));
      }
  EXPECT_THROW(run_ranks(1, [](Group& group) { comm_hook(nullptr, group); }), c10::ValueError);
}

TEST(CompressionCodec, LargestIsWhatSortingGives) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  at::manual_seed(3);
  for (const bool ties : {false, true}) {
    at::Tensor values = at::randn({5000});
    if (ties) values = (values * 2).round();
    const float* v = values.const_data_ptr<float>();
    std::vector<int32_t> order(5000);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return std::abs(v[a]) > std::abs(v[b]); });
    for (const int64_t k : {1, 17, 2500, 5000}) {
      std::vector<int32_t> expected(order.begin(), order.begin() + k);
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(largest(v, 5000, k), expected);
    }
  }
  const float with_nan[] = {1, -3, kNan, 2, -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(largest(with_nan, 5, 2), (std::vector<int32_t>{2, 4}));
  const float zeros[4] = {};
  EXPECT_EQ(largest(zeros, 4, 2), (std::vector<int32_t>{0, 1}));
}

TEST(CompressionCodec, BytesRoundToTheNearestAndByChance) {
  const Layout layout{5, 3};
  const float values[] = {1.27f, 0.014f, -1.27f, 0, 0};
  const float nearest[] = {1.27f, 0.01f, -1.27f, 0, 0};
  std::vector<uint8_t> bytes(static_cast<size_t>(layout.bytes()));
  encode_bytes(values, layout, {}, bytes.data());
  std::vector<float> got(5);
  add_bytes(bytes.data(), layout, got.data());
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(got[i], nearest[i], 1e-6);
  double mean = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    encode_bytes(values, layout, {true, seed}, bytes.data());
    std::fill(got.begin(), got.end(), 0.0f);
    add_bytes(bytes.data(), layout, got.data());
    mean += got[1] / 2000;
    EXPECT_NEAR(got[0], 1.27, 1e-6);
    EXPECT_EQ(got[3], 0);
  }
  EXPECT_NEAR(mean, 0.014, 0.0005);
}

TEST(CompressionCodec, BytesOfTinyValuesAreZeroNotInfinite) {
  const Layout layout{2, 2};
  const float values[] = {1e-44f, -2e-44f};
  std::vector<uint8_t> bytes(static_cast<size_t>(layout.bytes()));
  encode_bytes(values, layout, {}, bytes.data());
  std::vector<float> got(2);
  add_bytes(bytes.data(), layout, got.data());
  EXPECT_EQ(got, (std::vector<float>{0, 0}));
}

TEST(CompressionCodec, BitsAreSignsTimesTheMeanMagnitude) {
  const Layout layout{11, 8, true};
  const float values[] = {1, -1, 3, -3, 1, -1, 3, -3, -5, -5, 2};
  std::vector<uint8_t> bytes(static_cast<size_t>(layout.bytes()));
  std::vector<float> left(values, values + 11), got(11);
  encode_bits(left.data(), layout, true, bytes.data());
  add_bits(bytes.data(), layout, got.data());
  EXPECT_EQ(got, (std::vector<float>{2, -2, 2, -2, 2, -2, 2, -2, -4, -4, 4}));
  for (size_t i = 0; i < 11; ++i) EXPECT_EQ(left[i], values[i] - got[i]);
}

TEST(CompressionFactors, RowsBecomeOrthonormal) {
  at::Tensor rows = at::randn({4, 50});
  rows[2].copy_(rows[0] * 2 - rows[1]);  // depends on them
  orthogonalize(rows.mutable_data_ptr<float>(), 4, 50);
  at::Tensor expected = at::eye(4);
  expected[2][2] = 0;
  EXPECT_TRUE(rows.matmul(rows.t()).allclose(expected, 1e-5, 1e-5));
  const at::Tensor right = at::randn({4, 33}), out = at::empty({50, 33});
  multiply(rows.const_data_ptr<float>(), right.const_data_ptr<float>(), 4, 50, 33,
           out.mutable_data_ptr<float>());
  EXPECT_TRUE(out.allclose(rows.t().matmul(right), 1e-4, 1e-5));
}

}  // namespace
}  // namespace graft::systems
