// Fold: what kernels compute of captured tensors alone is computed once, not at each call: weights
// in the order that a product reads them, masks.
//
//     kernel v0:48                                     kernel v0:48
//       %4[…] = %1[…]                           →        %4[…] = %1[…]
//     kernel product v0:2                              kernel product v0:2
//       %5[…] = sum.f32{v4} (%0[…] * %4[…])              %5[…] = sum.f32{v4} (%0[…] * %4[…])
//                                                      %4: folded, 589824 bytes
//
// Like constant folding, but of values that may change: a plan computes them again when they did
// (runtime/plan/folded.h).
#pragma once

#include "ir/kernel.h"
#include "ir/touch.h"
#include "passes/settings.h"

namespace graft::passes {

/// Sets ir::Storage::folded, of at most so many bytes in all as the settings allow.
void fold(ir::Schedule& schedule, const Settings& settings);

/// Per storage: is it captured, and written by no item (or step)?
template <class Items>
std::vector<bool> constant_storages(const Items& items, const std::vector<ir::Storage>& storages) {
  std::vector<bool> constant;
  for (const ir::Storage& s : storages) constant.push_back(s.role == ir::Role::Captured);
  for (const auto& item : items)
    ir::each_touch(item, [&](int storage, bool writes) {
      if (writes) constant[static_cast<size_t>(storage)] = false;
    });
  return constant;
}

}  // namespace graft::passes
