// Gathers and scatters. Indices into a dimension of 33 or 7 elements. Those that store one of
// several sources are all different, since equal ones have no order that ATen promises.
#include "oracle/recipes.h"

namespace graft::test {

namespace {

using Optionals = c10::List<std::optional<at::Tensor>>;

Optionals at_places(std::initializer_list<std::optional<at::Tensor>> places) {
  Optionals list;
  for (const auto& place : places) list.push_back(place);
  return list;
}

Function in_place(std::function<void(at::Tensor&, const Tensors&)> f) {
  return [f](const Tensors& t) -> Tensors {
    at::Tensor self = t[0];
    f(self, t);
    return {self};
  };
}

/// Sums of magnitudes along the last axis: sorted, unless they overflow.
at::Tensor rising(const at::Tensor& t) {
  return t.abs().cumsum(-1, t.scalar_type());
}

}  // namespace

std::vector<Recipe> index_recipes() {
  std::vector<Recipe> r;
  r.push_back({"aten::gather dim=1",
               {values({7, 33}), indices({7, 20}, 33)},
               [](const Tensors& t) -> Tensors { return {at::gather(t[0], 1, t[1])}; }});
  r.push_back({"aten::gather dim=0",
               {values({7, 33}), indices({5, 30}, 7)},
               [](const Tensors& t) -> Tensors { return {at::gather(t[0], 0, t[1])}; }});
  for (int64_t few : {1, 2, 3, 4, 5}) {
    r.push_back({"aten::gather of few, dim=1",
                 {values({7, few, 33}), indices({5, 6, 31}, few)},
                 [](const Tensors& t) -> Tensors { return {at::gather(t[0], 1, t[1])}; }});
    r.push_back({"aten::gather of few, dim=-1",
                 {values({70, few}), indices({70, 3}, few)},
                 [](const Tensors& t) -> Tensors {
                   return {at::gather(t[0], 1, t[1]), at::gather(t[0], 1, t[1].slice(1, 0, 1)),
                           at::gather(t[0], 0, t[1].slice(0, 0, 1).expand({4, -1}) % 2)};
                 }});
  }
  r.push_back({"aten::index_select dim=0",
               {values({33, 7}), indices({20}, 33)},
               [](const Tensors& t) -> Tensors { return {at::index_select(t[0], 0, t[1])}; }});
  r.push_back({"aten::index_select dim=1",
               {values({7, 33}), indices({20}, 33)},
               [](const Tensors& t) -> Tensors { return {at::index_select(t[0], 1, t[1])}; }});
  r.push_back({"aten::embedding",
               {values({33, 17}), indices({4, 5}, 33)},
               [](const Tensors& t) -> Tensors { return {at::embedding(t[0], t[1])}; }});
  r.push_back({"aten::one_hot", {indices({4, 7}, 33)}, [](const Tensors& t) -> Tensors {
                 return {at::one_hot(t[0], 33)};
               }});
  r.push_back({"aten::one_hot empty", {indices({0, 7}, 33)}, [](const Tensors& t) -> Tensors {
                 return {at::one_hot(t[0], 33)};
               }});
  r.push_back({"aten::take",
               {values({7, 33}), indices({40}, 231)},
               [](const Tensors& t) -> Tensors { return {at::take(t[0], t[1])}; },
               Recipe::Types::All,
               {"not contiguous"}});
  r.push_back({"aten::index one",
               {values({33, 7}), indices({20}, 33)},
               [](const Tensors& t) -> Tensors { return {at::index(t[0], at_places({t[1]}))}; }});
  r.push_back(
      {"aten::index two",
       {values({33, 7}), indices({5, 4}, 33), indices({4}, 7)},
       [](const Tensors& t) -> Tensors { return {at::index(t[0], at_places({t[1], t[2]}))}; }});
  r.push_back({"aten::index inner",
               {values({7, 33, 5}), indices({6}, 33)},
               [](const Tensors& t) -> Tensors {
                 return {at::index(t[0], at_places({std::nullopt, t[1]}))};
               }});
  r.push_back({"aten::index split",
               {values({7, 5, 9}), indices({6}, 7), indices({6}, 9)},
               [](const Tensors& t) -> Tensors {
                 return {at::index(t[0], at_places({t[1], std::nullopt, t[2]}))};
               }});
  r.push_back(
      {"aten::_unsafe_index",
       {values({33, 7}), indices({20}, 33)},
       [](const Tensors& t) -> Tensors { return {at::_unsafe_index(t[0], at_places({t[1]}))}; }});
  r.push_back(
      {"aten::index mask",
       {values({7, 33}), mask({7, 33})},
       [](const Tensors& t) -> Tensors { return {at::index(t[0], at_places({t[1]})).sum() * 0}; },
       Recipe::Types::All,
       {"mask", "no lowering", "truth"},
       false});

  const std::vector<std::string_view> wider = {"wider"};
  r.push_back({"aten::scatter value",
               {values({7, 33}), indices({7, 20}, 33)},
               [](const Tensors& t) -> Tensors { return {at::scatter(t[0], 1, t[1], 3)}; }});
  r.push_back({"aten::scatter value in place",
               {values({7, 33}), indices({5, 33}, 7)},
               in_place([](at::Tensor& self, const Tensors& t) { self.scatter_(0, t[1], 2); })});
  r.push_back({"aten::scatter source",
               {values({33}), distinct(20, 33), values({20})},
               [](const Tensors& t) -> Tensors { return {at::scatter(t[0], 0, t[1], t[2])}; }});
  r.push_back(
      {"aten::scatter adding",
       {values({7, 33}), indices({5, 20}, 33), values({6, 21})},
       [](const Tensors& t) -> Tensors { return {at::scatter(t[0], 1, t[1], t[2], "add")}; },
       Recipe::Types::Numbers,
       wider});
  r.push_back({"aten::scatter_add",
               {values({7, 33}), indices({7, 50}, 33), values({7, 50})},
               [](const Tensors& t) -> Tensors { return {at::scatter_add(t[0], 1, t[1], t[2])}; },
               Recipe::Types::Numbers,
               wider});
  r.push_back(
      {"aten::scatter_add slow axis",
       {values({7, 33}), indices({50, 20}, 7), values({60, 20})},
       in_place([](at::Tensor& self, const Tensors& t) { self.scatter_add_(0, t[1], t[2]); }),
       Recipe::Types::Numbers,
       wider});
  r.push_back({"aten::scatter_add middle",
               {values({3, 7, 5}), indices({3, 40, 4}, 7), values({3, 40, 5})},
               [](const Tensors& t) -> Tensors { return {at::scatter_add(t[0], 1, t[1], t[2])}; },
               Recipe::Types::Numbers,
               wider});
  r.push_back({"aten::scatter_add flat",
               {values({33}), indices({300}, 33), values({300})},
               in_place([](at::Tensor& self, const Tensors& t) {
                 self.scatter_add_(0, t[1], t[2] * t[2]);
               }),
               Recipe::Types::Numbers,
               wider});
  for (const char* reduce : {"sum", "prod", "amax", "amin"})
    r.push_back({std::string("aten::scatter_reduce ") + reduce,
                 {values({7, 33}), indices({7, 50}, 33), values({7, 50})},
                 [reduce](const Tensors& t) -> Tensors {
                   return {at::scatter_reduce(t[0], 1, t[1], t[2], reduce)};
                 },
                 Recipe::Types::Numbers,
                 wider});
  for (const char* reduce : {"sum", "prod", "amax", "amin", "mean"})
    r.push_back(
        {std::string("aten::scatter_reduce instead ") + reduce,
         {values({33, 7}), indices({50, 7}, 33), values({50, 7})},
         [reduce](const Tensors& t) -> Tensors {
           return {at::scatter_reduce(t[0], 0, t[1], t[2], reduce, false)};
         },
         reduce == std::string_view("mean") ? Recipe::Types::Floating : Recipe::Types::Numbers,
         wider});
  r.push_back({"aten::scatter_reduce mean",
               {values({7, 33}), indices({7, 50}, 33), values({7, 50})},
               in_place([](at::Tensor& self, const Tensors& t) {
                 self.scatter_reduce_(1, t[1], t[2], "mean");
               }),
               Recipe::Types::Floating,
               wider});
  // One index for all columns; and for some, beside which the others keep what they have.
  for (const int64_t columns : {7, 5, 0})
    for (const bool include_self : {true, false})
      r.push_back({"aten::scatter_reduce mean of rows " + std::to_string(columns) +
                       (include_self ? "" : " instead"),
                   {values({33, 7}), indices({50}, 33), values({50, 7})},
                   [columns, include_self](const Tensors& t) -> Tensors {
                     const at::Tensor index = t[1].unsqueeze(1).expand({50, columns});
                     return {at::scatter_reduce(t[0], 0, index, t[2], "mean", include_self)};
                   },
                   Recipe::Types::Floating,
                   wider});
  r.push_back({"aten::index_add",
               {values({33, 7}), indices({50}, 33), values({50, 7})},
               [](const Tensors& t) -> Tensors { return {at::index_add(t[0], 0, t[1], t[2])}; },
               Recipe::Types::Numbers,
               wider});
  r.push_back(
      {"aten::index_add inner axis",
       {values({3, 7, 5}), indices({20}, 7), values({3, 20, 5})},
       in_place([](at::Tensor& self, const Tensors& t) { self.index_add_(1, t[1], t[2], 2); }),
       Recipe::Types::Numbers,
       wider});
  r.push_back(
      {"aten::index_add flat",
       {values({33}), indices({50}, 33), values({50})},
       in_place([](at::Tensor& self, const Tensors& t) { self.index_add_(0, t[1], t[2], -1); }),
       Recipe::Types::Numbers,
       wider});
  r.push_back({"aten::embedding_dense_backward",
               {values({5, 4, 17}), indices({5, 4}, 33)},
               [](const Tensors& t) -> Tensors {
                 return {at::embedding_dense_backward(t[0], t[1], 33, -1, false)};
               },
               Recipe::Types::Floating,
               {"wider", "even"}});
  r.push_back({"aten::embedding_dense_backward padding",
               {values({50, 17}), indices({50}, 33)},
               [](const Tensors& t) -> Tensors {
                 return {at::embedding_dense_backward(t[0], t[1], 33, 3, false)};
               },
               Recipe::Types::Floating,
               wider});
  r.push_back({"aten::scatter one",
               {values({7, 33}), indices({7, 1}, 33), values({7, 1})},
               in_place([](at::Tensor& self, const Tensors& t) { self.scatter_(1, t[1], t[2]); })});
  r.push_back({"aten::index_copy",
               {values({33, 7}), indices({1}, 33), values({1, 7})},
               [](const Tensors& t) -> Tensors { return {at::index_copy(t[0], 0, t[1], t[2])}; }});
  r.push_back(
      {"aten::index_copy in place",
       {values({7, 33}), indices({1}, 33), values({7, 1})},
       in_place([](at::Tensor& self, const Tensors& t) { self.index_copy_(1, t[1], t[2]); })});
  r.push_back({"aten::index_copy several",
               {values({33, 7}), distinct(20, 33), values({20, 7})},
               [](const Tensors& t) -> Tensors { return {at::index_copy(t[0], 0, t[1], t[2])}; }});
  r.push_back({"aten::index_fill",
               {values({33, 7}), indices({5}, 33)},
               [](const Tensors& t) -> Tensors { return {at::index_fill(t[0], 0, t[1], 1)}; }});
  r.push_back({"aten::index_fill in place",
               {values({7, 33}), indices({5}, 33)},
               in_place([](at::Tensor& self, const Tensors& t) { self.index_fill_(1, t[1], 1); })});
  r.push_back(
      {"aten::index_put one value",
       {values({33, 7}), indices({20}, 33), values({})},
       [](const Tensors& t) -> Tensors { return {at::index_put(t[0], at_places({t[1]}), t[2])}; }});
  r.push_back({"aten::index_put one place",
               {values({33, 7}), indices({1}, 33), values({7})},
               in_place([](at::Tensor& self, const Tensors& t) {
                 self.index_put_(at_places({t[1]}), t[2]);
               })});
  r.push_back({"aten::index_put mask",
               {values({7, 33}), mask({7, 33}), values({})},
               in_place([](at::Tensor& self, const Tensors& t) {
                 self.index_put_(at_places({t[1]}), t[2]);
               })});
  r.push_back(
      {"aten::index_put mask of rows",
       {values({7, 33, 5}), mask({7}), values({33, 1})},
       [](const Tensors& t) -> Tensors { return {at::index_put(t[0], at_places({t[1]}), t[2])}; }});
  r.push_back({"aten::index_put mask of columns",
               {values({7, 33, 5}), mask({33, 5}), values({7, 1})},
               in_place([](at::Tensor& self, const Tensors& t) {
                 self.index_put_(at_places({std::nullopt, t[1]}), t[2]);
               })});
  r.push_back({"aten::index_put mask of the middle",
               {values({7, 33, 5}), mask({33}), values({1, 5})},
               in_place([](at::Tensor& self, const Tensors& t) {
                 self.index_put_(at_places({std::nullopt, t[1]}), t[2]);
               })});
  r.push_back({"aten::index_put several",
               {values({33, 7}), distinct(20, 33), values({20, 7})},
               in_place([](at::Tensor& self, const Tensors& t) {
                 self.index_put_(at_places({t[1]}), t[2]);
               })});
  r.push_back({"aten::index_put adding",
               {values({33, 7}), indices({20}, 33), values({20, 7})},
               in_place([](at::Tensor& self, const Tensors& t) {
                 self.index_put_(at_places({t[1]}), t[2], true);
               }),
               Recipe::Types::Numbers,
               wider});
  r.push_back({"aten::index_put adding over two axes",
               {values({33, 7, 5}), indices({4, 6}, 33), values({4, 6, 7, 5})},
               [](const Tensors& t) -> Tensors {
                 return {at::index_put(t[0], at_places({t[1]}), t[2], true)};
               },
               Recipe::Types::Numbers,
               {"wider", "even"}});
  r.push_back({"aten::_unsafe_index_put",
               {values({33, 7}), indices({20}, 33), values({})},
               [](const Tensors& t) -> Tensors {
                 return {at::_unsafe_index_put(t[0], at_places({t[1]}), t[2])};
               }});
  r.push_back({"aten::_index_put_impl",
               {values({33, 7}), indices({20}, 33), values({})},
               in_place([](at::Tensor& self, const Tensors& t) {
                 at::_index_put_impl_(self, at_places({t[1]}), t[2]);
               })});
  r.push_back({"aten::bincount", {indices({700}, 33)}, [](const Tensors& t) -> Tensors {
                 return {at::bincount(t[0], {}, 40)};
               }});
  r.push_back({"aten::bincount weights",
               {indices({700}, 33), values({700})},
               [](const Tensors& t) -> Tensors { return {at::bincount(t[0], t[1], 33)}; },
               Recipe::Types::Numbers,
               {"converted first"}});
  r.push_back({"aten::histc",
               {values({7, 33})},
               [](const Tensors& t) -> Tensors { return {at::histc(t[0], 10, -2.5, 1)}; },
               Recipe::Types::Floating,
               {"widened"}});
  for (bool right : {false, true}) {
    const std::string side = right ? " right" : "";
    // Boundaries with NaN or out of order, too: the place is where eager's bisection ends.
    for (int64_t count : {1, 2, 5, 7, 15, 16, 33, 63})
      r.push_back({"aten::bucketize" + side + " " + std::to_string(count),
                   {values({7, 33}), values({count})},
                   [right](const Tensors& t) -> Tensors {
                     return {at::bucketize(t[0], t[1], false, right),
                             at::bucketize(t[0], rising(t[1]), true, right)};
                   },
                   Recipe::Types::Numbers});
    r.push_back(
        {"aten::searchsorted" + side,
         {values({3, 7, 9}), values({3, 7, 20})},
         [right](const Tensors& t) -> Tensors {
           return {at::searchsorted(t[0], t[1], false, right),
                   at::searchsorted(rising(t[0]), t[1], right, false, right ? "right" : "left")};
         },
         Recipe::Types::Numbers});
  }
  return r;
}

}  // namespace graft::test
