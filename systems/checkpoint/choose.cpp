// Which layers to recompute: least time within a budget of bytes.
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <limits>

#include "graft/systems/checkpointing.h"

namespace graft::systems {
namespace {

constexpr std::array kChoices = {Recompute::Nothing, Recompute::CheapOperators,
                                 Recompute::Everything};
constexpr int64_t kUnits = 4096;  // that the budget is cut into

/// At least all that it leaves: costs that were not measured may have no more.
int64_t running_bytes(const LayerCost& cost) {
  return std::max(cost.bytes, cost.running_bytes);
}

}  // namespace

// While a layer runs, forward or again, there are all of its activations and temporaries, and what
// is kept of the layers before it. Those behind it are not yet run, or done with.
int64_t activation_peak(const std::vector<LayerCost>& costs, const std::vector<Recompute>& choice) {
  TORCH_CHECK_VALUE(costs.size() == choice.size(), costs.size(), " layers and ", choice.size(),
                    " choices: there must be one for each");
  int64_t kept = 0, peak = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    peak = std::max(peak, kept + running_bytes(costs[i]));
    kept += costs[i].kept_bytes(choice[i]);
  }
  return std::max(peak, kept);
}

std::vector<Recompute> choose_recompute(const std::vector<LayerCost>& costs, int64_t budget) {
  const std::vector<Recompute> all_nothing(costs.size(), Recompute::Nothing);
  if (activation_peak(costs, all_nothing) <= budget) return all_nothing;
  std::vector<Recompute> least;  // of each layer, what keeps fewest bytes
  for (const LayerCost& cost : costs)
    least.push_back(*std::ranges::min_element(
        kChoices, {}, [&](Recompute what) { return cost.kept_bytes(what); }));
  TORCH_CHECK_VALUE(activation_peak(costs, least) <= budget, "a budget of ", budget,
                    " bytes of activations is too little: with everything computed again they "
                    "still take ",
                    activation_peak(costs, least),
                    "; give at least that, or make the batch smaller");
  // best[i][kept]: least time of layers i and later, while `kept` units are kept of those before.
  // Bytes are rounded up to units, so that what is chosen fits.
  const auto units = [&](int64_t bytes) {
    return static_cast<int64_t>((static_cast<__int128>(bytes) * kUnits + budget - 1) / budget);
  };
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const size_t n = costs.size();
  std::vector<std::vector<double>> best(n + 1, std::vector<double>(kUnits + 1, 0));
  std::vector<std::vector<Recompute>> chosen(n, std::vector<Recompute>(kUnits + 1));
  for (size_t i = n; i-- > 0;)
    for (int64_t kept = 0; kept <= kUnits; ++kept) {
      double& here = best[i][static_cast<size_t>(kept)] = kNever;
      if (kept + units(running_bytes(costs[i])) > kUnits) continue;
      for (const Recompute what : kChoices) {
        const int64_t next = kept + units(costs[i].kept_bytes(what));
        if (next > kUnits) continue;
        const double ms = costs[i].recompute_ms(what) + best[i + 1][static_cast<size_t>(next)];
        if (ms >= here) continue;
        here = ms;
        chosen[i][static_cast<size_t>(kept)] = what;
      }
    }
  if (best[0][0] == kNever) return least;  // it fits but for the rounding
  std::vector<Recompute> choice;
  int64_t kept = 0;
  for (size_t i = 0; i < n; ++i) {
    choice.push_back(chosen[i][static_cast<size_t>(kept)]);
    kept += units(costs[i].kept_bytes(choice.back()));
  }
  return choice;
}

}  // namespace graft::systems
