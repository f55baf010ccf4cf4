"""Passers-by: programs of many fields, from rain and gas to genes, rays and film."""

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide

GAS = 0.4  # the ratio of a gas's heat capacities, less 1


def warm_rain(theta, vapour, cloud, rain, fallen, pressure, density):
    time, depth, latent = 10, 500, 2.5e6 / 1003
    p, rho = pressure[:, None], density[:, None]
    thin, exner = 0.001 * rho, (p / 1e5).pow(0.2857)
    # Rain falls.
    speed = 36.34 * (thin * rain).pow(0.1364) * (rho[:1] / rho).sqrt()
    flux = rho * rain * speed
    fallen.add_(flux[0], alpha=time / 1000)
    above = F.pad(flux[1:], (0, 0, 0, 1))
    rain.add_((above - flux) / (rho * depth), alpha=time)
    # Cloud becomes rain.
    started = cloud - time * (0.001 * (cloud - 0.001)).clamp_min(0)
    made = cloud - started / (1 + time * 2.2 * rain.pow(0.875))
    left, wet = (cloud - made).clamp_min(0), (rain + made).clamp_min(0)
    # Vapour condenses, rain evaporates.
    temperature = theta * exner
    saturated = 380 / p * (17.27 * (temperature - 273.15) / (temperature - 36)).exp()
    excess = (vapour - saturated) / (1 + saturated * (237.3 * 17.27 * latent) / (temperature - 36).square())
    drops = thin * wet
    rate = (1.6 + 124.9 * drops.pow(0.2046)) * drops.pow(0.525) / (2.55e6 * 100 / (p * saturated) + 5.4e5)
    dried = time * rate * (saturated - vapour).clamp_min(0) / (thin * saturated)
    dried = torch.minimum(torch.minimum(dried, (-excess - left).clamp_min(0)), wet)
    condensed = torch.maximum(excess, -left)
    theta.add_(latent / exner * (condensed - dried))
    vapour.copy_((vapour - condensed + dried).clamp_min(0))
    cloud.copy_(left + condensed)
    rain.copy_(wet - dried)
    rain.masked_fill_(rain < 1e-12, 0)


def primitive_of(u):
    density = u[0]
    speeds = u[1:3] / density
    moving = 0.5 * density * speeds.square().sum(0)
    return torch.cat([u[:1], speeds, (GAS * (u[3] - moving))[None]])


def conserved_and_flux(w, axis):
    density, pressure, speed, x, y = w[0], w[3], w[1 + axis], w[1], w[2]
    energy = pressure / GAS + 0.5 * density * (x * x + y * y)
    u = torch.stack([density, density * x, density * y, energy])
    flux = u * speed
    flux[1 + axis].add_(pressure)
    flux[3].add_(pressure * speed)
    return u, flux


def outflow(w, axis):
    back, ahead = w - torch.roll(w, 1, 1 + axis), torch.roll(w, -1, 1 + axis) - w
    smaller = torch.where(back.abs() < ahead.abs(), back, ahead)
    slope = torch.where(back * ahead > 0, smaller, 0)
    left, right = w + 0.5 * slope, torch.roll(w - 0.5 * slope, -1, 1 + axis)
    (ul, fl), (ur, fr) = conserved_and_flux(left, axis), conserved_and_flux(right, axis)
    cl, cr = ((1 + GAS) * left[3] / left[0]).sqrt(), ((1 + GAS) * right[3] / right[0]).sqrt()
    vl, vr = left[1 + axis], right[1 + axis]
    sl, sr = torch.minimum(vl - cl, vr - cr).clamp_max(0), torch.maximum(vl + cl, vr + cr).clamp_min(0)
    flux = (sr * fl - sl * fr + sl * sr * (ur - ul)) / (sr - sl)
    return flux - torch.roll(flux, 1, 1 + axis)


def gas_dynamics(start, steps):
    u, time = start, torch.zeros((), dtype=start.dtype)
    for _ in range(steps):
        w = primitive_of(u)
        sound = ((1 + GAS) * w[3] / w[0]).sqrt()
        dt = 0.4 / (w[1:3].abs().amax(0) + sound).amax()
        half = u - dt * (outflow(w, 0) + outflow(w, 1))
        v = primitive_of(half)
        u = 0.5 * (u + half - dt * (outflow(v, 0) + outflow(v, 1)))
        time = time + dt
    return u, time


