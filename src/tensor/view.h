// What the recorder, the loop program and plans all say of tensors: where one lies, and how an
// operator takes it.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace graft {

/// A strided tensor over a storage. Storages are numbered by whoever describes a run: a trace, a
/// program.
struct View {
  int storage = -1;  ///< -1: an undefined tensor
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  int64_t byte_offset = 0;  ///< from the storage's base
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  ///< elements
  bool operator==(const View&) const = default;
};

/// Lets the view begin `steps` elements further along dimension `d`.
inline void advance(View& view, size_t d, int64_t steps) {
  view.byte_offset += steps * view.strides[d] * static_cast<int64_t>(c10::elementSize(view.dtype));
}

/// The real (0) or imaginary (1) parts of a complex view.
inline View part(View view, int which) {
  view.dtype = c10::toRealValueType(view.dtype);
  view.byte_offset += which * static_cast<int64_t>(c10::elementSize(view.dtype));
  for (int64_t& stride : view.strides) stride *= 2;
  return view;
}

/// Elements [from, from + count) of dimension `d`.
inline View narrow(View view, size_t d, int64_t from, int64_t count) {
  if (count > 0) advance(view, d, from);
  view.sizes[d] = count;
  return view;
}

/// Elements from a tensor's first to behind its last, of strides that are not negative; 0 without
/// elements.
template <class Sizes, class Strides>
int64_t elements_reached(const Sizes& sizes, const Strides& strides) {
  int64_t elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    elements += (sizes[i] - 1) * strides[i];
  }
  return elements;
}

/// How an operator's schema takes an argument, or gives a result.
enum class OperandKind : uint8_t {
  Constant,  ///< no tensor: a number, a list of numbers, a text, None …
  Tensor,    ///< one, which may be undefined
  TensorList,
  OptionalTensorList,  ///< some of them may be None
  Number,              ///< a Scalar whose value is that of a 0-dim fp64 tensor
};

}  // namespace graft
