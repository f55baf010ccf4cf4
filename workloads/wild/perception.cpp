// Vision after the network, images, and sound: poses, rays, splats, windows, thresholds, pitch.

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>
#include <optional>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {

std::vector<Workload> perception_cases();

namespace {

/// HRNet's test with a mirrored image, read by soft-argmax: heat maps (B, J, H, W) of the image and
/// of its mirror image, and each joint's partner (J), to joints (B, J, 2), x y, and confidences.
std::tuple<at::Tensor, at::Tensor> pose_decode(const at::Tensor& heat, const at::Tensor& mirrored,
                                               const at::Tensor& partner) {
  const at::Tensor back = mirrored.flip({-1}).index_select(1, partner);
  back.slice(-1, 1).copy_(back.slice(-1, 0, -1).clone());  // the maps lie one pixel apart
  const at::Tensor mean = (heat + back) * 0.5;
  const at::Tensor p = at::softmax(mean.flatten(2) * 10, -1).view(mean.sizes());
  const at::Tensor x = (p.sum(2) * at::arange(heat.size(3), heat.options())).sum(-1);
  const at::Tensor y = (p.sum(3) * at::arange(heat.size(2), heat.options())).sum(-1);
  return {at::stack({x, y}, -1), mean.amax({2, 3})};
}

/// NeRF's rendering: densities (R, S), raw colours (R, S, 3) and depths (R, S) of rays' samples to
/// colours before white (R, 3), depths, disparities and opacities (R).
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> volume_render(const at::Tensor& density,
                                                                         const at::Tensor& colour,
                                                                         const at::Tensor& t) {
  const at::Tensor step =
      at::cat({t.slice(1, 1) - t.slice(1, 0, -1), at::full_like(t.slice(1, 0, 1), 1e10)}, 1);
  const at::Tensor alpha = 1 - (-at::relu(density) * step).exp();
  const at::Tensor passed =
      at::cat({at::ones_like(alpha.slice(1, 0, 1)), 1 - alpha + 1e-10}, 1).cumprod(1);
  const at::Tensor weight = alpha * passed.slice(1, 0, -1);
  const at::Tensor opacity = weight.sum(1), depth = (weight * t).sum(1);
  const at::Tensor rgb = (weight.unsqueeze(-1) * colour.sigmoid()).sum(1);
  const at::Tensor disparity = 1 / (depth / opacity.clamp_min(1e-10)).clamp_min(1e-10);
  return {rgb + (1 - opacity).unsqueeze(-1), depth, disparity, opacity};
}

/// Gaussian splatting's projection: centres, logarithms of scales (N, 3) and quaternions (N, 4) of
/// Gaussians, seen by a camera (3, 4), to pixels (N, 2), inverse covariances (N, 3) and radii (N).
std::tuple<at::Tensor, at::Tensor, at::Tensor> splat_project(const at::Tensor& centres,
                                                             const at::Tensor& scales,
                                                             const at::Tensor& quaternions,
                                                             const at::Tensor& camera) {
  constexpr double kFocal = 600;
  const auto q = (quaternions / quaternions.norm(2, 1, /*keepdim=*/true)).unbind(1);
  const at::Tensor &w = q[0], &x = q[1], &y = q[2], &z = q[3];
  const at::Tensor rotation =
      at::stack({1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
                 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)},
                1)
          .view({-1, 3, 3});
  const at::Tensor m = rotation * scales.exp().unsqueeze(1);
  const at::Tensor covariance = at::bmm(m, m.transpose(1, 2));
  const at::Tensor turn = camera.slice(1, 0, 3);
  const at::Tensor seen = at::matmul(centres, turn.t()) + camera.select(1, 3);
  const at::Tensor inverse = 1 / seen.select(1, 2), flat = seen.slice(1, 0, 2);
  const at::Tensor jacobian = at::zeros({centres.size(0), 2, 3}, centres.options());
  jacobian.select(1, 0).select(1, 0).copy_(kFocal * inverse);
  jacobian.select(1, 1).select(1, 1).copy_(kFocal * inverse);
  jacobian.select(2, 2).copy_(-kFocal * flat * inverse.square().unsqueeze(1));
  const at::Tensor k = at::matmul(jacobian, turn);
  const at::Tensor c = at::bmm(at::bmm(k, covariance), k.transpose(1, 2));
  const at::Tensor xx = c.select(1, 0).select(1, 0) + 0.3, xy = c.select(1, 0).select(1, 1),
                   yy = c.select(1, 1).select(1, 1) + 0.3;
  const at::Tensor area = xx * yy - xy * xy, middle = 0.5 * (xx + yy);
  const at::Tensor largest = middle + (middle * middle - area).clamp_min(0.1).sqrt();
  const at::Tensor conic = at::stack({yy, -xy, xx}, 1) / area.unsqueeze(1);
  return {kFocal * flat * inverse.unsqueeze(1), conic, 3 * largest.sqrt()};
}

