#include <ATen/ATen.h>
#include <graft/graft.h>

#include <algorithm>
#include <random>

#include "cli/frame/usage.h"
#include "experiments/frame/tables.h"
#include "experiments/llama/parts.h"
#include "lab/stats.h"
#include "lab/timer.h"
#include "lab/words.h"
#include "workloads/regions.h"
#include "workloads/systems/llama.h"
#include "workloads/systems/parts.h"

namespace graft::experiments::llama {
namespace {

using at::Tensor;
using workloads::llama::Model;
using workloads::llama::Regions;
using workloads::llama::System;

/// A sequence's forward.
using Forward = std::function<Tensor(const Tensor& x, const Tensor& cos, const Tensor& sin)>;

struct Side {
  std::string name;
  Forward forward;
  std::function<Report()> report = {};
  std::vector<double> ms = {};
};

}  // namespace

lab::Section lengths(const workloads::Options& options, const Settings& settings, const Say& say) {
  const System system = System::of(options);
  const auto model = std::make_shared<const Model>(system.model());
  const int64_t longest = system.x.size(1), shortest = std::max<int64_t>(2, longest / 8);
  const auto with = [model](const Regions& regions) -> Forward {
    return [model, regions](const Tensor& x, const Tensor& cos, const Tensor& sin) {
      return model->forward(x, cos, sin, regions);
    };
  };
  Options compile;
  compile.cache = false;
  compile.sizes = Sizes::Family;
  workloads::Parts parts(compile);
  Regions surgical = Regions::eager(system.shape);
  surgical.each([&](const std::string& name, auto& function) {
    if (name != "attend" && name != "combine" && name != "mix") parts.compile(name, function);
  });
  compile.name = "whole";
  const auto whole = graft::compile(with(Regions::eager(system.shape)), compile);
  std::vector<Side> sides{{"eager", with(Regions::eager(system.shape))},
                          {"graft_surgical", with(surgical), [parts] { return parts.report(); }},
                          {"graft", Forward(whole), [whole] { return whole.report(); }}};

  const int count = settings.small ? 12 : settings.quick ? 24 : 120;
  std::mt19937_64 random(settings.seed);
  std::uniform_int_distribution<int64_t> any(shortest, longest);
  double largest = 0;
  std::vector<int64_t> seen;
  for (int call = 0; call < count; ++call) {
    const int64_t length = any(random);
    seen.push_back(length);
    const Tensor x = system.x.slice(1, 0, length).contiguous(),
                 cos = system.cos.slice(0, 0, length).contiguous(),
                 sin = system.sin.slice(0, 0, length).contiguous();
    std::vector<Tensor> results(sides.size());
    for (size_t turn = 0; turn < sides.size(); ++turn) {
      const size_t at = (turn + static_cast<size_t>(call)) % sides.size();
      sides[at].ms.push_back(
          lab::time_once_ms([&] { results[at] = sides[at].forward(x, cos, sin); }));
    }
    for (size_t at = 1; at < sides.size(); ++at)
      largest = std::max(
          largest,
          (results[at].to(at::kDouble) - results[0].to(at::kDouble)).abs().max().item<double>());
    say(static_cast<double>(call) / count, "length " + std::to_string(length));
  }

  lab::Section out{
      "lengths", "Variable lengths",
      "A stream of " + std::to_string(count) + " sequences of " + std::to_string(shortest) +
          " to " + std::to_string(longest) +
          " tokens in random order, compiled with Sizes::Family. All: recording, compiling in the "
          "background, proofs and races included. Later half: against eager's, call by call."};
  out.table = lab::Table(columns({"variant"}, {"all, s", "against eager", "later half", "recorded",
                                               "served by a plan", "of a range", "compiling ms"}));
  const auto sum = [](const std::vector<double>& ms, size_t from) {
    double total = 0;
    for (size_t i = from; i < ms.size(); ++i) total += ms[i];
    return total;
  };
  const size_t half = static_cast<size_t>(count) / 2;
  lab::Figure figure{"Milliseconds of each call", {}, {}, "call", "ms"};
  for (const Side& side : sides) {
    const Report report = side.report ? side.report() : Report{};
    const bool is_eager = !side.report;
    out.table.row({side.name, lab::number(sum(side.ms, 0) / 1000),
                   is_eager ? "" : times_cell(sum(sides[0].ms, 0) / sum(side.ms, 0)),
                   is_eager ? "" : times_cell(sum(sides[0].ms, half) / sum(side.ms, half)),
                   is_eager ? "" : std::to_string(report.records),
                   is_eager ? "" : std::to_string(report.plan_hits),
                   is_eager ? "" : std::to_string(report.family_calls),
                   is_eager ? "" : lab::number(report.compile_ms)});
    lab::Figure::Series& series = figure.series.emplace_back(lab::Figure::Series{side.name});
    for (size_t i = 0; i < side.ms.size(); ++i)
      series.points.emplace_back(static_cast<double>(i + 1), side.ms[i]);
  }
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  out.notes.push_back(std::to_string(seen.size()) +
                      " different lengths; results differ from "
                      "eager's by at most " +
                      lab::number(largest, 2));
  out.figures.push_back(std::move(figure));
  return out;
}

}  // namespace graft::experiments::llama
