// What a walk (ir/numbers.h) visits, as bytes, and back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/numbers.h"

namespace graft::runtime {

/// Whole numbers near zero take one byte.
class ByteWriter final : public ir::NumberVisitor {
 public:
  /// False where something has no form outside of this process: a generator.
  bool complete = true;

  /// What was written, which the writer then has no longer.
  std::string take();
  /// Space for so many bytes in all.
  void reserve(size_t bytes) { bytes_.resize(std::max(bytes, bytes_.size())); }
  /// The bytes alone: whoever reads them knows how many there are.
  void append(std::string_view bytes);

  void number(int64_t& value, ir::NumberKind kind) override;
  void word(int64_t& value) override;
  void text(std::string& text) override;
  void opaque(ir::Opaque& value) override;

 private:
  /// Where to write up to `bytes` more.
  char* room(size_t bytes) {
    if (bytes > bytes_.size() - size_) reserve(2 * (size_ + bytes));
    return bytes_.data() + size_;
  }

  std::string bytes_;  ///< longer than what is written: growing by a byte is slow
  size_t size_ = 0;    ///< of what is written
};

/// Fills what was made by ByteWriter of the same walk. Throws std::runtime_error where the bytes
/// end early or cannot be what was written.
class ByteReader final : public ir::NumberVisitor {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}
  bool at_end() const { return left_.empty(); }

  void number(int64_t& value, ir::NumberKind kind) override;
  void word(int64_t& value) override;
  void count(int64_t& value) override;
  void text(std::string& text) override;
  void opaque(ir::Opaque& value) override;

 private:
  std::string_view take(size_t bytes);

  std::string_view left_;
};

}  // namespace graft::runtime
