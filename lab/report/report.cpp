#include "lab/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

namespace graft::lab {
namespace {

/// From the verdict and not the ratio alone: a gain that noise could explain pays nothing.
std::optional<double> pays_after(const RowFacts& row, const RowFacts& reference) {
  if (!row.row->compile_ms || !row.against) return std::nullopt;
  switch (row.against->verdict) {
    case Verdict::Faster:
      return *row.row->compile_ms / (reference.summary.median - row.summary.median);
    case Verdict::Slower:
      return std::numeric_limits<double>::infinity();
    case Verdict::Same:
    case Verdict::Ambiguous:
      return std::nullopt;
  }
  return std::nullopt;
}

/// The whole text as a positive number.
std::optional<double> positive_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && *end == '\0';
  return whole && std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

using Rows = std::vector<const RowFacts*>;

/// The axis with the most values among those where every row has a number.
std::string swept_axis(const Rows& rows) {
  std::map<std::string, std::set<double>> values;
  std::map<std::string, size_t> counts;
  for (const RowFacts* row : rows) {
    for (const auto& [axis, text] : row->row->config) {
      if (const auto value = positive_number(text)) values[axis].insert(*value), ++counts[axis];
    }
  }
  std::string best;
  for (const auto& [axis, distinct] : values) {
    if (distinct.size() < 2 || counts[axis] != rows.size()) continue;
    if (best.empty() || distinct.size() > values[best].size()) best = axis;
  }
  return best;
}

/// The workload's name with the configuration but for `axis`.
std::string title_without(const Row& row, const std::string& axis) {
  Row other;
  other.name = row.name;
  other.config = row.config;
  other.config.erase(axis);
  return other.case_name();
}

void add_point(Sweep& sweep, const RowFacts& row) {
  auto line = std::find_if(sweep.lines.begin(), sweep.lines.end(),
                           [&](const auto& l) { return l.variant == row.row->variant; });
  if (line == sweep.lines.end()) line = sweep.lines.insert(line, {row.row->variant, {}});
  line->points.emplace_back(*positive_number(row.row->config.at(sweep.axis)), &row);
}

}  // namespace

const RowFacts* CaseFacts::reference() const {
  for (const RowFacts& row : rows) {
    if (row.is_reference() && row.timed()) return &row;
  }
  return nullptr;
}

std::vector<CaseFacts> facts_of(const Run& run) {
  std::vector<CaseFacts> out;
  std::map<std::string, size_t> places;
  for (const Row& row : run.rows) {
    const std::string name = row.case_name();
    const auto [place, is_new] = places.try_emplace(name, out.size());
    if (is_new) out.push_back({name, {}});
    RowFacts facts;
    facts.row = &row;
    facts.summary = summarise(row.samples_ms);
    out[place->second].rows.push_back(facts);
  }
  for (CaseFacts& c : out) {
    for (RowFacts& row : c.rows) row.reference = run.reference(*row.row);
    for (RowFacts& row : c.rows) {
      const Row* reference = row.reference;
      const auto timed = std::find_if(c.rows.begin(), c.rows.end(), [&](const RowFacts& other) {
        return other.row == reference && other.timed();
      });
      if (timed == c.rows.end() || row.is_reference() || !row.timed()) continue;
      row.against = judge(*reference, *row.row);
      row.pays_after = pays_after(row, *timed);
      if (reference->fp64_error.value_or(0) > 0 && row.row->fp64_error.value_or(0) > 0)
        row.error_share = *row.row->fp64_error / *reference->fp64_error;
    }
  }
  return out;
}

std::vector<Sweep> sweeps(const std::vector<CaseFacts>& cases) {
  std::vector<std::string> names;
  std::map<std::string, Rows> by_workload;
  for (const CaseFacts& c : cases) {
    for (const RowFacts& row : c.rows) {
      if (!row.timed() || !(row.summary.median > 0)) continue;
      Rows& rows = by_workload[row.row->name];
      if (rows.empty()) names.push_back(row.row->name);
      rows.push_back(&row);
    }
  }
  std::vector<Sweep> out;
  for (const std::string& name : names) {
    const Rows& rows = by_workload[name];
    const std::string axis = swept_axis(rows);
    if (axis.empty()) continue;
    std::map<std::string, Sweep> found;  // by title
    for (const RowFacts* row : rows) {
      const std::string title = title_without(*row->row, axis);
      Sweep& sweep = found.try_emplace(title, Sweep{title, axis, {}}).first->second;
      add_point(sweep, *row);
    }
    for (auto& [title, sweep] : found) {
      size_t longest = 0;
      for (Sweep::Line& line : sweep.lines) {
        std::sort(line.points.begin(), line.points.end());
        longest = std::max(longest, line.points.size());
      }
      if (longest >= 2) out.push_back(std::move(sweep));
    }
  }
  return out;
}

std::vector<VariantScore> scores(const std::vector<CaseFacts>& cases) {
  std::vector<VariantScore> out;
  std::map<std::string, std::vector<double>> ratios;
  for (const CaseFacts& c : cases) {
    for (const RowFacts& row : c.rows) {
      if (!row.against && (row.timed() || row.row->status == Status::Ok)) continue;
      auto score = std::find_if(out.begin(), out.end(),
                                [&](const auto& s) { return s.variant == row.row->variant; });
      if (score == out.end()) score = out.insert(score, {.variant = row.row->variant});
      if (!row.against) {
        ++score->without_time;
        continue;
      }
      const std::string& reference = row.reference->variant;
      score->reference = score->compared() == 0 || score->reference == reference ? reference : "";
      const Judgement& judged = *row.against;
      ++(judged.verdict == Verdict::Faster   ? score->faster
         : judged.verdict == Verdict::Slower ? score->slower
         : judged.verdict == Verdict::Same   ? score->same
                                             : score->ambiguous);
      if (judged.ratio.ratio > 0) ratios[row.row->variant].push_back(judged.ratio.ratio);
    }
  }
  for (VariantScore& score : out) score.mean_ratio = geometric_mean(ratios[score.variant]);
  return out;
}

}  // namespace graft::lab
