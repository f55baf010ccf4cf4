// What a mask leaves out of a product need not be computed.
//
//     [..] %5[b*64+c] = reduced  reduced = sum.f32{d} ..  product
//     [..] %9[b*64+c] = select(%8[b*64+c], $-inf, %5[b*64+c])
//
// In a block of rows, a column whose every element is masked is read by nobody. One byte for each
// column says whether it is, by the mask itself: it may be data, or arithmetic of indices.
#pragma once

#include <optional>
#include <vector>

#include "ir/kernel.h"

namespace graft::passes {

/// Who reads a product's result, under which conditions.
struct Reader {
  size_t product = 0, placed = 0;  ///< into Kernel::placed
  size_t load = 0;                 ///< of the result, into Statement::loads
  size_t row = 0;                  ///< its axis over the block's rows
  int block = -1;                  ///< the variable of blocks
  struct Condition {
    ir::NodeId node;
    bool holds;
  };
  std::vector<Condition> conditions = {};  ///< all are met where the result is used
};
/// Is it a variable of tiles, or of blocks?
bool is_outer(const ir::Kernel& kernel, const Reader& reader, int var);
/// Of each product whose result is `local` and only read by selects, all in one statement. `rows`:
/// variables of a block's rows; `block`: that of blocks.
std::vector<Reader> masked_readers(const ir::Kernel& kernel, const std::vector<bool>& local,
                                   const std::vector<int>& rows, int block);

/// Computes the bytes in front of the product, into a new storage. The product's result lies in
/// scratch by now.
void compute_needed(ir::Kernel& kernel, const Reader& reader, std::vector<ir::Storage>& storages);

}  // namespace graft::passes
