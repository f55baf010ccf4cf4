// Keys that differ in sizes alone: which sizes are free, and how the other numbers follow them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/family/formula.h"

namespace graft::runtime {

using KeyWords = std::span<const uint64_t>;

/// Do the keys differ in numbers from 2 on, and in nothing else? (Sizes of 0 and 1 mean something
/// to operators, and strides of 0 and 1.)
bool same_kind(KeyWords a, KeyWords b);

class Pattern {
 public:
  /// Of keys of one kind, each another one. None where they are too few to tell how their numbers
  /// hang together: two more than free sizes.
  static std::optional<Pattern> of(std::span<const KeyWords> keys);

  /// The free sizes of a key; none where it does not fit.
  std::optional<Point> match(KeyWords words) const;

  size_t symbols() const { return symbols_.size(); }
  /// "s", or "s0", "s1", …
  std::vector<std::string> names() const;
  /// "s: argument 0: size 1; argument 0: stride 0 = 512*s".
  std::string text() const;

 private:
  std::vector<uint64_t> words_;  ///< those of one key
  std::vector<uint64_t> same_;   ///< their bits that all keys share: all of a word, or none
  std::vector<size_t> symbols_;  ///< places
  std::vector<std::string> symbol_names_;
  Formulas formulas_;
  std::vector<std::pair<uint32_t, uint32_t>> follows_;  ///< place, formula
  std::vector<std::string> follow_names_;
};

}  // namespace graft::runtime
