"""Control: filters with matrices, planning by samples, actors and critics."""

import math

import torch
import torch.nn.functional as F

from .draw import uniform


def kalman_tracks(observed, start, spread, motion, sensor, motion_noise, sensor_noise):
    steps, tracks, _ = observed.shape
    state, p = start[..., None], spread
    unit = torch.eye(4, dtype=start.dtype)
    path, surprise = [], torch.zeros(tracks, dtype=start.dtype)
    for t in range(steps):
        state = motion @ state
        p = motion @ p @ motion.t() + motion_noise
        error = observed[t, ..., None] - sensor @ state
        s = sensor @ p @ sensor.t() + sensor_noise
        a, b, c, d = s[:, 0, 0], s[:, 0, 1], s[:, 1, 0], s[:, 1, 1]
        determinant = a * d - b * c
        adjugate = torch.stack([d, -b, -c, a], -1).view(tracks, 2, 2)
        inverse = adjugate / determinant.view(-1, 1, 1)
        distance = (error.transpose(1, 2) @ inverse @ error).view(-1)
        gain = p @ sensor.t() @ inverse
        gain = torch.where((distance < 9.21).view(-1, 1, 1), gain, 0)
        state = state + gain @ error
        left = unit - gain @ sensor
        p = left @ p @ left.transpose(1, 2) + gain @ sensor_noise @ gain.transpose(1, 2)
        surprise += 0.5 * (distance + determinant.log())
        path.append(state.squeeze(-1))
    return torch.stack(path), p, surprise


def cross_entropy_plan(start, mean, deviation, noise, elites):
    rounds, samples, horizon = noise.shape
    dt = 0.05
    for i in range(rounds):
        actions = (mean + deviation * noise[i]).clamp(-2, 2)
        angle, speed = start[0].expand(samples), start[1].expand(samples)
        cost = torch.zeros_like(actions[:, 0])
        for t in range(horizon):
            action = actions[:, t]
            wrapped = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
            cost = cost + wrapped.square() + 0.1 * speed.square() + 0.001 * action.square()
            speed = (speed + (15 * angle.sin() + 3 * action) * dt).clamp(-8, 8)
            angle = angle + speed * dt
        best, index = cost.topk(elites, largest=False, sorted=True)
        chosen = actions.index_select(0, index)
        mean = torch.lerp(mean, chosen.mean(0), 0.9)
        deviation = torch.lerp(deviation, chosen.std(0), 0.9).clamp_min(0.05)
    return mean, deviation, best[0]


def soft_actor_critic(mean, log_deviation, noise, q, next_q, reward, end, log_alpha, targets, online):
    log_std = log_deviation.clamp(-20, 2)
    before = mean + log_std.exp() * noise
    normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    squash = 2 * (math.log(2) - before - F.softplus(-2 * before))
    log_p = (normal - squash).sum(-1)
    alpha = log_alpha.exp()
    goal = reward + 0.99 * (1 - end) * (next_q.amin(0) - alpha * log_p)
    critic = (q - goal).square().mean(1).sum()
    actor = (alpha * log_p - q.amin(0)).mean()
    temperature = -(log_alpha * (log_p - mean.shape[1])).mean()
    for target, parameter in zip(targets, online):
        target.lerp_(parameter, 0.005)
    return torch.tanh(before), critic, actor, temperature


def kalman_tracks_case(steps=12, tracks=128):
    motion, sensor = torch.eye(4), torch.eye(2, 4)
    motion[0, 2] = motion[1, 3] = 0.1
    observed = (torch.randn(steps, tracks, 2) * 0.3).cumsum(0)
    spread = torch.eye(4).expand(tracks, 4, 4).contiguous()
    noises = torch.eye(4) * 0.05, torch.eye(2) * 0.1
    return kalman_tracks, (observed, torch.randn(tracks, 4) * 0.1, spread, motion, sensor, *noises)


def cross_entropy_plan_case(rounds=2, samples=128, horizon=6, elites=16):
    start, mean = torch.tensor([3.0, 0.5]), torch.zeros(horizon)
    return cross_entropy_plan, (start, mean, torch.ones(horizon), torch.randn(rounds, samples, horizon), elites)


def soft_actor_critic_case(batch=256, actions=6, hidden=128):
    normals = [torch.randn(batch, actions) for _ in range(3)]
    values = torch.randn(2, batch), torch.randn(2, batch), torch.randn(batch)
    end, log_alpha = (uniform((batch,)) < 0.05).float(), torch.tensor(-1.2)
    shapes = 2 * ((hidden, 17 + actions), (hidden,), (hidden, hidden), (hidden,), (1, hidden), (1,))
    targets, online = ([torch.randn(shape) for shape in shapes] for _ in range(2))
    return soft_actor_critic, (*normals, *values, end, log_alpha, targets, online)


CASES = {
    "kalman_tracks_f32": (kalman_tracks_case, {}),
    "cross_entropy_plan_f32": (cross_entropy_plan_case, {}),
    "soft_actor_critic_f32": (soft_actor_critic_case, {}),
}
