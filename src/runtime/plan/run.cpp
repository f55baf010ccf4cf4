#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "ir/kernel.h"
#include "runtime/memory/pool.h"
#include "runtime/memory/scratch.h"
#include "runtime/memory/size_class.h"
#include "runtime/plan/backoff.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/generators.h"

namespace graft::runtime {

// Kernels stream whole lines into results.
static_assert(kAlignment % 64 == 0);

c10::Storage make_storage(int64_t bytes) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(bytes),
      pool_data(static_cast<size_t>(bytes)), c10::GetCPUAllocator(),
      /*resizable=*/true);
}

Frame::Frame(const Plan& plan, const detail::FlatArgs& args, const at::Tensor* captured,
             const Plan::StandIns* stand_ins)
    : plan_(plan), args_(args), captured_(captured), stand_ins_(stand_ins) {
  bases_.resize_for_overwrite(plan.blocks_.size());
  if (plan.has_storages_) storages_.resize(plan.blocks_.size());
  for (size_t b = 0; b < plan.blocks_.size(); ++b) bind(plan.blocks_[b], b);
}

char* data_of(const c10::TensorImpl& impl, bool written) {
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  // Asking for mutable data gives a lazy clone memory of its own, as an operator that writes
  // would.
  const void* data = written ? storage->mutable_data() : storage->data();
  return const_cast<char*>(static_cast<const char*>(data)) +
         impl.storage_offset() * static_cast<int64_t>(impl.dtype().itemsize());
}

void Frame::bind(const Block& block, size_t b) {
  if (stands_in(static_cast<int>(b))) {
    storages_.resize(plan_.blocks_.size());
    storages_[b] = (*stand_ins_)[b];
    bases_[b] = static_cast<char*>(storages_[b].mutable_data());
    return;
  }
  switch (block.kind) {
    case Block::Kind::Argument:
      bases_[b] = data_of(*args_.tensors[static_cast<size_t>(block.source)]->unsafeGetTensorImpl(),
                          block.written) -
                  block.back;
      break;
    case Block::Kind::Captured:
      bases_[b] =
          data_of(*captured_[block.source].unsafeGetTensorImpl(), block.written) - block.back;
      break;
    case Block::Kind::Output:
      if (block.late)
        bases_[b] = nullptr;
      else
        allocate(b);
      break;
    case Block::Kind::Arena:
      if (plan_.arena_shared_) {
        allocate(b);
      } else {
        arena_ = pool_data(static_cast<size_t>(block.bytes));
        bases_[b] = static_cast<char*>(arena_.get());
      }
      break;
    case Block::Kind::Part:
      bases_[b] = bases_[static_cast<size_t>(block.source)] + block.ahead;
      if (plan_.arena_shared_) storages_[b] = storages_[static_cast<size_t>(block.source)];
      break;
    case Block::Kind::Temporary:
    case Block::Kind::Extern:
    case Block::Kind::Folded:
      bases_[b] = nullptr;
      break;
  }
}

void Frame::allocate(size_t b) {
  storages_[b] = make_storage(plan_.blocks_[b].bytes);
  bases_[b] =
      static_cast<char*>(storages_[b].unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
}

void Frame::acquire(const std::vector<int>& blocks) {
  for (int b : blocks) allocate(static_cast<size_t>(b));
}

namespace {

/// A grain is work for which starting threads pays; each more of them takes a fraction of that.
constexpr int64_t kTasksOfAGrain = 4;

double nanoseconds_now() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Runs `part` over the range on ATen's threads, or, while those come late, on this one.
template <class Part>
void run_parallel(const codegen::Binding& binding, Part part) {
  const int threads = at::get_num_threads();
  if (threads == 1) return part(0, binding.range_extent);
  thread_local Backoff backoff;
  const double alone = 1.0 / threads;
  const double grains =
      static_cast<double>(binding.range_extent) / static_cast<double>(binding.grain);
  const double gain = grains * ir::kGrainNanoseconds * (1 - alone), begun = nanoseconds_now();
  if (backoff.runs_alone(gain, begun)) {
    part(0, binding.range_extent);
    backoff.ran_alone(gain, (nanoseconds_now() - begun) * (1 - alone));
    return;
  }
  // Where several threads start at all, smaller tasks are worth one more of them.
  const int64_t least = std::max<int64_t>(binding.grain / kTasksOfAGrain, 1);
  std::atomic<double> last_start = begun;
  double first_start = begun, first_end = begun;
  at::parallel_for(0, binding.range_extent, least, [&](int64_t begin, int64_t end) {
    const double start = nanoseconds_now();
    double last = last_start.load(std::memory_order_relaxed);
    while (last < start && !last_start.compare_exchange_weak(last, start)) {
    }
    part(begin, end);
    if (begin == 0) {
      first_start = start;
      first_end = nanoseconds_now();
    }
  });
  // For its own start too: it wakes those that sleep, one after another.
  const double others = last_start.load(std::memory_order_relaxed) - first_end;
  backoff.waited(gain, first_start - begun + std::max(others, 0.0), begun, nanoseconds_now());
}

}  // namespace

void launch(const KernelStep& step, char* const* bases, char** pointers) {
  for (size_t i = 0; i < step.pointers.size(); ++i)
    pointers[i] = bases[step.pointers[i].block] + step.pointers[i].offset;
  std::optional<at::RecordFunction> profiled;
  if (auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION)) {
    profiled.emplace(std::move(*callbacks));
    profiled->before(std::string_view(step.name));
  }
  const codegen::Binding& binding = step.binding;
  codegen::LaunchArgs launch{pointers, binding.integers.data(), binding.scalars.data()};
  const auto part = [&](int64_t begin, int64_t end) {
    step.fn(&launch, thread_scratch(binding.scratch_bytes), begin, end);
  };
  if (binding.range_extent <= binding.grain)
    part(0, binding.range_extent);
  else
    run_parallel(binding, part);
}

