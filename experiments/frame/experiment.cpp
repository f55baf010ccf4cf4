#include "experiments/frame/experiment.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <graft/pool.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <utility>

#include "cli/frame/context.h"
#include "cli/frame/errors.h"
#include "cli/frame/usage.h"
#include "formats/files.h"
#include "lab/report/html.h"
#include "lab/report/markdown.h"
#include "lab/table.h"

namespace graft::experiments {

using cli::UsageError;
using lab::Row;
using lab::Section;
using nlohmann::json;

struct Experiment::Step {
  std::string label;
  std::string id = {};  ///< of a part
  std::function<Section(const Say&)> part = {};
  std::function<Section(const lab::Run&)> view = {};
  Measured measured = {};
};

Experiment::Experiment(std::string name, const Settings& settings, json choice)
    : name_(std::move(name)), settings_(settings), choice_(std::move(choice)) {}
Experiment::~Experiment() = default;

void Experiment::measure(const std::string& workload, const Config& config,
                         const std::vector<std::string>& variants, bool with_peer) {
  const workloads::Workload& found = cli::workload_or_throw(workload);
  const cli::Case c{&found, config};
  steps_.push_back({.label = c.name(), .measured = {c, variants, with_peer}});
}

void Experiment::part(const std::string& id, const std::string& label,
                      std::function<Section(const Say&)> make, const cli::Case& needs) {
  steps_.push_back({.label = label, .id = id, .part = std::move(make), .measured = {needs, {}}});
}

void Experiment::view(std::function<Section(const lab::Run&)> make) {
  steps_.push_back({.label = "", .view = std::move(make)});
}

void Experiment::start() {
  if (settings_.threads > 0) at::set_num_threads(settings_.threads);
  run_.context = cli::run_context();
  run_.context["experiment"] = name_;
  run_.context["choice"] = choice_;
  run_.context["trials"] = settings_.trial_count();
  run_.context["warm_up_calls"] = settings_.warmup_count();
  run_.context["seed"] = settings_.seed;
  run_.context["quick"] = settings_.quick;
  if (settings_.resume && std::filesystem::exists(settings_.json)) {
    lab::Run before = lab::read_run(settings_.json);
    const auto identity = [](const json& context) {
      json out;
      for (const char* key : {"experiment", "choice", "trials", "warm_up_calls", "seed", "quick",
                              "threads", "cpu", "torch", "graft"})
        out[key] = context.value(key, json());
      return out;
    };
    const json was = identity(before.context), now = identity(run_.context);
    if (was != now)
      throw UsageError("--resume: " + settings_.json + " holds " + was.dump() +
                       ", this command is " + now.dump() +
                       "; give the same options, or another file.");
    for (const Section& section : lab::sections_of(before.context))
      if (!section.table.empty()) made_.emplace(section.id, section);  // others were skipped
    run_ = std::move(before);
  }
  if (settings_.peers) {
    const cli::PeerOptions options{.python = settings_.python,
                                   .threads = at::get_num_threads(),
                                   .min_time = settings_.quick || settings_.small ? 0.3 : 2,
                                   .timeout = settings_.timeout};
    peer_ = std::make_unique<cli::Peer>(options);  // throws what is missing
    run_.context["peers"][peer_->name()] = peer_->version();
  }
}

bool Experiment::is_done(const cli::Case& c, const std::string& variant) const {
  const Row* row = run_.find(c.name(), variant);
  return row != nullptr && row->status == lab::Status::Ok;
}

void Experiment::keep(std::vector<Row> rows) {
  for (Row& row : rows) {
    std::erase_if(run_.rows, [&](const Row& old) {
      return old.variant == row.variant && old.case_name() == row.case_name();
    });
    run_.rows.push_back(std::move(row));
  }
}

void Experiment::measure(const Measured& step) {
  const auto& [c, variants, with_peer] = step;
  cli::BenchOptions options = settings_.bench(variants);
  options.small = settings_.small;
  const auto without_time = [&](lab::Status status, std::string why) {
    Row row;
    row.name = c.workload->name, row.config = c.config, row.variant = variants.front();
    row.status = status, row.error = std::move(why);
    keep({std::move(row)});
  };
  if (std::string why = cli::lacks_memory(c, options); !why.empty())
    return without_time(lab::Status::Skipped, std::move(why));
  const auto say = [&](double part, const std::string& what) {
    if (progress_) progress_->at(part, what);
  };
  try {
    bool done = run_.reference(c.name()) != nullptr;
    if (done)  // names them one by one, for which it makes the inputs
      for (const std::string& variant : cli::variants_of(c, options))
        done = done && is_done(c, variant);
    if (!done) keep(cli::measure_in_turns(c, options, say));
    pool_trim();  // the next case has other sizes
  } catch (const c10::Error& error) {
    return without_time(lab::Status::Failed, cli::error_text(error));
  }
  if (!peer_ || !with_peer || is_done(c, peer_->name())) return;
  write(false);  // a peer compiles for minutes
  say(1, peer_->name());
  Config config = c.config;
  if (settings_.small)
    for (const workloads::Axis& axis : c.workload->axes) config.emplace(axis.name, axis.small);
  Row row = peer_->measure(c.workload->name, config);
  row.config = c.config;
  keep({std::move(row)});
}

void Experiment::make(const Step& step) {
  if (made_.contains(step.id)) return;
  const cli::Case& needs = step.measured.c;
  cli::BenchOptions options = settings_.bench({});
  options.small = settings_.small;
  if (needs.workload != nullptr)
    if (std::string why = cli::lacks_memory(needs, options); !why.empty()) {
      Section section{step.id, step.label};
      section.notes = {"skipped: " + why};
      made_.insert_or_assign(step.id, std::move(section));
      return;
    }
  Section section = step.part([&](double part, const std::string& what) {
    if (progress_) progress_->at(part, what);
  });
  section.id = step.id;
  made_.insert_or_assign(step.id, std::move(section));
}

std::vector<Section> Experiment::sections() const {
  std::vector<Section> out;
  for (const Step& step : steps_) {
    if (step.view) {
      Section section = step.view(run_);
      if (!section.table.empty()) out.push_back(std::move(section));
    } else if (const auto found = made_.find(step.id); step.part && found != made_.end()) {
      out.push_back(found->second);
    }
  }
  return out;
}

void Experiment::write(bool last) {
  json all = json::array();
  for (const Section& section : sections()) all.push_back(lab::to_json(section));
  run_.context["sections"] = std::move(all);
  constexpr auto kReplace = json::error_handler_t::replace;  // errors are others' text
  if (!settings_.json.empty())
    formats::write_file(settings_.json,
                        lab::to_json(run_, last).dump(1, ' ', false, kReplace) + '\n');
  if (!last) return;
  const std::vector<lab::NamedRun> named{{"graft " + name_, run_}};
  if (!settings_.html.empty()) formats::write_file(settings_.html, lab::html_report(named));
  if (!settings_.markdown.empty())
    formats::write_file(settings_.markdown, lab::markdown_report(named));
}

void Experiment::run() {
  start();
  const c10::NoGradGuard no_grad;  // training turns gradients on itself
  const auto count = std::count_if(steps_.begin(), steps_.end(),
                                   [](const Step& step) { return !step.label.empty(); });
  if (!settings_.quiet) {
    cli::warn_if_busy(run_.context);
    progress_ = std::make_unique<lab::Progress>(std::cerr, isatty(STDERR_FILENO) == 1,
                                                static_cast<size_t>(count));
  }
  for (const Step& step : steps_) {
    if (step.view) continue;
    if (progress_) progress_->begin(step.label);
    step.part ? make(step) : measure(step.measured);
    write(false);
  }
  progress_.reset();
  peer_.reset();
  write(true);
  const bool colour = !settings_.no_color && lab::colour_wanted(STDOUT_FILENO);
  for (const Section& section : sections()) lab::print(std::cout, section, colour);
  std::string files;
  for (const std::string& path : {settings_.json, settings_.html, settings_.markdown})
    if (!path.empty()) files += (files.empty() ? "" : ", ") + path;
  if (!files.empty()) std::cout << "Written: " << files << '\n';
}

}  // namespace graft::experiments
