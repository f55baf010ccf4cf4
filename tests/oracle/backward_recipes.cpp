// The backward of softmax and norms, called as autograd calls them.
#include <ATen/ATen.h>

#include "oracle/recipes.h"

namespace graft::test {

namespace {

using T = at::Tensor;

const std::vector<std::vector<int64_t>> kShapes = {{37, 65}, {3, 5, 17}, {1, 1}, {64}};

void add_softmax(std::vector<Recipe>& to) {
  for (const auto& sizes : kShapes)
    for (int64_t dim : {int64_t{0}, static_cast<int64_t>(sizes.size()) - 1}) {
      const std::string where = " dim=" + std::to_string(dim);
      to.push_back(
          {"aten::_softmax_backward_data" + where,
           {values(sizes), values(sizes)},
           [=](const Tensors& t) -> Tensors {
             return {at::_softmax_backward_data(t[0], t[1].softmax(dim), dim, t[0].scalar_type())};
           },
           Recipe::Types::Floating});
      to.push_back({"aten::_log_softmax_backward_data" + where,
                    {values(sizes), values(sizes)},
                    [=](const Tensors& t) -> Tensors {
                      return {at::_log_softmax_backward_data(t[0], t[1].log_softmax(dim), dim,
                                                             t[0].scalar_type())};
                    },
                    Recipe::Types::Floating});
    }
}

void add_layer_norm(std::vector<Recipe>& to) {
  for (bool affine : {true, false})
    for (std::array<bool, 3> mask :
         {std::array{true, true, true}, std::array{true, false, false}}) {
      if (!affine && mask[1]) continue;
      to.push_back({std::string("aten::native_layer_norm_backward") + (affine ? " affine" : ""),
                    {values({12, 33}), values({12, 33}), values({33})},
                    [=](const Tensors& t) -> Tensors {
                      const std::optional<T> weight = affine ? std::optional(t[2]) : std::nullopt;
                      auto [y, mean, rstd] = at::native_layer_norm(t[1], {33}, weight, {}, 1e-3);
                      auto [dx, dw, db] = at::native_layer_norm_backward(
                          t[0], t[1], {33}, mean, rstd, weight, weight, mask);
                      return {y, dx, dw, db};
                    },
                    Recipe::Types::Floating});
    }
}

void add_group_norm(std::vector<Recipe>& to) {
  for (bool affine : {true, false})
    for (std::vector<int64_t> sizes :
         {std::vector<int64_t>{3, 6, 5, 7}, std::vector<int64_t>{2, 6, 40}, {5, 6}})
      to.push_back({std::string("aten::native_group_norm_backward") + (affine ? " affine" : ""),
                    {values(sizes), values(sizes), values({6})},
                    [=](const Tensors& t) -> Tensors {
                      const std::optional<T> weight = affine ? std::optional(t[2]) : std::nullopt;
                      const T x = t[1].contiguous(), dy = t[0].contiguous();
                      const int64_t n = sizes[0], c = sizes[1], plane = x.numel() / (n * c);
                      auto [y, mean, rstd] =
                          at::native_group_norm(x, weight, {}, n, c, plane, 2, 1e-3);
                      auto [dx, dw, db] = at::native_group_norm_backward(
                          dy, x, mean, rstd, weight, n, c, plane, 2, {true, affine, affine});
                      return affine ? Tensors{dx, dw, db} : Tensors{dx};
                    },
                    Recipe::Types::Floating});
}

void add_batch_norm(std::vector<Recipe>& to) {
  for (bool train : {true, false})
    for (bool affine : {true, false})
      for (std::vector<int64_t> sizes :
           {std::vector<int64_t>{3, 6, 5, 7}, std::vector<int64_t>{2, 6, 40}, {9, 6}})
        to.push_back({std::string("aten::native_batch_norm_backward") + (train ? " training" : "") +
                          (affine ? " affine" : ""),
                      {values(sizes), values(sizes), values({6}), values({6}), positive({6})},
                      [=](const Tensors& t) -> Tensors {
                        const std::optional<T> weight = affine ? std::optional(t[2]) : std::nullopt;
                        auto [dx, dw, db] = at::native_batch_norm_backward(
                            t[0], t[1], weight, t[3], t[4], t[3], t[4], train, 1e-3,
                            {true, affine, affine});
                        return affine ? Tensors{dx, dw, db} : Tensors{dx};
                      },
                      Recipe::Types::Floating});
}

void add_gated(std::vector<Recipe>& to) {
  for (int64_t dim : {0, 1, -1}) {
    const std::string where = " dim=" + std::to_string(dim);
    const std::vector<int64_t> whole = {4, 6, 34};
    std::vector<int64_t> half = whole;
    half[static_cast<size_t>(dim < 0 ? dim + 3 : dim)] /= 2;
    to.push_back({"aten::glu" + where,
                  {values(whole)},
                  [=](const Tensors& t) -> Tensors { return {at::glu(t[0], dim)}; },
                  Recipe::Types::Floating});
    to.push_back({"aten::glu_backward" + where,
                  {values(half), values(whole)},
                  [=](const Tensors& t) -> Tensors { return {at::glu_backward(t[0], t[1], dim)}; },
                  Recipe::Types::Floating});
  }
}

}  // namespace

std::vector<Recipe> backward_recipes() {
  std::vector<Recipe> r;
  add_softmax(r);
  add_layer_norm(r);
  add_group_norm(r);
  add_batch_norm(r);
  add_gated(r);
  return r;
}

}  // namespace graft::test
