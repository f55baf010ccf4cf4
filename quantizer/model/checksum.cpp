// Eight bytes per step, with a table for each of the eight places ("slicing by 8").
#include "quantizer/model/checksum.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "quantizer/model/error.h"

namespace graft::workloads::gptq {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables out{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
    out[0][byte] = crc;
  }
  for (size_t place = 1; place < 8; ++place) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = out[place - 1][byte];
      out[place][byte] = (before >> 8) ^ out[0][before & 0xFF];
    }
  }
  return out;
}

constexpr Tables kTables = make_tables();

}  // namespace

uint32_t crc32(const void* data, size_t bytes, uint32_t crc) {
  const auto* at = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);  // little-endian, as every host that Graft runs on
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(word >> (8 * i)) & 0xFF];
  }
  for (; bytes > 0; ++at, --bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xFF];
  return ~crc;
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

}  // namespace graft::workloads::gptq
