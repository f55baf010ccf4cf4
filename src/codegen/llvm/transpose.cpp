// Copies between memory along a loop and scratch by lane: squares of a vector's length, transposed
// in registers.
#include "codegen/llvm/emitter.h"

namespace graft::codegen {

bool Emitter::transposes(int l) const {
  const std::vector<PlanItem>& items = loop(l).items;
  // The last, incomplete vector has no rows for its switched-off lanes: they go one by one.
  return items.size() == 1 && items[0].placed >= 0 && laid_out(items[0].placed).transposed &&
         value(planned(items[0].placed).value).op == ir::Op::Load && in_lanes() && !mask();
}

/// Row i becomes column i: in log2 rounds, blocks off the diagonal change places.
void Emitter::transpose(llvm::SmallVectorImpl<llvm::Value*>& rows) {
  auto n = static_cast<int>(rows.size());
  for (int distance = 1; distance < n; distance *= 2) {
    llvm::SmallVector<int, 16> low, high;
    for (int k = 0; k < n; ++k) {
      bool second = (k & distance) != 0;
      low.push_back(second ? n + k - distance : k);
      high.push_back(second ? n + k : k + distance);
    }
    for (int i = 0; i < n; ++i) {
      if ((i & distance) != 0) continue;
      llvm::Value *&a = rows[static_cast<size_t>(i)], *&b = rows[static_cast<size_t>(i + distance)];
      llvm::Value* upper = b_.CreateShuffleVector(a, b, low);
      b = b_.CreateShuffleVector(a, b, high);
      a = upper;
    }
  }
}

void Emitter::transposed_loop(int l) {
  int p = loop(l).items[0].placed;
  int from = value(planned(p).value).access, to = laid_out(p).store.access;
  const auto access = [&](int a) { return layout_.accesses[static_cast<size_t>(a)]; };
  bool inwards = access(to).vectors != 0;
  int memory = inwards ? from : to, scratch = inwards ? to : from;
  llvm::Type* element = mem(access(memory).dtype);
  const int64_t lanes = machine_.lanes, width = lanes * access(scratch).vectors;
  llvm::Value* end = extent(loop(l).var);
  llvm::Value* whole = b_.CreateAnd(end, i64(-lanes));
  counted(l, i64(0), whole, i64(lanes), false, [&](llvm::Value*) {
    for (copy_ = 0; copy_ < copies(); ++copy_) {
      llvm::Value* apart = stride(lane_stride(memory));
      llvm::Value* outside = b_.CreateGEP(element, pointer(memory, at_depth_),
                                          b_.CreateMul(lanes_[copy_].index, apart));
      llvm::Value* inside = lane_pointer(scratch, pointer(scratch, at_depth_));
      auto in_memory = [&](int64_t k) {
        return b_.CreateGEP(element, outside, b_.CreateMul(apart, i64(k)));
      };
      auto in_scratch = [&](int64_t k) { return b_.CreateGEP(element, inside, i64(k * width)); };
      llvm::SmallVector<llvm::Value*, 16> rows;
      for (int64_t k = 0; k < lanes; ++k)
        rows.push_back(memory_.load(inwards ? in_memory(k) : in_scratch(k), element, nullptr));
      transpose(rows);
      for (int64_t k = 0; k < lanes; ++k)
        memory_.store(rows[static_cast<size_t>(k)], inwards ? in_scratch(k) : in_memory(k),
                      nullptr);
    }
    copy_ = 0;
  });
  counted(l, whole, end, i64(1), false, [&](llvm::Value*) { items(l); });
}

}  // namespace graft::codegen
