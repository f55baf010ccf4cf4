// An executable program: kernels whose pointers are (block, offset) pairs, extern calls, and the
// results to rebuild.
//
// A *block* is memory that keeps its address during a call: that of an argument (arguments that
// overlap share one), of a captured tensor, of an output (fresh memory from the pool), the arena of
// small temporaries or a part of it, a large one, memory that an extern call returned, or one that
// outlives calls (folded.h). Any number of threads may run a plan at once: but for folded blocks it
// is immutable.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "codegen/backend.h"
#include "graft/detail/core.h"
#include "ir/kernel.h"
#include "ir/numbers.h"
#include "runtime/random/draw.h"
#include "tensor/lineage.h"

namespace graft::runtime {

class Folded;
class Frame;

struct Place {
  int block = -1;
  int64_t offset = 0;  ///< bytes
};

/// A tensor over a block, to be rebuilt at each call.
struct ViewSpec {
  Place place;
  View view;  ///< its storage is the schedule's
  bool contiguous = false;
  int argument = -1;          ///< >= 0: it is exactly this argument
  int captured = -1;          ///< >= 0: exactly this captured tensor
  int carrier_argument = -1;  ///< the argument whose c10::Storage holds it, in an Argument block
  int carrier_captured = -1;
};

struct Block {
  enum class Kind : uint8_t {
    Argument,
    Captured,
    Output,
    Arena,
    Part,  ///< of the arena, which comes before its parts
    Temporary,
    Extern,
    Folded,
  } kind;
  int source = -1;   ///< Argument, Captured: the tensor that its address is taken from; Part: arena
  int64_t back = 0;  ///< bytes from the block's base to that tensor's data pointer
  int64_t ahead = 0;  ///< Part: bytes from the arena's base to the block's
  int64_t bytes = 0;
  bool written = false;  ///< by the plan
  bool late = false;     ///< Output, Temporary: allocated by the first step that needs it
  bool is_callers() const { return kind == Kind::Argument || kind == Kind::Captured; }
};

struct KernelStep {
  codegen::KernelFn fn;
  std::vector<Place> pointers;
  codegen::Binding binding;  ///< without its structure
  std::shared_ptr<void> code;
  /// For profilers: "graft::kernel-3-map_sum", numbered as in GRAFT_TRACE (a region's backward is a
  /// plan of its own, and begins at 0).
  std::string name;
};

struct ExternStep {
  struct Slot {
    OperandKind kind;
    c10::IValue constant;
    /// Into `inputs`; -1: None, or an undefined tensor where the schema wants one.
    std::vector<int> views;
    bool optional = false;
  };
  struct Output {
    ViewSpec view;
    bool binds = false;  ///< the block's memory is that of this output
    bool made = false;   ///< in an Extern block: its layout must be the recorded one
  };
  c10::OperatorHandle op;
  std::vector<Slot> slots;
  std::vector<ViewSpec> inputs;
  std::vector<Output> outputs;
  uint64_t undefined = 0;  ///< ir::Extern::undefined
  Draw draw = nullptr;     ///< tried in the operator's place
  bool starts = false;     ///< a collective of its first input
  bool awaits = false;     ///< likewise
};

struct Step {
  enum class Kind : uint8_t { Kernel, Extern, Abort } kind;
  int index = -1;       ///< into kernels, externs
  Place flag;           ///< Abort
  bool folded = false;  ///< Kernel: it stores in Folded blocks, and runs when they are made
  /// An earlier step changed the caller's memory or drew random numbers, and that is not undone.
  bool visible_before = false;
  bool visible_after = false;  ///< likewise, or this one does
  std::vector<int> acquire;    ///< late blocks that no earlier step needs
  std::vector<int> release;  ///< Temporary and Extern blocks that no later step and no result needs
};

struct ResultSpec {
  enum class Kind : uint8_t { Argument, Captured, Same, Undefined, View } kind;
  int index = -1;  ///< which argument, captured tensor or earlier result
  ViewSpec view;
  Lineage lineage;       ///< View
  bool returned = true;  ///< false: only the base of returned views, or a gradient
  std::optional<CallersTensor> gradient_of = {};  ///< the leaf whose gradient it becomes
};

/// A version counter that a run raises, as eager's in-place operators do.
struct Raise {
  bool captured = false;  ///< of captured tensor `index`, else of argument `index`
  int index = -1;
  /// With the first step that writes that memory: what fails later finds it raised. The number of
  /// steps where none writes (an empty tensor).
  size_t step = 0;
};

/// A mistake of Graft's: what ran is not what was recorded. `visible`: the caller's memory was
/// already changed.
class PlanError : public std::runtime_error {
 public:
  PlanError(const std::string& what, bool visible) : std::runtime_error(what), visible(visible) {}
  const bool visible;
};

/// A kernel of the schedule, ready to run.
struct ReadyKernel {
  codegen::Binding binding;
  codegen::Compiled code;
};

class Plan {
 public:
  /// `kernels`: one per Kernel step, in order. Throws std::logic_error naming what cannot be
  /// executed.
  Plan(const ir::Schedule& schedule, std::vector<ReadyKernel> kernels);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  enum class Outcome : uint8_t {
    Done,
    GivenUp,  ///< nothing visible was written, or it was put back: eager has to run
  };
  /// Per block: memory to use in place of the real one; undefined where the real one is used.
  using StandIns = std::vector<c10::Storage>;

