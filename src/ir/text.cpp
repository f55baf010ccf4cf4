#include "ir/text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace graft::ir {

namespace {

constexpr std::array kReduceOps = {
#define REDUCE(name, text) text,
#include "ir/reductions.def"
};
constexpr std::array kRoles = {"argument", "captured", "output", "temporary"};
static_assert(kRoles.size() == static_cast<size_t>(Role::Temporary) + 1);

template <class Enum, size_t count>
std::optional<Enum> named(const std::array<const char*, count>& names, std::string_view name) {
  for (size_t k = 0; k < count; ++k)
    if (names[k] == name) return static_cast<Enum>(k);
  return std::nullopt;
}

template <class T>
std::string shortest(T value) {
  std::array<char, 32> text;
  auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

template <class T>
std::optional<T> whole(std::string_view text, int base = 10) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

template <class T>
std::optional<T> real(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

constexpr int64_t kNaN = 0x7ff8000000000000;

std::string float_text(double value, bool as_double) {
  if (std::isnan(value)) {
    auto bits = std::bit_cast<int64_t>(value);
    if (bits == kNaN) return "nan";
    std::array<char, 20> hex;
    auto end = std::to_chars(hex.data(), hex.data() + hex.size(), static_cast<uint64_t>(bits), 16);
    return "nan(0x" + std::string(hex.data(), end.ptr) + ")";
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return as_double ? shortest(value) : shortest(static_cast<float>(value));
}

std::optional<double> float_of(std::string_view text, bool as_double) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "nan") return std::bit_cast<double>(kNaN);
  if (text == "inf") return kInfinity;
  if (text == "-inf") return -kInfinity;
  if (text.starts_with("nan(0x") && text.ends_with(")")) {
    auto bits = whole<uint64_t>(text.substr(6, text.size() - 7), 16);
    if (!bits || !std::isnan(std::bit_cast<double>(*bits))) return std::nullopt;
    return std::bit_cast<double>(*bits);
  }
  // from_chars knows words of its own.
  if (text.find_first_not_of("0123456789+-.e") != std::string_view::npos) return std::nullopt;
  if (as_double) return real<double>(text);
  auto value = real<float>(text);
  return value ? std::optional<double>(*value) : std::nullopt;
}

}  // namespace

std::optional<ScalarType> type_named(std::string_view name) {
  for (int k = 0; k < static_cast<int>(ScalarType::NumOptions); ++k)
    if (short_name(static_cast<ScalarType>(k)) == name) return static_cast<ScalarType>(k);
  return std::nullopt;
}

const char* name_of(ReduceOp op) {
  return kReduceOps[static_cast<size_t>(op)];
}
std::optional<ReduceOp> reduce_op_named(std::string_view name) {
  return named<ReduceOp>(kReduceOps, name);
}
const char* name_of(Role role) {
  return kRoles[static_cast<size_t>(role)];
}
std::optional<Role> role_named(std::string_view name) {
  return named<Role>(kRoles, name);
}

std::string axis_name(size_t axis) {
  return axis < 26 ? std::string(1, static_cast<char>('a' + axis)) : "a" + std::to_string(axis);
}

std::optional<size_t> axis_named(std::string_view name) {
  if (name.size() == 1 && name[0] >= 'a' && name[0] <= 'z')
    return static_cast<size_t>(name[0] - 'a');
  if (name.size() < 3 || name[0] != 'a') return std::nullopt;
  auto axis = whole<uint32_t>(name.substr(1));
  return axis && axis_name(*axis) == name ? std::optional<size_t>(*axis) : std::nullopt;
}

std::string number_text(int64_t payload, ScalarType type) {
  if (is_float(type)) return float_text(std::bit_cast<double>(payload), type == ScalarType::Double);
  if (type == ScalarType::Bool) return payload != 0 ? "true" : "false";
  return std::to_string(payload);
}

std::optional<int64_t> number_of(std::string_view text, ScalarType type) {
  if (is_float(type)) {
    auto value = float_of(text, type == ScalarType::Double);
    return value ? std::optional(std::bit_cast<int64_t>(*value)) : std::nullopt;
  }
  if (type == ScalarType::Bool)
    return text == "true"    ? std::optional<int64_t>(1)
           : text == "false" ? std::optional<int64_t>(0)
                             : std::nullopt;
  return whole<int64_t>(text);
}

std::string growth_text(int64_t growth, const std::string& step) {
  if (growth == 0) return "";
  std::string text = growth < 0 ? "-" : "+";
  return text + (std::abs(growth) == 1 ? "" : std::to_string(std::abs(growth))) + step;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + "\"";
}

}  // namespace graft::ir