void Frame::release(const std::vector<int>& blocks) {
  for (int b : blocks) storages_[static_cast<size_t>(b)] = c10::Storage();
}

namespace {

void raise_version(const Raise& raise, const detail::FlatArgs& args, const at::Tensor* captured) {
  const at::Tensor& tensor =
      raise.captured ? captured[raise.index] : *args.tensors[static_cast<size_t>(raise.index)];
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

/// As autograd's engine does after it computed them, and as optimizers do that clear them.
void set_gradients(const std::vector<ResultSpec>& specs, const detail::FlatArgs& args,
                   const at::Tensor* captured, const at::Tensor* results) {
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].gradient_of) continue;
    const auto k = static_cast<size_t>(specs[i].gradient_of->index);
    const at::Tensor& leaf = specs[i].gradient_of->captured ? captured[k] : *args.tensors[k];
    leaf.mutable_grad() = results[i];
  }
}

/// Memory of the caller's as it is now. (What lies between an argument's elements is part of it.)
class Saved {
 public:
  /// Throws c10::Error: out of memory.
  void save(char* from, int64_t bytes) {
    parts_.push_back({from, pool_data(static_cast<size_t>(bytes)), bytes});
    copy(static_cast<char*>(parts_.back().to.get()), from, bytes);
  }
  void put_back() const {
    for (const Part& part : parts_)
      copy(part.from, static_cast<const char*>(part.to.get()), part.bytes);
  }

 private:
  static void copy(char* to, const char* from, int64_t bytes) {
    constexpr int64_t kTask = 1 << 20;
    at::parallel_for(0, bytes, kTask, [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
  }
  struct Part {
    char* from;
    c10::DataPtr to;
    int64_t bytes;
  };
  std::vector<Part> parts_;
};

}  // namespace

Plan::Outcome Plan::run(const detail::FlatArgs& args, const at::Tensor* captured,
                        at::Tensor* results, const StandIns* stand_ins) const {
  std::optional<Frame> made;
  Saved saved;
  try {
    made.emplace(*this, args, captured, stand_ins);
    bind_folded(*made, captured);
    for (int b : undone_) saved.save(made->bases()[b], blocks_[static_cast<size_t>(b)].bytes);
  } catch (const c10::Error&) {
    return Outcome::GivenUp;  // out of memory: eager may need less
  }
  Frame& frame = *made;
  std::vector<at::Tensor> before;  // where generators are put back to
  if (rewinds_) before = states_of(generators_);
  c10::SmallVector<char*, 48> pointers;
  pointers.resize_for_overwrite(max_pointers_);
  auto raise = raises_.begin();
  auto give_up = [&] {
    saved.put_back();
    set_states(generators_, before);
    return Outcome::GivenUp;
  };
  auto raise_written_by = [&](size_t step) {
    if (step < undone_steps_) return;
    for (; raise != raises_.end() && raise->step <= step; ++raise)
      if (stand_ins == nullptr) raise_version(*raise, args, captured);
  };
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    if (step.folded) continue;
    if (!step.acquire.empty()) {
      try {
        frame.acquire(step.acquire);
      } catch (const c10::Error&) {
        if (step.visible_before) throw;
        return give_up();  // out of memory: eager may need less
      }
    }
    if (step.kind == Step::Kind::Kernel) raise_written_by(s);
    switch (step.kind) {
      case Step::Kind::Kernel:
        launch(kernels_[static_cast<size_t>(step.index)], frame.bases(), pointers.data());
        break;
      case Step::Kind::Abort:
        if (*frame.at(step.flag) == 0) break;
        return give_up();
      case Step::Kind::Extern:
        try {
          frame.call(externs_[static_cast<size_t>(step.index)]);
        } catch (const PlanError& error) {
          if (!step.visible_after) return give_up();
          raise_written_by(s);
          throw PlanError(error.what(), true);
        } catch (...) {
          // It may have stored a part of what it writes before it threw.
          if (step.visible_after) throw;
          return give_up();
        }
        // An operator that throws does not raise what it would have written, as in eager.
        raise_written_by(s);
        break;
    }
    if (!step.release.empty()) frame.release(step.release);
  }
  raise_written_by(steps_.size());
  for (int i : result_order_) results[i] = frame.result(results_[static_cast<size_t>(i)], results);
  if (stand_ins == nullptr) set_gradients(results_, args, captured, results);
  return Outcome::Done;
}

}  // namespace graft::runtime