def red_black(u, f, square, sweeps):
    n = u.shape[0]
    for _ in range(sweeps):
        for i, j in (1, 1), (2, 2), (1, 2), (2, 1):

            def cells(of, dy, dx, i=i, j=j):
                return of[i + dy : n - 1 + dy : 2, j + dx : n - 1 + dx : 2]

            around = cells(u, -1, 0) + cells(u, 1, 0) + cells(u, 0, -1) + cells(u, 0, 1)
            cells(u, 0, 0).copy_(0.25 * (around - square * cells(f, 0, 0)))


def poisson_residual(u, f, square):
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    inside = f[1:-1, 1:-1] - (around - 4 * u[1:-1, 1:-1]) / square
    return F.pad(inside, (1, 1, 1, 1))


def restricted(r):
    n = r.shape[0]

    def near(dy, dx):
        return r[2 + dy : n - 2 + dy : 2, 2 + dx : n - 2 + dx : 2]

    sides = near(-1, 0) + near(1, 0) + near(0, -1) + near(0, 1)
    corners = near(-1, -1) + near(-1, 1) + near(1, -1) + near(1, 1)
    return F.pad(0.25 * near(0, 0) + 0.125 * sides + 0.0625 * corners, (1, 1, 1, 1))


def prolonged(c):
    n = 2 * c.shape[0] - 1
    fine = torch.zeros(n, n, dtype=c.dtype)
    fine[::2, ::2] = c
    fine[1::2, ::2] = 0.5 * (c[:-1] + c[1:])
    fine[:, 1::2] = 0.5 * (fine[:, : n - 1 : 2] + fine[:, 2::2])
    return fine


def v_cycle(u, f, square):
    if u.shape[0] <= 5:
        red_black(u, f, square, 8)
        return
    red_black(u, f, square, 2)
    coarse = restricted(poisson_residual(u, f, square))
    error = torch.zeros_like(coarse)
    v_cycle(error, coarse, 4 * square)
    u.add_(prolonged(error))
    red_black(u, f, square, 2)


def poisson_cycle(u, f):
    side = 1 / (u.shape[0] - 1)
    v_cycle(u, f, side * side)
    return poisson_residual(u, f, side * side).square().mean().sqrt()


def pair_hmm(reads, qualities, haplotypes):
    opens, extends = 3.1622776601683795e-05, 0.1
    pairs, length = haplotypes.shape
    error = torch.pow(10.0, -qualities / 10)[..., None]
    a, b = reads[..., None], haplotypes[:, None]
    same = (a == b) | (a == 4) | (b == 4)
    prior = torch.where(same, 1 - error, error / 3)
    # Deletions along a row in closed form: each letter extends all that opened before.
    place = torch.arange(length, dtype=qualities.dtype)
    apart = place - place[:, None] - 1
    deletes = torch.where(apart >= 0, opens * torch.pow(extends, apart.clamp_min(0)), 0)
    match = torch.zeros(pairs, length + 1, dtype=qualities.dtype)
    insert, remove = torch.zeros_like(match), torch.full_like(match, 1 / length)
    for i in range(reads.shape[1]):
        before = (1 - 2 * opens) * match[:, :-1] + (1 - extends) * (insert[:, :-1] + remove[:, :-1])
        now = prior[:, i] * before
        insert = opens * match + extends * insert
        match, remove = F.pad(now, (1, 0)), F.pad(now @ deletes, (1, 0))
    return (match + insert)[:, 1:].sum(1).log10()


def motif_scan(letters, motifs):
    coded = F.one_hot(letters, 5)[..., :4].transpose(1, 2).to(motifs.dtype)
    forward, reverse = F.conv1d(coded, motifs), F.conv1d(coded, motifs.flip(1, 2))
    best, where = torch.maximum(forward, reverse).max(-1)
    return best, where, torch.logaddexp(forward, reverse).logsumexp(-1)


def length_of(v):
    return v.square().sum(-1, keepdim=True).sqrt()


def scene_distance(p, balls, box):
    centres, radii = balls[:, :3], balls[:, 3]
    ball = ((p[:, None] - centres).square().sum(-1).sqrt() - radii).amin(1, keepdim=True)
    q = (p - box[0]).abs() - box[1]
    cube = length_of(q.clamp_min(0)) + q.amax(-1, keepdim=True).clamp_max(0) - 0.05
    h = (0.5 + (cube - ball)).clamp(0, 1)
    melted = cube + (ball - cube) * h - 0.5 * h * (1 - h)
    return torch.minimum(melted, p[:, 1:2] + 1)


