#include "codegen/llvm/emitter.h"
#include "codegen/llvm/flow.h"

namespace graft::codegen {

/// For strips of [from, to): the phases one after the other, each a loop over the strip, and the
/// array routines between.
void Emitter::strip_loop(int l, llvm::Value* from, llvm::Value* to, StripPlan plan) {
  strips_ = Strips{};
  strips_->plan = std::move(plan);
  strips_->buffers.resize(plan_.values.size());
  const StripPlan& strips = strips_->plan;
  for (size_t v = 0; v < strips.ready.size(); ++v) {
    if (strips.ready[v] < 0) continue;
    // Room for the last vector's unused lanes.
    auto count = static_cast<uint64_t>(kStripElements + machine_.lanes);
    strips_->buffers[v] =
        stack(llvm::ArrayType::get(mem(plan_.values[v].type), count), nullptr, 64);
  }
  // An element range may be empty once its borders are moved.
  bool is_range = layout_.range == RangeKind::Elements;
  // Pointers that routines read from directly are made before the loop.
  for (int v : strips.straight)
    if (v >= 0) pointer(value(v).access, at_depth_);

  llvm::BasicBlock *before = b_.GetInsertBlock(), *run = block("strip"), *after = block("after");
  if (is_range)
    b_.CreateCondBr(b_.CreateICmpSLT(from, to), run, after);
  else
    b_.CreateBr(run);
  b_.SetInsertPoint(run);
  llvm::Value *start = from, *stop = to;
  llvm::PHINode* next = nullptr;  // where it is known to be one strip, there is none
  if (const auto size = distance(from, to); !size || *size > kStripElements) {
    start = next = b_.CreatePHI(b_.getInt64Ty(), 2);
    next->addIncoming(from, before);
    stop = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                    b_.CreateNSWAdd(start, i64(kStripElements)), to);
  }
  strips_->before = before;
  strips_->start = start;
  for (size_t k = 0; k < strips.phases.size(); ++k) {
    strips_->phase = static_cast<int>(k);
    const StripPhase& phase = strips.phases[k];
    if (!phase.steps.empty()) vector_loop(l, start, stop, [&] { strip_steps(phase); });
    llvm::Value* count = b_.CreateTrunc(b_.CreateSub(stop, start), b_.getInt32Ty());
    for (int call : phase.calls) {
      auto v = static_cast<size_t>(call);
      llvm::Value* from_memory = strips_->buffers[v];
      if (int load = strips.straight[v]; load >= 0)
        from_memory =
            b_.CreateGEP(mem(value(call).type), pointer(value(load).access, at_depth_), start);
      calls_.call_array(static_cast<ir::Routine>(value(call).payload), value(call).type, count,
                        from_memory, strips_->buffers[v]);
    }
  }
  strips_.reset();
  if (next != nullptr) {
    next->addIncoming(stop, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpSLT(stop, to), run, after);
  } else {
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
}

void Emitter::strip_steps(const StripPhase& phase) {
  for (copy_ = 0; copy_ < copies(); ++copy_)
    for (const StripStep& step : phase.steps) {
      if (step.statement >= 0) {
        statement(step.statement);
        continue;
      }
      const PlanValue& v = value(step.keep);
      llvm::Value* x = wide(is_array_call(v) ? v.in[0] : step.keep);
      b_.CreateAlignedStore(to_memory(x, v.type), strip_place(step.keep),
                            llvm::Align(c10::elementSize(v.type)));
    }
  copy_ = 0;
}

/// Where a kept value's buffer has the current vector.
llvm::Value* Emitter::strip_place(int v) {
  return b_.CreateGEP(mem(value(v).type), strips_->buffers[static_cast<size_t>(v)],
                      b_.CreateSub(lanes_[copy_].index, strips_->start));
}

llvm::Value* Emitter::kept(int v) {
  if (!strips_ || !in_lanes()) return nullptr;
  int ready = strips_->plan.ready[static_cast<size_t>(v)];
  if (ready < 0 || ready > strips_->phase) return nullptr;
  llvm::Value* x = b_.CreateAlignedLoad(lanes_of(mem(value(v).type)), strip_place(v),
                                        llvm::Align(c10::elementSize(value(v).type)));
  return to_register(x, value(v).type);
}

}  // namespace graft::codegen