/// Harris's corners of (H, W): the `count` strongest that are the largest of 5 x 5 pixels, with
/// their rows and columns (count, 2). Kernels (2, 1, 3, 3) for the gradient, a window (1, 1, 5, 5).
std::tuple<at::Tensor, at::Tensor> harris(const at::Tensor& image, const at::Tensor& kernels,
                                          const at::Tensor& window, int64_t count) {
  const int64_t width = image.size(1);
  const at::Tensor padded = at::replication_pad2d(image.unsqueeze(0).unsqueeze(0), {1, 1, 1, 1});
  const at::Tensor gradient = at::conv2d(padded, kernels);
  const at::Tensor gx = gradient.slice(1, 0, 1), gy = gradient.slice(1, 1, 2);
  const at::Tensor products = at::cat({gx * gx, gy * gy, gx * gy}, 1);
  const auto s =
      at::conv2d(products, window.expand({3, 1, 5, 5}), {}, {1, 1}, {2, 2}, {1, 1}, 3).split(1, 1);
  const at::Tensor trace = s[0] + s[1];
  const at::Tensor response = s[0] * s[1] - s[2] * s[2] - 0.05 * trace * trace;
  const at::Tensor peak = response == at::max_pool2d(response, {5, 5}, {1, 1}, {2, 2});
  const at::Tensor kept = at::where(peak.logical_and(response > 0), response, 0).flatten();
  const auto [score, index] = kept.topk(count);
  return {score, at::stack({at::floor_divide(index, width), at::remainder(index, width)}, 1)};
}

/// Deformable DETR's sampling: queries on a grid of `side` x `side` read two levels (N, D, H, W) at
/// offsets (N, Q, 2, P, 2) in pixels, weighted by a softmax of scores (N, Q, 2 P), to (N, Q, D).
at::Tensor deformable_attention(const at::Tensor& fine, const at::Tensor& coarse,
                                const at::Tensor& offsets, const at::Tensor& scores, int64_t side) {
  const double half = 0.5 / static_cast<double>(side);
  const at::Tensor line = at::linspace(half, 1 - half, side, fine.options());
  const auto grid = at::meshgrid({line, line}, "ij");
  const at::Tensor reference =
      at::stack({grid[1].flatten(), grid[0].flatten()}, -1).view({1, -1, 1, 1, 2});
  const at::Tensor sizes = at::tensor({fine.size(3), fine.size(2), coarse.size(3), coarse.size(2)})
                               .to(fine.scalar_type())
                               .view({2, 1, 2});
  const at::Tensor places = 2 * (reference + offsets / sizes) - 1;
  const at::Tensor sampled = at::cat({at::grid_sampler(fine, places.select(2, 0), 0, 0, false),
                                      at::grid_sampler(coarse, places.select(2, 1), 0, 0, false)},
                                     -1);
  const at::Tensor share = at::softmax(scores, -1).unsqueeze(1);
  return (sampled * share).sum(-1).transpose(1, 2).contiguous();
}

