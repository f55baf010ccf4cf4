// Turn: the vector loop around a tile goes inside of the tile's own loops.
//
//     vector v1:512                                     serial v2:16
//       serial v2:16                                      vector v1:512 %8 += exp(…)
//         %8 += exp(…)                    →             vector v3:512
//       %9[v1] = %8[v1]                                   %9[v3] = %8[v3]
//
// Memory is then walked along instead of down, and routines that want whole arrays get a row at a
// time; but each column has accumulators in memory.
#pragma once

#include "ir/kernel.h"

namespace graft::passes {

/// Does it call a routine that wants whole arrays?
bool calls_arrays(const ir::Statement& s);

/// What turning a kernel's vector loop takes and brings.
struct Turning {
  bool possible = true;
  bool far = false;           ///< rows that lie far apart are read
  bool calls_arrays = false;  ///< in the loops inside
  int64_t accumulators = 0;   ///< bytes per column, of the nest that has most
  int64_t passed = 0;         ///< bytes per column that nests leave to each other
  size_t nests = 0;
};
/// `kernel`: its body is one loop.
Turning turning(const ir::Kernel& kernel);

/// Turns a kernel for which that is possible.
void turn(ir::Kernel& kernel);

}  // namespace graft::passes
