#include "passes/plain_calls.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace graft::passes {

bool is_plain(const ir::Extern& call) {
  constexpr std::array<std::string_view, 11> kPlain = {"aten::mm",
                                                      "aten::addmm",
                                                      "aten::bmm",
                                                      "aten::baddbmm",
                                                      "aten::convolution",
                                                      "aten::convolution_backward",
                                                      "aten::mkldnn_convolution",
                                                      "aten::gelu",
                                                      "aten::gelu_backward",
      "aten::_scaled_dot_product_flash_attention_for_cpu",
      "aten::_scaled_dot_product_flash_attention_for_cpu_backward"};
  return std::find(kPlain.begin(), kPlain.end(), call.op.name) != kPlain.end();
}

}  // namespace graft::passes
