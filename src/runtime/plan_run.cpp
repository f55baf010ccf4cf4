#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "graft/pool.h"
#include "runtime/plan.h"
#include "runtime/pool.h"
#include "runtime/scratch.h"

namespace graft::runtime {

at::Tensor make_view(const ViewSpec& spec, const c10::Storage& storage, int64_t offset) {
  auto impl = c10::make_intrusive<at::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                  spec.dtype);
  if (spec.contiguous && offset == 0)
    impl->set_sizes_contiguous(c10::IntArrayRef(spec.sizes));
  else
    impl->set_sizes_and_strides(c10::IntArrayRef(spec.sizes), c10::IntArrayRef(spec.strides),
                                offset / static_cast<int64_t>(spec.dtype.itemsize()));
  return at::Tensor(std::move(impl));
}

/// The memory of one run.
class Frame {
 public:
  Frame(const Plan& plan, const detail::FlatArgs& args, const at::Tensor* captured, const Plan::StandIns* stand_ins)
      : plan_(plan), args_(args), captured_(captured), stand_ins_(stand_ins) {
    bases_.resize_for_overwrite(plan.blocks_.size());
    if (!plan.outputs_.empty() || !plan.externs_.empty()) storages_.resize(plan.blocks_.size());
    for (size_t b = 0; b < plan.blocks_.size(); ++b) bind(plan.blocks_[b], b);
  }
  ~Frame() {
    if (arena_ != nullptr) pool_free(arena_);
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  char* at(const Place& place) const { return bases_[static_cast<size_t>(place.block)] + place.offset; }

  void launch(const KernelStep& step, char** pointers) const {
    for (size_t i = 0; i < step.pointers.size(); ++i) pointers[i] = at(step.pointers[i]);
    const codegen::Binding& binding = step.binding;
    codegen::LaunchArgs launch{pointers, binding.integers.data(), binding.scalars.data()};
    if (binding.range_extent <= binding.grain) {
      step.fn(&launch, thread_scratch(binding.scratch_bytes), 0, binding.range_extent);
      return;
    }
    at::parallel_for(0, binding.range_extent, binding.grain, [&](int64_t begin, int64_t end) {
      step.fn(&launch, thread_scratch(binding.scratch_bytes), begin, end);
    });
  }

  void call(const ExternStep& step) {
    torch::jit::Stack stack;
    stack.reserve(step.slots.size());
    for (const auto& slot : step.slots) stack.push_back(value(step, slot));
    step.op.callBoxed(stack);
    size_t next = 0;
    for (const c10::IValue& returned : stack) take(step, returned, next);
    if (next != step.outputs.size()) throw PlanError(name(step) + " returned fewer tensors than when it was recorded", false);
  }

  void release(const std::vector<int>& blocks) {
    for (int b : blocks) storages_[static_cast<size_t>(b)] = c10::Storage();
  }

  at::Tensor view(const ViewSpec& spec) const {
    const Block& block = plan_.blocks_[static_cast<size_t>(spec.place.block)];
    if (!stands_in(spec.place.block)) {
      if (spec.argument >= 0) return *args_.tensors[static_cast<size_t>(spec.argument)];
      if (spec.captured >= 0) return captured_[spec.captured];
    }
    const c10::Storage& storage = storage_of(spec, block);
    int64_t offset = at(spec.place) - static_cast<const char*>(storage.data());
    return make_view(spec, storage, offset);
  }

  at::Tensor result(const ResultSpec& spec, const at::Tensor* earlier) const {
    switch (spec.kind) {
      case ResultSpec::Kind::Undefined: return {};
      case ResultSpec::Kind::Same: return earlier[spec.index];
      case ResultSpec::Kind::Argument: return *args_.tensors[static_cast<size_t>(spec.index)];
      case ResultSpec::Kind::Captured: return captured_[spec.index];
      case ResultSpec::Kind::View: break;
    }
    const Block& block = plan_.blocks_[static_cast<size_t>(spec.view.place.block)];
    bool callers = block.kind == Block::Kind::Argument || block.kind == Block::Kind::Captured;
    if (callers && !stands_in(spec.view.place.block)) return view_of_callers(spec.view);
    at::Tensor made = make_view(spec.view, storages_[static_cast<size_t>(spec.view.place.block)],
                                at(spec.view.place) - static_cast<const char*>(
                                                          storages_[static_cast<size_t>(spec.view.place.block)].data()));
    if (spec.sibling >= 0 && !made.is_inference())
      made.unsafeGetTensorImpl()->set_version_counter(earlier[spec.sibling].unsafeGetTensorImpl()->version_counter());
    return made;
  }

 private:
  bool stands_in(int block) const { return stand_ins_ != nullptr && (*stand_ins_)[static_cast<size_t>(block)]; }

  static char* data_of(const at::Tensor& tensor, bool written) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
    // Asking for mutable data gives a lazy clone memory of its own, as an operator that writes would.
    const void* data = written ? storage->mutable_data() : storage->data();
    return const_cast<char*>(static_cast<const char*>(data)) +
           impl.storage_offset() * static_cast<int64_t>(impl.dtype().itemsize());
  }

