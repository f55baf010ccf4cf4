#include "runtime/plan/replay.h"

#include <c10/core/impl/COW.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/memory/pool.h"
#include "runtime/plan/frame.h"

namespace graft::runtime {

namespace {

/// A function that takes memory takes time.
constexpr int64_t kMostKept = int64_t{1} << 20;

bool is_own(const ResultSpec& result) {
  return result.kind == ResultSpec::Kind::View && result.lineage.root == Lineage::Root::None;
}

bool is_held(const Block& block) {
  return block.kind == Block::Kind::Output || block.kind == Block::Kind::Arena ||
         block.kind == Block::Kind::Temporary;
}

}  // namespace

bool Replay::serves(const Plan& plan) {
  int64_t bytes = 0;
  for (const Block& block : plan.blocks_) {
    if (block.kind == Block::Kind::Extern || block.kind == Block::Kind::Folded) return false;
    if (is_held(block)) bytes += block.bytes;
  }
  auto is_simple = [&](const ResultSpec& result) {
    if (result.gradient_of || !result.returned) return false;
    if (is_own(result))
      return plan.blocks_[static_cast<size_t>(result.view.place.block)].kind == Block::Kind::Output;
    return result.kind == ResultSpec::Kind::Argument || result.kind == ResultSpec::Kind::Same ||
           result.kind == ResultSpec::Kind::Undefined;
  };
  return bytes <= kMostKept && plan.externs_.empty() && plan.undone_steps_ == 0 &&
         std::all_of(plan.results_.begin(), plan.results_.end(), is_simple);
}

Replay::Replay(const Plan& plan) : plan_(plan), bases_(plan.blocks_.size()) {
  pointers_.resize(plan.max_pointers_);
  for (size_t b = 0; b < plan.blocks_.size(); ++b) {
    const Block& block = plan.blocks_[b];
    if (block.is_callers()) callers_.push_back(b);
    if (block.kind == Block::Kind::Output) outputs_.push_back(b);
    if (block.kind == Block::Kind::Arena || block.kind == Block::Kind::Temporary) {
      memory_.push_back(pool_data(static_cast<size_t>(block.bytes)));
      bases_[b] = static_cast<char*>(memory_.back().get());
    }
    if (block.kind == Block::Kind::Part)
      bases_[b] = bases_[static_cast<size_t>(block.source)] + block.ahead;
  }
  for (const ResultSpec& result : plan.results_)
    output_of_.push_back(static_cast<size_t>(
        std::find(outputs_.begin(), outputs_.end(), static_cast<size_t>(result.view.place.block)) -
        outputs_.begin()));
}

void Replay::fill(Slot& slot) const {
  Slot made;
  for (size_t b : outputs_) {
    Memory& memory = made.emplace_back();
    memory.storage = make_storage(plan_.blocks_[b].bytes);
    const at::DataPtr& data = std::as_const(*memory.storage.unsafeGetStorageImpl()).data_ptr();
    memory.data = data.get();
    memory.deleter = data.get_deleter();
  }
  slot = std::move(made);
}

bool Replay::is_free(const Slot& slot) const {
  if (slot.size() != outputs_.size()) return false;
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const c10::StorageImpl& storage = *slot[o].storage.unsafeGetStorageImpl();
    // A lazy clone shares the memory without holding this storage.
    const at::DataPtr& data = storage.data_ptr();
    if (slot[o].storage.use_count() != 1 || c10::impl::cow::is_cow_data_ptr(data) ||
        data.get() != slot[o].data || data.get_deleter() != slot[o].deleter ||
        storage.nbytes() != static_cast<size_t>(plan_.blocks_[outputs_[o]].bytes))
      return false;
  }
  // What the last holder, on another thread, read came before.
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

Plan::Outcome Replay::run(const detail::FlatArgs& args, c10::TensorImpl* const* captured,
                          at::Tensor* results) {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  try {
    if (!is_free(slot)) fill(slot);
    for (size_t b : callers_) {
      const Block& block = plan_.blocks_[b];
      const auto source = static_cast<size_t>(block.source);
      const c10::TensorImpl& impl = block.kind == Block::Kind::Argument
                                        ? *args.tensors[source]->unsafeGetTensorImpl()
                                        : *captured[source];
      bases_[b] = data_of(impl, block.written) - block.back;
    }
  } catch (const c10::Error&) {
    return Plan::Outcome::GivenUp;  // out of memory: eager may need less
  }
  for (size_t o = 0; o < outputs_.size(); ++o)
    bases_[outputs_[o]] = static_cast<char*>(
        slot[o].storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
  auto raise = plan_.raises_.begin();
  auto raise_written_by = [&](size_t step) {
    for (; raise != plan_.raises_.end() && raise->step <= step; ++raise) {
      const auto k = static_cast<size_t>(raise->index);
      c10::TensorImpl* impl =
          raise->captured ? captured[k] : args.tensors[k]->unsafeGetTensorImpl();
      if (!impl->is_inference()) impl->bump_version();
    }
  };
  for (size_t s = 0; s < plan_.steps_.size(); ++s) {
    const Step& step = plan_.steps_[s];
    if (step.kind == Step::Kind::Abort) {
      const Place& flag = step.flag;
      if (bases_[static_cast<size_t>(flag.block)][flag.offset] != 0) return Plan::Outcome::GivenUp;
      continue;
    }
    raise_written_by(s);
    launch(plan_.kernels_[static_cast<size_t>(step.index)], bases_.data(), pointers_.data());
  }
  raise_written_by(plan_.steps_.size());
  for (int i : plan_.result_order_) {
    const ResultSpec& result = plan_.results_[static_cast<size_t>(i)];
    if (is_own(result))
      results[i] = make_own(result.view, slot[output_of_[static_cast<size_t>(i)]].storage,
                            result.view.place.offset, result.lineage.inference);
    else if (result.kind == ResultSpec::Kind::Argument)
      results[i] = *args.tensors[static_cast<size_t>(result.index)];
    else if (result.kind == ResultSpec::Kind::Same)
      results[i] = results[result.index];
  }
  return Plan::Outcome::Done;
}

}  // namespace graft::runtime
