// Detection: boxes, anchors, heads, pyramids.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

at::Tensor areas(const at::Tensor& boxes) {
  return (boxes.select(1, 2) - boxes.select(1, 0)) * (boxes.select(1, 3) - boxes.select(1, 1));
}

/// Intersection over union of each pair of boxes (A, 4) and (B, 4), corners x1 y1 x2 y2: (A, B).
at::Tensor box_iou(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor low = at::maximum(a.unsqueeze(1).slice(2, 0, 2), b.slice(1, 0, 2));
  const at::Tensor high = at::minimum(a.unsqueeze(1).slice(2, 2, 4), b.slice(1, 2, 4));
  const at::Tensor size = (high - low).clamp_min(0);
  const at::Tensor common = size.select(2, 0) * size.select(2, 1);
  return common / (areas(a).unsqueeze(1) + areas(b) - common);
}

/// A region proposal network's targets: for each anchor the class of the box that it overlaps most,
/// 0 where by at most a half, and that box relative to the anchor.
std::tuple<at::Tensor, at::Tensor> anchor_match(const at::Tensor& anchors, const at::Tensor& boxes,
                                                const at::Tensor& classes) {
  const auto [overlap, best] = box_iou(anchors, boxes).max(1);
  const at::Tensor label = at::where(overlap > 0.5, classes.index_select(0, best) + 1, 0);
  const at::Tensor matched = boxes.index_select(0, best);
  const at::Tensor size = anchors.slice(1, 2) - anchors.slice(1, 0, 2);
  const at::Tensor matched_size = matched.slice(1, 2) - matched.slice(1, 0, 2);
  const at::Tensor centre = anchors.slice(1, 0, 2) + size / 2;
  const at::Tensor matched_centre = matched.slice(1, 0, 2) + matched_size / 2;
  const at::Tensor offsets =
      at::cat({(matched_centre - centre) / size * 10, (matched_size / size).log() * 5}, 1);
  return {label, offsets};
}

/// YOLOv5's head at stride 8: x (B, A (5 + C), H, W), anchors (A, 2), grid (H, W, 2) to boxes,
/// confidences and classes (B, A H W, 5 + C).
at::Tensor yolo_decode(const at::Tensor& x, const at::Tensor& anchors, const at::Tensor& grid) {
  const int64_t batch = x.size(0), count = anchors.size(0), outputs = x.size(1) / count;
  const at::Tensor y = x.view({batch, count, outputs, x.size(2), x.size(3)})
                           .permute({0, 1, 3, 4, 2})
                           .contiguous()
                           .sigmoid();
  const at::Tensor centre = (y.slice(-1, 0, 2) * 2 - 0.5 + grid) * 8;
  const at::Tensor size = (y.slice(-1, 2, 4) * 2).square() * anchors.view({count, 1, 1, 2});
  return at::cat({centre, size, y.slice(-1, 4)}, -1).view({batch, -1, outputs});
}

/// A feature pyramid's merge: the coarse level (B, C, H, W) at twice its size, added to the fine
/// one.
at::Tensor pyramid_merge(const at::Tensor& fine, const at::Tensor& coarse) {
  return fine + at::upsample_nearest2d(coarse, {fine.size(2), fine.size(3)});
}

/// The largest of each 2 x 2 pixels of (B, C, H, W), by views.
at::Tensor max_pool(const at::Tensor& x) {
  return x.view({x.size(0), x.size(1), x.size(2) / 2, 2, x.size(3) / 2, 2}).amax({3, 5});
}

/// What stands between a ResNet's first convolution and its first block.
at::Tensor stem(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift) {
  const at::Tensor y = at::relu(x * scale.view({-1, 1, 1}) + shift.view({-1, 1, 1}));
  return at::max_pool2d(y, {3, 3}, {2, 2}, {1, 1});
}

/// Features less their local mean, over their local deviation.
at::Tensor local_contrast(const at::Tensor& x) {
  const at::Tensor mean = at::avg_pool2d(x, {5, 5}, {1, 1}, {2, 2}),
                   square = at::avg_pool2d(x * x, {5, 5}, {1, 1}, {2, 2});
  return (x - mean) / (square - mean * mean + 1e-4).sqrt();
}

at::Tensor some_boxes(Draw& draw, int64_t count) {
  const at::Tensor corner = draw.uniform({count, 2}, 0, 600),
                   size = draw.uniform({count, 2}, 8, 200);
  return at::cat({corner, corner + size}, 1);
}

Instance box_iou_case(const Options& o) {
  const int64_t a = o.integer("anchors"), b = o.integer("boxes");
  Draw draw(o);
  const at::Tensor anchors = some_boxes(draw, a), boxes = some_boxes(draw, b);
  return bounded(instance_of(box_iou, anchors, boxes), 4 * (4 * a + 4 * b + a * b), 12 * a * b);
}