def ray_march(rays, camera, balls, box, sun, corners, sky):
    ray = rays / length_of(rays)
    t = torch.full((rays.shape[0], 1), 0.1)
    for _ in range(32):
        t = (t + scene_distance(camera + t * ray, balls, box)).clamp_max(24)
    hit = camera + t * ray
    slope = torch.zeros_like(hit)
    for i in range(4):
        slope = slope + corners[i] * scene_distance(hit + 0.01 * corners[i], balls, box)
    normal = slope / (length_of(slope) + 1e-6)
    light, way = torch.ones_like(t), torch.full_like(t, 0.1)
    for _ in range(12):
        far = scene_distance(hit + 0.02 * normal + way * sun, balls, box)
        light = torch.minimum(light, 8 * far / way)
        way = way + far.clamp(0.05, 0.5)
    facing = (normal * sun).sum(-1, keepdim=True).clamp_min(0)
    mirrored = ray - 2 * (ray * normal).sum(-1, keepdim=True) * normal
    shine = (mirrored * sun).sum(-1, keepdim=True).clamp_min(0).pow(32)
    lit = 0.2 + light.clamp(0, 1) * (0.8 * facing + 0.5 * shine)
    fog = 1 - (-0.002 * t.pow(3)).exp()
    return torch.lerp(lit.expand_as(hit), sky.expand_as(hit), fog).clamp(0, 1).pow(1 / 2.2)


def harmonic_colours(places, camera, harmonics):
    away = places - camera
    x, y, z = (away / length_of(away)).split(1, 1)
    xx, yy, zz, xy, yz, xz = x * x, y * y, z * z, x * y, y * z, x * z
    sh = wide(harmonics).unbind(1)
    colour = 0.28209479177387814 * sh[0]
    colour = (
        colour - 0.4886025119029199 * y * sh[1] + 0.4886025119029199 * z * sh[2] - 0.4886025119029199 * x * sh[3]
    )
    colour = (
        colour
        + 1.0925484305920792 * xy * sh[4]
        - 1.0925484305920792 * yz * sh[5]
        + 0.31539156525252005 * (2 * zz - xx - yy) * sh[6]
        - 1.0925484305920792 * xz * sh[7]
        + 0.5462742152960396 * (xx - yy) * sh[8]
    )
    colour = (
        colour
        - 0.5900435899266435 * y * (3 * xx - yy) * sh[9]
        + 2.890611442640554 * xy * z * sh[10]
        - 0.4570457994644658 * y * (4 * zz - xx - yy) * sh[11]
        + 0.3731763325901154 * z * (2 * zz - 3 * xx - 3 * yy) * sh[12]
        - 0.4570457994644658 * x * (4 * zz - xx - yy) * sh[13]
        + 1.445305721320277 * z * (xx - yy) * sh[14]
        - 0.5900435899266435 * x * (xx - 3 * yy) * sh[15]
    )
    return (colour + 0.5).clamp_min(0)


def splat_blend(middles, conics, opacities, depths, colours, background):
    order = depths.argsort(1)

    def ordered(of):
        return of.gather(1, order[..., None].expand(-1, -1, of.shape[2]))[:, None]

    side = torch.arange(16, dtype=middles.dtype) + 0.5
    down, across = torch.meshgrid(side, side, indexing="ij")
    pixels = torch.stack([across.flatten(), down.flatten()], -1)
    dx, dy = (pixels[:, None] - ordered(middles)).unbind(-1)
    a, b, c = ordered(conics).unbind(-1)
    power = -0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy
    covered = opacities.gather(1, order)[:, None] * power.exp()
    alpha = covered.clamp_max(0.99).masked_fill(covered < 1.0 / 255, 0)
    through = (1 - alpha).cumprod(-1)
    before = F.pad(through[..., :-1], (1, 0), value=1)
    weight = alpha * before * (before > 1e-4)
    rest = through[..., -1]
    return weight @ ordered(colours).squeeze(1) + rest[..., None] * background, rest


def tone_map(light, weights):
    height, width, _ = light.shape
    x = wide(light)
    brightness = (x * weights).sum(-1)
    exposure = 0.18 / (brightness + 1e-4).log().mean().exp()
    down, across = torch.linspace(-1, 1, height)[:, None], torch.linspace(-1, 1, width)
    corner = 1 - 0.25 * (down.square() + across.square())
    e = x * exposure * corner[..., None]
    film = ((e * (2.51 * e + 0.03)) / (e * (2.43 * e + 0.59) + 0.14)).clamp(0, 1)
    coded = torch.where(film <= 0.0031308, 12.92 * film, 1.055 * film.pow(1 / 2.4) - 0.055)
    return (255 * coded + 0.5).to(torch.uint8)


