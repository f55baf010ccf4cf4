#include "quantizer/model/checksum.h"

#include <zlib.h>

#include <cstdio>
#include <fstream>
#include <vector>

#include "quantizer/model/error.h"

namespace graft::quantizer {

uint32_t crc32(const void* data, size_t bytes, uint32_t crc) {
  return static_cast<uint32_t>(crc32_z(crc, static_cast<const Bytef*>(data), bytes));
}

uint32_t crc32(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return crc32(dense.const_data_ptr(), dense.nbytes());
}

uint32_t crc32_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> buffer(size_t{1} << 20);
  uint32_t crc = 0;
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0)
    crc = crc32(buffer.data(), static_cast<size_t>(in.gcount()), crc);
  if (!in.eof()) throw GptqError(file.string() + ": cannot be read");
  return crc;
}

std::string crc_text(uint32_t crc) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", crc);
  return text;
}

}  // namespace graft::quantizer
