#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <tuple>
#include <vector>

#include "systems/sparse/sparse_24.h"

namespace graft::systems {
namespace {

using at::Tensor;

constexpr int64_t kMostFewRows = 8;  // from more on, other ways are faster (experiments: sparse_24)

void check_packed(const char* who, const Sparse24& w) {
  const auto is_a_type = [](at::ScalarType type) {
    return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  };
  const bool fits =
      w.values.defined() && w.places.defined() && w.values.dim() == 2 && w.places.dim() == 2 &&
      w.values.is_cpu() && w.places.is_cpu() && is_a_type(w.values.scalar_type()) &&
      w.places.scalar_type() == at::kInt && w.values.size(0) > 0 && w.values.size(1) > 0 &&
      w.places.size(0) == w.values.size(0) && w.places.size(1) * 16 == w.values.size(1) &&
      w.values.is_contiguous() && w.places.is_contiguous();
  TORCH_CHECK_VALUE(fits, who, ": came a packed weight of values ", describe_24(w.values),
                    " and places ", describe_24(w.places),
                    "; expected what pack_24 gives: (out, in / 2) of Float, BFloat16 or Half and "
                    "Int (out, in / 32), not empty");
}

template <class T>
Packed<T> packed(const Sparse24& w) {
  return {w.values.const_data_ptr<T>(),
          reinterpret_cast<const uint32_t*>(w.places.const_data_ptr<int32_t>()), w.in_features()};
}

/// Outputs that a task takes at least: some tens of microseconds.
int64_t grain(const Sparse24& w) {
  return std::max<int64_t>(8, 65536 / w.in_features());
}

template <class T>
Tensor few(const Tensor& x, const Sparse24& w) {
  const int64_t rows = x.size(0), out = w.out_features(), in = w.in_features();
  const Tensor from = x.to(at::kFloat).contiguous();
  const Tensor y = at::empty({rows, out}, at::kFloat);
  const Packed<T> weight = packed<T>(w);
  const float* x_at = from.const_data_ptr<float>();
  float* y_at = y.mutable_data_ptr<float>();
  at::parallel_for(0, out, grain(w), [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < rows; row += kFewRows)
      few_rows(weight, x_at + row * in, static_cast<int>(std::min<int64_t>(kFewRows, rows - row)),
               y_at + row * out, out, begin, end);
  });
  return y.to(x.scalar_type());
}

Tensor many(const Tensor& x, const Sparse24& w) {
  const int64_t rows = x.size(0), out = w.out_features(), lanes = many_rows_lanes();
  const int vectors = rows <= lanes ? 1 : rows <= 2 * lanes ? 2 : 4;
  const int64_t width = vectors * lanes;
  const Tensor y = at::empty({rows, out}, at::kFloat);
  const Tensor side_by_side = at::zeros({w.in_features(), width}, at::kFloat),
               sums = at::empty({out, width}, at::kFloat);
  const Packed<float> weight = packed<float>(w);
  const float* x_at = side_by_side.const_data_ptr<float>();
  float* y_at = sums.mutable_data_ptr<float>();
  for (int64_t row = 0; row < rows; row += width) {
    const int64_t count = std::min(width, rows - row);
    side_by_side.narrow(1, 0, count).copy_(x.narrow(0, row, count).t());
    at::parallel_for(0, out, grain(w), [&](int64_t begin, int64_t end) {
      many_rows(weight, x_at, y_at, vectors, begin, end);
    });
    y.narrow(0, row, count).copy_(sums.narrow(1, 0, count).t());
  }
  return y;
}

template <class T>
void unpack(const Packed<T>& w, T* to, int64_t begin, int64_t end) {
  const int64_t words = w.columns / 32;
  for (int64_t word = begin * words; word < end * words; ++word, to += 32) {
    const uint32_t places = w.places[word];
    const T* values = w.values + word * 16;
    for (int i = 0; i < 16; i += 2) {
      const uint32_t first = (places >> 2 * i) & 3, second = (places >> (2 * i + 2)) & 3;
      T* group = to + 2 * i;
      if constexpr (sizeof(T) == 2) {  // four at once, in a register
        const uint64_t four = uint64_t{values[i].x} << 16 * first | uint64_t{values[i + 1].x}
                                                                        << 16 * second;
        std::memcpy(group, &four, sizeof four);
      } else {
        std::fill_n(group, 4, T(0));
        group[first] = values[i], group[second] = values[i + 1];
      }
    }
  }
}

/// Rows `begin` to `end` of the weight, dense, into `to`.
void unpack_rows(const Sparse24& w, const Tensor& to, int64_t begin, int64_t end) {
  const auto run = [&]<class T>(T*) {
    T* out = to.mutable_data_ptr<T>();
    at::parallel_for(begin, end, grain(w), [&](int64_t first, int64_t last) {
      unpack(packed<T>(w), out + (first - begin) * w.in_features(), first, last);
    });
  };
  if (w.values.scalar_type() == at::kFloat) return run(static_cast<float*>(nullptr));
  if (w.values.scalar_type() == at::kHalf) return run(static_cast<c10::Half*>(nullptr));
  run(static_cast<c10::BFloat16*>(nullptr));
}

Tensor by_unpacking(const Tensor& x, const Sparse24& w) {
  constexpr int64_t kTile = 512;  // rows of the weight: some MiB, that the last cache holds
  const int64_t out = w.out_features();
  const Tensor y = at::empty({x.size(0), out}, x.options());
  const Tensor dense = at::empty({std::min(out, kTile), w.in_features()}, w.values.options());
  for (int64_t begin = 0; begin < out; begin += kTile) {
    const int64_t end = std::min(out, begin + kTile);
    unpack_rows(w, dense, begin, end);
    y.slice(1, begin, end).copy_(at::linear(x, dense.narrow(0, 0, end - begin)));
  }
  return y;
}

Tensor few_of_any(const Tensor& x, const Sparse24& w) {
  if (w.values.scalar_type() == at::kFloat) return few<float>(x, w);
  return w.values.scalar_type() == at::kHalf ? few<c10::Half>(x, w) : few<c10::BFloat16>(x, w);
}

}  // namespace

