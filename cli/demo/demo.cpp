#include "cli/demo/demo.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "cli/demo/demo_run.h"
#include "cli/frame/usage.h"
#include "cli/frame/version.h"
#include "cli/measure/run_table.h"
#include "formats/files.h"
#include "lab/env.h"
#include "lab/report/html.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using lab::Align;
using lab::Cell;
using lab::number;
using lab::Style;
using workloads::minilm::Attention;
using workloads::minilm::Cut;

// "1.25x (1.22-1.29)": green when the interval lies above 1, red when below.
Cell ratio_cell(const lab::Ratio& ratio) {
  const Style style = ratio.lo > 1 ? Style::Good : ratio.hi < 1 ? Style::Bad : Style::Plain;
  return {number(ratio.ratio) + "x (" + number(ratio.lo) + "-" + number(ratio.hi) + ")", style};
}

Cell result_cell(const lab::Comparison& result) {
  return {result.text(), result.bitwise     ? Style::Good
                         : result.same_form ? Style::Plain
                                            : Style::Bad};
}

using Results = DemoResults;

void print_model(std::span<const ModelRow> rows, bool color) {
  const bool tuned = !rows.front().tuned.ms.empty();
  std::vector<lab::Column> columns{{"batch, length"},
                                   {"eager ms", Align::Right},
                                   {"with pool", Align::Right},
                                   {"compiled ms", Align::Right},
                                   {"speed-up (95 %)", Align::Right},
                                   {"alone (95 %)", Align::Right},
                                   {"result"}};
  if (tuned)
    columns.insert(columns.end(),
                   {{"max-autotune", Align::Right}, {"speed-up (95 %)", Align::Right}, {"result"}});
  columns.push_back({"eager's attention"});
  lab::Table table(columns);
  for (const ModelRow& row : rows) {
    std::vector<Cell> cells{std::to_string(row.batch) + ", " + std::to_string(row.length),
                            number(lab::median(row.eager.ms)),
                            number(lab::median(row.pooled.ms)),
                            number(lab::median(row.compiled.ms)),
                            ratio_cell(row.speedup),
                            ratio_cell(row.alone_speedup),
                            result_cell(row.result)};
    if (tuned)
      cells.insert(cells.end(), {number(lab::median(row.tuned.ms)), ratio_cell(row.tuned_speedup),
                                 result_cell(row.tuned_result)});
    cells.emplace_back(attention_name(row.baseline), Style::Dim);
    table.row(cells);
  }
  table.print(std::cout, color);
}

void print_single(std::span<const ModelRow> rows, bool color) {
  std::cout << lab::styled("Sentences into vectors: all-MiniLM-L6-v2, real weights, fp32",
                           Style::Bold, color)
            << '\n';
  print_model(rows, color);
  std::cout
      << "eager: the faster of its two attentions. with pool: eager under graft::PoolGuard, "
         "as compiled is.\nalone: the speed-up where neither is called in turns with the other, "
         "which leaves it cold caches.\n";
  if (!rows.front().tuned.ms.empty())
    std::cout << "max-autotune: compiled, with matmuls by the fastest of ATen's routines, which "
                 "sum in another order, and the fastest of several schedules.\n";
  std::cout << '\n' << std::flush;
}

void print_batches(std::span<const ModelRow> rows, bool color) {
  std::cout << lab::styled("Many sentences at once", Style::Bold, color) << '\n';
  print_model(rows, color);
  std::cout << '\n' << std::flush;
}

void print_regions(const Results& results, bool color) {
  const ModelRow& whole = results.model.back();
  const double eager_ms = lab::median(whole.eager.ms);
  std::cout << lab::styled("Its regions at " + std::to_string(whole.batch) + ", " +
                               std::to_string(whole.length) + ", one call each",
                           Style::Bold, color)
            << '\n';
  lab::Table table({{"region"},
                    {"calls", Align::Right},
                    {"eager ms", Align::Right},
                    {"compiled ms", Align::Right},
                    {"speed-up (95 %)", Align::Right},
                    {"share", Align::Right},
                    {"first call ms", Align::Right},
                    {"compile ms", Align::Right},
                    {"pays after", Align::Right},
                    {"result"},
                    {"verdict"}});
  double covered_ms = 0, compile_ms = 0;
  for (const RegionRow& row : results.regions) {
    const double ms = row.eager_ms() * static_cast<double>(row.calls_per_encode);
    covered_ms += ms;
    compile_ms += row.report.compile_ms;
    const double calls = row.break_even_calls();
    table.row({row.name, std::to_string(row.calls_per_encode), number(row.eager_ms()),
               number(row.compiled_ms()), ratio_cell(row.speedup), lab::percent_text(ms / eager_ms),
               number(row.first_call_ms), number(row.report.compile_ms),
               std::isfinite(calls) ? number(calls) + " calls" : "never", result_cell(row.result),
               Cell(to_string(row.report.verdict), Style::Dim)});
  }
  table.rule();
  table.row(
      {"left eager", "", "", "", "", lab::percent_text(std::max(0.0, 1 - covered_ms / eager_ms))});
  table.print(std::cout, color);
  const double saved_ms = eager_ms - lab::median(whole.compiled.ms);
  std::cout << "Compiling them all from nothing took " << number(compile_ms)
            << " ms, in the background";
  if (whole.speedup.lo > 1) {
    std::cout << "; it has paid after " << std::ceil(compile_ms / saved_ms)
              << " encodings of this size";
  }
  std::cout << ".\nA region alone is measured without the pool; its share is of eager's time for "
               "the whole model.\n"
            << '\n'
            << std::flush;
}

