// Compares the plan's results with eager's.
//
// Exact: the same bits, except that any NaN equals any NaN. Otherwise (a reduction summed in
// another order, or Numerics::Fast) two floating results a (eager's) and b agree when
//
//     |a - b| <= slack * (R * eps * |a| + S * eps * max|tensor|)
//
// where eps is the spacing at 1 of the coarsest floating type that the result was computed from (a
// float result of a bfloat16 chain has the chain's error), and
//
//     double          R = 10000, S = 100   2e-12 of the value: where eager's own long sums are off
//                                          by more than R of float's, no wider type would tell
//     float           R = 84, S = 16       1e-5 of the value and 2e-6 of the tensor's largest
//     half, bfloat16  R = 2,  S = 2        two units in the last place
//
// slack = sqrt(number of operators), between 1 and 4: roundings of both sides add up like a random
// walk. What is left of a sum whose terms cancel may be less than what they round: where results
// differ by more, the plan is also run with its sums disturbed (passes/disturb.h), and an element
// may differ from eager's by kReach times what the disturbance moves it. Where rounding decides (a
// sum that cancels, whose sign Adam scales up) an element may happen not to be moved: one that
// is moved at all is right if those as far apart are at most twice as many as those that strong
// disturbances move half as far, but not as much further as they are stronger: of kNeighbours to
// each side in memory; or, for one in kAloneOf elements, of the whole tensor. NaN must meet NaN,
// infinity the same infinity. Integers and booleans are compared exactly, unless what disturbances
// make of the element takes in both sides' (and is near, or eager's itself: places jump).
//
// An element that still differs may be eager's mistake. Where there is a reference, in which the
// approximated operators were computed in double, the element is right all the same if
//   - it agrees with the reference by these rules, or
//   - all three are finite floating numbers, and it is no further from the reference than eager's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace graft::runtime {

struct Tolerance {
  bool exact = true;
  c10::ScalarType coarsest = c10::ScalarType::Double;
  double slack = 1;
  bool either_zero = false;  ///< +0 and −0 are the same
  bool detaches = false;     ///< eager's results may require grad, where the plan's do not
  /// If not exact: what `coarsest` is for each result, and for each argument and captured tensor
  /// that is written.
  std::vector<c10::ScalarType> results = {}, arguments = {}, captured = {};
  /// For one of them.
  Tolerance of(const std::vector<c10::ScalarType>& types, size_t k) const {
    return {exact, k < types.size() ? types[k] : coarsest, slack, either_zero};
  }
  static constexpr double kReach = 2;
  static constexpr int64_t kNeighbours = 32;
  static constexpr int64_t kAloneOf = 1024, kAlone = 64;  ///< kAlone: the most in one tensor
  /// What is moved so many times more or less than a stronger disturbance is stronger is decided by
  /// rounding.
  static constexpr double kUnlike = 4;
  static double slack_for(size_t operators);
};

struct Comparison {
  bool equal = true;  ///< under the tolerance
  bool bitwise = true;
  /// Unequal: only values are, of results that were approximated.
  bool maybe_rounding = true;
  bool by_reference = false;  ///< some element was accepted for the reference's sake
  double max_abs = 0;         ///< over finite pairs
  /// Unequal: "at [3, 17]: eager 0.5, compiled 0.25" with the reference's value where there is one,
  /// or the differing layout.
  std::string what;
};

/// What explains a difference; all of the compared tensors' layout.
struct Witnesses {
  /// The compiled result with its sums disturbed in several ways, the first time not at all.
  std::vector<at::Tensor> disturbed;
  at::Tensor reference;  ///< undefined: there is none
};

/// `expected`: eager's.
Comparison compare(const at::Tensor& expected, const at::Tensor& came, const Tolerance& tolerance,
                   const Witnesses& witnesses = {});

/// The one with the larger eps; types that are not floating are ignored.
c10::ScalarType coarser(c10::ScalarType a, c10::ScalarType b);

}  // namespace graft::runtime
