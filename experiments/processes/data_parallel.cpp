// A training step of GPT-2's layers in several processes, each with a part of the batch.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <graft/graft.h>
#include <graft/systems/data_parallel.h>

#include <chrono>
#include <functional>

#include "cli/frame/usage.h"
#include "experiments/processes/workers.h"
#include "lab/timer.h"
#include "workloads/draw.h"
#include "workloads/training/parameters.h"

namespace graft::experiments {
namespace {

using at::Tensor;
using nlohmann::json;
using workloads::Tensors;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// When, within a step, sums start and end, and when the last product of a backward ends.
class Timeline {
 public:
  /// Watches this thread during `step`.
  static json of(const std::function<void()>& step) {
    t_events = json::array();
    t_start = Clock::now();
    const auto handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
              note(fn, "begins");
              return nullptr;
            },
            [](const at::RecordFunction& fn, at::ObserverContext*) { note(fn, "ends"); })
            .scopes({at::RecordScope::FUNCTION}));
    {
      const at::RecordFunctionGuard watching(true);
      step();
    }
    at::removeCallback(handle);
    json out{{"events", std::move(t_events)}, {"ms", ms_since(t_start)}};
    t_events = json();
    return out;
  }

 private:
  static void note(const at::RecordFunction& fn, const char* what) {
    const std::string name = fn.name();
    if (name.starts_with("graft::") || name.ends_with("mm"))
      t_events.push_back({name, what, ms_since(t_start)});
  }
  static thread_local json t_events;
  static thread_local Clock::time_point t_start;
};
thread_local json Timeline::t_events;
thread_local Clock::time_point Timeline::t_start;

/// Calls until all processes have their final verdict.
template <class Step>
void settle(const Step& step, const std::function<Verdict()>& verdict, systems::Group& group) {
  constexpr int kMost = 60;
  for (int call = 0; call < kMost; ++call) {
    step();
    const Tensor open = at::full({}, cli::is_final(verdict()) ? 0.f : 1.f);
    group.all_reduce(open);
    if (open.item<float>() == 0 && call > 1) return;
  }
}

}  // namespace

json training_times(systems::Group& group, const json& asked) {
  const auto number = [&](const char* name) { return asked.at(name).get<int64_t>(); };
  workloads::Options options;
  options.seed = 1;
  for (const char* axis : {"layers", "width", "vocabulary", "context"})
    options.config[axis] = std::to_string(number(axis));
  workloads::Draw draw(options);
  const Tensors parameters = workloads::gpt_parameters(options, draw, workloads::kInitial);
  const auto [first, second, steps] = workloads::adamw_state(parameters, &draw);
  for (const Tensor& p : parameters) p.requires_grad_();
  const int64_t own = number("batch") / group.size();
  const auto part = [&](const Tensor& all) { return all.narrow(0, group.rank() * own, own); };
  const Tensor tokens = draw.integers({number("batch"), number("context")}, number("vocabulary"));
  const Tensor x = part(tokens), y = part(tokens.roll(-1, 1)).contiguous();
  const workloads::Gpt model{.heads = number("heads")};
  systems::DataParallel parallel(parameters, group.shared_from_this());
  const bool alone = group.size() == 1;
  const auto step = [&](const Tensor& x, const Tensor& y) {
    return workloads::training_step([&] { return model.loss(parameters, x, y); },
                                    [&] {
                                      if (!alone) parallel.average_gradients();
                                      workloads::AdamW::step(parameters, first, second, steps);
                                    });
  };
  auto compiled = compile(step);
  const bool eager = asked.value("eager", false);
  const auto call = [&] { return eager ? step(x, y) : compiled(x, y); };
  json out{{"losses", json::array()}, {"ms", json::array()}};
  for (int64_t k = 0; k < number("losses"); ++k)
    out["losses"].push_back(parallel.average(call()).item<double>());
  if (!eager) settle(call, [&] { return compiled.report().verdict; }, group);
  for (int64_t k = 0; k < number("trials"); ++k) {
    group.barrier();
    out["ms"].push_back(lab::time_once_ms(call));
  }
  group.barrier();
  out["timeline"] = Timeline::of(call);
  out["verdict"] = eager ? "" : to_string(compiled.report().verdict);
  out["bytes"] = sizeof(float) * workloads::elements_of(parameters);
  return out;
}

}  // namespace graft::experiments
