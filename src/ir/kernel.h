// What fusion makes of statements: kernels, each a tree of loops, and the schedule that runs them.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "ir/program.h"

namespace graft::ir {

/// A loop of a kernel. `Range` variables are the outermost ones, flattened (last fastest) and
/// handed out to threads; `Vector` steps by the vector width, its iterations are lanes; `Serial`
/// runs in order.
/// `Step` is a Repeat's: it runs in order, its iterations see what earlier ones stored.
enum class LoopKind : uint8_t { Range, Serial, Vector, Step };
struct Variable {
  int64_t extent;
  LoopKind kind;
  int64_t growth = 0;  ///< at value i of the variable `step`, the extent is extent + growth * i
  int step = -1;       ///< whose loop lies around this one's
};

/// A statement inside a kernel: axis a of the statement runs with variable axis_var[a]. The
/// statement's axes are exactly the variables of the loops around it (each once). Extents agree.
struct Placed {
  Statement statement;
  std::vector<int> axis_var;
  /// Whole vectors are stored past the cache. They lie at multiples of 64 bytes of memory that
  /// begins at one.
  bool streamed = false;
  /// Copies between memory, contiguous along its one inner variable, and scratch by lane: whole
  /// squares of it are transposed in registers.
  bool transposed = false;
};

struct Loop;
struct TreeNode {
  std::unique_ptr<Loop> loop;  ///< either a loop
  int placed = -1;             ///< or Kernel::placed[placed]
};
/// Runs `body` in order for each value of the variable. Statements directly in one Vector loop's
/// body run iteration by iteration together. A reduction is finished (its value stored) when the
/// outermost loop of its reduced variables ends: its reduced variables are the innermost loops
/// around it, except that one Vector variable that is not reduced may lie outside or inside of
/// them. A statement may read what an earlier one in the same iteration stored.
struct Loop {
  int var;
  std::vector<TreeNode> body;
};

/// Memory of one tile (one Range iteration): thread-local scratch. Accesses to it have stride 0
/// along Range variables.
struct Scratch {
  int storage;     ///< the Temporary it stands for
  int64_t offset;  ///< bytes in the kernel's scratch block, 64-aligned
  int64_t bytes;
  /// Not 0: holds the lanes of this many vectors side by side. Accesses have stride 1 along the
  /// Vector variable around the tile, counted from the first of these vectors.
  int vectors = 0;
};

struct Kernel {
  std::vector<Variable> vars;
  /// Range variables, outermost first. Empty: the one top-level Vector loop of `body` is the range,
  /// handed out in elements, or there is one iteration.
  std::vector<int> range;
  std::vector<TreeNode> body;
  std::vector<Placed> placed;
  std::vector<Scratch> scratch;
  int64_t scratch_bytes = 0;
  std::string name;  ///< from its operators: "mul_neg_add"
  /// Range iterations (elements, if the range is a Vector loop) a task gets at least.
  int64_t grain = 1;
};

using Step = std::variant<Kernel, Extern, Abort>;

/// A program ready for code generation: steps in order, and where temporaries live.
struct Schedule {
  std::vector<Storage> storages;
  std::vector<Step> steps;
  std::vector<Result> results;
  /// A storage: byte offset in the plan's arena, or -1 (not in the arena).
  std::vector<int64_t> arena_offset;
  int64_t arena_bytes = 0;
};

std::string print(const Kernel& kernel, const std::vector<Storage>& storages);
std::string print(const Schedule& schedule);
std::string verify(const Kernel& kernel, const std::vector<Storage>& storages);

}  // namespace graft::ir
