#include "systems/states/plan.h"

#include <algorithm>

#include "systems/states/slot.h"

namespace graft::systems::states {
namespace {

void finish(Group& group, std::vector<Group>& groups) {
  if (group.pieces.empty()) return;
  const Piece& last = group.pieces.back();
  const auto count = static_cast<int64_t>(group.pieces.size());
  group.header_bytes = round_up(slot_header_bytes(count), kPage);
  group.section_bytes = round_up((last.offset + last.count) * int64_t{sizeof(float)}, kPage);
  groups.push_back(std::move(group));
  group = {};
}

}  // namespace

std::vector<Group> plan_groups(const std::vector<int64_t>& sizes, int64_t elements) {
  std::vector<Group> groups;
  Group group;
  int64_t used = 0;
  for (size_t p = 0; p < sizes.size(); ++p) {
    if (used > 0 && used + sizes[p] > elements) {
      finish(group, groups);
      used = 0;
    }
    for (int64_t begin = 0; begin < sizes[p];) {
      const int64_t count = std::min(sizes[p] - begin, elements - used);
      group.pieces.push_back({static_cast<int64_t>(p), begin, count, used});
      begin += count;
      used += round_up(count, kPieceAlign);
      if (used >= elements) {
        finish(group, groups);
        used = 0;
      }
    }
  }
  finish(group, groups);
  return groups;
}

int64_t elements_for(int64_t budget, int buffers, int sections, int64_t scratch,
                     const std::vector<int64_t>& sizes) {
  const int64_t per_element = buffers * sections * int64_t{sizeof(float)} + scratch;
  // From the bound without headers and padding downwards, by less than what these can take.
  for (int64_t elements = budget / per_element / kPieceAlign * kPieceAlign; elements > 0;) {
    int64_t largest = 0, most_elements = 0;
    for (const Group& group : plan_groups(sizes, elements)) {
      largest = std::max(largest, group.slot_bytes(sections));
      most_elements = std::max(most_elements, group.section_bytes / int64_t{sizeof(float)});
    }
    const int64_t over = largest * buffers + most_elements * scratch - budget;
    if (over <= 0) return elements;
    elements -= round_up(std::max<int64_t>(1, over / per_element), kPieceAlign);
  }
  return 0;
}

}  // namespace graft::systems::states
