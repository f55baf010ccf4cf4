#include "cli/measure/bench.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <graft/pool.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/frame/context.h"
#include "cli/frame/usage.h"
#include "cli/measure/attention_sweep.h"
#include "cli/measure/bench_options.h"
#include "cli/measure/isolate.h"
#include "cli/measure/measure_case.h"
#include "cli/measure/peers.h"
#include "cli/measure/run_table.h"
#include "formats/files.h"
#include "lab/export.h"
#include "lab/limits.h"
#include "lab/progress.h"
#include "lab/report/html.h"
#include "lab/report/markdown.h"
#include "lab/table.h"

namespace graft::cli {
namespace {

using lab::Row;
using lab::Run;

nlohmann::json context_of(const BenchOptions& options) {
  nlohmann::json context = run_context();
  context["seed"] = options.seed;
  context["small"] = options.small;
  context["options"] = options.identity();
  return context;
}

/// What an earlier run left in the file, if this one resumes it.
Run started(const BenchOptions& options) {
  Run run;
  run.context = context_of(options);
  if (!options.resume || !std::filesystem::exists(options.json)) return run;
  Run before = lab::read_run(options.json);
  const auto identity = [](const nlohmann::json& context) {
    nlohmann::json out;
    for (const char* key : {"options", "threads", "cpu", "torch", "graft"})
      out[key] = context.value(key, nlohmann::json());
    return out;
  };
  const nlohmann::json was = identity(before.context), now = identity(run.context);
  if (was != now)
    throw UsageError("--resume: " + options.json + " was measured with " + was.dump() +
                     ", this run has " + now.dump() + "; give the same options, or another file.");
  return before;
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options),
        cases_(
            cases_of(chosen_workloads(options.filter, options.set), options.axes, options.where)) {}

  void run() {
    if (options_.threads > 0) at::set_num_threads(options_.threads);
    const c10::NoGradGuard no_grad;  // inference, as the peers measure it
    if (options_.peers || !options_.own_peers.empty()) start_peers();
    run_ = started(options_);  // before the run: the load is not ours yet
    for (const auto& peer : peers_) run_.context["peers"][peer->name()] = peer->version();
    if (!options_.quiet) {
      warn_if_busy(run_.context);
      progress_ =
          std::make_unique<lab::Progress>(std::cerr, isatty(STDERR_FILENO) == 1, cases_.size());
    }
    for (const Case& c : cases_) {
      if (progress_) progress_->begin(c.name());
      measure(c);
    }
    progress_.reset();
    if (!options_.small && !run_.context.contains("limits")) measure_limits();
    finish();
  }

 private:
  void start_peers() {
    const PeerOptions options{.python = options_.python,
                              .threads = at::get_num_threads(),
                              .min_time = options_.measuring().min_time,
                              .timeout = options_.timeout};
    std::vector<PeerScript> scripts = options_.peers ? peer_scripts() : std::vector<PeerScript>{};
    for (const std::string& text : options_.own_peers) {
      const size_t equals = text.find('=');
      if (equals == 0 || equals == std::string::npos)
        throw UsageError("--peer: came '" + text + "', expected NAME=SCRIPT (docs/peers.md)");
      scripts.push_back({text.substr(0, equals), text.substr(equals + 1), "what it imports"});
    }
    peers_ = cli::start_peers(options, scripts, std::cerr);
    if (peers_.empty())
      throw UsageError(
          "--peers: none can run here, as said above. Name one with --python EXE, or leave --peers "
          "out.");
    for (const PeerScript& script : scripts)
      if (std::none_of(peers_.begin(), peers_.end(),
                       [&](const auto& peer) { return peer->name() == script.name; }))
        absent_.push_back(script);
  }

  /// The machine's limits, which the reports compare speeds with.
  void measure_limits() {
    const lab::Limits limits = lab::measure_limits(options_.preset == "quick");
    run_.context["limits"] = {{"bytes_per_s", limits.triad.best},
                              {"flops_per_s", limits.gemm_f32.best},
                              {"functions_per_s", limits.exp_f32.best},
                              {"probes", lab::to_json(limits)}};
  }

  void say(double done, const std::string& what) {
    if (progress_) progress_->at(done, what);
  }

  /// What a peer must know of a case: with --small every axis.
  std::map<std::string, std::string> axes_of(const Case& c) const {
    std::map<std::string, std::string> out = c.config;
    if (options_.small)
      for (const workloads::Axis& axis : c.workload->axes) out.emplace(axis.name, axis.small);
    return out;
  }

