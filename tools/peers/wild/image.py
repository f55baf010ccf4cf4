"""Image processing: filters, geometry, composition."""

import torch

from .draw import integers, uniform


def sobel(x):
    height, width = x.shape

    def at_offset(row, column):
        return x[row : height - 2 + row, column : width - 2 + column]

    across = at_offset(0, 2) + 2 * at_offset(1, 2) + at_offset(2, 2)
    across = across - at_offset(0, 0) - 2 * at_offset(1, 0) - at_offset(2, 0)
    down = at_offset(2, 0) + 2 * at_offset(2, 1) + at_offset(2, 2)
    down = down - at_offset(0, 0) - 2 * at_offset(0, 1) - at_offset(0, 2)
    return (across * across + down * down).sqrt(), torch.atan2(down, across)


def unsharp(x):
    weights = 0.0625, 0.25, 0.375, 0.25, 0.0625
    height, width = x.shape[1] - 4, x.shape[2] - 4
    down = x[:, :height] * weights[0]
    for i in range(1, 5):
        down = down + x[:, i : i + height] * weights[i]
    blurred = down[:, :, :width] * weights[0]
    for i in range(1, 5):
        blurred = blurred + down[:, :, i : i + width] * weights[i]
    centre = x[:, 2 : 2 + height, 2 : 2 + width]
    return (centre + 1.5 * (centre - blurred)).clamp(0, 1)


def letterbox(image, side):
    height, width, _ = image.shape
    longer = max(height, width)
    rows, columns = height * side // longer, width * side // longer
    row = torch.arange(rows) * height // rows
    column = torch.arange(columns) * width // columns
    canvas = torch.full((side, side, 3), 114, dtype=image.dtype)
    top, left = (side - rows) // 2, (side - columns) // 2
    canvas[top : top + rows, left : left + columns] = image.index_select(0, row).index_select(1, column)
    return canvas.permute(2, 0, 1).float().div(255).contiguous()


def warp(image, flow):
    _, height, width = image.shape
    x = torch.arange(width, dtype=flow.dtype) + flow[0]
    y = torch.arange(height, dtype=flow.dtype)[:, None] + flow[1]
    left, top = x.floor(), y.floor()
    fx, fy = x - left, y - top
    pixels = image.view(image.shape[0], -1)

    def neighbour(row, column):
        r = row.long().clamp(0, height - 1)
        c = column.long().clamp(0, width - 1)
        return pixels.index_select(1, (r * width + c).view(-1)).view(image.shape)

    upper = neighbour(top, left) * (1 - fx) + neighbour(top, left + 1) * fx
    lower = neighbour(top + 1, left) * (1 - fx) + neighbour(top + 1, left + 1) * fx
    return upper * (1 - fy) + lower * fy


def composite(front, back):
    a = front[..., 3:]
    b = back[..., 3:] * (1 - a)
    alpha = a + b
    colour = front[..., :3] * a + back[..., :3] * b
    return torch.cat([colour / alpha.clamp_min(1e-6), alpha], -1)


def sobel_case(height=2048, width=2048):
    return sobel, (uniform((height, width)),)


def unsharp_case(height=1080, width=1920):
    return unsharp, (uniform((3, height, width)),)


def letterbox_case(height=1080, width=1920, side=1280):
    return letterbox, (integers((height, width, 3), 256, torch.uint8), side)


def warp_case(height=720, width=1280):
    return warp, (uniform((3, height, width)), torch.randn(2, height, width) * 3)


def composite_case(height=1080, width=1920):
    return composite, (uniform((height, width, 4)), uniform((height, width, 4)))


CASES = {
    "sobel_f32": (sobel_case, {}),
    "unsharp_f32": (unsharp_case, {}),
    "letterbox_f32": (letterbox_case, {}),
    "warp_f32": (warp_case, {}),
    "composite_f32": (composite_case, {}),
}