  /// `captured`: strong references, in the signature's order. `results`: as many as result_count();
  /// those that the function returns come first.
  /// Throws what an extern operator throws after something visible was written, and PlanError.
  Outcome run(const detail::FlatArgs& args, const at::Tensor* captured, at::Tensor* results,
              const StandIns* stand_ins = nullptr) const;

  /// Does a run replace the gradients of leaves?
  bool sets_gradients() const { return sets_gradients_; }
  /// Do other processes hear of a run? Tried alone, it runs under a tape (communication/tape.h).
  bool communicates() const { return communicates_; }
  size_t result_count() const { return results_.size(); }
  size_t kernel_count() const { return kernels_.size(); }
  /// The generators that the plan draws random numbers from, each once, ATen's default one
  /// included.
  const std::vector<at::Generator>& generators() const { return generators_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<ResultSpec>& results() const { return results_; }
  size_t returned_count() const;
  /// The view of argument `i` (captured tensor `i`) in its block; block -1 when it is undefined.
  const ViewSpec& argument_view(size_t i) const { return argument_views_[i]; }
  const ViewSpec& captured_view(size_t i) const { return captured_views_[i]; }
  /// Of what is computed of captured tensors alone, and held.
  int64_t folded_bytes() const;
  size_t captured_count() const { return captured_views_.size(); }
  /// One per distinct version counter, by step.
  const std::vector<Raise>& raises() const { return raises_; }

  /// Can it be copied with other numbers? Not where blocks are folded.
  bool has_sizes() const { return folded_ == nullptr; }
  /// Its structure and numbers (ir/numbers.h). Plans of one structure run the same code.
  void visit(ir::NumberVisitor& visitor);
  /// A copy with these numbers, in the walk's order. Of a plan that has_sizes().
  std::unique_ptr<Plan> with_numbers(const std::vector<int64_t>& numbers) const;
  /// Likewise itself, while nobody runs it.
  void set_numbers(const std::vector<int64_t>& numbers);

 private:
  Plan();
  friend class PlanBuilder;
  friend class Frame;
  friend class Replay;

  /// Gives the run the memory of folded blocks, after it computed what lies in them, if it must.
  void bind_folded(Frame& frame, const at::Tensor* captured) const;

  std::vector<Block> blocks_;
  bool has_storages_ = false;  ///< some blocks are c10::Storages of the run's own
  bool sets_gradients_ = false;
  bool communicates_ = false;
  bool arena_shared_ = false;  ///< an extern call sees the arena: it needs a c10::Storage
  std::vector<Step> steps_;
  std::vector<KernelStep> kernels_;
  std::vector<ExternStep> externs_;
  std::vector<ResultSpec> results_;
  std::vector<int> result_order_;  ///< views after what they are views of
  std::vector<Raise> raises_;
  std::vector<ViewSpec> argument_views_, captured_views_;
  std::unique_ptr<const Folded> folded_;  ///< null: no block is folded
  size_t max_pointers_ = 0;
  std::vector<at::Generator> generators_;
  bool rewinds_ = false;  ///< a check may end a run after it drew from them
  /// What ends a run before this step is undone: `undone_`, blocks of the caller's, are put back.
  size_t undone_steps_ = 0;
  std::vector<int> undone_;
};

inline void visit(Plan& plan, ir::NumberVisitor& visitor) {
  plan.visit(visitor);
}

/// A tensor over `storage`, `offset` bytes from its start.
at::Tensor make_view(const ViewSpec& spec, const c10::Storage& storage, int64_t offset);

}  // namespace graft::runtime
