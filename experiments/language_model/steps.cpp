// Where a training step's time and memory go.
#include <ATen/Parallel.h>
#include <graft/pool.h>

#include <algorithm>

#include "cli/frame/usage.h"
#include "experiments/frame/tables.h"
#include "experiments/language_model/parts.h"
#include "lab/memory/memory.h"
#include "lab/profile/profile.h"
#include "lab/profile/table.h"
#include "lab/stats.h"
#include "lab/timer.h"
#include "lab/words.h"

namespace graft::experiments::language_model {
namespace {

workloads::Instance step_of(const Config& config, const Settings& settings) {
  return cli::workload_or_throw("lm_step").make(
      {.seed = settings.seed, .small = settings.small, .config = config});
}

workloads::CompiledCall compiled(const workloads::Instance& instance) {
  Options options;
  options.name = "lm_step";
  options.cache = false;
  return instance.compile(options);
}

std::string config_text(const Config& config) {
  std::string out;
  for (const auto& [axis, value] : config) out += (out.empty() ? "" : ", ") + axis + ' ' + value;
  return out.empty() ? "the workload's own sizes" : out;
}

}  // namespace

lab::Section warm_up(const Config& config, const Settings& settings, const Say& say) {
  constexpr int kSteps = 10, kLongest = 5;
  lab::Section out{"warm-up", "Steps of warm-up",
                   "The mean of " + std::to_string(kSteps) +
                       " steps after so many, from a fresh start: recording, compiling in the "
                       "background and proofs are in it. " +
                       config_text(config) + '.'};
  out.table = lab::Table(columns({"variant"}, {"first step ms", "after 0, ms", "after 1, ms",
                                               "after 5, ms", "stddev after 0", "after 5"}));
  lab::Figure figure{"Milliseconds of each step from the first", {}, {}, "step", "ms"};
  const auto add = [&](const char* name, const std::function<void()>& run) {
    std::vector<double> ms;
    for (int i = 0; i < kSteps + kLongest; ++i) {
      ms.push_back(lab::time_once_ms(run));
      say(static_cast<double>(i) / (kSteps + kLongest), name);
    }
    const auto after = [&](int steps) {
      return std::span(ms).subspan(static_cast<size_t>(steps), kSteps);
    };
    out.table.row({name, lab::number(ms[0]), lab::number(lab::mean(after(0))),
                   lab::number(lab::mean(after(1))), lab::number(lab::mean(after(5))),
                   lab::number(lab::stddev(after(0))), lab::number(lab::stddev(after(5)))});
    lab::Figure::Series& series = figure.series.emplace_back(lab::Figure::Series{name});
    for (size_t i = 0; i < ms.size(); ++i)
      series.points.emplace_back(static_cast<double>(i + 1), ms[i]);
  };
  const workloads::Instance instance = step_of(config, settings);
  add("eager", instance.eager.run);
  const workloads::CompiledCall call = compiled(instance);
  add("graft", call.run);
  call.wait();
  out.figures.push_back(std::move(figure));
  return out;
}

lab::Section kernels(const Config& config, const Settings& settings, const Say& say) {
  constexpr size_t kMost = 8;
  const workloads::Instance instance = step_of(config, settings);
  say(0.1, "profiling");
  const lab::Profile profile =
      lab::profile(instance.eager.run, {.calls = settings.quick || settings.small ? 3 : 10,
                                        .warmup = settings.quick || settings.small ? 1 : 3});
  lab::Section out{"kernels", "Where a step's time goes",
                   "Operators of the eager step by range, by their own time; the " +
                       std::to_string(kMost) + " largest of each. " + config_text(config) + '.'};
  out.table = lab::Table(
      columns({"range", "operator", "kind"}, {"share", "total ms", "instances", "average us",
                                              "median us", "min us", "max us", "stddev us"}));
  lab::Figure figure{"Kinds of work by range, ms a step", {}, {}, "", "ms"};
  for (const lab::Kind kind : lab::kKinds) figure.series.push_back({lab::to_string(kind)});
  for (const std::string range : {"forward", "forward/attention", "backward", "optimizer"}) {
    const auto rows = lab::operator_rows(profile, range);
    if (rows.empty()) continue;
    if (!out.table.empty()) out.table.rule();
    for (size_t i = 0; i < std::min(kMost, rows.size()); ++i) {
      const lab::OperatorRow& row = rows[i];
      out.table.row({i == 0 ? range : "", row.name, lab::to_string(row.kind),
                     lab::percent_text(row.share), lab::number(row.self_ms),
                     std::to_string(row.instances), lab::number(row.avg_us),
                     lab::number(row.median_us), lab::number(row.min_us), lab::number(row.max_us),
                     lab::number(row.stddev_us)});
    }
    figure.labels.push_back(range);
    const auto kinds = lab::kind_rows(profile, range);
    std::string text;
    for (size_t k = 0; k < std::size(lab::kKinds); ++k) {
      const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const lab::KindRow& row) {
        return row.kind == lab::kKinds[k];
      });
      const bool there = found != kinds.end();
      figure.series[k].values.push_back(there ? found->self_ms / profile.calls : NAN);
      if (there && found->share >= 0.005)
        text += (text.empty() ? "" : ", ") + std::string(lab::to_string(found->kind)) + ' ' +
                lab::percent_text(found->share);
    }
    out.notes.push_back(range + ": " + text);
  }
  double softmax = 0, matmul = 0;
  for (const lab::OperatorRow& row : lab::operator_rows(profile, "forward/attention")) {
    if (row.name.find("softmax") != std::string::npos) softmax += row.self_ms;
    if (row.kind == lab::Kind::Matmul) matmul += row.self_ms;
  }
  if (matmul > 0)
    out.notes.push_back("inside attention softmax takes " + lab::number(softmax / matmul) +
                        " times what its matmuls take");
  out.figures.push_back(std::move(figure));
  return out;
}