std::string describe_24(const Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  std::ostringstream text;
  text << tensor.scalar_type() << ' ' << tensor.sizes();
  return text.str();
}

Sparse24 pack_24(const Tensor& pruned) {
  check_weight_24("pack_24", pruned);
  const c10::AutoGradMode no_grad(false);
  const int64_t out = pruned.size(0), in = pruned.size(1);
  const Tensor groups = pruned.reshape({out, in / 4, 4}), set = groups != 0;
  const int64_t most = set.sum(-1).max().item<int64_t>();
  TORCH_CHECK_VALUE(
      most <= 2, "pack_24: came a weight ", describe_24(pruned), " with ", most,
      " of four neighbours that are not zero; expected at most 2: prune_24 makes one");
  // The places that are set come first; where there are fewer than two, zeros fill up.
  const Tensor first = at::argsort(set.to(at::kInt), /*stable=*/true, -1, /*descending=*/true);
  const Tensor places = std::get<0>(first.narrow(-1, 0, 2).sort(-1));
  const Tensor shifted =
      places.reshape({out, in / 32, 16}).bitwise_left_shift(at::arange(0, 32, 2));
  return {groups.gather(-1, places).view({out, in / 2}), shifted.sum(-1).to(at::kInt)};
}

Tensor unpack_24(const Sparse24& weight) {
  check_packed("unpack_24", weight);
  const Tensor out =
      at::empty({weight.out_features(), weight.in_features()}, weight.values.options());
  unpack_rows(weight, out, 0, weight.out_features());
  return out;
}

Tensor sparse_linear(const Tensor& x, const Sparse24& weight, const Tensor& bias) {
  check_packed("sparse_linear", weight);
  TORCH_CHECK_VALUE(x.defined() && x.dim() > 0 && x.size(-1) == weight.in_features() &&
                        x.scalar_type() == weight.values.scalar_type(),
                    "sparse_linear: came x ", describe_24(x), " for packed values ",
                    describe_24(weight.values), "; expected (…, ", weight.in_features(),
                    ") of the weight's dtype");
  TORCH_CHECK_VALUE(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.out_features()),
                    "sparse_linear: came a bias ", describe_24(bias), "; expected [",
                    weight.out_features(), "]");
  TORCH_CHECK_VALUE(!c10::GradMode::is_enabled() ||
                        !(x.requires_grad() || (bias.defined() && bias.requires_grad())),
                    "sparse_linear: came an argument that requires grad; it is for inference: call "
                    "it under at::NoGradGuard, or train with at::linear and the dense weight");
  const c10::AutoGradMode no_grad(false);
  const Tensor rows = x.reshape({-1, weight.in_features()});
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.out_features();
  Tensor y;
  if (rows.size(0) <= kMostFewRows)
    y = few_of_any(rows, weight);
  else
    y = rows.scalar_type() == at::kFloat ? many(rows, weight) : by_unpacking(rows, weight);
  if (bias.defined()) y.add_(bias);
  return y.view(sizes);
}

}  // namespace graft::systems
