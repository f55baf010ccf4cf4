#include "experiments/frame/tables.h"

#include <algorithm>
#include <cmath>

#include "lab/stats.h"
#include "lab/verdict.h"
#include "lab/words.h"

namespace graft::experiments {

using lab::Cell;
using lab::Row;
using lab::Style;

std::vector<lab::Column> columns(const std::vector<std::string>& first,
                                 const std::vector<std::string>& numbers) {
  std::vector<lab::Column> out;
  for (const std::string& header : first) out.push_back({header});
  for (const std::string& header : numbers) out.push_back({header, lab::Align::Right});
  return out;
}

std::optional<double> median_ms(const Row* row) {
  if (row == nullptr || row->samples_ms.empty()) return std::nullopt;
  return lab::median(row->samples_ms);
}

bool is_for_peer(const Row& row) {
  return row.variant.ends_with("_alone");
}

Cell ms_cell(const Row* row) {
  if (row == nullptr) return "-";
  if (row->status != lab::Status::Ok) return {to_string(row->status), Style::Bad};
  const auto ms = median_ms(row);
  return ms ? Cell(lab::number(*ms)) : Cell("-");
}

Cell ratio_cell(const lab::Ratio& ratio) {
  return {lab::ratio_text(ratio), ratio.lo > 1   ? Style::Good
                                  : ratio.hi < 1 ? Style::Bad
                                                 : Style::Plain};
}

Cell ratio_cell(const Row* reference, const Row* row) {
  if (!median_ms(reference) || !median_ms(row) || reference == row) return "";
  return ratio_cell(lab::judge(*reference, *row).ratio);
}

Cell times_cell(double ratio) {
  if (!std::isfinite(ratio)) return "-";
  return {lab::number(ratio) + "x", ratio >= 1.02   ? Style::Good
                                    : ratio <= 0.98 ? Style::Bad
                                                    : Style::Plain};
}

Cell peak_cell(const Row* row) {
  if (row == nullptr || row->memory.peak_allocated < 0) return "-";
  return lab::bytes_text(static_cast<double>(row->memory.peak_allocated));
}

Cell output_cell(const Row& row) {
  if (!row.bitwise) return "";
  if (*row.bitwise) return "bitwise";
  return "within " + lab::number(row.max_abs_diff.value_or(NAN), 2);
}

std::string pays_text(double compile_ms, double eager_ms, double compiled_ms) {
  const double saved = eager_ms - compiled_ms;
  if (!(saved > 0)) return "never";
  const double calls = std::ceil(compile_ms / saved);
  return lab::number(calls, 3) + (calls == 1 ? " call" : " calls");
}

lab::Section variants_section(const lab::Run& run, const std::string& workload, std::string id,
                              std::string title, std::string says) {
  lab::Table table(columns({"case", "variant"}, {"ms", "against eager [95 %]", "code ms",
                                                 "pays after", "peak memory", "outputs"}));
  lab::Section out{std::move(id), std::move(title), std::move(says)};
  std::string last;
  for (const Row& row : run.rows) {
    if (row.name != workload || is_for_peer(row)) continue;
    const std::string name = row.case_name();
    const Row* eager = run.reference(row);
    const bool compiled = row.compile_ms && row.variant != "eager";
    const auto before = median_ms(eager), after = median_ms(&row);
    std::string compiling, pays;
    if (compiled) {
      compiling = lab::number(*row.compile_ms);
      if (before && after) pays = pays_text(*row.compile_ms, *before, *after);
    } else if (row.first_call_ms) {
      compiling = lab::number(*row.first_call_ms);
      if (before && after) pays = pays_text(*row.first_call_ms, *before, *after);
    }
    if (!last.empty() && last != name) table.rule();
    table.row({name == last ? "" : name, row.variant, ms_cell(&row), ratio_cell(eager, &row),
               compiling, pays, peak_cell(&row), output_cell(row)});
    last = name;
    if (row.status != lab::Status::Ok)
      out.notes.push_back(name + ", " + row.variant + ": " + row.error);
    else if (!row.reason.empty())
      out.notes.push_back(name + ", " + row.variant + ": " + row.reason);
  }
  out.table = std::move(table);
  return out;
}

}  // namespace graft::experiments
