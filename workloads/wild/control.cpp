// Control: filters with matrices, planning by samples, actors and critics.

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// Kalman filters of tracks in a plane over observations (T, N, 2), with states (N, 4), covariances
/// (N, 4, 4) in Joseph's form and a gate that ignores outliers: the states on the way, the last
/// covariances, and the tracks' negative log-likelihoods.
std::tuple<at::Tensor, at::Tensor, at::Tensor> kalman_tracks(
    const at::Tensor& observed, const at::Tensor& start, const at::Tensor& spread,
    const at::Tensor& motion, const at::Tensor& sensor, const at::Tensor& motion_noise,
    const at::Tensor& sensor_noise) {
  const int64_t tracks = observed.size(1);
  const at::Tensor unit = at::eye(4, start.options());
  at::Tensor state = start.unsqueeze(-1), p = spread,
             surprise = at::zeros({tracks}, start.options());
  Tensors path;
  for (int64_t t = 0; t < observed.size(0); ++t) {
    state = at::matmul(motion, state);
    p = at::matmul(at::matmul(motion, p), motion.t()) + motion_noise;
    const at::Tensor error = observed.select(0, t).unsqueeze(-1) - at::matmul(sensor, state);
    const at::Tensor s = at::matmul(at::matmul(sensor, p), sensor.t()) + sensor_noise;
    const at::Tensor top = s.select(1, 0), low = s.select(1, 1);
    const at::Tensor a = top.select(1, 0), b = top.select(1, 1), c = low.select(1, 0),
                     d = low.select(1, 1);
    const at::Tensor determinant = a * d - b * c;
    const at::Tensor adjugate = at::stack({d, -b, -c, a}, -1).view({tracks, 2, 2});
    const at::Tensor inverse = adjugate / determinant.view({-1, 1, 1});
    const at::Tensor distance =
        at::matmul(at::matmul(error.transpose(1, 2), inverse), error).view(-1);
    at::Tensor gain = at::matmul(at::matmul(p, sensor.t()), inverse);
    gain = at::where((distance < 9.21).view({-1, 1, 1}), gain, 0);
    state = state + at::matmul(gain, error);
    const at::Tensor left = unit - at::matmul(gain, sensor);
    p = at::matmul(at::matmul(left, p), left.transpose(1, 2)) +
        at::matmul(at::matmul(gain, sensor_noise), gain.transpose(1, 2));
    surprise += 0.5 * (distance + determinant.log());
    path.push_back(state.squeeze(-1));
  }
  return {at::stack(path), p, surprise};
}

/// The cross-entropy method's plan to swing up a pendulum from its angle and speed (2): actions'
/// mean and deviation (H) move to those of the cheapest samples, from given normals (I, N, H). Also
/// the lowest cost.
std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_plan(const at::Tensor& start,
                                                                  const at::Tensor& first_mean,
                                                                  const at::Tensor& first_deviation,
                                                                  const at::Tensor& noise,
                                                                  int64_t elites) {
  constexpr double kTick = 0.05, kPi = std::numbers::pi;
  at::Tensor mean = first_mean, deviation = first_deviation, lowest;
  for (int64_t i = 0; i < noise.size(0); ++i) {
    const at::Tensor actions = (mean + deviation * noise.select(0, i)).clamp(-2, 2);
    at::Tensor angle = start.select(0, 0).expand({noise.size(1)}),
               speed = start.select(0, 1).expand({noise.size(1)});
    at::Tensor cost = at::zeros_like(actions.select(1, 0));
    for (int64_t t = 0; t < noise.size(2); ++t) {
      const at::Tensor action = actions.select(1, t);
      const at::Tensor wrapped = at::remainder(angle + kPi, 2 * kPi) - kPi;
      cost = cost + wrapped.square() + 0.1 * speed.square() + 0.001 * action.square();
      speed = (speed + (15 * angle.sin() + 3 * action) * kTick).clamp(-8, 8);
      angle = angle + speed * kTick;
    }
    const auto [best, index] = cost.topk(elites, -1, /*largest=*/false, /*sorted=*/true);
    const at::Tensor chosen = actions.index_select(0, index);
    mean = at::lerp(mean, chosen.mean(0), 0.9);
    deviation = at::lerp(deviation, chosen.std(0), 0.9).clamp_min(0.05);
    lowest = best.select(0, 0);
  }
  return {mean, deviation, lowest};
}

