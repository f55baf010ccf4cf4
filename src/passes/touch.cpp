#include "passes/touch.h"

namespace graft::passes {

std::vector<std::vector<size_t>> touching_items(const ir::Program& program) {
  std::vector<std::vector<size_t>> touching(program.storages.size());
  for (size_t i = 0; i < program.items.size(); ++i)
    each_storage(program.items[i], [&](int storage) {
      auto& list = touching[static_cast<size_t>(storage)];
      if (list.empty() || list.back() != i) list.push_back(i);
    });
  return touching;
}

std::vector<bool> private_storages(const ir::Program& program) {
  std::vector<std::vector<size_t>> touching = touching_items(program);
  std::vector<bool> alone;
  for (size_t s = 0; s < program.storages.size(); ++s) {
    const ir::Storage& made = program.storages[s];
    alone.push_back(made.role == ir::Role::Temporary && !made.made_by_extern &&
                    touching[s].size() == 1);
  }
  return alone;
}

}  // namespace graft::passes
