// Losses and their backward, called as autograd calls it.
#include <ATen/ATen.h>

#include "oracle/recipes.h"

namespace graft::test {

namespace {

using T = at::Tensor;
using Types = Recipe::Types;

const std::vector<std::string_view> kSteps = {"of other dtypes than fp32 or fp64"};

std::string reduction_text(int64_t reduction) {
  return " reduction=" + std::to_string(reduction);
}

/// The gradient of a loss: one for each element, or one for their sum.
T gradient(const T& each, int64_t reduction) {
  return reduction == 0 ? each : each.flatten()[1];
}

/// Losses unreduced, their mean and their sum; a target is broadcast in one case.
void add_pointwise(std::vector<Recipe>& to, int64_t reduction) {
  for (const auto& sizes : {std::vector<int64_t>{1000}, {7, 33}, {3, 5, 17}, {2, 700}}) {
    std::vector<Input> inputs{values(sizes), values(sizes)};
    if (sizes.size() == 2) inputs[1] = values({sizes[1]});
    auto add = [&](const char* row, auto f) {
      to.push_back({row + reduction_text(reduction), inputs,
                    [f](const Tensors& t) -> Tensors { return {f(t[0], t[1])}; }, Types::Floating,
                    kSteps});
    };
    add("aten::mse_loss",
        [=](const T& x, const T& y) { return at::mse_loss(x, y.expand_as(x), reduction); });
    add("aten::smooth_l1_loss", [=](const T& x, const T& y) {
      return at::smooth_l1_loss(x, y.expand_as(x), reduction, 0.7);
    });
    add("aten::huber_loss",
        [=](const T& x, const T& y) { return at::huber_loss(x, y.expand_as(x), reduction, 1.3); });
  }
}

void add_pointwise_backward(std::vector<Recipe>& to, int64_t reduction) {
  auto add = [&](const char* row, auto f) {
    to.push_back(
        {row + reduction_text(reduction),
         {values({37, 65}), values({37, 65}), values({37, 65})},
         [=](const Tensors& t) -> Tensors { return {f(gradient(t[2], reduction), t[0], t[1])}; },
         Types::Floating,
         kSteps});
  };
  add("aten::mse_loss_backward", [=](const T& g, const T& x, const T& y) {
    return at::mse_loss_backward(g, x, y, reduction);
  });
  add("aten::smooth_l1_loss_backward", [=](const T& g, const T& x, const T& y) {
    return at::smooth_l1_loss_backward(g, x, y, reduction, 0.7);
  });
  add("aten::huber_loss_backward", [=](const T& g, const T& x, const T& y) {
    return at::huber_loss_backward(g, x, y, reduction, 1.3);
  });
}

/// From 0 to 1, both included; NaN stays.
T probability(const T& x) {
  return (x.frac() * 1.5).abs().clamp_max(1);
}

void add_probabilities(std::vector<Recipe>& to, int64_t reduction) {
  for (bool raises : {true, false})
    for (int weight : {0, 1, 2}) {  // none, of each element, of each column
      const std::string how = reduction_text(reduction) + (weight > 0 ? " weight" : "");
      auto probabilities = [=](const Tensors& t) {
        const T x = raises ? t[0] : t[0].nan_to_num(0.3, 0.4, 0.6);
        return std::tuple(
            probability(x), probability(t[1]),
            weight == 0 ? std::optional<T>() : std::optional(weight == 1 ? t[2] : t[2][0]));
      };
      const std::vector<Input> inputs(3, values({37, 65}));
      to.push_back({"aten::binary_cross_entropy" + how, inputs,
                    [=](const Tensors& t) -> Tensors {
                      const auto [x, y, w] = probabilities(t);
                      return {at::binary_cross_entropy(x, y, w, reduction)};
                    },
                    Types::Floating, kSteps});
      to.push_back({"aten::binary_cross_entropy_backward" + how, inputs,
                    [=](const Tensors& t) -> Tensors {
                      const auto [x, y, w] = probabilities(t);
                      const T g = gradient(t[1], reduction);
                      return {at::binary_cross_entropy_backward(g, x, y, w, reduction)};
                    },
                    Types::Floating, kSteps});
    }
}

void add_classes(std::vector<Recipe>& to, int64_t reduction, int64_t ignored, bool weighted) {
  const std::string how = reduction_text(reduction) + " ignore=" + std::to_string(ignored) +
                          (weighted ? " weight" : "");
  auto add = [&](const char* row, std::vector<int64_t> sizes, auto f) {
    std::vector<int64_t> places = sizes;
    places.erase(places.begin() + 1);
    to.push_back({row + how,
                  {values(sizes), indices(places, sizes[1]), values(places), positive({sizes[1]})},
                  [=](const Tensors& t) -> Tensors {
                    return f(t[0], t[1], weighted ? std::optional(t[3]) : std::optional<T>(),
                             gradient(t[2], reduction));
                  },
                  Types::Floating,
                  kSteps});
  };
  using W = std::optional<T>;
  const std::vector<int64_t> rows = {70, 65}, pixels = {3, 5, 7, 18};
  add("aten::nll_loss_forward", rows, [=](const T& x, const T& y, const W& w, const T&) -> Tensors {
    auto [loss, total] = at::nll_loss_forward(x, y, w, reduction, ignored);
    return {loss, total};
  });
  add("aten::nll_loss2d_forward", pixels,
      [=](const T& x, const T& y, const W& w, const T&) -> Tensors {
        auto [loss, total] = at::nll_loss2d_forward(x, y, w, reduction, ignored);
        return {loss, total};
      });
  add("aten::nll_loss_backward", rows,
      [=](const T& x, const T& y, const W& w, const T& g) -> Tensors {
        const T total = x.flatten()[3];
        return {at::nll_loss_backward(g, x, y, w, reduction, ignored, total)};
      });
  add("aten::nll_loss2d_backward", pixels,
      [=](const T& x, const T& y, const W& w, const T& g) -> Tensors {
        const T total = x.flatten()[3];
        return {at::nll_loss2d_backward(g, x.contiguous(), y, w, reduction, ignored, total)};
      });
}

}  // namespace

std::vector<Recipe> loss_recipes() {
  std::vector<Recipe> r;
  for (int64_t reduction : {0, 1, 2}) {
    add_pointwise(r, reduction);
    add_pointwise_backward(r, reduction);
    add_probabilities(r, reduction);
    for (int64_t ignored : {-100, 3})
      for (bool weighted : {false, true}) add_classes(r, reduction, ignored, weighted);
  }
  return r;
}

}  // namespace graft::test
