#include "record/operators.h"

#include <ATen/core/enum_tag.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "record/pointer_map.h"

namespace graft::record {
namespace {

// In-place operators that do not look at what they overwrite. Those that store to a part
// (index_copy_) count as well: as with slices, filling a fresh buffer part by part is what they are
// for.
constexpr std::array<std::string_view, 16> kOverwriting = {
    "aten::copy_",      "aten::fill_",    "aten::zero_",       "aten::normal_",
    "aten::uniform_",   "aten::random_",  "aten::bernoulli_",  "aten::exponential_",
    "aten::geometric_", "aten::cauchy_",  "aten::log_normal_", "aten::index_copy_",
    "aten::index_put_", "aten::scatter_", "aten::eye_",        "aten::_index_put_impl_"};

// Composite operators whose own kernel reads its tensors' data on the host, or writes past the
// dispatcher, so that the operators it calls do not tell all. Complete for libtorch 2.11: all of
// its CompositeImplicitAutograd kernels from which calls lead to data_ptr() or to a kernel without
// an operator in between, less those that fill fresh memory so (cdist: the recorder sees that
// nothing filled it; max_pool1d: kFillsItself) and those of nested tensors.
constexpr std::array<std::string_view, 20> kReadOnHost = {
    "aten::tensor_split.tensor_indices_or_sections",
    "aten::lstm.data",
    "aten::gru.data",
    "aten::rnn_tanh.data",
    "aten::rnn_relu.data",
    "aten::_pad_packed_sequence",
    "aten::_pack_padded_sequence_backward",
    "aten::ctc_loss.Tensor",
    "aten::choose_qparams_optimized",
    "aten::_reshape_from_tensor",
    "aten::_rowwise_prune",
    "aten::_saturate_weight_to_fp16",
    "aten::_sobol_engine_draw",
    "aten::_sobol_engine_ff_",
    "aten::_sobol_engine_initialize_state_",
    "aten::_sobol_engine_scramble_",
    "aten::_grid_sampler_2d_cpu_fallback_backward",
    "aten::_validate_sparse_coo_tensor_args",
    "aten::_wrapped_linear_prepack",
    "aten::_wrapped_quantized_linear_prepacked"};

// Operators that are no CompositeImplicitAutograd ones, but whose CPU kernels call operators and do
// nothing else: those are recorded in their place.
constexpr std::array<std::string_view, 7> kMadeOfOperators = {
    "aten::allclose",         "aten::binary_cross_entropy_with_logits",
    "aten::soft_margin_loss", "aten::rand",
    "aten::rand_like",        "aten::randn",
    "aten::randn_like"};

/// One that fills fresh memory past the dispatcher, unless a backward needs to know more.
constexpr std::string_view kFillsItself = "aten::max_pool1d";

/// Likewise a loop over lists, except where a tensor of numbers is read on the host first.
bool is_loop_over_lists(std::string_view name, std::string_view overload) {
  bool reads_numbers =
      overload.starts_with("Tensor") &&
      (name.starts_with("aten::_foreach_addcmul") || name.starts_with("aten::_foreach_addcdiv"));
  return name.starts_with("aten::_foreach_") && !reads_numbers;
}

// Leaves without the tag that says so: the sizes of their results come from data (`lengths`,
// offsets, how many values differ) ...
constexpr std::array<std::string_view, 3> kSizedByData = {
    "aten::_pack_padded_sequence", "aten::_unique", "aten::_padded_dense_to_jagged_forward"};
// ... or a number that they return does.
constexpr std::string_view kReturnsData = "aten::_nested_tensor_from_mask_left_aligned";

/// A generated out= form lacks its operator's tags.
bool has_tag(const c10::OperatorHandle& op, at::Tag tag) {
  if (op.hasTag(tag)) return true;
  std::string overload = op.schema().overload_name();
  if (!overload.ends_with("out")) return false;
  overload.resize(overload.size() - 3);
  if (overload.ends_with("_")) overload.pop_back();
  const auto plain = c10::Dispatcher::singleton().findSchema({op.schema().name(), overload});
  return plain && plain->hasTag(tag);
}

// These clone the whole memory that `self` lies in, and write into that.
constexpr std::array<std::string_view, 4> kCopiesWholeMemory = {
    "aten::slice_scatter", "aten::select_scatter", "aten::diagonal_scatter",
    "aten::as_strided_scatter"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.starts_with(start);
}

Operand::Kind kind_of(const c10::TypePtr& type) {
  using Kind = Operand::Kind;
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Kind::Tensor;
    case c10::TypeKind::OptionalType: {
      const Kind inner = kind_of(type->castRaw<c10::OptionalType>()->getElementType());
      return inner == Kind::TensorList ? Kind::OptionalTensorList : inner;
    }
    case c10::TypeKind::ListType: {
      const auto element = type->castRaw<c10::ListType>()->getElementType();
      if (element->kind() == c10::TypeKind::TensorType) return Kind::TensorList;
      if (kind_of(element) == Kind::Tensor) return Kind::OptionalTensorList;
      return Kind::Constant;
    }
    default:
      return Kind::Constant;
  }
}

}  // namespace