Instance anchor_match_case(const Options& o) {
  const int64_t a = o.integer("anchors"), b = o.integer("boxes");
  Draw draw(o);
  const at::Tensor anchors = some_boxes(draw, a), boxes = some_boxes(draw, b);
  const at::Tensor classes = draw.integers({b}, 80);
  // anchors, boxes, classes; labels and offsets
  return bounded(instance_of(anchor_match, anchors, boxes, classes),
                 16 * a + 16 * b + 8 * b + 8 * a + 16 * a, 13 * a * b);
}

Instance yolo_decode_case(const Options& o) {
  const int64_t batch = o.integer("batch"), side = o.integer("side"),
                outputs = 5 + o.integer("classes"), anchors = 3;
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, anchors * outputs, side, side});
  const at::Tensor steps = at::arange(side, at::kFloat);
  const at::Tensor grid = at::stack(
      {steps.unsqueeze(0).expand({side, side}), steps.unsqueeze(1).expand({side, side})}, -1);
  const int64_t count = x.numel();
  return bounded(instance_of(yolo_decode, x, draw.uniform({anchors, 2}, 8, 64), grid),
                 4 * (2 * count + 2 * side * side), (kFunction + 2) * count);
}

Instance pyramid_merge_case(const Options& o) {
  const int64_t batch = o.integer("batch"), channels = o.integer("channels"),
                side = o.integer("side");
  Draw draw(o);
  const at::Tensor fine = draw.normal({batch, channels, 2 * side, 2 * side});
  const at::Tensor coarse = draw.normal({batch, channels, side, side});
  return bounded(instance_of(pyramid_merge, fine, coarse), 4 * (2 * fine.numel() + coarse.numel()),
                 fine.numel());
}

Instance max_pool_case(const Options& o) {
  const int64_t side = 2 * o.integer("side");
  const at::Tensor x = Draw(o).normal({o.integer("batch"), o.integer("channels"), side, side});
  return bounded(instance_of(max_pool, x), 5 * x.numel(), x.numel() * 3 / 4);
}

Instance stem_case(const Options& o) {
  const int64_t channels = o.integer("channels"), side = 2 * o.integer("side");
  Draw draw(o);
  const at::Tensor x = draw.normal({o.integer("batch"), channels, side, side});
  const at::Tensor scale = draw.uniform({channels}, 0.5, 2), shift = draw.normal({channels});
  return bounded(instance_of(stem, x, scale, shift), 5 * x.numel(), x.numel() * 21 / 4);
}

Instance local_contrast_case(const Options& o) {
  const int64_t side = o.integer("side");
  const at::Tensor x = Draw(o).normal({o.integer("batch"), o.integer("channels"), side, side});
  return bounded(instance_of(local_contrast, x), 8 * x.numel(), 58 * x.numel());
}

}  // namespace

std::vector<Workload> vision_cases() {
  return {
      {"box_iou_f32",
       "intersection over union of all pairs of boxes",
       {{"anchors", "8192", "67", "boxes"}, {"boxes", "512", "9", "boxes they are paired with"}},
       box_iou_case},
      {"anchor_match_f32",
       "the box that each anchor overlaps most, as class and offsets",
       {{"anchors", "32768", "131", "anchors"}, {"boxes", "64", "9", "boxes of the truth"}},
       anchor_match_case},
      {"yolo_decode_f32",
       "a YOLOv5 head to boxes, confidences and classes",
       {{"batch", "4", "2", "images"},
        {"side", "64", "7", "rows and columns of the head"},
        {"classes", "80", "4", "classes"}},
       yolo_decode_case,
       kTails},
      {"pyramid_merge_f32",
       "a coarse feature level at twice its size, added to the fine one",
       {{"batch", "4", "2", "images"},
        {"channels", "128", "3", "features"},
        {"side", "48", "7", "rows and columns of the coarse level"}},
       pyramid_merge_case},
      {"max_pool_f32",
       "the largest of each 2 x 2 pixels, by views",
       {{"batch", "8", "2", "images"},
        {"channels", "64", "3", "features"},
        {"side", "56", "7", "rows and columns of the result"}},
       max_pool_case},
      {"stem_f32",
       "scale, shift and ReLU, and the largest of windows of 3 x 3 pixels, two apart",
       {{"batch", "4", "2", "images"},
        {"channels", "64", "3", "features"},
        {"side", "56", "7", "rows and columns of the result"}},
       stem_case},
      {"local_contrast_f32",
       "pixels less their neighbours' mean, over their deviation",
       {{"batch", "4", "2", "images"},
        {"channels", "3", "3", "planes"},
        {"side", "512", "14", "rows and columns"}},
       local_contrast_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
