// Which kind of work an operator does.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lab/profile/table.h"

namespace graft::lab {
namespace {

constexpr std::string_view kMatmuls[] = {
    "matmul", "linear", "dot",   "vdot",   "mv",        "addmv",    "addmv_",
    "ger",    "addr",   "outer", "einsum", "tensordot", "bilinear", "linear_backward"};
// Before the tags: copy_ and fill_ count as pointwise there, to and contiguous as views.
constexpr std::string_view kMemory[] = {"copy_",
                                        "clone",
                                        "cat",
                                        "_cat",
                                        "concat",
                                        "stack",
                                        "contiguous",
                                        "to",
                                        "_to_copy",
                                        "fill_",
                                        "zero_",
                                        "zeros",
                                        "ones",
                                        "full",
                                        "arange",
                                        "new_zeros",
                                        "new_ones",
                                        "new_full",
                                        "zeros_like",
                                        "ones_like",
                                        "full_like",
                                        "index",
                                        "index_select",
                                        "index_copy",
                                        "index_copy_",
                                        "index_put",
                                        "index_put_",
                                        "_index_put_impl_",
                                        "index_add",
                                        "index_add_",
                                        "gather",
                                        "take",
                                        "take_along_dim",
                                        "scatter",
                                        "scatter_",
                                        "scatter_add",
                                        "scatter_add_",
                                        "embedding",
                                        "embedding_backward",
                                        "embedding_dense_backward",
                                        "repeat",
                                        "repeat_interleave",
                                        "tile",
                                        "pad",
                                        "constant_pad_nd",
                                        "roll",
                                        "flip",
                                        "tril",
                                        "triu",
                                        "tril_",
                                        "triu_",
                                        "masked_select",
                                        "nonzero",
                                        "resize_",
                                        "set_",
                                        "slice_backward",
                                        "select_backward",
                                        "narrow_copy",
                                        "one_hot",
                                        "type_as",
                                        "masked_scatter"};
constexpr std::string_view kViews[] = {"_unsafe_view", "reshape",        "flatten", "resolve_conj",
                                       "resolve_neg",  "_reshape_alias", "view_as", "detach_"};
constexpr std::string_view kReductions[] = {
    "cumsum",    "cumprod",    "sort",     "topk",     "argsort",
    "logsumexp", "_logsumexp", "var_mean", "std_mean", "cosine_similarity",
    "histc",     "bincount",   "unique"};
constexpr std::string_view kElementwise[] = {
    "dropout",      "dropout_",      "native_dropout", "native_dropout_backward",
    "_fused_adam_", "_fused_adamw_", "_fused_sgd_",    "bernoulli_",
    "glu"};

template <size_t N>
bool any_of(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(names, names + N, name) != names + N;
}

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

struct Facts {
  bool pointwise = false, reduction = false, view = false;
};

/// What libtorch itself says, by name without overload.
std::unordered_map<std::string, Facts> read_facts() {
  std::unordered_map<std::string, Facts> out;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op) continue;
    Facts& facts = out[name.name];
    facts.pointwise |= op->hasTag(at::Tag::pointwise);
    facts.reduction |= op->hasTag(at::Tag::reduction);
    const auto& returns = op->schema().returns();
    facts.view |= !returns.empty() && returns[0].alias_info() != nullptr &&
                  !returns[0].alias_info()->isWrite();
  }
  return out;
}

const Facts& facts_of(const std::string& name) {
  static const auto known = read_facts();
  static const Facts none;
  const auto found = known.find(name);
  return found == known.end() ? none : found->second;
}

bool is_matmul(std::string_view name) {
  return name.ends_with("mm") || name.ends_with("mm_") || any_of(name, kMatmuls) ||
         has(name, "convolution") || name.starts_with("conv1d") || name.starts_with("conv2d") ||
         name.starts_with("conv3d") || has(name, "conv_transpose") || has(name, "attention") ||
         has(name, "_addmm_") || has(name, "linear_pointwise") || name == "mkldnn_linear";
}

bool is_reduction(std::string_view name) {
  return has(name, "softmax") || has(name, "norm") || has(name, "_loss") || has(name, "pool") ||
         any_of(name, kReductions);
}

Kind kind_of_operator(std::string_view full) {
  const size_t colons = full.find("::");
  if (full.starts_with("graft::kernel-")) return Kind::Compiled;
  // Autograd's own steps: the work is in the operators that they call.
  if (full.starts_with("autograd::") || full.starts_with("torch::")) return Kind::Other;
  if (colons == std::string_view::npos)  // "MulBackward0", and autograd's wrappers such as "detach"
    return facts_of("aten::" + std::string(full)).view ? Kind::View : Kind::Other;
  std::string_view name = full.substr(colons + 2);
  const bool each = name.starts_with("_foreach_");
  if (each) name.remove_prefix(std::string_view("_foreach_").size());
  if (name.starts_with("normal")) return Kind::Other;  // random numbers, not a norm
  if (is_matmul(name)) return Kind::Matmul;
  if (name.starts_with("empty") || any_of(name, kMemory)) return Kind::Memory;
  if (any_of(name, kViews)) return Kind::View;
  const Facts& facts = facts_of(std::string(full.substr(0, colons + 2)).append(name));
  if (facts.view) return Kind::View;
  if (facts.reduction || is_reduction(name)) return Kind::Reduction;
  if (each || facts.pointwise || any_of(name, kElementwise)) return Kind::Elementwise;
  return Kind::Other;
}

}  // namespace

const char* to_string(Kind kind) {
  switch (kind) {
    case Kind::Matmul:
      return "matmul";
    case Kind::Elementwise:
      return "element-wise";
    case Kind::Reduction:
      return "reduction";
    case Kind::Memory:
      return "memory movement";
    case Kind::View:
      return "views";
    case Kind::Compiled:
      return "compiled by graft";
    case Kind::Other:
      break;
  }
  return "other";
}

Kind kind_of(const ProfileEvent& event) {
  if (event.is_range) return event.name.starts_with(kCompiledPrefix) ? Kind::Compiled : Kind::Other;
  return kind_of_operator(event.name);
}

}  // namespace graft::lab
