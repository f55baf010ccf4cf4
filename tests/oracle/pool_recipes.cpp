// Pooling: kernels, steps, borders that cut windows off, planes with and without samples.
#include <limits>

#include "oracle/recipes.h"

namespace graft::test {

namespace {

using Types = Recipe::Types;

struct Setting {
  const char* text;
  std::vector<int64_t> size, step, padding, apart;
  bool ceil = false;
};

const Setting kSettings[] = {
    {" 2x2", {2, 2}, {2, 2}, {0, 0}, {1, 1}},
    {" 3x3 step 2 padded", {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {" 3x2 step 1x3 ceil", {3, 2}, {1, 3}, {1, 0}, {1, 1}, true},
    {" 3x3 apart 2x1", {3, 3}, {2, 1}, {1, 1}, {2, 1}},
    {" 5x4 step 3 padded ceil", {5, 4}, {3, 3}, {2, 2}, {1, 1}, true},
    {" 5x5 step 1 padded", {5, 5}, {1, 1}, {2, 2}, {1, 1}},
    {" 5x4 apart 2x3", {5, 4}, {1, 1}, {2, 2}, {2, 3}},
    {" 12x11 step 1 padded", {12, 11}, {1, 1}, {5, 5}, {1, 1}},
    {" 7x13", {7, 13}, {1, 1}, {0, 0}, {1, 1}},
};

/// `gradient` is as large as the result.
std::vector<int64_t> pooled(const Setting& s, const std::vector<int64_t>& sizes) {
  return at::max_pool2d(at::zeros(sizes), s.size, s.step, s.padding, s.apart, s.ceil).sizes().vec();
}

const std::vector<std::string_view> kBackwardMay = {"windows with gaps", "windows of many kinds",
                                                    "windows of several sizes"};

void add_pool_backward(std::vector<Recipe>& r, const Setting& s, std::vector<int64_t> sizes) {
  r.push_back({std::string("aten::max_pool2d_with_indices_backward") + s.text,
               {values(pooled(s, sizes)), values(sizes)},
               [s](const Tensors& t) -> Tensors {
                 auto [most, places] =
                     at::max_pool2d_with_indices(t[1], s.size, s.step, s.padding, s.apart, s.ceil);
                 return {at::max_pool2d_with_indices_backward(t[0], t[1], s.size, s.step, s.padding,
                                                              s.apart, s.ceil, places)};
               },
               Types::Floating,
               kBackwardMay});
  if (s.apart != std::vector<int64_t>{1, 1}) return;
  for (bool counts : {false, true})
    for (std::optional<int64_t> divisor : {std::optional<int64_t>(), std::optional<int64_t>(5)})
      r.push_back({std::string("aten::avg_pool2d_backward") + s.text,
                   {values(pooled(s, sizes)), values(sizes)},
                   [=](const Tensors& t) -> Tensors {
                     return {at::avg_pool2d_backward(t[0], t[1], s.size, s.step, s.padding, s.ceil,
                                                     counts, divisor)};
                   },
                   Types::Floating,
                   kBackwardMay});
}

void add_other_backward(std::vector<Recipe>& r) {
  for (int64_t parts : {1, 2, 4})
    r.push_back({"aten::adaptive_max_pool2d_backward of " + std::to_string(parts),
                 {values({2, 3, parts, parts}), values({2, 3, 12, 20})},
                 [=](const Tensors& t) -> Tensors {
                   auto [most, places] = at::adaptive_max_pool2d(t[1], {parts, parts});
                   return {most, at::adaptive_max_pool2d_backward(t[0], t[1], places)};
                 },
                 Types::Floating});
  for (int64_t parts : {1, 2, 4})
    r.push_back({"aten::_adaptive_avg_pool2d_backward of " + std::to_string(parts),
                 {values({2, 3, parts, parts}), values({2, 3, 12, 20})},
                 [](const Tensors& t) -> Tensors {
                   return {at::_adaptive_avg_pool2d_backward(t[0], t[1])};
                 },
                 Types::Floating});
  struct Unfolded {
    int64_t extent, size, step;
  };
  for (Unfolded u : {Unfolded{17, 4, 4}, {17, 4, 1}, {18, 5, 2}, {17, 2, 5}, {9, 9, 3}})
    for (int64_t dim : {0, 1}) {
      std::vector<int64_t> sizes = {6, 6};
      sizes[static_cast<size_t>(dim)] = u.extent;
      std::vector<int64_t> windows = at::zeros(sizes).unfold(dim, u.size, u.step).sizes().vec();
      r.push_back(
          {"aten::unfold_backward " + std::to_string(u.size) + " step " + std::to_string(u.step),
           {values(windows)},
           [=](const Tensors& t) -> Tensors {
             return {at::unfold_backward(t[0], sizes, dim, u.size, u.step)};
           },
           Types::Floating});
    }
}

void add_volume_backward(std::vector<Recipe>& r) {
  const Setting settings[] = {
      {" 2x2x3", {2, 2, 3}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}},
      {" 3x3x3 padded", {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
      {" 5x5x5 padded", {5, 5, 5}, {1, 1, 1}, {2, 2, 2}, {1, 1, 1}},
      {" 3x2x3 step 2 ceil", {3, 2, 3}, {2, 1, 2}, {1, 0, 1}, {1, 1, 1}, true},
  };
  for (const Setting& s : settings)
    for (std::vector<int64_t> sizes : {std::vector<int64_t>{2, 3, 5, 6, 20}, {3, 6, 5, 17}}) {
      const std::vector<int64_t> out =
          at::max_pool3d(at::zeros(sizes), s.size, s.step, s.padding, s.apart, s.ceil)
              .sizes()
              .vec();
      r.push_back({std::string("aten::max_pool3d_with_indices_backward") + s.text,
                   {values(out), values(sizes)},
                   [s](const Tensors& t) -> Tensors {
                     auto [most, places] = at::max_pool3d_with_indices(t[1], s.size, s.step,
                                                                       s.padding, s.apart, s.ceil);
                     return {at::max_pool3d_with_indices_backward(
                         t[0], t[1], s.size, s.step, s.padding, s.apart, s.ceil, places)};
                   },
                   Types::Floating,
                   kBackwardMay});
      for (bool counts : {false, true})
        r.push_back({std::string("aten::avg_pool3d_backward") + s.text,
                     {values(out), values(sizes)},
                     [=](const Tensors& t) -> Tensors {
                       return {at::avg_pool3d_backward(t[0], t[1], s.size, s.step, s.padding,
                                                       s.ceil, counts, {})};
                     },
                     Types::Floating,
                     kBackwardMay});
    }
  for (int64_t parts : {1, 2}) {
    r.push_back({"aten::adaptive_max_pool3d_backward of " + std::to_string(parts),
                 {values({2, 3, parts, parts, parts}), values({2, 3, 4, 6, 20})},
                 [=](const Tensors& t) -> Tensors {
                   auto [most, places] = at::adaptive_max_pool3d(t[1], {parts, parts, parts});
                   return {most, at::adaptive_max_pool3d_backward(t[0], t[1], places)};
                 },
                 Types::Floating});
    r.push_back({"aten::_adaptive_avg_pool3d_backward of " + std::to_string(parts),
                 {values({2, 3, parts, parts, parts}), values({2, 3, 4, 6, 20})},
                 [](const Tensors& t) -> Tensors {
                   return {at::_adaptive_avg_pool3d_backward(t[0], t[1])};
                 },
                 Types::Floating});
  }
}

}  // namespace

std::vector<Recipe> pool_recipes() {
  std::vector<Recipe> r;
  add_other_backward(r);
  add_volume_backward(r);
  const std::vector<std::string_view> may = {"beyond the border"};
  for (const Setting& s : kSettings)
    for (std::vector<int64_t> sizes : {std::vector<int64_t>{2, 3, 14, 37}, {3, 9, 16}}) {
      add_pool_backward(r, s, sizes);
      r.push_back({std::string("aten::max_pool2d_with_indices") + s.text,
                   {values(sizes)},
                   [s](const Tensors& t) -> Tensors {
                     auto [most, places] = at::max_pool2d_with_indices(t[0], s.size, s.step,
                                                                       s.padding, s.apart, s.ceil);
                     return {most, places};
                   },
                   Types::Floating,
                   may});
      r.push_back(
          {std::string("aten::max_pool2d_with_indices values") + s.text,
           {values(sizes)},
           [s](const Tensors& t) -> Tensors {
             return {at::relu(at::max_pool2d(t[0], s.size, s.step, s.padding, s.apart, s.ceil))};
           },
           Types::Floating,
           may});
      for (bool counts : {false, true})
        for (std::optional<int64_t> divisor : {std::optional<int64_t>(), std::optional<int64_t>(5)})
          r.push_back(
              {std::string("aten::avg_pool2d") + s.text,
               {values(sizes)},
               [=](const Tensors& t) -> Tensors {
                 return {at::avg_pool2d(t[0], s.size, s.step, s.padding, s.ceil, counts, divisor)};
               },
               Types::Floating,
               may});
    }
  for (bool many : {false, true})
    for (double value : {-std::numeric_limits<double>::infinity(), 1.0}) {
      const int64_t size = many ? 5 : 3;
      r.push_back(
          {std::string("aten::max_pool2d_with_indices of one value") + (many ? " many" : ""),
           {values({2, 3, 12, 13})},
           [=](const Tensors& t) -> Tensors {
             auto [most, places] = at::max_pool2d_with_indices(
                 at::full_like(t[0], value), {size, size}, {1, 1}, {size / 2, size / 2});
             return {most, places};
           },
           Types::Floating});
      r.push_back({std::string("aten::avg_pool2d channels last") + (many ? " many" : ""),
                   {values({2, 3, 12, 13})},
                   [=](const Tensors& t) -> Tensors {
                     const at::Tensor x = t[0].contiguous(at::MemoryFormat::ChannelsLast);
                     return {at::avg_pool2d(x, {size, size}, {1, 1}, {size / 2, size / 2}),
                             at::max_pool2d(x, {size, size}, {2, 2}, {size / 2, size / 2})};
                   },
                   Types::Floating});
    }
  for (int64_t padding : {0, 1}) {
    r.push_back({"aten::max_pool1d padding " + std::to_string(padding),
                 {values({2, 3, 70})},
                 [=](const Tensors& t) -> Tensors {
                   return {at::max_pool1d(t[0], {3}, {2}, {padding}, {2})};
                 },
                 Types::Floating});
    r.push_back({"aten::max_pool3d_with_indices padding " + std::to_string(padding),
                 {values({2, 3, 4, 6, 20})},
                 [=](const Tensors& t) -> Tensors {
                   auto [most, places] =
                       at::max_pool3d_with_indices(t[0], {2, 2, 3}, {2, 2, 2}, {0, 0, padding});
                   return {most, places};
                 },
                 Types::Floating});
    r.push_back({"aten::avg_pool3d padding " + std::to_string(padding),
                 {values({2, 3, 4, 6, 20})},
                 [=](const Tensors& t) -> Tensors {
                   return {at::avg_pool3d(t[0], {2, 2, 3}, {2, 2, 2}, {0, 0, padding})};
                 },
                 Types::Floating});
  }
  for (int64_t parts : {2, 4})
    r.push_back({"aten::_adaptive_avg_pool2d to " + std::to_string(parts),
                 {values({2, 3, 8, 36})},
                 [=](const Tensors& t) -> Tensors {
                   return {at::adaptive_avg_pool2d(t[0], {parts, parts})};
                 },
                 Types::Floating});
  for (bool last : {false, true})
    r.push_back({std::string("aten::adaptive_max_pool2d") + (last ? " channels last" : ""),
                 {values({2, 3, 8, 36})},
                 [=](const Tensors& t) -> Tensors {
                   const at::Tensor x =
                       last ? t[0].contiguous(at::MemoryFormat::ChannelsLast) : t[0];
                   auto [most, places] = at::adaptive_max_pool2d(x, {4, 12});
                   return {most, places};
                 },
                 Types::Floating});
  r.push_back({"aten::adaptive_max_pool3d",
               {values({2, 3, 4, 6, 20})},
               [](const Tensors& t) -> Tensors {
                 auto [most, places] = at::adaptive_max_pool3d(t[0], {2, 3, 5});
                 return {most, places};
               },
               Types::Floating});
  r.push_back(
      {"aten::_adaptive_avg_pool3d",
       {values({2, 3, 4, 6, 20})},
       [=](const Tensors& t) -> Tensors { return {at::adaptive_avg_pool3d(t[0], {2, 3, 5})}; },
       Types::Floating});
  return r;
}

}  // namespace graft::test
