// Recurrences over time, step by step as users write them.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// RWKV-4's mixing of k and v (B, T, D) with decays and bonuses (D), kept in range by a running
/// maximum.
at::Tensor weighted_key_value(const at::Tensor& k, const at::Tensor& v, const at::Tensor& decay,
                              const at::Tensor& bonus) {
  at::Tensor out = at::empty_like(v);
  at::Tensor above = at::zeros_like(k.select(1, 0)), below = at::zeros_like(above);
  at::Tensor highest = at::full_like(above, -1e30);
  for (int64_t t = 0; t < k.size(1); ++t) {
    const at::Tensor key = k.select(1, t), value = v.select(1, t);
    const at::Tensor now = key + bonus, top = at::maximum(highest, now);
    const at::Tensor past = (highest - top).exp(), fresh = (now - top).exp();
    out.select(1, t).copy_((past * above + fresh * value) / (past * below + fresh));
    const at::Tensor decayed = highest - decay;
    highest = at::maximum(decayed, key);
    const at::Tensor kept = (decayed - highest).exp(), added = (key - highest).exp();
    above = kept * above + added * value;
    below = kept * below + added;
  }
  return out;
}

/// Kalman filters of a level and a trend over N series (T, N): the levels, and each series'
/// log-likelihood. Noises (N): of level, trend and observation.
std::tuple<at::Tensor, at::Tensor> kalman_filter(const at::Tensor& series,
                                                 const at::Tensor& level_noise,
                                                 const at::Tensor& trend_noise,
                                                 const at::Tensor& noise) {
  at::Tensor levels = at::empty_like(series);
  at::Tensor level = series.select(0, 0), trend = at::zeros_like(level);
  at::Tensor p11 = at::ones_like(level), p12 = at::zeros_like(level), p22 = at::ones_like(level);
  at::Tensor likelihood = at::zeros_like(level);
  for (int64_t t = 0; t < series.size(0); ++t) {
    level = level + trend;
    p11 = p11 + 2 * p12 + p22 + level_noise;
    p12 = p12 + p22;
    p22 = p22 + trend_noise;
    const at::Tensor error = series.select(0, t) - level, spread = p11 + noise;
    const at::Tensor gain = p11 / spread, trend_gain = p12 / spread;
    level = level + gain * error;
    trend = trend + trend_gain * error;
    p22 = p22 - trend_gain * p12;
    p12 = (1 - gain) * p12;
    p11 = (1 - gain) * p11;
    likelihood = likelihood - 0.5 * (spread.log() + error * error / spread);
    levels.select(0, t).copy_(level);
  }
  return {levels, likelihood};
}

/// The likeliest tags of sequences by Viterbi's algorithm: emissions (B, T, K), transitions (K, K);
/// tags (B, T) and their score (B).
std::tuple<at::Tensor, at::Tensor> viterbi(const at::Tensor& emissions,
                                           const at::Tensor& transitions) {
  at::Tensor score = emissions.select(1, 0);
  std::vector<at::Tensor> from;
  for (int64_t t = 1; t < emissions.size(1); ++t) {
    const auto [best, tag] = (score.unsqueeze(2) + transitions).max(1);
    score = best + emissions.select(1, t);
    from.push_back(tag);
  }
  const auto [total, last] = score.max(1, /*keepdim=*/true);
  std::vector<at::Tensor> path{last};
  for (size_t t = from.size(); t-- > 0;) path.insert(path.begin(), from[t].gather(1, path.front()));
  return {at::cat(path, 1), total.squeeze(1)};
}

/// Mamba's selective scan, step by step: x and steps (B, T, D), rates (D, N), inputs and outputs
/// (B, T, N); y (B, T, D).
at::Tensor selective_scan(const at::Tensor& x, const at::Tensor& steps, const at::Tensor& rates,
                          const at::Tensor& inputs, const at::Tensor& outputs) {
  at::Tensor state = at::zeros({x.size(0), x.size(2), rates.size(1)}, x.options());
  std::vector<at::Tensor> y;
  for (int64_t t = 0; t < x.size(1); ++t) {
    const at::Tensor step = steps.select(1, t).unsqueeze(-1);
    const at::Tensor driven =
        step * inputs.select(1, t).unsqueeze(1) * x.select(1, t).unsqueeze(-1);
    state = (step * rates).exp() * state + driven;
    y.push_back((state * outputs.select(1, t).unsqueeze(1)).sum(-1));
  }
  return at::stack(y, 1);
}

