// Passers-by: programs of many fields, from rain and gas to genes, rays and film.

#include <ATen/ATen.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

using at::Tensor;

/// Kessler's warm rain of columns of air (L, C), lowest levels first, in place: potential
/// temperature, vapour, cloud, rain, and what has fallen (C). Pressure and density of levels (L).
void warm_rain(const Tensor& theta, const Tensor& vapour, const Tensor& cloud, const Tensor& rain,
               const Tensor& fallen, const Tensor& pressure, const Tensor& density) {
  constexpr double kTime = 10, kDepth = 500, kLatent = 2.5e6 / 1003;
  const Tensor p = pressure.unsqueeze(1), rho = density.unsqueeze(1), thin = 0.001 * rho;
  const Tensor exner = (p / 1e5).pow(0.2857);
  // Rain falls.
  const Tensor speed = 36.34 * (thin * rain).pow(0.1364) * (rho.slice(0, 0, 1) / rho).sqrt();
  const Tensor flux = rho * rain * speed;
  fallen.add_(flux.select(0, 0), kTime / 1000);
  const Tensor above = at::constant_pad_nd(flux.slice(0, 1), {0, 0, 0, 1});
  rain.add_((above - flux) / (rho * kDepth), kTime);
  // Cloud becomes rain.
  const Tensor started = cloud - kTime * (0.001 * (cloud - 0.001)).clamp_min(0);
  const Tensor made = cloud - started / (1 + kTime * 2.2 * rain.pow(0.875));
  const Tensor left = (cloud - made).clamp_min(0), wet = (rain + made).clamp_min(0);
  // Vapour condenses, rain evaporates.
  const Tensor temperature = theta * exner;
  const Tensor saturated = 380 / p * (17.27 * (temperature - 273.15) / (temperature - 36)).exp();
  const Tensor excess = (vapour - saturated) /
                        (1 + saturated * (237.3 * 17.27 * kLatent) / (temperature - 36).square());
  const Tensor drops = thin * wet;
  const Tensor rate = (1.6 + 124.9 * drops.pow(0.2046)) * drops.pow(0.525) /
                      (2.55e6 * 100 / (p * saturated) + 5.4e5);
  Tensor dried = kTime * rate * (saturated - vapour).clamp_min(0) / (thin * saturated);
  dried = at::minimum(at::minimum(dried, (-excess - left).clamp_min(0)), wet);
  const Tensor condensed = at::maximum(excess, -left);
  theta.add_(kLatent / exner * (condensed - dried));
  vapour.copy_((vapour - condensed + dried).clamp_min(0));
  cloud.copy_(left + condensed);
  rain.copy_(wet - dried);
  rain.masked_fill_(rain < 1e-12, 0);
}

/// A byte's last unit, where a sum came before its rounding; relative to the largest byte.
constexpr double kOneByte = 1.01 / 255;

constexpr double kGas = 0.4;  // the ratio of a gas's heat capacities, less 1

Tensor primitive_of(const Tensor& u) {
  const Tensor density = u.select(0, 0), speeds = u.slice(0, 1, 3) / density;
  const Tensor moving = 0.5 * density * speeds.square().sum(0);
  return at::cat({u.slice(0, 0, 1), speeds, (kGas * (u.select(0, 3) - moving)).unsqueeze(0)});
}

/// A gas's density, momenta and energy, and how they flow along an axis.
std::tuple<Tensor, Tensor> conserved_and_flux(const Tensor& w, int64_t axis) {
  const Tensor density = w.select(0, 0), pressure = w.select(0, 3), speed = w.select(0, 1 + axis);
  const Tensor x = w.select(0, 1), y = w.select(0, 2);
  const Tensor energy = pressure / kGas + 0.5 * density * (x * x + y * y);
  const Tensor u = at::stack({density, density * x, density * y, energy});
  const Tensor flux = u * speed;
  flux.select(0, 1 + axis).add_(pressure);
  flux.select(0, 3).add_(pressure * speed);
  return {u, flux};
}

