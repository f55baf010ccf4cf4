// What is known only after the run: its results, what it changed, and what it kept.
#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include <torch/csrc/autograd/function.h>  // variable.h of torch 2.15 lacks it
#include <torch/csrc/autograd/variable.h>

#include "record/other_numbers.h"
#include "record/recorder.h"

namespace graft::record {
namespace {

/// Does it stay so? Operators that run on other threads hold tensors for moments only.
template <class Fn>
bool stays(Fn is_held) {
  constexpr int kLooks = 20;
  for (int i = 0; i < kLooks; ++i) {
    if (!is_held()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(i * 50));
  }
  return true;
}

}  // namespace

Survivors::Survivors(const std::vector<at::Tensor>& results) {
  for (const at::Tensor& tensor : results) {
    if (!tensor.defined()) continue;
    add(tensor);
    if (!tensor.is_view()) continue;
    // A view holds its base once for backward and once for forward differentiation, or once for
    // both.
    const auto* meta = torch::autograd::impl::get_view_autograd_meta(tensor);
    add(tensor._base(), meta->shared_view_info() ? 1 : 2);
  }
}

void Survivors::add(const at::TensorBase& tensor, size_t references) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (size_t* count = references_.find(impl)) {
    *count += references;
    return;
  }
  references_.insert(impl, references);
  if (!tensor.has_storage()) return;
  const void* storage = tensor.storage().unsafeGetStorageImpl();
  size_t* count = objects_.find(storage);
  objects_.insert(storage, (count == nullptr ? 0 : *count) + 1);
}

size_t Survivors::references(const at::Tensor& tensor) {
  const size_t* count = references_.find(tensor.unsafeGetTensorImpl());
  return count == nullptr ? 0 : *count;
}

size_t Survivors::objects(const c10::StorageImpl* storage) {
  const size_t* count = objects_.find(storage);
  return count == nullptr ? 0 : *count;
}

Trace Recorder::finish(const Outcome& outcome) {
  const std::vector<at::Tensor>& results = outcome.results;
  drawn_ = {};
  if (bystander_ != nullptr && !trace_.broken)
    if (std::string why = bystander_->finish(trace_.participants); !why.empty())
      give_up(std::move(why));
  for (const at::Tensor& tensor : results) {  // the caller's own stay as they are
    if (trace_.broken || !tensor.defined() || !is_view_of_other_numbers(tensor)) continue;
    const Known* known = known_.find(tensor.unsafeGetTensorImpl());
    if (known == nullptr || known->kind == Known::Kind::View) follow_from_layout(tensor);
  }
  Survivors survivors(results);
  if (!trace_.broken) check_generators();
  if (!trace_.broken && !outcome.graph_stays) capture_held(survivors);
  if (!trace_.broken) add_results(results, outcome.graph_is_spent);
  std::vector<const at::Tensor*> surviving;
  for (const at::Tensor& tensor : results) surviving.push_back(&tensor);
  each_owner([&](const CallersTensor&, const at::Tensor& owner) {
    if (!gradients_.changed(owner)) return;
    const at::Tensor& gradient = gradient_of(owner);
    if (gradient.defined()) survivors.add(gradient, 1), surviving.push_back(&gradient);
  });
  if (!trace_.broken) check_leaves(outcome.graph_stays);
  if (!trace_.broken) check_gradients_memory();
  find_owners(survivors, outcome.graph_stays);
  if (!trace_.broken) check_held(survivors, outcome.graph_stays);
  if (!trace_.broken && !outcome.graph_stays) check_kept(surviving, survivors);
  if (!trace_.broken) {
    trace_.bumped = bumped(args_, trace_.arguments, args_before_, "argument ");
    trace_.bumped_captured =
        bumped(trace_.captured, trace_.captured_tensors, captured_before_, "captured tensor ");
  }
  if (auto outside = storages_.settle(trace_.tensors)) give_up(std::move(*outside));
  return std::move(trace_);
}