  void bind(const Block& block, size_t b) {
    if (stands_in(static_cast<int>(b))) {
      storages_.resize(plan_.blocks_.size());
      storages_[b] = (*stand_ins_)[b];
      bases_[b] = static_cast<char*>(storages_[b].mutable_data());
      return;
    }
    switch (block.kind) {
      case Block::Kind::Argument:
        bases_[b] = data_of(*args_.tensors[static_cast<size_t>(block.source)], block.written) - block.back;
        break;
      case Block::Kind::Captured:
        bases_[b] = data_of(captured_[block.source], block.written) - block.back;
        break;
      case Block::Kind::Output:
        storages_[b] = make_storage(block.bytes);
        bases_[b] = static_cast<char*>(storages_[b].unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
        break;
      case Block::Kind::Arena:
        if (plan_.arena_shared_) {
          storages_[b] = make_storage(block.bytes);
          bases_[b] = static_cast<char*>(storages_[b].mutable_data());
        } else {
          arena_ = pool_allocate(static_cast<size_t>(block.bytes));
          bases_[b] = static_cast<char*>(arena_);
        }
        break;
      case Block::Kind::Extern: bases_[b] = nullptr; break;
    }
  }

  static c10::Storage make_storage(int64_t bytes) {
    return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(bytes),
                                                 pool_data(static_cast<size_t>(bytes)), c10::GetCPUAllocator(),
                                                 /*resizable=*/true);
  }

  const c10::Storage& storage_of(const ViewSpec& spec, const Block& block) const {
    bool callers = block.kind == Block::Kind::Argument || block.kind == Block::Kind::Captured;
    if (!callers || stands_in(spec.place.block)) return storages_[static_cast<size_t>(spec.place.block)];
    return carrier(spec, block).storage();
  }
  /// The caller's tensor over whose c10::Storage the view goes.
  const at::Tensor& carrier(const ViewSpec& spec, const Block& block) const {
    if (spec.carrier_argument >= 0) return *args_.tensors[static_cast<size_t>(spec.carrier_argument)];
    if (spec.carrier_captured >= 0) return captured_[spec.carrier_captured];
    return block.kind == Block::Kind::Argument ? *args_.tensors[static_cast<size_t>(block.source)]
                                               : captured_[block.source];
  }

  /// A view of the caller's tensor, as eager returns it: ATen makes it where autograd may ask what it is a view of.
  at::Tensor view_of_callers(const ViewSpec& spec) const {
    const at::Tensor& base = carrier(spec, plan_.blocks_[static_cast<size_t>(spec.place.block)]);
    int64_t offset = at(spec.place) - static_cast<const char*>(base.storage().data());
    if (!c10::InferenceMode::is_enabled() && base.dtype() == spec.dtype)
      return at::as_strided(base, spec.sizes, spec.strides, offset / static_cast<int64_t>(spec.dtype.itemsize()));
    at::Tensor made = make_view(spec, base.storage(), offset);
    if (!made.is_inference() && !base.is_inference())
      made.unsafeGetTensorImpl()->set_version_counter(base.unsafeGetTensorImpl()->version_counter());
    return made;
  }

  c10::IValue value(const ExternStep& step, const ExternStep::Slot& slot) const {
    using Kind = ir::Extern::Slot::Kind;
    auto tensor = [&](int index) {
      return index < 0 ? at::Tensor() : view(step.inputs[static_cast<size_t>(index)]);
    };
    switch (slot.kind) {
      case Kind::Constant: return slot.constant;
      case Kind::Tensor:
        if (slot.optional && slot.views.at(0) < 0) return {};
        return tensor(slot.views.at(0));
      case Kind::TensorList: {
        c10::List<at::Tensor> list;
        list.reserve(slot.views.size());
        for (int index : slot.views) list.push_back(tensor(index));
        return list;
      }
      case Kind::OptionalTensorList: {
        c10::List<std::optional<at::Tensor>> list;
        list.reserve(slot.views.size());
        for (int index : slot.views) list.push_back(index < 0 ? std::nullopt : std::make_optional(tensor(index)));
        return list;
      }
    }
    return {};
  }

