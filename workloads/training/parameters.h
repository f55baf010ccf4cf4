// What training workloads train: random parameters, and the step that trains them.
#pragma once

#include "graft/workload.h"
#include "workloads/draw.h"
#include "workloads/training/steps.h"

namespace graft::workloads {

/// FLOPs per parameter of a matmul and row: a multiply-add forward and two backward.
constexpr double kMultiplyAdds = 6;
/// How far GPT-2's matrices are from 0 at the start.
constexpr double kInitial = 0.02;

double elements_of(const Tensors& all);

/// GPT-2's, from the axes layers, context, width and vocabulary; matrices times `scale`.
Tensors gpt_parameters(const Options& o, Draw& draw, double scale = 1);

struct ComponentParameters {
  Tensors parameters, masks;
};
/// ComponentLlama's, from the axes layers, batch, sequence, width, hidden and parts.
ComponentParameters component_parameters(const Options& o, Draw& draw);

/// What AdamW keeps: its means and the number of steps. `under_way`: as after a hundred steps,
/// where an update follows the gradient; the first one is its sign, of noise too. Null: zeros.
struct AdamWState {
  Tensors first, second;
  at::Tensor steps;
};
AdamWState adamw_state(const Tensors& parameters, Draw* under_way);

/// The step that trains `parameters` by AdamW to lower loss(parameters, data...). Its bound: they
/// and AdamW's two means are read and written.
/// `update`: AdamW::update, or a function in its place. `under_way`: of adamw_state().
template <class Loss, class Update>
Instance adamw_training(const Loss& loss, const Tensors& parameters, const at::Tensor& inputs,
                        const at::Tensor& targets, const Update& update, Draw* under_way) {
  const auto [first, second, steps] = adamw_state(parameters, under_way);
  for (const at::Tensor& p : parameters) p.requires_grad_();
  Instance made = updating_instance_of(
      [loss, update](const Tensors& p, const Tensors& m, const Tensors& v, const at::Tensor& steps,
                     const at::Tensor& x, const at::Tensor& y) {
        return training_step([&] { return loss(p, x, y); },
                             [&] { AdamW::step(p, m, v, steps, update); });
      },
      parameters, first, second, steps, inputs, targets);
  made.bytes = 6 * 4 * elements_of(parameters);
  return made;
}

template <class Loss>
Instance adamw_training(const Loss& loss, const Tensors& parameters, const at::Tensor& inputs,
                        const at::Tensor& targets) {
  return adamw_training(
      loss, parameters, inputs, targets, [](const auto&... all) { AdamW().update(all...); },
      nullptr);
}

}  // namespace graft::workloads