void Recorder::check_generators() {
  std::vector<const c10::GeneratorImpl*> held;
  for (const OperatorRecord& op : trace_.ops) {
    for (const Operand& operand : op.inputs) {
      if (operand.constant.isGenerator())
        held.push_back(operand.constant.toGenerator().unsafeGetGeneratorImpl());
    }
  }
  if (auto why = generators_.finish(held)) give_up(std::move(*why));
}

void Recorder::add_results(const std::vector<at::Tensor>& results, bool graph_is_spent) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : results) {
    const std::string who = c10::str("result ", all.size());
    trace_.results.push_back(result(who, tensor, all));
    const ResultInfo& info = trace_.results.back();
    if (tensor.defined() && tensor.requires_grad() && info.argument < 0 && info.captured < 0 &&
        !graph_is_spent)
      give_up(who +
              " requires grad, and the run has no record of its backward; return it detached, or "
              "call the function under at::NoGradGuard or c10::InferenceMode");
    if (trace_.broken) return;
    all.push_back(tensor);
  }
  add_gradients(all);
  add_bases(all);
  for (size_t i = 0; i < all.size() && !trace_.broken; ++i) {
    const Lineage found = lineage(i, all);
    if (found.view && c10::GradMode::is_enabled() && !is_view_of_other_numbers(all[i]) &&
        torch::autograd::impl::get_view_autograd_meta(all[i])->get_backward_view().has_view_fn())
      return give_up(c10::str("result ", i, ", a ", describe_tensor(all[i]),
                              ", is a view that autograd keeps the function of; return its base, "
                              "and take the view after the call"));
    trace_.results[i].lineage = found;
  }
}

ResultInfo Recorder::result(const std::string& who, const at::Tensor& tensor,
                            const std::vector<at::Tensor>& earlier) {
  ResultInfo info;
  if (!tensor.defined()) {
    info.defined = false;
    return info;
  }
  const size_t place = earlier.size();
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  for (size_t i = 0; i < place && info.same_as < 0; ++i) {
    if (earlier[i].is_same(tensor)) info.same_as = static_cast<int>(i);
  }
  if (!is_plain(impl)) {
    give_up(c10::str(who, " is a ", describe_tensor(tensor),
                     "; Graft compiles dense CPU tensors: convert it after the call"));
    return info;
  }
  const int storage = storages_.find(impl);
  if (storage < 0) {
    give_up(
        c10::str(who, ", a ", describe_tensor(tensor),
                 ", was made by no recorded operator (a kernel called past the dispatcher, another "
                 "thread, or a tensor that the function only hands on); make it by at:: "
                 "functions on the calling thread, or return it outside the compiled function"));
    return info;
  }
  const Known* known = known_.find(&impl);
  if (known != nullptr && known->kind == Known::Kind::Argument) info.argument = known->index;
  if (known != nullptr && known->kind == Known::Kind::Captured) info.captured = known->index;
  StorageInfo& memory = trace_.storages[storage];
  if (memory.origin == StorageInfo::Origin::Made) {
    memory.escapes = true;
    if (!is_filled(tensor, storage)) {
      give_up(
          c10::str(who, ", a ", describe_tensor(tensor), " that ",
                   toString(trace_.ops[memory.maker].op.operator_name()),
                   " made, was filled by no recorded operator (a data pointer or another thread "
                   "did); fill it by operators, or outside the compiled function"));
      return info;
    }
  } else if (known == nullptr) {
    aliases_.push_back({tensor, Held(impl)});
    known_.insert(&impl, {});
  }
  info.tensor = describe(impl, storage);
  return info;
}

