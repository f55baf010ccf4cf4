"""Physics: particles, lattices, fields."""

import torch
import torch.nn.functional as F

from .draw import integers, uniform


def gravity(positions, masses):
    r = positions[None] - positions[:, None]
    inverse = (r.square().sum(-1) + 1e-2).pow(-1.5)
    return (r * (masses * inverse)[..., None]).sum(1)


def lennard_jones(positions, neighbours):
    others = positions.index_select(0, neighbours.view(-1)).view(*neighbours.shape, 3)
    r = others - positions[:, None]
    r = r - 10 * torch.round(r / 10)
    square = r.square().sum(-1).clamp_min(0.8)
    sixth, inside = square.pow(-3), square < 6.25
    force = torch.where(inside, 24 * (2 * sixth * sixth - sixth) / square, 0)
    energy = torch.where(inside, 4 * (sixth * sixth - sixth), 0)
    return -(r * force[..., None]).sum(1), energy.sum() * 0.5


def heat(start, steps):
    u = start.clone()
    for _ in range(steps):
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1].add_(around - 4 * u[1:-1, 1:-1], alpha=0.2)
    return u


def electromagnetic_step(ez, hx, hy):
    hx.sub_(ez[:, 1:] - ez[:, :-1], alpha=0.5)
    hy.add_(ez[1:] - ez[:-1], alpha=0.5)
    curl = hy[1:, 1:-1] - hy[:-1, 1:-1] - hx[1:-1, 1:] + hx[1:-1, :-1]
    ez[1:-1, 1:-1].add_(curl, alpha=0.5)


def lattice_boltzmann(f):
    directions = (0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)
    part, density = f.unbind(0), f.sum(0)
    ux = (part[1] + part[5] + part[8] - part[3] - part[6] - part[7]) / density
    uy = (part[2] + part[5] + part[6] - part[4] - part[7] - part[8]) / density
    speed = 1.5 * (ux * ux + uy * uy)
    moved = []
    for i, (x, y) in enumerate(directions):
        along = 3 * (x * ux + y * uy)
        weight = 4 / 9 if i == 0 else 1 / 9 if i < 5 else 1 / 36
        balance = weight * density * (1 + along + 0.5 * along * along - speed)
        moved.append(torch.roll(part[i] + (balance - part[i]) / 0.6, (y, x), (0, 1)))
    return torch.stack(moved)


def ising_sweep(start, uniforms):
    height, width = start.shape
    colour = (torch.arange(height)[:, None] + torch.arange(width)).remainder(2)
    spins = start
    for turn in range(2):
        around = torch.roll(spins, 1, 0) + torch.roll(spins, -1, 0) + torch.roll(spins, 1, 1) + torch.roll(spins, -1, 1)
        flips = uniforms[turn] < (-0.88 * spins * around).exp()
        spins = torch.where(flips.logical_and(colour == turn), -spins, spins)
    energy = -spins * (torch.roll(spins, 1, 0) + torch.roll(spins, 1, 1))
    return spins, energy.mean()


def gravity_case(bodies=2048):
    return gravity, (torch.randn(bodies, 3), uniform((bodies,)))


def lennard_jones_case(atoms=4096, neighbours=64):
    near = torch.arange(atoms)[:, None] + 1 + integers((atoms, neighbours), atoms // 2)
    return lennard_jones, (uniform((atoms, 3), 0, 10), near.remainder(atoms))


def heat_case(height=1024, width=1024, steps=4):
    return heat, (uniform((height, width)), steps)


def electromagnetic_case(height=1536, width=1536):
    ez = F.pad(torch.randn(height - 2, width - 2), (1, 1, 1, 1))  # at the border 0, a conductor
    return electromagnetic_step, (ez, torch.randn(height, width - 1), torch.randn(height - 1, width))


def lattice_boltzmann_case(height=768, width=768):
    return lattice_boltzmann, (uniform((9, height, width), 0.05, 0.15),)


def ising_case(height=1024, width=1024):
    spins = integers((2 * height, 2 * width), 2).float() * 2 - 1
    return ising_sweep, (spins, uniform((2, 2 * height, 2 * width)))


CASES = {
    "gravity_f32": (gravity_case, {}),
    "lennard_jones_f32": (lennard_jones_case, {}),
    "heat_f32": (heat_case, {}),
    "electromagnetic_f32": (electromagnetic_case, {}),
    "lattice_boltzmann_f32": (lattice_boltzmann_case, {}),
    "ising_f32": (ising_case, {}),
}
