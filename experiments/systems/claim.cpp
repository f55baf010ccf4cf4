#include "experiments/systems/claim.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "experiments/frame/tables.h"
#include "lab/stats.h"
#include "lab/verdict.h"
#include "lab/words.h"

namespace graft::experiments {
namespace {

using nlohmann::json;

std::string memory_text(const Facts& facts) {
  if (facts.bytes <= 0) return "";
  if (facts.baseline_bytes <= 0) return lab::bytes_text(facts.bytes);
  return lab::bytes_text(facts.bytes) + " of " + lab::bytes_text(facts.baseline_bytes) + ", " +
         lab::number(facts.bytes / facts.baseline_bytes) + "x";
}

std::string share_text(const Facts& facts) {
  return facts.share ? lab::percent_text(*facts.share, 0) + ' ' + facts.share_of : "";
}

/// Of a claimed speed-up and the best that was measured.
std::string verdict_of(double claimed, const lab::Ratio& best) {
  if (best.lo >= claimed) return "holds";
  if (best.hi >= claimed) return "holds within the interval";
  if (best.lo > 1) return "faster, but less than claimed";
  return best.hi < 1 ? "slower here" : "no difference here";
}

}  // namespace

std::vector<lab::Samples> Trial::measure(const std::vector<lab::TimedVariant>& variants) const {
  return lab::measure(variants, {.min_time = quick() ? 0.2 : 1.0,
                                 .min_samples = settings.trial_count(),
                                 .warmup = small() ? 1 : -1});
}

lab::Ratio Trial::compare(const std::string& configuration, const lab::TimedVariant& baseline,
                          const lab::TimedVariant& ours, const Facts& facts) {
  const auto samples = measure({baseline, ours});
  return compare(configuration, baseline.name, samples[0].ms, ours.name, samples[1].ms, facts);
}

lab::Ratio Trial::compare(const std::string& configuration, const std::string& baseline,
                          const std::vector<double>& baseline_ms, const std::string& ours,
                          const std::vector<double>& ours_ms, const Facts& facts) {
  const lab::Ratio ratio = lab::judge(baseline_ms, ours_ms).ratio;
  rows_.push_back({configuration, baseline, ours, lab::median(baseline_ms), lab::median(ours_ms),
                   ratio, facts});
  return ratio;
}

void Trial::row(const std::string& configuration, const std::string& baseline,
                const std::string& ours, const Facts& facts) {
  rows_.push_back({configuration, baseline, ours, 0, 0, std::nullopt, facts});
}

double Trial::time(const std::string& name, const std::function<void()>& run) {
  return lab::median(measure({{name, run}}).front().ms);
}

lab::Section Claim::run(const Settings& settings, const Say& say, json& facts) const {
  Trial trial(settings, say);
  const at::AutoGradMode grad(true);  // as programs begin
  test(trial);
  lab::Section out{id, system + ": " + id, "Claimed: " + says};
  std::vector<lab::Column> all =
      columns({"configuration", "baseline", "ours"},
              {"baseline ms", "ours ms", "speed-up [95 %]", "memory", "of the bound"});
  all.push_back({"accuracy"});
  lab::Table table(std::move(all));
  const Trial::Row* best = nullptr;
  for (const Trial::Row& row : trial.rows_) {
    if (row.speedup && (best == nullptr || row.speedup->ratio > best->speedup->ratio)) best = &row;
    const auto ms = [](double value) { return value > 0 ? lab::number(value) : std::string(); };
    table.row({row.configuration, row.baseline, row.ours, ms(row.baseline_ms), ms(row.ms),
               row.speedup ? ratio_cell(*row.speedup) : lab::Cell(""), memory_text(row.facts),
               share_text(row.facts), row.facts.accuracy});
  }
  out.table = std::move(table);
  out.figures = std::move(trial.figures_);
  std::string verdict = trial.verdict_;
  if (verdict.empty() && best != nullptr && speedup > 0)
    verdict = verdict_of(speedup, *best->speedup);
  if (!verdict.empty()) out.notes.push_back("Verdict: " + verdict + ".");
  out.notes.insert(out.notes.end(), trial.notes_.begin(), trial.notes_.end());
  facts = {{"verdict", verdict}};
  if (best != nullptr) {
    facts["measured"] = lab::ratio_text(*best->speedup);
    facts["class"] = lab::gain_class(best->speedup->ratio);
  }
  return out;
}

lab::Section claims_section(const std::vector<Claim>& claims, const lab::Run& run) {
  lab::Section out{"claims", "Claims, and what was measured here",
                   "The write-ups' figures are of other machines, mostly GPUs. The class is of the "
                   "best speed-up here: from 1.5x excellent, 1.2x good, 1x measured, below: "
                   "investigate."};
  lab::Table table({{"system"},
                    {"claim"},
                    {"claimed", lab::Align::Right},
                    {"measured here", lab::Align::Right},
                    {"class"},
                    {"verdict"}});
  const json all = run.context.value("facts", json::object());
  for (const Claim& claim : claims) {
    const auto found = all.find(claim.id);
    if (found == all.end() || !found->is_object()) continue;
    const auto text = [&](const char* key) { return found->value(key, std::string()); };
    table.row({claim.system, claim.id, claim.speedup > 0 ? lab::number(claim.speedup) + "x" : "",
               text("measured"), text("class"), text("verdict")});
  }
  out.table = std::move(table);
  return out;
}

}  // namespace graft::experiments
