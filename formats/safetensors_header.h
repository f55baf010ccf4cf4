// The header of a safetensors file: JSON in, checked entries out. Internal to the reader and the
// writer.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graft::formats::detail {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  ///< the format's own limit

/// The types that files may hold, with the format's names for them.
inline constexpr std::pair<std::string_view, c10::ScalarType> kDtypes[] = {
    {"F64", c10::ScalarType::Double}, {"F32", c10::ScalarType::Float},
    {"F16", c10::ScalarType::Half},   {"BF16", c10::ScalarType::BFloat16},
    {"I64", c10::ScalarType::Long},   {"I32", c10::ScalarType::Int},
    {"I16", c10::ScalarType::Short},  {"I8", c10::ScalarType::Char},
    {"U8", c10::ScalarType::Byte},    {"BOOL", c10::ScalarType::Bool},
};
/// Their names with a space between, for messages.
std::string known_dtypes();

struct TensorEntry {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  ///< bytes, from the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, TensorEntry, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Parses and checks the header of a file with `data_bytes` bytes after it: every entry's range
/// matches its type and shape, and together the ranges cover the data exactly once. Throws
/// SafetensorsError, whose text starts with `file`.
SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes, const std::string& file);

/// A name from a file, as an error message shows it: quoted, control bytes escaped, cut when long.
std::string shown(std::string_view name);

}  // namespace graft::formats::detail
