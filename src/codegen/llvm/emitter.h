// Writes a kernel as one LLVM function, following its plan.
//
// A frame is a loop that is being written. A value is emitted once in the frame of its home loop:
// when an inner loop asks for it, it is placed right before that inner loop. The body of a vector
// loop is written for several vectors ("copies") at once. Values that vary between lanes exist once
// per copy; all others are scalars, spread over lanes only where a varying operation needs them.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "codegen/llvm/calls.h"
#include "codegen/llvm/memory.h"
#include "codegen/llvm/near.h"
#include "codegen/llvm/near_math.h"
#include "codegen/plan.h"
#include "codegen/strips.h"

namespace graft::codegen {

/// The plan, in which functions of a digit (codegen/layout.h) and of what the vector loop around it
/// does not change are looked up in a table: all their values, computed before that loop.
KernelPlan with_tables(const KernelPlan& plan, const Machine& machine);

class Emitter {
 public:
  Emitter(llvm::Module& module, const Machine& machine, const ir::Kernel& kernel,
          const Layout& layout, const KernelPlan& plan, std::set<std::string>& symbols);

  /// void name(const LaunchArgs*, char* scratch, int64_t begin, int64_t end)
  llvm::Function* emit(const std::string& name);

 private:
  /// Read by all interleaved loads of the same version and copy.
  struct LoadedRun {
    int first, version;
    size_t copy;
    VectorMemory::Run run;
  };
  struct Frame {
    int loop = 0;
    llvm::BasicBlock* before = nullptr;  ///< ends with the branch into the loop
    llvm::Value* index = nullptr;        ///< of a loop that is not of lanes
    std::vector<int> defined;            ///< values emitted here; forgotten when the frame closes
    std::vector<std::pair<int, llvm::Value*>> pointers;  ///< of accesses, as far as known here
    std::vector<LoadedRun> runs;                         ///< of interleaved accesses, likewise
    int depth = 0;
  };
  /// One vector of an iteration of the vector loop.
  struct Copy {
    llvm::Value* index = nullptr;  ///< of lane 0
    llvm::Value* mask = nullptr;   ///< null: all lanes are on
  };
  struct Emitted {
    llvm::SmallVector<llvm::Value*, 4> value, wide;
  };
  struct Accumulator {
    llvm::AllocaInst* value = nullptr;
    llvm::AllocaInst* place = nullptr;   ///< ArgMax, ArgMin
    llvm::AllocaInst* blocks = nullptr;  ///< has_blocks: the sum of finished blocks
    llvm::AllocaInst* lost = nullptr;    ///< Levels::Cascade: the rounding errors of adding to it
    /// Max, Min of floating types: a NaN if the input has one; `value` ignores NaN.
    llvm::AllocaInst* nan = nullptr;
  };
  /// While alive, instructions go to where values of the frame at `depth` are emitted.
  class At {
   public:
    At(Emitter& emitter, int depth);
    ~At();
    At(const At&) = delete;
    At& operator=(const At&) = delete;

   private:
    Emitter& e_;
    Builder::InsertPoint saved_;
    int saved_depth_;
  };
  struct Strips {
    StripPlan plan;
    std::vector<llvm::AllocaInst*> buffers;  ///< per value; null: it has none
    llvm::BasicBlock* before = nullptr;      ///< the block before the loop over strips
    llvm::Value* start = nullptr;            ///< first element of the current strip
    int phase = 0;
  };
  using Body = std::function<void()>;

