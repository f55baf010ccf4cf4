// Tensors of numbers that the function itself writes down: at::tensor({0.3, 0.6, 0.1}),
// x.index_put_({mask}, 0.3).
#pragma once

#include <cstdint>

namespace graft::record {

/// Is the calling thread inside at::tensor? Nothing that the dispatcher shows tells it from a
/// function that fills memory through a pointer, perhaps with other numbers at each call; so the
/// call stack is asked. False where it cannot be read.
bool inside_at_tensor();

/// Is it inside at::Tensor::index_put_(indices, number)? That makes a tensor of the number past the
/// dispatcher, which is as much a constant as the number itself. False where the stack cannot be
/// read.
bool inside_index_put_of_number();

/// Longer ones are not taken for numbers.
constexpr int64_t kMostNumbers = 64;

}  // namespace graft::record
