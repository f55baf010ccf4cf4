// Reductions, scans, softmax and the norms.
#include <limits>

#include "oracle/recipes.h"

namespace graft::test {

namespace {

using Types = Recipe::Types;
using Dims = at::OptionalIntArrayRef;

/// A reduction over `dims` in the form that its ATen function has.
template <class F>
Function one(F f) {
  return [f](const Tensors& t) -> Tensors { return {f(t[0])}; };
}
template <class F>
Function two(F f) {
  return [f](const Tensors& t) -> Tensors {
    auto [a, b] = f(t[0]);
    return {a, b};
  };
}

const std::vector<int64_t> kSizes[] = {{1000}, {7, 33}, {3, 5, 17}, {70, 65}, {2, 700}};

/// Over everything, over the last dimension (kept), over the first, and over first and last.
template <class F>
void add_dims(std::vector<Recipe>& to, std::string row, F f, Types types) {
  struct Over {
    const char* text;
    std::vector<int64_t> dims;
    bool keep;
    size_t rank;
  };
  const Over overs[] = {{" all", {}, false, 1},
                        {" dim=-1 keepdim", {-1}, true, 1},
                        {" dim=0", {0}, false, 2},
                        {" dim=(0,-1)", {0, -1}, false, 3},
                        {" dim=1", {1}, false, 3}};
  for (const auto& sizes : kSizes)
    for (const Over& over : overs) {
      if (sizes.size() < over.rank) continue;
      std::vector<int64_t> dims = over.dims;
      if (dims.empty())
        for (size_t d = 0; d < sizes.size(); ++d) dims.push_back(static_cast<int64_t>(d));
      bool keep = over.keep;
      to.push_back({row + over.text,
                    {values(sizes)},
                    one([=](const at::Tensor& x) { return f(x, dims, keep); }),
                    types});
    }
}

/// Along one dimension.
template <class F>
void add_dim(std::vector<Recipe>& to, std::string row, F f, Types types) {
  for (const auto& sizes : kSizes)
    for (int64_t dim : {int64_t{-1}, int64_t{0}}) {
      if (dim == 0 && sizes.size() == 1) continue;
      to.push_back({row + " dim=" + std::to_string(dim),
                    {values(sizes)},
                    [=](const Tensors& t) { return f(t[0], dim); },
                    types});
    }
}

void add_distances(std::vector<Recipe>& to) {
  using T = at::Tensor;
  const std::vector<std::string_view> may = {"a product of matrices", "of another dtype"};
  for (int64_t dim : {0, 1, -1}) {
    std::vector<int64_t> a = {5, 7, 33}, b = a;
    a[static_cast<size_t>(dim < 0 ? 2 : dim)] = b[static_cast<size_t>(dim < 0 ? 2 : dim)] = 3;
    b[dim == 0 ? 1 : 0] = 1;
    to.push_back({"aten::linalg_cross dim=" + std::to_string(dim),
                  {values(a), values(b)},
                  [=](const Tensors& t) -> Tensors { return {at::linalg_cross(t[0], t[1], dim)}; },
                  Types::Numbers,
                  {"an unusual input"}});
  }
  for (int64_t columns : {1, 2, 3, 6})
    to.push_back({"aten::_euclidean_dist columns=" + std::to_string(columns),
                  {values({2, 27, columns}), values({2, 40, columns})},
                  [](const Tensors& t) -> Tensors {
                    if (at::elementSize(t[0].scalar_type()) <= 2)
                      return {at::cdist(t[0], t[1])};  // throws
                    return {at::cdist(t[0], t[1]) + 1,
                            at::_euclidean_dist(t[0].slice(0, 0, 1), t[1]) * 2};
                  },
                  Types::Floating,
                  {"a product of matrices", "of another dtype", "an unusual input"}});
  for (double p : {1.0, 2.0, std::numeric_limits<double>::infinity()})
    for (int64_t batch : {0, 2}) {
      std::vector<int64_t> a = {7, 33}, b = {30, 33}, g = {7, 30};
      if (batch > 0)
        for (auto* sizes : {&a, &g}) sizes->insert(sizes->begin(), batch);
      const std::string how = " p=" + std::to_string(p);
      for (int64_t mode : {0, 2})
        to.push_back(
            {"aten::_cdist_forward" + how,
             {values(a), values(b)},
             [=](const Tensors& t) -> Tensors { return {at::_cdist_forward(t[0], t[1], p, mode)}; },
             Types::Floating,
             may});
      to.push_back({"aten::_cdist_backward" + how,
                    {values(a), values(b), values(g)},
                    [=](const Tensors& t) -> Tensors {
                      const T distance = at::_cdist_forward(t[0], t[1], p, 2);
                      return {at::_cdist_backward(t[2], t[0], t[1], p, distance)};
                    },
                    Types::Floating,
                    may});
    }
}

}  // namespace

std::vector<Recipe> reduction_recipes() {
  std::vector<Recipe> r;
  add_distances(r);
  using T = at::Tensor;
  using D = std::vector<int64_t>;
  add_dims(
      r, "aten::sum", [](const T& x, const D& d, bool k) { return at::sum(x, Dims(d), k); },
      Types::All);
  add_dims(
      r, "aten::nansum", [](const T& x, const D& d, bool k) { return at::nansum(x, Dims(d), k); },
      Types::Numbers);
  add_dims(
      r, "aten::mean", [](const T& x, const D& d, bool k) { return at::mean(x, Dims(d), k); },
      Types::Floating);
  add_dims(
      r, "aten::amax", [](const T& x, const D& d, bool k) { return at::amax(x, d, k); },
      Types::All);
  add_dims(
      r, "aten::amin", [](const T& x, const D& d, bool k) { return at::amin(x, d, k); },
      Types::All);
  add_dims(
      r, "aten::any", [](const T& x, const D& d, bool k) { return at::any(x, Dims(d), k); },
      Types::All);
  add_dims(
      r, "aten::all", [](const T& x, const D& d, bool k) { return at::all(x, Dims(d), k); },
      Types::All);
  add_dims(
      r, "aten::count_nonzero",
      [](const T& x, const D& d, bool) { return at::count_nonzero(x, d); }, Types::All);
  add_dims(
      r, "aten::var", [](const T& x, const D& d, bool k) { return at::var(x, Dims(d), true, k); },
      Types::Floating);
  add_dims(
      r, "aten::std", [](const T& x, const D& d, bool k) { return at::std(x, Dims(d), false, k); },
      Types::Floating);
  add_dims(
      r, "aten::logsumexp", [](const T& x, const D& d, bool k) { return at::logsumexp(x, d, k); },
      Types::Floating);
  for (double p : {0.0, 1.0, 2.0, 1.0 / 0.0, -1.0 / 0.0}) {
    std::string order = " p=" + std::to_string(p);
    add_dims(
        r, "aten::linalg_vector_norm" + order,
        [p](const T& x, const D& d, bool k) { return at::linalg_vector_norm(x, p, Dims(d), k); },
        Types::Floating);
    add_dims(
        r, "aten::norm" + order,
        [p](const T& x, const D& d, bool k) { return at::norm(x, c10::Scalar(p), d, k); },
        Types::Floating);
  }
  // Of one element: its magnitude, which a square could not hold.
  for (double scale : {1e30, 1e-30})
    for (double p : {1., 2., std::numeric_limits<double>::infinity()})
      r.push_back({"aten::linalg_vector_norm of one " + std::to_string(p),
                   {values({70, 1})},
                   [=](const Tensors& t) -> Tensors {
                     const T x = t[0] * scale;
                     return {at::linalg_vector_norm(x, p, Dims(D{1}), false),
                             at::norm(x, c10::Scalar(p), D{1}, true)};
                   },
                   Recipe::Types::Floating});
  add_dim(
      r, "aten::prod", [](const T& x, int64_t d) -> Tensors { return {at::prod(x, d)}; },
      Types::All);
  add_dim(
      r, "aten::cumsum", [](const T& x, int64_t d) -> Tensors { return {at::cumsum(x, d)}; },
      Types::All);
  for (bool most : {true, false})
    add_dim(
        r, most ? "aten::cummax" : "aten::cummin",
        [=](const T& x, int64_t d) -> Tensors {
          auto [best, places] = most ? at::cummax(x, d) : at::cummin(x, d);
          return {best, places};
        },
        Types::Numbers);
  add_dim(
      r, "aten::cumprod", [](const T& x, int64_t d) -> Tensors { return {at::cumprod(x, d)}; },
      Types::All);
  add_dim(
      r, "aten::logcumsumexp",
      [](const T& x, int64_t d) -> Tensors { return {at::logcumsumexp(x, d)}; }, Types::Floating);
  add_dim(
      r, "aten::argmax",
      [](const T& x, int64_t d) -> Tensors { return {at::argmax(x, d), at::argmax(x)}; },
      Types::Numbers);
  add_dim(
      r, "aten::argmin", [](const T& x, int64_t d) -> Tensors { return {at::argmin(x, d, true)}; },
      Types::Numbers);
  auto pair = [](auto f) {
    return [f](const T& x, int64_t d) -> Tensors {
      auto [a, b] = f(x, d);
      return {a, b};
    };
  };
  add_dim(r, "aten::max", pair([](const T& x, int64_t d) { return at::max(x, d); }), Types::All);
  add_dim(r, "aten::min", pair([](const T& x, int64_t d) { return at::min(x, d, true); }),
          Types::All);
  add_dim(r, "aten::aminmax", pair([](const T& x, int64_t d) { return at::aminmax(x, d); }),
          Types::All);
  add_dim(r, "aten::var_mean",
          pair([](const T& x, int64_t d) { return at::var_mean(x, at::IntArrayRef{d}, true); }),
          Types::Floating);
  add_dim(r, "aten::std_mean",
          pair([](const T& x, int64_t d) { return at::std_mean(x, at::IntArrayRef{d}, false); }),
          Types::Floating);
  for (const auto& sizes : kSizes) {
    r.push_back(
        {"aten::max all", {values(sizes)}, one([](const T& x) { return at::max(x); }), Types::All});
    r.push_back(
        {"aten::min all", {values(sizes)}, one([](const T& x) { return at::min(x); }), Types::All});
    r.push_back({"aten::prod all",
                 {values(sizes)},
                 one([](const T& x) { return at::prod(x); }),
                 Types::All});
    r.push_back({"aten::sum dtype",
                 {values(sizes)},
                 one([](const T& x) { return at::sum(x, at::kDouble); }),
                 Types::Numbers});
  }
  for (std::vector<int64_t> empty : {std::vector<int64_t>{0}, {4, 0}, {0, 4}}) {
    r.push_back({"aten::sum empty", {values(empty)}, one([](const T& x) {
                   return at::sum(x, Dims({-1}));
                 })});
    r.push_back({"aten::mean empty",
                 {values(empty)},
                 one([](const T& x) { return at::mean(x, Dims({-1})); }),
                 Types::Floating});
    r.push_back(
        {"aten::amax empty", {values(empty)}, one([](const T& x) { return at::amax(x, {0}); })});
    r.push_back({"aten::all empty", {values(empty)}, one([](const T& x) { return at::all(x); })});
  }
  r.push_back(
      {"aten::sum 0-dim", {values({})}, one([](const T& x) { return at::sum(x, Dims({0})); })});
  r.push_back({"aten::max 0-dim", {values({})}, two([](const T& x) { return at::max(x, 0); })});
  r.push_back({"aten::sum out=",
               {values({7, 33}), values({7})},
               [](const Tensors& t) -> Tensors {
                 T out = t[1];
                 return {at::sum_out(out, t[0], Dims({1}))};
               },
               Types::Floating});
  return r;
}

std::vector<Recipe> norm_recipes() {
  std::vector<Recipe> r;
  using T = at::Tensor;
  for (std::vector<int64_t> sizes :
       {std::vector<int64_t>{70, 65}, {7, 33}, {3, 5, 17}, {2, 1000}}) {
    int64_t n = sizes.back();
    for (int64_t dim : {int64_t{-1}, int64_t{0}}) {
      std::string along = " dim=" + std::to_string(dim);
      r.push_back({"aten::_softmax" + along,
                   {values(sizes)},
                   one([=](const T& x) { return at::softmax(x, dim); }),
                   Types::Floating});
      r.push_back({"aten::_log_softmax" + along,
                   {values(sizes)},
                   one([=](const T& x) { return at::log_softmax(x, dim); }),
                   Types::Floating});
      r.push_back({"aten::_safe_softmax" + along,
                   {values(sizes)},
                   one([=](const T& x) { return at::_safe_softmax(x, dim); }),
                   Types::Floating});
    }
    r.push_back({"aten::native_layer_norm",
                 {values(sizes), values({n}), values({n})},
                 [](const Tensors& t) -> Tensors {
                   return {at::layer_norm(t[0], {t[0].size(-1)}, t[1], t[2])};
                 },
                 Types::Floating});
    r.push_back({"aten::native_layer_norm statistics",
                 {values(sizes)},
                 [](const Tensors& t) -> Tensors {
                   auto [y, mean, rstd] =
                       at::native_layer_norm(t[0], {t[0].size(-1)}, {}, {}, 1e-5);
                   return {y, mean, rstd};
                 },
                 Types::Floating});
    // Composite in part: which operators it becomes is ATen's affair, so nothing has to be fused.
    r.push_back({"aten::rms_norm",
                 {values(sizes), values({n})},
                 [](const Tensors& t) -> Tensors {
                   return {at::rms_norm(t[0], {t[0].size(-1)}, t[1], 1e-5)};
                 },
                 Types::Floating,
                 {},
                 false});
  }
  for (bool logarithm : {false, true})
    r.push_back({logarithm ? "aten::log_softmax out=" : "aten::softmax out=",
                 {values({7, 33}), values({7, 33})},
                 [logarithm](const Tensors& t) -> Tensors {
                   T out = t[1];
                   return {logarithm ? at::log_softmax_out(out, t[0], 1)
                                     : at::softmax_out(out, t[0], 1)};
                 },
                 Types::Floating});
  r.push_back(
      {"aten::native_group_norm",
       {values({2, 6, 5, 7}), values({6}), values({6})},
       [](const Tensors& t) -> Tensors { return {at::group_norm(t[0], 3, t[1], t[2], 1e-5)}; },
       Types::Floating});
  for (bool affine : {true, false}) {
    const std::string label = affine ? "" : " plain";
    for (std::vector<int64_t> sizes :
         {std::vector<int64_t>{2, 6, 5, 7}, std::vector<int64_t>{9, 6}, {3, 6, 40}})
      r.push_back({"aten::native_batch_norm" + label,
                   {values(sizes), values({6}), values({6}), values({6}), positive({6})},
                   [affine](const Tensors& t) -> Tensors {
                     const at::Tensor none;
                     return {at::batch_norm(t[0], affine ? t[1] : none, affine ? t[2] : none, t[3],
                                            t[4], false, 0.1, 1e-5, false)};
                   },
                   Types::Floating,
                   {"another dtype", "not contiguous"}});
    for (bool tracked : {true, false})
      r.push_back({"aten::native_batch_norm training" + label + (tracked ? "" : " untracked"),
                   {values({5, 6, 3, 7}), values({6}), values({6}), values({6}), positive({6})},
                   [=](const Tensors& t) -> Tensors {
                     const at::Tensor none;
                     auto [y, mean, rstd] = at::native_batch_norm(
                         t[0], affine ? t[1] : none, affine ? t[2] : none, tracked ? t[3] : none,
                         tracked ? t[4] : none, true, 0.1, 1e-5);
                     return {y, mean, rstd};
                   },
                   Types::Floating,
                   {"another dtype", "not contiguous"}});
    r.push_back({"aten::_native_batch_norm_legit_no_training" + label,
                 {values({2, 6, 5, 7}), values({6}), values({6}), values({6}), positive({6})},
                 [affine](const Tensors& t) -> Tensors {
                   const at::Tensor none;
                   return {std::get<0>(at::_native_batch_norm_legit_no_training(
                       t[0], affine ? t[1] : none, affine ? t[2] : none, t[3], t[4], 0.1, 1e-5))};
                 },
                 Types::Floating,
                 {"another dtype", "not contiguous"}});
  }
  return r;
}

}  // namespace graft::test
