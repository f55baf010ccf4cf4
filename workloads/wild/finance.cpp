// Finance: prices, paths, rolling statistics.

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

constexpr double kRate = 0.03;

at::Tensor normal_cdf(const at::Tensor& x) {
  return 0.5 * (1 + at::erf(x / std::numbers::sqrt2));
}

/// Black and Scholes's prices of calls and puts, and the calls' vega.
std::tuple<at::Tensor, at::Tensor, at::Tensor> black_scholes(const at::Tensor& spot,
                                                             const at::Tensor& strike,
                                                             const at::Tensor& years,
                                                             const at::Tensor& volatility) {
  const at::Tensor root = years.sqrt(), spread = volatility * root;
  const at::Tensor d1 =
      ((spot / strike).log() + (kRate + 0.5 * volatility * volatility) * years) / spread;
  const at::Tensor d2 = d1 - spread, paid = strike * (-kRate * years).exp();
  const at::Tensor call = spot * normal_cdf(d1) - paid * normal_cdf(d2);
  const at::Tensor density = (-0.5 * d1 * d1).exp() / std::sqrt(2 * std::numbers::pi);
  return {call, call - spot + paid, spot * density * root};
}

/// An Asian call's price and standard error by Monte Carlo, from normals (paths, steps).
std::tuple<at::Tensor, at::Tensor> asian_option(const at::Tensor& normals) {
  const double dt = 1.0 / static_cast<double>(normals.size(1)), volatility = 0.2;
  const at::Tensor steps =
      (kRate - 0.5 * volatility * volatility) * dt + volatility * std::sqrt(dt) * normals;
  const at::Tensor paths = 100 * steps.cumsum(1).exp();
  const at::Tensor payoff = (paths.mean(1) - 100).clamp_min(0) * std::exp(-kRate);
  return {payoff.mean(), payoff.std() / std::sqrt(static_cast<double>(normals.size(0)))};
}

/// Heston's prices and variances at the end of paths, by Euler steps with full truncation:
/// independent normals (steps, 2, paths).
std::tuple<at::Tensor, at::Tensor> heston(const at::Tensor& normals) {
  const double dt = 1.0 / static_cast<double>(normals.size(0)), root = std::sqrt(dt);
  at::Tensor log_price = at::zeros_like(normals.select(0, 0).select(0, 0));
  at::Tensor variance = at::full_like(log_price, 0.04);
  for (int64_t t = 0; t < normals.size(0); ++t) {
    const at::Tensor z = normals.select(0, t).select(0, 0),
                     free = normals.select(0, t).select(0, 1);
    const at::Tensor positive = variance.clamp_min(0), deviation = positive.sqrt() * root;
    log_price = log_price + (kRate - 0.5 * positive) * dt + deviation * z;
    variance =
        variance + 1.5 * (0.04 - positive) * dt + 0.3 * deviation * (-0.7 * z + 0.714 * free);
  }
  return {100 * log_price.exp(), variance};
}

/// How far each return lies from the mean of the last `window` days, in their standard deviations:
/// returns (days, assets) to (days - window, assets).
at::Tensor rolling_score(const at::Tensor& returns, int64_t window) {
  const auto rolling = [&](const at::Tensor& x) {
    const at::Tensor sum = x.cumsum(0);
    return (sum.slice(0, window) - sum.slice(0, 0, -window)) / static_cast<double>(window);
  };
  const at::Tensor mean = rolling(returns);
  const at::Tensor variance = rolling(returns * returns) - mean * mean;
  return (returns.slice(0, window) - mean) / variance.clamp_min(1e-10).sqrt();
}

/// American puts of one year by a binomial tree of `steps`: spots and volatilities (N).
at::Tensor american_put(const at::Tensor& spot, const at::Tensor& volatility, int64_t steps) {
  const double dt = 1.0 / static_cast<double>(steps), discount = std::exp(-kRate * dt);
  const at::Tensor spread = volatility * std::sqrt(dt), up = spread.exp(), down = 1 / up;
  const at::Tensor p = ((1 / discount - down) / (up - down)).unsqueeze(1);
  const at::Tensor level = at::arange(-steps, steps + 1, spot.options());
  const at::Tensor exercise =
      (100 - spot.unsqueeze(1) * (spread.unsqueeze(1) * level).exp()).clamp_min(0);
  at::Tensor value = exercise.slice(1, 0, 2 * steps + 1, 2);
  for (int64_t step = steps - 1; step >= 0; --step) {
    const at::Tensor held = (p * value.slice(1, 1) + (1 - p) * value.slice(1, 0, -1)) * discount;
    value = at::maximum(held, exercise.slice(1, steps - step, steps + step + 1, 2));
  }
  return value.squeeze(1);
}

Instance black_scholes_case(const Options& o) {
  const int64_t options = o.integer("options");
  Draw draw(o);
  return bounded(
      instance_of(black_scholes, draw.uniform({options}, 50, 150), draw.uniform({options}, 50, 150),
                  draw.uniform({options}, 0.1, 2), draw.uniform({options}, 0.1, 0.5)),
      4 * 7 * options, (5 * kFunction + 28) * options);
}

Instance asian_option_case(const Options& o) {
  const int64_t paths = o.integer("paths"), steps = o.integer("steps");
  return bounded(instance_of(asian_option, Draw(o).normal({paths, steps})), 4 * (paths * steps + 2),
                 (5 + kFunction) * paths * steps);
}

Instance heston_case(const Options& o) {
  const int64_t paths = o.integer("paths"), steps = o.integer("steps");
  return bounded(instance_of(heston, Draw(o).normal({steps, 2, paths})),
                 4 * (2 * steps * paths + 2 * paths), (18 * steps + kFunction) * paths);
}

Instance rolling_score_case(const Options& o) {
  const int64_t days = o.integer("days"), assets = o.integer("assets"),
                window = o.integer("window");
  return bounded(instance_of(rolling_score, Draw(o).normal({days, assets}) * 0.01, window),
                 4 * (days + days - window) * assets, 13 * days * assets);
}

Instance american_put_case(const Options& o) {
  const int64_t options = o.integer("options"), steps = o.integer("steps");
  Draw draw(o);
  return bounded(instance_of(american_put, draw.uniform({options}, 70, 130),
                             draw.uniform({options}, 0.15, 0.5), steps),
                 4 * 3 * options,
                 options * ((2 * steps + 1) * (kFunction + 4) + steps * (steps + 1) / 2 * 5));
}

}  // namespace

std::vector<Workload> finance_cases() {
  return {
      {"black_scholes_f32",
       "calls, puts and vega by Black and Scholes",
       {{"options", "4194304", "4099", "options"}},
       black_scholes_case},
      {"asian_option_f32",
       "an Asian option by Monte Carlo from given normals",
       {{"paths", "65536", "131", "paths"}, {"steps", "64", "9", "of a path"}},
       asian_option_case,
       kSums},
      {"heston_f32",
       "Heston's model, step by step from given normals",
       {{"paths", "65536", "131", "paths"}, {"steps", "32", "9", "of a path"}},
       heston_case},
      {"rolling_score_f32",
       "returns against the rolling mean and deviation",
       {{"days", "1024", "67", "days"},
        {"assets", "4096", "37", "assets"},
        {"window", "20", "5", "days of the statistics"}},
       rolling_score_case,
       100 * kSums},
      {"american_put_f32",
       "American puts by a binomial tree",
       {{"options", "4096", "131", "options"}, {"steps", "32", "9", "of the tree"}},
       american_put_case},
  };
}

}  // namespace graft::workloads::wild
