#include "passes/plain_calls.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace graft::passes {

namespace {

constexpr std::array<std::string_view, 4> kProducts = {"aten::mm", "aten::addmm", "aten::bmm",
                                                       "aten::baddbmm"};
constexpr std::array<std::string_view, 7> kOthers = {
    "aten::convolution",
    "aten::convolution_backward",
    "aten::mkldnn_convolution",
    "aten::gelu",
    "aten::gelu_backward",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward"};

template <size_t count>
bool is_among(const std::array<std::string_view, count>& names, const ir::Extern& call) {
  return std::find(names.begin(), names.end(), call.op.name) != names.end();
}

}  // namespace

bool is_plain(const ir::Extern& call) {
  return is_among(kProducts, call) || is_among(kOthers, call);
}

std::optional<double> product_flops(const ir::Extern& call) {
  if (!is_among(kProducts, call) || call.op.overload == "out" || call.outputs.empty() ||
      call.outputs.front().dtype == c10::ScalarType::Double ||
      !c10::isFloatingType(call.outputs.front().dtype))
    return std::nullopt;
  double flops = 2;
  for (int64_t size : call.outputs.front().sizes) flops *= static_cast<double>(size);
  // Behind the factors there may be numbers, as alpha.
  const auto right =
      std::find_if(call.slots.rbegin(), call.slots.rend(),
                   [](const ir::Extern::Slot& slot) { return slot.kind == OperandKind::Tensor; });
  if (right == call.slots.rend() || right->views.empty() || right->views[0] < 0)
    return std::nullopt;
  const std::vector<int64_t>& sizes = call.inputs[static_cast<size_t>(right->views[0])].sizes;
  if (sizes.size() < 2) return std::nullopt;
  return flops * static_cast<double>(sizes[sizes.size() - 2]);
}

}  // namespace graft::passes
