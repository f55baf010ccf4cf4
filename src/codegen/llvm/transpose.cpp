// Copies between what lies side by side along a loop and what does so along lanes: squares of a
// vector's length, transposed in registers by one function per width of elements. Written out at
// each place, the shuffles would be most of what LLVM compiles.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <numeric>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/flow.h"
#include "codegen/llvm/transpose.h"

namespace graft::codegen {

bool Emitter::transposes(int l) const {
  const std::vector<PlanItem>& items = loop(l).items;
  // The last, incomplete vector has no rows for its switched-off lanes: they go one by one.
  return items.size() == 1 && items[0].placed >= 0 && laid_out(items[0].placed).transposed &&
         value(planned(items[0].placed).value).op == ir::Op::Load && in_lanes() && !mask();
}

void transpose(Builder& b, int n, llvm::SmallVectorImpl<llvm::Value*>& rows) {
  const auto columns = static_cast<int>(rows.size());
  for (int distance = 1; distance < columns; distance *= 2) {
    llvm::SmallVector<int, 16> low, high;
    for (int k = 0; k < n; ++k) {
      bool second = (k & distance) != 0;
      low.push_back(second ? n + k - distance : k);
      high.push_back(second ? n + k : k + distance);
    }
    for (int i = 0; i < columns; ++i) {
      if ((i & distance) != 0) continue;
      llvm::Value *&first = rows[static_cast<size_t>(i)],
                  *&second = rows[static_cast<size_t>(i + distance)];
      llvm::Value* upper = b.CreateShuffleVector(first, second, low);
      second = b.CreateShuffleVector(first, second, high);
      first = upper;
    }
  }
}

/// void (from, elements between its rows, to, elements between its rows, elements of a row in
/// memory): a square, transposed. `padded`: rows in memory, which come `inwards` from there to
/// scratch or go back, may be shorter than its columns; scratch has room for all of them. `known`:
/// how long they are; 0: the last argument says.
llvm::Function* Emitter::transposer(llvm::Type* element, int columns, bool padded, bool inwards,
                                    int known) {
  std::string name = "transpose" + std::to_string(element->getScalarSizeInBits());
  if (padded) name += "x" + std::to_string(columns) + (inwards ? "in" : "out");
  if (known > 0) name += std::to_string(known);
  if (llvm::Function* made = module_.getFunction(name)) return made;
  llvm::IRBuilderBase::InsertPointGuard back(b_);
  llvm::Type *pointer = b_.getPtrTy(), *word = b_.getInt64Ty();
  llvm::Function* f = llvm::Function::Create(
      llvm::FunctionType::get(b_.getVoidTy(), {pointer, word, pointer, word, word}, false),
      llvm::Function::InternalLinkage, name, module_);
  f->addFnAttrs(llvm::AttrBuilder(b_.getContext(), fn_->getAttributes().getFnAttrs()));
  b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "square", f));
  auto row = [&](unsigned base, int64_t k) {
    return b_.CreateGEP(element, f->getArg(base), b_.CreateMul(f->getArg(base + 1), i64(k)));
  };
  VectorMemory parts(b_, machine_, columns);
  llvm::Value* there =
      padded && known == 0
          ? b_.CreateICmpULT(parts.iota(word),
                             b_.CreateVectorSplat(static_cast<unsigned>(columns), f->getArg(4)))
          : nullptr;
  const llvm::Align align(element->getScalarSizeInBits() / 8);
  const int length = known > 0 ? known : columns;
  std::vector<int> order(static_cast<size_t>(columns), -1);  // of a row's elements; -1: any
  std::iota(order.begin(), order.begin() + length, 0);
  auto load_row = [&](llvm::Value* from) -> llvm::Value* {
    if (known == 0) return parts.load(from, element, there);
    auto* row_type = llvm::FixedVectorType::get(element, static_cast<unsigned>(known));
    return b_.CreateShuffleVector(b_.CreateAlignedLoad(row_type, from, align), order);
  };
  // Block b of vector i is row b * columns + i.
  const int blocks = machine_.lanes / columns;
  llvm::SmallVector<llvm::Value*, 16> vectors;
  for (int i = 0; i < columns; ++i) {
    std::vector<llvm::Value*> rows;
    for (int b = 0; inwards && b < blocks; ++b) rows.push_back(load_row(row(0, b * columns + i)));
    vectors.push_back(inwards ? llvm::concatenateVectors(b_, rows)
                              : memory_.load(row(0, i), element, nullptr));
  }
  transpose(b_, machine_.lanes, vectors);
  for (int i = 0; i < columns; ++i) {
    llvm::Value* vector = vectors[static_cast<size_t>(i)];
    if (inwards) memory_.store(vector, row(2, i), nullptr);
    for (int b = 0; !inwards && b < blocks; ++b) {
      std::vector<int> block(static_cast<size_t>(length));
      std::iota(block.begin(), block.end(), b * columns);
      llvm::Value *part = b_.CreateShuffleVector(vector, block), *to = row(2, b * columns + i);
      if (known == 0)
        parts.store(part, to, there);
      else
        b_.CreateAlignedStore(part, to, align);
    }
  }
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
  const int vectors = access(lanes).vectors;
  llvm::Value *apart = stride(lane_stride(rows)),
              *width = vectors != 0 ? i64(machine_.lanes * vectors) : stride(along(lanes));
  llvm::Value* end = extent(loop(l).var);
  llvm::Value* whole = b_.CreateAnd(end, i64(-machine_.lanes));
  /// From the loop's index on.
  const auto part = [&](llvm::Function* f, llvm::Value* columns) {
    for (copy_ = 0; copy_ < copies(); ++copy_) {
      llvm::Value* outside =
          b_.CreateGEP(element, pointer(rows, at_depth_), b_.CreateMul(lanes_[copy_].index, apart));
      llvm::Value* inside = lane_pointer(lanes, pointer(lanes, at_depth_));
      if (inwards)
        b_.CreateCall(f, {outside, apart, inside, width, columns});
      else
        b_.CreateCall(f, {inside, width, outside, apart, columns});
    }
    copy_ = 0;
  };
  llvm::Function* square = transposer(element, machine_.lanes, false, true, 0);
  counted(l, i64(0), whole, machine_.lanes, false,
          [&](llvm::Value*) { part(square, i64(machine_.lanes)); });
  const int columns = std::min(laid_out(p).columns, machine_.lanes);
  const bool masks = memory_.masks(element);
  const auto known = masks ? 0 : static_cast<int>(distance(whole, end).value_or(0));
  if (columns > 0 && (masks || known > 0)) {
    llvm::Function* rest = transposer(element, columns, true, inwards, known);
    counted(l, whole, end, machine_.lanes, false,
            [&](llvm::Value* index) { part(rest, b_.CreateSub(end, index)); });
  } else {
    counted(l, whole, end, 1, false, [&](llvm::Value*) { items(l); });
  }
}

}  // namespace graft::codegen