/// Swin's shifted windows of 7 x 7: (B, H, W, C) normalised, moved by 3 and cut into windows
/// (B windows, 49, C), and the mask of pairs that were no neighbours (windows, 49, 49).
std::tuple<at::Tensor, at::Tensor> shifted_windows(const at::Tensor& x, const at::Tensor& weight,
                                                   const at::Tensor& bias) {
  const int64_t down = x.size(1) / 7, across = x.size(2) / 7, channels = x.size(3);
  const at::Tensor y =
      at::roll(at::layer_norm(x, {channels}, weight, bias, 1e-5), {-3, -3}, {1, 2});
  const at::Tensor windows = y.view({-1, down, 7, across, 7, channels})
                                 .permute({0, 1, 3, 2, 4, 5})
                                 .reshape({-1, 49, channels});
  const at::Tensor region = at::zeros({7 * down, 7 * across}, at::kFloat);
  const int64_t rows[] = {0, 7 * down - 7, 7 * down - 3, 7 * down};
  const int64_t columns[] = {0, 7 * across - 7, 7 * across - 3, 7 * across};
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j)
      region.slice(0, rows[i], rows[i + 1]).slice(1, columns[j], columns[j + 1]).fill_(3 * i + j);
  const at::Tensor label =
      region.view({down, 7, across, 7}).permute({0, 2, 1, 3}).reshape({-1, 49});
  const at::Tensor apart = label.unsqueeze(1) - label.unsqueeze(2);
  return {windows, apart.masked_fill(apart != 0, -100.0)};
}

/// The end of a super-resolution network (RCAN's): features (B, C, H, W) times their channels'
/// gates, a skip connection, and pixels at twice the size, (B, C / 4, 2 H, 2 W).
at::Tensor gated_upscale(const at::Tensor& body, const at::Tensor& skip, const at::Tensor& down,
                         const at::Tensor& down_bias, const at::Tensor& up,
                         const at::Tensor& up_bias) {
  const at::Tensor hidden = at::relu(at::linear(body.mean({2, 3}), down, down_bias));
  const at::Tensor gate = at::linear(hidden, up, up_bias).sigmoid();
  const at::Tensor y = body * gate.unsqueeze(-1).unsqueeze(-1) + skip;
  return at::pixel_shuffle(y, 2);
}

/// YIN: frames of two windows each of signals (B, N) at 16 kHz to pitches, 0 where there is none,
/// and confidences (B, T).
std::tuple<at::Tensor, at::Tensor> yin(const at::Tensor& signal, int64_t window) {
  constexpr int64_t kShortest = 20;
  const at::Tensor frames = signal.unfold(-1, 2 * window, window);
  const at::Tensor lagged = frames.unfold(-1, window, 1).slice(2, 0, window);
  const at::Tensor difference = (lagged - lagged.slice(2, 0, 1)).square().sum(-1).slice(-1, 1);
  const at::Tensor lags = at::arange(1, window, signal.options());
  const at::Tensor mean = difference.cumsum(-1).clamp_min(1e-8);
  const at::Tensor d = at::constant_pad_nd(difference * lags / mean, {1, 0}, 1);
  const at::Tensor best =
      (d.slice(-1, kShortest).argmin(-1, /*keepdim=*/true) + kShortest).clamp_max(window - 2);
  const at::Tensor before = d.gather(-1, best - 1), here = d.gather(-1, best),
                   after = d.gather(-1, best + 1);
  const at::Tensor shift = (before - after) / (2 * (before - 2 * here + after));
  const at::Tensor pitch = 16000 / (best + shift.clamp(-1, 1));
  return {at::where(here < 0.3, pitch, 0).squeeze(-1), (1 - here).squeeze(-1)};
}

