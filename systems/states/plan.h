// Which elements of which parameters make a group, and where they lie in a group's slot.
#pragma once

#include <cstdint>
#include <vector>

namespace graft::systems::states {

constexpr int64_t kPage = 4096;  // of O_DIRECT: offsets, sizes and addresses are multiples of it
/// Pieces start at multiples of so many elements, where at::_fused_adamw_'s vectors do, too: the
/// update of a piece has the bits of the whole parameter's.
constexpr int64_t kPieceAlign = 64;

constexpr int64_t round_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Elements [begin, begin + count) of a parameter, at `offset` elements in each section of a slot.
struct Piece {
  int64_t parameter = 0, begin = 0, count = 0, offset = 0;
};

/// A slot is a header, then sections of fp32: exp_avg, exp_avg_sq, and the parameters where the
/// file has them. Each starts at a multiple of kPage bytes.
struct Group {
  std::vector<Piece> pieces;
  int64_t header_bytes = 0, section_bytes = 0;
  int64_t section_offset(int section) const { return header_bytes + section * section_bytes; }
  int64_t slot_bytes(int sections) const { return section_offset(sections); }
};

/// Groups of up to `elements` (a multiple of kPieceAlign) in the parameters' order. A parameter
/// is cut only if it does not fit into a group.
std::vector<Group> plan_groups(const std::vector<int64_t>& sizes, int64_t elements);

/// The largest number of elements per group for which `buffers` slots of any plan's groups, with
/// `scratch` further bytes per element, take at most `budget` bytes; 0 where there is none.
int64_t elements_for(int64_t budget, int buffers, int sections, int64_t scratch,
                     const std::vector<int64_t>& sizes);

}  // namespace graft::systems::states
