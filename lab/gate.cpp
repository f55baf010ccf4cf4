#include "lab/gate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lab/verdict.h"

namespace graft::lab {
namespace {

using Times = std::vector<double>;

constexpr size_t kFewest = 5;  // samples on either side, below which nothing is certain

/// A row's samples as one run has them: times, or multiples of the reference's next to them.
struct Seen {
  const Row* row = nullptr;
  const Row* reference = nullptr;  ///< null: times alone
};

bool usable(const Row* row) {
  return row != nullptr && row->status == Status::Ok && !row->samples_ms.empty();
}

/// Reference / row with its interval: how fast it is in its own run.
Ratio speed(const Seen& seen) {
  if (seen.reference == nullptr) {
    const double center = median(seen.row->samples_ms);
    const Interval ci = block_bootstrap_median(seen.row->samples_ms);
    return {1 / center, 1 / ci.hi, 1 / ci.lo};
  }
  return judge(*seen.reference, *seen.row).ratio;
}

double half_median(const Times& x, bool first) {
  const std::span<const double> all(x);
  const size_t middle = x.size() / 2;
  return median(first ? all.first(middle) : all.subspan(middle));
}

/// How far the speed moved within the run.
double drift(const Seen& seen) {
  if (seen.row->samples_ms.size() < 4) return 0;
  double halves[2];
  for (const bool first : {true, false}) {
    const double reference = seen.reference != nullptr && seen.reference->samples_ms.size() >= 4
                                 ? half_median(seen.reference->samples_ms, first)
                                 : 1;
    halves[first ? 0 : 1] = reference / half_median(seen.row->samples_ms, first);
  }
  return std::abs(std::log(halves[0] / halves[1]));
}

/// after / before of two speeds, whose errors add up as independent ones.
Ratio quotient(const Ratio& before, const Ratio& after) {
  const double center = after.ratio / before.ratio;
  const double down =
      std::hypot(std::log(after.ratio / after.lo), std::log(before.hi / before.ratio));
  const double up =
      std::hypot(std::log(after.hi / after.ratio), std::log(before.ratio / before.lo));
  return {center, center * std::exp(-down), center * std::exp(up)};
}

/// A change, and how much of one the two runs' own noise can make.
struct Change {
  Ratio ratio;
  double threshold = 0;
  bool slower() const { return ratio.hi < 1 / (1 + threshold); }
  bool faster() const { return ratio.lo > 1 + threshold; }
  bool unsure() const { return !slower() && ratio.lo < 1 / (1 + threshold); }
};

Change change_of(const Seen& before, const Seen& after, const GateOptions& options) {
  return {quotient(speed(before), speed(after)),
          options.least + std::max(drift(before), drift(after))};
}

void set_outcome(const Change& own, const std::optional<Change>& relative, bool yardstick,
                 GateRow& out) {
  const Change& shown = relative ? *relative : own;
  out.change = shown.ratio, out.threshold = shown.threshold, out.relative = relative.has_value();
  const auto ambiguous = [&](const char* why) { out.outcome = Outcome::Ambiguous, out.why = why; };
  if (shown.slower() && relative && !own.slower()) {
    ambiguous("slower beside its reference, not by its own time: the reference became faster");
  } else if (shown.slower() && yardstick) {
    ambiguous("slower, as the whole machine may have been: others are measured by it");
  } else if (shown.slower()) {
    out.outcome = Outcome::Regression, out.why = "slower by more than the runs' noise";
  } else if (shown.faster()) {
    out.outcome = Outcome::Faster;
  } else if (shown.unsure()) {
    ambiguous("the interval reaches beyond the threshold; measure longer (--preset strict)");
  }
  if (out.outcome == Outcome::Regression && out.fewest_samples < kFewest)
    ambiguous("slower, by too few samples to be sure; take --min-samples 5 or more");
}

const Row* common_reference(const Run& run, const Row& row, const Run& other) {
  const Row* reference = run.reference(row);
  if (!usable(reference) || reference->variant == row.variant) return nullptr;
  return usable(other.find(row.case_name(), reference->variant)) ? reference : nullptr;
}

/// Do others of its case have it as their reference?
bool is_yardstick(const Run& run, const Row& row) {
  if (run.reference(row) != &row) return false;
  return std::any_of(run.rows.begin(), run.rows.end(), [&](const Row& other) {
    return &other != &row && other.case_name() == row.case_name();
  });
}

GateRow judged(const Run& baseline, const Row& before, const Run& now, const Row* after,
               const GateOptions& options) {
  GateRow out;
  out.case_name = before.case_name(), out.variant = before.variant;
  out.before_ms = median(before.samples_ms);
  if (!usable(after)) {
    const bool broken = after != nullptr && after->status != Status::Skipped;
    out.outcome = broken ? Outcome::Regression : Outcome::Missing;
    out.why = after == nullptr ? "not in the new run"
                               : std::string(to_string(after->status)) + ": " + after->error;
    return out;
  }
  out.after_ms = median(after->samples_ms);
  const Row *was = common_reference(baseline, before, now),
            *is = common_reference(now, *after, baseline);
  out.fewest_samples = std::min(before.samples_ms.size(), after->samples_ms.size());
  std::optional<Change> relative;
  if (was != nullptr && is != nullptr && was->variant == is->variant)
    relative = change_of({&before, was}, {after, is}, options);
  set_outcome(change_of({&before, nullptr}, {after, nullptr}, options), relative,
              is_yardstick(baseline, before), out);
  if (before.bitwise.value_or(false) && !after->bitwise.value_or(true)) {
    out.outcome = Outcome::Regression;
    out.why = "its results were the reference's, bit for bit, and are no more";
  }
  return out;
}

}  // namespace

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::Same:
      return "same";
    case Outcome::Faster:
      return "faster";
    case Outcome::Regression:
      return "regression";
    case Outcome::Ambiguous:
      return "ambiguous";
    case Outcome::Missing:
      return "missing";
    case Outcome::New:
      return "new";
  }
  return "";
}

std::vector<GateRow> gate(const Run& baseline, const Run& now, const GateOptions& options) {
  std::vector<GateRow> out;
  for (const Row& before : baseline.rows)
    if (usable(&before))
      out.push_back(
          judged(baseline, before, now, now.find(before.case_name(), before.variant), options));
  for (const Row& after : now.rows) {
    if (!usable(&after) || usable(baseline.find(after.case_name(), after.variant))) continue;
    GateRow row;
    row.case_name = after.case_name(), row.variant = after.variant;
    row.outcome = Outcome::New;
    row.after_ms = median(after.samples_ms);
    row.why = "not in the baseline";
    out.push_back(row);
  }
  return out;
}

std::string difference_of_contexts(const Run& a, const Run& b) {
  std::string out;
  for (const char* key : {"cpu", "threads", "torch", "aten_cpu", "options"}) {
    if (!a.context.contains(key) || !b.context.contains(key) || a.context[key] == b.context[key])
      continue;
    out += (out.empty() ? "" : "; ") + std::string(key) + ": " + a.context[key].dump() +
           " against " + b.context[key].dump();
  }
  return out;
}

}  // namespace graft::lab
