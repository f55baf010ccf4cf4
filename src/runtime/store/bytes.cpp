#include "runtime/store/bytes.h"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace graft::runtime {

namespace {

/// Of a word of 64 bits, seven to a byte.
constexpr size_t kMostBytes = 10;

}  // namespace

std::string ByteWriter::take() {
  bytes_.resize(std::exchange(size_, 0));
  return std::exchange(bytes_, {});
}

void ByteWriter::append(std::string_view bytes) {
  std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
  size_ += bytes.size();
}

void ByteWriter::number(int64_t& value, ir::NumberKind kind) {
  if (kind != ir::NumberKind::Real) return word(value);
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof raw);
  append({raw, sizeof raw});
}

void ByteWriter::word(int64_t& value) {
  // Signs last, so that small negative numbers are short.
  uint64_t left = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
  char *const first = room(kMostBytes), *at = first;
  for (; left >= 0x80; left >>= 7) *at++ = static_cast<char>(left | 0x80);
  *at++ = static_cast<char>(left);
  size_ += static_cast<size_t>(at - first);
}

void ByteWriter::text(std::string& text) {
  structure(text.size());
  append(text);
}

void ByteWriter::opaque(ir::Opaque& value) {
  text(value.what);
  complete = false;
}

std::string_view ByteReader::take(size_t bytes) {
  if (bytes > left_.size()) throw std::runtime_error("it ends early");
  const std::string_view taken = left_.substr(0, bytes);
  left_.remove_prefix(bytes);
  return taken;
}

void ByteReader::number(int64_t& value, ir::NumberKind kind) {
  if (kind != ir::NumberKind::Real) return word(value);
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
}

void ByteReader::word(int64_t& value) {
  uint64_t read = 0;
  for (int shift = 0;; shift += 7) {
    if (shift > 63) throw std::runtime_error("a number in it has no end");
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    read |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  value = static_cast<int64_t>(read >> 1) ^ -static_cast<int64_t>(read & 1);
}

void ByteReader::count(int64_t& value) {
  word(value);
  // Each of what is counted takes a byte at least.
  if (value < 0 || static_cast<uint64_t>(value) > left_.size())
    throw std::runtime_error("it counts more than there is");
}

void ByteReader::text(std::string& text) {
  int64_t size = 0;
  count(size);
  text = take(static_cast<size_t>(size));
}

void ByteReader::opaque(ir::Opaque&) {
  throw std::runtime_error("it speaks of what another process had");
}

}  // namespace graft::runtime
