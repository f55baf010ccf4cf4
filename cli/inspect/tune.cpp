#include "cli/inspect/tune.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/frame/context.h"
#include "cli/frame/usage.h"
#include "formats/files.h"
#include "graft/workload.h"
#include "lab/progress.h"
#include "lab/run.h"
#include "lab/table.h"
#include "lab/timer.h"
#include "lab/verdict.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using lab::Align;
using lab::Cell;
using lab::Judgement;
using lab::Style;
using workloads::CompiledCall;
using workloads::Instance;

using Ways = std::map<std::string, std::string>;  // Options::decisions

struct TuneChoice {
  std::string workload, json;
  std::vector<std::string> axes;
  size_t most = 12;
  uint64_t seed = 0;
  int threads = 0;  // 0: ATen's choice
  bool all = false, small = false, quick = false, no_color = false, quiet = false;
  Options compile;
};

/// What became of a way that was not taken, or of several of them at once.
struct Trial {
  std::string outcome;                 ///< why it was not timed; empty where it was
  std::optional<Judgement> judgement;  ///< beside the model's choice

  bool faster() const { return judgement && judgement->verdict == lab::Verdict::Faster; }
};
struct Tried {
  Decision decision;
  Trial trial;
  double estimated() const { return 1 / decision.ratio(); }
};

/// Why the call does not run compiled code; empty for code that was found equal to eager.
std::string refusal(const CompiledCall& compiled) {
  const Report report = compiled.report();
  if (report.verdict == Verdict::Faster) return "";
  return to_string(report.verdict) + (report.reason.empty() ? "" : ": " + report.reason);
}

/// What the last pass left, as text.
std::string schedule_of(const CompiledCall& compiled) {
  const std::string text = compiled.explain();
  const size_t end = text.find("\n== pass-times ==\n"), begin = text.rfind("\n== ", end - 1);
  return end == std::string::npos ? "" : text.substr(begin, end - begin);
}

std::string gain_text(double gain) {
  return lab::number(gain) + "x";
}
std::string gain_text(const lab::Ratio& gain) {
  return gain_text(gain.ratio) + " [" + lab::number(gain.lo) + ", " + lab::number(gain.hi) + "]";
}

nlohmann::json to_json(const Trial& trial) {
  nlohmann::json json{{"outcome", trial.outcome}, {"measured", nullptr}, {"verdict", nullptr}};
  if (trial.judgement) {
    const lab::Ratio& ratio = trial.judgement->ratio;
    json["measured"] = {{"ratio", ratio.ratio}, {"lo", ratio.lo}, {"hi", ratio.hi}};
    json["verdict"] = to_string(trial.judgement->verdict);
  }
  return json;
}

class Tuner {
 public:
  explicit Tuner(const TuneChoice& choice)
      : choice_(choice), workload_(workload_or_throw(choice.workload)) {}

  void run() {
    check_writable("--json", choice_.json);
    if (choice_.threads > 0) at::set_num_threads(choice_.threads);
    const c10::NoGradGuard no_grad;  // as bench
    context_ = context();
    if (!choice_.quiet) warn_if_busy(context_);
    instance_ = workload_.make(
        {.seed = choice_.seed, .small = choice_.small, .config = axis_values(choice_.axes)});
    model_ = compiled_with({});
    if (const std::string why = refusal(model_); !why.empty())
      throw UsageError("there is nothing to tune in " + workload_.name +
                       ", which stays eager: " + why);
    schedule_ = schedule_of(model_);
    std::vector<Decision> decisions = closest_first(model_.decisions());
    made_ = decisions.size();
    if (!choice_.all) decisions.resize(std::min(decisions.size(), choice_.most));
    try_all(decisions);
    print();
  }

 private:
  nlohmann::json context() const {
    nlohmann::json context = run_context();
    context["seed"] = choice_.seed;
    context["small"] = choice_.small;
    context["config"] = axis_values(choice_.axes);
    context["numerics"] = numerics_name(choice_.compile.numerics);
    context["mode"] = mode_name(choice_.compile.mode);
    return context;
  }

  /// Without the race: compiled code is to be timed, also where eager is faster.
  CompiledCall compiled_with(const Ways& ways) const {
    Options options = choice_.compile;
    options.name = workload_.name;
    options.race = false;
    options.decisions = ways;
    CompiledCall compiled = instance_.compile(options);
    settle(compiled);
    return compiled;
  }

  void try_all(const std::vector<Decision>& decisions) {
    std::unique_ptr<lab::Progress> progress;
    if (!choice_.quiet)
      progress = std::make_unique<lab::Progress>(std::cerr, isatty(STDERR_FILENO) == 1,
                                                 decisions.size() + 1);
    for (const Decision& decision : decisions) {
      const std::string& way = decision.runner_up().name;
      if (progress) progress->begin(decision.id() + ": " + way);
      tried_.push_back({decision, try_ways({{decision.id(), way}}, progress.get())});
      write_json();  // a run that is stopped has lost one trial
    }
    const Ways better = faster_ways();
    if (better.size() < 2) return;
    if (progress) progress->begin("all that were faster");
    together_ = try_ways(better, progress.get());
    write_json();
  }

  Ways faster_ways() const {
    Ways ways;
    for (const Tried& tried : tried_)
      if (tried.trial.faster()) ways[tried.decision.id()] = tried.decision.runner_up().name;
    return ways;
  }

