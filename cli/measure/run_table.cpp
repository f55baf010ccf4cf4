#include "cli/measure/run_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <utility>

#include "lab/accuracy/compare.h"
#include "lab/stats.h"
#include "lab/table.h"
#include "lab/verdict.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using lab::Cell;
using lab::Row;
using lab::Run;
using lab::Style;

/// The compiled variant whose ratios are shown.
const Row* subject(const Run& run, const std::string& name) {
  if (const Row* graft = run.find(name, "graft")) return graft;
  for (const Row& row : run.rows)
    if (row.case_name() == name && row.variant.starts_with("graft")) return &row;
  return nullptr;
}

double median_of(const Row* row) {
  return row == nullptr ? std::nan("") : lab::median(row->samples_ms);
}

std::optional<lab::Judgement> judged(const Row* slow, const Row* fast) {
  if (slow == nullptr || fast == nullptr || slow->samples_ms.empty() || fast->samples_ms.empty())
    return std::nullopt;
  return lab::judge(*slow, *fast);
}

Cell time_cell(const Row* row) {
  if (row == nullptr) return "-";
  if (row->status != lab::Status::Ok) return {to_string(row->status), Style::Bad};
  return lab::number(lab::median(row->samples_ms)) + (row->steady ? "" : " ~");
}

Cell speedup_cell(const std::optional<lab::Judgement>& j) {
  if (!j) return "-";
  const lab::Ratio& r = j->ratio;
  return {lab::ratio_text(r), r.lo > 1 ? Style::Good : r.hi < 1 ? Style::Bad : Style::Plain};
}

Cell verdict_cell(const std::optional<lab::Judgement>& j) {
  if (!j) return "-";
  const Style style = j->verdict == lab::Verdict::Faster   ? Style::Good
                      : j->verdict == lab::Verdict::Slower ? Style::Bad
                                                           : Style::Plain;
  return {std::string(to_string(j->verdict)) + ", " + lab::gain_class(j->ratio.ratio), style};
}

template <class T>
Cell number_cell(const std::optional<T>& value) {
  return value ? lab::number(static_cast<double>(*value)) : "-";
}

Cell equality_cell(const Run& run, const std::string& name, const Row* row) {
  if (row == nullptr || !row->bitwise) return "-";
  if (*row->bitwise) return {"bitwise", Style::Good};
  std::string text =
      lab::Comparison{.bitwise = false, .max_abs_diff = row->max_abs_diff.value_or(0)}.text();
  const Row* eager = run.find(name, "eager");
  if (eager != nullptr && eager->fp64_error.value_or(0) > 0 && row->fp64_error)
    text += ", error " + lab::number(*row->fp64_error / *eager->fp64_error, 2) + "x eager's";
  return text;
}

/// Calls until compiling has paid for itself.
Cell paid_cell(const std::optional<lab::Judgement>& j, const Row* eager, const Row* row) {
  if (!j || row == nullptr || !row->compile_ms) return "-";
  const double saved = median_of(eager) - median_of(row);
  if (j->verdict != lab::Verdict::Faster || saved <= 0) return "never";
  return lab::number(std::ceil(*row->compile_ms / saved));
}

std::vector<std::string> variants_in(const Run& run) {
  std::vector<std::string> out;
  for (const Row& row : run.rows)
    if (std::find(out.begin(), out.end(), row.variant) == out.end()) out.push_back(row.variant);
  return out;
}

/// A column that is empty in every case belongs to a variant that did not run.
void print_known(std::ostream& out, const std::vector<lab::Column>& columns,
                 const std::vector<std::vector<Cell>>& rows, bool colour) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto known = [i](const std::vector<Cell>& row) { return row[i].text != "-"; };
    if (std::any_of(rows.begin(), rows.end(), known)) kept.push_back(i);
  }
  std::vector<lab::Column> kept_columns;
  for (size_t i : kept) kept_columns.push_back(columns[i]);
  lab::Table table(kept_columns);
  for (const std::vector<Cell>& row : rows) {
    std::vector<Cell> cells;
    for (size_t i : kept) cells.push_back(row[i]);
    table.row(std::move(cells));
  }
  table.print(out, colour);
}

