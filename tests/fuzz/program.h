// A random program as data: calls of ATen operators on numbered values. It can be run, printed, and
// run with some of its steps left out.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "oracle/values.h"
#include "support/compare.h"

namespace graft::fuzz {

using test::Random;
using test::Tensors;

/// Where a program's inputs come from. Inputs with one `base` are views of one memory.
struct Source {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes, strides;
  bool captured = false;    ///< held by the function, not passed to it
  int64_t index_bound = 0;  ///< > 0: Long indices below this
  int64_t extent() const;   ///< elements from the first to one past the last
};

/// How the inputs lie in memory: of each, its base and its offset there in elements. All inputs of
/// a base have one dtype. Base -1-k is the memory of captured input k.
struct Placement {
  std::vector<int> base;
  std::vector<int64_t> offset;
};

struct Operand {
  enum class Kind : uint8_t { Constant, Value, Values, OptionalValues } kind = Kind::Constant;
  c10::IValue constant;
  std::vector<int> values;  ///< -1: None
};

struct Step {
  c10::OperatorHandle op;
  std::vector<Operand> operands = {};  ///< one per argument of the schema
  std::vector<int> results = {};       ///< numbers of the values it gives
  bool inexact = false;                ///< Graft does not promise eager's bits for it
  /// For each result, the operand value that can take its place, or -1.
  std::vector<int> stands_for = {};
};

struct Program {
  uint64_t seed = 0;
  std::vector<Source> sources;        ///< values 0, 1, …
  std::vector<Placement> placements;  ///< the first is that of the recorded call
  std::vector<int> calls;             ///< which placement each call has
  std::vector<Step> steps;
  std::vector<int> results;
  int values = 0;              ///< numbers given out
  bool special_values = true;  ///< NaN, infinities, limits among the data
  bool frees = true;    ///< a value is dropped after its last use, so that its memory is used again
  bool random = false;  ///< draws from ATen's generator
  enum class Guard : uint8_t { None, NoGrad, Inference } guard = Guard::None;
};

/// Called after a step with its results, on the way through a run.
using StepHook = std::function<void(const Step&, Tensors& results)>;

/// Called before a step.
using BeforeStep = std::function<void(const Step&, const Tensors& values)>;

/// Runs the steps; `inputs` are the sources' tensors. Throws what an operator throws.
Tensors execute(const Program& program, const Tensors& inputs, const StepHook& after = {},
                const BeforeStep& before = {});

using Function = std::function<Tensors(const Tensors&)>;
/// Its arguments are the sources that are not captured; it puts them together again.
Function function_of(const Program& program, const Tensors& captured);

/// One step on the values so far.
Tensors execute(const Step& step, const Tensors& values);

/// False where the result depends on the order of ATen's loops: what is written overlaps itself or,
/// shifted, what is read. A program is run for it, so `inputs` are changed.
bool is_defined(const Step& step, const Tensors& values);
bool is_defined(const Program& program, const Tensors& inputs);

/// The program without some steps and results. What needs a missing value takes what stands for it,
/// or goes as well.
Program without(const Program& program, const std::set<int>& steps, const std::set<int>& results);

/// Readable text. With `inputs`, the layout of every value.
std::string print(const Program& program, const Tensors* inputs = nullptr);

/// The memory of one side of the comparison: its bases, and the inputs as views of them.
class Memory {
 public:
  /// `call` seeds the data. Captured inputs are made once: pass the tensors of the first call.
  Memory(const Program& program, int placement, int call, const Tensors& captured);
  const Tensors& inputs() const { return inputs_; }
  const Tensors& bases() const { return bases_; }

 private:
  Tensors bases_, inputs_;
};
/// Copies of tensors, some of which may be undefined.
Tensors copies_of(const Tensors& tensors);
/// The captured inputs of a program, undefined where an input is an argument.
Tensors make_captured(const Program& program);

}  // namespace graft::fuzz
