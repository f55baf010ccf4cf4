// What fusion makes of statements: kernels, each a tree of loops, and the schedule that runs them.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "ir/program.h"

namespace graft::ir {

/// How a loop of a kernel runs. `Range` loops are the outermost ones, flattened (the last varies
/// fastest) and divided among threads. The iterations of a `Vector` loop are lanes. A `Serial` loop
/// runs in order. A `Step` loop comes from a Repeat: it runs in order, and its iterations see what
/// earlier ones stored.
enum class LoopKind : uint8_t { Range, Serial, Vector, Step };
struct Variable {
  int64_t extent;
  LoopKind kind;
  int64_t growth = 0;  ///< the extent is extent + growth * i at value i of the variable `step`
  int step = -1;       ///< a variable whose loop encloses this one
};

/// A statement inside a kernel: axis a of the statement runs with variable axis_var[a]. The
/// statement's axes are exactly the variables of the loops around it (each once). Extents agree.
struct Placed {
  Statement statement;
  std::vector<int> axis_var;
  /// Whole vectors are stored past the cache, at addresses that are multiples of 64 bytes.
  bool streamed = false;
  /// A copy between memory that is contiguous along the one inner variable and memory (or scratch)
  /// that is contiguous along lanes: squares of it are transposed in registers.
  bool transposed = false;
  /// … and the last ones by a square of so many columns, for which scratch has room (ir/facts.h).
  /// 0: one by one.
  int columns = 0;
  /// A matrix product (ir/product.h) that one routine computes: the loops of the nest around it are
  /// rows, columns (in one loop or two) and terms.
  bool product = false;
  /// It adds to what is there: the terms of all iterations of a loop around it are summed in order.
  bool adds = false;
  /// Of a product: a load, by its place in Statement::loads, of bytes that no value uses. A column
  /// whose byte is zero is read by nobody, and need not be computed. -1: all are needed.
  int needed = -1;
  /// Outside of [first, last) of the innermost loop it stores `value` and adds nothing to its
  /// reduction, if the nodes of `finite`, which do not vary along that loop, are finite numbers.
  /// `first` and `last` are loads, of Long, that do not vary either.
  struct Quiet {
    NodeId first, last;
    double value;
    std::vector<NodeId> finite = {};
    /// Only quiet loops of the same row, by the same bounds, read what it stores: `value` is stored
    /// outside when one of them has to run there after all.
    bool deferred = false;
  };
  std::optional<Quiet> quiet = {};
  /// Of a product: masks made the left operand zero outside of the terms [first, last), but for
  /// rows that were not quiet. `finite` is a finite number if all of the right operand is. Loads,
  /// by their places in Statement::loads: two of Long, one of Float.
  struct Outside {
    int first, last, finite;
  };
  std::optional<Outside> outside = {};
  /// Loads that also ask memory for what they read so many iterations of a loop later.
  struct Ahead {
    int load;  ///< its place in Statement::loads
    int var;   ///< of a loop around its vector loop
    int iterations;
  };
  std::vector<Ahead> ahead = {};
};

struct Loop;
struct TreeNode {
  std::unique_ptr<Loop> loop;  ///< either a loop
  int placed = -1;             ///< or Kernel::placed[placed]
};
/// Runs `body` in order for each value of the variable. A statement may read what an earlier one
/// stored in the same iteration.
///
/// The loops over a reduction's reduced variables are the innermost ones around it; one Vector loop
/// over a variable that is not reduced may lie outside or inside of them. When the outermost of the
/// reduced loops ends, the reduction's value is stored.
struct Loop {
  int var;
  std::vector<TreeNode> body;
};

/// Thread-local memory of one tile (one Range iteration). Accesses to it have stride 0 along Range
/// variables.
struct Scratch {
  int storage;     ///< the Temporary it stands for
  int64_t offset;  ///< bytes in the kernel's scratch block, 64-aligned
  int64_t bytes;
  /// If not 0: it holds the lanes of this many vectors side by side, and accesses have stride 1
  /// along the Vector variable around the tile, counted from the first of these vectors.
  int vectors = 0;
};

inline constexpr double kGrainNanoseconds = 20000;

struct Kernel {
  std::vector<Variable> vars;
  /// Range variables, outermost first. Empty: the one top-level Vector loop of `body` is the range,
  /// handed out in elements, or there is one iteration.
  std::vector<int> range;
  std::vector<TreeNode> body;
  std::vector<Placed> placed;
  std::vector<Scratch> scratch;
  int64_t scratch_bytes = 0;
  std::string name;  ///< set by `tasks`: each statement's reduction or "map", in turn: "map_sum"
  /// So many range iterations (elements, if the range is a Vector loop) are worth a second thread:
  /// by estimate, kGrainNanoseconds of work.
  int64_t grain = 1;
  /// Temporaries in memory that no other step touches, set by `memory`. A store to one of these, or
  /// to scratch, need not happen where this kernel never loads it again.
  std::vector<int> own = {};
  /// Its code serves other sizes, too: it is not made for what these divide by.
  bool any_size = false;
  /// … and its products have any few rows: those left of blocks, for all of which it has room.
  bool is_rest = false;
  /// If not 0: the range is so many rows, the values that the index has by which the one statement
  /// stores. A task runs those iterations of the step loop around it whose index is one of them.
  int64_t rows = 0;
};

using Step = std::variant<Kernel, Extern, Abort>;

/// From so many bytes on memory is a block of its own, which comes when it is needed and goes when
/// it is not: an arena lives as long as the run.
inline constexpr int64_t kLarge = int64_t{1} << 20;
/// The arena_offset of such a temporary.
inline constexpr int64_t kOwnBlock = -2;

/// A program ready for code generation: steps in order, and where temporaries live.
struct Schedule {
  Signature signature;
  std::vector<Storage> storages;
  std::vector<Step> steps;
  /// Per storage: byte offset in the plan's arena, or kOwnBlock; -1: neither. Empty until memory is
  /// planned.
  std::vector<int64_t> arena_offset;
  int64_t arena_bytes = 0;
  /// Per storage: the temporary whose memory it takes over in the step that is that one's last and
  /// its own first; -1: none. Empty until then.
  std::vector<int> in_place_of = {};
  /// -1: none.
  int predecessor(size_t storage) const { return in_place_of.empty() ? -1 : in_place_of[storage]; }
};

std::string print(const Kernel& kernel, const std::vector<Storage>& storages);
std::string print(const Schedule& schedule);
std::string verify(const Kernel& kernel, const std::vector<Storage>& storages);

}  // namespace graft::ir
