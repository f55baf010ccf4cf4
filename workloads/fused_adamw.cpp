#include "workloads/fused_adamw.h"

#include <ATen/ATen.h>

#include <array>
#include <memory>

namespace graft::workloads {

Call fused_adamw(const Tensors& parameters, const Tensors& gradients, const Tensors& first,
                 const Tensors& second, double beta2,
                 std::function<Tensors(const Tensors&, const Tensors&, const Tensors&)> outputs) {
  using Lists = std::array<Tensors, 3>;
  const auto copies = [](const Lists& all) {
    return Lists{detail::copy_of(all[0]), detail::copy_of(all[1]), detail::copy_of(all[2])};
  };
  const Lists given{parameters, first, second};
  const auto own = std::make_shared<Lists>(copies(given));
  const auto step = [gradients, beta2](Lists& all) {
    const Tensors steps(all[0].size(), at::ones({}));
    at::_fused_adamw_(all[0], gradients, all[1], all[2], {}, steps, /*lr=*/1e-3, /*beta1=*/0.9,
                      beta2, /*weight_decay=*/0.01, /*eps=*/1e-8, /*amsgrad=*/false,
                      /*maximize=*/false);
  };
  return {[step, own] { step(*own); },
          [step, copies, given, outputs = std::move(outputs)] {
            Lists all = copies(given);
            step(all);
            return outputs(all[0], all[1], all[2]);
          }};
}

}  // namespace graft::workloads
