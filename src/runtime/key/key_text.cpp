#include "runtime/key/key.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/ScalarType.h>

#include <bit>
#include <cstdlib>
#include <sstream>

namespace graft::runtime {

namespace {

/// A word of an argument that is no tensor: a whole number, or a double's bits.
std::string number_text(uint64_t word) {
  constexpr int64_t kLarge = int64_t{1} << 48;
  const auto whole = static_cast<int64_t>(word);
  if (std::abs(whole) < kLarge) return std::to_string(whole);
  std::ostringstream text;
  text << std::bit_cast<double>(word);
  return text.str();
}

std::string list(std::span<const uint64_t> words) {
  std::string text = "[";
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(static_cast<int64_t>(words[i]));
  return text + "]";
}

std::string differs(const std::string& who, const std::string& what, const std::string& expected,
                    const std::string& came) {
  return who + ": " + what + " " + expected + " expected, " + came + " came";
}

/// One tensor's words, read back.
struct TensorWords {
  uint64_t keys, meta;
  std::span<const uint64_t> sizes, strides;
  size_t length;

  explicit TensorWords(std::span<const uint64_t> words) : keys(words[0]), meta(words[1]) {
    size_t dims = (meta >> 8) & 0xffffffff;
    sizes = words.subspan(2, dims);
    strides = words.subspan(2 + dims, dims);
    length = 2 + 2 * dims;
  }
  bool defined() const { return (meta >> 40 & 1) != 0; }
  bool requires_grad() const { return (meta >> 40 & 2) != 0; }
  bool has_gradient() const { return (meta >> 40 & 8) != 0; }
  bool has_hooks() const { return (meta >> 40 & 16) != 0; }
  bool computed() const { return (meta >> 40 & 32) != 0; }
  bool wrapped() const { return (meta >> 40 & 4) != 0; }
  c10::ScalarType dtype() const { return static_cast<c10::ScalarType>(meta & 0xff); }
};

std::string yes(bool value) {
  return value ? "true" : "false";
}

std::string tensor_difference(const std::string& who, const TensorWords& a, const TensorWords& b) {
  if (a.defined() != b.defined())
    return differs(who, "defined", yes(a.defined()), yes(b.defined()));
  if (a.dtype() != b.dtype())
    return differs(who, "dtype", c10::toString(a.dtype()), c10::toString(b.dtype()));
  if (!same_words(a.sizes, b.sizes)) return differs(who, "sizes", list(a.sizes), list(b.sizes));
  if (!same_words(a.strides, b.strides))
    return differs(who, "strides", list(a.strides), list(b.strides));
  if (a.requires_grad() != b.requires_grad())
    return differs(who, "requires_grad", yes(a.requires_grad()), yes(b.requires_grad()));
  if (a.has_gradient() != b.has_gradient())
    return differs(who, "has a gradient", yes(a.has_gradient()), yes(b.has_gradient()));
  if (a.has_hooks() != b.has_hooks())
    return differs(who, "has hooks", yes(a.has_hooks()), yes(b.has_hooks()));
  if (a.computed() != b.computed())
    return differs(who, "is a leaf", yes(!a.computed()), yes(!b.computed()));
  if (a.wrapped() != b.wrapped())
    return differs(who, "wrapped number", yes(a.wrapped()), yes(b.wrapped()));
  auto keys = [](uint64_t raw) { return c10::toString(c10::DispatchKeySet::from_raw_repr(raw)); };
  if (a.keys != b.keys) return differs(who, "kind", keys(a.keys), keys(b.keys));
  return {};
}

std::string mode_difference(std::span<const uint64_t> a, std::span<const uint64_t> b) {
  uint64_t changed = a[3] ^ b[3];
  auto bit = [&](int at, const char* what) {
    return differs("mode", what, yes(a[3] >> at & 1), yes(b[3] >> at & 1));
  };
  auto dtype = [](uint64_t word, int at) {
    return c10::toString(static_cast<c10::ScalarType>(word >> at & 0xff));
  };
  if ((changed & 1) != 0) return bit(0, "grad mode");
  if ((changed & 2) != 0) return bit(1, "inference mode");
  if ((changed & 1 << 9) != 0) return bit(9, "flushes denormals");
  if ((changed & 1 << 12) != 0) return bit(12, "medium precision of fp32 products");
  if ((changed >> 16 & 0xff) != 0)
    return differs("mode", "default dtype", dtype(a[3], 16), dtype(b[3], 16));
  if ((changed >> 24 & 0xff) != 0) {
    auto name = [](uint64_t word) {
      uint64_t code = word >> 24 & 0xff;
      return code == 0 ? std::string("off") : c10::toString(static_cast<c10::ScalarType>(code - 1));
    };
    return differs("mode", "autocast", name(a[3]), name(b[3]));
  }
  if (changed != 0)
    return "mode: a global flag of ATen's (deterministic algorithms, attention back ends) changed";
  if (a[1] != b[1] || a[2] != b[2])
    return "mode: the thread's dispatch keys differ (autocast, or a dispatch guard is alive)";
  return {};
}

}  // namespace

std::string describe_tensor_difference(const std::string& who, std::span<const uint64_t> expected,
                                       std::span<const uint64_t> came) {
  return tensor_difference(who, TensorWords(expected), TensorWords(came));
}

std::string describe_difference(std::span<const uint64_t> expected,
                                std::span<const uint64_t> came) {
  auto tensors = [](std::span<const uint64_t> words) { return words[0] & 0xffffffff; };
  auto statics = [](std::span<const uint64_t> words) { return words[0] >> 32; };
  if (tensors(expected) != tensors(came))
    return differs("arguments", "number of tensors", std::to_string(tensors(expected)),
                   std::to_string(tensors(came)));
  if (statics(expected) != statics(came))
    return differs("arguments", "number of scalars", std::to_string(statics(expected)),
                   std::to_string(statics(came)));
  if (std::string text = mode_difference(expected, came); !text.empty()) return text;
  size_t at = 4, at_came = 4;
  for (uint64_t i = 0; i < statics(expected); ++i, ++at, ++at_came)
    if (expected[at] != came[at])
      return "an argument that is no tensor (word " + std::to_string(i) +
             " of theirs): its value changed from " + number_text(expected[at]) + " to " +
             number_text(came[at]) +
             "; such are constants of a plan. Pass a graft::Number for one that tensors are "
             "computed with, or a tensor for an index";
  for (uint64_t i = 0; i < tensors(expected); ++i) {
    TensorWords a(expected.subspan(at)), b(came.subspan(at_came));
    if (std::string text = tensor_difference("argument " + std::to_string(i), a, b); !text.empty())
      return text;
    at += a.length, at_came += b.length;
  }
  // A 0, or a 1 and two words per tensor; then what is said of captured leaves.
  auto overlaps = [](std::span<const uint64_t> words, uint64_t tensors) {
    return words.first(words[0] == 0 ? 1 : 1 + 2 * tensors);
  };
  auto overlap_a = overlaps(expected.subspan(at), tensors(expected)),
       overlap_b = overlaps(came.subspan(at_came), tensors(came));
  if (overlap_a[0] != overlap_b[0])
    return overlap_a[0] == 0 ? "arguments: disjoint memory expected, some that share memory came"
                             : "arguments: shared memory expected, disjoint memory came";
  for (uint64_t i = 0; overlap_a[0] != 0 && i < tensors(expected); ++i)
    if (!same_words(overlap_a.subspan(1 + 2 * i, 2), overlap_b.subspan(1 + 2 * i, 2)))
      return "argument " + std::to_string(i) +
             ": overlaps the other arguments' memory differently than expected";
  if (!same_words(expected.subspan(at + overlap_a.size()),
                  came.subspan(at_came + overlap_b.size())))
    return "captured tensors: others of them come with a gradient than expected";
  return {};
}

}  // namespace graft::runtime
