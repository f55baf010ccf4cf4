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
constexpr std::array<std::string_view, 18> kOverwriting = {
    "aten::copy_",          "aten::fill_",           "aten::zero_",       "aten::normal_",
    "aten::uniform_",       "aten::random_",         "aten::bernoulli_",  "aten::exponential_",
    "aten::geometric_",     "aten::cauchy_",         "aten::log_normal_", "aten::index_copy_",
    "aten::index_put_",     "aten::scatter_",        "aten::eye_",        "aten::_foreach_copy_",
    "aten::_foreach_zero_", "aten::_index_put_impl_"};

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

bool is_scalar(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::OptionalType) {
    return is_scalar(type->castRaw<c10::OptionalType>()->getElementType());
  }
  return type->kind() == c10::TypeKind::NumberType;
}

// alpha, beta and value scale an operand and never widen the result (bool + bool stays bool with
// alpha 1).
bool scalar_promotes(const c10::Argument& argument) {
  return is_scalar(argument.type()) && !argument.kwarg_only() && argument.name() != "alpha" &&
         argument.name() != "beta" && argument.name() != "value";
}

}  // namespace

OperatorFacts::OperatorFacts(const c10::OperatorHandle& h)
    : handle(h), name(h.schema().name()), overload(h.schema().overload_name()) {
  full_name = overload.empty() ? name : name + "." + overload;
  const std::string_view base = std::string_view(name).substr(name.find("::") + 2);

  // Given num_classes, its own kernel reads the largest index on the host only to check it.
  counts_classes = name == "aten::one_hot";
  composite =
      h.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) && !counts_classes;
  autocasts = h.hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU);
  uninitialized =
      starts_with(base, "empty") || starts_with(base, "new_empty") || starts_with(base, "_empty");
  changes_layout = h.hasTag(at::Tag::inplace_view);
  strided_view = starts_with(base, "as_strided");
  reads_data = h.hasTag(at::Tag::data_dependent_output);
  // A packed sequence's sizes come from `lengths`, though the schema does not say so.
  shapes_by_data = (h.hasTag(at::Tag::dynamic_output_shape) && !counts_classes) ||
                   base == "_pack_padded_sequence";
  integer_indices_keep_shape = base == "index";
  // Batch norm's schemas do not say that they write.
  trains_statistics = name == "aten::native_batch_norm";

  const bool metadata_only = base.ends_with("_like") || starts_with(base, "new_") ||
                             base == "is_same_size" || base == "_fused_sdp_choice";
  const bool overwrites =
      std::find(kOverwriting.begin(), kOverwriting.end(), name) != kOverwriting.end();
  for (const c10::Argument& argument : h.schema().arguments()) {
    ArgumentFacts facts;
    facts.kind = kind_of(argument.type());
    facts.promotes =
        facts.kind == Operand::Kind::Constant ? scalar_promotes(argument) : !argument.is_out();
    if (facts.kind != Operand::Kind::Constant) {
      const c10::AliasInfo* alias = argument.alias_info();
      if (alias != nullptr && alias->isWrite()) {
        facts.access = changes_layout                    ? Access::None
                       : argument.is_out()               ? Access::Write
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
  for (const c10::Argument& result : h.schema().returns())
    returns.push_back(kind_of(result.type()));
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
