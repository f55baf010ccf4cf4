// Which kind of work an operator counts as.

#include <gtest/gtest.h>

#include <string>

#include "lab/profile/table.h"

namespace graft::lab {
namespace {

TEST(ProfileKind, OfOperators) {
  const auto kind = [](const std::string& name) { return kind_of(ProfileEvent{.name = name}); };
  for (const char* name :
       {"aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "aten::matmul", "aten::convolution",
        "aten::mkldnn_convolution", "aten::scaled_dot_product_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::baddbmm", "aten::mv"})
    EXPECT_EQ(kind(name), Kind::Matmul) << name;
  for (const char* name : {"aten::add", "aten::mul_", "aten::gelu", "aten::silu", "aten::where",
                           "aten::sigmoid_backward", "aten::rsqrt", "aten::_foreach_addcdiv_"})
    EXPECT_EQ(kind(name), Kind::Elementwise) << name;
  for (const char* name :
       {"aten::sum", "aten::mean", "aten::softmax", "aten::_softmax", "aten::native_layer_norm",
        "aten::layer_norm", "aten::amax", "aten::linalg_vector_norm", "aten::nll_loss_forward"})
    EXPECT_EQ(kind(name), Kind::Reduction) << name;
  for (const char* name : {"aten::copy_", "aten::clone", "aten::cat", "aten::contiguous",
                           "aten::fill_", "aten::index", "aten::embedding", "aten::to",
                           "aten::empty_strided", "aten::zeros", "aten::_foreach_copy_"})
    EXPECT_EQ(kind(name), Kind::Memory) << name;
  for (const char* name :
       {"aten::view", "aten::t", "aten::transpose", "aten::expand", "aten::slice",
        "aten::as_strided", "aten::reshape", "aten::unsqueeze", "detach"})
    EXPECT_EQ(kind(name), Kind::View) << name;
  for (const char* name : {"aten::normal_", "AddmmBackward0", "my::operator",
                           "autograd::engine::evaluate_function: MmBackward0"})
    EXPECT_EQ(kind(name), Kind::Other) << name;
  EXPECT_EQ(kind_of(ProfileEvent{.name = "graft::rope", .is_range = true}), Kind::Compiled);
  EXPECT_EQ(kind_of(ProfileEvent{.name = "forward", .is_range = true}), Kind::Other);
}

}  // namespace
}  // namespace graft::lab
