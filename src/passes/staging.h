// Staging: what a tile walks along its own row is transposed into scratch, the tiles' lanes side by
// side, and back, so that neighbouring tiles can be the lanes of a vector.
//
//     v0:2048                                        vector v0:2048
//       serial v1:10                                   %9[v0+v2*16] = %4[v0*10+v2]  transposed
//         %5[v0] += f(%4[v0*10+v1])              →     serial v1:10
//                                                        %5[v0] += f(%9[v0+v1*16])
#pragma once

#include <optional>
#include <vector>

#include "ir/kernel.h"
#include "passes/settings.h"

namespace graft::passes {

/// A storage whose part of each tile can lie in scratch, lanes side by side.
struct Part {
  int storage;
  c10::ScalarType dtype;
  int64_t lane_stride;
  int64_t first = INT64_MAX, gap = 0, count = 0;  ///< its elements in a tile: first + gap * k
  bool copied_in = false, copied_out = false;
  int columns = 0;   ///< of the last square that is copied: ir::Placed::columns
  int64_t room = 0;  ///< elements that scratch has room for: a copy fills the last square
  int64_t bytes(int64_t lanes) const {
    return room * lanes * static_cast<int64_t>(c10::elementSize(dtype));
  }
};
/// An access's stride along the variable.
int64_t stride_along(const ir::Placed& p, const ir::Access& x, int var);

/// Of a kernel without vector loops.
class Staging {
 public:
  /// `local`: storages that only this kernel touches.
  Staging(ir::Kernel& kernel, ir::Schedule& schedule, std::vector<bool> local,
          const Settings& settings)
      : kernel_(kernel), schedule_(schedule), local_(std::move(local)), settings_(settings) {}

  /// What can be staged where the Range variable's iterations are lanes.
  std::vector<Part> parts_of(int var) const;
  /// Makes them the lanes, and the Range variables `inside` loops of each. Adds storages to the
  /// schedule: the scratch.
  void run(int var, const std::vector<int>& inside = {});

 private:
  struct Use {
    const ir::Access* access;
    const ir::Placed* placed;
    bool store;
  };
  std::vector<Use> uses_of(int storage, int var, int64_t lane_stride) const;
  std::optional<Part> part_of(int storage, int var, int64_t lane_stride) const;
  ir::Access within_tile(const Use& use, int var) const;
  bool lies_apart(const Part& part, int64_t last, const std::vector<int64_t>& tiles, int var) const;
  bool holds_data(int storage) const;
  bool is_callers(int storage) const;
  bool stored_dense(const Part& part, const std::vector<Use>& uses, int var) const;
  bool prepare_turn(const std::vector<Part>& parts, int var);
  void move(const Part& part, int var);
  ir::Placed copy_of(const Part& part, int var, int to);
  void mark_transposed(ir::Placed& p, int var) const;
  void add(ir::Placed copy, bool last);

  int64_t extent(int var) const { return kernel_.vars[static_cast<size_t>(var)].extent; }
  bool turns() const { return lanes_ > 0; }
  /// Lanes that have a place in scratch.
  int64_t width() const {
    return turns() ? lanes_ : static_cast<int64_t>(settings_.target.lanes) * vectors_;
  }

  ir::Kernel& kernel_;
  ir::Schedule& schedule_;
  const std::vector<bool> local_;
  const Settings& settings_;
  int vectors_ = 1;  ///< side by side
  /// Iterations of the vector loop that goes inside of all others; 0: none does.
  int64_t lanes_ = 0;
};

}  // namespace graft::passes