OperatorFacts::OperatorFacts(const c10::OperatorHandle& h)
    : handle(h), name(h.schema().name()), overload(h.schema().overload_name()) {
  full_name = overload.empty() ? name : name + "." + overload;
  const std::string_view base = std::string_view(name).substr(name.find("::") + 2);

  // Given num_classes, its own kernel reads the largest index on the host only to check it.
  counts_classes = name == "aten::one_hot";
  const bool reads_on_host = contains(kReadOnHost, full_name) ||
                             starts_with(base, "fbgemm_linear_") ||
                             starts_with(base, "fbgemm_pack_");
  // silu_backward has a kernel for the CPU besides, which runs then.
  const bool implicit = h.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
                        !h.hasKernelForDispatchKey(c10::DispatchKey::CPU);
  fills_itself = name == kFillsItself;
  composite =
      (implicit || contains(kMadeOfOperators, name) || is_loop_over_lists(name, overload)) &&
      !counts_classes && !reads_on_host && !fills_itself && name != "aten::is_nonzero";
  autocasts = h.hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU);
  uninitialized =
      starts_with(base, "empty") || starts_with(base, "new_empty") || starts_with(base, "_empty");
  changes_layout = h.hasTag(at::Tag::inplace_view);
  strided_view = starts_with(base, "as_strided");
  draws = h.hasTag(at::Tag::nondeterministic_seeded);
  for (const c10::Argument& argument : h.schema().arguments())
    takes_mode = takes_mode || argument.name() == "train" || argument.name() == "training" ||
                 argument.name() == "use_input_stats";
  tells_number = name == "aten::_local_scalar_dense";
  tells_value = tells_number || name == "aten::equal" || name == "aten::is_nonzero";
  reads_data = has_tag(h, at::Tag::data_dependent_output) || reads_on_host || tells_value ||
               name == kReturnsData;
  makes_blank = uninitialized;
  for (const std::string_view blank :
       {"zeros", "new_zeros", "ones", "new_ones", "full", "new_full"})
    makes_blank = makes_blank || starts_with(base, blank);
  // Zeros are what functions make to fill them through pointers.
  repeats = starts_with(name, "aten::") && !draws && !reads_data && base != "from_file" &&
            !starts_with(base, "zero") && !starts_with(base, "new_zeros");
  // As many as `minlength` says, but for data that it was not meant for.
  const bool has_usual_size = name == "aten::bincount" || full_name == "aten::_ctc_loss";
  shapes_by_data =
      (has_tag(h, at::Tag::dynamic_output_shape) && !counts_classes && !has_usual_size) ||
      contains(kSizedByData, name);
  integer_indices_keep_shape = base == "index";
  // These schemas do not say that they write running_mean and running_var.
  if (name == "aten::native_batch_norm") running_statistics = 3, training_flag = 5;
  if (name == "aten::batch_norm_update_stats") running_statistics = 1;

  const bool metadata_only = base.ends_with("_like") || starts_with(base, "new_") ||
                             base == "is_same_size" || base == "_fused_sdp_choice";
  const bool overwrites = contains(kOverwriting, name);
  for (const c10::Argument& argument : h.schema().arguments()) {
    ArgumentFacts facts;
    facts.kind = kind_of(argument.type());
    if (facts.kind != Operand::Kind::Constant) {
      const c10::AliasInfo* alias = argument.alias_info();
      if (alias != nullptr && alias->isWrite()) {
        // rrelu's noise is an output beside the result.
        const bool filled = argument.is_out() || argument.name() == "noise";
        facts.access = changes_layout                    ? Access::None
                       : filled                          ? Access::Write
                       : overwrites && arguments.empty() ? Access::Write
                                                         : Access::ReadWrite;
      } else if (alias != nullptr) {
        facts.access = Access::View;
      } else {
        facts.access = metadata_only ? Access::None : Access::Read;
      }
    }
    arguments.push_back(facts);
  }
  bool makes = false;
  for (const c10::Argument& result : h.schema().returns()) {
    returns.push_back(kind_of(result.type()));
    makes = makes || (returns.back() != Operand::Kind::Constant && result.alias_info() == nullptr);
  }
  loop_checks_sizes = name == "aten::bincount";
  unknown_shapes = has_usual_size || (makes && !composite && !starts_with(name, "aten::") &&
                                      !h.hasKernelForDispatchKey(c10::DispatchKey::Meta));
}

bool copies_whole_memory(const c10::OperatorHandle& op) {
  return contains(kCopiesWholeMemory, op.schema().name());
}

const OperatorFacts* facts_of(const at::RecordFunction& fn) {
  // The name of an operator's range is its schema's own string, so its address stands for the
  // operator. Asking for operator_name() instead copies two strings, a fifth of what recording an
  // operator may cost.
  thread_local PointerMap<std::unique_ptr<OperatorFacts>> cache;
  const char* key = fn.name();
  if (auto* found = cache.find(key)) {
    const OperatorFacts& facts = **found;
    // Addresses are used again: by a user's range, or an operator of a library loaded in place of
    // another.
    if (facts.name == key && facts.overload == fn.overload_name()) return &facts;
  }
  const auto name = fn.operator_name();
  if (!name) return nullptr;
  const auto handle = c10::Dispatcher::singleton().findSchema(*name);
  if (!handle) return nullptr;
  auto facts = std::make_unique<OperatorFacts>(*handle);
  const OperatorFacts* result = facts.get();
  cache.insert(key, std::move(facts));
  return result;
}

}  // namespace graft::record