void Recorder::check_held(Survivors& survivors, bool graph_stays) {
  for (int k = 0; k < static_cast<int>(args_.size()); ++k) {
    if (!args_[k].defined()) continue;
    const c10::TensorImpl& tensor = *args_[k].unsafeGetTensorImpl();
    const int info = trace_.arguments[k];
    if (!same_layout(tensor, trace_.tensors[info], /*address=*/true) ||
        storages_.find(tensor) != trace_.tensors[info].storage ||
        tensor.requires_grad() != args_before_[k].requires_grad) {
      return give_up(
          c10::str("the function changed the layout, memory or requires_grad of argument ", k,
                   " itself; change a view or a copy of it instead"));
    }
    const size_t most = args_before_[k].references + survivors.references(args_[k]);
    if (!graph_stays && stays([&] { return args_[k].use_count() > most; })) {
      return give_up(
          c10::str("the function keeps argument ", k,
                   " (in a member, a global or a container): a side effect that a plan cannot "
                   "repeat; copy_ it into a tensor made before, or keep it outside the compiled "
                   "function"));
    }
  }
  for (const auto& [tensor, before] : aliases_)
    if (!graph_stays && tensor.use_count() > 1 + survivors.references(tensor))
      return give_up(
          c10::str("the function holds a ", describe_tensor(tensor),
                   " that shares memory with an argument; the next call's argument may be "
                   "elsewhere, so pass both as arguments"));
  if (!graph_stays) check_aliases(survivors);
  if (trace_.broken) return;
  for (size_t k = 0; k < trace_.captured.size(); ++k) {
    const at::Tensor& tensor = trace_.captured[k];
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (!same_layout(impl, trace_.tensors[trace_.captured_tensors[k]], /*address=*/true) ||
        impl.requires_grad() != captured_before_[k].requires_grad) {
      return give_up(
          c10::str("the function changed the layout, memory or requires_grad of captured tensor ",
                   k, ", a ", describe_tensor(tensor), "; change a view or a copy of it instead"));
    }
    if (!trace_.gradient_of[k] && !held_elsewhere(tensor, survivors)) {
      // Known leaves tell whether it was the gradient of one.
      trace_.lost_tensor = true;
      return give_up(
          c10::str("the function uses a ", describe_tensor(tensor),
                   " that no recorded operator made and that is gone after the call (replaced in "
                   "it, as by h = h.detach(), or made on another thread or by from_blob); what "
                   "the function keeps from call to call it must change in place (h.copy_()), "
                   "and what it only reads must be made outside, and captured or passed"));
    }
  }
}

/// Other objects over captured memory that somebody holds are captured tensors, too. What stays
/// stands for one of that place that goes with the run (p.data()).
void Recorder::capture_held(Survivors& survivors) {
  for (const auto& [tensor, before] : aliases_) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    const int storage = storages_.find(impl);
    if (trace_.storages[storage].origin != StorageInfo::Origin::Captured ||
        tensor.use_count() <= 1 + survivors.references(tensor))
      continue;
    const int info = describe(impl, storage);
    auto gone = [&](size_t k) {
      const at::Tensor& seen = trace_.captured[k];
      return trace_.captured_tensors[k] == info &&
             seen.use_count() <= 1 + survivors.references(seen);
    };
    size_t k = 0;
    while (k < trace_.captured.size() && !gone(k)) ++k;
    if (k == trace_.captured.size()) {
      trace_.captured.emplace_back();
      trace_.captured_tensors.push_back(info);
      captured_before_.emplace_back();
    }
    trace_.captured[k] = tensor;
    captured_before_[k] = before;
    known_.insert(&impl, {Known::Kind::Captured, static_cast<int>(k)});
  }
  std::erase_if(aliases_, [&](const Alias& alias) {
    const Known* known = known_.find(alias.tensor.unsafeGetTensorImpl());
    return known != nullptr && known->kind == Known::Kind::Captured;
  });
}

