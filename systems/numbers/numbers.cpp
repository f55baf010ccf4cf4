#include "graft/systems/numbers.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "systems/numbers/kernels.h"

namespace graft::systems {

using at::Tensor;

namespace numbers {
namespace {

constexpr int64_t kGrain = 1 << 15;        // values that a thread takes at least
constexpr int64_t kCacheBytes = 16 << 20;  // results above are not read again from a cache
constexpr int64_t kRowsInRegisters = 4;    // of x, for which W is widened in registers
constexpr int64_t kTileValues = 1 << 18;   // of W, widened at once for more

/// 0 for fp32, 1 for bf16: the index in tables of kernels.
size_t type_index(const char* what, at::ScalarType type) {
  TORCH_CHECK_VALUE(type == at::kFloat || type == at::kBFloat16, what, ": came ", type,
                    ", expected fp32 or bf16; convert it with .to().");
  return type == at::kBFloat16 ? 1 : 0;
}

/// The tensor, contiguous, whose values are to be read.
Tensor dense_values(const char* what, const Tensor& x) {
  TORCH_CHECK_VALUE(x.defined(), what, ": the tensor is undefined.");
  TORCH_CHECK_VALUE(x.device().is_cpu() && x.layout() == at::kStrided, what, ": came a tensor on ",
                    x.device(), " of layout ", x.layout(),
                    ", expected a dense one on the CPU; convert it with .cpu() or .to_dense().");
  type_index(what, x.scalar_type());
  return x.detach().contiguous();
}

void check_format(const NumberFormat& format) {
  TORCH_CHECK_VALUE(format.element >= 0 && format.element < static_cast<int>(kElements.size()),
                    "number format '", format.name, "': there is no element ", format.element, ".");
  TORCH_CHECK_VALUE(format.block >= 0 && format.block % 16 == 0, "number format '", format.name,
                    "': came blocks of ", format.block,
                    ", expected a multiple of 16, or 0 for one scale of the whole tensor.");
  TORCH_CHECK_VALUE(format.scale <= ScaleKind::E4M3, "number format '", format.name,
                    "': there is no kind of scale ", static_cast<int>(format.scale), ".");
  TORCH_CHECK_VALUE(format.block > 0 || format.scale == ScaleKind::F32, "number format '",
                    format.name, "': one scale of the whole tensor must be an fp32 one.");
}

/// Values of the last dimension come in multiples of it.
int64_t unit_of_last(const NumberFormat& format) {
  return std::max<int64_t>(format.block, format.coding().bits < 8 ? 16 : 1);
}

/// Kernels read codes and scales by address: throws unless they are what quantize() makes.
void check_quantized(const char* who, const Quantized& q) {
  check_format(q.format);
  const at::IntArrayRef sizes = q.sizes;
  const bool has_sizes = std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n >= 0; });
  const int64_t last = sizes.empty() ? 1 : sizes.back();
  TORCH_CHECK_VALUE(has_sizes && last % unit_of_last(q.format) == 0, who, ": came codes of ",
                    q.format.name, " for sizes ", sizes,
                    ", expected a last one that is a multiple of ", unit_of_last(q.format), ".");
  const int64_t values = c10::multiply_integers(sizes);
  const auto check = [&](const char* what, const Tensor& t, at::ScalarType type, int64_t count) {
    TORCH_CHECK_VALUE(t.defined(), who, ": there are no ", what, ".");
    TORCH_CHECK_VALUE(t.device().is_cpu() && t.layout() == at::kStrided && t.is_contiguous() &&
                          t.scalar_type() == type && t.numel() == count,
                      who, ": came ", what, " of sizes ", t.sizes(), " and ", t.scalar_type(),
                      " on ", t.device(), ", expected ", count, " of ", type,
                      ", contiguous on the CPU, as quantize() makes for sizes ", sizes, " in ",
                      q.format.name, ".");
  };
  check("codes", q.codes, at::kByte, values * q.format.coding().bits / 8);
  if (q.format.block > 0)
    check("scales", q.scales, q.format.scale == ScaleKind::F32 ? at::kFloat : at::kByte,
          values / q.format.block);
}

bool has_tensor_scale(const NumberFormat& format) {
  return format.block == 0 || format.scale == ScaleKind::E4M3;
}

/// What a value of the tensor's largest magnitude is stored as.
float largest_stored(const NumberFormat& format) {
  const bool is_e4m3 = format.scale == ScaleKind::E4M3;
  return format.coding().max * (is_e4m3 ? kElements[element_index("e4m3")].max : 1);
}

/// The least that a scale of the tensor may be: reciprocals, with E4M3's beside it, stay finite.
float least_scale(const NumberFormat& format) {
  return std::ldexp(1.0f, format.scale == ScaleKind::E4M3 ? -117 : -126);
}

float scale_of(float amax, const NumberFormat& format) {
  if (!std::isfinite(amax)) return std::numeric_limits<float>::quiet_NaN();
  return std::max(amax / largest_stored(format), least_scale(format));
}

std::vector<int64_t> with_last(std::vector<int64_t> sizes, int64_t last) {
  if (!sizes.empty()) sizes.back() = last;
  return sizes;
}

void raise_to(std::atomic<uint32_t>& most, uint32_t value) {
  uint32_t seen = most.load(std::memory_order_relaxed);
  while (seen < value && !most.compare_exchange_weak(seen, value)) {
  }
}

/// f(first, count) for ranges of `values`, in whole units, on ATen's threads.
template <class F>
void for_ranges(int64_t values, int64_t unit, const F& f) {
  const int64_t units = (values + unit - 1) / unit;
  at::parallel_for(0, units, std::max<int64_t>(1, kGrain / unit), [&](int64_t begin, int64_t end) {
    f(begin * unit, std::min(end * unit, values) - begin * unit);
  });
}

/// Blocks are coded 64 at a time at most; without blocks any multiple of a vector does.
int64_t unit_of(const NumberFormat& format) {
  return std::max<int64_t>(format.block * 64, 1024);
}

void* scale_at(const Quantized& q, int64_t value) {
  if (q.format.block == 0) return nullptr;
  return static_cast<uint8_t*>(q.scales.data_ptr()) +
         value / q.format.block * static_cast<int64_t>(q.scales.element_size());
}

/// Sizes and tensors for the codes of values.
Quantized room_for(const Tensor& values, const NumberFormat& format) {
  check_format(format);
  const int bits = format.coding().bits;
  const int64_t last = values.dim() == 0 ? 1 : values.size(-1);
  const int64_t unit = unit_of_last(format);
  TORCH_CHECK_VALUE(last % unit == 0, "quantize to ", format.name, ": came sizes ", values.sizes(),
                    ", expected a last one that is a multiple of ", unit, "; pad it.");
  Quantized out{.format = format, .sizes = values.sizes().vec()};
  out.codes = at::empty(with_last(out.sizes, last * bits / 8), at::kByte);
  if (format.block > 0)
    out.scales = at::empty(with_last(out.sizes, last / format.block),
                           format.scale == ScaleKind::F32 ? at::kFloat : at::kByte);
  return out;
}

/// x W^T for few rows of x, widened in registers.
void dot_rows(const Tensor& x, const Quantized& w, Tensor& out) {
  const int64_t columns = w.sizes[1], rows = w.sizes[0];
  const auto element = static_cast<size_t>(w.format.element);
  const bool is_arranged = w.format.coding().bits == 4;
  const Tensor arranged = is_arranged ? at::empty({columns}, at::kFloat) : Tensor();
  const int64_t blocks = w.format.block == 0 ? 1 : columns / w.format.block;
  DotTask all{.codes = w.codes.const_data_ptr<uint8_t>(),
              .scales = w.format.block == 0 ? nullptr : w.scales.const_data_ptr(),
              .tensor_scale = w.tensor_scale,
              .block = w.format.block,
              .scale = w.format.scale,
              .columns = columns};
  for (int64_t i = 0; i < x.size(0); ++i) {
    all.x = x.const_data_ptr<float>() + i * columns;
    all.out = out.mutable_data_ptr<float>() + i * rows;
    if (is_arranged) {
      kernels().arrange(all.x, columns, arranged.mutable_data_ptr<float>());
      all.arranged = arranged.const_data_ptr<float>();
    }
    const int64_t grain = std::max<int64_t>(1, kGrain / columns / kRowsOfScales);
    at::parallel_for(
        0, (rows + kRowsOfScales - 1) / kRowsOfScales, grain, [&](int64_t begin, int64_t end) {
          std::vector<float> scratch(static_cast<size_t>(scratch_size(blocks)));
          DotTask task = all;
          task.begin = begin * kRowsOfScales, task.end = std::min(end * kRowsOfScales, rows);
          task.scratch = scratch.data();
          kernels().dot[element](task);
        });
  }
}

/// A range of values, decoded by this thread.
void decode_range(const Quantized& q, int64_t first, int64_t count, void* out, size_t type,
                  bool past_caches) {
  const auto element = static_cast<size_t>(q.format.element);
  const int bits = q.format.coding().bits;
  kernels().decode[element][type]({.codes = q.codes.const_data_ptr<uint8_t>() + first * bits / 8,
                                   .values = out,
                                   .count = count,
                                   .tensor_scale = q.tensor_scale,
                                   .block = q.format.block,
                                   .scale = q.format.scale,
                                   .scales = scale_at(q, first),
                                   .past_caches = past_caches});
}

/// x W^T for many rows of x: W is widened some rows at a time.
void mm_tiles(const Tensor& x, const Quantized& w, Tensor& out) {
  const int64_t columns = w.sizes[1], rows = w.sizes[0];
  const int64_t tile = std::min(rows, std::max<int64_t>(16, kTileValues / columns));
  const Tensor wide = at::empty({tile, columns}, at::kFloat);
  float* to = wide.mutable_data_ptr<float>();
  for (int64_t row = 0; row < rows; row += tile) {
    const int64_t count = std::min(tile, rows - row);
    at::parallel_for(0, count, std::max<int64_t>(1, kGrain / columns),
                     [&](int64_t begin, int64_t end) {
                       decode_range(w, (row + begin) * columns, (end - begin) * columns,
                                    to + begin * columns, 0, false);
                     });
    Tensor part = out.narrow(1, row, count);
    at::mm_out(part, x, wide.narrow(0, 0, count).t());
  }
}

}  // namespace
}  // namespace numbers