  bool is_done(const Case& c, const std::string& variant) const {
    const Row* row = run_.find(c.name(), variant);
    return row != nullptr && row->status == lab::Status::Ok;
  }

  /// Lists the variants, for which it makes the inputs, only where some may be done.
  bool all_done(const Case& c) const {
    if (run_.reference(c.name()) == nullptr) return false;
    const std::vector<std::string> variants = variants_of(c, options_);
    return std::all_of(variants.begin(), variants.end(),
                       [&](const std::string& variant) { return is_done(c, variant); });
  }

  void measure_variants(const Case& c) {
    if (options_.isolate) {
      const std::vector<std::string> variants = variants_of(c, options_);
      for (size_t i = 0; i < variants.size(); ++i) {
        say(static_cast<double>(i) / static_cast<double>(variants.size()), variants[i]);
        if (!is_done(c, variants[i])) keep({measure_in_process(c, variants[i], options_)});
      }
    } else if (!all_done(c)) {
      std::vector<Row> rows = measure_in_turns(
          c, options_, [&](double part, const std::string& what) { say(part, what); });
      std::erase_if(run_.rows, [&](const Row& row) { return row.case_name() == c.name(); });
      keep(std::move(rows));
      pool_trim();  // the next case has other sizes
    }
  }

  void skip(const Case& c, const std::string& variant, std::string why) {
    Row row;
    row.name = c.workload->name, row.config = c.config, row.variant = variant;
    row.status = lab::Status::Skipped;
    row.error = std::move(why);
    keep({std::move(row)});
  }

  void measure(const Case& c) {
    if (std::string why = lacks_memory(c, options_); !why.empty())
      return skip(c, options_.variants.front(), std::move(why));
    try {
      measure_variants(c);
    } catch (const c10::Error& error) {  // its inputs cannot be made: the others go on
      Row row;
      row.name = c.workload->name, row.config = c.config, row.variant = options_.variants.front();
      row.status = lab::Status::Failed;
      row.error = error.what_without_backtrace();
      return keep({std::move(row)});
    }
    for (const auto& peer : peers_) {
      if (is_done(c, peer->name())) continue;
      say(1, peer->name());
      Row row = peer->measure(c.workload->name, axes_of(c));
      row.config = c.config;
      keep({std::move(row)});
    }
    for (const PeerScript& script : absent_)
      skip(c, script.name,
           "not here; '" + options_.python + " -m pip install " + script.install + "'");
  }

  /// Replaces what an earlier run has of these, and writes the file: a run that is stopped has lost
  /// one case.
  void keep(std::vector<Row> rows) {
    for (Row& row : rows) {
      std::erase_if(run_.rows, [&](const Row& old) {
        return old.variant == row.variant && old.case_name() == row.case_name();
      });
      run_.rows.push_back(std::move(row));
    }
    write_json(false);
  }

  void write_json(bool with_statistics) const {
    constexpr auto kReplace = nlohmann::json::error_handler_t::replace;  // errors are others' text
    if (!options_.json.empty())
      formats::write_file(options_.json,
                          lab::to_json(run_, with_statistics).dump(1, ' ', false, kReplace) + '\n');
  }

  void finish() {
    write_json(true);
    if (!options_.csv.empty()) formats::write_file(options_.csv, lab::to_csv(run_));
    const std::vector<lab::NamedRun> named{{"this run", run_}};
    if (!options_.html.empty()) formats::write_file(options_.html, lab::html_report(named));
    if (!options_.markdown.empty())
      formats::write_file(options_.markdown, lab::markdown_report(named));
    print(std::cout, run_, !options_.no_color && lab::colour_wanted(STDOUT_FILENO));
  }

  const BenchOptions& options_;
  std::vector<Case> cases_;
  Run run_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<PeerScript> absent_;  ///< peers that cannot run here
  std::unique_ptr<lab::Progress> progress_;
};

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure the workloads, all variants in turns");
  const auto options = std::make_shared<BenchOptions>();
  add_bench_flags(*command, *options);
  add_attention_sweep(*command);
  command->callback([command, options] {
    if (!command->get_subcommands().empty()) return;
    finish_options(*command, *options);
    if (options->dump_config)
      std::cout << as_toml(*command);
    else
      Bench(*options).run();
  });
  add_bench_child(app);
}

}  // namespace graft::cli