/// What flows out of each cell along an axis: linear within cells, HLL's fluxes between them.
Tensor outflow(const Tensor& w, int64_t axis) {
  const Tensor back = w - at::roll(w, {1}, {1 + axis}), ahead = at::roll(w, {-1}, {1 + axis}) - w;
  const Tensor smaller = at::where(back.abs() < ahead.abs(), back, ahead);
  const Tensor slope = at::where(back * ahead > 0, smaller, 0);
  const Tensor left = w + 0.5 * slope, right = at::roll(w - 0.5 * slope, {-1}, {1 + axis});
  const auto [ul, fl] = conserved_and_flux(left, axis);
  const auto [ur, fr] = conserved_and_flux(right, axis);
  const Tensor cl = ((1 + kGas) * left.select(0, 3) / left.select(0, 0)).sqrt(),
               cr = ((1 + kGas) * right.select(0, 3) / right.select(0, 0)).sqrt();
  const Tensor vl = left.select(0, 1 + axis), vr = right.select(0, 1 + axis);
  const Tensor sl = at::minimum(vl - cl, vr - cr).clamp_max(0),
               sr = at::maximum(vl + cl, vr + cr).clamp_min(0);
  const Tensor flux = (sr * fl - sl * fr + sl * sr * (ur - ul)) / (sr - sl);
  return flux - at::roll(flux, {1}, {1 + axis});
}

/// Euler's equations of a gas (4, H, W) on a torus: a second-order scheme and Heun's steps, as long
/// as its waves allow. Also the time that has passed.
std::tuple<Tensor, Tensor> gas_dynamics(const Tensor& start, int64_t steps) {
  Tensor u = start, time = at::zeros({}, start.options());
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor w = primitive_of(u);
    const Tensor sound = ((1 + kGas) * w.select(0, 3) / w.select(0, 0)).sqrt();
    const Tensor dt = 0.4 / (w.slice(0, 1, 3).abs().amax(0) + sound).amax();
    const Tensor half = u - dt * (outflow(w, 0) + outflow(w, 1));
    const Tensor v = primitive_of(half);
    u = 0.5 * (u + half - dt * (outflow(v, 0) + outflow(v, 1)));
    time = time + dt;
  }
  return {u, time};
}

/// Sweeps over red cells and then black ones, in place; `square`: of a cell's side.
void red_black(const Tensor& u, const Tensor& f, double square, int sweeps) {
  const int64_t n = u.size(0);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    for (int part = 0; part < 4; ++part) {
      const int64_t i = part % 2 + 1, j = part < 2 ? i : 3 - i;
      const auto cells = [&](const Tensor& of, int64_t dy, int64_t dx) {
        return of.slice(0, i + dy, n - 1 + dy, 2).slice(1, j + dx, n - 1 + dx, 2);
      };
      const Tensor around = cells(u, -1, 0) + cells(u, 1, 0) + cells(u, 0, -1) + cells(u, 0, 1);
      cells(u, 0, 0).copy_(0.25 * (around - square * cells(f, 0, 0)));
    }
  }
}

Tensor poisson_residual(const Tensor& u, const Tensor& f, double square) {
  const Tensor inner = u.slice(0, 1, -1).slice(1, 1, -1);
  const Tensor around = u.slice(0, 0, -2).slice(1, 1, -1) + u.slice(0, 2).slice(1, 1, -1) +
                        u.slice(0, 1, -1).slice(1, 0, -2) + u.slice(0, 1, -1).slice(1, 2);
  const Tensor inside = f.slice(0, 1, -1).slice(1, 1, -1) - (around - 4 * inner) / square;
  return at::constant_pad_nd(inside, {1, 1, 1, 1});
}

/// Half as many cells of a side, each a weighted mean.
Tensor restricted(const Tensor& r) {
  const int64_t n = r.size(0);
  const auto near = [&](int64_t dy, int64_t dx) {
    return r.slice(0, 2 + dy, n - 2 + dy, 2).slice(1, 2 + dx, n - 2 + dx, 2);
  };
  const Tensor sides = near(-1, 0) + near(1, 0) + near(0, -1) + near(0, 1);
  const Tensor corners = near(-1, -1) + near(-1, 1) + near(1, -1) + near(1, 1);
  return at::constant_pad_nd(0.25 * near(0, 0) + 0.125 * sides + 0.0625 * corners, {1, 1, 1, 1});
}

/// Twice as many cells of a side, between by lines.
Tensor prolonged(const Tensor& c) {
  const int64_t n = 2 * c.size(0) - 1;
  const Tensor fine = at::zeros({n, n}, c.options());
  fine.slice(0, 0, n, 2).slice(1, 0, n, 2).copy_(c);
  fine.slice(0, 1, n, 2).slice(1, 0, n, 2).copy_(0.5 * (c.slice(0, 0, -1) + c.slice(0, 1)));
  fine.slice(1, 1, n, 2).copy_(0.5 * (fine.slice(1, 0, n - 1, 2) + fine.slice(1, 2, n, 2)));
  return fine;
}

