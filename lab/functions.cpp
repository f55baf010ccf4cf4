#include "lab/functions.h"

#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <string_view>

namespace graft::lab {
namespace {

// Operators that call these, as selu does elu, are not among them.
constexpr std::string_view kOne[] = {
    "exp",   "exp2",          "expm1",    "log",           "log2",
    "log10", "log1p",         "sin",      "cos",           "tan",
    "asin",  "acos",          "atan",     "atan2",         "sinh",
    "cosh",  "tanh",          "asinh",    "acosh",         "atanh",
    "erf",   "erfc",          "erfinv",   "sigmoid",       "logit",
    "silu",  "silu_backward", "gelu",     "gelu_backward", "elu",
    "pow",   "xlogy",         "lgamma",   "digamma",       "sinc",
    "i0",    "polygamma",     "_softmax", "_log_softmax",  "_log_softmax_backward_data"};
constexpr std::string_view kTwo[] = {"softplus", "logaddexp", "log_sigmoid_forward"};
constexpr std::string_view kThree[] = {"mish"};

/// Functions for each element of the first result.
int functions_in(std::string_view name) {
  auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return among(kOne) ? 1 : among(kTwo) ? 2 : among(kThree) ? 3 : 0;
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
  constexpr std::string_view kAten = "aten::";
  if (!name.starts_with(kAten)) return;
  name.remove_prefix(kAten.size());
  if (name.ends_with('_')) name.remove_suffix(1);
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
  const auto remove = c10::make_scope_exit([&] { at::removeCallback(handle); });
  call();
  return counted;
}

}  // namespace graft::lab
