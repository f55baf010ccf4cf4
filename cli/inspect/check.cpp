#include "cli/inspect/check.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <graft/graft.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/frame/context.h"
#include "cli/frame/usage.h"
#include "cli/inspect/check_common.h"
#include "cli/inspect/check_steps.h"
#include "cli/measure/run_table.h"
#include "cli/measure/sweep.h"
#include "formats/files.h"
#include "lab/accuracy/accuracy.h"
#include "lab/progress.h"
#include "lab/run.h"
#include "lab/table.h"

namespace graft::cli {
namespace {

using lab::Accuracy;
using lab::Align;
using lab::Cell;
using lab::Style;
using workloads::Call;
using workloads::Instance;
using workloads::Tensors;

/// One implementation of one case beside eager.
struct Checked {
  std::string name, variant;
  std::string ran;  ///< of graft: what ran, compiled code or eager
  std::string reason;
  std::optional<Accuracy> accuracy;  ///< empty where it threw: `reason`
  bool judged = false;               ///< graft: its result decides the exit code
  bool good = true;
};

std::vector<Case> chosen_cases(const CheckOptions& options) {
  for (const std::string& name : options.names) workload_or_throw(name);
  // A name says which set it is of.
  std::vector<const workloads::Workload*> chosen =
      chosen_workloads(options.filter, options.names.empty() ? options.set : "");
  if (!options.names.empty()) {
    std::erase_if(chosen, [&](const workloads::Workload* workload) {
      return std::find(options.names.begin(), options.names.end(), workload->name) ==
             options.names.end();
    });
  }
  if (!chosen.empty()) return cases_of(chosen, options.axes, {});
  throw UsageError("--filter: came '" + options.filter +
                   "', which none of the workloads named matches; leave out the one or the other.");
}

/// Sets `outputs` beside eager's; what throws is a row that says so.
template <class Outputs>
Checked check_one(const Case& c, const std::string& variant, const Tensors& eager,
                  const Tensors& fp64, const Outputs& outputs) {
  Checked row;
  row.name = c.name();
  row.variant = variant;
  try {
    row.accuracy = lab::accuracy(outputs(row), eager, fp64);
    row.good = row.accuracy->as_good();
  } catch (const std::exception& error) {
    row.reason = error.what();
    row.good = false;
  }
  return row;
}

std::vector<Checked> check_case(const Case& c, const CheckOptions& options) {
  const Instance instance =
      c.workload->make({.seed = options.seed, .small = options.small, .config = c.config});
  const Tensors eager = instance.eager.outputs(), fp64 = instance.fp64();
  std::vector<Checked> rows;
  HowItRan how;
  rows.push_back(check_one(c, "graft", eager, fp64, [&](Checked& row) {
    const workloads::CompiledCall compiled =
        compiled_for_check(instance, options.compile, row.name);
    Tensors outputs = compiled.outputs();
    how = how_it_ran(compiled.report());
    row.ran = how.ran;
    row.reason = how.reason;
    return outputs;
  }));
  rows.back().judged = true;
  if (options.bitwise) rows.back().good &= rows.back().accuracy && rows.back().accuracy->bitwise();
  // Graft found its own compiled code wrong: that eager's results are then used does not excuse it.
  if (how.mismatched) rows.back().good = false;
  std::vector<std::pair<std::string, Call>> others = instance.others;
  if (instance.hand) others.insert(others.begin(), {"hand", instance.hand});
  for (const auto& [name, call] : others)
    rows.push_back(check_one(c, name, eager, fp64, [&](Checked&) { return call.outputs(); }));
  return rows;
}

std::string short_number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1e", value);
  return value == 0 ? "0" : text;
}

std::string error_text(double error, int64_t non_finite) {
  return short_number(error) +
         (non_finite > 0 ? ", " + std::to_string(non_finite) + " non-finite" : "");
}

void add_row(lab::Table& table, const Checked& row) {
  const Cell judgement = !row.judged ? Cell("-")
                         : row.good  ? Cell("good", Style::Good)
                                     : Cell("not good", Style::Bad);
  std::vector<Cell> cells{row.name, row.variant, row.ran};
  if (!row.accuracy || !row.accuracy->problem.empty()) {
    cells.emplace_back(row.accuracy ? "different form" : "failed", Style::Bad);
    cells.insert(cells.end(), {"", "", "", "", "", "", judgement});
    return table.row(std::move(cells));
  }
  const lab::TensorAccuracy& all = row.accuracy->all;
  const auto& ulps = all.ulps;
  char share[40];
  std::snprintf(share, sizeof share, "%.3g %%",
                100 * static_cast<double>(all.different) /
                    static_cast<double>(std::max<int64_t>(1, all.elements)));
  cells.push_back(all.bitwise() ? Cell("bitwise", Style::Good) : Cell(share));
  const int64_t special = ulps.nan_mismatches + ulps.inf_mismatches;
  cells.emplace_back(all.floating ? lab::ulp_text(all.max_ulp.value) +
                                        (special > 0 ? " +" + std::to_string(special) : "")
                                  : "-");
  cells.emplace_back(short_number(all.max_abs.value));
  cells.emplace_back(short_number(all.max_rel.value));
  if (!all.fp64) {
    table.row(std::move(cells));
    return;
  }
  const auto& fp64 = *all.fp64;
  cells.emplace_back(error_text(fp64.candidate.max, fp64.candidate.non_finite));
  cells.emplace_back(error_text(fp64.reference.max, fp64.reference.non_finite));
  const lab::Nearer nearer = fp64.nearer();
  cells.emplace_back(nearer == lab::Nearer::Same        ? "same"
                     : nearer == lab::Nearer::Candidate ? row.variant
                                                        : "eager");
  cells.push_back(judgement);
  table.row(std::move(cells));
}

bool judged(const Checked& row) {
  return row.judged;
}
bool is_bad(const Checked& row) {
  return row.judged && !row.good;
}

void print_rows(const std::vector<Checked>& rows, const CheckOptions& options, bool colour) {
  lab::Table table({{"workload"},
                    {"variant"},
                    {"ran"},
                    {"different", Align::Right},
                    {"max ulp", Align::Right},
                    {"max abs", Align::Right},
                    {"max rel", Align::Right},
                    {"its error", Align::Right},
                    {"eager's error", Align::Right},
                    {"nearer fp64"},
                    {"result"}});
  for (const Checked& row : rows) add_row(table, row);
  table.print(std::cout, colour);
  for (const Checked& row : rows) {
    std::string why = row.reason;
    if (row.accuracy && !row.accuracy->problem.empty()) why = row.accuracy->problem;
    if (!why.empty()) std::cout << row.name << ", " << row.variant << ": " << why << '\n';
  }
  const auto bad = std::count_if(rows.begin(), rows.end(), is_bad);
  if (bad > 0) {
    const char* bound = options.bitwise ? "other bits than eager's"
                                        : "an error against fp64 above twice eager's and more than "
                                          "4 ulp of the dtype above it";
    std::cout << bad << " of " << std::count_if(rows.begin(), rows.end(), judged)
              << " not good: failed, of another form, or with " << bound
              << (options.verbose ? ".\n" : "; --verbose shows where.\n");
  }
  if (!options.verbose) return;
  for (const Checked& row : rows) {
    if (!row.accuracy) continue;
    std::cout << '\n'
              << lab::styled(
                     row.name + ": " + row.variant + " (candidate) against eager (reference)",
                     Style::Bold, colour)
              << '\n';
    lab::print(std::cout, *row.accuracy, colour);
  }
}

nlohmann::json to_json(const std::vector<Checked>& rows) {
  nlohmann::json results = nlohmann::json::array();
  for (const Checked& row : rows) {
    results.push_back({{"name", row.name},
                       {"variant", row.variant},
                       {"ran", row.ran},
                       {"reason", row.reason},
                       {"good", row.good},
                       {"accuracy", nullptr}});
    if (row.accuracy) results.back()["accuracy"] = lab::to_json(*row.accuracy);
  }
  return results;
}

void write_file(const nlohmann::json& results, const CheckOptions& options) {
  nlohmann::json context = run_context();
  context["seed"] = options.seed;
  context["small"] = options.small;
  context["numerics"] = numerics_name(options.compile.numerics);
  context["mode"] = mode_name(options.compile.mode);
  context["threads"] = at::get_num_threads();
  if (options.steps > 0) context["steps"] = options.steps;
  const nlohmann::json all{
      {"schema_version", lab::kSchemaVersion}, {"context", context}, {"results", results}};
  formats::write_file(options.json, all.dump(1) + '\n');
}

/// Returns whether all are good.
bool check_calls(const std::vector<Case>& cases, const CheckOptions& options,
                 nlohmann::json& results) {
  std::unique_ptr<lab::Progress> progress;
  if (!options.quiet)
    progress = std::make_unique<lab::Progress>(std::cerr, isatty(STDERR_FILENO) == 1, cases.size());
  std::vector<Checked> rows;
  for (const Case& c : cases) {
    if (progress) progress->begin(c.name());
    for (Checked& row : check_case(c, options)) rows.push_back(std::move(row));
    pool_trim();  // the next has other sizes
  }
  progress.reset();
  print_rows(rows, options, !options.no_color && lab::colour_wanted(STDOUT_FILENO));
  results = to_json(rows);
  return std::none_of(rows.begin(), rows.end(), is_bad);
}

void check(const CheckOptions& options) {
  const std::vector<Case> cases = chosen_cases(options);
  check_writable("--json", options.json);
  if (options.threads > 0) at::set_num_threads(options.threads);
  const c10::NoGradGuard no_grad;  // as bench
  nlohmann::json results;
  const bool good = options.steps > 0 ? check_steps(cases, options, results)
                                      : check_calls(cases, options, results);
  if (!options.json.empty()) write_file(results, options);
  if (!good) throw CLI::RuntimeError(kWorse);
}

}  // namespace

