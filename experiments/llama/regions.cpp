#include <algorithm>
#include <cmath>

#include "cli/frame/usage.h"
#include "experiments/frame/tables.h"
#include "experiments/frame/watch.h"
#include "experiments/llama/parts.h"
#include "lab/profile/worth.h"
#include "lab/stats.h"
#include "lab/timer.h"
#include "lab/words.h"
#include "workloads/systems/llama.h"
#include "workloads/systems/parts.h"

namespace graft::experiments::llama {
namespace {

using workloads::llama::Model;
using workloads::llama::Regions;
using workloads::llama::System;

/// Those of the cut `graft_surgical`.
bool is_compiled(const std::string& region) {
  return region != "attend" && region != "mix" && region != "combine";
}

/// A region's median times: alone, with its arguments in the cache as it leaves them.
struct Alone {
  double eager_ms = 0, compiled_ms = 0, compile_ms = 0;
  std::string reason;
  bool stays_eager = false;
};

Alone measure_alone(const Watch::Seen& seen, const Settings& settings) {
  const workloads::Instance instance = seen.instance();
  Options options;
  options.name = seen.name;
  options.cache = false;
  const workloads::CompiledCall compiled = instance.compile(options);
  cli::settle(compiled);
  const std::vector<lab::Samples> samples =
      lab::measure({{"eager", instance.eager.run}, {"graft", compiled.run}},
                   {.min_time = settings.quick || settings.small ? 0.05 : 0.3});
  const Report report = compiled.report();
  return {lab::median(samples[0].ms), lab::median(samples[1].ms),
          report.compile_ms + report.record_ms, report.reason, report.verdict != Verdict::Faster};
}

}  // namespace

lab::Section regions(const workloads::Options& options, const Settings& settings, const Say& say,
                     nlohmann::json& facts) {
  say(0, "making the model");
  const System system = System::of(options);
  const Model model = system.model();
  const auto forward = [&](const Regions& with) {
    (void)model.forward(system.x, system.cos, system.sin, with);
  };
  Regions eager = Regions::eager(system.shape), compiled = eager;
  Options compile;
  compile.cache = false;
  workloads::Parts parts(compile);
  compiled.each([&](const std::string& name, auto& function) {
    if (is_compiled(name)) parts.compile(name, function);
  });
  say(0.1, "compiling");
  cli::settle(parts.in({[&] { forward(compiled); }, {}}));

  Watch of_eager, of_compiled;
  eager.each([&](const std::string& name, auto& f) { of_eager.in(name, f); });
  compiled.each([&](const std::string& name, auto& f) { of_compiled.in(name, f); });
  std::vector<double> whole_eager, whole_compiled;
  const int passes = std::max(3, settings.trial_count());
  for (int pass = 0; pass < passes + 2; ++pass) {
    if (pass == 2)
      of_eager.forget(), of_compiled.forget(), whole_eager.clear(), whole_compiled.clear();
    whole_eager.push_back(lab::time_once_ms([&] { of_eager.pass([&] { forward(eager); }); }));
    whole_compiled.push_back(
        lab::time_once_ms([&] { of_compiled.pass([&] { forward(compiled); }); }));
    say(0.2 + 0.4 * pass / passes, "running the model");
  }

  lab::Section out{"regions", "Regions",
                   "Share: of the eager model's time. Milliseconds are of one call inside the "
                   "model; \"alone\" is the speed-up of the region by itself, where its arguments "
                   "come from the cache. Saves: of the model's time."};
  out.table =
      lab::Table(columns({"region"}, {"calls", "share", "eager ms", "compiled ms", "speed-up",
                                      "alone", "saves", "compiling ms", "pays after"}));
  lab::Figure figure{"Share of the model's time, and what compiling saves of it", {}, {}, "", "%"};
  figure.series = {{"share"}, {"saved"}};
  const double whole = lab::median(whole_eager);
  double saved = 0;
  for (size_t i = 0; i < of_eager.seen().size(); ++i) {
    const Watch::Seen &was = of_eager.seen()[i], &is = of_compiled.seen()[i];
    if (was.calls == 0) continue;
    say(0.6 + 0.4 * static_cast<double>(i) / static_cast<double>(of_eager.seen().size()),
        was.name + " alone");
    const auto calls = static_cast<double>(was.calls);
    lab::RegionGain gain{was.name, calls, lab::median(was.pass_ms) / whole,
                         lab::median(was.pass_ms) / calls, lab::median(is.pass_ms) / calls};
    gain.stays_eager = !is_compiled(was.name);
    Alone alone;
    if (!gain.stays_eager) {
      alone = measure_alone(was, settings);
      gain.compile_ms = alone.compile_ms;
      gain.stays_eager = alone.stays_eager;
      if (alone.stays_eager && !alone.reason.empty())
        out.notes.push_back(was.name + " stays eager: " + alone.reason);
    }
    saved += gain.saves();
    const bool compiled_here = is_compiled(was.name);
    out.table.row(
        {was.name, lab::number(calls), lab::percent_text(gain.share), lab::number(gain.eager_ms),
         compiled_here ? lab::number(gain.compiled_ms) : "eager",
         compiled_here ? times_cell(gain.speedup()) : "",
         compiled_here ? times_cell(alone.eager_ms / alone.compiled_ms) : "",
         compiled_here ? lab::percent_text(gain.saves()) : "",
         compiled_here ? lab::number(gain.compile_ms) : "",
         compiled_here ? pays_text(gain.compile_ms, calls * gain.eager_ms, calls * gain.compiled_ms)
                       : ""});
    figure.labels.push_back(was.name);
    figure.series[0].values.push_back(100 * gain.share);
    figure.series[1].values.push_back(compiled_here ? 100 * std::max(0.0, gain.saves()) : NAN);
  }
  const double predicted = 1 / (1 - saved);
  facts = {{"predicted", predicted}, {"measured_watched", whole / lab::median(whole_compiled)}};
  out.figures.push_back(std::move(figure));
  out.notes.push_back("By Amdahl these gains make the model " + lab::number(predicted, 4) +
                      "x as fast; watched in turns it was " +
                      lab::number(whole / lab::median(whole_compiled), 4) + "x.");
  return out;
}

}  // namespace graft::experiments::llama