void print_nearest(const Results& results, bool color) {
  std::cout << lab::styled("What the vectors are for: the nearest of " +
                               std::to_string(std::size(workloads::minilm::kSentences)) +
                               " sentences",
                           Style::Bold, color)
            << '\n';
  bool same = true;
  for (const NearestRow& row : results.nearest) {
    std::cout << "  " << row.query << '\n';
    for (size_t i = 0; i < row.eager.size(); ++i) {
      const auto& [eager, compiled] = std::pair(row.eager[i], row.compiled[i]);
      same = same && eager.index == compiled.index;
      if (i < 2)
        std::cout << "    " << number(eager.similarity) << "  "
                  << workloads::minilm::kSentences[eager.index] << '\n';
    }
  }
  std::cout << (same ? "Eager and compiled find the same three, in the same order, for every query."
                     : lab::styled("Eager and compiled differ in what they find.", Style::Bad,
                                   color))
            << '\n';
}

/// Each table is printed as soon as it is measured.
Results measure_and_print(const DemoOptions& options, bool color) {
  lab::Progress progress(std::cerr, ::isatty(STDERR_FILENO) == 1, DemoRun::steps(options.full));
  DemoRun run(options, progress);
  Results results;
  run.compile_regions();
  results.model = run.measure_model(DemoRun::kSingle);
  progress.clear();
  print_single(results.model, color);

  auto batches = run.measure_model(DemoRun::batches(options.full));
  progress.clear();
  print_batches(batches, color);
  std::ranges::move(batches, std::back_inserter(results.model));

  results.regions = run.measure_regions();
  progress.clear();
  print_regions(results, color);

  results.nearest = run.find_nearest();
  progress.clear();
  print_nearest(results, color);
  return results;
}

}  // namespace

int run_demo(const DemoOptions& options) try {
  if (options.threads > 0) at::set_num_threads(options.threads);
  const c10::InferenceMode inference;
  const bool color = !options.no_color && lab::colour_wanted(STDOUT_FILENO);
  const lab::Environment environment = lab::read_environment(kVersion);
  for (const auto& [flag, path] : {std::pair("--json", options.json), {"--html", options.html}})
    check_writable(flag, path);

  std::cout << environment.cpu << ", " << environment.threads << " threads, "
            << environment.aten_cpu << ", torch " << environment.torch << '\n'
            << '\n'
            << std::flush;
  const Results results = measure_and_print(options, color);
  const lab::Run run = run_of(results, options);
  if (!options.json.empty()) formats::write_file(options.json, lab::to_json(run).dump(1) + '\n');
  if (!options.html.empty()) formats::write_file(options.html, lab::html_report({{"MiniLM", run}}));
  if (!options.html.empty())
    std::cout << "\nThe same as a page, with pictures: " << options.html << '\n';
  if (!options.full)
    std::cout
        << "\nA batch of 32, max-autotune and narrower intervals, in some minutes: graft demo "
           "--full\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "graft demo: " << error.what() << '\n';
  return 1;
}

void add_demo(CLI::App& app) {
  CLI::App* demo = app.add_subcommand(
      "demo", "Compile a real sentence encoder's regions: what they gain, and cost");
  const auto options = std::make_shared<DemoOptions>();
  demo->add_option("--model", options->model,
                   "MiniLM's folder (default: where tools/setup.sh puts it)");
  demo->add_flag("--full", options->full,
                 "A batch of 32, max-autotune, more samples: minutes rather than one");
  demo->add_option("--json", options->json, "Write the results and every sample to this file");
  demo->add_option("--html", options->html, "Write a page with pictures to this file");
  demo->add_flag("--no-color", options->no_color, "Plain text");
  add_compile_flags(*demo, options->compile);
  demo->add_option("--threads", options->threads, "Intra-op threads (default: ATen's choice)")
      ->check(CLI::Range(1, 4096));
  demo->add_option_function<std::string>(
          "--cut",
          [options](const std::string& name) {
            options->cut = name == "blocks" ? Cut::Blocks : Cut::Elementwise;
          },
          "Compile what lies between the matmuls, or blocks with their matmuls (the default)")
      ->check(CLI::IsMember({"elementwise", "blocks"}));
  demo->add_option_function<std::string>(
          "--attention",
          [options](const std::string& name) {
            options->attention = name == "explicit" ? Attention::Explicit : Attention::Sdpa;
          },
          "Attention of the compiled side: sdpa (the default), or its softmax as a region")
      ->check(CLI::IsMember({"sdpa", "explicit"}));
  demo->callback([options] {
    if (const int code = run_demo(*options); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace graft::cli
