// Robotics: chains of joints, maps, where a robot is.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

constexpr double kCell = 0.05;  ///< metres of a map's cell
constexpr double kBand = 0.12;  ///< metres beyond which distances to a surface are cut off

/// The product of quaternions (..., 4), the real part first.
at::Tensor quaternion_product(const at::Tensor& a, const at::Tensor& b) {
  const auto p = a.unbind(-1), q = b.unbind(-1);
  return at::stack({p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
                    p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
                    p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
                    p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0]},
                   -1);
}

/// Vectors (..., 3) turned by unit quaternions (..., 4).
at::Tensor turned(const at::Tensor& q, const at::Tensor& v) {
  const at::Tensor axis = q.slice(-1, 1), twice = 2 * at::linalg_cross(axis, v, -1);
  return v + q.slice(-1, 0, 1) * twice + at::linalg_cross(axis, twice, -1);
}

/// Arms' hands by their joints' angles (B, J), with axes and links (J, 3): the hand's quaternion
/// and place, and the geometric Jacobian (B, 6, J).
std::tuple<at::Tensor, at::Tensor, at::Tensor> chain_poses(const at::Tensor& angles,
                                                           const at::Tensor& axes,
                                                           const at::Tensor& links) {
  at::Tensor q = at::zeros({angles.size(0), 4}, angles.options());
  q.select(1, 0).fill_(1);
  at::Tensor place = at::zeros({angles.size(0), 3}, angles.options());
  std::vector<at::Tensor> directions, places;
  for (int64_t j = 0; j < angles.size(1); ++j) {
    const at::Tensor axis = axes.slice(0, j, j + 1), half = 0.5 * angles.slice(1, j, j + 1);
    directions.push_back(turned(q, axis));
    places.push_back(place);
    q = quaternion_product(q, at::cat({half.cos(), half.sin() * axis}, 1));
    place = place + turned(q, links.slice(0, j, j + 1));
  }
  const at::Tensor direction = at::stack(directions, 2);
  const at::Tensor arm = place.unsqueeze(2) - at::stack(places, 2);
  const at::Tensor jacobian = at::cat({at::linalg_cross(direction, arm, 1), direction}, 1);
  return {q / q.norm(2, -1, /*keepdim=*/true), place, jacobian};
}

/// A step of inverse kinematics by damped least squares: joints (B, J) move in place towards the
/// hand's error (B, 6), and, where that leaves them free, towards the middle of their limits (J).
/// Gives the length of what was left to do.
at::Tensor inverse_step(const at::Tensor& joints, const at::Tensor& jacobian,
                        const at::Tensor& error, const at::Tensor& low, const at::Tensor& high) {
  const at::Tensor rest = 0.1 * (0.5 * (low + high) - joints);
  const at::Tensor back = jacobian.transpose(1, 2);
  const at::Tensor damped = at::bmm(jacobian, back) + 0.05 * at::eye(6, joints.options());
  const at::Tensor wanted = error - at::bmm(jacobian, rest.unsqueeze(2)).squeeze(2);
  at::Tensor step = at::bmm(back, at::linalg_solve(damped, wanted.unsqueeze(2))).squeeze(2);
  step.add_(rest);
  step.mul_((0.2 / step.norm(2, 1, /*keepdim=*/true)).clamp_max(1));
  joints.add_(step).clamp_(low, high);
  return error.norm(2, 1);
}