void add_check(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "check", "Set compiled results beside eager's and fp64's; exit code 2 if they are worse");
  const auto o = std::make_shared<CheckOptions>();
  command->add_option("workload", o->names, "Of 'graft list' (all of the set)");
  add_set_flag(*command, o->set);
  command->add_option("--filter", o->filter,
                      "Only workloads whose name has a match of this regular expression");
  command->add_option("--axis", o->axes, "Sizes to check: rows=64,128; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--steps", o->steps,
                   "Train so many steps, eagerly and compiled, and compare the losses (of the set "
                   "training)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--seed", o->seed, "Of the inputs (0)");
  command->add_option("--threads", o->threads, "ATen's threads")->check(CLI::Range(1, 1024));
  command->add_flag("--small", o->small, "Tiny inputs of odd sizes");
  command->add_flag("--bitwise", o->bitwise, "Only equal bits are good, however small the error");
  command->add_flag("--verbose", o->verbose, "Each tensor, where it differs most, and a histogram");
  command->add_option("--json", o->json, "Write everything to this file");
  command->add_flag("--no-color", o->no_color,
                    "Plain text on a terminal too; NO_COLOR does the same");
  command->add_flag("--quiet", o->quiet, "No progress");
  add_compile_flags(*command, o->compile);
  command->callback([o, command] {
    if (o->steps > 0 && command->count("--set") == 0) o->set = "training";
    check(*o);
  });
}

}  // namespace graft::cli
