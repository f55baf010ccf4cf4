// How a result that is a tensor of its own stands to other tensors, as autograd sees it.
//
// Eager's results carry more than values: y.t() is an autograd view of y, x.detach() shares the
// version counter of x, and what a function makes under InferenceMode is an inference tensor. A
// result is rebuilt with the same standing, so that what the caller does with it afterwards (an
// in-place operator, requires_grad_(), backward) means the same as after an eager call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace graft {

struct Lineage {
  enum class Root : uint8_t {
    None,      ///< a tensor with a version counter of its own
    Argument,  ///< argument `index`
    Captured,  ///< captured tensor `index`
    Result,    ///< result `index`, which may come later and is no view itself
  } root = Root::None;
  int index = -1;
  /// An autograd view of the root (of the root's base where the root is a view itself). Otherwise
  /// it only shares the root's version counter.
  bool view = false;
  /// torch::autograd::CreationMeta of a view: which in-place operators autograd allows on it.
  uint8_t creation = 0;
  bool inference = false;  ///< an inference tensor: outside of autograd for good
  bool operator==(const Lineage&) const = default;
};

/// A tensor that the caller has: an argument or a captured tensor.
struct CallersTensor {
  bool captured = false;
  int index = -1;
  bool operator==(const CallersTensor&) const = default;
};

/// Which tensor a result is.
struct Returned {
  int argument = -1;  ///< >= 0: that argument's own TensorImpl
  int captured = -1;  ///< >= 0: that captured tensor's
  int same_as = -1;   ///< >= 0: that earlier result's
  bool defined = true;
  /// False: the base of returned views, which the function itself keeps, or a gradient.
  bool returned = true;
  /// It becomes the gradient of this leaf (Tensor::grad()). Undefined: the leaf has none then.
  std::optional<CallersTensor> gradient_of = {};
  Lineage lineage;  ///< of a tensor that is none of the above
};

/// What follows a result's place in printed programs: ", view of argument 0", ", version of result
/// 1", ", inference"; empty for a tensor that stands alone.
std::string print(const Lineage& lineage);

}  // namespace graft