  void take(const ExternStep& step, const c10::IValue& returned, size_t& next) {
    if (returned.isTensor()) {
      if (returned.toTensor().defined()) take_tensor(step, returned.toTensor(), next);
    } else if (returned.isTensorList()) {
      for (const at::Tensor& tensor : returned.toTensorVector())
        if (tensor.defined()) take_tensor(step, tensor, next);
    }
  }

  void take_tensor(const ExternStep& step, const at::Tensor& tensor, size_t& next) {
    if (next >= step.outputs.size()) throw PlanError(name(step) + " returned more tensors than when it was recorded", false);
    const ExternStep::Output& output = step.outputs[next++];
    if (!output.made) return;
    const ViewSpec& expected = output.view;
    if (tensor.dtype() != expected.dtype || tensor.sizes() != c10::IntArrayRef(expected.sizes) ||
        tensor.strides() != c10::IntArrayRef(expected.strides))
      throw PlanError(name(step) + " returned another layout than when it was recorded", false);
    auto b = static_cast<size_t>(expected.place.block);
    char* base = data_of(tensor, true) - expected.place.offset;
    if (output.binds) {
      const c10::Storage& storage = tensor.storage();
      int64_t before = base - static_cast<const char*>(storage.data());
      if (before < 0 || static_cast<int64_t>(storage.nbytes()) - before < plan_.blocks_[b].bytes)
        throw PlanError(name(step) + " returned less memory than when it was recorded", false);
      storages_[b] = storage;
      bases_[b] = base;
    } else if (bases_[b] != base) {
      throw PlanError(name(step) + " returned tensors that no longer share memory", false);
    }
  }

  static std::string name(const ExternStep& step) { return c10::toString(step.op.operator_name()); }

  const Plan& plan_;
  const detail::FlatArgs& args_;
  const at::Tensor* captured_;
  const Plan::StandIns* stand_ins_;
  c10::SmallVector<char*, 24> bases_;
  c10::SmallVector<c10::Storage, 8> storages_;  ///< by block; empty while no block has one
  void* arena_ = nullptr;
};

namespace {

/// While an extern call runs: no gradient is recorded for it, autocast's casts are operators of the record already, and
/// what it allocates comes from the pool.
struct ExternGuards {
  at::NoGradGuard no_grad;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
  PoolGuard pool;
};

}  // namespace

Plan::Outcome Plan::run(const detail::FlatArgs& args, const at::Tensor* captured, at::Tensor* results,
                        const StandIns* stand_ins) const {
  std::optional<Frame> made;
  try {
    made.emplace(*this, args, captured, stand_ins);
  } catch (const c10::Error&) {
    return Outcome::GivenUp;  // out of memory: eager may need less
  }
  Frame& frame = *made;
  c10::SmallVector<char*, 48> pointers;
  pointers.resize_for_overwrite(max_pointers_);
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::Kernel:
        frame.launch(kernels_[static_cast<size_t>(step.index)], pointers.data());
        break;
      case Step::Kind::Abort:
        if (*frame.at(step.flag) != 0) return Outcome::GivenUp;
        break;
      case Step::Kind::Extern:
        try {
          ExternGuards guards;
          frame.call(externs_[static_cast<size_t>(step.index)]);
        } catch (const PlanError& error) {
          throw PlanError(error.what(), step.visible_after);
        } catch (...) {
          if (step.visible_before) throw;
          return Outcome::GivenUp;
        }
        break;
    }
    if (!step.release.empty()) frame.release(step.release);
  }
  for (size_t i = 0; i < results_.size(); ++i) results[i] = frame.result(results_[i], results);
  if (stand_ins != nullptr) return Outcome::Done;
  auto bump = [](const at::Tensor& tensor) {
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  };
  for (int i : bumped_) bump(*args.tensors[static_cast<size_t>(i)]);
  for (int i : bumped_captured_) bump(captured[i]);
  return Outcome::Done;
}

}  // namespace graft::runtime