void print_mean(std::ostream& out, const Run& run, const std::string& slow,
                const std::string& fast) {
  std::vector<double> ratios;
  for (const std::string& name : run.cases()) {
    const Row *a = run.find(name, slow), *b = run.find(name, fast);
    if (median_of(a) > 0 && median_of(b) > 0) ratios.push_back(median_of(a) / median_of(b));
  }
  if (ratios.empty()) return;
  out << "geometric mean, " << fast << " against " << slow << ": "
      << lab::number(lab::geometric_mean(ratios)) << "x over " << ratios.size()
      << (ratios.size() == 1 ? " case\n" : " cases\n");
}

/// What kept a variant from being measured in several cases is said once.
void print_notes(std::ostream& out, const Run& run) {
  bool unsteady = false;
  std::map<std::pair<std::string, std::string>, int64_t> left;  // cases by variant and error
  for (const Row& row : run.rows)
    if (row.status != lab::Status::Ok) ++left[{row.variant, row.error}];
  for (const Row& row : run.rows) {
    unsteady = unsteady || !row.steady;
    const std::string what = row.case_name() + ", " + row.variant;
    if (row.status != lab::Status::Ok) {
      const int64_t cases = std::exchange(left[{row.variant, row.error}], 0);
      if (cases > 0)
        out << (cases == 1 ? what : row.variant + ", " + lab::count_text(cases, "case")) << ": "
            << row.error << '\n';
    }
    if (row.reason.empty() || row.verdict == "faster" || row.variant.ends_with("_alone")) continue;
    out << what << (row.verdict.empty() ? "" : ", " + row.verdict) << ": " << row.reason << '\n';
  }
  if (unsteady) out << "~ times were still falling when the samples began\n";
}

}  // namespace

void print(std::ostream& out, const Run& run, bool colour) {
  const std::vector<std::string> variants = variants_in(run);
  std::vector<lab::Column> columns{{"workload"}};
  for (const std::string& variant : variants)
    columns.push_back({variant + " ms", lab::Align::Right});
  for (const char* header :
       {"graft / eager [95 %]", "of hand", "compile ms", "first ms", "pays after", "kernels"})
    columns.push_back({header, lab::Align::Right});
  for (const char* header : {"equal", "verdict"}) columns.push_back({header});
  std::vector<std::vector<Cell>> rows;
  for (const std::string& name : run.cases()) {
    std::vector<Cell> cells{name};
    for (const std::string& variant : variants) cells.push_back(time_cell(run.find(name, variant)));
    const Row *eager = run.find(name, "eager"), *graft = subject(run, name);
    const auto j = judged(eager, graft);
    const double of_hand = 100 * median_of(run.find(name, "hand")) / median_of(graft);
    cells.push_back(speedup_cell(j));
    cells.push_back(std::isnan(of_hand) ? "-" : lab::number(of_hand) + " %");
    cells.push_back(graft == nullptr ? "-" : number_cell(graft->compile_ms));
    cells.push_back(graft == nullptr ? "-" : number_cell(graft->first_call_ms));
    cells.push_back(paid_cell(j, eager, graft));
    cells.push_back(graft == nullptr ? "-" : number_cell(graft->kernels));
    cells.push_back(equality_cell(run, name, graft));
    cells.push_back(verdict_cell(j));
    rows.push_back(std::move(cells));
  }
  print_known(out, columns, rows, colour);
  print_mean(out, run, "eager", "graft");
  print_mean(out, run, "eager_pool", "graft");
  for (const std::string& variant : variants)
    if (variant == "torch.compile" || variant == "jax")
      print_mean(out, run, variant, "graft_alone");
  print_notes(out, run);
}

}  // namespace graft::cli
