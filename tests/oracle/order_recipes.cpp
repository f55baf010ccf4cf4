#include <ATen/ATen.h>

#include "oracle/recipes.h"

namespace graft::test {

namespace {

using T = at::Tensor;

/// Rows with many equal elements and NaN, short ones and long.
void add_sorts(std::vector<Recipe>& to) {
  auto add = [&](std::vector<int64_t> sizes, int64_t dim, bool descending, bool stable,
                 bool by_loops = true) {
    const std::vector<std::string_view> routine{"graft::sort", "not contiguous"};
    to.push_back({"aten::sort dim=" + std::to_string(dim) + (stable ? " stable" : ""),
                  {values(std::move(sizes))},
                  [=](const Tensors& t) -> Tensors {
                    auto [sorted, places] = at::sort(t[0], stable, dim, descending);
                    return {sorted, places};
                  },
                  Recipe::Types::Numbers,
                  by_loops ? std::vector<std::string_view>{} : routine,
                  by_loops});
  };
  for (bool descending : {false, true}) {
    for (bool stable : {false, true}) {
      add({70, 9}, -1, descending, stable);
      add({16, 37}, 0, descending, stable);
      add({5, 13, 3}, 1, descending, stable);
      add({4, 1}, 1, descending, stable);
      add({31}, 0, descending, stable, /*by_loops=*/stable);
      add({23, 32}, 1, descending, stable, stable);
      add({2, 33, 3}, 1, descending, stable, false);
      add({7, 300}, -1, descending, stable, false);
      add({2, 9000}, 1, descending, stable, false);
    }
  }
}

/// The largest of elements that differ; of others they are eager's (tests/runtime/order_test.cpp).
void add_tops(std::vector<Recipe>& to) {
  for (int64_t k : {1, 3, 8})
    for (bool largest : {true, false}) {
      const std::string what = " k=" + std::to_string(k) + (largest ? "" : " smallest");
      to.push_back({"aten::topk" + what,
                    {values({4, 50}), distinct(200, 256)},
                    [=](const Tensors& t) -> Tensors {
                      const T x = t[1].view({4, 50}).to(t[0].scalar_type());
                      auto [rows, places] = at::topk(x, k, -1, largest);
                      auto [columns, their] = at::topk(x.t().contiguous(), k, 0, largest);
                      return {rows, places, columns, their};
                    },
                    Recipe::Types::Numbers});
    }
}

void add_middles(std::vector<Recipe>& to) {
  auto add = [&](std::vector<int64_t> sizes, int64_t dim, bool keep) {
    const std::string what = " dim=" + std::to_string(dim) + (keep ? " keepdim" : "");
    // (Which of zeros of both signs is taken is not told.)
    auto ones = [](const T& x) { return at::where(x == 0, at::ones_like(x), x); };
    to.push_back({"aten::median" + what,
                  {values(sizes)},
                  [=](const Tensors& t) -> Tensors {
                    return {std::get<0>(at::median(ones(t[0]), dim, keep))};
                  },
                  Recipe::Types::Numbers});
    to.push_back({"aten::nanmedian" + what,
                  {values(sizes)},
                  [=](const Tensors& t) -> Tensors {
                    return {std::get<0>(at::nanmedian(ones(t[0]), dim, keep))};
                  },
                  Recipe::Types::Numbers});
    to.push_back({"aten::kthvalue" + what,
                  {values(sizes)},
                  [=](const Tensors& t) -> Tensors {
                    return {std::get<0>(at::kthvalue(ones(t[0]), 2, dim, keep))};
                  },
                  Recipe::Types::Numbers});
  };
  for (bool keep : {false, true}) {
    add({70, 9}, -1, keep);
    add({16, 37}, 0, keep);
    add({5, 12, 3}, 1, keep);
    add({31}, 0, keep);
  }
}

}  // namespace

std::vector<Recipe> order_recipes() {
  std::vector<Recipe> r;
  add_sorts(r);
  add_tops(r);
  add_middles(r);
  return r;
}

}  // namespace graft::test
