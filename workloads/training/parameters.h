// What training workloads train: random parameters, and the step that trains them.
#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

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

/// The step that trains `parameters` by AdamW to lower loss(parameters, data...). Its bound: they
/// and AdamW's two means are read and written.
/// `update`: AdamW::update, or a function in its place. `under_way`: from means as after a hundred
/// steps, where an update follows the gradient; the first one is its sign, of noise too.
template <class Loss, class Update>
Instance adamw_training(const Loss& loss, const Tensors& parameters, const at::Tensor& inputs,
                        const at::Tensor& targets, const Update& update, Draw* under_way) {
  Tensors first, second;
  for (const at::Tensor& p : parameters) {
    first.push_back(under_way ? under_way->normal(p.sizes()).mul_(1e-4) : at::zeros_like(p));
    second.push_back(under_way ? under_way->uniform(p.sizes(), 1e-8, 1e-6) : at::zeros_like(p));
    p.requires_grad_();
  }
  Instance made = updating_instance_of(
      [loss, update](const Tensors& p, const Tensors& m, const Tensors& v, const at::Tensor& steps,
                     const at::Tensor& x, const at::Tensor& y) {
        return training_step([&] { return loss(p, x, y); },
                             [&] { AdamW::step(p, m, v, steps, update); });
      },
      parameters, first, second, at::full({}, under_way ? 100.f : 0.f), inputs, targets);
  made.bytes = 6 * 4 * elements_of(parameters);
  return made;
}

template <class Loss>
Instance adamw_training(const Loss& loss, const Tensors& parameters, const at::Tensor& inputs,
                        const at::Tensor& targets) {
  return adamw_training(
      loss, parameters, inputs, targets,
      [](const Tensors& p, const Tensors& g, const Tensors& m, const Tensors& v,
         const at::Tensor& steps) { AdamW().update(p, g, m, v, steps); },
      nullptr);
}

}  // namespace graft::workloads