void v_cycle(const Tensor& u, const Tensor& f, double square) {
  if (u.size(0) <= 5) {
    red_black(u, f, square, 8);
    return;
  }
  red_black(u, f, square, 2);
  const Tensor coarse = restricted(poisson_residual(u, f, square));
  const Tensor error = at::zeros_like(coarse);
  v_cycle(error, coarse, 4 * square);
  u.add_(prolonged(error));
  red_black(u, f, square, 2);
}

/// A multigrid's V cycle on Poisson's equation: u (N, N) goes on in place for f. What is left.
Tensor poisson_cycle(const Tensor& u, const Tensor& f) {
  const double side = 1 / static_cast<double>(u.size(0) - 1);
  v_cycle(u, f, side * side);
  return poisson_residual(u, f, side * side).square().mean().sqrt();
}

/// Logarithms (P) of how likely reads (P, R) of given qualities come of haplotypes (P, H), by a
/// pair HMM, read's letter by letter; 4 stands for any letter.
Tensor pair_hmm(const Tensor& reads, const Tensor& qualities, const Tensor& haplotypes) {
  constexpr double kOpen = 3.1622776601683795e-05, kExtend = 0.1;
  const int64_t pairs = reads.size(0), length = haplotypes.size(1);
  const Tensor error = at::pow(10.0, -qualities / 10).unsqueeze(2);
  const Tensor a = reads.unsqueeze(2), b = haplotypes.unsqueeze(1);
  const Tensor same = (a == b).logical_or(a == 4).logical_or(b == 4);
  const Tensor prior = at::where(same, 1 - error, error / 3);
  // Deletions along a row in closed form: each letter extends all that opened before.
  const Tensor place = at::arange(length, qualities.options());
  const Tensor apart = place - place.unsqueeze(1) - 1;
  const Tensor deletes = at::where(apart >= 0, kOpen * at::pow(kExtend, apart.clamp_min(0)), 0);
  Tensor match = at::zeros({pairs, length + 1}, qualities.options());
  Tensor insert = at::zeros_like(match);
  Tensor remove = at::full_like(match, 1 / static_cast<double>(length));
  for (int64_t i = 0; i < reads.size(1); ++i) {
    const Tensor before = (1 - 2 * kOpen) * match.slice(1, 0, -1) +
                          (1 - kExtend) * (insert.slice(1, 0, -1) + remove.slice(1, 0, -1));
    const Tensor now = prior.select(1, i) * before;
    insert = kOpen * match + kExtend * insert;
    match = at::constant_pad_nd(now, {1, 0});
    remove = at::constant_pad_nd(at::mm(now, deletes), {1, 0});
  }
  return (match + insert).slice(1, 1).sum(1).log10();
}

/// Motifs (M, 4, W) along sequences (B, L) of letters A, C, G, T, and 4 for any, on both strands:
/// of each sequence the best score and where, and how much binds in all (B, M).
std::tuple<Tensor, Tensor, Tensor> motif_scan(const Tensor& letters, const Tensor& motifs) {
  const Tensor coded = at::one_hot(letters, 5).slice(-1, 0, 4).transpose(1, 2).to(motifs.dtype());
  const Tensor forward = at::conv1d(coded, motifs);
  const Tensor reverse = at::conv1d(coded, motifs.flip({1, 2}));
  const auto [best, where] = at::maximum(forward, reverse).max(-1);
  return {best, where, at::logaddexp(forward, reverse).logsumexp(-1)};
}

Tensor length_of(const Tensor& v) {
  return v.square().sum(-1, /*keepdim=*/true).sqrt();
}

/// How far points (P, 3) are from balls (S, 4) that melt into a box, above a floor.
Tensor scene_distance(const Tensor& p, const Tensor& balls, const Tensor& box) {
  const Tensor centres = balls.slice(1, 0, 3), radii = balls.select(1, 3);
  const Tensor ball =
      ((p.unsqueeze(1) - centres).square().sum(-1).sqrt() - radii).amin(1, /*keepdim=*/true);
  const Tensor q = (p - box.select(0, 0)).abs() - box.select(0, 1);
  const Tensor cube = length_of(q.clamp_min(0)) + q.amax(-1, /*keepdim=*/true).clamp_max(0) - 0.05;
  const Tensor h = (0.5 + (cube - ball)).clamp(0, 1);
  const Tensor melted = cube + (ball - cube) * h - 0.5 * h * (1 - h);
  return at::minimum(melted, p.slice(1, 1, 2) + 1);
}

