#include "cli/results/history.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <regex>

#include "cli/frame/usage.h"
#include "formats/files.h"
#include "lab/export.h"
#include "lab/run.h"
#include "lab/stats.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

struct HistoryOptions {
  std::string folder, filter, variant = "graft";
  bool no_color = false;
};

struct Dated {
  std::string date, file;
  lab::Run run;
};

/// Every run in the folder, oldest first. Files that are not runs are named and left out.
std::vector<Dated> runs_in(const std::string& folder) {
  if (!fs::is_directory(folder))
    throw UsageError("history: came '" + folder +
                     "', which is not a folder; expected one with files that 'graft bench --json' "
                     "wrote.");
  std::vector<Dated> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    try {
      lab::Run run = lab::read_run(entry.path());
      std::string date = run.context.value("date", "");
      out.push_back({std::move(date), entry.path().filename(), std::move(run)});
    } catch (const lab::RunFileError& error) {
      std::cerr << "graft: left out " << error.what() << '\n';
    }
  }
  if (out.empty())
    throw UsageError("history: no run in '" + folder + "'; write some with 'graft bench --json " +
                     folder + "/NAME.json'.");
  std::sort(out.begin(), out.end(), [](const Dated& a, const Dated& b) {
    return std::tie(a.date, a.file) < std::tie(b.date, b.file);
  });
  return out;
}

/// Eight heights, from the least to the most.
std::string sparkline(const std::vector<double>& values) {
  const char* bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  std::string out;
  for (double value : values) {
    const double part = *most > *least ? (value - *least) / (*most - *least) : 0;
    out += bars[static_cast<int>(std::round(7 * part))];
  }
  return out;
}

void show_history(const HistoryOptions& options) {
  const std::regex wanted = pattern_of("--filter", options.filter, "'rope|softmax'.");
  const std::vector<Dated> runs = runs_in(options.folder);
  struct Series {
    std::vector<double> ms, speedups;
    std::string first, last;
  };
  std::map<std::string, Series> series;
  for (const Dated& dated : runs)
    for (const lab::Row& row : dated.run.rows) {
      const std::string name = row.case_name();
      if (row.variant != options.variant || row.samples_ms.empty() ||
          !std::regex_search(name, wanted))
        continue;
      Series& s = series[name];
      s.ms.push_back(lab::median(row.samples_ms));
      if (const lab::Row* eager = dated.run.find(name, "eager"); eager != nullptr)
        s.speedups.push_back(lab::median(eager->samples_ms) / s.ms.back());
      if (s.first.empty()) s.first = dated.date;
      s.last = dated.date;
    }
  if (series.empty())
    throw UsageError("history: no case of variant '" + options.variant +
                     "' matches; name others with --variant and --filter.");
  lab::Table table({{"case"},
                    {"runs", lab::Align::Right},
                    {"from"},
                    {"to"},
                    {"first ms", lab::Align::Right},
                    {"best ms", lab::Align::Right},
                    {"last ms", lab::Align::Right},
                    {"over time"},
                    {"speed-up", lab::Align::Right}});
  for (const auto& [name, s] : series)
    table.row({name, std::to_string(s.ms.size()), s.first.substr(0, 10), s.last.substr(0, 10),
               lab::number(s.ms.front()), lab::number(*std::min_element(s.ms.begin(), s.ms.end())),
               lab::number(s.ms.back()), sparkline(s.ms),
               s.speedups.empty() ? "-" : lab::number(s.speedups.back()) + "x"});
  table.print(std::cout, !options.no_color && lab::colour_wanted(STDOUT_FILENO));
}

struct ExportOptions {
  std::string run, csv, google;
};

void write_exports(const ExportOptions& options) {
  if (options.csv.empty() && options.google.empty())
    throw UsageError("export: nothing to write; name a file with --csv or --google-benchmark.");
  check_writable("--csv", options.csv);
  check_writable("--google-benchmark", options.google);
  const lab::Run run = lab::read_run(options.run);
  if (!options.csv.empty()) formats::write_file(options.csv, lab::to_csv(run));
  if (!options.google.empty())
    formats::write_file(options.google, lab::to_google_benchmark(run).dump(1) + '\n');
}

}  // namespace

void add_history(CLI::App& app) {
  CLI::App* history = app.add_subcommand("history", "Show each case over the runs of a folder");
  const auto h = std::make_shared<HistoryOptions>();
  history->add_option("folder", h->folder, "With files that bench --json wrote")->required();
  history->add_option("--filter", h->filter, "Only cases with a match of this expression");
  history->add_option("--variant", h->variant, "Whose times")->capture_default_str();
  history->add_flag("--no-color", h->no_color, "Plain text on a terminal too");
  history->callback([h] { show_history(*h); });

  CLI::App* command = app.add_subcommand("export", "Write a run as CSV or Google Benchmark's JSON");
  const auto e = std::make_shared<ExportOptions>();
  command->add_option("run", e->run, "A file that bench --json wrote")->required();
  command->add_option("--csv", e->csv, "One line per variant");
  command->add_option("--google-benchmark", e->google, "What its compare.py reads");
  command->callback([e] { write_exports(*e); });
}

}  // namespace graft::cli
