// Views of complex numbers as real ones (view_as_real, real, imag), and of real ones as complex
// ones: as_strided cannot tell how such a view follows from its base, so that autograd keeps a
// function for it.
#pragma once

#include <ATen/core/Tensor.h>

namespace graft::record {

/// Is it such a view, by autograd's account? (Not one that is also lazily conjugated or negated.)
bool is_view_of_other_numbers(const at::Tensor& tensor);

/// Gives a view whose base is complex where it is not, or the other way round, functions that
/// follow from its layout. Autograd's own hold tensors between the base and the view, which then
/// look as if somebody kept them. `tensor` is an autograd view.
void follow_from_layout(const at::Tensor& tensor);

}  // namespace graft::record
