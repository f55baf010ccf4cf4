// Small questions about a kernel's loops, and changes of them, that schedule passes are made of.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "ir/kernel.h"
#include "passes/settings.h"

namespace graft::passes {

/// Calls fn(kernel), or fn(kernel, step), for each kernel of the schedule in order.
template <class Fn>
void each_kernel(ir::Schedule& schedule, Fn fn) {
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    auto* kernel = std::get_if<ir::Kernel>(&schedule.steps[k]);
    if (kernel == nullptr) continue;
    if constexpr (std::is_invocable_v<Fn, ir::Kernel&, int>)
      fn(*kernel, static_cast<int>(k));
    else
      fn(*kernel);
  }
}

/// An axis of the statement by its variable; -1: it has none.
int axis_of(const ir::Placed& p, int var);

bool is_range(const ir::Kernel& kernel, int var);
bool is_step(const ir::Kernel& kernel, const ir::Loop& loop);
bool has_steps(const ir::Kernel& kernel);
bool has_vector(const ir::Kernel& kernel);
/// Is it the nest of a matrix product, which a routine computes?
bool is_product_nest(const ir::Kernel& kernel, const ir::Loop& loop);
bool has_product(const ir::Kernel& kernel);

/// An access's stride along each Range variable: what moves its address from tile to tile.
std::vector<int64_t> tile_strides(const ir::Kernel& kernel, const ir::Placed& p,
                                  const ir::Access& x);

/// Splits a variable in two: a new Range variable, of the outer part, and itself, with `inner`
/// iterations. Gives the new one.
int split_variable(ir::Kernel& kernel, int var, int64_t inner);

/// Range variables are some no longer: their loops are to run inside of a tile.
void make_serial(ir::Kernel& kernel, const std::vector<int>& vars);

/// Wraps the body in a vector loop over what was a Range variable: lanes are neighbouring tiles.
void wrap(ir::Kernel& kernel, int var, const Settings& settings);

/// The node inside loops over the variables, outermost first.
ir::TreeNode nested(const std::vector<int>& vars, ir::TreeNode node);
/// Where the node that has the statement in it stands: in the top-level loop over `outer` if there
/// is one, else in the kernel's body.
struct Position {
  std::vector<ir::TreeNode>& body;
  std::ptrdiff_t at;  ///< body.size(): nowhere
};
Position position_of(ir::Kernel& kernel, int outer, size_t placed);
/// Gives the storage a place in the scratch block.
void add_scratch(ir::Kernel& kernel, int storage, int64_t bytes, int vectors = 0);

/// The nest of single loops that starts at `loop`: its variables, outermost first.
std::vector<int> nest_of(const ir::Loop& loop);
/// Reorders a nest of single loops to `order`.
void reorder(ir::Loop& loop, const std::vector<int>& order);
/// Does a statement reduce over the variable (`scan_only`: in a scan)?
bool is_reduced_over(const ir::Kernel& kernel, int var, bool scan_only = false);

}  // namespace graft::passes
