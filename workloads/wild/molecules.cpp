// Molecules: networks over atoms' distances, forces, steps of time.

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

constexpr double kCutoff = 2.5;
constexpr double kStep = 0.005;  ///< of time
constexpr double kDecay = 0.9;   ///< of charges' forces with the distance

/// SchNet's interaction: atoms' features (N, W) go along edges (E) under the cutoff, times filters
/// that two layers make of the distance's Gaussians at `centres` (K), and add up at the targets.
at::Tensor continuous_filter(const at::Tensor& features, const at::Tensor& positions,
                             const at::Tensor& source, const at::Tensor& target,
                             const at::Tensor& centres, const at::Tensor& w1, const at::Tensor& b1,
                             const at::Tensor& w2, const at::Tensor& b2) {
  const at::Tensor r = positions.index_select(0, target) - positions.index_select(0, source);
  const at::Tensor distance = r.norm(2, 1);
  const at::Tensor basis = (-10 * (distance.unsqueeze(1) - centres).square()).exp();
  const at::Tensor fade =
      at::where(distance < kCutoff, 0.5 * ((distance * (std::numbers::pi / kCutoff)).cos() + 1), 0);
  const auto activated = [](const at::Tensor& x) { return at::softplus(x) - std::numbers::ln2; };
  const at::Tensor hidden = activated(at::linear(basis, w1, b1));
  const at::Tensor filter = activated(at::linear(hidden, w2, b2)) * fade.unsqueeze(1);
  return at::zeros_like(features).index_add_(0, target, features.index_select(0, source) * filter);
}

/// Forces (N, 3) and the energy of all pairs in a periodic box (3) that are not excluded (N, N):
/// Lennard-Jones with mixed radii and depths, and charges whose force decays.
std::tuple<at::Tensor, at::Tensor> pair_forces(const at::Tensor& positions,
                                               const at::Tensor& charges, const at::Tensor& radii,
                                               const at::Tensor& depths, const at::Tensor& box,
                                               const at::Tensor& excluded) {
  at::Tensor r = positions.unsqueeze(1) - positions.unsqueeze(0);
  r -= box * at::round(r / box);
  const at::Tensor square = r.square().sum(-1).masked_fill_(excluded, 1), distance = square.sqrt();
  const at::Tensor counts = (distance < kCutoff).logical_and(excluded.logical_not());
  const at::Tensor radius = 0.5 * (radii.unsqueeze(1) + radii);
  const at::Tensor depth = (depths.unsqueeze(1) * depths).sqrt();
  const at::Tensor sixth = (radius.square() / square).pow(3), twelfth = sixth.square();
  const at::Tensor charge = charges.unsqueeze(1) * charges;
  const at::Tensor coulomb = charge * at::erfc(kDecay * distance) / distance;
  const at::Tensor tail =
      (2 * kDecay / std::sqrt(std::numbers::pi)) * charge * (-kDecay * kDecay * square).exp();
  const at::Tensor slope = (24 * depth * (2 * twelfth - sixth) + coulomb + tail) / square;
  const at::Tensor energy = 4 * depth * (twelfth - sixth) + coulomb;
  return {(r * at::where(counts, slope, 0).unsqueeze(-1)).sum(1),
          0.5 * at::where(counts, energy, 0).sum()};
}

/// A velocity Verlet step of atoms in springs, in place: positions, velocities and forces (N, 3),
/// masses (N), bonds (B, 2) with their lengths (B), angles (A, 3) with their cosines (A). Gives the
/// energy.
at::Tensor verlet_step(const at::Tensor& positions, const at::Tensor& velocities,
                       const at::Tensor& forces, const at::Tensor& masses, const at::Tensor& bonds,
                       const at::Tensor& lengths, const at::Tensor& angles,
                       const at::Tensor& cosines) {
  const at::Tensor half = (0.5 * kStep / masses).unsqueeze(1);
  velocities.addcmul_(forces, half);
  positions.add_(velocities, kStep);
  forces.zero_();
  const auto between = [&](const at::Tensor& from, const at::Tensor& to) {
    return positions.index_select(0, to) - positions.index_select(0, from);
  };
  const auto ends = bonds.unbind(1), atoms = angles.unbind(1);
  const at::Tensor r = between(ends[0], ends[1]), length = r.norm(2, 1);
  const at::Tensor stretch = length - lengths;
  const at::Tensor pull = r * (100 * stretch / length).unsqueeze(1);
  forces.index_add_(0, ends[0], pull).index_add_(0, ends[1], pull, -1);

  const at::Tensor a = between(atoms[1], atoms[0]), b = between(atoms[1], atoms[2]);
  const at::Tensor na = a.norm(2, 1, /*keepdim=*/true), nb = b.norm(2, 1, /*keepdim=*/true);
  const at::Tensor ua = a / na, ub = b / nb, cosine = (ua * ub).sum(1, /*keepdim=*/true);
  const at::Tensor bend = cosine - cosines.unsqueeze(1);
  const at::Tensor on_a = -20 * bend * (ub - cosine * ua) / na,
                   on_b = -20 * bend * (ua - cosine * ub) / nb;
  forces.index_add_(0, atoms[0], on_a).index_add_(0, atoms[2], on_b);
  forces.index_add_(0, atoms[1], on_a + on_b, -1);
  velocities.addcmul_(forces, half);
  const at::Tensor moving = 0.5 * (masses * velocities.square().sum(1)).sum();
  return moving + 50 * stretch.square().sum() + 10 * bend.square().sum();
}

