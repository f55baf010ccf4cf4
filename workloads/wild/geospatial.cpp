// Geospatial: satellite scenes, terrain, stations on the globe.

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

constexpr double kDegree = std::numbers::pi / 180;

/// A cloudless composite of scenes (T, 2, H, W) in int16, red and infrared, whose quality (T, H, W)
/// has bits for clouds and their shadows: the median vegetation index (-1 where none is clear), the
/// mean bands, and how many scenes are clear.
std::tuple<at::Tensor, at::Tensor, at::Tensor> cloud_composite(const at::Tensor& scenes,
                                                               const at::Tensor& quality) {
  const at::Tensor valid = at::bitwise_and(quality, 0x18) == 0, count = valid.sum(0);
  const at::Tensor red = scenes.select(1, 0).to(at::kFloat) * 1e-4,
                   infrared = scenes.select(1, 1).to(at::kFloat) * 1e-4;
  const at::Tensor index = (infrared - red) / (infrared + red).clamp_min(1e-4);
  const at::Tensor ordered =
      std::get<0>(at::where(valid, index, std::numeric_limits<double>::infinity()).sort(0));
  const at::Tensor middle = (count - 1).clamp_min(0).div(2, "floor");
  const at::Tensor median = ordered.gather(0, middle.unsqueeze(0)).squeeze(0);
  const at::Tensor total = at::where(valid.unsqueeze(1), scenes, 0).sum(0);
  const at::Tensor mean = total.div(count.clamp_min(1), "floor").to(at::kShort);
  return {median.masked_fill(count == 0, -1), mean, count.to(at::kByte)};
}

/// Slopes in degrees and the hillshade (0 to 255) of elevations (H, W) in cells of 30 m, by Horn's
/// differences; the sun stands in the north-west.
std::tuple<at::Tensor, at::Tensor> hillshade(const at::Tensor& elevation) {
  constexpr double kMetres = 30, kZenith = 45 * kDegree, kAzimuth = 135 * kDegree;
  const int64_t height = elevation.size(0), width = elevation.size(1);
  const at::Tensor padded = at::replication_pad2d(elevation.unsqueeze(0), {1, 1, 1, 1}).squeeze(0);
  const auto near = [&](int64_t row, int64_t column) {
    return padded.slice(0, row, row + height).slice(1, column, column + width);
  };
  const at::Tensor east = near(0, 2) + 2 * near(1, 2) + near(2, 2);
  const at::Tensor west = near(0, 0) + 2 * near(1, 0) + near(2, 0);
  const at::Tensor north = near(0, 0) + 2 * near(0, 1) + near(0, 2);
  const at::Tensor south = near(2, 0) + 2 * near(2, 1) + near(2, 2);
  const at::Tensor dx = (east - west) / (8 * kMetres), dy = (south - north) / (8 * kMetres);
  const at::Tensor slope = at::atan(at::hypot(dx, dy)), aspect = at::atan2(dy, -dx);
  const at::Tensor shade =
      std::cos(kZenith) * slope.cos() + std::sin(kZenith) * slope.sin() * (kAzimuth - aspect).cos();
  return {slope / kDegree, 255 * shade.clamp_min(0)};
}

/// The nearest of stations (S, 2) to points (P, 2), in degrees of latitude and longitude: how far
/// in km by the haversine formula, which, and the mean of its points' values (P) for each station.
std::tuple<at::Tensor, at::Tensor, at::Tensor> nearest_station(const at::Tensor& points,
                                                               const at::Tensor& values,
                                                               const at::Tensor& stations) {
  const at::Tensor a = points * kDegree, b = stations * kDegree;
  const at::Tensor latitude = a.slice(1, 0, 1), other = b.select(1, 0);
  const at::Tensor half = at::sin((latitude - other) / 2).square();
  const at::Tensor across = at::sin((a.slice(1, 1, 2) - b.select(1, 1)) / 2).square();
  const at::Tensor h = half + latitude.cos() * other.cos() * across;
  const at::Tensor distance = 2 * 6371.0088 * at::asin(h.sqrt().clamp_max(1));
  const auto [nearest, station] = distance.min(1);
  const at::Tensor total = at::zeros_like(other).index_add_(0, station, values);
  const at::Tensor count = at::zeros_like(other).index_add_(0, station, at::ones_like(values));
  return {nearest, station, total / count.clamp_min(1)};
}

Instance cloud_composite_case(const Options& o) {
  const int64_t scenes = o.integer("scenes"), height = o.integer("height"),
                width = o.integer("width"), pixels = height * width;
  Draw draw(o);
  const at::Tensor reflectance = draw.integers({scenes, 2, height, width}, 10000, at::kShort);
  const at::Tensor quality = draw.integers({scenes, height, width}, 64, at::kByte);
  return bounded(instance_of(cloud_composite, reflectance, quality),
                 (2 * 2 + 1) * scenes * pixels + (4 + 2 * 2 + 1) * pixels, 12 * scenes * pixels);
}

Instance hillshade_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width");
  const at::Tensor rough = Draw(o).normal({height, width}) * 3;
  return bounded(instance_of(hillshade, rough.cumsum(0).cumsum(1) * 0.1), 4 * 3 * height * width,
                 (5 * kFunction + 27) * height * width);
}

Instance nearest_station_case(const Options& o) {
  const int64_t points = o.integer("points"), stations = o.integer("stations");
  Draw draw(o);
  const auto places = [&](int64_t count) {
    const at::Tensor latitude = draw.uniform({count, 1}, -60, 60);
    return at::cat({latitude, draw.uniform({count, 1}, -180, 180)}, 1);
  };
  const at::Tensor from = places(points), to = places(stations);
  return bounded(instance_of(nearest_station, from, draw.normal({points}), to),
                 4 * 3 * points + 4 * 3 * stations + (4 + 8) * points,
                 (3 * kFunction + 14) * points * stations);
}

std::vector<Axis> raster_axes(const char* height, const char* width) {
  return {{"height", height, "19", "rows"}, {"width", width, "18", "columns"}};
}

}  // namespace

std::vector<Workload> geospatial_cases() {
  std::vector<Axis> scenes = raster_axes("512", "512");
  scenes.insert(scenes.begin(), {"scenes", "7", "5", "scenes"});
  return {
      {"cloud_composite_f32", "the median and mean of scenes' clear pixels", scenes,
       cloud_composite_case},
      {"hillshade_f32", "slopes and shades of a terrain", raster_axes("512", "512"), hillshade_case,
       kTails},
      {"nearest_station_f32",
       "the nearest station on the globe, and means by station",
       {{"points", "512", "131", "points"}, {"stations", "48", "7", "stations"}},
       nearest_station_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
