// Physics: particles, lattices, fields.

#include <ATen/ATen.h>

#include <array>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// The accelerations of N bodies (N, 3) by all others' gravity, softened.
at::Tensor gravity(const at::Tensor& positions, const at::Tensor& masses) {
  const at::Tensor r = positions.unsqueeze(0) - positions.unsqueeze(1);
  const at::Tensor inverse = (r.square().sum(-1) + 1e-2).pow(-1.5);
  return (r * (masses * inverse).unsqueeze(-1)).sum(1);
}

/// Lennard-Jones forces (N, 3) and the energy of atoms in a periodic box of size 10, over lists of
/// neighbours (N, K), cut off at 2.5.
std::tuple<at::Tensor, at::Tensor> lennard_jones(const at::Tensor& positions,
                                                 const at::Tensor& neighbours) {
  const at::Tensor others = positions.index_select(0, neighbours.view(-1))
                                .view({neighbours.size(0), neighbours.size(1), 3});
  at::Tensor r = others - positions.unsqueeze(1);
  r = r - 10 * at::round(r / 10);
  const at::Tensor square = r.square().sum(-1).clamp_min(0.8);
  const at::Tensor sixth = square.pow(-3), inside = square < 6.25;
  const at::Tensor force = at::where(inside, 24 * (2 * sixth * sixth - sixth) / square, 0);
  const at::Tensor energy = at::where(inside, 4 * (sixth * sixth - sixth), 0);
  return {-(r * force.unsqueeze(-1)).sum(1), energy.sum() * 0.5};
}

/// Heat in a plate (H, W) whose border is held: `steps` explicit steps.
at::Tensor heat(const at::Tensor& start, int64_t steps) {
  at::Tensor u = start.clone();
  const at::Tensor inner = u.slice(0, 1, -1).slice(1, 1, -1);
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor around = u.slice(0, 2).slice(1, 1, -1) + u.slice(0, 0, -2).slice(1, 1, -1) +
                              u.slice(0, 1, -1).slice(1, 2) + u.slice(0, 1, -1).slice(1, 0, -2);
    inner.add_(around - 4 * inner, 0.2);
  }
  return u;
}

/// A step of Maxwell's equations in the plane (Yee's scheme), in place: ez (H, W), hx (H, W - 1),
/// hy (H - 1, W).
void electromagnetic_step(const at::Tensor& ez, const at::Tensor& hx, const at::Tensor& hy) {
  hx.sub_(ez.slice(1, 1) - ez.slice(1, 0, -1), 0.5);
  hy.add_(ez.slice(0, 1) - ez.slice(0, 0, -1), 0.5);
  const at::Tensor curl = hy.slice(0, 1).slice(1, 1, -1) - hy.slice(0, 0, -1).slice(1, 1, -1) -
                          hx.slice(0, 1, -1).slice(1, 1) + hx.slice(0, 1, -1).slice(1, 0, -1);
  ez.slice(0, 1, -1).slice(1, 1, -1).add_(curl, 0.5);
}

/// A lattice Boltzmann step of (9, H, W), D2Q9: collision, then each direction moves on,
/// periodically.
at::Tensor lattice_boltzmann(const at::Tensor& f) {
  constexpr std::array<std::array<int64_t, 2>, 9> kDirections{
      {{0, 0}, {1, 0}, {0, 1}, {-1, 0}, {0, -1}, {1, 1}, {-1, 1}, {-1, -1}, {1, -1}}};
  const auto part = f.unbind(0);
  const at::Tensor density = f.sum(0);
  const at::Tensor ux = (part[1] + part[5] + part[8] - part[3] - part[6] - part[7]) / density;
  const at::Tensor uy = (part[2] + part[5] + part[6] - part[4] - part[7] - part[8]) / density;
  const at::Tensor speed = 1.5 * (ux * ux + uy * uy);
  std::vector<at::Tensor> moved;
  for (size_t i = 0; i < 9; ++i) {
    const auto [x, y] = kDirections[i];
    const at::Tensor along = 3 * (x * ux + y * uy);
    const double weight = i == 0 ? 4.0 / 9 : i < 5 ? 1.0 / 9 : 1.0 / 36;
    const at::Tensor balance = weight * density * (1 + along + 0.5 * along * along - speed);
    moved.push_back(at::roll(part[i] + (balance - part[i]) / 0.6, {y, x}, {0, 1}));
  }
  return at::stack(moved);
}

