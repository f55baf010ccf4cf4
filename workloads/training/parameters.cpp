#include "workloads/training/parameters.h"

#include <cmath>

namespace graft::workloads {

double elements_of(const Tensors& all) {
  double sum = 0;
  for (const at::Tensor& t : all) sum += static_cast<double>(t.numel());
  return sum;
}

AdamWState adamw_state(const Tensors& parameters, Draw* under_way) {
  AdamWState made;
  for (const at::Tensor& p : parameters) {
    made.first.push_back(under_way ? under_way->normal(p.sizes()).mul_(1e-4) : at::zeros_like(p));
    made.second.push_back(under_way ? under_way->uniform(p.sizes(), 1e-8, 1e-6)
                                    : at::zeros_like(p));
  }
  made.steps = at::full({}, under_way ? 100.f : 0.f);
  return made;
}

Tensors gpt_parameters(const Options& o, Draw& draw, double scale) {
  const int64_t width = o.integer("width");
  const auto matrix = [&](int64_t rows, int64_t columns) {
    at::Tensor values = draw.normal({rows, columns});
    return scale == 1 ? values : values.mul_(scale);
  };
  Tensors parameters{matrix(o.integer("vocabulary"), width), matrix(o.integer("context"), width)};
  auto norm = [&] {
    parameters.push_back(at::ones({width}));
    parameters.push_back(at::zeros({width}));
  };
  auto linear = [&](int64_t out, int64_t in) {
    parameters.push_back(matrix(out, in));
    parameters.push_back(at::zeros({out}));
  };
  for (int64_t layer = 0; layer < o.integer("layers"); ++layer) {
    norm(), linear(3 * width, width), linear(width, width);
    norm(), linear(4 * width, width), linear(width, 4 * width);
  }
  norm();
  return parameters;
}

ComponentParameters component_parameters(const Options& o, Draw& draw) {
  const int64_t batch = o.integer("batch"), s = o.integer("sequence"), width = o.integer("width"),
                hidden = o.integer("hidden"), parts = o.integer("parts");
  ComponentParameters made;
  const auto component = [&](int64_t out, int64_t in) {
    for (const auto& [rows, columns] : {std::pair(in, parts), {parts, out}})
      made.parameters.push_back(
          draw.normal({rows, columns}).mul_(1 / std::sqrt(static_cast<double>(rows))));
    made.masks.push_back(draw.uniform({batch, s, parts}));
  };
  for (int64_t layer = 0; layer < o.integer("layers"); ++layer) {
    for (int norm = 0; norm < 2; ++norm) made.parameters.push_back(at::ones({width}));
    for (int of_attention = 0; of_attention < 4; ++of_attention) component(width, width);
    component(hidden, width), component(hidden, width), component(width, hidden);
  }
  return made;
}

}  // namespace graft::workloads
