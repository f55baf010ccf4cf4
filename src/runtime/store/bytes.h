// What a walk (ir/numbers.h) visits, as bytes, and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/numbers.h"

namespace graft::runtime {

/// Whole numbers near zero take one byte.
class ByteWriter final : public ir::NumberVisitor {
 public:
  std::string bytes;
  /// False where something has no form outside of this process: a generator.
  bool complete = true;

  void number(int64_t& value, ir::NumberKind kind) override;
  void word(int64_t& value) override;
  void text(std::string& text) override;
  void opaque(ir::Opaque& value) override;
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
