// Shared by the lowerings of samples at places that a grid names.
#pragma once

#include "ops/context.h"

namespace graft::ops {

/// As the schema counts them.
enum Interpolation { Bilinear, Nearest };
enum Padding { Zeros, Border, Reflection };

/// What is asked of one dimension.
struct Extent {
  int64_t size = 1;
  int64_t padding = Zeros;
  bool corners = false;  ///< -1 and 1 name the centres of the first and last elements
  bool fused = false;    ///< ATen's compiler fuses multiplications and additions
};

/// One of the elements beside a place.
struct Corner {
  ir::Value there;  ///< is there such an element?
  ir::Value index;  ///< it, or one that exists
  ir::Value weight;
};

/// Element `at`, a whole number of floating type.
Corner corner(ir::Value at, ir::Value weight, const Extent& extent);
/// A number that depends on the sizes: an argument of the kernel.
ir::Value number_of(ir::Value like, double value);
/// Number `which` of the grid's place for each element of the result [N, C, …].
ir::Value number_of_grid(ir::StatementBuilder& s, ir::View grid, int64_t which);
/// Why a call stays ATen's, or null.
const char* why_not_sampled(const record::OperatorRecord& op, const ir::View& in,
                            const ir::View& grid, const ir::View& out);

}  // namespace graft::ops