/// A vocoder's loss: spectral convergence and logarithmic distance of signals (B, N) at three
/// resolutions.
at::Tensor spectral_loss(const at::Tensor& made, const at::Tensor& wanted, int64_t longest) {
  at::Tensor loss = at::zeros({}, made.options());
  for (const int64_t size : {longest, longest / 2, longest / 4}) {
    const at::Tensor window = at::hann_window(size, made.options());
    const auto magnitude = [&](const at::Tensor& x) {
      return at::stft(x, size, size / 4, size, window, /*center=*/true, "reflect",
                      /*normalized=*/false, /*onesided=*/true, /*return_complex=*/true)
          .abs()
          .clamp_min(1e-5);
    };
    const at::Tensor a = magnitude(made), b = magnitude(wanted);
    loss += (b - a).norm() / b.norm() + (b.log() - a.log()).abs().mean();
  }
  return loss / 3;
}

/// A picture for an e-paper display: bytes (H, W, 3) to black and white by ordered dithering with
/// Bayer's matrix (8, 8), eight pixels to a byte (H, W / 8).
at::Tensor dither(const at::Tensor& image, const at::Tensor& bayer) {
  const int64_t height = image.size(0), width = image.size(1);
  const auto c = image.to(at::kInt).unbind(2);
  const at::Tensor luma = at::bitwise_right_shift(77 * c[0] + 150 * c[1] + 29 * c[2], 8);
  const at::Tensor threshold = (bayer.to(at::kInt) * 4 + 2).repeat({height / 8, width / 8});
  const at::Tensor bits = (luma > threshold).view({height, width / 8, 8});
  const at::Tensor places =
      at::bitwise_left_shift(at::ones({8}, at::kInt), at::arange(7, -1, -1, at::kInt));
  return (bits * places).sum(-1).to(at::kByte);
}

/// sRGB planes (N, 3, H, W) to CIE Lab, by the matrix to XYZ (3, 3).
at::Tensor to_lab(const at::Tensor& image, const at::Tensor& matrix) {
  const at::Tensor linear =
      at::where(image <= 0.04045, image / 12.92, ((image + 0.055) / 1.055).pow(2.4));
  const at::Tensor white = at::tensor({0.95047, 1.0, 1.08883}, image.options()).view({3, 1, 1});
  const at::Tensor xyz = at::einsum("dc,nchw->ndhw", {matrix, linear}) / white;
  const at::Tensor f =
      at::where(xyz > 0.008856, xyz.clamp_min(1e-6).pow(1.0 / 3), 7.787 * xyz + 16.0 / 116);
  const auto part = f.unbind(1);
  return at::stack({116 * part[1] - 16, 500 * (part[0] - part[1]), 200 * (part[1] - part[2])}, 1);
}

/// How far apart two images' colours are (CIE 1976), at each pixel and on average.
std::tuple<at::Tensor, at::Tensor> colour_difference(const at::Tensor& a, const at::Tensor& b,
                                                     const at::Tensor& matrix) {
  const at::Tensor distance = (to_lab(a, matrix) - to_lab(b, matrix)).square().sum(1).sqrt();
  return {distance, distance.mean({1, 2})};
}

/// A bilateral filter of 5 x 5 pixels of colour images (N, C, H, W), which keeps edges.
at::Tensor bilateral(const at::Tensor& x) {
  const at::Tensor patches = at::reflection_pad2d(x, {2, 2, 2, 2}).unfold(2, 5, 1).unfold(3, 5, 1);
  const at::Tensor line = at::linspace(-2, 2, 5, x.options());
  const auto grid = at::meshgrid({line, line}, "ij");
  const at::Tensor near = (-(grid[0].square() + grid[1].square()) / (2 * 1.5 * 1.5)).exp();
  const at::Tensor difference = patches - x.unsqueeze(-1).unsqueeze(-1);
  const at::Tensor alike = (-difference.square().sum(1, /*keepdim=*/true) / (2 * 0.2 * 0.2)).exp();
  const at::Tensor weight = alike * near;
  return (patches * weight).sum({-2, -1}) / weight.sum({-2, -1});
}