Instance continuous_filter_case(const Options& o) {
  const int64_t atoms = o.integer("atoms"), edges = o.integer("edges"), width = o.integer("width"),
                kernels = o.integer("kernels");
  Draw draw(o);
  const at::Tensor features = draw.normal({atoms, width}),
                   positions = draw.uniform({atoms, 3}, 0, 2);
  const at::Tensor source = draw.integers({edges}, atoms);
  const at::Tensor target = (source + 1 + draw.integers({edges}, atoms - 1)).remainder(atoms);
  const auto weight = [&](int64_t out, int64_t in) {
    return draw.normal({out, in}) / std::sqrt(static_cast<double>(in));
  };
  const at::Tensor w1 = weight(width, kernels), w2 = weight(width, width);
  return bounded(instance_of(continuous_filter, features, positions, source, target,
                             at::linspace(0, kCutoff, kernels, at::kFloat), w1,
                             draw.normal({width}), w2, draw.normal({width})),
                 4 * (width * (distinct(source) + atoms + kernels + width + 2) + kernels) +
                     12 * distinct(at::cat({source, target})) + 16 * edges,
                 edges * (kernels * (3 + kFunction) + 2 * width * (kernels + width) +
                          width * (4 * kFunction + 7)));
}

Instance pair_forces_case(const Options& o) {
  const int64_t atoms = o.integer("atoms");
  const auto side = static_cast<int64_t>(std::ceil(std::cbrt(static_cast<double>(atoms))));
  Draw draw(o);
  // A lattice, a little disturbed; along the order of the atoms neighbours are bonded.
  const at::Tensor number = at::arange(atoms, at::kLong);
  const at::Tensor lattice = at::stack(
      {number % side, number.floor_divide(side) % side, number.floor_divide(side * side)}, 1);
  const at::Tensor excluded = (number.unsqueeze(1) - number).abs() < 2;
  return bounded(
      instance_of(pair_forces, lattice + 0.1 * draw.normal({atoms, 3}), draw.normal({atoms}) * 0.3,
                  draw.uniform({atoms}, 0.8, 1), draw.uniform({atoms}, 0.5, 1),
                  at::full({3}, std::max(static_cast<double>(side), 2 * kCutoff), at::kFloat),
                  excluded),
      4 * (9 * atoms + 4) + atoms * atoms, atoms * atoms * (46 + 2 * kFunction));
}

Instance verlet_step_case(const Options& o) {
  const int64_t atoms = o.integer("atoms"), length = o.integer("length");
  Draw draw(o);
  // Chains; each atom about 1 from the one before.
  const at::Tensor steps = draw.normal({atoms, 3}) + 0.5;
  const at::Tensor positions = (steps / steps.norm(2, 1, /*keepdim=*/true)).cumsum(0);
  const at::Tensor number = at::arange(atoms, at::kLong), place = number % length;
  const auto runs = [&](int64_t count) {
    const at::Tensor first =
        number.masked_select((place + count <= length).logical_and(number + count <= atoms));
    return first.unsqueeze(1) + at::arange(count, at::kLong);
  };
  const at::Tensor bonds = runs(2), angles = runs(3);
  return bounded(updating_instance_of(verlet_step, positions, draw.normal({atoms, 3}) * 0.3,
                                      at::zeros({atoms, 3}), draw.uniform({atoms}, 1, 2), bonds,
                                      draw.uniform({bonds.size(0)}, 0.9, 1.1), angles,
                                      draw.uniform({angles.size(0)}, -0.6, -0.2)),
                 4 * (6 * 3 * atoms + atoms + bonds.size(0) + angles.size(0) + 1) +
                     8 * bonds.numel() + 8 * angles.numel(),
                 atoms * 22 + bonds.size(0) * 23 + angles.size(0) * 60);
}

}  // namespace

std::vector<Workload> molecule_cases() {
  return {
      {"continuous_filter_f32",
       "SchNet's filters of distances over edges",
       {{"atoms", "2048", "67", "atoms"},
        {"edges", "49152", "403", "pairs that are near"},
        {"width", "64", "13", "features of an atom"},
        {"kernels", "50", "7", "Gaussians of a distance"}},
       continuous_filter_case,
       kSums},
      {"pair_forces_f32",
       "forces and energy of all pairs in a periodic box",
       {{"atoms", "320", "37", "atoms"}},
       pair_forces_case,
       10 * kSums},
      {"verlet_step_f32",
       "a velocity Verlet step of chains of springs, in place",
       {{"atoms", "256", "37", "atoms"}, {"length", "16", "5", "of a chain"}},
       verlet_step_case,
       10 * kSums},
  };
}

}  // namespace graft::workloads::wild
