// Small numbers: tensors in formats of 4, 6 and 8 bits with scales, for LibTorch programs.
//
//     Quantized w = quantize(weight, number_format("mxfp4"));  // [out, in] in 4.25 bits a value
//     at::Tensor y = matmul(x, w);                             // x W^T, widened in registers
//
// What one value is coded as is an *element* (kElements): a float of few bits as the OCP formats
// define it, or an integer. What a tensor is coded as is a *number format* (kNumberFormats): an
// element, how many values share a scale, and how the scale itself is coded.
//
//     value = decode(code) * scale of its block [* scale of the tensor]
//
// - Scales. With amax the largest magnitude of a block: fp32 scales are amax / element's max,
//   E8M0 scales 2^(floor(log2 amax) - exponent of the element's max), as the OCP MX specification
//   1.0 has it (6.3), E4M3 scales amax / (element's max * tensor scale) rounded to E4M3, where
//   the tensor scale is the tensor's amax / element's max / 448. E8M0 and fp32 scales are 2^-126
//   at least, E4M3 ones 2^-9 and the tensor's beside them 2^-117, so that their reciprocals are
//   finite. Values are multiplied by the reciprocal, rounded to fp32, then coded.
// - Rounding is to the nearest code, of two to the even one; or stochastic: up with the
//   probability of the part that is cut off, by numbers that follow from the seed and a value's
//   position alone.
// - Overflow. Magnitudes above the element's max, infinities included, become the max. Under
//   Overflow::Special, of formats without blocks, those that round to more become the element's
//   infinity, or its NaN where it has none (as ATen's casts), or the max where it has neither.
// - NaN becomes NaN, or the max with the NaN's sign where the element has none.
// - Where quantize() finds a scale itself and the values that share it hold a NaN or an infinity,
//   the scale is NaN, and so are all these values once they are read.
// - Zeros keep their signs where the element has a sign bit. Subnormal codes are made and read.
// - Codes are packed along the last dimension, from the lowest bits on: two of 4 bits in a byte,
//   four of 6 bits in three bytes. Integers are two's complement and symmetric: -8 and -128 are
//   read but never made.
//
// Codes do not depend on the machine or on threads. Sums of products do: vectors of other widths
// add in another order.
//
// Thread-safety: functions may be called from any number of threads; they use ATen's intra-op
// ones. Errors: c10::ValueError for arguments that do not fit, saying what came and what was
// expected.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/export.h"

namespace graft::systems {

/// How one value is coded. Magnitudes are 2^(e - bias) (1 + m / 2^mantissa_bits), and 2^(1 -
/// bias) m / 2^mantissa_bits for e = 0. Integers have no exponent bits, so that all are of the
/// second kind, with a bias that makes them multiples of 1.
struct Element {
  std::string_view name;
  int bits, exponent_bits, mantissa_bits, bias;
  float max;
  bool has_infinity, has_nan;

  constexpr bool is_integer() const { return exponent_bits == 0; }
};

inline constexpr std::array<Element, 7> kElements = {{
    {"e4m3", 8, 4, 3, 7, 448, false, true},
    {"e5m2", 8, 5, 2, 15, 57344, true, true},
    {"e3m2", 6, 3, 2, 3, 28, false, false},
    {"e2m3", 6, 2, 3, 1, 7.5, false, false},
    {"e2m1", 4, 2, 1, 1, 6, false, false},
    {"int8", 8, 0, 7, -6, 127, false, false},
    {"int4", 4, 0, 3, -2, 7, false, false},
}};

/// Its index in kElements; the table's size where there is none of that name.
constexpr int element_index(std::string_view name) {
  size_t i = 0;
  while (i < kElements.size() && kElements[i].name != name) ++i;
  return static_cast<int>(i);
}

/// How the scale of a block is coded: fp32; a power of two in 8 bits (E8M0: 2^(code - 127), 255
/// is NaN); E4M3, with an fp32 scale of the whole tensor beside it.
enum class ScaleKind : uint8_t { F32, E8M0, E4M3 };

struct NumberFormat {
  std::string_view name;
  int element;    ///< index in kElements
  int64_t block;  ///< values of the last dimension that share a scale; 0: the whole tensor
  ScaleKind scale;