/// An image (C, H, W) with another's colours: each plane's values are replaced, in their order, by
/// the other's (C, H', W'), by four fifths.
at::Tensor match_histogram(const at::Tensor& image, const at::Tensor& other) {
  const at::Tensor values = image.flatten(1);
  const int64_t count = values.size(1), last = other.size(1) * other.size(2) - 1;
  // Stable; a plain `true` would be taken for a dimension.
  const at::Tensor order = std::get<1>(at::sort(values, std::optional<bool>(true), 1));
  const at::Tensor sorted = std::get<0>(other.flatten(1).sort(1));
  const at::Tensor place = at::linspace(0, last, count, image.options());
  const at::Tensor low = place.floor().to(at::kLong).clamp(0, last);
  const at::Tensor high = (low + 1).clamp_max(last);
  const at::Tensor quantiles =
      at::lerp(sorted.index_select(1, low), sorted.index_select(1, high), place - low);
  const at::Tensor matched = at::empty_like(values).scatter_(1, order, quantiles);
  return at::lerp(values, matched, 0.8).view(image.sizes());
}

/// Bradley's threshold of a byte image (H, W): 255 where a pixel exceeds 85 % of the mean of the
/// window around it, by an integral image.
at::Tensor adaptive_threshold(const at::Tensor& image, int64_t radius) {
  const int64_t height = image.size(0), width = image.size(1);
  const at::Tensor level = image.to(at::kInt);
  const at::Tensor integral =
      at::constant_pad_nd(level.cumsum(0, at::kInt).cumsum(1, at::kInt), {1, 0, 1, 0});
  const at::Tensor row = at::arange(height, at::kLong), column = at::arange(width, at::kLong);
  const at::Tensor top = (row - radius).clamp_min(0), bottom = (row + radius + 1).clamp_max(height),
                   left = (column - radius).clamp_min(0),
                   right = (column + radius + 1).clamp_max(width);
  const at::Tensor band = integral.index_select(0, bottom) - integral.index_select(0, top);
  const at::Tensor sum = band.index_select(1, right) - band.index_select(1, left);
  const at::Tensor area = (bottom - top).unsqueeze(1) * (right - left);
  return at::where(level * area * 100 > sum.to(at::kLong) * 85, 255, 0).to(at::kByte);
}

Instance pose_decode_case(const Options& o) {
  const int64_t batch = o.integer("batch"), joints = 17, height = o.integer("height"),
                width = o.integer("width");
  Draw draw(o);
  const at::Tensor heat = draw.uniform({batch, joints, height, width}),
                   mirrored = draw.uniform({batch, joints, height, width});
  const at::Tensor partner =
      at::tensor({0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15}, at::kLong);
  return bounded(instance_of(pose_decode, heat, mirrored, partner),
                 4 * (2 * heat.numel() + 3 * batch * joints) + 8 * joints,
                 (kFunction + 9) * heat.numel());
}

Instance volume_render_case(const Options& o) {
  const int64_t rays = o.integer("rays"), samples = o.integer("samples"), count = rays * samples;
  Draw draw(o);
  const at::Tensor density = draw.normal({rays, samples}) * 2 + 1,
                   colour = draw.normal({rays, samples, 3});
  const at::Tensor t = std::get<0>(draw.uniform({rays, samples}, 2, 6).sort(1));
  return bounded(instance_of(volume_render, density, colour, t), 4 * (5 * count + 6 * rays),
                 (4 * kFunction + 24) * count);
}

