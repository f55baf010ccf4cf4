// Loads and stores of whole vectors: contiguous, reversed, interleaved, or lane by lane, with or
// without a mask.
#pragma once

#include "codegen/llvm/arithmetic.h"

namespace graft::codegen {

/// Lanes that the mask switches off load an unspecified value and store nothing. A null mask means
/// all lanes.
class VectorMemory {
 public:
  VectorMemory(Builder& builder, const Machine& machine, int lanes)
      : b_(builder), machine_(machine), lanes_(lanes) {}

  /// Memory that switched-off lanes access where the machine has no masked instruction: eight bytes
  /// of the kernel's stack.
  void set_spare(llvm::Value* spare) { spare_ = spare; }

  llvm::Value* load(llvm::Value* base, llvm::Type* element, llvm::Value* mask);
  void store(llvm::Value* value, llvm::Value* base, llvm::Value* mask);
  /// Stores a whole vector past the cache; `base` is a multiple of its size.
  void stream(llvm::Value* value, llvm::Value* base);
  /// Emitted once, after the last streamed store: makes them visible to other threads.
  void fence();
  /// Lane k at base - k.
  llvm::Value* load_reversed(llvm::Value* base, llvm::Type* element, llvm::Value* mask);
  void store_reversed(llvm::Value* value, llvm::Value* base, llvm::Value* mask);
  /// Lane k at base + offsets[k] elements (a vector of i64).
  llvm::Value* gather(llvm::Value* base, llvm::Value* offsets, llvm::Type* element,
                      llvm::Value* mask);
  void scatter(llvm::Value* value, llvm::Value* base, llvm::Value* offsets, llvm::Value* mask);
  /// The same, whose offsets are known to fit into 32 bits: one instruction where it has lanes for
  /// all. (As trunc and sext, LLVM would turn them back.)
  llvm::Value* gather_near(llvm::Value* base, llvm::Value* offsets, llvm::Type* element,
                           llvm::Value* mask);

  /// Can a table of so many entries at one place be held in vectors?
  bool has_tables(llvm::Type* element, int entries) const;
  /// Lane k at base + indices[k], below `entries`; unspecified for another index. Touches all
  /// entries.
  llvm::Value* pick(llvm::Value* base, llvm::Value* indices, llvm::Type* element, int entries);

  /// Lane k of the table that is at the low bits of indices[k]: for as many lanes as kDigits.
  llvm::Value* pick(llvm::Value* table, llvm::Value* indices);

  /// Is there a masked instruction for elements of the type?
  bool masks(llvm::Type* element) const;

  /// What the lanes of interleaved loads lie in, loaded once: lane k of part p, p <= `reach`, is
  /// element k * apart + p.
  struct Run {
    llvm::Value* low = nullptr;
    llvm::Value* high = nullptr;  ///< the elements behind those in `low`; null: none
    int apart = 0;
    int repeated = 0;  ///< elements of the last vector that the one before it has too
  };
  /// Touches nothing behind the last lane's part `reach`. `mask` only where there are such
  /// instructions.
  Run load_run(llvm::Value* base, llvm::Type* element, int apart, int reach, llvm::Value* mask);
  llvm::Value* part(const Run& run, int part);
  /// Element k * parts + p from `base` on is lane k of part p. `mask` as for load_run.
  void store_run(const std::vector<llvm::Value*>& parts, llvm::Value* base, llvm::Value* mask);

  /// 0, 1, 2 … as a vector of that integer type.
  llvm::Constant* iota(llvm::Type* integer) const;
  llvm::Value* reverse(llvm::Value* vector);

 private:
  llvm::Value* join(llvm::Value* low, llvm::Value* high);
  llvm::Value* piece_mask(llvm::Value* mask, int apart, int reach, int piece);
  bool gathers(llvm::Type* element) const;
  /// The address of lane k, or the spare where it is off.
  llvm::Value* lane_pointer(llvm::Value* pointer, llvm::Value* mask, int k);
  llvm::Type* vector(llvm::Type* element) const {
    return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_));
  }
  llvm::Align alignment(llvm::Type* element) const {
    return llvm::Align(std::max(1u, element->getScalarSizeInBits() / 8));
  }

  Builder& b_;
  const Machine& machine_;
  int lanes_;
  llvm::Value* spare_ = nullptr;
  bool streams_ = false;
};

}  // namespace graft::codegen
