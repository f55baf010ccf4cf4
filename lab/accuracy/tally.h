// What one pass over two arrays finds. Internal to accuracy.cpp.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "lab/accuracy/accuracy.h"

namespace graft::lab {

/// The largest value seen and its flat position in the tensor; -1: none.
struct Peak {
  double value = 0;
  int64_t at = -1;
  void see(double seen, int64_t position) {
    if (seen > value) *this = {seen, position};
  }
};

/// The error of one side against fp64: absolute, since the largest magnitude is known only at the
/// end.
struct ErrorSum {
  double max = 0, sum = 0;
  int64_t non_finite = 0;
};

/// Of one chunk, or the sum of several.
struct Tally {
  UlpHistogram ulps;
  int64_t different = 0, without_relative = 0;
  Peak ulp, abs, rel;
  int64_t mismatch = -1;
  double sum_abs = 0, sum_rel = 0;
  ErrorSum candidate, reference;
  double largest = 0;
  int64_t candidate_nearer = 0, reference_nearer = 0;
};

/// The functions that handle elements of one dtype.
struct ElementKind {
  /// Arguments: candidate, reference, fp64 or null, number of elements.
  Tally (*compare)(const void*, const void*, const double*, int64_t);
  double (*value)(const void*, int64_t);  ///< the element at a position
  bool floating;
  double epsilon;  ///< the distance from 1 to the next number; 0 for integers
};
/// Throws std::invalid_argument for quantized types and others without a number.
ElementKind element_kind(at::ScalarType type);

}  // namespace graft::lab
