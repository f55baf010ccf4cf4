// Copies between what lies side by side along a loop and what does so along lanes: squares of a
// vector's length, transposed in registers by one function per width of elements. Written out at
// each place, the shuffles would be most of what LLVM compiles.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {

bool Emitter::transposes(int l) const {
  const std::vector<PlanItem>& items = loop(l).items;
  // The last, incomplete vector has no rows for its switched-off lanes: they go one by one.
  return items.size() == 1 && items[0].placed >= 0 && laid_out(items[0].placed).transposed &&
         value(planned(items[0].placed).value).op == ir::Op::Load && in_lanes() && !mask();
}

/// In each of the blocks into which so many columns cut the rows, row i becomes column i: in
/// log2 rounds, blocks off the diagonal change places.
void Emitter::transpose(llvm::SmallVectorImpl<llvm::Value*>& rows) {
  const auto columns = static_cast<int>(rows.size()), n = machine_.lanes;
  for (int distance = 1; distance < columns; distance *= 2) {
    llvm::SmallVector<int, 16> low, high;
    for (int k = 0; k < n; ++k) {
      bool second = (k & distance) != 0;
      low.push_back(second ? n + k - distance : k);
      high.push_back(second ? n + k : k + distance);
    }
    for (int i = 0; i < columns; ++i) {
      if ((i & distance) != 0) continue;
      llvm::Value *&a = rows[static_cast<size_t>(i)], *&b = rows[static_cast<size_t>(i + distance)];
      llvm::Value* upper = b_.CreateShuffleVector(a, b, low);
      b = b_.CreateShuffleVector(a, b, high);
      a = upper;
    }
  }
}

/// void (from, elements between its rows, to, elements between its rows)
llvm::Function* Emitter::transposer(const std::string& name, bool counts,
                                    const std::function<void(llvm::Function*)>& body) {
  if (llvm::Function* made = module_.getFunction(name)) return made;
  llvm::IRBuilderBase::InsertPointGuard back(b_);
  llvm::Type *pointer = b_.getPtrTy(), *word = b_.getInt64Ty();
  std::vector<llvm::Type*> arguments{pointer, word, pointer, word};
  if (counts) arguments.push_back(word);
  llvm::Function* f =
      llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), arguments, false),
                             llvm::Function::InternalLinkage, name, module_);
  f->addFnAttrs(llvm::AttrBuilder(b_.getContext(), fn_->getAttributes().getFnAttrs()));
  b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "square", f));
  body(f);
  b_.CreateRetVoid();
  return f;
}

/// Row k of what a transposer's argument points to.
llvm::Value* Emitter::row_of(llvm::Function* f, unsigned base, int64_t k, llvm::Type* element) {
  return b_.CreateGEP(element, f->getArg(base), b_.CreateMul(f->getArg(base + 1), i64(k)));
}

/// A square, transposed.
llvm::Function* Emitter::square(llvm::Type* element) {
  return transposer(
      "transpose" + std::to_string(element->getScalarSizeInBits()), false, [&](llvm::Function* f) {
        llvm::SmallVector<llvm::Value*, 16> rows;
        for (int64_t k = 0; k < machine_.lanes; ++k)
          rows.push_back(memory_.load(row_of(f, 0, k, element), element, nullptr));
        transpose(rows);
        for (int64_t k = 0; k < machine_.lanes; ++k)
          memory_.store(rows[static_cast<size_t>(k)], row_of(f, 2, k, element), nullptr);
      });
}

/// Rows shorter than a square's, of at most `columns` elements: the last argument says how many.
/// `inwards`: they come from memory and go to scratch, which has room for whole squares.
llvm::Function* Emitter::rows_of_square(llvm::Type* element, int columns, bool inwards) {
  const std::string name = "rows" + std::to_string(element->getScalarSizeInBits()) + "x" +
                           std::to_string(columns) + (inwards ? "in" : "out");
  return transposer(name, true, [&](llvm::Function* f) {
    VectorMemory memory(b_, machine_, columns);
    llvm::Value* there =
        b_.CreateICmpULT(memory.iota(b_.getInt64Ty()),
                         b_.CreateVectorSplat(static_cast<unsigned>(columns), f->getArg(4)));
    llvm::SmallVector<llvm::Value*, 16> vectors;
    const int blocks = machine_.lanes / columns;
    if (inwards) {
      // Block b of vector i is row b * columns + i.
      for (int i = 0; i < columns; ++i) {
        std::vector<llvm::Value*> rows;
        for (int b = 0; b < blocks; ++b)
          rows.push_back(memory.load(row_of(f, 0, b * columns + i, element), element, there));
        vectors.push_back(llvm::concatenateVectors(b_, rows));
      }
      transpose(vectors);
      for (int i = 0; i < columns; ++i)
        memory_.store(vectors[static_cast<size_t>(i)], row_of(f, 2, i, element), nullptr);
      return;
    }
    for (int i = 0; i < columns; ++i)
      vectors.push_back(memory_.load(row_of(f, 0, i, element), element, nullptr));
    transpose(vectors);
    for (int i = 0; i < columns; ++i)
      for (int b = 0; b < blocks; ++b) {
        std::vector<int> block;
        for (int k = 0; k < columns; ++k) block.push_back(b * columns + k);
        memory.store(b_.CreateShuffleVector(vectors[static_cast<size_t>(i)], block),
                     row_of(f, 2, b * columns + i, element), there);
      }
  });
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
  llvm::Function* whole_square = square(element);
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
      llvm::SmallVector<llvm::Value*, 5> arguments{outside, apart, inside, width};
      if (!inwards) arguments = {inside, width, outside, apart};
      if (columns) arguments.push_back(columns);
      b_.CreateCall(f, arguments);
    }
    copy_ = 0;
  };
  counted(l, i64(0), whole, i64(machine_.lanes), false,
          [&](llvm::Value*) { part(whole_square, nullptr); });
  const int columns = std::min(laid_out(p).columns, machine_.lanes);
  if (columns > 0 && memory_.masks(element)) {
    llvm::Function* rest = rows_of_square(element, columns, inwards);
    counted(l, whole, end, i64(machine_.lanes), false,
            [&](llvm::Value* index) { part(rest, b_.CreateSub(end, index)); });
  } else {
    counted(l, whole, end, i64(1), false, [&](llvm::Value*) { items(l); });
  }
}

}  // namespace graft::codegen