/// Soft actor-critic after its networks: squashed actions from means and log-deviations (N, A), the
/// losses of two critics' values (2, N), of the actor and of the temperature; then the targets'
/// parameters move towards those that learn, in place.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> soft_actor_critic(
    const at::Tensor& mean, const at::Tensor& log_deviation, const at::Tensor& noise,
    const at::Tensor& q, const at::Tensor& next_q, const at::Tensor& reward, const at::Tensor& end,
    const at::Tensor& log_alpha, const Tensors& targets, const Tensors& online) {
  const at::Tensor log_std = log_deviation.clamp(-20, 2);
  const at::Tensor before = mean + log_std.exp() * noise;
  const at::Tensor normal = -0.5 * noise.square() - log_std - 0.5 * std::log(2 * std::numbers::pi);
  const at::Tensor squash = 2 * (std::numbers::ln2 - before - at::softplus(-2 * before));
  const at::Tensor log_p = (normal - squash).sum(-1), alpha = log_alpha.exp();
  const at::Tensor goal = reward + 0.99 * (1 - end) * (next_q.amin(0) - alpha * log_p);
  const at::Tensor critic = (q - goal).square().mean(1).sum();
  const at::Tensor actor = (alpha * log_p - q.amin(0)).mean();
  const at::Tensor temperature = -(log_alpha * (log_p - mean.size(1))).mean();
  for (size_t i = 0; i < targets.size(); ++i) targets[i].lerp_(online[i], 0.005);
  return {at::tanh(before), critic, actor, temperature};
}

Instance kalman_tracks_case(const Options& o) {
  const int64_t steps = o.integer("steps"), tracks = o.integer("tracks");
  Draw draw(o);
  const at::Tensor motion = at::eye(4), sensor = at::eye(2, 4);
  motion.select(0, 0).select(0, 2).fill_(0.1);  // positions move by velocities
  motion.select(0, 1).select(0, 3).fill_(0.1);
  const at::Tensor observed = (draw.normal({steps, tracks, 2}) * 0.3).cumsum(0);
  const at::Tensor spread = at::eye(4).expand({tracks, 4, 4}).contiguous();
  // In and out: observations and states of each step; covariances, the first states, likelihoods.
  return bounded(instance_of(kalman_tracks, observed, draw.normal({tracks, 4}) * 0.1, spread,
                             motion, sensor, at::eye(4) * 0.05, at::eye(2) * 0.1),
                 4 * (tracks * (6 * steps + 2 * 16 + 5) + 2 * 16 + 8 + 4),
                 steps * tracks * (1000 + kFunction));
}

Instance cross_entropy_plan_case(const Options& o) {
  const int64_t rounds = o.integer("rounds"), samples = o.integer("samples"),
                horizon = o.integer("horizon"), count = rounds * samples * horizon;
  Draw draw(o);
  return bounded(instance_of(cross_entropy_plan, at::tensor({3.0f, 0.5f}), at::zeros({horizon}),
                             at::ones({horizon}), draw.normal({rounds, samples, horizon}),
                             o.integer("elites")),
                 4 * (count + 4 * horizon + 3), (kFunction + 24) * count);
}

Instance soft_actor_critic_case(const Options& o) {
  const int64_t batch = o.integer("batch"), actions = o.integer("actions"),
                hidden = o.integer("hidden"), inputs = 17 + actions;
  Draw draw(o);
  const auto normal = [&] { return draw.normal({batch, actions}); };
  const at::Tensor mean = normal(), log_deviation = normal(), noise = normal();
  const at::Tensor q = draw.normal({2, batch}), next_q = draw.normal({2, batch}),
                   reward = draw.normal({batch});
  const at::Tensor end = (draw.uniform({batch}) < 0.05).to(at::kFloat);
  const auto parameters = [&] {
    Tensors all;
    for (int64_t critic = 0; critic < 2; ++critic)
      for (const auto& [out, in] :
           {std::pair{hidden, inputs}, {hidden, hidden}, {int64_t{1}, hidden}})
        all.push_back(draw.normal({out, in})), all.push_back(draw.normal({out}));
    return all;
  };
  const Tensors targets = parameters(), online = parameters();
  const int64_t count = 2 * (hidden * (inputs + 1 + hidden + 1 + 1) + 1);
  return bounded(updating_instance_of(soft_actor_critic, mean, log_deviation, noise, q, next_q,
                                      reward, end, at::full({}, -1.2, at::kFloat), targets, online),
                 4 * (4 * batch * actions + 6 * batch + 4 + 3 * count),
                 batch * ((4 * kFunction + 14) * actions + 15) + 3 * count);
}

}  // namespace

std::vector<Workload> control_cases() {
  return {
      {"kalman_tracks_f32",
       "Kalman filters of tracks in a plane, by small matrices",
       {{"steps", "12", "5", "observations of a track"}, {"tracks", "128", "13", "tracks"}},
       kalman_tracks_case,
       10 * kSums},
      {"cross_entropy_plan_f32",
       "actions by the cross-entropy method",
       {{"rounds", "2", "2", "rounds"},
        {"samples", "128", "37", "plans of a round"},
        {"horizon", "6", "5", "actions of a plan"},
        {"elites", "16", "7", "plans that are kept"}},
       cross_entropy_plan_case,
       kSums},
      {"soft_actor_critic_f32",
       "soft actor-critic's losses, targets moved in place",
       {{"batch", "256", "37", "transitions"},
        {"actions", "6", "3", "of a transition"},
        {"hidden", "128", "11", "hidden units of a critic"}},
       soft_actor_critic_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