  // Shorthands.
  const LoopPlan& loop(int l) const { return plan_.loops[static_cast<size_t>(l)]; }
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }
  const StatementPlan& planned(int p) const { return plan_.statements[static_cast<size_t>(p)]; }
  const StatementLayout& laid_out(int p) const {
    return layout_.statements[static_cast<size_t>(p)];
  }
  const ir::Reduction& reduction(int p) const {
    return *kernel_.placed[static_cast<size_t>(p)].statement.reduction;
  }
  llvm::Value* i64(int64_t k) { return b_.getInt64(static_cast<uint64_t>(k)); }
  llvm::Type* reg(ScalarType type) { return register_type(b_.getContext(), type); }
  llvm::Type* mem(ScalarType type) { return memory_type(b_.getContext(), type); }
  llvm::Type* lanes_of(llvm::Type* t) {
    return llvm::FixedVectorType::get(t, static_cast<unsigned>(machine_.lanes));
  }
  llvm::Value* splat(llvm::Value* scalar) {
    return b_.CreateVectorSplat(static_cast<unsigned>(machine_.lanes), scalar);
  }
  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(b_.getContext(), name, fn_);
  }
  llvm::AllocaInst* stack(llvm::Type* type, llvm::Value* count = nullptr, uint64_t align = 0);
  llvm::AllocaInst* variable(llvm::Type* type);  ///< a stack slot that becomes a register

  // Kernel arguments: emitter.cpp
  llvm::Value* argument(llvm::Value* table, int slot, llvm::Type* type);
  llvm::Value* integer(int slot);
  llvm::Value* extent(int var);  ///< at the current step, if it grows
  void range_loop();
  void next_range_iteration(const std::vector<int>& vars);
  llvm::Value* range_offset(int shape);

  // Loops: loops.cpp
  void items(int l);
  void statements(const std::vector<PlanItem>& run);
  void inner_loop(int l);
  void repeated(llvm::Value* from, llvm::Value* to, int64_t step, bool sure,
                const std::function<void(llvm::Value*)>& body);
  std::optional<int64_t> written_out(int l, llvm::Value* from, llvm::Value* to, int64_t step,
                                     const std::function<void(llvm::Value*)>& body);
  void counted(int l, llvm::Value* from, llvm::Value* to, int64_t step, bool sure,
               const std::function<void(llvm::Value*)>& body);
  llvm::Value* whole_vectors(llvm::Value* border, int l);
  void serial_loop(int l);
  void rows_loop(int l);
  bool transposes(int l) const;
  void transposed_loop(int l);
  llvm::Function* transposer(llvm::Type* element, int columns, bool padded, bool inwards,
                             int known);
  void vector_loop(int l, llvm::Value* from, llvm::Value* to, const Body& body);
  /// What a loop stores outside of the part that it ran, or leaves to those that read it
  /// (Placed::Quiet::deferred).
  struct Deferred {
    int loop;
    llvm::Value *base, *value, *from, *to, *size;
    llvm::Value* inside;  ///< it ran from `from` to `to` alone
  };
  bool is_quiet(int l) const;
  std::pair<llvm::Value*, llvm::Value*> needed_part(int l);
  void store_deferred(int l, llvm::Value* inside);
  void fill_outside(const Deferred& rest);
  void fill(llvm::Value* base, llvm::Value* value, llvm::Value* from, llvm::Value* to);
  void blocked(int l, llvm::Value* from, llvm::Value* to, int64_t step, bool sure,
               const std::function<void(llvm::Value*)>& body);
  void statement(int p);
  void open(int l, llvm::BasicBlock* before, llvm::Value* index);
  void close();
  size_t copies() const { return lanes_.empty() ? 1 : lanes_.size(); }
  bool in_lanes() const { return !lanes_.empty(); }
  llvm::Value* mask() const { return in_lanes() ? lanes_[copy_].mask : nullptr; }

  // Strips: strip_loop.cpp
  void strip_loop(int l, llvm::Value* from, llvm::Value* to, StripPlan plan);
  void strip_steps(const StripPhase& phase);
  llvm::Value* strip_place(int v);
  llvm::Value* kept(int v);  ///< the value from its buffer; null if it is not there

  // Matrix products: product.cpp
  void product(int p);

  // Values: values.cpp
  llvm::Value* get(int v);   ///< a scalar, or a vector if it varies
  llvm::Value* wide(int v);  ///< a vector in any case
  llvm::Value* compute(int v);
  llvm::Value* operation(const PlanValue& v, const std::array<llvm::Value*, 3>& operands);
  llvm::Value* looked_up(const PlanValue& v);
  llvm::Value* remember(int v, llvm::Value* made);
  Frame& frame_at(int depth);

  // Cheap roundings: near_rounding.cpp
  bool is_near(int v);
  llvm::Value* near_rounding(int v);
  llvm::Value* near_bits(const NearNumber& x, NearState& state);
  const NearNumber& near_value(int v, NearState& state);
  NearNumber make_near(int v, NearState& state);
  NearNumber near_quotient(const PlanValue& x, NearState& state);
  NearNumber near_product(const NearNumber& a, const NearNumber& b, NearState& state);
  NearNumber near_sum(const PlanValue& x, const std::array<NearNumber, 3>& in, NearState& state);
  double large_constant(const PlanValue& x) const;
  void hold_factor(const NearNumber& x, NearState& state);
  void hold_addend(const NearNumber& x, NearState& state);
  llvm::Value* exact_value(int v, NearState& state);

  // Accesses: access.cpp
  llvm::Value* pointer(int access, int depth);
  llvm::Value* range_counter(int var);
  llvm::Value* stride(const Stride& s);
  void fetch_ahead(const AffineAccess& affine, llvm::Value* place);
  llvm::Value* load(const PlanValue& v);
  void store(int p);
  void store_alone(int p);
  Stride lane_stride(int access) const;
  llvm::Value* lane_pointer(int access, llvm::Value* base);
  llvm::Value* lane_offsets(int access, const std::vector<std::pair<int, Stride>>& indirect);
  llvm::Value* uniform_pointer(int access, const std::vector<std::pair<int, Stride>>& indirect);
  llvm::Value* to_register(llvm::Value* x, ScalarType type);
  llvm::Value* to_memory(llvm::Value* x, ScalarType type);

  bool varies(const std::vector<std::pair<int, Stride>>& indirect) const;

  // Vectors that are halves of words: words.cpp
  struct WordPlace {
    int access;
    const std::vector<std::pair<int, Stride>>* indirect;
  };
  bool has_words(int l) const;
  bool collect_stores(int l, std::vector<WordPlace>& places) const;
  bool collect_loads(int l, std::vector<WordPlace>& places) const;
  bool is_low_half() const { return copy_ % 2 == 0; }
  llvm::Value* load_word_half(const PlanValue& v, llvm::Value* base);
  void store_word_half(int p, llvm::Value* base);

  // Interleaved accesses: interleaved.cpp
  bool is_interleaved(const PlanValue& v) const;
  llvm::Value* load_interleaved(const PlanValue& v);
  llvm::Value* run_pointer(int access, int apart);
  bool is_joined(int p) const;
  void store_joined(int p);

  // Reductions: reduce.cpp
  /// A value and, for ArgMax and ArgMin, its place.
  using Best = std::pair<llvm::Value*, llvm::Value*>;
  ScalarType accumulated(int p) const;
  ScalarType stepped(int p) const;  ///< the type that terms are added in
  llvm::Type* accumulator_type(int p, ScalarType type);
  llvm::Constant* identity(int p);
  llvm::Value* spread(llvm::Value* x, llvm::Type* like);
  void start_reduction(int p);
  void accumulate(int p);
  void flush_block(int p);
  llvm::Value* block_of(int p, const Accumulator& a);
  llvm::Value* in_pairs(int p, llvm::Value* x);
  llvm::AllocaInst* step_counter(int p);
  void flush_after(const std::vector<int>& sums, llvm::Value* steps);
  void finish_reduction(int p);
  bool keeps_nan_apart(int p) const;
  llvm::Value* step(int p, ScalarType type, llvm::Value* so_far, llvm::Value* x);
  llvm::Value* better(int p, llvm::Value* x, llvm::Value* best);
  llvm::Value* replaces(int p, Best a, Best b);
  Best best_of(int p, Best a, Best b);
  llvm::Value* total(int p);
  llvm::Value* with_nan(int p, llvm::Value* extreme);
  llvm::Value* place_of(int p, bool in_vector);
  llvm::Value* loop_index(int var, bool in_vector);
  void array_loop(int p, const Body& body);
  Best array_pointers(int p);
  void set_reduced(int p, llvm::Value* x);

  llvm::Module& module_;
  const Machine& machine_;
  const ir::Kernel& kernel_;
  const Layout& layout_;
  const KernelPlan plan_;
  const std::vector<Near> near_;  ///< of each value; empty: no rounding is cheap
  Builder b_;
  Arithmetic arithmetic_;
  VectorMemory memory_;
  Calls calls_;

  std::map<int, Deferred> deferred_;  ///< what was left, by storage, of the row at hand

  llvm::Function* fn_ = nullptr;
  llvm::BasicBlock* prologue_ = nullptr;  ///< stack slots and kernel arguments
  llvm::Value *pointers_ = nullptr, *integers_ = nullptr, *scalars_ = nullptr, *scratch_ = nullptr;
  llvm::Value *begin_ = nullptr, *end_ = nullptr;
  std::map<std::pair<llvm::Value*, int>, llvm::Value*> arguments_;
  std::vector<llvm::AllocaInst*> promotable_;

  std::vector<Frame> frames_;
  int at_depth_ = 0;  ///< where values are being emitted now
  std::vector<Copy> lanes_;
  size_t copy_ = 0;
  bool words_ = false;                                     ///< vectors are halves of words
  std::map<const PlanValue*, llvm::Value*> words_loaded_;  ///< by the last low half
  int lanes_loop_ = -1;
  std::optional<Strips> strips_;
  std::vector<Emitted> emitted_;
  std::vector<llvm::SmallVector<Accumulator, 4>> accumulators_;
  std::map<int, std::vector<llvm::Value*>> pairs_;  ///< per sum, while a step's vectors are emitted
  /// Of sums over several loops: the steps since the last block was added up.
  std::vector<llvm::AllocaInst*> steps_;
  std::vector<llvm::AllocaInst*> counters_;  ///< per kernel variable: its index, if in the range
  std::vector<llvm::AllocaInst*> offsets_;   ///< per shape: element offset of the range iteration
};

}  // namespace graft::codegen
