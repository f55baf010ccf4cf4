// How a function is compiled. Names and meanings follow torch.compile's where it has them.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace graft {

/// What Graft throws when asked to be strict. The text names what came, what was expected and the
/// next step.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Mode {
  Default,         ///< compile, prove, use the faster side
  ReduceOverhead,  ///< as Default, and keep outputs' memory warm in the pool between calls
  /// As Default, and matmuls of fp32 by the fastest of ATen's routines, measured while compiling:
  /// their bits are then not eager's, their error is.
  MaxAutotune,
};

enum class Numerics {
  Exact,  ///< every operator rounds where eager rounds and calls the functions eager calls
  Fast,   ///< intermediates of bf16/fp16 chains stay fp32; vector polynomials for transcendentals
};

struct Options {
  std::string name;  ///< shown in reports and logs; default: "fn<number>"
  Mode mode = Mode::Default;
  Numerics numerics = Numerics::Exact;
  bool async = true;       ///< compile on a background thread; calls meanwhile stay eager
  bool race = true;        ///< use the compiled plan only where it is measured faster than eager
  bool fullgraph = false;  ///< throw graft::Error on a graph break instead of staying eager
  /// reserved: sizes are always kernel arguments, so a new size is a re-record
  bool dynamic = false;
  int64_t audit_every = 0;  ///< after proof, compare one call in N with eager for good; 0 = never
  int64_t max_plans = 64;   ///< argument layouts remembered; older ones are dropped
  /// Optional passes to leave out; throws c10::ValueError for other names.
  std::vector<std::string> skip_passes;
};

/// Process-wide switch, as torch.compiler.set_stance.
enum class Stance {
  Default,
  ForceEager,  ///< every compiled function runs eagerly
  /// A call that no plan fits throws graft::Error, naming the argument that differs.
  FailOnRerecord,
};
void set_stance(Stance stance);
Stance stance();

}  // namespace graft
