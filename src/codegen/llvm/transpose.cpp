// Copies between what lies side by side along a loop and what does so along lanes: squares of a
// vector's length, transposed in registers by one function per width of elements. Written out at
// each place, the shuffles would be most of what LLVM compiles.
#include <llvm/IR/Module.h>

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

/// void (from, elements between its rows, to, elements between its rows): a square, transposed.
llvm::Function* Emitter::transposer(llvm::Type* element) {
  const std::string name = "transpose" + std::to_string(element->getScalarSizeInBits());
  if (llvm::Function* made = module_.getFunction(name)) return made;
  llvm::IRBuilderBase::InsertPointGuard back(b_);
  llvm::Type *pointer = b_.getPtrTy(), *word = b_.getInt64Ty();
  llvm::Function* f = llvm::Function::Create(
      llvm::FunctionType::get(b_.getVoidTy(), {pointer, word, pointer, word}, false),
      llvm::Function::InternalLinkage, name, module_);
  f->addFnAttrs(llvm::AttrBuilder(b_.getContext(), fn_->getAttributes().getFnAttrs()));
  b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "square", f));
  auto row = [&](unsigned base, int64_t k) {
    return b_.CreateGEP(element, f->getArg(base), b_.CreateMul(f->getArg(base + 1), i64(k)));
  };
  llvm::SmallVector<llvm::Value*, 16> rows;
  for (int64_t k = 0; k < machine_.lanes; ++k)
    rows.push_back(memory_.load(row(0, k), element, nullptr));
  transpose(rows);
  for (int64_t k = 0; k < machine_.lanes; ++k)
    memory_.store(rows[static_cast<size_t>(k)], row(2, k), nullptr);
  b_.CreateRetVoid();
  return f;
}

void Emitter::transposed_loop(int l) {
  int p = loop(l).items[0].placed;
  int from = value(planned(p).value).access, to = laid_out(p).store.access;
  const auto access = [&](int a) { return layout_.accesses[static_cast<size_t>(a)]; };
  const auto along = [&](int a) {
    return layout_.shapes[static_cast<size_t>(access(a).shape)]
        .strides[static_cast<size_t>(loop(l).var)];
  };
  const bool inwards = along(from).kind == StrideKind::One;
  const int rows = inwards ? from : to, lanes = inwards ? to : from;
  llvm::Type* element = mem(access(rows).dtype);
  llvm::Function* square = transposer(element);
  const int vectors = access(lanes).vectors;
  llvm::Value *apart = stride(lane_stride(rows)),
              *width = vectors != 0 ? i64(machine_.lanes * vectors) : stride(along(lanes));
  llvm::Value* end = extent(loop(l).var);
  llvm::Value* whole = b_.CreateAnd(end, i64(-machine_.lanes));
  counted(l, i64(0), whole, i64(machine_.lanes), false, [&](llvm::Value*) {
    for (copy_ = 0; copy_ < copies(); ++copy_) {
      llvm::Value* outside =
          b_.CreateGEP(element, pointer(rows, at_depth_), b_.CreateMul(lanes_[copy_].index, apart));
      llvm::Value* inside = lane_pointer(lanes, pointer(lanes, at_depth_));
      if (inwards)
        b_.CreateCall(square, {outside, apart, inside, width});
      else
        b_.CreateCall(square, {inside, width, outside, apart});
    }
    copy_ = 0;
  });
  counted(l, whole, end, i64(1), false, [&](llvm::Value*) { items(l); });
}

}  // namespace graft::codegen
