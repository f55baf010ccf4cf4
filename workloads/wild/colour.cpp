// Colours and their statistics.

#include <ATen/ATen.h>

#include <numbers>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// A classifier's input: byte images (N, H, W, 3) to planes (N, 3, H, W), normalised.
at::Tensor normalise(const at::Tensor& images, const at::Tensor& mean,
                     const at::Tensor& deviation) {
  const at::Tensor planes = images.permute({0, 3, 1, 2}).to(mean.scalar_type()) / 255;
  return ((planes - mean.view({3, 1, 1})) / deviation.view({3, 1, 1})).contiguous();
}

/// RGB planes (N, 3, H, W) to hue in radians, saturation and value.
at::Tensor rgb_to_hsv(const at::Tensor& image) {
  const auto [value, which] = image.max(1);
  const at::Tensor range = value - image.amin(1);
  const at::Tensor saturation = range / (value + 1e-8);
  const auto below = (value.unsqueeze(1) - image).unbind(1);
  const at::Tensor hues = at::stack({below[2] - below[1], below[0] - below[2] + 2 * range,
                                     below[1] - below[0] + 4 * range},
                                    1) /
                          at::where(range == 0, 1, range).unsqueeze(1);
  const at::Tensor sixth = hues.gather(1, which.unsqueeze(1)).squeeze(1) / 6;
  return at::stack({at::remainder(sixth, 1) * (2 * std::numbers::pi), saturation, value}, 1);
}

/// A video frame, luma (H, W) and chroma (H / 2, W / 2, 2) in bytes, to interleaved RGB bytes
/// (H, W, 3) by BT.601.
at::Tensor yuv_to_rgb(const at::Tensor& luma, const at::Tensor& chroma) {
  const int64_t height = luma.size(0), width = luma.size(1);
  const at::Tensor y = (luma.to(at::kFloat) - 16) * 1.164383;
  const at::Tensor uv = (chroma.to(at::kFloat) - 128)
                            .view({height / 2, 1, width / 2, 1, 2})
                            .expand({height / 2, 2, width / 2, 2, 2})
                            .reshape({height, width, 2});
  const at::Tensor u = uv.select(2, 0), v = uv.select(2, 1);
  const at::Tensor rgb =
      at::stack({y + 1.596027 * v, y - 0.391762 * u - 0.812968 * v, y + 2.017232 * u}, -1);
  return rgb.round().clamp(0, 255).to(at::kByte);
}

/// Equalises the histogram of a byte image (H, W).
at::Tensor equalise(const at::Tensor& image) {
  const at::Tensor level = image.view(-1).to(at::kLong);
  const at::Tensor ones = at::ones({level.size(0)}, at::kFloat);
  const at::Tensor counts = at::zeros({256}, at::kFloat).scatter_add_(0, level, ones);
  const at::Tensor share = counts.cumsum(0) / static_cast<double>(level.size(0));
  const at::Tensor table = (share * 255).round().to(at::kByte);
  return table.index_select(0, level).view(image.sizes());
}

/// A differentiable histogram of each row's values from 0 to 1: triangles around `bins` centres,
/// (N, P) to (N, bins).
at::Tensor soft_histogram(const at::Tensor& values, int64_t bins) {
  const at::Tensor centres = at::arange(bins, values.options()) / static_cast<double>(bins - 1);
  const at::Tensor distance = (values.unsqueeze(-1) - centres).abs();
  return (1 - distance * static_cast<double>(bins - 1)).clamp_min(0).mean(1);
}

Instance normalise_case(const Options& o) {
  const int64_t images = o.integer("images"), height = o.integer("height"),
                width = o.integer("width"), count = images * height * width * 3;
  const at::Tensor bytes = Draw(o).integers({images, height, width, 3}, 256, at::kByte);
  const at::Tensor mean = at::tensor({0.485f, 0.456f, 0.406f}),
                   deviation = at::tensor({0.229f, 0.224f, 0.225f});
  return bounded(instance_of(normalise, bytes, mean, deviation), 5 * count + 24, 3 * count);
}

Instance rgb_to_hsv_case(const Options& o) {
  const int64_t images = o.integer("images"), height = o.integer("height"),
                width = o.integer("width"), pixels = images * height * width;
  return bounded(instance_of(rgb_to_hsv, Draw(o).uniform({images, 3, height, width})),
                 4 * 6 * pixels, 20 * pixels);
}

Instance yuv_to_rgb_case(const Options& o) {
  const int64_t height = 2 * o.integer("height"), width = 2 * o.integer("width"),
                pixels = height * width;
  Draw draw(o);
  const at::Tensor luma = draw.integers({height, width}, 256, at::kByte),
                   chroma = draw.integers({height / 2, width / 2, 2}, 256, at::kByte);
  return bounded(instance_of(yuv_to_rgb, luma, chroma), pixels + pixels / 2 + 3 * pixels,
                 20 * pixels);
}

Instance equalise_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"), pixels = height * width;
  const at::Tensor image = (Draw(o).normal({height, width}) * 40 + 120).clamp(0, 255).to(at::kByte);
  return bounded(instance_of(equalise, image), 2 * pixels, pixels);
}

Instance soft_histogram_case(const Options& o) {
  const int64_t images = o.integer("images"), pixels = o.integer("pixels"),
                bins = o.integer("bins");
  return bounded(instance_of(soft_histogram, Draw(o).uniform({images, pixels}), bins),
                 4 * (images * pixels + images * bins), 6 * images * pixels * bins);
}

std::vector<Axis> frame_axes(const char* images, const char* height, const char* width) {
  return {{"images", images, "2", "images"},
          {"height", height, "37", "rows of pixels"},
          {"width", width, "53", "pixels of a row"}};
}

}  // namespace

std::vector<Workload> colour_cases() {
  return {
      {"normalise_f32", "interleaved byte images to normalised planes",
       frame_axes("4", "720", "1280"), normalise_case},
      {"rgb_to_hsv_f32", "RGB planes to hue, saturation and value", frame_axes("4", "512", "512"),
       rgb_to_hsv_case},
      {"yuv_to_rgb_u8",
       "a video frame with halved chroma to interleaved RGB",
       {{"height", "540", "19", "rows of chroma"}, {"width", "960", "27", "chroma of a row"}},
       yuv_to_rgb_case},
      {"equalise_u8",
       "the histogram of a byte image, equalised",
       {{"height", "2048", "37", "rows of pixels"}, {"width", "2048", "53", "pixels of a row"}},
       equalise_case},
      {"soft_histogram_f32",
       "differentiable histograms of rows",
       {{"images", "32", "3", "rows"},
        {"pixels", "65536", "211", "values of a row"},
        {"bins", "16", "7", "of a histogram"}},
       soft_histogram_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
