// What accuracy.cpp knows of two arrays after one pass over them. Internal to the laboratory.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "lab/accuracy/accuracy.h"

namespace graft::lab {

/// A place in a tensor by its flat position; -1 is none.
struct Peak {
  double value = 0;
  int64_t at = -1;
  void see(double seen, int64_t position) {
    if (seen > value) *this = {seen, position};
  }
};

/// Of fp64 against one side: absolute, as the largest magnitude is known only at the end.
struct ErrorSum {
  double max = 0, sum = 0;
  int64_t non_finite = 0;
};

/// Of a chunk, or of several together.
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

/// What is done with the elements of one dtype.
struct ElementKind {
  /// Candidate, reference, fp64 or null, number of elements.
  Tally (*compare)(const void*, const void*, const double*, int64_t);
  double (*value)(const void*, int64_t);  ///< of the element at a position
  bool floating;
  double epsilon;  ///< from 1 to the next number; 0 for integers
};
/// Throws std::invalid_argument for quantized types and others without a number.
ElementKind element_kind(at::ScalarType type);

}  // namespace graft::lab
