// A slow evaluator of loop programs, obviously correct rather than fast: what lowerings, passes and
// code generation are checked against. It runs on real memory, so it also notices what a compiled
// program would get wrong in silence: an access outside its storage, two points that store one
// place, a point that reads what another point stores.
#pragma once

#include <ATen/core/Tensor.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/program.h"

namespace graft::test {

/// An Abort item found its flag set: the caller would run eagerly now, and get eager's own error.
class Aborted : public std::runtime_error {
 public:
  explicit Aborted(int record)
      : std::runtime_error("the program gave up at recorded operator " + std::to_string(record)),
        record(record) {}
  int record;
};

/// Runs `program` and gives its results. Changes `args` and `captured` in place, as the program
/// does. `args` are the tensor arguments and `captured` the captured tensors, as in the trace that
/// the program came from. Throws Aborted; std::logic_error for a program that breaks the loop
/// program's rules (the text names the item and prints it).
std::vector<at::Tensor> interpret(const ir::Program& program, const std::vector<at::Tensor>& args,
                                  const std::vector<at::Tensor>& captured = {});

/// The same for what the passes make of a program. Vector loops run one iteration after the other,
/// statement by statement within each; range iterations run in order, each with scratch of its own
/// that starts as garbage.
std::vector<at::Tensor> interpret(const ir::Schedule& schedule, const std::vector<at::Tensor>& args,
                                  const std::vector<at::Tensor>& captured = {});

}  // namespace graft::test
