// What one real run of a function did: operators, tensors, storages.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tensor/lineage.h"
#include "tensor/view.h"

namespace graft::record {

class Participant;

/// Memory seen during the run. Arguments whose memory overlaps share one storage; the plan key
/// holds the distances between them. The base of an argument's or capture's storage is the lowest
/// data pointer of those of its tensors that have elements; offsets count from there.
struct StorageInfo {
  enum class Origin : uint8_t { Argument, Captured, Made } origin = Origin::Made;
  /// Argument, Captured: index of the first argument (capture) in it, one with elements if there
  /// is.
  int first = -1;
  int64_t bytes = 0;
  int maker = -1;  ///< Made: index of the operator that allocated it
  /// Made: reachable from the result (or still alive elsewhere) after the run.
  bool escapes = false;
  /// Made by at::tensor({…}): the bytes of its numbers, which are constants of the trace.
  std::vector<char> numbers = {};
};

/// A tensor as an operator saw it (layout at the start of the operator for inputs, at its end for
/// outputs).
struct TensorInfo : View {
  bool wrapped_number = false;  ///< a 0-dim tensor made from a Scalar; `constant` holds its value
  std::optional<c10::Scalar> constant;  ///< then storage is -1
  bool conjugated = false;              ///< lazily: the memory holds the conjugates of its elements
};

/// Indices into Trace::tensors; -1 = None. Mostly one.
struct TensorIds : c10::SmallVector<int, 2> {
  using SmallVector::SmallVector;
  /// Throws std::out_of_range, as std::vector's.
  int at(size_t k) const {
    if (k >= size()) throw std::out_of_range("an operand has fewer tensors");
    return (*this)[k];
  }
};

/// An argument or result of an operator.
struct Operand {
  using Kind = OperandKind;
  Kind kind = Kind::Constant;
  /// Kind::Constant: numbers, lists of numbers, strings, devices, None, generators.
  c10::IValue constant;
  TensorIds tensors;  ///< Kind::Number: one
};

struct OperatorRecord {
  c10::OperatorHandle op;
  std::vector<Operand> inputs;   ///< one per argument of the schema
  std::vector<Operand> outputs;  ///< one per return value
  std::vector<int> mutated;  ///< storages written through input tensors (schema alias annotations)
  /// It returned a value that the function's code may branch on, so that a plan checks it.
  bool tells_value = false;
  /// It has to be a loop: a plan that called it could not give up where its results are of other
  /// sizes than recorded.
  bool never_called = false;
};

/// A tensor of the function's result.
struct ResultInfo : Returned {
  int tensor = -1;  ///< index into Trace::tensors
};

struct Trace {
  std::vector<StorageInfo> storages;
  std::vector<TensorInfo> tensors;
  std::vector<OperatorRecord> ops;
  std::vector<int> arguments;         ///< index into tensors, one per tensor argument
  std::vector<at::Tensor> captured;   ///< tensors that were neither arguments nor made in the run
  std::vector<int> captured_tensors;  ///< index into tensors, one per capture
  /// The function's, then the gradients that it set or cleared, then bases that it does not return.
  std::vector<ResultInfo> results;
  /// Per capture: the leaf whose gradient it was before the run.
  std::vector<std::optional<CallersTensor>> gradient_of;
  /// Per such capture: others hold it as well, and may mean the tensor, not the leaf's gradient.
  std::vector<bool> held;
  /// A captured leaf of a run that differentiates, or that used or changed its gradient: it must
  /// come to the next run with a gradient, or without, as it came to this one.
  struct Leaf {
    int captured;
    bool had_gradient;
  };
  std::vector<Leaf> leaves;
  /// Some of these leaves were met in the middle of the run, so that what is said of their
  /// gradients may be wrong: record again, with them.
  bool met_leaves = false;
  /// The function itself runs a backward, which goes on behind arguments that were computed.
  bool backward_inside = false;
  /// `broken` by a tensor that is gone after the run.
  bool lost_tensor = false;
  /// Arguments whose version counter the run raised: one per distinct counter.
  std::vector<int> bumped;
  std::vector<int> bumped_captured;  ///< likewise, captures
  /// The process's default dtype while it ran, which type promotion depends on.
  c10::ScalarType default_dtype = c10::ScalarType::Float;
  /// Where the operators of the function's own backward follow, as autograd runs it: gradients of
  /// results come in as arguments behind the function's, others go out as results behind its own.
  struct Backward {
    size_t arguments = 0;               ///< of the function
    size_t results = 0;                 ///< of the function
    int operators = 0;                  ///< of the function
    std::vector<int> places;            ///< the distinct results that require grad
    std::vector<bool> comes;            ///< per place: is there an incoming gradient?
    std::vector<CallersTensor> inputs;  ///< per outgoing gradient: the tensor that it is of
  };
  std::optional<Backward> backward;
  std::vector<std::shared_ptr<Participant>> participants;
  /// Why the function must stay eager: operator, cause, next step.
  std::optional<std::string> broken;
};

/// What a run leaves.
struct Outcome {
  Outcome(std::vector<at::Tensor> made, bool graph_stays = false, bool graph_is_spent = false)
      : results(std::move(made)), graph_stays(graph_stays), graph_is_spent(graph_is_spent) {}
  std::vector<at::Tensor> results;
  /// Autograd's graph of the run is still there, and holds what its backward needs: who else holds
  /// it cannot be seen.
  bool graph_stays;
  /// The run's own backward freed the graph of results that require grad: nobody can go on from
  /// them.
  bool graph_is_spent;
};

/// Runs `fn` and records what it does on this thread. `args` are the caller's tensor arguments, in
/// order; after fn, `outcome()` gives the tensors of its result. `leaves`: captured leaves that an
/// earlier run met. Exceptions of fn pass through, and no trace is left. Thread-safe: other threads
/// may run or record at the same time, and are not seen.
Trace record(const std::vector<at::Tensor>& args, const std::function<void()>& fn,
             const std::function<Outcome()>& outcome, const std::vector<at::Tensor>& leaves = {});

/// Inside `fn`: what was added to `args` since counts as arguments of the run. Returns how many
/// operators it has recorded.
int add_new_arguments();

/// Is a run being recorded on this thread? A compiled function called inside one runs eagerly and
/// is seen through.
bool recording();

/// Text of a trace, one line per operator.
std::string print(const Trace& trace);

}  // namespace graft::record
