#include "cli/results/report.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/frame/usage.h"
#include "formats/files.h"
#include "lab/report/html.h"
#include "lab/report/markdown.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct ReportOptions {
  std::vector<std::string> runs, memory;
  std::string html, markdown, artifacts;
};

/// Named as their files are, or as their paths where two files have one name.
std::vector<lab::NamedRun> read_runs(const std::vector<std::string>& paths) {
  std::vector<lab::NamedRun> out;
  for (const std::string& path : paths) {
    const std::string stem = fs::path(path).stem().string();
    const auto same = std::count_if(paths.begin(), paths.end(), [&](const std::string& other) {
      return fs::path(other).stem().string() == stem;
    });
    out.push_back({same > 1 ? path : stem, lab::read_run(path)});
  }
  return out;
}

struct File {
  fs::path path;
  std::string content;
};

template <class Keep>
std::string rows_where(const lab::Run& run, Keep keep) {
  lab::Run out{run.context, {}};
  for (const lab::Row& row : run.rows) {
    if (keep(row)) out.rows.push_back(row);
  }
  return lab::to_json(out).dump(1) + '\n';
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

std::string numerical_check(const lab::Run& run) {
  json rows = json::array();
  for (const lab::Row& row : run.rows) {
    const lab::Row* reference = run.reference(row.case_name());
    if (reference == &row) continue;
    rows.push_back({{"name", row.name},
                    {"config", row.config},
                    {"variant", row.variant},
                    {"reference", reference->variant},
                    {"status", lab::to_string(row.status)},
                    {"bitwise", or_null(row.bitwise)},
                    {"max_abs_diff", or_null(row.max_abs_diff)},
                    {"fp64_error", or_null(row.fp64_error)},
                    {"reference_fp64_error", or_null(reference->fp64_error)}});
  }
  return json{{"schema_version", lab::kSchemaVersion}, {"results", rows}}.dump(1) + '\n';
}

std::vector<File> artifacts(const lab::NamedRun& named, const fs::path& folder) {
  const lab::Run& run = named.run;
  return {{folder / "env_info.json", run.context.dump(1) + '\n'},
          {folder / "baseline.json",
           rows_where(run,
                      [&](const lab::Row& row) { return run.reference(row.case_name()) == &row; })},
          {folder / "compiled.json",
           rows_where(run, [](const lab::Row& row) { return row.variant.starts_with("graft"); })},
          {folder / "numerical_check.json", numerical_check(run)},
          {folder / "summary.md", lab::markdown_report({named})}};
}

/// A folder for each of several runs: "r.json" becomes DIR/r, and of two such the second DIR/r-2.
std::vector<File> all_artifacts(const std::vector<lab::NamedRun>& runs, const fs::path& folder) {
  std::vector<File> out;
  std::vector<std::string> used;
  for (const lab::NamedRun& named : runs) {
    std::string stem = fs::path(named.name).filename().string();
    if (stem.ends_with(".json")) stem.resize(stem.size() - 5);  // "a.v1.json" is "a.v1"
    std::string name = stem;
    for (int i = 2; std::find(used.begin(), used.end(), name) != used.end(); ++i)
      name = stem + '-' + std::to_string(i);
    used.push_back(name);
    for (File& file : artifacts(named, runs.size() > 1 ? folder / name : folder))
      out.push_back(std::move(file));
  }
  return out;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder))
    throw UsageError("--artifacts: came '" + folder.string() +
                     "', which cannot be made a folder (" +
                     (error ? error.message() : "a file has that name") +
                     "); name a folder that you may write in.");
}

void report(const ReportOptions& options) {
  const std::vector<lab::NamedRun> runs = read_runs(options.runs);
  std::vector<lab::MemoryTimeline> timelines;
  for (const std::string& path : options.memory) timelines.push_back(lab::read_timeline(path));
  if (!timelines.empty() && options.html.empty())
    throw UsageError("--memory: only the page shows it; name its file with --html FILE.");
  std::vector<File> files;
  if (!options.html.empty()) files.push_back({options.html, lab::html_report(runs, timelines)});
  if (!options.markdown.empty()) files.push_back({options.markdown, lab::markdown_report(runs)});
  if (!options.artifacts.empty()) {
    for (File& file : all_artifacts(runs, options.artifacts)) {
      make_folder(file.path.parent_path());
      files.push_back(std::move(file));
    }
  }
  if (files.empty()) std::cout << lab::markdown_report(runs);
  for (const File& file : files) {
    if (fs::is_directory(file.path))
      throw UsageError("came '" + file.path.string() +
                       "', which is a folder; expected the name of a file to write.");
    formats::write_file(file.path.string(), file.content);
    std::cout << file.path.string() << ": "
              << lab::bytes_text(static_cast<double>(file.content.size())) << '\n';
  }
}

}  // namespace

void add_report(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("report", "Show what runs found: as text, as a page, as separate files");
  const auto o = std::make_shared<ReportOptions>();
  command
      ->add_option(
          "runs", o->runs,
          "Files that 'graft bench --json' wrote; the first is what others are compared with")
      ->required();
  command->add_option("--html", o->html, "Write one self-contained page to this file");
  command->add_option("--memory", o->memory,
                      "Files that 'graft memory --json' wrote: their timelines on the page");
  command->add_option("--markdown", o->markdown,
                      "Write the summary to this file; without any option it is printed");
  command->add_option("--artifacts", o->artifacts,
                      "Write env_info, baseline, compiled, numerical_check as JSON and summary.md "
                      "to this folder; several runs each to one of their own within");
  command->callback([o] { report(*o); });
}

}  // namespace graft::cli