Instance splat_project_case(const Options& o) {
  const int64_t count = o.integer("gaussians");
  Draw draw(o);
  const at::Tensor centres = draw.uniform({count, 3}, -1, 1),
                   scales = draw.uniform({count, 3}, -5, -4), quaternions = draw.normal({count, 4});
  const double c = std::cos(0.3), s = std::sin(0.3);
  const at::Tensor camera =
      at::tensor({c, 0.0, s, 0.1, 0.0, 1.0, 0.0, -0.2, -s, 0.0, c, 6.0}, at::kFloat).view({3, 4});
  return bounded(instance_of(splat_project, centres, scales, quaternions, camera),
                 4 * (16 * count + 12), (3 * kFunction + 230) * count);
}

Instance harris_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"),
                corners = o.integer("corners"), pixels = height * width;
  const at::Tensor across =
      at::tensor({-3.f, 0.f, 3.f, -10.f, 0.f, 10.f, -3.f, 0.f, 3.f}).view({1, 3, 3}) / 32;
  const at::Tensor kernels = at::stack({across, across.transpose(1, 2)}).contiguous();
  const at::Tensor line = at::tensor({1.f, 4.f, 6.f, 4.f, 1.f}) / 16;
  const at::Tensor window = at::outer(line, line).view({1, 1, 5, 5});
  return bounded(instance_of(harris, Draw(o).uniform({height, width}), kernels, window, corners),
                 4 * (pixels + 18 + 25) + (4 + 16) * corners,
                 (2 * 18 + 3 + 3 * 50 + 7 + 25 + 3) * pixels);
}

Instance deformable_attention_case(const Options& o) {
  const int64_t heads = o.integer("heads"), width = o.integer("width"), side = o.integer("side"),
                points = o.integer("points"), queries = side * side;
  Draw draw(o);
  const at::Tensor fine = draw.normal({heads, width, 2 * side, 2 * side}),
                   coarse = draw.normal({heads, width, side, side});
  const at::Tensor offsets = draw.normal({heads, queries, 2, points, 2}) * 2;
  const at::Tensor scores = draw.normal({heads, queries, 2 * points});
  const int64_t places = heads * queries * 2 * points;
  return bounded(instance_of(deformable_attention, fine, coarse, offsets, scores, side),
                 4 * (fine.numel() + coarse.numel() + 3 * places + heads * queries * width),
                 places * (20 + kFunction + 9 * width));
}

Instance shifted_windows_case(const Options& o) {
  const int64_t batch = o.integer("batch"), side = 7 * o.integer("windows"),
                channels = o.integer("channels");
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, side, side, channels}, at::kBFloat16);
  const at::Tensor weight = draw.uniform({channels}, 0.5, 2).to(at::kBFloat16),
                   bias = draw.normal({channels}, at::kBFloat16);
  return bounded(instance_of(shifted_windows, x, weight, bias),
                 2 * (2 * x.numel() + 2 * channels) + 4 * side * side * 49, 8 * x.numel());
}

Instance gated_upscale_case(const Options& o) {
  const int64_t batch = o.integer("batch"), channels = 4 * o.integer("channels"),
                side = o.integer("side"), hidden = o.integer("hidden");
  Draw draw(o);
  const auto normal = [&](at::IntArrayRef sizes) { return draw.normal(sizes, at::kBFloat16); };
  const at::Tensor body = normal({batch, channels, side, side}),
                   skip = normal({batch, channels, side, side});
  const at::Tensor down = normal({hidden, channels}), down_bias = normal({hidden}),
                   up = normal({channels, hidden}), up_bias = normal({channels});
  return bounded(instance_of(gated_upscale, body, skip, down, down_bias, up, up_bias),
                 2 * (3 * body.numel() + 2 * hidden * channels + hidden + channels),
                 3 * body.numel() + 4 * batch * hidden * channels);
}