const NumberFormat& number_format(std::string_view name) {
  std::string known;
  for (const NumberFormat& format : kNumberFormats) {
    if (format.name == name) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  TORCH_CHECK_VALUE(false, "number_format: there is none called '", name, "'; there are ", known,
                    ".");
}

int64_t Quantized::bytes() const {
  const bool has_one = numbers::has_tensor_scale(format);
  return static_cast<int64_t>(codes.nbytes() + (scales.defined() ? scales.nbytes() : 0)) +
         (has_one ? static_cast<int64_t>(sizeof(float)) : 0);
}

float largest_magnitude(const Tensor& values) {
  const Tensor x = numbers::dense_values("largest_magnitude", values);
  const size_t type = numbers::type_index("largest_magnitude", x.scalar_type());
  const auto* from = static_cast<const uint8_t*>(x.const_data_ptr());
  std::atomic<uint32_t> most = 0;
  numbers::for_ranges(x.numel(), 1024, [&](int64_t first, int64_t count) {
    numbers::raise_to(most, numbers::kernels().largest[type](
                                from + first * static_cast<int64_t>(x.element_size()), count));
  });
  return std::bit_cast<float>(most.load());
}

Quantized quantize(const Tensor& values, const NumberFormat& format,
                   const QuantizeOptions& options) {
  const Tensor x = numbers::dense_values("quantize", values);
  Quantized out = numbers::room_for(x, format);
  if (numbers::has_tensor_scale(format)) {
    if (options.tensor_scale == 0)
      out.tensor_scale = numbers::scale_of(largest_magnitude(x), format);
    else
      out.tensor_scale = options.tensor_scale;
    TORCH_CHECK_VALUE(
        options.tensor_scale == 0 || (options.tensor_scale >= numbers::least_scale(format) &&
                                      std::isfinite(options.tensor_scale)),
        "quantize to ", format.name, ": came a tensor scale of ", options.tensor_scale,
        ", expected a finite one of at least ", numbers::least_scale(format), ", or 0.");
  } else {
    TORCH_CHECK_VALUE(options.tensor_scale == 0, "quantize to ", format.name,
                      ": it has no scale of the whole tensor, so tensor_scale must be 0.");
  }
  const size_t type = numbers::type_index("quantize", x.scalar_type());
  const auto* from = static_cast<const uint8_t*>(x.const_data_ptr());
  auto* to = out.codes.mutable_data_ptr<uint8_t>();
  const auto kernel = numbers::kernels().encode[static_cast<size_t>(format.element)][type]
                                               [options.rounding == Rounding::Stochastic];
  // With the values, which are read meanwhile, fewer codes stay.
  const bool past_caches = out.codes.numel() > numbers::kCacheBytes / 4;
  std::atomic<uint32_t> most = 0;
  numbers::for_ranges(x.numel(), numbers::unit_of(format), [&](int64_t first, int64_t count) {
    const uint32_t bits = kernel({.values = from + first * static_cast<int64_t>(x.element_size()),
                                  .codes = to + first * format.coding().bits / 8,
                                  .count = count,
                                  .first = first,
                                  .seed = options.seed,
                                  .saturate = options.overflow == Overflow::Saturate,
                                  .tensor_scale = out.tensor_scale,
                                  .block = format.block,
                                  .scale = format.scale,
                                  .scales = numbers::scale_at(out, first),
                                  .past_caches = past_caches});
    numbers::raise_to(most, bits);
  });
  out.amax = std::bit_cast<float>(most.load());
  return out;
}

Tensor dequantize(const Quantized& quantized, at::ScalarType type) {
  const size_t index = numbers::type_index("dequantize", type);
  numbers::check_quantized("dequantize", quantized);
  Tensor out = at::empty(quantized.sizes, type);
  auto* to = static_cast<uint8_t*>(out.mutable_data_ptr());
  const auto size = static_cast<int64_t>(out.element_size());
  const bool past_caches = out.numel() * size > numbers::kCacheBytes;
  numbers::for_ranges(
      out.numel(), numbers::unit_of(quantized.format), [&](int64_t first, int64_t count) {
        numbers::decode_range(quantized, first, count, to + first * size, index, past_caches);
      });
  return out;
}

Tensor matmul(const Tensor& x, const Quantized& weight) {
  numbers::check_quantized("matmul", weight);
  TORCH_CHECK_VALUE(weight.sizes.size() == 2, "matmul: came a weight of sizes ",
                    at::IntArrayRef(weight.sizes), ", expected [out, in].");
  const int64_t columns = weight.sizes[1], rows = weight.sizes[0];
  TORCH_CHECK_VALUE(x.defined() && x.dim() > 0 && x.size(-1) == columns, "matmul: came x of sizes ",
                    x.defined() ? x.sizes() : at::IntArrayRef(), ", expected a last one of ",
                    columns, ", as the weight's [", rows, ", ", columns, "] has it.");
  TORCH_CHECK_VALUE(!c10::GradMode::is_enabled() || !x.requires_grad(),
                    "matmul: came x that requires grad; it is not differentiable: call it under "
                    "at::NoGradGuard, or train with Fp8Linear.");
  // Counted, since reshape() cannot tell -1 where the columns are none.
  const int64_t count = c10::multiply_integers(x.sizes().slice(0, x.sizes().size() - 1));
  const Tensor flat = numbers::dense_values("matmul", x).to(at::kFloat).reshape({count, columns});
  Tensor out = at::empty({flat.size(0), rows}, at::kFloat);
  if (columns == 0) out.zero_();
  if (out.numel() == 0 || columns == 0)
    return out.reshape(numbers::with_last(x.sizes().vec(), rows));
  if (flat.size(0) <= numbers::kRowsInRegisters && columns % 16 == 0)
    numbers::dot_rows(flat, weight, out);
  else
    numbers::mm_tiles(flat, weight, out);
  return out.reshape(numbers::with_last(x.sizes().vec(), rows));
}

Tensor matmul(const Quantized& x, const Quantized& weight) {
  return matmul(dequantize(x), weight);
}

}  // namespace graft::systems
