"""Molecules: networks over atoms' distances, forces, steps of time."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform

CUTOFF, STEP, DECAY = 2.5, 0.005, 0.9


def continuous_filter(features, positions, source, target, centres, w1, b1, w2, b2):
    r = positions.index_select(0, target) - positions.index_select(0, source)
    distance = r.norm(2, 1)
    basis = (-10 * (distance[:, None] - centres).square()).exp()
    fade = torch.where(distance < CUTOFF, 0.5 * ((distance * (math.pi / CUTOFF)).cos() + 1), 0)

    def activated(x):
        return F.softplus(x) - math.log(2)

    hidden = activated(F.linear(basis, w1, b1))
    filter = activated(F.linear(hidden, w2, b2)) * fade[:, None]
    return torch.zeros_like(features).index_add_(0, target, features.index_select(0, source) * filter)


def pair_forces(positions, charges, radii, depths, box, excluded):
    r = positions[:, None] - positions
    r -= box * torch.round(r / box)
    square = r.square().sum(-1).masked_fill_(excluded, 1)
    distance = square.sqrt()
    counts = (distance < CUTOFF).logical_and(excluded.logical_not())
    radius, depth = 0.5 * (radii[:, None] + radii), (depths[:, None] * depths).sqrt()
    sixth = (radius.square() / square).pow(3)
    twelfth = sixth.square()
    charge = charges[:, None] * charges
    coulomb = charge * torch.erfc(DECAY * distance) / distance
    tail = (2 * DECAY / math.sqrt(math.pi)) * charge * (-DECAY * DECAY * square).exp()
    slope = (24 * depth * (2 * twelfth - sixth) + coulomb + tail) / square
    energy = 4 * depth * (twelfth - sixth) + coulomb
    forces = (r * torch.where(counts, slope, 0)[..., None]).sum(1)
    return forces, 0.5 * torch.where(counts, energy, 0).sum()


def verlet_step(positions, velocities, forces, masses, bonds, lengths, angles, cosines):
    half = (0.5 * STEP / masses)[:, None]
    velocities.addcmul_(forces, half)
    positions.add_(velocities, alpha=STEP)
    forces.zero_()

    def between(start, end):
        return positions.index_select(0, end) - positions.index_select(0, start)

    ends, atoms = bonds.unbind(1), angles.unbind(1)
    r = between(*ends)
    length = r.norm(2, 1)
    stretch = length - lengths
    pull = r * (100 * stretch / length)[:, None]
    forces.index_add_(0, ends[0], pull).index_add_(0, ends[1], pull, alpha=-1)

    a, b = between(atoms[1], atoms[0]), between(atoms[1], atoms[2])
    na, nb = a.norm(2, 1, keepdim=True), b.norm(2, 1, keepdim=True)
    ua, ub = a / na, b / nb
    cosine = (ua * ub).sum(1, keepdim=True)
    bend = cosine - cosines[:, None]
    on_a, on_b = -20 * bend * (ub - cosine * ua) / na, -20 * bend * (ua - cosine * ub) / nb
    forces.index_add_(0, atoms[0], on_a).index_add_(0, atoms[2], on_b)
    forces.index_add_(0, atoms[1], on_a + on_b, alpha=-1)
    velocities.addcmul_(forces, half)
    moving = 0.5 * (masses * velocities.square().sum(1)).sum()
    return moving + 50 * stretch.square().sum() + 10 * bend.square().sum()


def continuous_filter_case(atoms=2048, edges=49152, width=64, kernels=50):
    features, positions = torch.randn(atoms, width), uniform((atoms, 3), 0, 2)
    source = integers((edges,), atoms)
    target = (source + 1 + integers((edges,), atoms - 1)).remainder(atoms)
    first = torch.randn(width, kernels) / math.sqrt(kernels), torch.randn(width)
    second = torch.randn(width, width) / math.sqrt(width), torch.randn(width)
    centres = torch.linspace(0, CUTOFF, kernels)
    return continuous_filter, (features, positions, source, target, centres, *first, *second)


def pair_forces_case(atoms=320):
    side, number = math.ceil(atoms ** (1 / 3)), torch.arange(atoms)
    lattice = torch.stack([number % side, number // side % side, number // side**2], 1)
    positions = lattice + 0.1 * torch.randn(atoms, 3)
    own = torch.randn(atoms) * 0.3, uniform((atoms,), 0.8, 1), uniform((atoms,), 0.5, 1)
    box = torch.full((3,), max(float(side), 2 * CUTOFF))
    return pair_forces, (positions, *own, box, (number[:, None] - number).abs() < 2)


def verlet_step_case(atoms=256, length=16):
    steps = torch.randn(atoms, 3) + 0.5
    positions = (steps / steps.norm(2, 1, keepdim=True)).cumsum(0)
    number = torch.arange(atoms)

    def runs(count):
        whole = (number % length + count <= length).logical_and(number + count <= atoms)
        return number[whole][:, None] + torch.arange(count)

    bonds, angles = runs(2), runs(3)
    state = positions, torch.randn(atoms, 3) * 0.3, torch.zeros(atoms, 3), uniform((atoms,), 1, 2)
    lengths, cosines = uniform((len(bonds),), 0.9, 1.1), uniform((len(angles),), -0.6, -0.2)
    return verlet_step, (*state, bonds, lengths, angles, cosines)


CASES = {
    "continuous_filter_f32": (continuous_filter_case, {}),
    "pair_forces_f32": (pair_forces_case, {}),
    "verlet_step_f32": (verlet_step_case, {}),
}
