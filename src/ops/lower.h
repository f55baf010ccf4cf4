// Turns a trace into a loop program: views vanish into accesses, fused operators become statements,
// the rest externs.
#pragma once

#include <functional>

#include "graft/report.h"
#include "ir/product.h"
#include "ir/program.h"
#include "ir/target.h"
#include "record/trace.h"

namespace graft::ops {

/// An extern operator that another of ATen's routines computes as well, with sums rounded in
/// another order. Which one is faster depends on the machine: whoever tunes a plan decides.
struct Choice {
  size_t item;            ///< of Lowered::program: the operator's Extern
  ir::Extern other;       ///< with the same outputs
  std::string name;       ///< "oneDNN's"
  OperatorReport report;  ///< what Lowered::operators counts the operator as
};

/// An operator whose bits may differ from eager's, by the rounding of a dtype that it computes in.
struct Approximation {
  c10::ScalarType computed;
  int record;         ///< into Trace::ops
  int64_t terms = 0;  ///< of a product that its one statement writes out
};

struct Lowered {
  ir::Program program;
  std::vector<OperatorReport> operators;  ///< what became of each operator, counted
  bool exact = true;  ///< every fused operator has eager's bits: results must be bitwise equal
  bool either_zero = false;  ///< except that zeros may differ in sign
  std::string gives_up;      ///< why it may although eager would go on; empty: it may not
  std::vector<Approximation> approximated;  ///< if not exact
  std::vector<Choice> choices;              ///< none is taken
  std::vector<int> held;  ///< products, by record, that would be loops but for LowerSettings::holds
  /// Why the program cannot be compiled, and what the user can do. With choices: why it is not
  /// worth compiling, which taking one of them changes.
  std::optional<std::string> broken;
};

struct LowerSettings {
  bool fast = false;  ///< Numerics::Fast
  /// Matmul::Any: sums of matrix products may add up in another order than eager's.
  bool any_products = true;
  /// The trace's sizes are one example of many: that there are few results is no reason to sum them
  /// up in another way.
  bool any_size = false;
  /// Elements are often equal whose order is eager's own: no loops that end the run there.
  bool ties = false;
  /// Tells how eager's routine adds up so few terms. Empty: by multiply-adds where the machine has
  /// them, and what is added at last.
  std::function<ir::TermOrder(const ir::FewTerms&)> order_of_terms = {};
  /// Is the operator, by record, a product whose right operand, a captured tensor, is held in the
  /// order in which kernels read it? Such a call stays one, of few rows, too. Empty: none is.
  std::function<bool(int record)> holds = {};
  /// The machine whose ATen is eager: its kernels decide which bits are eager's.
  ir::Target target;
};

/// A function of the trace and the settings alone.
Lowered lower(const record::Trace& trace, const LowerSettings& settings = {});

/// Takes a choice: the program calls the other routine. `why`: for the report.
void take(Lowered& lowered, const Choice& choice, const std::string& why);

}  // namespace graft::ops