/// Rays (P, 3) from a camera (3) through a scene of distances: lit by a sun (3), with soft shadows
/// and fog; `corners` (4, 3): of a tetrahedron.
Tensor ray_march(const Tensor& rays, const Tensor& camera, const Tensor& balls, const Tensor& box,
                 const Tensor& sun, const Tensor& corners, const Tensor& sky) {
  const Tensor ray = rays / length_of(rays);
  Tensor t = at::full({rays.size(0), 1}, 0.1, rays.options());
  for (int step = 0; step < 32; ++step)
    t = (t + scene_distance(camera + t * ray, balls, box)).clamp_max(24);
  const Tensor hit = camera + t * ray;
  Tensor slope = at::zeros_like(hit);
  for (int i = 0; i < 4; ++i) {
    const Tensor corner = corners.select(0, i);
    slope = slope + corner * scene_distance(hit + 0.01 * corner, balls, box);
  }
  const Tensor normal = slope / (length_of(slope) + 1e-6);
  Tensor light = at::ones_like(t), way = at::full_like(t, 0.1);
  for (int step = 0; step < 12; ++step) {
    const Tensor far = scene_distance(hit + 0.02 * normal + way * sun, balls, box);
    light = at::minimum(light, 8 * far / way);
    way = way + far.clamp(0.05, 0.5);
  }
  const Tensor facing = (normal * sun).sum(-1, /*keepdim=*/true).clamp_min(0);
  const Tensor mirrored = ray - 2 * (ray * normal).sum(-1, /*keepdim=*/true) * normal;
  const Tensor shine = (mirrored * sun).sum(-1, /*keepdim=*/true).clamp_min(0).pow(32);
  const Tensor lit = 0.2 + light.clamp(0, 1) * (0.8 * facing + 0.5 * shine);
  const Tensor fog = 1 - (-0.002 * t.pow(3)).exp();
  return at::lerp(lit.expand_as(hit), sky.expand_as(hit), fog).clamp(0, 1).pow(1 / 2.2);
}

/// Colours (N, 3) of Gaussians at places (N, 3), as a camera (3) sees them, by spherical harmonics
/// of degree 3 (N, 16, 3).
Tensor harmonic_colours(const Tensor& places, const Tensor& camera, const Tensor& harmonics) {
  const Tensor away = places - camera, direction = away / length_of(away);
  const auto d = direction.split(1, 1);
  const Tensor &x = d[0], &y = d[1], &z = d[2];
  const Tensor xx = x * x, yy = y * y, zz = z * z, xy = x * y, yz = y * z, xz = x * z;
  const auto sh = wide(harmonics).unbind(1);
  Tensor colour = 0.28209479177387814 * sh[0];
  colour = colour - 0.4886025119029199 * y * sh[1] + 0.4886025119029199 * z * sh[2] -
           0.4886025119029199 * x * sh[3];
  colour = colour + 1.0925484305920792 * xy * sh[4] - 1.0925484305920792 * yz * sh[5] +
           0.31539156525252005 * (2 * zz - xx - yy) * sh[6] - 1.0925484305920792 * xz * sh[7] +
           0.5462742152960396 * (xx - yy) * sh[8];
  colour =
      colour - 0.5900435899266435 * y * (3 * xx - yy) * sh[9] +
      2.890611442640554 * xy * z * sh[10] - 0.4570457994644658 * y * (4 * zz - xx - yy) * sh[11] +
      0.3731763325901154 * z * (2 * zz - 3 * xx - 3 * yy) * sh[12] -
      0.4570457994644658 * x * (4 * zz - xx - yy) * sh[13] +
      1.445305721320277 * z * (xx - yy) * sh[14] - 0.5900435899266435 * x * (xx - 3 * yy) * sh[15];
  return (colour + 0.5).clamp_min(0);
}

