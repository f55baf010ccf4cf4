#include "experiments/frame/settings.h"

#include <CLI/CLI.hpp>

#include <limits>

#include "cli/frame/usage.h"

namespace graft::experiments {

cli::BenchOptions Settings::bench(const std::vector<std::string>& variants) const {
  constexpr double kNoTime = 1e-3;  // trials are counted, not timed
  cli::BenchOptions out;
  out.variants = variants;
  out.min_time = out.max_time = kNoTime;
  out.min_samples = trial_count();
  out.warmup = warmup_count();
  out.seed = seed;
  out.threads = threads;
  out.peers = peers;
  out.python = python;
  out.timeout = timeout;
  out.compile.cache = false;  // so that what compiling costs is seen
  return out;
}

void add_settings(CLI::App& command, Settings& s) {
  command.add_flag("--quick", s.quick, "Few sizes and trials: a first look within 90 seconds");
  command.add_flag("--small", s.small, "Tiny sizes: to try the command, not to measure");
  command.add_option("--trials", s.trials, "Timed calls of each variant (20; with --quick 7)")
      ->check(CLI::Range(1, 100000));
  command.add_option("--warmup", s.warmup, "Untimed calls before them (5; with --quick 2)")
      ->check(CLI::Range(0, 100000));
  command.add_option("--threads", s.threads, "ATen's threads (default: its choice)")
      ->check(CLI::Range(1, 1024));
  command.add_option("--seed", s.seed, "Of weights and inputs (0)")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  cli::must_be_path(command.add_option("--json", s.json,
                                       "Write all samples and tables to this "
                                       "file, part by part"));
  command.add_flag("--resume", s.resume, "Keep what the --json file has, and do the rest");
  cli::must_be_path(
      command.add_option("--html", s.html, "Write a page with pictures to this file"));
  cli::must_be_path(
      command.add_option("--markdown", s.markdown, "Write the tables as Markdown to this file"));
  command.add_flag("--peers", s.peers, "Measure torch.compile on the same cases, in Python");
  cli::must_be_path(
      command.add_option("--python", s.python, "The Python that has torch")->capture_default_str());
  command
      .add_option("--timeout", s.timeout, "Seconds for an answer of the peer, compiling included")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command.add_flag("--no-color", s.no_color,
                   "Plain text on a terminal too; NO_COLOR does the same");
  command.add_flag("--quiet", s.quiet, "No progress");
}

void check(const Settings& s) {
  for (const auto& [flag, path] :
       {std::pair("--json", s.json), {"--html", s.html}, {"--markdown", s.markdown}})
    cli::check_writable(flag, path);
  if (s.resume && s.json.empty())
    throw cli::UsageError(
        "--resume: there is nothing to go on with; name the experiment's file with --json.");
}

}  // namespace graft::experiments
