// Where ATen compares sizes, beside what follows from them: a slice ends where its tensor ends, a
// search takes more steps from a power of two on. The numbers of a family's records follow its
// sizes on one side of such a border, so that it is only for sizes on that side.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "record/trace.h"
#include "runtime/family/formula.h"

namespace graft::runtime {

class Regimes {
 public:
  /// Of records at those points. Throws std::runtime_error that says what lies on both sides of a
  /// border, or is a number that follows the sizes and is rounded.
  Regimes(std::span<const Point> points, std::span<const record::Trace* const> traces);

  /// Are the sizes on the records' side of all borders?
  bool hold(std::span<const int64_t> point) const;

 private:
  void add(std::span<const Point> points, std::vector<int64_t> values, bool strict,
           const std::string& name);

  Formulas bounded_;
  std::vector<int64_t> least_;  ///< of each
};

}  // namespace graft::runtime
