// Small kernels for the code generator's tests, checked against the interpreter.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "codegen/backend.h"
#include "ir/builder.h"
#include "ir/kernel.h"

namespace graft::test {

/// A kernel under construction over tensors, each of them a storage.
class KernelMaker {
 public:
  ir::Kernel kernel;
  std::vector<at::Tensor> tensors;

  /// A storage, and the view of it that `tensor` is. The kernel may write it.
  ir::View storage(const at::Tensor& tensor);
  /// Memory of one tile, contiguous. Give its number of range variables first as sizes 1 (or stride
  /// 0).
  ir::View scratch(std::vector<int64_t> sizes, c10::ScalarType dtype);

  int range(int64_t extent);
  int serial(int64_t extent) { return variable(extent, ir::LoopKind::Serial); }
  int vector(int64_t extent) { return variable(extent, ir::LoopKind::Vector); }
  int variable(int64_t extent, ir::LoopKind kind);

  /// A statement whose axes run with these variables.
  ir::TreeNode place(ir::Statement statement, std::vector<int> axis_var);
  template <class... Nodes>
  static ir::TreeNode loop(int var, Nodes&&... nodes) {
    auto made = std::make_unique<ir::Loop>();
    made->var = var;
    (made->body.push_back(std::forward<Nodes>(nodes)), ...);
    return {std::move(made), -1};
  }
  void body(ir::TreeNode node) { kernel.body.push_back(std::move(node)); }
};

/// Runs the kernel compiled, in `parts` pieces of its range, on the tensors' own memory.
void run_compiled(const ir::Kernel& kernel, const std::vector<at::Tensor>& tensors,
                  const ir::Target& target = codegen::host_target(1), int parts = 3);

/// Runs compiled and interpreted on copies of the tensors. Empty if all memory then agrees bit for
/// bit (all NaN are one), or within `tolerance` relative to 1 + the largest value.
std::string difference(const KernelMaker& made, double tolerance = 0,
                       const ir::Target& target = codegen::host_target(1));

/// Kernels that difference() has checked from now on are kept, with the memory before and after,
/// for source_differences().
void keep_kernels();
/// Compiles the kept kernels as C++ source, runs them, and compares with what LLVM's code left in
/// memory, bit for bit (all NaN are one). One line per kernel that differs and per node that no
/// kernel has; `count` gets how many were compared: a sample that has every node.
std::string source_differences(size_t& count);

/// Numbers of every kind: small and large, zeros of both signs, infinities, NaN, denormals, the
/// type's limits.
at::Tensor sample(std::vector<int64_t> sizes, c10::ScalarType dtype, uint64_t seed = 1);
/// Ordinary numbers only.
at::Tensor tame(std::vector<int64_t> sizes, c10::ScalarType dtype, uint64_t seed = 1);

/// One statement in a nest of its own axes: the outermost `ranges` are range variables, the one at
/// `vector` is the Vector loop (-1: none), the rest Serial, outermost first in the given order of
/// axes.
void nest(KernelMaker& made, ir::Statement statement, int ranges, int vector,
          std::vector<int> order = {});

}  // namespace graft::test