/// A Metropolis sweep of the Ising model, one colour of the board after the other, with given
/// uniforms (2, H, W): spins (H, W) of 1 or -1, and their mean energy.
std::tuple<at::Tensor, at::Tensor> ising_sweep(const at::Tensor& start,
                                               const at::Tensor& uniforms) {
  const at::Tensor colour =
      (at::arange(start.size(0), at::kLong).unsqueeze(1) + at::arange(start.size(1), at::kLong))
          .remainder(2);
  at::Tensor spins = start;
  for (int64_t turn = 0; turn < 2; ++turn) {
    const at::Tensor around = at::roll(spins, {1}, {0}) + at::roll(spins, {-1}, {0}) +
                              at::roll(spins, {1}, {1}) + at::roll(spins, {-1}, {1});
    const at::Tensor flips = uniforms.select(0, turn) < (-0.88 * spins * around).exp();
    spins = at::where(flips.logical_and(colour == turn), -spins, spins);
  }
  const at::Tensor energy = -spins * (at::roll(spins, {1}, {0}) + at::roll(spins, {1}, {1}));
  return {spins, energy.mean()};
}

Instance gravity_case(const Options& o) {
  const int64_t bodies = o.integer("bodies");
  Draw draw(o);
  const at::Tensor positions = draw.normal({bodies, 3});
  return bounded(instance_of(gravity, positions, draw.uniform({bodies})), 4 * 7 * bodies,
                 20 * bodies * bodies);
}

Instance lennard_jones_case(const Options& o) {
  const int64_t atoms = o.integer("atoms"), count = o.integer("neighbours");
  Draw draw(o);
  const at::Tensor positions = draw.uniform({atoms, 3}, 0, 10);
  const at::Tensor near =  // never the atom itself
      at::arange(atoms, at::kLong).unsqueeze(1) + 1 + draw.integers({atoms, count}, atoms / 2);
  return bounded(instance_of(lennard_jones, positions, near.remainder(atoms)),
                 4 * 6 * atoms + 8 * atoms * count + 4, 36 * atoms * count);
}

Instance heat_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"),
                steps = o.integer("steps");
  return bounded(instance_of(heat, Draw(o).uniform({height, width}), steps), 8 * height * width,
                 7 * steps * (height - 2) * (width - 2));
}

Instance electromagnetic_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width");
  const int64_t fields = height * width + height * (width - 1) + (height - 1) * width;
  Draw draw(o);
  // At the border ez is 0, a conductor.
  const at::Tensor ez = at::constant_pad_nd(draw.normal({height - 2, width - 2}), {1, 1, 1, 1});
  return bounded(updating_instance_of(electromagnetic_step, ez, draw.normal({height, width - 1}),
                                      draw.normal({height - 1, width})),
                 8 * fields, 11 * height * width);
}

Instance lattice_boltzmann_case(const Options& o) {
  const int64_t cells = o.integer("height") * o.integer("width");
  const at::Tensor f = Draw(o).uniform({9, o.integer("height"), o.integer("width")}, 0.05, 0.15);
  return bounded(instance_of(lattice_boltzmann, f), 4 * 18 * cells, (24 + 9 * 12) * cells);
}

Instance ising_case(const Options& o) {
  const int64_t height = 2 * o.integer("height"), width = 2 * o.integer("width"),
                cells = height * width;
  Draw draw(o);
  const at::Tensor spins = draw.integers({height, width}, 2).to(at::kFloat) * 2 - 1;
  return bounded(instance_of(ising_sweep, spins, draw.uniform({2, height, width})),
                 4 * (4 * cells + 1), 2 * (6 + kFunction) * cells / 2 + 4 * cells);
}

std::vector<Axis> field_axes(const char* height, const char* width) {
  return {{"height", height, "19", "rows of cells"}, {"width", width, "37", "cells of a row"}};
}

}  // namespace

std::vector<Workload> physics_cases() {
  std::vector<Axis> plate = field_axes("1024", "1024");
  plate.push_back({"steps", "4", "3", "steps"});
  return {
      {"gravity_f32",
       "the forces of all pairs of bodies",
       {{"bodies", "2048", "67", "bodies"}},
       gravity_case,
       kSums},
      {"lennard_jones_f32",
       "forces and energy over lists of neighbours",
       {{"atoms", "4096", "131", "atoms"}, {"neighbours", "64", "11", "of an atom"}},
       lennard_jones_case,
       kSums},
      {"heat_f32", "explicit steps of the heat equation in a plane", plate, heat_case},
      {"electromagnetic_f32", "a step of Maxwell's equations in a plane, in place",
       field_axes("1536", "1536"), electromagnetic_case},
      {"lattice_boltzmann_f32", "a lattice Boltzmann step, D2Q9", field_axes("768", "768"),
       lattice_boltzmann_case, kSums},
      {"ising_f32", "a Metropolis sweep of the Ising model, and its energy",
       field_axes("1024", "1024"), ising_case, kSums},
  };
}

}  // namespace graft::workloads::wild