  Trial try_ways(const Ways& ways, lab::Progress* progress) const {
    if (progress != nullptr) progress->at(0, "compiling, comparing with eager");
    Trial trial;
    const CompiledCall other = compiled_with(ways);
    trial.outcome = refusal(other);
    if (trial.outcome.empty() && schedule_of(other) == schedule_) trial.outcome = "same schedule";
    if (!trial.outcome.empty()) return trial;
    lab::MeasureOptions options;
    options.min_time = choice_.quick ? 0.1 : 0.5;
    options.max_time = choice_.quick ? 0.3 : 2;
    options.min_samples = choice_.quick ? 5 : 10;
    options.precision = 0.02;
    if (progress != nullptr)
      options.progress = [&](double done, const std::string&) { progress->at(done, "timing"); };
    const std::vector<lab::Samples> timed =
        lab::measure({{"model", model_.run}, {"other", other.run}}, options);
    trial.judgement = lab::judge(timed[0].ms, timed[1].ms);
    return trial;
  }

  void write_json() const {
    if (choice_.json.empty()) return;
    nlohmann::json tried = nlohmann::json::array();
    for (const Tried& t : tried_) {
      const Decision& d = t.decision;
      nlohmann::json row = to_json(t.trial);
      row.update({{"id", d.id()},
                  {"taken", d.ways[d.taken].name},
                  {"way", d.runner_up().name},
                  {"estimated", t.estimated()}});
      tried.push_back(std::move(row));
    }
    const nlohmann::json json{{"schema_version", lab::kSchemaVersion},
                              {"context", context_},
                              {"workload", workload_.name},
                              {"decisions", faster_ways()},
                              {"together", together_ ? to_json(*together_) : nlohmann::json()},
                              {"tried", std::move(tried)}};
    constexpr auto kReplace = nlohmann::json::error_handler_t::replace;  // errors are others' text
    formats::write_file(choice_.json, json.dump(1, ' ', false, kReplace) + '\n');
  }

  void print() const {
    if (tried_.empty()) {
      std::cout << workload_.name << ": " << decisions_text({}, 0);
      return;
    }
    lab::Table table({{"pass"},
                      {"about"},
                      {"taken"},
                      {"other way"},
                      {"estimated", Align::Right},
                      {"measured", Align::Right},
                      {"the other way is"}});
    std::vector<Tried> rows = tried_;
    std::stable_sort(rows.begin(), rows.end(), [](const Tried& a, const Tried& b) {
      return a.trial.faster() > b.trial.faster();
    });
    for (const Tried& t : rows) {
      const Decision& d = t.decision;
      std::vector<Cell> cells{d.pass, d.about, d.ways[d.taken].name, d.runner_up().name,
                              gain_text(t.estimated())};
      if (t.trial.judgement) {
        cells.emplace_back(gain_text(t.trial.judgement->ratio));
        cells.emplace_back(to_string(t.trial.judgement->verdict),
                           t.trial.faster() ? Style::Bad : Style::Plain);
      } else {
        cells.emplace_back("-");
        cells.emplace_back(t.trial.outcome);
      }
      table.row(std::move(cells));
    }
    const bool colour = !choice_.no_color && lab::colour_wanted(STDOUT_FILENO);
    std::cout << lab::styled(workload_.name + ": what the other way gains, over the one taken",
                             Style::Bold, colour)
              << "\nestimated: of the statements decided about; measured: of the whole call\n\n";
    table.print(std::cout, colour);
    std::cout << '\n' << summary() << '\n';
  }

  std::string summary() const {
    const size_t wrong = faster_ways().size();
    std::string text = "Of " + lab::count_text(static_cast<int64_t>(made_), "decision") + ", " +
                       std::to_string(tried_.size()) + " were tried; in " + std::to_string(wrong) +
                       " of them the other way is faster.";
    if (tried_.size() < made_) text += " --all tries the others, too.";
    if (together_)
      text += " These ways together: " +
              (together_->judgement ? gain_text(together_->judgement->ratio) + ", " +
                                          to_string(together_->judgement->verdict)
                                    : together_->outcome) +
              '.';
    return text;
  }

  const TuneChoice& choice_;
  const workloads::Workload& workload_;
  nlohmann::json context_;
  Instance instance_;
  CompiledCall model_;    ///< by the cost model's choices
  std::string schedule_;  ///< of it
  size_t made_ = 0;       ///< decisions
  std::vector<Tried> tried_;
  std::optional<Trial> together_;  ///< all ways that are faster
};

}  // namespace

void add_tune(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("tune", "Time the ways that estimates of cost did not take");
  const auto o = std::make_shared<TuneChoice>();
  command->add_option("workload", o->workload, "One of 'graft list'")->required();
  command->add_option("--most", o->most, "How many decisions to try, the closest first (12)")
      ->check(CLI::Range(1, 100000));
  command->add_flag("--all", o->all, "Try all of them");
  command->add_option("--seed", o->seed, "Of the inputs (0)");
  command->add_option("--threads", o->threads, "ATen's threads")->check(CLI::Range(1, 1024));
  add_axis_flag(*command, o->axes);
  command->add_flag("--small", o->small, "Tiny inputs: to try the command");
  command->add_flag("--quick", o->quick, "A first look: shorter timings");
  command->add_option("--json", o->json, "Write what was measured to this file");
  command->add_flag("--no-color", o->no_color,
                    "Plain text on a terminal too; NO_COLOR does the same");
  command->add_flag("--quiet", o->quiet, "No progress");
  add_compile_flags(*command, o->compile);
  command->callback([o] { Tuner(*o).run(); });
}

}  // namespace graft::cli
