#include "lab/functions.h"

#include <ATen/record_function.h>

#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace graft::lab {
namespace {

/// Functions for each element of the first result.
int functions_in(std::string_view name) {
  static const std::unordered_map<std::string_view, int> table{{"exp", 1},
                                                               {"exp2", 1},
                                                               {"expm1", 1},
                                                               {"log", 1},
                                                               {"log2", 1},
                                                               {"log10", 1},
                                                               {"log1p", 1},
                                                               {"sin", 1},
                                                               {"cos", 1},
                                                               {"tan", 1},
                                                               {"asin", 1},
                                                               {"acos", 1},
                                                               {"atan", 1},
                                                               {"atan2", 1},
                                                               {"sinh", 1},
                                                               {"cosh", 1},
                                                               {"tanh", 1},
                                                               {"asinh", 1},
                                                               {"acosh", 1},
                                                               {"atanh", 1},
                                                               {"erf", 1},
                                                               {"erfc", 1},
                                                               {"erfinv", 1},
                                                               {"sigmoid", 1},
                                                               {"logit", 1},
                                                               {"silu", 1},
                                                               {"gelu", 1},
                                                               {"silu_backward", 1},
                                                               {"gelu_backward", 1},
                                                               {"elu", 1},
                                                               {"celu", 1},
                                                               {"selu", 1},
                                                               {"softplus", 2},
                                                               {"mish", 3},
                                                               {"pow", 1},
                                                               {"_softmax", 1},
                                                               {"xlogy", 1},
                                                               {"_log_softmax", 1},
                                                               {"logaddexp", 2},
                                                               {"lgamma", 1},
                                                               {"digamma", 1},
                                                               {"float_power", 1},
                                                               {"log_sigmoid_forward", 2},
                                                               {"_log_softmax_backward_data", 1}};
  const auto found = table.find(name);
  return found == table.end() ? 0 : found->second;
}

/// Is its exponent one that takes no function: 2, 3, 0.5, …?
bool is_whole_power(const at::RecordFunction& call) {
  if (call.inputs().size() < 2 || !call.inputs()[1].isScalar()) return false;
  const double exponent = call.inputs()[1].toScalar().toDouble();
  return 2 * exponent == std::round(2 * exponent);
}

thread_local double counted = 0;

/// Of a power that takes no function.
struct Product : at::ObserverContext {};

/// Arguments are gone at a call's end.
std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  const bool is_power = name == "aten::pow" || name == "aten::pow_";
  return is_power && is_whole_power(call) ? std::make_unique<Product>() : nullptr;
}

void on_end(const at::RecordFunction& call, at::ObserverContext* product) {
  if (product != nullptr) return;
  std::string_view name = call.name();
  if (name.substr(0, 6) != "aten::") return;
  name.remove_prefix(6);
  if (!name.empty() && name.back() == '_') name.remove_suffix(1);
  const int each = functions_in(name);
  if (each == 0 || call.outputs().empty() || !call.outputs()[0].isTensor()) return;
  const at::Tensor& made = call.outputs()[0].toTensor();
  if (made.defined()) counted += each * static_cast<double>(made.numel());
}

}  // namespace

double functions_of(const std::function<void()>& call) {
  counted = 0;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                                     .needsInputs(true)
                                                     .needsOutputs(true)
                                                     .scopes({at::RecordScope::FUNCTION}));
  try {
    call();
  } catch (...) {
    at::removeCallback(handle);
    throw;
  }
  at::removeCallback(handle);
  return counted;
}

}  // namespace graft::lab
