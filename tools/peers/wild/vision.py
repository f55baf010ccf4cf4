"""Detection: boxes, anchors, heads, pyramids."""

import torch
import torch.nn.functional as F

from .draw import integers, uniform


def areas(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_iou(a, b):
    low = torch.maximum(a[:, None, :2], b[:, :2])
    high = torch.minimum(a[:, None, 2:], b[:, 2:])
    size = (high - low).clamp_min(0)
    common = size[..., 0] * size[..., 1]
    return common / (areas(a)[:, None] + areas(b) - common)


def anchor_match(anchors, boxes, classes):
    overlap, best = box_iou(anchors, boxes).max(1)
    label = torch.where(overlap > 0.5, classes[best] + 1, 0)
    matched = boxes[best]
    size = anchors[:, 2:] - anchors[:, :2]
    matched_size = matched[:, 2:] - matched[:, :2]
    centre = anchors[:, :2] + size / 2
    matched_centre = matched[:, :2] + matched_size / 2
    return label, torch.cat([(matched_centre - centre) / size * 10, (matched_size / size).log() * 5], 1)


def yolo_decode(x, anchors, grid):
    batch, channels, height, width = x.shape
    count = anchors.shape[0]
    outputs = channels // count
    y = x.view(batch, count, outputs, height, width).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
    centre = (y[..., 0:2] * 2 - 0.5 + grid) * 8
    size = (y[..., 2:4] * 2).square() * anchors.view(count, 1, 1, 2)
    return torch.cat([centre, size, y[..., 4:]], -1).view(batch, -1, outputs)


def pyramid_merge(fine, coarse):
    return fine + F.interpolate(coarse, size=fine.shape[2:], mode="nearest")


def max_pool(x):
    batch, channels, height, width = x.shape
    return x.view(batch, channels, height // 2, 2, width // 2, 2).amax((3, 5))


def some_boxes(count):
    corner, size = uniform((count, 2), 0, 600), uniform((count, 2), 8, 200)
    return torch.cat([corner, corner + size], 1)


def box_iou_case(anchors=8192, boxes=512):
    return box_iou, (some_boxes(anchors), some_boxes(boxes))


def anchor_match_case(anchors=32768, boxes=64):
    return anchor_match, (some_boxes(anchors), some_boxes(boxes), integers((boxes,), 80))


def yolo_decode_case(batch=4, side=64, classes=80):
    x = torch.randn(batch, 3 * (5 + classes), side, side)
    steps = torch.arange(side).float()
    grid = torch.stack([steps[None, :].expand(side, side), steps[:, None].expand(side, side)], -1)
    return yolo_decode, (x, uniform((3, 2), 8, 64), grid)


def pyramid_merge_case(batch=4, channels=128, side=48):
    return pyramid_merge, (
        torch.randn(batch, channels, 2 * side, 2 * side),
        torch.randn(batch, channels, side, side),
    )


def max_pool_case(batch=8, channels=64, side=56):
    return max_pool, (torch.randn(batch, channels, 2 * side, 2 * side),)


def stem(x, scale, shift):
    y = F.relu(x * scale.view(-1, 1, 1) + shift.view(-1, 1, 1))
    return F.max_pool2d(y, 3, 2, 1)


def stem_case(batch=4, channels=64, side=56):
    x = torch.randn(batch, channels, 2 * side, 2 * side)
    return stem, (x, uniform((channels,), 0.5, 2), torch.randn(channels))


def local_contrast(x):
    mean = F.avg_pool2d(x, 5, 1, 2)
    square = F.avg_pool2d(x * x, 5, 1, 2)
    return (x - mean) / (square - mean * mean + 1e-4).sqrt()


def local_contrast_case(batch=4, channels=3, side=512):
    return local_contrast, (torch.randn(batch, channels, side, side),)


CASES = {
    "box_iou_f32": (box_iou_case, {}),
    "anchor_match_f32": (anchor_match_case, {}),
    "yolo_decode_f32": (yolo_decode_case, {}),
    "pyramid_merge_f32": (pyramid_merge_case, {}),
    "max_pool_f32": (max_pool_case, {}),
    "stem_f32": (stem_case, {}),
    "local_contrast_f32": (local_contrast_case, {}),
}