/// Tiles of 16 x 16 pixels, blended from their Gaussians, near ones first: middles (T, G, 2),
/// inverse covariances (T, G, 3), opacities and depths (T, G), colours (T, G, 3). Colours
/// (T, 256, 3), and how much of the background is seen (T, 256).
std::tuple<Tensor, Tensor> splat_blend(const Tensor& middles, const Tensor& conics,
                                       const Tensor& opacities, const Tensor& depths,
                                       const Tensor& colours, const Tensor& background) {
  const Tensor order = depths.argsort(1, /*descending=*/false);
  const auto sorted = [&](const Tensor& of) {
    return of.gather(1, order.unsqueeze(-1).expand({-1, -1, of.size(2)})).unsqueeze(1);
  };
  const Tensor side = at::arange(16, middles.options()) + 0.5;
  const auto grid = at::meshgrid({side, side}, "ij");
  const Tensor pixels = at::stack({grid[1].flatten(), grid[0].flatten()}, -1);
  const auto apart = (pixels.unsqueeze(1) - sorted(middles)).unbind(-1);
  const auto conic = sorted(conics).unbind(-1);
  const Tensor power = -0.5 * (conic[0] * apart[0] * apart[0] + conic[2] * apart[1] * apart[1]) -
                       conic[1] * apart[0] * apart[1];
  const Tensor covered = opacities.gather(1, order).unsqueeze(1) * power.exp();
  const Tensor alpha = covered.clamp_max(0.99).masked_fill(covered < 1.0 / 255, 0);
  const Tensor through = (1 - alpha).cumprod(-1);
  const Tensor before = at::constant_pad_nd(through.slice(-1, 0, -1), {1, 0}, 1);
  const Tensor weight = alpha * before * (before > 1e-4);
  const Tensor rest = through.select(-1, -1);
  return {at::matmul(weight, sorted(colours).squeeze(1)) + rest.unsqueeze(-1) * background, rest};
}

/// A photograph (H, W, 3) of linear light for a screen: exposed by its mean brightness, darker at
/// corners, the ACES film's curve, sRGB's bytes.
Tensor tone_map(const Tensor& light, const Tensor& weights) {
  const int64_t height = light.size(0), width = light.size(1);
  const Tensor x = wide(light);
  const Tensor brightness = (x * weights).sum(-1);
  const Tensor exposure = 0.18 / (brightness + 1e-4).log().mean().exp();
  const Tensor down = at::linspace(-1, 1, height, x.options()).unsqueeze(1),
               across = at::linspace(-1, 1, width, x.options());
  const Tensor corner = 1 - 0.25 * (down.square() + across.square());
  const Tensor e = x * exposure * corner.unsqueeze(-1);
  const Tensor film = ((e * (2.51 * e + 0.03)) / (e * (2.43 * e + 0.59) + 0.14)).clamp(0, 1);
  const Tensor coded =
      at::where(film <= 0.0031308, 12.92 * film, 1.055 * film.pow(1 / 2.4) - 0.055);
  return (255 * coded + 0.5).to(at::kByte);
}

Instance warm_rain_case(const Options& o) {
  const int64_t levels = o.integer("levels"), columns = o.integer("columns"),
                cells = levels * columns;
  Draw draw(o);
  const Tensor height = 500 * (at::arange(levels, at::kFloat) + 0.5);
  const Tensor pressure = 1e5 * (height / -8000).exp(), temperature = 300 - 0.0065 * height;
  const Tensor p = pressure.unsqueeze(1), t = temperature.unsqueeze(1);
  const Tensor saturated = 380 / p * (17.27 * (t - 273.15) / (t - 36)).exp();
  const Tensor theta = t / (p / 1e5).pow(0.2857) + 0.5 * draw.normal({levels, columns});
  const Tensor vapour = saturated * draw.uniform({levels, columns}, 0.7, 1.1);
  const auto water = [&] { return (draw.uniform({levels, columns}, -2e-3, 2e-3)).clamp_min(0); };
  const Tensor cloud = water(), rain = water();
  return bounded(updating_instance_of(warm_rain, theta, vapour, cloud, rain, at::zeros({columns}),
                                      pressure, pressure / (287 * temperature)),
                 4 * (8 * cells + 2 * columns + 2 * levels), cells * (9 * kFunction + 70));
}

