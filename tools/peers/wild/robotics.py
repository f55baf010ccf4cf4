"""Robotics: chains of joints, maps, where a robot is."""

import torch

from .draw import integers, uniform

CELL, BAND = 0.05, 0.12


def quaternion_product(a, b):
    p, q = a.unbind(-1), b.unbind(-1)
    return torch.stack(
        [
            p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
            p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
            p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
            p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
        ],
        -1,
    )


def turned(q, v):
    axis = q[..., 1:]
    twice = 2 * torch.linalg.cross(axis, v, dim=-1)
    return v + q[..., :1] * twice + torch.linalg.cross(axis, twice, dim=-1)


def chain_poses(angles, axes, links):
    arms, joints = angles.shape
    q = torch.zeros(arms, 4, dtype=angles.dtype)
    q[:, 0] = 1
    place = torch.zeros(arms, 3, dtype=angles.dtype)
    directions, places = [], []
    for j in range(joints):
        axis, half = axes[j : j + 1], 0.5 * angles[:, j : j + 1]
        directions.append(turned(q, axis))
        places.append(place)
        q = quaternion_product(q, torch.cat([half.cos(), half.sin() * axis], 1))
        place = place + turned(q, links[j : j + 1])
    direction = torch.stack(directions, 2)
    arm = place[:, :, None] - torch.stack(places, 2)
    jacobian = torch.cat([torch.linalg.cross(direction, arm, dim=1), direction], 1)
    return q / q.norm(2, -1, keepdim=True), place, jacobian


def inverse_step(joints, jacobian, error, low, high):
    rest = 0.1 * (0.5 * (low + high) - joints)
    back = jacobian.transpose(1, 2)
    damped = torch.bmm(jacobian, back) + 0.05 * torch.eye(6, dtype=joints.dtype)
    wanted = error - torch.bmm(jacobian, rest[:, :, None]).squeeze(2)
    step = torch.bmm(back, torch.linalg.solve(damped, wanted[:, :, None])).squeeze(2)
    step.add_(rest)
    step.mul_((0.2 / step.norm(2, 1, keepdim=True)).clamp_max(1))
    joints.add_(step).clamp_(low, high)
    return error.norm(2, 1)


def localise(map, poses, ranges, bearings, start, noise):
    count, (height, width) = len(poses), map.shape
    heading = poses[:, 2]
    angle = heading[:, None] + bearings
    x, y = poses[:, 0:1] + ranges * angle.cos(), poses[:, 1:2] + ranges * angle.sin()
    column, row = (x / CELL).floor().long(), (y / CELL).floor().long()
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    cell = map[row.clamp(0, height - 1), column.clamp(0, width - 1)]
    weight = torch.where(inside, cell.long(), 1).sum(1).square()
    up_to = weight.cumsum(0)
    total = up_to[-1]
    place = (torch.arange(count, dtype=poses.dtype) + start) / count * total
    chosen = torch.searchsorted(up_to, place.long(), right=True).clamp_max(count - 1)
    share = weight / total
    mean = (poses[:, :2] * share[:, None]).sum(0)
    towards = torch.atan2((heading.sin() * share).sum(), (heading.cos() * share).sum())
    return poses.index_select(0, chosen) + 0.02 * noise, torch.cat([mean, towards.view(1)])


def fuse_depth(distance, weight, depth, pose):
    height, width = depth.shape
    size, focal = 2 / len(distance), 0.9 * width

    def line(dim):
        return (torch.arange(distance.shape[dim], dtype=depth.dtype) + 0.5) * size - 1

    x, y, z = line(2), line(1).view(-1, 1), line(0).view(-1, 1, 1)

    def along(i):
        r = pose[i].unbind(0)
        return r[0] * x + r[1] * y + r[2] * z + r[3]

    away = along(2)
    scale = focal / away.clamp_min(0.1)
    column = torch.round(along(0) * scale + 0.5 * width).long()
    row = torch.round(along(1) * scale + 0.5 * height).long()
    seen = (away > 0.1) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
    surface = depth[row.clamp(0, height - 1), column.clamp(0, width - 1)]
    gap = surface - away
    valid = seen & (surface > 0) & (gap > -BAND)
    fresh, total = (gap / BAND).clamp_max(1), weight + 1
    distance.copy_(torch.where(valid, (distance * weight + fresh) / total, distance))
    weight.copy_(torch.where(valid, total.clamp_max(64), weight))


def chain_poses_case(arms=8192, joints=7):
    axes = torch.randn(joints, 3)
    links = uniform((joints, 3), -0.3, 0.3)
    return chain_poses, (uniform((arms, joints), -2, 2), axes / axes.norm(2, 1, keepdim=True), links)


def inverse_step_case(arms=32, joints=7):
    low, high = uniform((joints,), -3, -1), uniform((joints,), 1, 3)
    jacobian, error = torch.randn(arms, 6, joints), torch.randn(arms, 6) * 0.3
    return inverse_step, (uniform((arms, joints), -1, 1), jacobian, error, low, high)


def localise_case(particles=2048, beams=48, side=256):
    metres = CELL * side
    places = uniform((particles, 2), 0.1 * metres, 0.9 * metres)
    poses = torch.cat([places, uniform((particles, 1), -3.1, 3.1)], 1)
    scan = uniform((beams,), 0.05 * metres, 0.5 * metres), uniform((beams,), -2, 2)
    map = integers((side, side), 256, torch.uint8)
    return localise, (map, poses, *scan, uniform((1,)), torch.randn(particles, 3))


def fuse_depth_case(voxels=112, height=240, width=320):
    wall = 2.5 + 0.5 * torch.linspace(-1, 1, width)
    rough = wall + 0.02 * torch.randn(height, width)
    depth = rough * (uniform((height, width)) > 0.1)
    pose = torch.eye(3, 4) + 0.05 * torch.randn(3, 4)
    pose[2, 3] = 2.2
    distance = uniform((voxels, voxels, voxels), -1, 1)
    return fuse_depth, (distance, integers((voxels, voxels, voxels), 8).float(), depth, pose)


CASES = {
    "chain_poses_f32": (chain_poses_case, {}),
    "inverse_step_f32": (inverse_step_case, {}),
    "localise_f32": (localise_case, {}),
    "fuse_depth_f32": (fuse_depth_case, {}),
}
