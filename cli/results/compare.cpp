#include "cli/results/compare.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <regex>

#include "cli/frame/usage.h"
#include "formats/files.h"
#include "lab/gate.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using lab::Cell;
using lab::GateRow;
using lab::Outcome;
using lab::Style;

constexpr int kRegression = 2, kAmbiguous = 3;

struct CompareOptions {
  std::string before, after, variants, json;
  double least = 0.02;
  bool strict = false, no_color = false;
};

Style style_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::Faster:
      return Style::Good;
    case Outcome::Regression:
      return Style::Bad;
    case Outcome::Missing:
    case Outcome::New:
      return Style::Dim;
    default:
      return Style::Plain;
  }
}

std::vector<GateRow> rows_of(const CompareOptions& options) {
  const lab::Run before = lab::read_run(options.before), after = lab::read_run(options.after);
  if (const std::string difference = difference_of_contexts(before, after); !difference.empty())
    std::cerr << "graft: the two runs are of different machines or builds (" << difference
              << "): what changed may be theirs.\n";
  std::vector<GateRow> rows = gate(before, after, {.least = options.least});
  const std::regex wanted = pattern_of("--variants", options.variants, "'graft|hand'.");
  std::erase_if(rows, [&](const GateRow& row) { return !std::regex_search(row.variant, wanted); });
  const bool common = std::any_of(rows.begin(), rows.end(), [](const GateRow& row) {
    return row.outcome != Outcome::Missing && row.outcome != Outcome::New;
  });
  if (!common)
    throw UsageError(options.before + " and " + options.after +
                     " have no case and variant in common; measure the same --filter, --axis and "
                     "--variants in both.");
  return rows;
}

std::string ratio_text(const GateRow& row) {
  return lab::ratio_text(row.change) + (row.relative ? " *" : "");
}

void print_gate(const std::vector<GateRow>& rows, bool colour) {
  lab::Table table({{"case"},
                    {"variant"},
                    {"before ms", lab::Align::Right},
                    {"after ms", lab::Align::Right},
                    {"before / after [95 %]", lab::Align::Right},
                    {"noise", lab::Align::Right},
                    {"outcome"},
                    {""}});
  bool relative = false;
  for (const GateRow& row : rows) {
    const bool both = row.outcome != Outcome::Missing && row.outcome != Outcome::New;
    relative = relative || row.relative;
    table.row({row.case_name, row.variant,
               row.outcome == Outcome::New ? "-" : lab::number(row.before_ms),
               row.outcome == Outcome::Missing ? "-" : lab::number(row.after_ms),
               both ? ratio_text(row) : "-", both ? lab::percent_text(row.threshold) : "-",
               Cell(to_string(row.outcome), style_of(row.outcome)), Cell(row.why, Style::Dim)});
  }
  table.print(std::cout, colour);
  if (relative)
    std::cout << "* as multiples of each run's own reference: what slowed the whole machine "
                 "cancels.\n";
}

nlohmann::json to_json(const std::vector<GateRow>& rows) {
  nlohmann::json out = nlohmann::json::array();
  for (const GateRow& row : rows)
    out.push_back({{"case", row.case_name},
                   {"variant", row.variant},
                   {"outcome", to_string(row.outcome)},
                   {"before_ms", row.before_ms},
                   {"after_ms", row.after_ms},
                   {"change", row.change.ratio},
                   {"ci95", {row.change.lo, row.change.hi}},
                   {"threshold", row.threshold},
                   {"relative_to_reference", row.relative},
                   {"why", row.why}});
  return {{"schema_version", lab::kSchemaVersion}, {"rows", out}};
}

std::vector<GateRow> show(const CompareOptions& options) {
  check_writable("--json", options.json);
  const std::vector<GateRow> rows = rows_of(options);
  print_gate(rows, !options.no_color && lab::colour_wanted(STDOUT_FILENO));
  if (!options.json.empty()) formats::write_file(options.json, to_json(rows).dump(1) + '\n');
  return rows;
}

void check_gate(const CompareOptions& options) {
  const std::vector<GateRow> rows = show(options);
  const auto count = [&](Outcome outcome) {
    return std::count_if(rows.begin(), rows.end(),
                         [&](const GateRow& row) { return row.outcome == outcome; });
  };
  const auto regressions = count(Outcome::Regression);
  const auto unsure = count(Outcome::Ambiguous) + count(Outcome::Missing);
  std::cout << "gate: " << regressions << (regressions == 1 ? " regression, " : " regressions, ")
            << unsure << " ambiguous or missing, " << rows.size() << " rows\n";
  if (regressions > 0) throw CLI::RuntimeError(kRegression);
  if (options.strict && unsure > 0) throw CLI::RuntimeError(kAmbiguous);
}

void add_flags(CLI::App& command, CompareOptions& o) {
  command.add_option("--variants", o.variants, "Only variants with a match of this expression");
  command.add_option("--least", o.least, "Relative change below which nothing is one")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--json", o.json, "Write the rows to this file");
  command.add_flag("--no-color", o.no_color, "Plain text on a terminal too");
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* compare = app.add_subcommand("compare", "Show what changed between two runs");
  const auto o = std::make_shared<CompareOptions>();
  compare->add_option("before", o->before, "A file that bench --json wrote")->required();
  compare->add_option("after", o->after, "Another")->required();
  add_flags(*compare, *o);
  compare->callback([o] { show(*o); });

  CLI::App* gate = app.add_subcommand("gate", "End with code 2 if a run is slower than a baseline");
  const auto g = std::make_shared<CompareOptions>();
  gate->add_option("run", g->after, "A file that bench --json wrote")->required();
  gate->add_option("--baseline", g->before, "The run to hold it against")->required();
  gate->add_flag("--strict", g->strict, "Code 3 if something is ambiguous or missing");
  add_flags(*gate, *g);
  gate->callback([g] { check_gate(*g); });
}

}  // namespace graft::cli