Instance gas_dynamics_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"),
                steps = o.integer("steps");
  Draw draw(o);
  // A dense stream between two that flow against it.
  const Tensor place = at::linspace(-1, 1, height, at::kFloat).unsqueeze(1);
  const Tensor inside = (place.abs() < 0.5).expand({height, width});
  const auto noise = [&] { return 0.02 * draw.normal({height, width}); };
  const Tensor density = at::where(inside, 2.0, 1.0) + noise(), down = noise(),
               along = at::where(inside, 0.5, -0.5) + noise();
  const Tensor energy = 2.5 / kGas + 0.5 * density * (down.square() + along.square());
  const Tensor start = at::stack({density, density * down, density * along, energy});
  return bounded(instance_of(gas_dynamics, start.to(at::kDouble), steps),
                 8 * (2 * start.numel() + 1), height * width * steps * (2 * (14 + 2 * 130) + 30));
}

Instance poisson_cycle_case(const Options& o) {
  const int64_t side = (int64_t{1} << o.integer("levels")) + 1, cells = side * side;
  Draw draw(o);
  const Tensor u = at::zeros({side, side}, at::kDouble), f = draw.normal({side, side}, at::kDouble);
  return bounded(updating_instance_of(poisson_cycle, u, f), 8 * (3 * cells + 1),
                 cells * 4 * (4 * 7 + 8 + 6) / 3 + 10 * cells);
}

Instance pair_hmm_case(const Options& o) {
  const int64_t pairs = o.integer("pairs"), read = o.integer("read"),
                length = read + o.integer("more");
  Draw draw(o);
  const Tensor haplotypes =
      draw.integers({pairs, length}, 4).masked_fill_(draw.uniform({pairs, length}) < 0.01, 4);
  const Tensor start = draw.integers({pairs, 1}, length - read + 1);
  const Tensor copied = haplotypes.gather(1, start + at::arange(read, at::kLong));
  const Tensor reads =
      at::where(draw.uniform({pairs, read}) < 0.05, draw.integers({pairs, read}, 4), copied);
  const Tensor qualities = (10 + draw.integers({pairs, read}, 30)).to(at::kDouble);
  return bounded(instance_of(pair_hmm, reads, qualities, haplotypes),
                 8 * pairs * (2 * read + length + 1),
                 pairs * read * (2 * kFunction + length * (4 + 8 + 2)));
}

Instance motif_scan_case(const Options& o) {
  const int64_t batch = o.integer("batch"), length = o.integer("length"),
                motifs = o.integer("motifs"), width = o.integer("width"),
                sites = batch * motifs * (length - width + 1);
  Draw draw(o);
  const Tensor letters =
      draw.integers({batch, length}, 4).masked_fill_(draw.uniform({batch, length}) < 0.01, 4);
  return bounded(instance_of(motif_scan, letters, draw.normal({motifs, 4, width})),
                 8 * letters.numel() + 16 * motifs * width + 16 * batch * motifs,
                 sites * (2 * width + 2 + 3 * kFunction + 3));
}

Instance ray_march_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"),
                balls = o.integer("balls"), rays = height * width;
  Draw draw(o);
  const Tensor down = at::linspace(0.7, -0.7, height, at::kFloat),
               across = at::linspace(-1, 1, width, at::kFloat);
  const auto grid = at::meshgrid({down, across}, "ij");
  const Tensor ahead =
      at::stack({grid[1], grid[0], at::full_like(grid[0], 1.5)}, -1).view({rays, 3});
  const Tensor scene =
      at::cat({draw.uniform({balls, 3}, -1.2, 1.2), draw.uniform({balls, 1}, 0.3, 0.7)}, 1);
  const Tensor sun = at::tensor({0.6, 0.7, -0.4}, at::kFloat);
  const Tensor corners =
      at::tensor({1, -1, -1, -1, -1, 1, -1, 1, -1, 1, 1, 1}, at::kFloat).view({4, 3});
  return bounded(instance_of(ray_march, ahead, at::tensor({0.0, 0.4, -4.5}, at::kFloat), scene,
                             at::tensor({0.5, -0.4, 0.3, 0.6, 0.5, 0.6}, at::kFloat).view({2, 3}),
                             sun / sun.norm(), corners, at::tensor({0.5, 0.7, 0.9}, at::kFloat)),
                 4 * (6 * rays + 4 * balls + 3 + 6 + 3 + 12 + 3),
                 rays * ((32 + 4 + 12) * (10 * balls + 44) + 9 * kFunction + 60));
}

