#include "workloads/decoder/weight.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/where.h>

#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

namespace graft::workloads::decoder {

namespace {

using at::Tensor;

[[noreturn]] void refuse_weight(const char* function, const std::string& what) {
  throw std::invalid_argument(std::string(function) + ": " + what);
}

std::string sizes_of(const Tensor& t) {
  std::ostringstream text;
  text << t.sizes();
  return text.str();
}

Tensor coded_linear(const Tensor& x, const Weight& w) {
  const int64_t tokens = x.size(0), rows = w.values.size(0), stored = w.values.size(1),
                size = w.values.size(2);
  // [rows, stored * size], of codes of the groups from `first` on
  const auto numbers = [&](const Tensor& codes, int64_t first, double middle) {
    const auto of_groups = [&](const Tensor& t) { return t.slice(1, first, first + stored); };
    const Tensor plain = codes.to(w.scale.scalar_type());
    const Tensor centred = w.zero.defined() ? plain - of_groups(w.zero)
                           : middle == 0    ? plain
                                            : plain - middle;
    return (centred * of_groups(w.scale)).view({rows, stored * size});
  };
  if (w.values.scalar_type() == at::kChar) return at::linear(x, numbers(w.values, 0, 0));
  const bool by_groups = w.scale.size(1) == 2 * stored;
  const auto half = [&](int64_t k) {
    const Tensor part = by_groups ? x.view({tokens, 2, stored * size}).select(1, k)
                                  : x.view({tokens, stored, 2, size}).select(2, k);
    const Tensor codes = k == 0 ? w.values.bitwise_and(15) : w.values.bitwise_right_shift(4);
    return at::linear(part.reshape({tokens, stored * size}),
                      numbers(codes, by_groups ? k * stored : 0, 8));
  };
  return half(0) + half(1);
}

}  // namespace

int64_t Weight::bytes() const {
  int64_t sum = 0;
  for (const Tensor* t : {&values, &scale, &zero, &order, &bias})
    if (t->defined()) sum += static_cast<int64_t>(t->nbytes());
  return sum;
}

Weight dense_weight(const Tensor& values, const Tensor& bias) {
  Weight out;
  out.values = values;
  out.bias = bias;
  return out;
}

Weight coded_weight(const Tensor& codes, const Tensor& scale, const Tensor& zero, int bits,
                    const Tensor& group) {
  const auto refuse = [](const std::string& what) { refuse_weight("coded_weight", what); };
  if (bits != 3 && bits != 4 && bits != 8)
    refuse(std::to_string(bits) + " bits; expected 3, 4 or 8");
  if (codes.dim() != 2 || codes.scalar_type() != at::kByte || scale.dim() != 2 ||
      scale.size(0) != codes.size(0) || scale.size(1) < 1 ||
      (zero.defined() && zero.sizes() != scale.sizes()))
    refuse("codes " + sizes_of(codes) + " and scales " + sizes_of(scale) + " do not fit");
  const int64_t rows = codes.size(0), columns = codes.size(1), groups = scale.size(1),
                size = columns / groups;
  if (columns % groups != 0 || (bits < 8 && columns % 2 != 0))
    refuse(std::to_string(columns) + " columns in " + std::to_string(groups) +
           " groups; expected groups of one size" + (bits < 8 ? ", and an even sum" : ""));
  Weight out;
  Tensor ordered = codes;
  if (group.defined()) {
    if (group.numel() != columns || !(at::bincount(group, {}, groups) == size).all().item<bool>())
      refuse("groups of unequal sizes; expected " + std::to_string(size) + " columns in each");
    out.order = at::argsort(group, /*stable=*/true);
    ordered = codes.index_select(1, out.order);
  }
  const auto numbers = [&](const Tensor& t) { return t.to(at::kFloat).unsqueeze(-1).contiguous(); };
  out.scale = numbers(scale);
  // Fewer bits are moved up, so that the middle of all codes is 8 (of 256: 0).
  const int64_t middle = int64_t{1} << (bits - 1), moved = bits == 8 ? -128 : 8 - middle;
  if (zero.defined()) out.zero = numbers(zero + moved);
  const Tensor grouped = ordered.to(at::kShort).add(moved).view({rows, groups, size});
  if (bits == 8) {
    out.values = grouped.to(at::kChar).contiguous();
    return out;
  }
  const bool by_groups = groups % 2 == 0;
  const auto halves = grouped.split(by_groups ? groups / 2 : size / 2, by_groups ? 1 : 2);
  const Tensor &low = halves[0], &high = halves[1];
  out.values = (low + high * 16).to(at::kByte).contiguous();
  return out;
}

Weight nearest_codes(const Tensor& weight, int bits, int64_t group) {
  const auto refuse = [](const std::string& what) { refuse_weight("nearest_codes", what); };
  if (bits != 4 && bits != 8) refuse(std::to_string(bits) + " bits; expected 4 or 8");
  if (weight.dim() != 2 || group < 1 || weight.size(1) % group != 0)
    refuse("a weight " + sizes_of(weight) + " in groups of " + std::to_string(group) +
           " columns; expected a matrix, and groups that divide its columns");
  const int64_t rows = weight.size(0), groups = weight.size(1) / group,
                middle = int64_t{1} << (bits - 1);
  const Tensor grouped = weight.to(at::kFloat).reshape({rows, groups, group});
  if (!grouped.isfinite().all().item<bool>())
    refuse("a weight with NaN or infinity; expected finite numbers");
  Tensor scale = grouped.abs().amax(-1, /*keepdim=*/true) / static_cast<double>(middle - 1);
  scale = at::where(scale == 0, 1, scale);
  const Tensor codes =
      (grouped / scale).round().clamp(-middle, middle - 1).add(middle).to(at::kByte);
  return coded_weight(codes.view(weight.sizes()), scale.squeeze(-1), {}, bits);
}

Tensor linear(const Tensor& x, const Weight& weight) {
  Tensor out;
  if (weight.is_dense()) {
    out = at::linear(x, weight.values);
  } else {
    const Tensor ordered = weight.order.defined() ? x.index_select(1, weight.order) : x;
    out = coded_linear(ordered.to(weight.scale.scalar_type()), weight).to(x.scalar_type());
  }
  return weight.bias.defined() ? out + weight.bias : out;
}

}  // namespace graft::workloads::decoder
