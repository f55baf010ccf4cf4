// How many functions a program computes: exp, log, tanh and the like, which take tens of
// instructions each. Its lower bound in time counts them beside bytes and FLOPs.
#pragma once

#include <functional>

namespace graft::lab {

/// Runs `call` once and counts the values of such functions in what its operators compute, as eager
/// runs them: one each of exp, log, sigmoid and softmax, two of softplus. Operators of other
/// libraries, whole powers and square roots count nothing. Only operators of the calling thread.
double functions_of(const std::function<void()>& call);

}  // namespace graft::lab
