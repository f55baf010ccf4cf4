// How a function is compiled. Names and meanings follow torch.compile's where it has the same
// option.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "graft/export.h"

namespace graft {

/// What Graft throws: under Options::fullgraph and Stance::FailOnRerecord, for options that it does
/// not know, and for a failure after the caller's tensors were changed; in graft/workload.h also
/// for names and values of workloads. The text says what came and, where there is a way, what to
/// do.
class GRAFT_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Mode {
  Default,  ///< compile, prove, use the faster side
  /// As Default, and measures while compiling. It times ATen's routines for each fp32 matmul and
  /// takes the fastest; results may then differ from eager's by the rounding of a sum in another
  /// order. Then it times alternative schedules, on data of its own, for about two seconds, and
  /// takes the fastest (Report::tuned).
  MaxAutotune,
  /// For functions of microseconds that are called again and again, as a decoder's layers: a call
  /// that is like one of the last few is served without a look-up, in memory of earlier calls. For
  /// each of up to three layouts the function keeps temporaries (1 MiB at most, otherwise it is
  /// served as usual) and the memory of three calls' results. Memory of a result that is still held
  /// is never written again. Calls of several threads at once are served as usual.
  ReduceOverhead,
};

enum class Numerics {
  Exact,  ///< every operator rounds where eager rounds and calls the functions that eager calls
  Fast,   ///< intermediates of bf16/fp16 chains stay fp32; faster routines for exp and the like
};

/// What a region keeps in memory from its forward to its backward.
enum class Keep {
  LeastTime,    ///< computes again what takes less time than to store and load it
  LeastMemory,  ///< computes again whatever it can: all but matmuls, ATen's calls, random numbers
};

/// Products of matrices, and ATen's fused attention.
enum class Matmul {
  Any,        ///< inside a kernel with what stands around it where that is faster: other sums
  EagerBits,  ///< by the routine that eager calls
};

/// What a call needs whose arguments have sizes that were never seen.
enum class Sizes {
  PerLayout,  ///< each argument layout is recorded, proven and raced by itself
  /// The caller says that the function's control flow does not depend on the sizes of arguments,
  /// nor on whole numbers among them, from 2 on. After three layouts that differ in one size (four,
  /// in two) plans for other sizes are made of those, without a record. Eager and compiled both run
  /// once or a few times per doubling of a size, and once in 128 calls: calls are compared then.
  Family,
};

struct Options {
  std::string name = {};  ///< shown in reports and logs; empty: "fn<number>"
  Mode mode = Mode::Default;
  Numerics numerics = Numerics::Exact;
  bool async = true;  ///< compile on a background thread; calls meanwhile stay eager
  bool race = true;   ///< use the compiled plan only where it is measured faster than eager
  /// Throw graft::Error on a graph break instead of staying eager: after the recorded call, whose
  /// writes have happened and whose result is lost.
  bool fullgraph = false;
  /// If N > 0, compares one call in N with eager for as long as the function lives, also after the
  /// proof: for functions that use something that Graft does not see (graft.h).
  int64_t audit_every = 0;
  /// Argument layouts that have plans (one each; up to six where the function's code branches on
  /// what tensors hold); the one unused longest is dropped first.
  int64_t max_plans = 64;
  Sizes sizes = Sizes::PerLayout;
  /// Take plans that another process kept, and keep those compiled here (graft/cache.h).
  bool cache = true;
  Keep keep = Keep::LeastTime;
  Matmul matmul = Matmul::Any;
  /// Bytes that a plan may hold of what it computes of captured tensors alone, as weights in the
  /// order in which a product reads them. It is computed again when such a tensor changes, which
  /// its version counter says: writes around that, through `tensor.data()` or a raw pointer, are
  /// seen only where they change much of it. 0: all is computed at each call; -1: 1 GiB under
  /// MaxAutotune, otherwise 0. Nothing is held in training, nor of tensors made in InferenceMode.
  int64_t most_folded_bytes = -1;
  /// Optional passes to leave out; throws graft::Error for other names.
  std::vector<std::string> skip_passes = {};
  /// Overrides of what the cost model decides, from Decision::id to the name of a way. `graft tune`
  /// uses it to try the alternatives. Names that the program does not have are ignored.
  std::map<std::string, std::string> decisions = {};
};

/// A switch for the whole process, like torch.compiler.set_stance.
enum class Stance {
  Default,
  ForceEager,  ///< every compiled function runs eagerly
  /// A call that no plan fits throws graft::Error, naming the argument that differs. First calls
  /// are recorded as usual.
  FailOnRerecord,
};
/// Thread-safe; for calls that begin afterwards.
GRAFT_API void set_stance(Stance stance);
GRAFT_API Stance stance();

}  // namespace graft
