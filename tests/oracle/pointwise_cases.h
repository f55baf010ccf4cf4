// Cases of pointwise rows: sizes, layouts and dtypes of the operands of one form.
#pragma once

#include <vector>

#include "oracle/forms.h"
#include "oracle/harness.h"
#include "oracle/layouts.h"

namespace graft::test {

inline constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                             at::kChar,  at::kShort,  at::kInt,  at::kLong,
                                             at::kByte,  at::kBool};

struct PointwiseCase {
  std::vector<int64_t> sizes = {65};
  /// One per operand; the last one is used for those that are missing. Empty: contiguous.
  std::vector<Layout> layouts = {};
  Layout out_layout = Layout::Contiguous;
  std::optional<at::ScalarType> other = {};      ///< of operands from the second on
  std::optional<at::ScalarType> out_dtype = {};  ///< of out= tensors; otherwise eager's own
  bool same_tensor = false;                      ///< all operands are one tensor
  bool specials = true;                          ///< NaN, infinities, limits among the data
};

/// Dtypes that get every layout. The others share the addresses' code with these.
bool is_thorough(at::ScalarType type);

std::vector<PointwiseCase> layout_cases(int operands, bool thorough);
std::vector<PointwiseCase> few_cases(int operands);
std::vector<PointwiseCase> in_place_cases(int operands, bool few);
std::vector<PointwiseCase> out_cases(int operands);
std::vector<PointwiseCase> mixed_cases(int operands);

/// The call of `form` with operands as the case says, of dtype `type`.
Check check_of(const ops::PointwiseRow& row, const Form& form, const PointwiseCase& c,
               at::ScalarType type);

/// The same with Numerics::Fast: no further from the call in double than eager. `chain`: between
/// operators that a fused kernel does not round after (f(0.75 a + 0.125) * 1.5 - 0.25).
Check fast_check_of(const ops::PointwiseRow& row, const Form& form, const PointwiseCase& c,
                    at::ScalarType type, bool chain);

}  // namespace graft::test
