// Image processing: filters, geometry, composition.

#include <ATen/ATen.h>

#include <algorithm>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// Sobel's gradient of (H, W): magnitude and direction, without the border.
std::tuple<at::Tensor, at::Tensor> sobel(const at::Tensor& x) {
  const int64_t height = x.size(0), width = x.size(1);
  const auto at_offset = [&](int64_t row, int64_t column) {
    return x.slice(0, row, height - 2 + row).slice(1, column, width - 2 + column);
  };
  const at::Tensor across = at_offset(0, 2) + 2 * at_offset(1, 2) + at_offset(2, 2) -
                            at_offset(0, 0) - 2 * at_offset(1, 0) - at_offset(2, 0);
  const at::Tensor down = at_offset(2, 0) + 2 * at_offset(2, 1) + at_offset(2, 2) -
                          at_offset(0, 0) - 2 * at_offset(0, 1) - at_offset(0, 2);
  return {(across * across + down * down).sqrt(), at::atan2(down, across)};
}

/// An unsharp mask of (C, H, W): adds what a separable blur of 5 pixels takes away, without the
/// border.
at::Tensor unsharp(const at::Tensor& x) {
  constexpr double kWeights[] = {0.0625, 0.25, 0.375, 0.25, 0.0625};
  const int64_t height = x.size(1) - 4, width = x.size(2) - 4;
  at::Tensor down, blurred;
  for (int64_t i = 0; i < 5; ++i) {
    const at::Tensor part = x.slice(1, i, i + height) * kWeights[i];
    down = i == 0 ? part : down + part;
  }
  for (int64_t i = 0; i < 5; ++i) {
    const at::Tensor part = down.slice(2, i, i + width) * kWeights[i];
    blurred = i == 0 ? part : blurred + part;
  }
  const at::Tensor centre = x.slice(1, 2, 2 + height).slice(2, 2, 2 + width);
  return (centre + 1.5 * (centre - blurred)).clamp(0, 1);
}

/// A detector's input: the longer side of a byte image (H, W, 3) scaled to `side` by the nearest
/// pixel, in the middle of a grey square; planes (3, side, side) from 0 to 1.
at::Tensor letterbox(const at::Tensor& image, int64_t side) {
  const int64_t height = image.size(0), width = image.size(1), longer = std::max(height, width);
  const int64_t rows = height * side / longer, columns = width * side / longer;
  const at::Tensor row = at::floor_divide(at::arange(rows, at::kLong) * height, rows);
  const at::Tensor column = at::floor_divide(at::arange(columns, at::kLong) * width, columns);
  at::Tensor canvas = at::full({side, side, 3}, 114, image.options());
  const int64_t top = (side - rows) / 2, left = (side - columns) / 2;
  canvas.slice(0, top, top + rows)
      .slice(1, left, left + columns)
      .copy_(image.index_select(0, row).index_select(1, column));
  return canvas.permute({2, 0, 1}).to(at::kFloat).div(255).contiguous();
}

/// An image (C, H, W) moved along a flow (2, H, W) in pixels, by the four neighbours' weights.
at::Tensor warp(const at::Tensor& image, const at::Tensor& flow) {
  const int64_t height = image.size(1), width = image.size(2);
  const at::Tensor x = at::arange(width, flow.options()) + flow.select(0, 0);
  const at::Tensor y = at::arange(height, flow.options()).unsqueeze(1) + flow.select(0, 1);
  const at::Tensor left = x.floor(), top = y.floor(), fx = x - left, fy = y - top;
  const at::Tensor pixels = image.view({image.size(0), -1});
  const auto neighbour = [&](const at::Tensor& row, const at::Tensor& column) {
    const at::Tensor r = row.to(at::kLong).clamp(0, height - 1);
    const at::Tensor c = column.to(at::kLong).clamp(0, width - 1);
    return pixels.index_select(1, (r * width + c).view(-1)).view(image.sizes());
  };
  const at::Tensor upper = neighbour(top, left) * (1 - fx) + neighbour(top, left + 1) * fx;
  const at::Tensor lower = neighbour(top + 1, left) * (1 - fx) + neighbour(top + 1, left + 1) * fx;
  return upper * (1 - fy) + lower * fy;
}

/// Porter and Duff's `over` of two images (H, W, 4): red, green, blue, alpha, not premultiplied.
at::Tensor composite(const at::Tensor& front, const at::Tensor& back) {
  const at::Tensor a = front.slice(-1, 3), b = back.slice(-1, 3) * (1 - a), alpha = a + b;
  const at::Tensor colour = front.slice(-1, 0, 3) * a + back.slice(-1, 0, 3) * b;
  return at::cat({colour / alpha.clamp_min(1e-6), alpha}, -1);
}

Instance sobel_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width");
  const int64_t inner = (height - 2) * (width - 2);
  return bounded(instance_of(sobel, Draw(o).uniform({height, width})),
                 4 * (height * width + 2 * inner), (16 + kFunction) * inner);
}

Instance unsharp_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width");
  const int64_t inner = 3 * (height - 4) * (width - 4);
  return bounded(instance_of(unsharp, Draw(o).uniform({3, height, width})),
                 4 * (3 * height * width + inner), 23 * inner);
}

Instance letterbox_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"), side = o.integer("side");
  const int64_t longer = std::max(height, width);
  const int64_t scaled = (height * side / longer) * (width * side / longer);
  // Pixels of the image that are read at all.
  const int64_t read = std::min(scaled, height * width);
  return bounded(instance_of(letterbox, Draw(o).integers({height, width, 3}, 256, at::kByte), side),
                 3 * read + 4 * 3 * side * side, 3 * side * side);
}

Instance warp_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"), pixels = height * width;
  Draw draw(o);
  const at::Tensor image = draw.uniform({3, height, width});
  // Nearly every pixel is a neighbour of some.
  return bounded(instance_of(warp, image, draw.normal({2, height, width}) * 3),
                 4 * (3 + 2 + 3) * pixels, (8 + 3 * 9) * pixels);
}

Instance composite_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"), pixels = height * width;
  Draw draw(o);
  const at::Tensor front = draw.uniform({height, width, 4}),
                   back = draw.uniform({height, width, 4});
  return bounded(instance_of(composite, front, back), 4 * 3 * 4 * pixels, 16 * pixels);
}

std::vector<Axis> image_axes(const char* height, const char* width) {
  return {{"height", height, "37", "rows of pixels"}, {"width", width, "53", "pixels of a row"}};
}

}  // namespace

std::vector<Workload> image_cases() {
  std::vector<Axis> boxed = image_axes("1080", "1920");
  boxed.push_back({"side", "1280", "31", "rows and columns of the result"});
  return {
      {"sobel_f32", "Sobel's gradient: magnitude and direction", image_axes("2048", "2048"),
       sobel_case, kTails},
      {"unsharp_f32", "an unsharp mask of three planes", image_axes("1080", "1920"), unsharp_case},
      {"letterbox_f32", "a byte image scaled into a grey square, as planes", boxed, letterbox_case},
      {"warp_f32", "an image moved along a flow, bilinear", image_axes("720", "1280"), warp_case},
      {"composite_f32", "one image over another by alpha, interleaved", image_axes("1080", "1920"),
       composite_case},
  };
}

}  // namespace graft::workloads::wild