/// Monte Carlo localisation: poses (N, 3), x y and heading, are weighed by the map's bytes (H, W)
/// where their beams end, ranges at bearings (R), and drawn again systematically from `start` (1);
/// noise (N, 3) is added. Also the mean pose.
std::tuple<at::Tensor, at::Tensor> localise(const at::Tensor& map, const at::Tensor& poses,
                                            const at::Tensor& ranges, const at::Tensor& bearings,
                                            const at::Tensor& start, const at::Tensor& noise) {
  const int64_t count = poses.size(0), height = map.size(0), width = map.size(1);
  const at::Tensor heading = poses.select(1, 2), angle = heading.unsqueeze(1) + bearings;
  const at::Tensor x = poses.slice(1, 0, 1) + ranges * angle.cos(),
                   y = poses.slice(1, 1, 2) + ranges * angle.sin();
  const at::Tensor column = (x / kCell).floor().to(at::kLong),
                   row = (y / kCell).floor().to(at::kLong);
  const at::Tensor inside = (column >= 0) & (column < width) & (row >= 0) & (row < height);
  const at::Tensor cell = map.index({row.clamp(0, height - 1), column.clamp(0, width - 1)});
  const at::Tensor weight = at::where(inside, cell.to(at::kLong), 1).sum(1).square();
  const at::Tensor up_to = weight.cumsum(0), total = up_to.select(0, -1);
  const at::Tensor place = (at::arange(count, poses.options()) + start) / count * total;
  const at::Tensor chosen =
      at::searchsorted(up_to, place.to(at::kLong), /*out_int32=*/false, /*right=*/true)
          .clamp_max(count - 1);
  const at::Tensor share = weight / total;
  const at::Tensor mean = (poses.slice(1, 0, 2) * share.unsqueeze(1)).sum(0);
  const at::Tensor towards =
      at::atan2((heading.sin() * share).sum(), (heading.cos() * share).sum());
  return {poses.index_select(0, chosen) + 0.02 * noise, at::cat({mean, towards.view(1)})};
}

/// KinectFusion's map, in place: voxels' distances to the nearest surface and their weights (D, H,
/// W) take in a depth image (h, w), seen from a pose (3, 4).
void fuse_depth(const at::Tensor& distance, const at::Tensor& weight, const at::Tensor& depth,
                const at::Tensor& pose) {
  const int64_t height = depth.size(0), width = depth.size(1);
  const double size = 2.0 / static_cast<double>(distance.size(0)), focal = 0.9 * width;
  const auto line = [&](int64_t dim) {
    return (at::arange(distance.size(dim), depth.options()) + 0.5) * size - 1;
  };
  const at::Tensor x = line(2), y = line(1).view({-1, 1}), z = line(0).view({-1, 1, 1});
  const auto along = [&](int64_t i) {
    const auto r = pose.select(0, i).unbind(0);
    return r[0] * x + r[1] * y + r[2] * z + r[3];
  };
  const at::Tensor away = along(2), scale = focal / away.clamp_min(0.1);
  const at::Tensor column = at::round(along(0) * scale + 0.5 * width).to(at::kLong),
                   row = at::round(along(1) * scale + 0.5 * height).to(at::kLong);
  const at::Tensor seen =
      (away > 0.1) & (column >= 0) & (column < width) & (row >= 0) & (row < height);
  const at::Tensor surface = depth.index({row.clamp(0, height - 1), column.clamp(0, width - 1)});
  const at::Tensor gap = surface - away;
  const at::Tensor valid = seen & (surface > 0) & (gap > -kBand);
  const at::Tensor fresh = (gap / kBand).clamp_max(1), total = weight + 1;
  distance.copy_(at::where(valid, (distance * weight + fresh) / total, distance));
  weight.copy_(at::where(valid, total.clamp_max(64), weight));
}

Instance chain_poses_case(const Options& o) {
  const int64_t arms = o.integer("arms"), joints = o.integer("joints");
  Draw draw(o);
  const at::Tensor angles = draw.uniform({arms, joints}, -2, 2), axes = draw.normal({joints, 3});
  return bounded(instance_of(chain_poses, angles, axes / axes.norm(2, 1, /*keepdim=*/true),
                             draw.uniform({joints, 3}, -0.3, 0.3)),
                 4 * (arms * (7 * joints + 7) + 6 * joints), arms * joints * (2 * kFunction + 107));
}

