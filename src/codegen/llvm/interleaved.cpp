// Accesses whose lanes lie two to four elements apart: whole vectors are loaded or stored, and
// shuffled.
#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {

bool Emitter::is_interleaved(const PlanValue& v) const {
  llvm::Type* element =
      memory_type(b_.getContext(), layout_.accesses[static_cast<size_t>(v.access)].dtype);
  return v.varying && v.indirect.empty() && interleave(lane_stride(v.access)) > 0 &&
         (!mask() || memory_.masks(element));
}

/// Where the first lane of the access is.
llvm::Value* Emitter::run_pointer(int access, int apart) {
  llvm::Type* element = mem(layout_.accesses[static_cast<size_t>(access)].dtype);
  return b_.CreateGEP(element, pointer(access, at_depth_),
                      b_.CreateMul(lanes_[copy_].index, i64(apart)));
}

llvm::Value* Emitter::load_interleaved(const PlanValue& v) {
  const AffineAccess& access = layout_.accesses[static_cast<size_t>(v.access)];
  const int apart = interleave(lane_stride(v.access));
  std::vector<LoadedRun>& runs = frame_at(at_depth_).runs;
  auto known = std::find_if(runs.begin(), runs.end(), [&](const LoadedRun& r) {
    return r.first == access.first && r.version == v.version && r.copy == copy_;
  });
  if (known == runs.end()) {
    llvm::Value* base = run_pointer(access.first, apart);
    auto run = memory_.load_run(base, mem(access.dtype), apart, access.reach, mask());
    known = runs.insert(runs.end(), {access.first, v.version, copy_, run});
  }
  return memory_.part(known->run, access.part);
}

bool Emitter::is_joined(int p) const {
  const std::vector<int>& joined = planned(p).joined;
  if (joined.empty()) return false;
  int access = laid_out(p).store.access;
  llvm::Type* element =
      memory_type(b_.getContext(), layout_.accesses[static_cast<size_t>(access)].dtype);
  if (mask() && !memory_.masks(element)) return false;
  if (!strips_) return true;
  // Strips may have put them into several phases.
  const auto& steps = strips_->plan.phases[static_cast<size_t>(strips_->phase)].steps;
  return std::all_of(joined.begin(), joined.end(), [&](int other) {
    return std::any_of(steps.begin(), steps.end(),
                       [&](const StripStep& step) { return step.statement == other; });
  });
}

void Emitter::store_joined(int p) {
  const std::vector<int>& joined = planned(p).joined;
  // Its value is made here even if it waits: what it loads may change.
  wide(planned(p).value);
  if (!planned(p).last_joined) return;
  const AffineAccess& access = layout_.accesses[static_cast<size_t>(laid_out(p).store.access)];
  std::vector<llvm::Value*> parts;
  for (int other : joined) parts.push_back(to_memory(wide(planned(other).value), access.dtype));
  memory_.store_run(parts, run_pointer(access.first, static_cast<int>(joined.size())), mask());
}

}  // namespace graft::codegen