def warm_rain_case(levels=40, columns=16384):
    height = 500 * (torch.arange(float(levels)) + 0.5)
    pressure, temperature = 1e5 * (height / -8000).exp(), 300 - 0.0065 * height
    p, t = pressure[:, None], temperature[:, None]
    saturated = 380 / p * (17.27 * (t - 273.15) / (t - 36)).exp()
    theta = t / (p / 1e5).pow(0.2857) + 0.5 * torch.randn(levels, columns)
    vapour = saturated * uniform((levels, columns), 0.7, 1.1)
    cloud, rain = (uniform((levels, columns), -2e-3, 2e-3).clamp_min(0) for _ in range(2))
    state = theta, vapour, cloud, rain, torch.zeros(columns)
    return warm_rain, (*state, pressure, pressure / (287 * temperature))


def gas_dynamics_case(height=96, width=96, steps=2):
    def noise():
        return 0.02 * torch.randn(height, width)

    # A dense stream between two that flow against it.
    inside = (torch.linspace(-1, 1, height)[:, None].abs() < 0.5).expand(height, width)
    density = torch.where(inside, 2.0, 1.0) + noise()
    down, along = noise(), torch.where(inside, 0.5, -0.5) + noise()
    energy = 2.5 / GAS + 0.5 * density * (down.square() + along.square())
    return gas_dynamics, (torch.stack([density, density * down, density * along, energy]).double(), steps)


def poisson_cycle_case(levels=8):
    side = 2**levels + 1
    return poisson_cycle, (torch.zeros(side, side, dtype=torch.float64), torch.randn(side, side).double())


def pair_hmm_case(pairs=64, read=48, more=48):
    length = read + more
    haplotypes = integers((pairs, length), 4).masked_fill_(torch.rand(pairs, length) < 0.01, 4)
    copied = haplotypes.gather(1, integers((pairs, 1), more + 1) + torch.arange(read))
    reads = torch.where(torch.rand(pairs, read) < 0.05, integers((pairs, read), 4), copied)
    return pair_hmm, (reads, (10 + integers((pairs, read), 30)).double(), haplotypes)


def motif_scan_case(batch=16, length=1000, motifs=32, width=12):
    letters = integers((batch, length), 4).masked_fill_(torch.rand(batch, length) < 0.01, 4)
    return motif_scan, (letters, torch.randn(motifs, 4, width))


def ray_march_case(height=72, width=96, balls=4):
    down, across = torch.meshgrid(torch.linspace(0.7, -0.7, height), torch.linspace(-1, 1, width), indexing="ij")
    ahead = torch.stack([across, down, torch.full_like(down, 1.5)], -1).view(height * width, 3)
    scene = torch.cat([uniform((balls, 3), -1.2, 1.2), uniform((balls, 1), 0.3, 0.7)], 1)
    sun = torch.tensor([0.6, 0.7, -0.4])
    corners = torch.tensor([[1.0, -1, -1], [-1, -1, 1], [-1, 1, -1], [1, 1, 1]])
    box = torch.tensor([[0.5, -0.4, 0.3], [0.6, 0.5, 0.6]])
    lights = sun / sun.norm(), corners, torch.tensor([0.5, 0.7, 0.9])
    return ray_march, (ahead, torch.tensor([0.0, 0.4, -4.5]), scene, box, *lights)


def harmonic_colours_case(count=196608):
    camera = torch.tensor([0.0, 0.0, -3.0])
    return harmonic_colours, (torch.randn(count, 3), camera, torch.randn(count, 16, 3).half())


def splat_blend_case(tiles=16, gaussians=64):
    sizes = tiles, gaussians
    conics = torch.stack([uniform(sizes, *ends) for ends in ((0.05, 0.5), (-0.04, 0.04), (0.05, 0.5))], -1)
    data = uniform((*sizes, 2), -4, 20), conics, uniform(sizes, 0.1, 1), uniform(sizes, 1, 10)
    return splat_blend, (*data, torch.rand(*sizes, 3), torch.tensor([0.1, 0.1, 0.2]))


def tone_map_case(height=720, width=1280):
    return tone_map, (torch.randn(height, width, 3).exp().half(), torch.tensor([0.2126, 0.7152, 0.0722]))


CASES = {
    "warm_rain_f32": (warm_rain_case, {}),
    "gas_dynamics_f64": (gas_dynamics_case, {}),
    "poisson_cycle_f64": (poisson_cycle_case, {}),
    "pair_hmm_f64": (pair_hmm_case, {}),
    "motif_scan_f32": (motif_scan_case, {}),
    "ray_march_f32": (ray_march_case, {}),
    "harmonic_colours_f16": (harmonic_colours_case, {}),
    "splat_blend_f32": (splat_blend_case, {}),
    "tone_map_f16": (tone_map_case, {}),
}
