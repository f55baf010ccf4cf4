#include "systems/checkpoint/kept.h"

#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace graft::systems::checkpointing {
namespace {

// A key below autograd, where nodes of the graph are made already, and above the backends. LibTorch
// has no kernels and no fallback for it.
constexpr auto kKey = c10::DispatchKey::Fake;

// Work grows faster than the bytes of what they return.
constexpr std::array<std::string_view, 8> kExpensive = {
    "aten::mm",          "aten::addmm",
    "aten::bmm",         "aten::baddbmm",
    "aten::convolution", "aten::convolution_overrideable",
    "aten::_scaled_mm",  "aten::_scaled_dot_product_flash_attention_for_cpu"};

thread_local KeepScope* innermost = nullptr;

bool is_expensive(const c10::OperatorHandle& op) {
  return std::ranges::find(kExpensive, op.operator_name().name) != kExpensive.end() &&
         op.operator_name().overload_name != "out";
}

// A tensor of its own on the same memory: autograd gives the other one a node.
at::Tensor alias(const at::Tensor& tensor, const c10::VariableVersion& version) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(version, true));
}

}  // namespace

bool KeptResults::Result::is_unchanged() const {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined() && tensors[i]._version() != versions[i]) return false;
  return true;
}

int64_t KeptResults::bytes(const std::vector<at::Tensor>& but) const {
  std::set<const void*> seen;
  for (const at::Tensor& tensor : but)
    if (tensor.defined()) seen.insert(tensor.storage().unsafeGetStorageImpl());
  int64_t sum = 0;
  for (const Result& result : results_)
    for (const at::Tensor& tensor : result.tensors)
      if (tensor.defined() && seen.insert(tensor.storage().unsafeGetStorageImpl()).second)
        sum += static_cast<int64_t>(tensor.storage().nbytes());
  return sum;
}

void KeptResults::forget_changed() {
  for (Result& result : results_)
    if (!result.is_unchanged()) result.tensors.clear();
}

void KeepScope::install() {
  static const c10::RegistrationHandleRAII registration = [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    TORCH_CHECK(!dispatcher.hasBackendFallbackForDispatchKey(kKey),
                "Recompute::CheapOperators needs the dispatch key Fake, which another library of "
                "this process has taken; use Recompute::Everything");
    return dispatcher.registerFallback(
        kKey, c10::KernelFunction::makeFromBoxedFunction<&KeepScope::intercept>(),
        "graft: keeps results of expensive operators");
  }();
}

KeepScope::KeepScope(KeptResults& results, Mode mode)
    : results_(results),
      mode_(mode),
      outer_(innermost),
      was_included_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  install();
  innermost = this;
  c10::impl::tls_set_dispatch_key_included(kKey, true);
}

KeepScope::~KeepScope() {
  innermost = outer_;
  c10::impl::tls_set_dispatch_key_included(kKey, was_included_);
}

void KeepScope::intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          torch::jit::Stack* stack) {
  // What the operator calls itself is part of it.
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  KeepScope* scope = innermost;
  const bool expensive = scope != nullptr && is_expensive(op);
  if (expensive && scope->mode_ == Mode::Replay && scope->replay(op, *stack)) return;
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
  if (expensive && scope->mode_ == Mode::Record) scope->record(op, *stack);
}

void KeepScope::record(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  KeptResults::Result result{op.operator_name(), {}, {}};
  for (const c10::IValue& value : torch::jit::last(stack, op.schema().returns().size())) {
    // Operators with other results are run again.
    if (!value.isTensor()) {
      result.tensors.clear();
      break;
    }
    const at::Tensor& tensor = value.toTensor();
    result.tensors.push_back(
        tensor.defined() ? alias(tensor, tensor.unsafeGetTensorImpl()->version_counter()) : tensor);
    result.versions.push_back(
        tensor.defined() ? tensor.unsafeGetTensorImpl()->version_counter().current_version() : 0);
  }
  results_.results_.push_back(std::move(result));
}

bool KeepScope::replay(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const auto& all = results_.results_;
  TORCH_CHECK(next_ < all.size() && all[next_].op == op.operator_name(),
              "a checkpointed function did other work when it ran again: ", op.operator_name(),
              " came where the first run had ",
              next_ < all.size() ? c10::toString(all[next_].op) : "ended",
              "; make it do the same each time, or do not checkpoint it");
  const KeptResults::Result& result = all[next_++];
  if (result.tensors.empty() || !result.is_unchanged()) return false;
  torch::jit::drop(stack, op.schema().arguments().size());
  for (const at::Tensor& tensor : result.tensors)
    stack.emplace_back(tensor.defined() ? alias(tensor, c10::VariableVersion(0)) : tensor);
  return true;
}

void KeepScope::check_complete() const {
  TORCH_CHECK(next_ == results_.results_.size(),
              "a checkpointed function did other work when it ran again: it came to ", next_,
              " of ", results_.results_.size(),
              " products of matrices, convolutions and attentions; make it do the same each time, "
              "or do not checkpoint it");
}

}  // namespace graft::systems::checkpointing