Instance inverse_step_case(const Options& o) {
  const int64_t arms = o.integer("arms"), joints = o.integer("joints");
  Draw draw(o);
  const at::Tensor low = draw.uniform({joints}, -3, -1), high = draw.uniform({joints}, 1, 3);
  return bounded(
      updating_instance_of(inverse_step, draw.uniform({arms, joints}, -1, 1),
                           draw.normal({arms, 6, joints}), draw.normal({arms, 6}) * 0.3, low, high),
      4 * (arms * (8 * joints + 7) + 2 * joints), arms * (2 * 36 * joints + 36 * joints + 250));
}

Instance localise_case(const Options& o) {
  const int64_t particles = o.integer("particles"), beams = o.integer("beams"),
                side = o.integer("side");
  const double metres = kCell * static_cast<double>(side);
  Draw draw(o);
  const at::Tensor poses = at::cat({draw.uniform({particles, 2}, 0.1 * metres, 0.9 * metres),
                                    draw.uniform({particles, 1}, -3.1, 3.1)},
                                   1);
  const at::Tensor ranges = draw.uniform({beams}, 0.05 * metres, 0.5 * metres);
  // The map's cells are left out: some are never read.
  return bounded(
      instance_of(localise, draw.integers({side, side}, 256, at::kByte), poses, ranges,
                  draw.uniform({beams}, -2, 2), draw.uniform({1}), draw.normal({particles, 3})),
      4 * (3 * 3 * particles + 2 * beams + 1 + 3),
      particles * (beams * (2 * kFunction + 13) + 2 * kFunction + 20));
}

Instance fuse_depth_case(const Options& o) {
  const int64_t voxels = o.integer("voxels"), height = o.integer("height"),
                width = o.integer("width"), count = voxels * voxels * voxels;
  Draw draw(o);
  // A wall behind the middle, a tenth of it without a measurement.
  const at::Tensor wall = 2.5 + 0.5 * at::linspace(-1, 1, width, at::kFloat);
  const at::Tensor rough = wall + 0.02 * draw.normal({height, width});
  const at::Tensor depth = rough * (draw.uniform({height, width}) > 0.1);
  const at::Tensor pose = at::eye(3, 4) + 0.05 * draw.normal({3, 4});
  pose.select(1, 3).select(0, 2).fill_(2.2);
  const at::Tensor distance = draw.uniform({voxels, voxels, voxels}, -1, 1),
                   weight = draw.integers({voxels, voxels, voxels}, 8).to(at::kFloat);
  // Voxels that no pixel tells of are neither read nor written.
  const at::Tensor after = weight.clone();
  fuse_depth(distance.clone(), after, depth, pose);
  const int64_t changed = (after != weight).sum().item<int64_t>();
  return bounded(updating_instance_of(fuse_depth, distance, weight, depth, pose),
                 4 * (4 * changed + 12), 12 * count + 10 * changed);
}

}  // namespace

std::vector<Workload> robotics_cases() {
  return {
      {"chain_poses_f32",
       "arms' hands and Jacobians by quaternions, joint by joint",
       {{"arms", "8192", "67", "arms"}, {"joints", "7", "3", "of an arm"}},
       chain_poses_case,
       kSums},
      {"inverse_step_f32",
       "inverse kinematics by damped least squares, in place",
       {{"arms", "32", "5", "arms"}, {"joints", "7", "7", "of an arm"}},
       inverse_step_case,
       10 * kSums},
      {"localise_f32",
       "Monte Carlo localisation in a map of bytes",
       {{"particles", "2048", "131", "poses"},
        {"beams", "48", "7", "beams of a scan"},
        {"side", "256", "37", "rows and columns of the map"}},
       localise_case,
       kSums},
      {"fuse_depth_f32",
       "a depth image taken into a map of distances, in place",
       {{"voxels", "112", "13", "along each of three sides"},
        {"height", "240", "21", "rows of the image"},
        {"width", "320", "27", "columns of the image"}},
       fuse_depth_case},
  };
}

}  // namespace graft::workloads::wild
