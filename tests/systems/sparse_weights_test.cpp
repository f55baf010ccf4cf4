// 2:4 sparsity: pruning, packing, and products with packed weights against dense ones.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "graft/systems/sparse_weights.h"

namespace graft::systems {
namespace {

using at::Tensor;

bool is_24(const Tensor& w) {
  return (w.view({w.size(0), -1, 4}) != 0).sum(-1).max().item<int64_t>() <= 2;
}

/// Inputs whose columns follow one another, as a layer's do.
Tensor correlated(int64_t count, int64_t width) {
  const Tensor mix = at::randn({width / 4, width}) + 0.1 * at::randn({1, width});
  return at::matmul(at::randn({count, width / 4}), mix) + 0.3 * at::randn({count, width});
}

double output_error(const Tensor& w, const Tensor& pruned, const Tensor& x) {
  const Tensor want = at::linear(x, w);
  return ((at::linear(x, pruned) - want).norm() / want.norm()).item<double>();
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

TEST(Prune24, KeepsTheTwoLargestOfFour) {
  const Tensor w = at::tensor({1., -3., 2., 0.5, 0., 0., 0., 4., 1., 1., 1., 1.}, at::kFloat)
                       .view({1, 12})
                       .repeat({2, 8});
  const Tensor want = at::tensor({0., -3., 2., 0., 0., 0., 0., 4., 1., 1., 0., 0.}, at::kFloat)
                          .view({1, 12})
                          .repeat({2, 8});
  EXPECT_TRUE(prune_24(w).equal(want));
}

TEST(Prune24, HessianIsMagnitudeWhereInputsDoNotDependOnEachOther) {
  at::manual_seed(1);
  const Tensor w = at::randn({16, 64});
  EXPECT_LT((prune_24(w, at::eye(64) * 3) - prune_24(w)).abs().max().item<float>(), 1e-6);
}

TEST(Prune24, HessianLosesLessOfCorrelatedInputs) {
  at::manual_seed(2);
  const Tensor w = at::randn({96, 256}), x = correlated(2048, 256), fresh = x.slice(0, 1536);
  const Tensor seen = x.slice(0, 0, 1536);
  const Tensor by_hessian = prune_24(w, input_hessian(seen)), by_magnitude = prune_24(w);
  EXPECT_TRUE(is_24(by_hessian));
  EXPECT_TRUE(is_24(by_magnitude));
  const double magnitude = output_error(w, by_magnitude, fresh),
               hessian = output_error(w, by_hessian, fresh);
  EXPECT_LT(hessian, 0.7 * magnitude) << hessian << ' ' << magnitude;
  // Blocks say when later columns change, not by how much.
  const Tensor other = prune_24(w, input_hessian(seen), {.block = 32});
  EXPECT_LT((other - by_hessian).abs().max().item<float>(), 1e-3);
}

TEST(Prune24, LaterColumnsMakeUpForWhatIsLost) {
  // The last column is what fits best once all others have their values: where it is kept, the
  // error's derivative by it is 0.
  at::manual_seed(3);
  const Tensor h = input_hessian(correlated(512, 32)), w = at::randn({64, 32});
  const auto slope = [&](const Tensor& pruned) {
    const Tensor by_column = at::matmul((pruned - w).to(at::kDouble), h).select(1, 31);
    return by_column.masked_select(pruned.select(1, 31) != 0).abs().max().item<double>();
  };
  EXPECT_LT(slope(prune_24(w, h, {.damping = 0})), 1e-4);
  EXPECT_GT(slope(prune_24(w)), 1);
}

TEST(Prune24, UnusedInputsBecomeZero) {
  at::manual_seed(4);
  Tensor x = correlated(128, 32);
  x.select(1, 5).zero_();
  const Tensor pruned = prune_24(at::randn({8, 32}), input_hessian(x));
  EXPECT_EQ(pruned.select(1, 5).abs().max().item<float>(), 0);
  EXPECT_FALSE(pruned.isnan().any().item<bool>());
}

TEST(Prune24, LeavesTheWeightAlone) {
  at::manual_seed(7);
  const Tensor hessian = input_hessian(correlated(256, 64));
  // Transposed in memory, these are contiguous already.
  for (const Tensor& weight : {at::randn({64, 16}).t(), at::randn({1, 64})}) {
    const Tensor before = weight.clone();
    prune_24(weight, hessian);
    EXPECT_TRUE(weight.equal(before));
  }
}

TEST(Pack24, GivesBackWhatItGot) {
  at::manual_seed(5);
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    Tensor w = prune_24(at::randn({13, 96}).to(type));
    w[0].zero_(), w[1].slice(0, 0, 32).zero_(), w[2][3] = 7;
    w[2].slice(0, 0, 3).zero_();
    const Sparse24 packed = pack_24(w);
    EXPECT_TRUE(unpack_24(packed).equal(w));
    const double share = double(packed.bytes()) / w.nbytes();
    EXPECT_DOUBLE_EQ(share, type == at::kFloat ? 17.0 / 32 : 9.0 / 16);
  }
}

TEST(SparseLinear, IsTheDenseProduct) {
  at::manual_seed(6);
  for (const auto& [type, bound] :
       {std::pair(at::kFloat, 2e-6), {at::kBFloat16, 8e-3}, {at::kHalf, 1e-3}})
    for (const int64_t rows : {1, 2, 3, 4, 7, 8, 9, 64, 100})
      for (const auto& [out, in] : {std::pair<int64_t, int64_t>(5, 32), {67, 224}, {600, 96}}) {
        const Tensor w = prune_24(at::randn({out, in}).to(type)),
                     x = at::randn({rows, in}).to(type), bias = at::randn({out}).to(type);
        const Tensor want = at::linear(x.to(at::kDouble), w.to(at::kDouble), bias.to(at::kDouble));
        const Tensor got = sparse_linear(x, pack_24(w), bias);
        ASSERT_EQ(got.scalar_type(), type);
        const Tensor error = (got.to(at::kDouble) - want).abs().max() / want.abs().max();
        EXPECT_LT(error.item<double>(), bound) << type << ' ' << rows << ' ' << out << ' ' << in;
      }
}

TEST(SparseLinear, ShapesLayoutsAndThreads) {
  at::manual_seed(7);
  const Tensor w = prune_24(at::randn({300, 64}));
  const Sparse24 packed = pack_24(w);
  const Tensor x = at::randn({64, 2, 3}).permute({1, 2, 0}), vector = at::randn({64});
  EXPECT_LT((sparse_linear(x, packed) - at::linear(x, w)).abs().max().item<float>(), 1e-5);
  EXPECT_EQ(sparse_linear(vector, packed).sizes(), at::IntArrayRef({300}));
  EXPECT_EQ(sparse_linear(at::empty({0, 64}), packed).sizes(), at::IntArrayRef({0, 300}));
  const int threads = at::get_num_threads();
  for (const int64_t rows : {1, 4, 80}) {
    const Tensor input = at::randn({rows, 64}), two = sparse_linear(input, packed);
    at::set_num_threads(1);
    EXPECT_TRUE(sparse_linear(input, packed).equal(two));
    at::set_num_threads(threads);
  }
}

TEST(SparseLinear, SaysWhatDoesNotFit) {
  const Tensor w = prune_24(at::randn({8, 64}));
  const Sparse24 packed = pack_24(w);
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(error_of([] { pack_24(at::ones({8, 64})); }), "with 4 of four neighbours that are not zero");
  has(error_of([] { prune_24(at::randn({8, 40})); }),
      "Float [8, 40]; expected in features in mult");
  has(error_of([&] { prune_24(w, at::eye(32)); }), "expected (in features, in features)");
  has(error_of([&] { prune_24(w, -at::eye(64)); }), "not positive definite");
  has(error_of([&] { sparse_linear(at::ones({1, 32}), packed); }), "expected (…, 64)");
  has(error_of([&] { sparse_linear(at::ones({1, 64}).requires_grad_(), packed); }), "NoGradGuard");
  has(error_of([&] { sparse_linear(at::ones({1, 64}), packed, at::ones({9})); }), "expected [8]");
  has(error_of([&] { unpack_24({packed.values, packed.values}); }), "what pack_24 gives");
  has(error_of([&] { unpack_24({packed.values.to(at::kDouble), packed.places}); }), "Half and Int");
  has(error_of([&] { unpack_24({at::empty({8, 0}), at::empty({8, 0}, at::kInt)}); }), "not empty");
}

}  // namespace
}  // namespace graft::systems
