// The header of a safetensors file: JSON in, checked entries out. Used by safetensors.cpp alone.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace graft::lab::detail {

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

/// A name from outside, made fit for an error message: quoted, control bytes escaped, cut when
/// long.
std::string shown(std::string_view name);

}  // namespace graft::lab::detail
