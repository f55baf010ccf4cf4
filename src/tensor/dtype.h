// What is to be known of each dtype, once: another one is another row here, and its conversions in
// the code generators.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>

namespace graft {

using c10::ScalarType;

enum class DtypeKind : uint8_t { Truth, Unsigned, Signed, Real };

struct DtypeInfo {
  ScalarType type;
  const char* name;  ///< in programs as text
  DtypeKind kind;
  bool loops;  ///< statements may load, store and convert it; operators on others are extern
  ScalarType computes;  ///< the type of arithmetic on it (ATen's opmath type)
  int digits;           ///< Real: bits of the significand, the hidden one too; else value bits
  bool has_infinity;
  double largest;  ///< finite value
};

// clang-format off
inline constexpr DtypeInfo kDtypes[] = {
    {ScalarType::Bool, "bool", DtypeKind::Truth, true, ScalarType::Bool, 1, false, 1},
    {ScalarType::Byte, "u8", DtypeKind::Unsigned, true, ScalarType::Byte, 8, false, 255},
    {ScalarType::Char, "i8", DtypeKind::Signed, true, ScalarType::Char, 7, false, 127},
    {ScalarType::Short, "i16", DtypeKind::Signed, true, ScalarType::Short, 15, false, 32767},
    {ScalarType::Int, "i32", DtypeKind::Signed, true, ScalarType::Int, 31, false, 2147483647},
    {ScalarType::Long, "i64", DtypeKind::Signed, true, ScalarType::Long, 63, false, 0x1p63},
    {ScalarType::BFloat16, "bf16", DtypeKind::Real, true, ScalarType::Float, 8, true, 0x1.fep127},
    {ScalarType::Half, "f16", DtypeKind::Real, true, ScalarType::Float, 11, true, 65504},
    {ScalarType::Float, "f32", DtypeKind::Real, true, ScalarType::Float, 24, true, 0x1.fffffep127},
    {ScalarType::Double, "f64", DtypeKind::Real, true, ScalarType::Double, 53, true, 0x1.fffffffffffffp1023},
    {ScalarType::Float8_e4m3fn, "f8e4m3fn", DtypeKind::Real, true, ScalarType::Float, 4, false, 448},
    {ScalarType::Float8_e4m3fnuz, "f8e4m3fnuz", DtypeKind::Real, false, ScalarType::Float, 4, false, 240},
    {ScalarType::Float8_e5m2, "f8e5m2", DtypeKind::Real, true, ScalarType::Float, 3, true, 57344},
    {ScalarType::Float8_e5m2fnuz, "f8e5m2fnuz", DtypeKind::Real, false, ScalarType::Float, 3, false, 57344},
};
// clang-format on

inline constexpr auto kDtypeRows = [] {
  std::array<const DtypeInfo*, static_cast<size_t>(ScalarType::NumOptions)> rows{};
  for (const DtypeInfo& row : kDtypes) rows[static_cast<size_t>(row.type)] = &row;
  return rows;
}();
/// Null for a dtype that has no row: complex and quantised ones, and what is none (in a file).
constexpr const DtypeInfo* find_dtype(ScalarType type) {
  const auto index = static_cast<size_t>(type);
  return index < kDtypeRows.size() ? kDtypeRows[index] : nullptr;
}

/// Loops exist for it.
constexpr bool has_loops(ScalarType type) {
  const DtypeInfo* row = find_dtype(type);
  return row != nullptr && row->loops;
}
/// A floating dtype with loops: Float, Double and those that only hold values.
constexpr bool is_float(ScalarType type) {
  return has_loops(type) && find_dtype(type)->kind == DtypeKind::Real;
}
/// Byte, Char, Short, Int, Long.
constexpr bool is_integer(ScalarType type) {
  return has_loops(type) && (find_dtype(type)->kind == DtypeKind::Unsigned ||
                             find_dtype(type)->kind == DtypeKind::Signed);
}
/// Byte and Bool: they widen with zeros and compare as what they hold.
constexpr bool is_unsigned(ScalarType type) {
  const DtypeInfo* row = find_dtype(type);
  return row != nullptr && (row->kind == DtypeKind::Unsigned || row->kind == DtypeKind::Truth);
}
/// The integer of this dtype that `value` becomes when its upper bits are left out.
constexpr int64_t wrapped_to(int64_t value, ScalarType type) {
  const DtypeInfo* row = find_dtype(type);
  if (row == nullptr || row->digits >= 63) return value;
  const auto bits = static_cast<uint64_t>(value);
  if (row->kind == DtypeKind::Unsigned)
    return static_cast<int64_t>(bits & ((uint64_t{1} << row->digits) - 1));
  const int above = 63 - row->digits;
  return static_cast<int64_t>(bits << above) >> above;
}
/// What arithmetic on it is done in: Float for the narrow floating ones, everything else in itself.
constexpr ScalarType opmath(ScalarType type) {
  const DtypeInfo* row = find_dtype(type);
  return row == nullptr ? type : row->computes;
}
/// A floating dtype that only holds values (16 and 8 bits): arithmetic is done in a wider one.
constexpr bool is_reduced(ScalarType type) {
  return is_float(type) && opmath(type) != type;
}
/// BFloat16 or Half: that ATen computes with, too. (8 bits are codes; it only converts them.)
constexpr bool is_half(ScalarType type) {
  return type == ScalarType::BFloat16 || type == ScalarType::Half;
}
/// Spacing of a floating dtype's values at 1; 0 for types without rounding.
constexpr double epsilon(ScalarType type) {
  const DtypeInfo* row = find_dtype(type);
  if (row == nullptr || row->kind != DtypeKind::Real) return 0;
  double spacing = 1;
  for (int bit = 1; bit < row->digits; ++bit) spacing /= 2;
  return spacing;
}

/// The short name, or c10's for a dtype that has no row.
const char* short_name(ScalarType type);
/// `value` as c10 converts it to a floating dtype: to the narrow ones through float.
double rounded_to(double value, ScalarType type);

}  // namespace graft