Instance yin_case(const Options& o) {
  const int64_t batch = o.integer("batch"), window = o.integer("window"),
                frames = o.integer("frames"), samples = (frames + 1) * window;
  Draw draw(o);
  const at::Tensor period = draw.uniform({batch, 1}, 25, 0.8 * static_cast<double>(window));
  const at::Tensor phase = 2 * std::numbers::pi * at::arange(samples, at::kFloat) / period;
  const at::Tensor signal =
      phase.sin() + 0.5 * (2 * phase).sin() + 0.1 * draw.normal({batch, samples});
  return bounded(instance_of(yin, signal, window), 4 * batch * (samples + 2 * frames),
                 batch * frames * (3 * window * window + 5 * window));
}

Instance spectral_loss_case(const Options& o) {
  const int64_t batch = o.integer("batch"), samples = o.integer("samples"),
                window = o.integer("window");
  Draw draw(o);
  const at::Tensor wanted = draw.normal({batch, samples});
  const at::Tensor made = wanted + 0.3 * draw.normal({batch, samples});
  // Of each sample, four frames at each resolution: real transforms, half as many magnitudes.
  const int64_t transform = static_cast<int64_t>(2.5 * std::log2(static_cast<double>(window)));
  return bounded(instance_of(spectral_loss, made, wanted, window), 4 * (2 * batch * samples + 1),
                 2 * batch * samples * 3 * 4 * (transform + (kFunction + 8) / 2));
}

Instance dither_case(const Options& o) {
  const int64_t height = 8 * o.integer("tall"), width = 8 * o.integer("wide"),
                pixels = height * width;
  const at::Tensor image = Draw(o).integers({height, width, 3}, 256, at::kByte);
  at::Tensor bayer = at::zeros({1, 1}, at::kLong);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = 4 * bayer;
    bayer = at::cat({at::cat({x, x + 2}, 1), at::cat({x + 3, x + 1}, 1)}, 0);
  }
  return bounded(instance_of(dither, image, bayer.to(at::kByte)), 3 * pixels + pixels / 8 + 64,
                 9 * pixels);
}

Instance colour_difference_case(const Options& o) {
  const int64_t images = o.integer("images"), height = o.integer("height"),
                width = o.integer("width"), pixels = images * height * width;
  Draw draw(o);
  const at::Tensor a = draw.uniform({images, 3, height, width}),
                   b = draw.uniform({images, 3, height, width});
  const at::Tensor matrix = at::tensor({0.4124564f, 0.3575761f, 0.1804375f, 0.2126729f, 0.7151522f,
                                        0.0721750f, 0.0193339f, 0.1191920f, 0.9503041f})
                                .view({3, 3});
  // A power is a logarithm and an exponential.
  return bounded(instance_of(colour_difference, a, b, matrix), 4 * (7 * pixels + 9 + images),
                 (2 * (3 * 4 * kFunction + 3 * 9 + 15 + 6) + 10) * pixels);
}

Instance bilateral_case(const Options& o) {
  const int64_t images = o.integer("images"), height = o.integer("height"),
                width = o.integer("width");
  const at::Tensor x = Draw(o).uniform({images, 3, height, width});
  return bounded(instance_of(bilateral, x), 8 * x.numel(),
                 images * height * width * 25 * (kFunction + 3 + 3 * 5));
}

Instance match_histogram_case(const Options& o) {
  const int64_t side = o.integer("side"), other = o.integer("other");
  Draw draw(o);
  const at::Tensor image = draw.uniform({3, side, side}),
                   wanted = draw.normal({3, other, other}) * 0.2 + 0.5;
  const auto steps = [](int64_t n) {
    return static_cast<int64_t>(std::log2(static_cast<double>(n)));
  };
  return bounded(instance_of(match_histogram, image, wanted),
                 4 * (2 * image.numel() + wanted.numel()),
                 image.numel() * (steps(side * side) + 6) + wanted.numel() * steps(other * other));
}

Instance adaptive_threshold_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width");
  const at::Tensor image = Draw(o).integers({height, width}, 256, at::kByte);
  return bounded(instance_of(adaptive_threshold, image, o.integer("radius")), 2 * height * width,
                 10 * height * width);
}

