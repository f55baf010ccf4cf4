// What makes planes larger or smaller: borders, and upsampling.
#include <algorithm>

#include "oracle/recipes.h"

namespace graft::test {

namespace {

using T = at::Tensor;
using By = const std::vector<int64_t>&;
using G = const T&;

void add_pads(std::vector<Recipe>& r) {
  const std::vector<std::string_view> may = {"a border of too many pieces or copies"};
  for (const auto& border : std::vector<std::vector<int64_t>>{{2, 3}, {0, 1}, {-1, 2}, {3, -2}}) {
    const std::string text = " " + std::to_string(border[0]) + " " + std::to_string(border[1]);
    std::vector<int64_t> plane = border, space;
    plane.insert(plane.end(), {1, 2});
    space = plane;
    space.insert(space.end(), {1, 0});
    for (bool reflects : {true, false}) {
      const std::string row = reflects ? "aten::reflection_pad" : "aten::replication_pad";
      auto pads = [&](const char* dims, std::vector<int64_t> sizes, auto reflect, auto repeat,
                      const std::vector<int64_t>& by) {
        r.push_back({row + dims + text,
                     {values(sizes)},
                     [=](const Tensors& t) -> Tensors {
                       return {reflects ? reflect(t[0], by) : repeat(t[0], by)};
                     },
                     Recipe::Types::Floating});
      };
      auto pads_back = [&](const char* dims, std::vector<int64_t> sizes, auto reflect, auto repeat,
                           const std::vector<int64_t>& by) {
        std::vector<int64_t> padded = sizes;
        for (size_t k = 0; k < by.size(); ++k) padded[sizes.size() - 1 - k / 2] += by[k];
        r.push_back({row + dims + "_backward" + text,
                     {values(padded), values(sizes)},
                     [=](const Tensors& t) -> Tensors {
                       return {reflects ? reflect(t[0], t[1], by) : repeat(t[0], t[1], by)};
                     },
                     Recipe::Types::Floating,
                     may});
      };
      pads(
          "1d", {3, 5, 37}, [](const T& x, By by) { return at::reflection_pad1d(x, by); },
          [](const T& x, By by) { return at::replication_pad1d(x, by); }, border);
      pads(
          "2d", {2, 3, 7, 18}, [](const T& x, By by) { return at::reflection_pad2d(x, by); },
          [](const T& x, By by) { return at::replication_pad2d(x, by); }, plane);
      pads(
          "3d", {2, 3, 5, 6, 9}, [](const T& x, By by) { return at::reflection_pad3d(x, by); },
          [](const T& x, By by) { return at::replication_pad3d(x, by); }, space);
      pads_back(
          "1d", {3, 5, 37}, [](G g, G x, By by) { return at::reflection_pad1d_backward(g, x, by); },
          [](G g, G x, By by) { return at::replication_pad1d_backward(g, x, by); }, border);
      pads_back(
          "2d", {2, 3, 7, 18},
          [](G g, G x, By by) { return at::reflection_pad2d_backward(g, x, by); },
          [](G g, G x, By by) { return at::replication_pad2d_backward(g, x, by); }, plane);
      pads_back(
          "3d", {2, 3, 5, 6, 9},
          [](G g, G x, By by) { return at::reflection_pad3d_backward(g, x, by); },
          [](G g, G x, By by) { return at::replication_pad3d_backward(g, x, by); }, space);
    }
  }
  r.push_back({"aten::reflection_pad3d_backward of rows",
               {values({2, 3, 5, 6, 12}), values({2, 3, 5, 6, 9})},
               [](const Tensors& t) -> Tensors {
                 return {at::reflection_pad3d_backward(t[0], t[1], {2, 1, 0, 0, 0, 0})};
               },
               Recipe::Types::Floating});
}

void add_linear(std::vector<Recipe>& r) {
  for (bool corners : {false, true})
    for (auto [height, width] :
         {std::pair<int64_t, int64_t>{14, 37}, {7, 40}, {5, 11}, {1, 1}, {21, 17}}) {
      const std::string text =
          (corners ? " corners " : " ") + std::to_string(height) + "x" + std::to_string(width);
      auto upsamples = [&](const char* row, std::vector<int64_t> sizes, auto f) {
        r.push_back({row + text,
                     {values(std::move(sizes))},
                     [f](const Tensors& t) -> Tensors { return {f(t[0])}; },
                     Recipe::Types::Floating,
                     {"a dimension that keeps its size", "places of doubles"}});
      };
      auto back = [&](const char* row, std::vector<int64_t> to, std::vector<int64_t> from, auto f) {
        std::vector<int64_t> whole = from;
        std::copy(to.begin(), to.end(), whole.begin() + 2);
        r.push_back({row + text,
                     {values(whole)},
                     [=](const Tensors& t) -> Tensors { return {f(t[0], to, from)}; },
                     Recipe::Types::Floating,
                     {"a dimension that keeps its size", "factors that do not fit the sizes"}});
      };
      back("aten::upsample_linear1d_backward", {width}, {2, 3, 18},
           [=](const T& g, By to, By from) {
             return at::upsample_linear1d_backward(g, to, from, corners);
           });
      back("aten::upsample_bilinear2d_backward", {height, width}, {2, 3, 7, 18},
           [=](const T& g, By to, By from) {
             return at::upsample_bilinear2d_backward(g, to, from, corners);
           });
      back("aten::upsample_bilinear2d_backward factors", {height, width}, {2, 3, 7, 18},
           [=](const T& g, By to, By from) {
             return at::upsample_bilinear2d_backward(g, to, from, corners, 1.9, 2.2);
           });
      back("aten::upsample_trilinear3d_backward", {5, height, width}, {1, 2, 3, 7, 9},
           [=](const T& g, By to, By from) {
             return at::upsample_trilinear3d_backward(g, to, from, corners);
           });
      upsamples("aten::upsample_bilinear2d", {2, 3, 7, 18},
                [=](const T& x) { return at::upsample_bilinear2d(x, {height, width}, corners); });
      upsamples("aten::upsample_linear1d", {2, 3, 18},
                [=](const T& x) { return at::upsample_linear1d(x, {width}, corners); });
      upsamples("aten::upsample_trilinear3d", {1, 2, 3, 7, 9}, [=](const T& x) {
        return at::upsample_trilinear3d(x, {5, height, width}, corners);
      });
      upsamples("aten::upsample_bicubic2d", {2, 3, 7, 18},
                [=](const T& x) { return at::upsample_bicubic2d(x, {height, width}, corners); });
      upsamples("aten::upsample_bicubic2d factors", {2, 3, 7, 18}, [=](const T& x) {
        return at::upsample_bicubic2d(x, at::OptionalIntArrayRef(), corners,
                                      at::ArrayRef<double>({1.7, 0.6}));
      });
      // ATen's kernel of vectors takes images whose sides add up to 128, others where channels lie
      // side by side; of three dimensions the last one may be kept, and the first two not.
      upsamples("aten::upsample_bilinear2d large", {1, 3, 41, 30},
                [=](const T& x) { return at::upsample_bilinear2d(x, {84, 90}, corners); });
      for (const int64_t channels : {5, 16})
        upsamples("aten::upsample_bilinear2d side by side", {1, channels, 7, 18}, [=](const T& x) {
          return at::upsample_bilinear2d(x.contiguous(at::MemoryFormat::ChannelsLast),
                                         {height, width}, corners);
        });
      upsamples("aten::upsample_trilinear3d less", {1, 2, 8, 3, 5},
                [=](const T& x) { return at::upsample_trilinear3d(x, {2, 4, width}, corners); });
      upsamples("aten::upsample_bilinear2d factors", {2, 3, 7, 18}, [=](const T& x) {
        return at::upsample_bilinear2d(x, at::OptionalIntArrayRef(), corners,
                                       at::ArrayRef<double>({1.7, 0.6}));
      });
    }
}

/// Samples at the grid's places, some of which lie outside.
void add_grid(std::vector<Recipe>& r) {
  for (int64_t mode : {0, 1})
    for (int64_t padding : {0, 1, 2})
      for (bool corners : {false, true})
        for (int64_t width : {1, 9, 37})
          r.push_back({"aten::grid_sampler_2d " + std::to_string(mode) + std::to_string(padding) +
                           (corners ? " corners " : " ") + std::to_string(width),
                       {values({2, 3, 6, width}), values({2, 5, 19, 2})},
                       [=](const Tensors& t) -> Tensors {
                         return {at::grid_sampler_2d(t[0], t[1], mode, padding, corners)};
                       },
                       Recipe::Types::Floating,
                       {"another dtype"}});
  for (int64_t mode : {0, 1})
    for (int64_t padding : {0, 1, 2})
      for (bool corners : {false, true})
        for (int64_t width : {1, 9, 18})
          r.push_back({"aten::grid_sampler_3d " + std::to_string(mode) + std::to_string(padding) +
                           (corners ? " corners " : " ") + std::to_string(width),
                       {values({2, 3, 4, 6, width}), values({2, 3, 5, 19, 3})},
                       [=](const Tensors& t) -> Tensors {
                         return {at::grid_sampler_3d(t[0], t[1], mode, padding, corners)};
                       },
                       Recipe::Types::Floating,
                       {"another dtype"}});
  // Of a few places, whose sums are in order, one place along an axis, and of three axes.
  const std::vector<std::vector<int64_t>> grids{{2, 1, 3, 5},   {2, 1, 31, 47},   {1, 3, 1, 90},
                                                {3, 1, 80, 1},  {2, 1, 2, 3, 4},  {2, 1, 9, 11, 13},
                                                {0, 1, 12, 12}, {1, 1, 5, 1, 100}};
  for (const std::vector<int64_t>& sizes : grids)
    for (bool corners : {false, true}) {
      const auto places = static_cast<int64_t>(sizes.size()) - 2;
      r.push_back({"aten::affine_grid_generator " + std::to_string(sizes[2]) + "," +
                       std::to_string(sizes[3]) + (corners ? " corners" : ""),
                   {values({sizes[0], places, places + 1})},
                   [=](const Tensors& t) -> Tensors {
                     return {at::affine_grid_generator(t[0], sizes, corners)};
                   },
                   Recipe::Types::Floating,
                   {"another dtype"}});
    }
}

template <class F>
void add_floating(std::vector<Recipe>& to, std::string label, std::vector<Input> inputs, F f) {
  to.push_back({std::move(label), std::move(inputs),
                [f](const Tensors& t) -> Tensors { return {f(t)}; }, Recipe::Types::Floating});
}

void add_nearest(std::vector<Recipe>& r) {
  // By whole numbers, up and down, by others, and by factors that are given.
  for (int64_t height : {4, 8, 12, 20, 7, 2})
    for (int64_t width : {5, 10, 15, 30, 13})
      add_floating(
          r, "aten::upsample_nearest2d " + std::to_string(height) + "x" + std::to_string(width),
          {values({2, 3, 4, 5})},
          [=](const Tensors& t) { return at::upsample_nearest2d(t[0], {height, width}); });
  // Factors that are nearly one and two, and sizes that fp32 and fp64 round apart.
  const std::vector<std::string_view> may = {"round the places"};
  for (double factor : {1.05, 2.05, 2.5, 2.0, 1.0})
    r.push_back({"aten::upsample_nearest1d by " + std::to_string(factor),
                 {values({1, 2, 10})},
                 [factor](const Tensors& t) -> Tensors {
                   return {at::upsample_nearest1d(t[0], at::OptionalIntArrayRef(),
                                                  at::ArrayRef<double>{factor})};
                 },
                 Recipe::Types::Floating,
                 may,
                 false});
  for (double factor : {1.005, 2.005})
    r.push_back({"aten::upsample_nearest2d by " + std::to_string(factor),
                 {values({1, 3, 100, 100})},
                 [factor](const Tensors& t) -> Tensors {
                   return {at::upsample_nearest2d(t[0], at::OptionalIntArrayRef(),
                                                  at::ArrayRef<double>{factor, factor})};
                 },
                 Recipe::Types::Floating,
                 may,
                 false});
  for (int64_t width : {82, 94, 110, 129})
    r.push_back({"aten::upsample_nearest2d to " + std::to_string(width),
                 {values({1, 3, 2, 45})},
                 [width](const Tensors& t) -> Tensors {
                   return {at::upsample_nearest2d(t[0], {width, width}),
                           at::upsample_nearest1d(t[0][0], {width})};
                 },
                 Recipe::Types::Floating,
                 may,
                 false});
  add_floating(r, "aten::upsample_nearest2d factors", {values({2, 3, 4, 5})}, [](const Tensors& t) {
    return at::upsample_nearest2d(t[0], at::OptionalIntArrayRef(), at::ArrayRef<double>{2.5, 2.0});
  });
  add_floating(r, "aten::upsample_nearest1d", {values({2, 3, 17})},
               [](const Tensors& t) { return at::upsample_nearest1d(t[0], {51}); });
  add_floating(r, "aten::upsample_nearest3d", {values({2, 3, 4, 5, 3})},
               [](const Tensors& t) { return at::upsample_nearest3d(t[0], {8, 10, 7}); });
  for (int64_t times : {1, 2, 3})
    add_floating(r, "aten::upsample_nearest2d_backward", {values({2, 3, 4 * times, 10})},
                 [times](const Tensors& t) {
                   return at::upsample_nearest2d_backward(t[0], {4 * times, 10}, {2, 3, 4, 5});
                 });
  add_floating(r, "aten::upsample_nearest1d_backward", {values({2, 3, 51})}, [](const Tensors& t) {
    return at::upsample_nearest1d_backward(t[0], {51}, {2, 3, 17});
  });
  add_floating(r, "aten::upsample_nearest3d_backward", {values({2, 3, 4, 6, 8})},
               [](const Tensors& t) {
                 return at::upsample_nearest3d_backward(t[0], {4, 6, 8}, {2, 3, 2, 3, 4});
               });
}

}  // namespace

std::vector<Recipe> plane_recipes() {
  std::vector<Recipe> r;
  add_pads(r);
  add_linear(r);
  add_grid(r);
  add_nearest(r);
  return r;
}

}  // namespace graft::test
