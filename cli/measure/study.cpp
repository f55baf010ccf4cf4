#include "cli/measure/study.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <graft/pool.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>

#include "cli/frame/usage.h"
#include "cli/measure/bench_options.h"
#include "cli/measure/sweep.h"
#include "formats/files.h"
#include "lab/progress.h"
#include "lab/run.h"
#include "lab/stats.h"
#include "lab/table.h"
#include "lab/verdict.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct StudyOptions {
  std::string workload, json;
  std::vector<std::string> axes;
  int runs = 200;
  double slow = 0.05;
  BenchOptions bench;  // preset, times
};

/// How often each verdict was given, and what a run of the study cost.
struct Tally {
  std::map<lab::Verdict, int> verdicts;
  std::vector<double> ratios, seconds;
  double share(std::initializer_list<lab::Verdict> which) const {
    int count = 0, all = 0;
    for (const auto& [verdict, times] : verdicts) all += times;
    for (lab::Verdict verdict : which)
      if (auto found = verdicts.find(verdict); found != verdicts.end()) count += found->second;
    return static_cast<double>(count) / all;
  }
};

/// Wilson's 95 % interval of a share.
std::pair<double, double> wilson(double share, int count) {
  const double z = 1.96;
  const double n = count, middle = (share + z * z / (2 * n)) / (1 + z * z / n),
               half =
                   z / (1 + z * z / n) * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

std::function<void()> slowed(const std::function<void()>& run, double part) {
  return [run, part] {
    const auto start = Clock::now();
    run();
    const auto end = start + (Clock::now() - start) * (1 + part);
    while (Clock::now() < end) {
    }
  };
}

void once(const std::function<void()>& a, const std::function<void()>& b,
          const lab::MeasureOptions& measuring, Tally& tally) {
  const auto start = Clock::now();
  const auto samples = lab::measure({{"a", a}, {"b", b}}, measuring);
  const lab::Judgement j = lab::judge(samples[0].ms, samples[1].ms);
  ++tally.verdicts[j.verdict];
  tally.ratios.push_back(j.ratio.ratio);
  tally.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
}

std::string percent(double share, int runs) {
  const auto [lo, hi] = wilson(share, runs);
  return lab::percent_text(share) + " [" + lab::percent_text(lo) + ", " + lab::percent_text(hi) +
         "]";
}

nlohmann::json to_json(const Tally& tally) {
  nlohmann::json verdicts;
  for (const auto& [verdict, count] : tally.verdicts) verdicts[to_string(verdict)] = count;
  return {{"verdicts", verdicts}, {"ratios", tally.ratios}, {"seconds", tally.seconds}};
}

void study(StudyOptions& o) {
  check_writable("--json", o.json);
  if (o.workload.empty()) {
    o.workload = "swiglu_f32";
    if (o.axes.empty()) o.axes = {"rows=128", "columns=1024"};
  }
  const c10::NoGradGuard no_grad;
  const PoolGuard pool;  // page faults would be most of the noise otherwise
  const Case c = cases_of({&workload_or_throw(o.workload)}, o.axes, {}).front();
  const auto call = c.workload->make({.config = c.config}).eager;
  const lab::MeasureOptions measuring = o.bench.measuring();

  lab::Progress progress(std::cerr, isatty(STDERR_FILENO) == 1, 2);
  Tally same, slower;
  const auto repeat = [&](const char* what, const std::function<void()>& other, Tally& tally) {
    progress.begin(what);
    for (int i = 0; i < o.runs; ++i) {
      progress.at(static_cast<double>(i) / o.runs,
                  std::to_string(i) + " of " + std::to_string(o.runs));
      once(call.run, other, measuring, tally);
    }
  };
  repeat("identical", call.run, same);
  repeat("slowed", slowed(call.run, o.slow), slower);
  progress.clear();

  using enum lab::Verdict;
  lab::Table table({{"b against a"},
                    {"faster", lab::Align::Right},
                    {"slower", lab::Align::Right},
                    {"same", lab::Align::Right},
                    {"ambiguous", lab::Align::Right},
                    {"a / b, median", lab::Align::Right},
                    {"seconds per run", lab::Align::Right}});
  const auto row = [&](const std::string& name, const Tally& tally) {
    std::vector<lab::Cell> cells{name};
    for (lab::Verdict verdict : {Faster, Slower, Same, Ambiguous})
      cells.push_back(percent(tally.share({verdict}), o.runs));
    cells.push_back(lab::number(lab::median(tally.ratios), 4));
    cells.push_back(lab::number(lab::median(tally.seconds)));
    table.row(std::move(cells));
  };
  row("identical", same);
  row(lab::number(100 * o.slow) + " % slower", slower);
  std::cout << c.name() << ", " << o.runs << " runs of each, preset " << o.bench.preset << ", "
            << at::get_num_threads() << " threads\n";
  table.print(std::cout, lab::colour_wanted(STDOUT_FILENO));
  std::cout << "wrongly called different: " << percent(same.share({Faster, Slower}), o.runs)
            << "; the slowdown was found: " << percent(slower.share({Slower}), o.runs) << '\n';
  if (!o.json.empty())
    formats::write_file(o.json, nlohmann::json{{"schema_version", lab::kSchemaVersion},
                                               {"case", c.name()},
                                               {"preset", o.bench.preset},
                                               {"identical", to_json(same)},
                                               {"slowed", to_json(slower)}}
                                        .dump(1) +
                                    '\n');
}

}  // namespace

void add_study(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "study", "How often the verdicts are right here: identical variants, and a slowed one");
  const auto o = std::make_shared<StudyOptions>();
  command->add_option("workload", o->workload, "Whose eager code is measured (swiglu_f32, small)");
  command->add_option("--axis", o->axes, "Its configuration: NAME=VALUE");
  command->add_option("--runs", o->runs, "Of each kind")
      ->check(CLI::Range(5, 10000))
      ->capture_default_str();
  command->add_option("--slow", o->slow, "The part by which one is slowed down")
      ->check(CLI::Range(0.001, 10.0))
      ->capture_default_str();
  command->add_option("--preset", o->bench.preset, "quick, default or strict")
      ->capture_default_str();
  command->add_option("--json", o->json, "Write every ratio to this file");
  command->callback([o] { study(*o); });
}

}  // namespace graft::cli
