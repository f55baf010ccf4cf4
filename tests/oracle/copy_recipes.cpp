// Views, read and written through, and the operators that only move values.
#include "oracle/recipes.h"

namespace graft::test {

namespace {

using T = at::Tensor;

/// Reads through the view, writes through it in place, and returns it: three uses that compose
/// strides differently.
template <class F>
void add_view(std::vector<Recipe>& to, std::string label, std::vector<int64_t> sizes, F view) {
  to.push_back({label, {values(sizes)}, [view](const Tensors& t) -> Tensors {
                  return {at::add(view(t[0]), 1), view(t[0])};
                }});
  to.push_back({label + " in place", {values(sizes)}, [view](const Tensors& t) -> Tensors {
                  T part = view(t[0]);
                  part.mul_(part);
                  return {at::add(t[0], 1), part};
                }});
}

template <class F>
void add(std::vector<Recipe>& to, std::string label, std::vector<Input> inputs, F f,
         Recipe::Types types = Recipe::Types::All) {
  to.push_back(
      {label, std::move(inputs), [f](const Tensors& t) -> Tensors { return {f(t)}; }, types});
}

}  // namespace

std::vector<Recipe> view_recipes() {
  std::vector<Recipe> r;
  const std::vector<int64_t> matrix = {6, 34}, cube = {4, 6, 17};
  add_view(r, "aten::view", {6, 34},
           [](const T& x) { return x.is_contiguous() ? x.view({12, 17}) : x.view({6, 34}); });
  add_view(r, "aten::transpose", matrix, [](const T& x) { return x.transpose(0, 1); });
  add_view(r, "aten::t", matrix, [](const T& x) { return x.t(); });
  add_view(r, "aten::permute", cube, [](const T& x) { return x.permute({2, 0, 1}); });
  add_view(r, "aten::slice", cube, [](const T& x) { return x.slice(1, 1, 6, 2).slice(2, 3); });
  add_view(r, "aten::select", cube, [](const T& x) { return x.select(1, -2); });
  add_view(r, "aten::narrow", cube, [](const T& x) { return x.narrow(2, 4, 9); });
  add_view(r, "aten::unsqueeze", matrix, [](const T& x) { return x.unsqueeze(1); });
  add_view(r, "aten::squeeze", {6, 1, 17}, [](const T& x) { return x.squeeze(1); });
  add_view(r, "aten::diagonal", {17, 17}, [](const T& x) { return x.diagonal(1); });
  add_view(r, "aten::unfold", cube, [](const T& x) { return x.unfold(2, 4, 4); });
  add_view(r, "aten::split", matrix, [](const T& x) { return x.split(9, 1)[1]; });
  add_view(r, "aten::chunk", matrix, [](const T& x) { return x.chunk(2, 1)[1]; });
  add_view(r, "aten::split_with_sizes", matrix,
           [](const T& x) { return x.split_with_sizes({10, 20, 4}, 1)[2]; });
  add_view(r, "aten::unbind", matrix, [](const T& x) { return x.unbind(0)[3]; });
  add_view(r, "aten::flatten", cube, [](const T& x) { return x.flatten(0, 1); });
  add_view(r, "aten::movedim", cube, [](const T& x) { return x.movedim(0, 2); });
  add_view(r, "aten::alias", matrix, [](const T& x) { return at::alias(x); });
  add_view(r, "aten::detach", matrix, [](const T& x) { return x.detach(); });
  add_view(r, "aten::lift_fresh", matrix, [](const T& x) { return at::lift_fresh(x); });
  add_view(r, "aten::_reshape_alias", matrix,
           [](const T& x) { return at::_reshape_alias(x, x.sizes(), x.strides()); });
  add_view(r, "aten::_unsafe_view", matrix, [](const T& x) {
    return x.is_contiguous() ? at::_unsafe_view(x, {12, 17}) : at::_unsafe_view(x, x.sizes());
  });
  add_view(r, "aten::as_strided", cube, [](const T& x) { return x.as_strided({3, 5}, {20, 2}); });
  add(r, "aten::expand", {values({6, 1, 17})},
      [](const Tensors& t) { return at::add(t[0].expand({6, 4, 17}), 1); });
  add(r, "aten::unfold overlapping", {values({6, 34})},
      [](const Tensors& t) { return at::add(t[0].unfold(1, 5, 2), 1); });
  add(r, "aten::view dtype", {values({6, 34})}, [](const Tensors& t) {
    return at::bitwise_xor(
        t[0].view(c10::elementSize(t[0].scalar_type()) == 4 ? at::kInt : at::kByte), 1);
  });
  return r;
}

std::vector<Recipe> copy_recipes() {
  std::vector<Recipe> r;
  const std::vector<int64_t> matrix = {7, 33}, cube = {4, 6, 17};
  add(r, "aten::clone", {values(matrix)}, [](const Tensors& t) { return t[0].clone(); });
  add(r, "aten::clone contiguous", {values(matrix)},
      [](const Tensors& t) { return t[0].clone(at::MemoryFormat::Contiguous); });
  add(r, "aten::clone channels last", {values({2, 3, 5, 7})},
      [](const Tensors& t) { return t[0].contiguous(at::MemoryFormat::ChannelsLast); });
  for (at::ScalarType to : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kBool, at::kByte,
                            at::kChar, at::kShort, at::kInt, at::kLong}) {
    // Small numbers: the conversion of one that does not fit is undefined in C++.
    r.push_back({std::string("aten::_to_copy ") + c10::toString(to),
                 {positive(matrix)},
                 [to](const Tensors& t) -> Tensors {
                   return {t[0].to(to, false, /*copy=*/true).ne(0), t[0].to(to, false, true)};
                 }});
    r.push_back({std::string("aten::copy ") + c10::toString(to),
                 {positive(matrix), mask(matrix)},
                 [to](const Tensors& t) -> Tensors {
                   T out = t[1].to(to, false, true);
                   out.copy_(t[0]);
                   return {out};
                 }});
  }
  r.push_back({"aten::multinomial",
               {positive(matrix)},
               [](const Tensors& t) -> Tensors {
                 return {at::multinomial(t[0], 1), at::multinomial(t[0].select(0, 0) * 2, 1)};
               },
               Recipe::Types::Floating,
               {"weights of 16 bits", "drawn in another order"}});
  for (double p : {0.0, 0.3, 1.0})
    r.push_back({"aten::bernoulli p=" + std::to_string(p),
                 {values(matrix)},
                 [p](const Tensors& t) -> Tensors {
                   T self = t[0];
                   self.bernoulli_(p);
                   return {self, at::empty({5, 1, 7}, self.options()).bernoulli_(p)};
                 },
                 Recipe::Types::All,
                 {"drawn in another order", "truth values, as they are drawn"}});
  add(r, "aten::copy overwrites", {values(matrix), values({33})}, [](const Tensors& t) {
    T self = t[0];
    self.copy_(t[1]);
    return self;
  });
  add(r, "aten::copy transposed itself", {values({33, 33})}, [](const Tensors& t) {
    T self = t[0];
    self.copy_(t[0].t().clone());
    return self;
  });
  add(r, "aten::cat dim=0", {values(matrix), values({2, 33})},
      [](const Tensors& t) { return at::cat({t[0], t[1]}, 0); });
  add(r, "aten::cat dim=-1", {values(matrix), values({7, 1}), values({7, 64})},
      [](const Tensors& t) { return at::cat({t[0], t[1], t[2]}, -1); });
  add(r, "aten::cat empty", {values(matrix), values({0})},
      [](const Tensors& t) { return at::cat({t[1], t[0]}, 0); });
  add(r, "aten::cat promotes", {values(matrix), mask(matrix)},
      [](const Tensors& t) { return at::cat({t[1], t[0]}, 0); });
  add(r, "aten::stack", {values(matrix), values(matrix)},
      [](const Tensors& t) { return at::stack({t[0], t[1], t[0]}, 1); });
  add(r, "aten::repeat", {values(matrix)}, [](const Tensors& t) { return t[0].repeat({2, 1, 3}); });
  add(r, "aten::flip", {values(cube)}, [](const Tensors& t) { return at::flip(t[0], {0, 2}); });
  add(r, "aten::roll", {values(cube)},
      [](const Tensors& t) { return at::roll(t[0], {3, -1}, {2, 1}); });
  add(r, "aten::slice_scatter", {values(cube), values({4, 3, 17})},
      [](const Tensors& t) { return at::slice_scatter(t[0], t[1], 1, 2, 5); });
  add(r, "aten::slice_scatter step", {values(cube), values({4, 6, 5})},
      [](const Tensors& t) { return at::slice_scatter(t[0], t[1], -1, -16, 40, 4); });
  add(r, "aten::slice_scatter nothing", {values(cube), values({4, 0, 17})},
      [](const Tensors& t) { return at::slice_scatter(t[0], t[1], 1, 5, 2); });
  add(r, "aten::slice_scatter promotes", {values(cube), mask({2, 6, 17})},
      [](const Tensors& t) { return at::slice_scatter(t[0], t[1], 0, -2); });
  add(r, "aten::select_scatter", {values(cube), values({4, 17})},
      [](const Tensors& t) { return at::select_scatter(t[0], t[1], 1, -2); });
  add(r, "aten::diagonal_scatter", {values(cube), values({4, 6})},
      [](const Tensors& t) { return at::diagonal_scatter(t[0], t[1], 1, 1, 2); });
  add(r, "aten::diagonal_scatter below", {values({17, 17}), values({14})},
      [](const Tensors& t) { return at::diagonal_scatter(t[0], t[1], -3); });
  add(r, "aten::slice_backward", {values({4, 3, 17})},
      [](const Tensors& t) { return at::slice_backward(t[0], {4, 6, 17}, 1, 2, 5, 1); });
  add(r, "aten::slice_backward step", {values({4, 6, 5})},
      [](const Tensors& t) { return at::slice_backward(t[0], {4, 6, 17}, -1, -16, 40, 4); });
  add(r, "aten::slice_backward of nothing", {values({4, 0, 17})},
      [](const Tensors& t) { return at::slice_backward(t[0], {4, 6, 17}, 1, 5, 2, 1) + 1; });
  add(r, "aten::select_backward", {values({4, 17})},
      [](const Tensors& t) { return at::select_backward(t[0], {4, 6, 17}, 1, -2); });
  add(r, "aten::diagonal_backward", {values({4, 6})},
      [](const Tensors& t) { return at::diagonal_backward(t[0], {4, 6, 17}, 1, 1, 2); });
  add(r, "aten::diagonal_backward below", {values({14})},
      [](const Tensors& t) { return at::diagonal_backward(t[0], {17, 17}, -3, 0, 1); });
  add(r, "aten::tril", {values(cube)}, [](const Tensors& t) { return at::tril(t[0], 1); });
  add(r, "aten::triu", {values(cube)}, [](const Tensors& t) { return at::triu(t[0], -1); });
  add(r, "aten::tril in place", {values({17, 17})}, [](const Tensors& t) {
    T self = t[0];
    return self.tril_();
  });
  add(r, "aten::constant_pad_nd", {values(cube)},
      [](const Tensors& t) { return at::constant_pad_nd(t[0], {2, 3, -1, 1}, 1); });
  for (int64_t factor : {1, 2, 3, 5}) {
    const std::string text = " by " + std::to_string(factor);
    add(r, "aten::pixel_shuffle" + text, {values({2, 3 * factor * factor, 4, 19})},
        [=](const Tensors& t) { return at::pixel_shuffle(t[0], factor); });
    add(r, "aten::pixel_unshuffle" + text, {values({2, 3, 2 * factor, 17 * factor})},
        [=](const Tensors& t) { return at::pixel_unshuffle(t[0], factor); });
  }
  struct Patches {
    std::vector<int64_t> sizes, size, apart, padding, step;
  };
  for (const Patches& p : {Patches{{2, 3, 9, 33}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                           {{2, 8, 20}, {2, 5}, {2, 1}, {0, 3}, {1, 2}},
                           {{1, 2, 7, 9}, {7, 1}, {1, 1}, {0, 0}, {1, 1}},
                           {{3, 1, 12, 16}, {4, 4}, {1, 1}, {0, 0}, {4, 4}}})
    add(
        r, "aten::im2col " + std::to_string(p.size[0]) + "x" + std::to_string(p.size[1]),
        {values(p.sizes)},
        [p](const Tensors& t) { return at::im2col(t[0], p.size, p.apart, p.padding, p.step); },
        Recipe::Types::Floating);
  add(r, "aten::fill", {values(matrix)}, [](const Tensors& t) {
    T self = t[0];
    return self.slice(1, 3, 20).fill_(1);
  });
  add(r, "aten::fill tensor", {values(matrix), values({})}, [](const Tensors& t) {
    T self = t[0];
    return self.fill_(t[1]);
  });
  add(r, "aten::zero", {values(matrix)}, [](const Tensors& t) {
    T self = t[0];
    return self.zero_();
  });
  add(r, "aten::zeros_like", {values(matrix)},
      [](const Tensors& t) { return at::zeros_like(t[0]).add_(t[0]); });
  add(r, "aten::ones_like", {values(matrix)}, [](const Tensors& t) { return at::ones_like(t[0]); });
  add(r, "aten::full_like", {values(matrix)},
      [](const Tensors& t) { return at::full_like(t[0], 1); });
  add(r, "aten::zeros", {values(matrix)},
      [](const Tensors& t) { return at::zeros({5, 17}, t[0].options()); });
  add(r, "aten::ones", {values(matrix)},
      [](const Tensors& t) { return at::ones({5, 17}, t[0].options()); });
  add(r, "aten::full", {values(matrix)},
      [](const Tensors& t) { return at::full({5, 17}, 1, t[0].options()); });
  add(r, "aten::new_zeros", {values(matrix)},
      [](const Tensors& t) { return t[0].new_zeros({5, 17}); });
  add(r, "aten::new_ones", {values(matrix)},
      [](const Tensors& t) { return t[0].new_ones({5, 17}); });
  add(r, "aten::new_full", {values(matrix)},
      [](const Tensors& t) { return t[0].new_full({5, 17}, 1); });
  add(r, "aten::scalar_tensor", {values(matrix)},
      [](const Tensors& t) { return at::scalar_tensor(1, t[0].options()); });
  add(
      r, "aten::arange", {values(matrix)},
      [](const Tensors& t) { return at::arange(1, 40, 3, t[0].options()); },
      Recipe::Types::Numbers);
  r.push_back({"aten::arange fractions",
               {values(matrix)},
               [](const Tensors& t) -> Tensors { return {at::arange(0, 1, 0.1, t[0].options())}; },
               Recipe::Types::Floating,
               {"values that its dtype rounds"}});
  for (std::optional<bool> train : {std::optional(true), std::optional(false), {}})
    for (double p : {0.3, 1.0})
      r.push_back({"aten::native_dropout " + std::to_string(p),
                   {values(matrix)},
                   [=](const Tensors& t) -> Tensors {
                     auto [kept, mask] = at::native_dropout(t[0], p, train);
                     return {kept, mask};
                   },
                   Recipe::Types::Floating,
                   {"drawn in another order"}});
  for (int64_t steps : {0, 1, 2, 7, 40, 1001}) {
    add(
        r, "aten::linspace", {values(matrix)},
        [=](const Tensors& t) { return at::linspace(3, 70, steps, t[0].options()); },
        Recipe::Types::Numbers);
    add(
        r, "aten::linspace fractions", {values(matrix)},
        [=](const Tensors& t) { return at::linspace(7.7, -1.3, steps, t[0].options()); },
        Recipe::Types::Floating);
  }
  add(r, "aten::eye", {values(matrix)},
      [](const Tensors& t) { return at::eye(5, 7, t[0].options()); });
  add(r, "aten::unsafe_split", {values(matrix)},
      [](const Tensors& t) { return at::add(at::unsafe_split(t[0], 9, 1)[1], 1); });
  add(r, "aten::unsafe_split_with_sizes", {values(matrix)}, [](const Tensors& t) {
    return at::add(at::unsafe_split_with_sizes(t[0], {20, 13}, 1)[1], 1);
  });
  // Fresh memory is written before it is read: the values of what empty gives are nobody's.
  add(r, "aten::empty", {values(matrix)},
      [](const Tensors& t) { return at::empty({7, 33}, t[0].options()).copy_(t[0]); });
  add(r, "aten::empty_like", {values(matrix)},
      [](const Tensors& t) { return at::empty_like(t[0]).copy_(t[0]); });
  add(r, "aten::empty_strided", {values(matrix)}, [](const Tensors& t) {
    return at::empty_strided({7, 33}, {1, 7}, t[0].options()).copy_(t[0]);
  });
  add(r, "aten::empty_permuted", {values(matrix)}, [](const Tensors& t) {
    return at::empty_permuted({7, 33}, {1, 0}, t[0].options()).copy_(t[0]);
  });
  add(r, "aten::new_empty", {values(matrix)},
      [](const Tensors& t) { return t[0].new_empty({7, 33}).copy_(t[0]); });
  add(r, "aten::new_empty_strided", {values(matrix)},
      [](const Tensors& t) { return t[0].new_empty_strided({7, 33}, {1, 7}).copy_(t[0]); });
  add(r, "aten::lift_fresh_copy", {values(matrix)},
      [](const Tensors& t) { return at::lift_fresh_copy(t[0]); });
  add(r, "aten::detach_copy", {values(matrix)},
      [](const Tensors& t) { return at::detach_copy(t[0]); });
  add(r, "aten::alias_copy", {values(matrix)},
      [](const Tensors& t) { return at::alias_copy(t[0]); });
  add(r, "aten::expand_copy", {values({1, 33})},
      [](const Tensors& t) { return at::expand_copy(t[0], {7, 33}); });
  add(r, "aten::contiguous", {values(matrix)},
      [](const Tensors& t) { return at::add(t[0].t().contiguous(), 1); });
  add(r, "aten::reshape", {values(matrix)},
      [](const Tensors& t) { return at::add(t[0].t().reshape({11, 21}), 1); });
  return r;
}

}  // namespace graft::test