/// A detached alias or a view of an argument that stays holds the argument's memory, not the
/// argument.
void Recorder::check_aliases(Survivors& survivors) {
  for (size_t k = 0; k < args_.size(); ++k) {
    if (!args_[k].defined() || !args_[k].has_storage()) continue;
    const c10::StorageImpl* storage = args_[k].storage().unsafeGetStorageImpl();
    // What the result holds of it, less the arguments and captures that were there before.
    size_t made = survivors.objects(storage);
    std::set<const c10::TensorImpl*> before;  // each is counted once
    auto leave_out = [&](const std::vector<at::Tensor>& tensors) {
      for (const at::Tensor& tensor : tensors)
        if (tensor.defined() && tensor.has_storage() &&
            tensor.storage().unsafeGetStorageImpl() == storage &&
            survivors.references(tensor) > 0 && before.insert(tensor.unsafeGetTensorImpl()).second)
          --made;
    };
    leave_out(args_);
    leave_out(trace_.captured);
    // And what only the record holds; check_held looks at who else holds it.
    for (const auto& [alias, before_run] : aliases_)
      if (alias.storage().unsafeGetStorageImpl() == storage && survivors.references(alias) == 0 &&
          before.insert(alias.unsafeGetTensorImpl()).second)
        ++made;
    const size_t most = args_before_[k].owners + made;
    if (stays([&] { return args_[k].storage().use_count() > most; }))
      return give_up(
          c10::str("the function keeps a view or an alias of argument ", k,
                   " (in a member, a global or a container): a side effect that a plan cannot "
                   "repeat; copy_ it into a tensor made before, or keep it outside the compiled "
                   "function"));
  }
}

// A tensor that was there before the run is somebody's. One whose memory only the record still
// holds was made in the run, out of the recorder's sight, and would be another at the next call.
bool Recorder::held_elsewhere(const at::Tensor& tensor, Survivors& survivors) const {
  if (tensor.use_count() > 1 + survivors.references(tensor)) return true;
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  size_t objects = survivors.objects(storage);
  for (const at::Tensor& other : trace_.captured) {
    if (other.storage().unsafeGetStorageImpl() != storage) continue;
    if (other.use_count() > 1 + survivors.references(other)) return true;
    if (survivors.references(other) == 0) ++objects;
  }
  return tensor.storage().use_count() > objects;
}

void Recorder::check_kept(const std::vector<const at::Tensor*>& results, Survivors& survivors) {
  std::vector<bool> kept(trace_.storages.size());
  for (const at::Tensor* result : results) {
    const at::Tensor& tensor = *result;
    if (!tensor.defined()) continue;
    const int storage = storages_.find(*tensor.unsafeGetTensorImpl());
    kept[storage] = kept[storage] || tensor.use_count() > survivors.references(tensor);
    if (!tensor.is_view()) continue;
    const at::Tensor base(tensor._base());
    kept[storage] = kept[storage] || base.use_count() > 1 + survivors.references(base);
  }
  for (int s = 0; s < static_cast<int>(trace_.storages.size()); ++s) {
    const StorageInfo& memory = trace_.storages[s];
    if (memory.origin != StorageInfo::Origin::Made) continue;
    if (!kept[s] && storages_.owners(s) <= survivors.objects(storages_.made(s))) continue;
    return give_up(c10::str(
        "the function keeps a tensor that ", toString(trace_.ops[memory.maker].op.operator_name()),
        " made (in a member, a global or a container): a side effect that a plan "
        "cannot repeat; return it, or copy_ into a tensor made before"));
  }
}

std::vector<int> Recorder::bumped(const std::vector<at::Tensor>& tensors,
                                  const std::vector<int>& infos, const std::vector<Held>& before,
                                  const char* what) {
  std::set<int> mutated;
  for (const OperatorRecord& op : trace_.ops) mutated.insert(op.mutated.begin(), op.mutated.end());
  std::set<const void*> counters;
  std::vector<int> result;
  for (int k = 0; k < static_cast<int>(tensors.size()); ++k) {
    if (!tensors[k].defined() || !tensors[k].unsafeGetTensorImpl()->version_counter().enabled())
      continue;
    if (tensors[k]._version() == before[k].version) continue;
    if (!mutated.contains(trace_.tensors[infos[k]].storage)) {
      give_up(
          c10::str(what, k, ", a ", describe_tensor(tensors[k]),
                   ", changed during the run, but by no recorded operator (another thread, or a "
                   "kernel called past the dispatcher); change it outside the compiled function"));
    }
    if (counters.insert(version_counter(tensors[k])).second) result.push_back(k);
  }
  return result;
}

}  // namespace graft::record