std::vector<Axis> picture_axes(const char* height, const char* width) {
  return {{"height", height, "37", "rows of pixels"}, {"width", width, "53", "pixels of a row"}};
}

std::vector<Axis> pictures_axes(const char* images, const char* height, const char* width) {
  std::vector<Axis> axes = picture_axes(height, width);
  axes.insert(axes.begin(), {"images", images, "2", "images"});
  return axes;
}

}  // namespace

std::vector<Workload> perception_cases() {
  std::vector<Axis> cornered = picture_axes("512", "512");
  cornered.push_back({"corners", "64", "7", "corners"});
  std::vector<Axis> windowed = picture_axes("720", "1280");
  windowed.push_back({"radius", "7", "3", "of the window"});
  return {
      {"pose_decode_f32",
       "heat maps of an image and its mirror image to joints",
       {{"batch", "32", "2", "people"},
        {"height", "64", "13", "rows of a map"},
        {"width", "48", "11", "columns of a map"}},
       pose_decode_case,
       kSums},
      {"volume_render_f32",
       "NeRF's rays, rendered from their samples",
       {{"rays", "8192", "37", "rays"}, {"samples", "64", "13", "of a ray"}},
       volume_render_case,
       kSums},
      {"splat_project_f32",
       "Gaussians in space to ellipses in a camera's image",
       {{"gaussians", "65536", "131", "Gaussians"}},
       splat_project_case,
       kSums},
      {"harris_f32", "an image's strongest corners", cornered, harris_case, kSums},
      {"deformable_attention_f32",
       "two feature levels read at offsets around queries",
       {{"heads", "8", "2", "heads of all images"},
        {"width", "32", "5", "of a head"},
        {"side", "32", "7", "rows and columns of queries"},
        {"points", "4", "3", "of a query at a level"}},
       deformable_attention_case,
       kSums},
      {"shifted_windows_bf16",
       "layer norm, shifted windows of 7 x 7 and their mask",
       {{"batch", "16", "2", "images"},
        {"windows", "8", "2", "down and across"},
        {"channels", "96", "13", "features"}},
       shifted_windows_case,
       kSums},
      {"gated_upscale_bf16",
       "channels times their gates, a skip connection, pixels at twice the size",
       {{"batch", "4", "2", "images"},
        {"channels", "16", "3", "features of the result"},
        {"side", "128", "11", "rows and columns"},
        {"hidden", "16", "5", "features between"}},
       gated_upscale_case,
       kSums},
      {"yin_f32",
       "the pitch of signals' frames",
       {{"batch", "2", "2", "signals"},
        {"frames", "60", "5", "of a signal"},
        {"window", "256", "45", "samples that are compared"}},
       yin_case,
       kSums},
      {"spectral_loss_f32",
       "a vocoder's loss over spectra at three resolutions",
       {{"batch", "4", "2", "signals"},
        {"samples", "65536", "501", "of a signal"},
        {"window", "1024", "64", "samples of the longest"}},
       spectral_loss_case,
       kSums},
      {"dither_u8",
       "ordered dithering of colours to bits",
       {{"tall", "90", "3", "tiles of 8 pixels down"}, {"wide", "160", "5", "tiles across"}},
       dither_case},
      {"colour_difference_f32", "the distance of two images' colours in CIE Lab",
       pictures_axes("1", "512", "512"), colour_difference_case, kSums},
      {"bilateral_f32", "a bilateral filter of 5 x 5 pixels", pictures_axes("1", "192", "256"),
       bilateral_case, kSums},
      {"match_histogram_f32",
       "an image with another's colours, by sorting",
       {{"side", "224", "23", "rows and columns"}, {"other", "192", "17", "of the other image"}},
       match_histogram_case},
      {"adaptive_threshold_u8", "a threshold around each pixel by an integral image", windowed,
       adaptive_threshold_case},
  };
}

}  // namespace graft::workloads::wild