Instance harmonic_colours_case(const Options& o) {
  const int64_t count = o.integer("count");
  Draw draw(o);
  const Tensor places = draw.normal({count, 3});
  return bounded(instance_of(harmonic_colours, places, at::tensor({0.0, 0.0, -3.0}, at::kFloat),
                             draw.normal({count, 16, 3}, at::kHalf)),
                 count * (12 + 96 + 12) + 12, count * (9 + 60 + 3 * 34));
}

Instance splat_blend_case(const Options& o) {
  const int64_t tiles = o.integer("tiles"), count = o.integer("gaussians"), all = tiles * count;
  Draw draw(o);
  const Tensor middles = draw.uniform({tiles, count, 2}, -4, 20);
  const Tensor conics =
      at::stack({draw.uniform({tiles, count}, 0.05, 0.5), draw.uniform({tiles, count}, -0.04, 0.04),
                 draw.uniform({tiles, count}, 0.05, 0.5)},
                -1);
  const Tensor opacities = draw.uniform({tiles, count}, 0.1, 1),
               depths = draw.uniform({tiles, count}, 1, 10),
               colours = draw.uniform({tiles, count, 3});
  return bounded(instance_of(splat_blend, middles, conics, opacities, depths, colours,
                             at::tensor({0.1, 0.1, 0.2}, at::kFloat)),
                 4 * (10 * all + 3 + tiles * 256 * 4), 256 * all * (2 + 10 + kFunction + 8 + 6));
}

Instance tone_map_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"), pixels = height * width;
  Draw draw(o);
  return bounded(instance_of(tone_map, draw.normal({height, width, 3}).exp().to(at::kHalf),
                             at::tensor({0.2126, 0.7152, 0.0722}, at::kFloat)),
                 9 * pixels + 12, pixels * (6 + kFunction + 4 + 3 * (12 + 2 * kFunction + 5)));
}

}  // namespace

std::vector<Workload> passerby_cases() {
  const auto rows = [](const char* count) { return Axis{"height", count, "21", "rows"}; };
  const auto columns = [](const char* count) { return Axis{"width", count, "37", "columns"}; };
  return {
      {"warm_rain_f32",
       "Kessler's clouds and rain of columns of air, in place",
       {{"levels", "40", "7", "of a column"}, {"columns", "16384", "37", "columns of air"}},
       warm_rain_case,
       kSums},
      {"gas_dynamics_f64",
       "Euler's equations by linear cells, HLL's fluxes and Heun's steps",
       {rows("96"), columns("96"), {"steps", "2", "1", "steps"}},
       gas_dynamics_case},
      {"poisson_cycle_f64",
       "a multigrid's V cycle of red and black sweeps, in place",
       {{"levels", "8", "4", "of the grids: 2^levels + 1 cells of a side"}},
       poisson_cycle_case,
       kSums},
      {"pair_hmm_f64",
       "how likely reads come of haplotypes, by a pair HMM",
       {{"pairs", "64", "7", "reads with haplotypes"},
        {"read", "48", "11", "letters of a read"},
        {"more", "48", "8", "letters more of a haplotype"}},
       pair_hmm_case,
       kSums},
      {"motif_scan_f32",
       "motifs' best sites on both strands of sequences",
       {{"batch", "16", "3", "sequences"},
        {"length", "1000", "61", "letters of a sequence"},
        {"motifs", "32", "5", "motifs"},
        {"width", "12", "7", "letters of a motif"}},
       motif_scan_case,
       kSums},
      {"ray_march_f32",
       "rays through a scene of distances, lit and with soft shadows",
       {rows("72"), columns("96"), {"balls", "4", "3", "balls that melt together"}},
       ray_march_case,
       // normals are differences of distances that are near
       100 * kSums},
      {"harmonic_colours_f16",
       "Gaussians' colours by spherical harmonics of degree 3",
       {{"count", "196608", "203", "Gaussians"}},
       harmonic_colours_case,
       kSums},
      {"splat_blend_f32",
       "tiles of pixels blended from sorted Gaussians",
       {{"tiles", "16", "3", "of 16 x 16 pixels"}, {"gaussians", "64", "13", "of a tile"}},
       splat_blend_case,
       kSums},
      {"tone_map_f16",
       "a photograph of linear light to a screen's bytes",
       {rows("720"), columns("1280")},
       tone_map_case,
       kOneByte},
  };
}

}  // namespace graft::workloads::wild