  constexpr const Element& coding() const { return kElements[static_cast<size_t>(element)]; }
  /// Bits of a value, its part of the block's scale included.
  constexpr double bits_per_value() const {
    const double scale_bits = scale == ScaleKind::F32 ? 32 : 8;
    return coding().bits + (block > 0 ? scale_bits / static_cast<double>(block) : 0);
  }
};

/// A copy of a row with another block size (a multiple of 16) is a format, too.
inline constexpr std::array<NumberFormat, 12> kNumberFormats = {{
    {"fp8_e4m3", element_index("e4m3"), 0, ScaleKind::F32},
    {"fp8_e5m2", element_index("e5m2"), 0, ScaleKind::F32},
    {"fp8_e4m3_block", element_index("e4m3"), 128, ScaleKind::F32},
    {"fp8_e5m2_block", element_index("e5m2"), 128, ScaleKind::F32},
    {"mxfp8_e4m3", element_index("e4m3"), 32, ScaleKind::E8M0},
    {"mxfp8_e5m2", element_index("e5m2"), 32, ScaleKind::E8M0},
    {"mxfp6_e3m2", element_index("e3m2"), 32, ScaleKind::E8M0},
    {"mxfp6_e2m3", element_index("e2m3"), 32, ScaleKind::E8M0},
    {"mxfp4", element_index("e2m1"), 32, ScaleKind::E8M0},
    {"nvfp4", element_index("e2m1"), 16, ScaleKind::E4M3},
    {"int8", element_index("int8"), 128, ScaleKind::F32},
    {"int4", element_index("int4"), 128, ScaleKind::F32},
}};

/// The row of that name.
GRAFT_API const NumberFormat& number_format(std::string_view name);

enum class Rounding : uint8_t { NearestEven, Stochastic };
enum class Overflow : uint8_t { Saturate, Special };

struct QuantizeOptions {
  Rounding rounding = Rounding::NearestEven;
  Overflow overflow = Overflow::Saturate;
  uint64_t seed = 0;  ///< of stochastic rounding
  /// The scale of the whole tensor, of formats that have one; 0: found by another pass over the
  /// values. Positive; its reciprocal must be finite.
  float tensor_scale = 0;
};

/// A tensor in codes. Plain data: copies share the tensors. Functions check that sizes, dtypes and
/// layout of the tensors are those that quantize() gives.
struct Quantized {
  NumberFormat format;
  std::vector<int64_t> sizes = {};  ///< of the values
  at::Tensor codes = {};  ///< uint8, as `sizes` with bytes instead of values in the last one
  /// One per block: fp32 or uint8, as `sizes` with blocks in the last one; undefined without
  /// blocks.
  at::Tensor scales = {};
  float tensor_scale = 1;
  /// The largest magnitude of the values, for scales of later tensors; 0 where there are blocks.
  float amax = 0;

  /// Bytes of codes and scales.
  int64_t bytes() const;
};

/// Quantises a dense CPU tensor of fp32 or bf16; one that is not contiguous is copied first. Its
/// last size must be a multiple of the block, and of 16 where codes have fewer than 8 bits.
GRAFT_API Quantized quantize(const at::Tensor& values, const NumberFormat& format,
                             const QuantizeOptions& options = {});

/// The values, in fp32 or bf16 (rounded to nearest even).
GRAFT_API at::Tensor dequantize(const Quantized& quantized, at::ScalarType type = at::kFloat);

/// x W^T in fp32 for x of [..., in], fp32 or bf16, and W of [out, in]. Codes are widened to fp32,
/// and so are products and sums. Not differentiable: throws where x would get a gradient (Fp8Linear
/// is for training). Up to four rows of x: W is widened in registers, and its codes are all that is
/// read. More: it is widened in tiles that stay in the cache, for ATen's product.
GRAFT_API at::Tensor matmul(const at::Tensor& x, const Quantized& weight);
GRAFT_API at::Tensor matmul(const Quantized& x, const Quantized& weight);

/// The largest magnitude of a tensor of fp32 or bf16; NaN where it holds one, 0 where it is
/// empty.
GRAFT_API float largest_magnitude(const at::Tensor& values);

/// Scales for tensors that come step by step, found from what earlier ones held: one pass over
/// the values instead of two. The scale is the largest amax of the last `history` tensors, times
/// 2^margin, over the element's max. The first tensor, and one after tensors of zeros only, is
/// scaled by its own amax. One that is not finite leaves no mark in the history.
/// Not thread-safe.
class GRAFT_API DelayedScaling {
 public:
  /// `format`: one without blocks.
  explicit DelayedScaling(const NumberFormat& format, int history = 16, int margin = 0);

  Quantized quantize(const at::Tensor& values, QuantizeOptions options = {});
  /// The scale that the next tensor gets; 0: its own.
  float next_scale() const;

 private:
  NumberFormat format_;
  int margin_;
  std::vector<float> history_;  ///< a ring; 0: nothing yet
  size_t at_ = 0;
};

/// The instruction sets that this machine has kernels for, best first: "avx512", "avx2",
/// "baseline".
GRAFT_API std::vector<std::string> instruction_sets();
/// Takes the kernels of one of these from now on, instead of the best: for tests and comparisons.
/// Not while another thread is in a function of this header.
GRAFT_API void use_instruction_set(std::string_view name);

}  // namespace graft::systems