lab::Section memory(const Config& config, const Settings& settings, const Say& say) {
  const workloads::Instance instance = step_of(config, settings);
  const workloads::CompiledCall call = compiled(instance);
  say(0.1, "compiling");
  cli::settle(call);
  const auto watch = [&](const std::function<void()>& run) {
    run();
    pool_trim();
    lab::MemoryTracker tracker({.cached = [] { return pool_stats().cached_bytes; }});
    run();
    tracker.stop();
    return tracker.report();
  };
  lab::Section out{"memory", "Memory over a step",
                   "Live tensors above what there was before the step: parameters and AdamW's "
                   "state are not in it. The largest allocations at the peak, with the operators "
                   "and ranges that made them. " +
                       config_text(config) + '.'};
  out.table = lab::Table(columns({"variant", "made by", "in"}, {"size", "count", "together"}));
  lab::Figure figure{"Live memory over a step", {}, {}, "ms", "MiB"};
  for (const auto& [name, run] : {std::pair("eager", instance.eager.run), {"graft", call.run}}) {
    say(0.6, name);
    const lab::MemoryReport report = watch(run);
    if (!out.table.empty()) out.table.rule();
    bool first = true;
    for (const lab::MemoryOwner& owner : report.largest) {
      out.table.row({first ? name : "", owner.op.empty() ? "no operator" : owner.op, owner.region,
                     lab::bytes_text(static_cast<double>(owner.bytes)), std::to_string(owner.count),
                     lab::bytes_text(static_cast<double>(owner.bytes * owner.count))});
      first = false;
    }
    lab::Figure::Series& series = figure.series.emplace_back(lab::Figure::Series{name});
    for (const lab::MemoryPoint& point : report.timeline) {
      const double ms = point.seconds * 1000;
      if (!series.points.empty()) series.points.emplace_back(ms, series.points.back().second);
      series.points.emplace_back(ms, static_cast<double>(point.live - report.start_bytes) / 0x1p20);
    }
    out.notes.push_back(std::string(name) + ": peak " +
                        lab::bytes_text(static_cast<double>(report.peak_bytes)));
  }
  out.figures.push_back(std::move(figure));
  return out;
}

}  // namespace graft::experiments::language_model
