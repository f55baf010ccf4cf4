// The memory of one run of a plan.
#pragma once

#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <string>

#include "runtime/plan/plan.h"

namespace graft::runtime {

/// Memory from the pool; resizable, as storages of ATen's factories are.
c10::Storage make_storage(int64_t bytes);
/// A tensor object as eager makes one, over `storage`, `offset` bytes from its start.
at::Tensor make_own(const ViewSpec& spec, const c10::Storage& storage, int64_t offset,
                    bool inference);
/// Where the caller's tensor begins. `written`: a lazy clone gets memory of its own.
char* data_of(const c10::TensorImpl& impl, bool written);
/// Runs a kernel, on ATen's threads where its range is long. `bases`: per block; `pointers`:
/// working memory, as long as the step's pointers.
void launch(const KernelStep& step, char* const* bases, char** pointers);

class Frame {
 public:
  Frame(const Plan& plan, const detail::FlatArgs& args, const at::Tensor* captured,
        const Plan::StandIns* stand_ins);
  /// Awaits what was started and not awaited, as when a later call throws: its memory goes.
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  char* at(const Place& place) const {
    return bases_[static_cast<size_t>(place.block)] + place.offset;
  }
  char* const* bases() const { return bases_.data(); }
  /// Calls an operator and binds the memory it returns. Throws what the operator throws, and
  /// PlanError.
  void call(const ExternStep& step);
  /// Throws c10::Error where there is no memory.
  void acquire(const std::vector<int>& blocks);
  void release(const std::vector<int>& blocks);
  /// `memory`: of the folded blocks, in their order.
  void bind_folded(const Folded& folded, const std::vector<c10::Storage>& memory);
  /// Makes a result of the plan; `others`: the results, as far as they are made
  /// (Plan::result_order_).
  at::Tensor result(const ResultSpec& spec, const at::Tensor* others) const;

 private:
  // run.cpp
  void bind(const Block& block, size_t b);
  void allocate(size_t b);

  // frame_views.cpp
  at::Tensor view(const ViewSpec& spec) const;
  at::Tensor own_result(const ResultSpec& spec, const at::Tensor* others) const;
  const at::Tensor* root(const Lineage& lineage, const at::Tensor* others) const;
  const c10::Storage& storage_of(const ViewSpec& spec, const Block& block) const;
  const at::Tensor& carrier(const ViewSpec& spec, const Block& block) const;

  // extern_call.cpp
  c10::IValue value(const ExternStep& step, const ExternStep::Slot& slot) const;
  void take(const ExternStep& step, const c10::IValue& returned, size_t& next);
  void take_tensor(const ExternStep& step, const at::Tensor& tensor, size_t& next);
  /// A new tensor's memory becomes its block, as it came or as it was recorded.
  void bind_returned(const ViewSpec& expected, const at::Tensor& tensor);

  bool stands_in(int block) const {
    return stand_ins_ != nullptr && (*stand_ins_)[static_cast<size_t>(block)];
  }
  const Block& block(const ViewSpec& spec) const {
    return plan_.blocks_[static_cast<size_t>(spec.place.block)];
  }

  const Plan& plan_;
  const detail::FlatArgs& args_;
  const at::Tensor* captured_;
  const Plan::StandIns* stand_ins_;
  c10::SmallVector<char*, 24> bases_;
  c10::SmallVector<c10::Storage, 8> storages_;  ///< per block; empty while no block has one
  std::vector<std::pair<at::Tensor, std::string>> under_way_;  ///< collectives, with their names
  c10::DataPtr arena_;  ///< seen by whoever watches the allocator
};

}  // namespace graft::runtime
