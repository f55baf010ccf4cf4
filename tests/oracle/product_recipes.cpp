// Matrix products that are loops: few terms, one row, one column; what is added, scaled, turned.
#include <algorithm>

#include "oracle/recipes.h"

namespace graft::test {

namespace {

using Types = Recipe::Types;
using T = at::Tensor;

struct Extents {
  int64_t batch, rows, terms, columns;
};
const Extents kExtents[] = {{5, 3, 3, 3},     {37, 2, 2, 9},   {3, 40, 1, 33},   {2, 17, 8, 21},
                            {9, 1, 6, 4},     {4, 1, 65, 33},  {4, 33, 70, 1},   {3, 1, 100, 1},
                            {200, 4, 4, 1},   {1, 300, 3, 3},  {1, 1, 300, 200}, {2, 3, 200, 301},
                            {1, 4, 1030, 48}, {2, 150, 301, 2}};

std::string text(const Extents& e) {
  return " " + std::to_string(e.batch) + "x" + std::to_string(e.rows) + "x" +
         std::to_string(e.terms) + "x" + std::to_string(e.columns);
}

}  // namespace

std::vector<Recipe> product_recipes() {
  std::vector<Recipe> r;
  for (int64_t groups : {1, 3})
    for (int64_t taps : {1, 3})
      for (int64_t step : {1, 2})
        r.push_back({"aten::convolution " + std::to_string(groups) + " " + std::to_string(taps) +
                         " " + std::to_string(step),
                     {values({2, 3, 9, 41}), values({3, 3 / groups, taps, taps}), values({3})},
                     [=](const Tensors& t) -> Tensors {
                       return {at::convolution(t[0], t[1], t[2], {step, step}, {0, 0}, {1, 1},
                                               false, {0, 0}, groups)};
                     },
                     Types::Floating,
                     {"a convolution"}});
  // Each channel of a sequence by itself, channels side by side or not.
  for (int64_t padding : {0, 2})
    for (bool turned : {false, true})
      r.push_back(
          {std::string("aten::convolution of channels") + (turned ? " turned" : "") +
               std::to_string(padding),
           {values(turned ? std::vector<int64_t>{2, 41, 20} : std::vector<int64_t>{2, 20, 41}),
            values({20, 1, 5}), values({20})},
           [=](const Tensors& t) -> Tensors {
             return {at::convolution(turned ? t[0].transpose(1, 2) : t[0], t[1], t[2], {1},
                                     {padding}, {1}, false, {0}, 20)};
           },
           Types::Floating,
           {"a convolution"}});
  for (const Extents& e : kExtents) {
    // Of two to four rows those of fp32 are.
    const bool few = e.terms > 8 && std::min(e.rows, e.columns) > 1;
    const std::vector<std::string_view> may = {few ? "a matmul" : "columns lie apart"};
    const std::vector<int64_t> left{e.rows, e.terms}, right{e.terms, e.columns},
        all{e.rows, e.columns};
    auto batched = [&](std::vector<int64_t> sizes) {
      sizes.insert(sizes.begin(), e.batch);
      return values(sizes);
    };
    r.push_back({"aten::bmm" + text(e),
                 {batched(left), batched(right)},
                 [](const Tensors& t) -> Tensors { return {at::bmm(t[0], t[1])}; },
                 Types::Floating,
                 may});
    r.push_back({"aten::bmm transposed" + text(e),
                 {batched(left), batched({e.columns, e.terms})},
                 [](const Tensors& t) -> Tensors { return {at::bmm(t[0], t[1].transpose(1, 2))}; },
                 Types::Floating,
                 may});
    for (double beta : {1.0, 0.0, 0.5})
      r.push_back({"aten::baddbmm" + text(e),
                   {batched(all), batched(left), batched(right)},
                   [beta](const Tensors& t) -> Tensors {
                     return {at::baddbmm(t[0], t[1], t[2], beta, beta + 0.5)};
                   },
                   Types::Floating,
                   may});
    r.push_back({"aten::mm" + text(e),
                 {values(left), values(right)},
                 [](const Tensors& t) -> Tensors { return {at::mm(t[0], t[1])}; },
                 Types::Floating,
                 may});
    r.push_back({"aten::addmm" + text(e),
                 {values({e.columns}), values(left), values({e.columns, e.terms})},
                 [](const Tensors& t) -> Tensors { return {at::linear(t[1], t[2], t[0])}; },
                 Types::Floating,
                 may});
    r.push_back({"aten::addmm scaled" + text(e),
                 {values(all), values(left), values(right)},
                 [](const Tensors& t) -> Tensors { return {at::addmm(t[0], t[1], t[2], 2, -0.5)}; },
                 Types::Floating,
                 may});
    r.push_back({"aten::addmv scaled" + text(e),
                 {values({e.rows}), values(left), values({e.terms})},
                 [](const Tensors& t) -> Tensors { return {at::addmv(t[0], t[1], t[2], 2, -0.5)}; },
                 Types::Floating,
                 may});
    r.push_back({"aten::mv" + text(e),
                 {values(left), values({e.terms})},
                 [](const Tensors& t) -> Tensors { return {at::mv(t[0], t[1])}; },
                 Types::Floating,
                 may});
    r.push_back({"aten::dot" + text(e),
                 {values({e.terms}), values({e.terms})},
                 [](const Tensors& t) -> Tensors { return {at::dot(t[0], t[1])}; },
                 Types::Floating,
                 may});
  }
  return r;
}

}  // namespace graft::test
