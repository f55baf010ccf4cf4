// CRC-32, as zlib, gzip and Python's zlib.crc32 compute it, to detect damaged files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace graft::quantizer {

/// Continues from `crc`, the checksum of the bytes before (0: there are none).
uint32_t crc32(const void* data, size_t bytes, uint32_t crc = 0);
/// Of a tensor's elements in row-major order.
uint32_t crc32(const at::Tensor& tensor);
/// Of a whole file. Throws GptqError if it cannot be read.
uint32_t crc32_of_file(const std::filesystem::path& file);

/// Eight hexadecimal digits.
std::string crc_text(uint32_t crc);

}  // namespace graft::quantizer