/// Generalised advantage estimation over rewards, values and ends (T, N), and the values after the
/// last step (N): advantages, normalised over all, and returns.
std::tuple<at::Tensor, at::Tensor> advantages(const at::Tensor& rewards, const at::Tensor& values,
                                              const at::Tensor& ends, const at::Tensor& after) {
  at::Tensor out = at::zeros_like(rewards), running = at::zeros_like(after), next = after;
  for (int64_t t = rewards.size(0) - 1; t >= 0; --t) {
    const at::Tensor going = 1 - ends.select(0, t), value = values.select(0, t);
    const at::Tensor surprise = rewards.select(0, t) + 0.99 * next * going - value;
    running = surprise + 0.99 * 0.95 * going * running;
    out.select(0, t).copy_(running);
    next = value;
  }
  const at::Tensor returns = out + values;
  return {(out - out.mean()) / (out.std() + 1e-8), returns};
}

Instance weighted_key_value_case(const Options& o) {
  const int64_t batch = o.integer("batch"), steps = o.integer("steps"), width = o.integer("width"),
                count = batch * steps * width;
  Draw draw(o);
  const at::Tensor k = draw.normal({batch, steps, width}), v = draw.normal({batch, steps, width});
  return bounded(
      instance_of(weighted_key_value, k, v, draw.uniform({width}, 0.1, 2), draw.normal({width})),
      4 * (3 * count + 2 * width), (4 * kFunction + 16) * count);
}

Instance kalman_filter_case(const Options& o) {
  const int64_t steps = o.integer("steps"), series = o.integer("series");
  Draw draw(o);
  const auto noise = [&](double high) { return draw.uniform({series}, 0.01, high); };
  const at::Tensor walks = (draw.normal({steps, series}) * 0.3).cumsum(0);
  const at::Tensor level = noise(0.2), trend = noise(0.05), observed = noise(1);
  return bounded(instance_of(kalman_filter, walks, level, trend, observed),
                 4 * (2 * steps * series + 4 * series), (23 + kFunction) * steps * series);
}

Instance viterbi_case(const Options& o) {
  const int64_t batch = o.integer("batch"), steps = o.integer("steps"), tags = o.integer("tags");
  Draw draw(o);
  return bounded(instance_of(viterbi, draw.normal({batch, steps, tags}), draw.normal({tags, tags})),
                 4 * (batch * steps * tags + tags * tags) + (8 * steps + 4) * batch,
                 2 * batch * (steps - 1) * tags * tags);
}

Instance selective_scan_case(const Options& o) {
  const int64_t batch = o.integer("batch"), steps = o.integer("steps"), width = o.integer("width"),
                states = o.integer("states"), count = batch * steps * width;
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, steps, width}),
                   step = draw.uniform({batch, steps, width}, 0.001, 0.1);
  const at::Tensor rates = -draw.uniform({width, states}, 1, 16);
  const at::Tensor in = draw.normal({batch, steps, states}),
                   out = draw.normal({batch, steps, states});
  return bounded(instance_of(selective_scan, x, step, rates, in, out),
                 4 * (3 * count + width * states + 2 * batch * steps * states),
                 (kFunction + 7) * count * states);
}

Instance advantages_case(const Options& o) {
  const int64_t steps = o.integer("steps"), environments = o.integer("environments");
  Draw draw(o);
  const at::Tensor rewards = draw.normal({steps, environments}),
                   values = draw.normal({steps, environments});
  const at::Tensor ends = (draw.uniform({steps, environments}) < 0.02).to(at::kFloat);
  return bounded(instance_of(advantages, rewards, values, ends, draw.normal({environments})),
                 4 * (5 * steps * environments + environments), 14 * steps * environments);
}

}  // namespace

std::vector<Workload> sequence_cases() {
  return {
      {"weighted_key_value_f32",
       "RWKV's mixing, step by step",
       {{"batch", "32", "3", "sequences"},
        {"steps", "32", "9", "of a sequence"},
        {"width", "2048", "19", "features"}},
       weighted_key_value_case},
      {"kalman_filter_f32",
       "Kalman filters of a level and a trend",
       {{"steps", "32", "9", "of a series"}, {"series", "65536", "131", "series"}},
       kalman_filter_case},
      {"viterbi_f32",
       "the likeliest tags of sequences",
       {{"batch", "64", "5", "sequences"},
        {"steps", "24", "9", "of a sequence"},
        {"tags", "32", "11", "tags"}},
       viterbi_case},
      {"selective_scan_f32",
       "Mamba's selective scan, step by step",
       {{"batch", "2", "2", "sequences"},
        {"steps", "32", "9", "of a sequence"},
        {"width", "512", "19", "features"},
        {"states", "16", "5", "of a feature"}},
       selective_scan_case,
       kSums},
      {"advantages_f32",
       "generalised advantage estimation, back in time",
       {{"steps", "64", "9", "of a rollout"}, {"environments", "2048", "131", "environments"}},
       advantages_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
