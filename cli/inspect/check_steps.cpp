#include "cli/inspect/check_steps.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/nextafter.h>
#include <ATen/ops/stack.h>
#include <graft/graft.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/frame/usage.h"
#include "lab/accuracy/accuracy.h"
#include "lab/progress.h"
#include "lab/table.h"
#include "lab/thread_count.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using lab::Align;
using lab::Cell;
using lab::Style;
using workloads::Call;
using workloads::Instance;
using workloads::Steps;

/// How the losses of one training differ from eager's.
struct Apart {
  int64_t steps = 0;  ///< with other bits
  int64_t first = 0;  ///< of these, from 1; 0: none
  double largest = 0;
};

/// One training beside eager's.
struct Beside {
  const char* name;   ///< in the file
  at::Tensor losses;  ///< of each step
  Apart apart;
};

/// One workload, trained from the same start. How far rounding alone takes eager is seen from what
/// another number of threads makes of it, and weights that start one ulp higher.
struct Trained {
  std::string name;
  HowItRan how;
  at::Tensor eager;  ///< losses
  Beside compiled, threads, nudged;
  int other_threads = 1;
  bool good = false;
};

/// Moves what is trained by one ulp; all numbers where no leaf says what that is.
void nudge(const Steps& run) {
  const bool leaves = std::any_of(run.state.begin(), run.state.end(),
                                  [](const at::Tensor& t) { return t.requires_grad(); });
  for (const at::Tensor& t : run.state)
    if (leaves ? t.requires_grad() : t.is_floating_point())
      t.copy_(at::nextafter(t, at::full_like(t, std::numeric_limits<double>::infinity())));
}

/// The losses of `steps` calls from the start; nullopt if calls return no loss first: a number.
std::optional<at::Tensor> losses_of(const Call& call, int steps, bool nudged,
                                    const std::function<void(double)>& at) {
  if (!call.steps) return std::nullopt;
  const Steps run = call.steps();
  if (nudged) nudge(run);
  std::vector<at::Tensor> losses;
  for (int i = 0; i < steps; ++i) {
    const workloads::Tensors results = run.next();
    if (results.empty() || results[0].dim() != 0 || !results[0].is_floating_point())
      return std::nullopt;
    losses.push_back(results[0].clone());
    at(static_cast<double>(i + 1) / steps);
  }
  return at::stack(losses);
}

Apart apart(const at::Tensor& losses, const at::Tensor& eager) {
  const lab::TensorAccuracy all = lab::accuracy({losses}, {eager}).all;
  Apart out{.steps = all.different, .first = 0, .largest = all.max_abs.value};
  for (int64_t i = 0; out.steps > 0 && out.first == 0; ++i)
    if (!lab::accuracy({losses[i]}, {eager[i]}).bitwise()) out.first = i + 1;
  return out;
}

/// Are the losses as near eager's as those of the other training, which is eager's own? The rule of
/// one call, with eager's losses in fp64's place.
bool as_near(const Beside& ours, const Beside& own, const at::Tensor& eager) {
  return lab::accuracy({ours.losses}, {own.losses}, {{eager}}).as_good();
}

/// Nullopt if it does not train.
std::optional<Trained> train(const Case& c, const CheckOptions& options, lab::Progress* progress) {
  const Instance instance =
      c.workload->make({.seed = options.seed, .small = options.small, .config = c.config});
  if (!losses_of(instance.eager, 1, false, [](double) {})) return std::nullopt;
  Trained out;
  out.name = c.name();
  double trained = 0;
  const auto losses = [&](const Call& call, bool nudged, const char* what) {
    const double before = trained++;
    return *losses_of(call, options.steps, nudged, [&](double done) {
      if (progress != nullptr) progress->at((before + done) / 4, what);
    });
  };
  const workloads::CompiledCall compiled = compiled_for_check(instance, options.compile, out.name);
  out.eager = losses(instance.eager, false, "eager");
  const auto beside = [&](const char* name, const at::Tensor& made) {
    return Beside{name, made, apart(made, out.eager)};
  };
  out.compiled = beside("graft", losses(compiled, false, "compiled"));
  out.how = how_it_ran(compiled.report());
  out.nudged = beside("eager_one_ulp", losses(instance.eager, true, "eager, one ulp off"));
  out.other_threads = at::get_num_threads() == 1 ? 2 : 1;
  {
    const lab::ThreadCount other(out.other_threads);
    out.threads =
        beside("eager_other_threads", losses(instance.eager, false, "eager, other threads"));
  }
  const bool near = options.bitwise ? out.compiled.apart.steps == 0
                                    : as_near(out.compiled, out.threads, out.eager) ||
                                          as_near(out.compiled, out.nudged, out.eager);
  out.good = near && !out.how.mismatched;
  return out;
}

std::array<const Beside*, 3> besides(const Trained& row) {
  return {&row.compiled, &row.threads, &row.nudged};
}

const char* const kNudged = "eager, weights 1 ulp off";
std::string threads_text(const Trained& row) {
  return "eager on " + lab::count_text(row.other_threads, "thread");
}

double loss(const at::Tensor& losses, int64_t step) {
  return losses[step].item<double>();
}

std::string short_number(double value, const char* form) {
  char text[40];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

/// "bitwise", or in how many steps the bits differ, and from which on.
Cell bits_cell(const Apart& apart, int steps) {
  if (apart.steps == 0) return {"bitwise", Style::Good};
  return std::to_string(apart.steps) + " of " + std::to_string(steps) + ", from step " +
         std::to_string(apart.first);
}

std::string distance_text(const Apart& apart) {
  return apart.largest == 0 ? "0" : short_number(apart.largest, "%.1e");
}

void print_rows(const std::vector<Trained>& rows, const CheckOptions& options, bool colour) {
  lab::Table table({{"workload"},
                    {"losses of"},
                    {"first", Align::Right},
                    {"last", Align::Right},
                    {"other bits than eager's", Align::Right},
                    {"furthest from eager's", Align::Right},
                    {"result"}});
  for (const Trained& row : rows) {
    const auto line = [&](const std::string& of, const Beside& beside, const Cell& result) {
      table.row({row.name, of, short_number(loss(beside.losses, 0), "%.6g"),
                 short_number(loss(beside.losses, -1), "%.6g"),
                 bits_cell(beside.apart, options.steps), distance_text(beside.apart), result});
    };
    line("graft, " + row.how.ran, row.compiled,
         row.good ? Cell("good", Style::Good) : Cell("not good", Style::Bad));
    line(threads_text(row), row.threads, "-");
    line(kNudged, row.nudged, "-");
  }
  table.print(std::cout, colour);
  for (const Trained& row : rows)
    if (!row.how.reason.empty()) std::cout << row.name << ": " << row.how.reason << '\n';
  const auto bad =
      std::count_if(rows.begin(), rows.end(), [](const Trained& row) { return !row.good; });
  if (bad == 0) return;
  std::cout << bad << " of " << rows.size() << " not good: losses "
            << (options.bitwise ? "with other bits than eager's"
                                : "further from eager's than twice what other threads or weights "
                                  "1 ulp off make of eager's, and than 4 ulp more")
            << (options.verbose ? ".\n" : "; --verbose shows them.\n");
}

/// The losses of about `kShown` steps, the last one among them.
void print_losses(const Trained& row, bool colour) {
  constexpr int64_t kShown = 20;
  std::cout << '\n'
            << lab::styled(row.name + ": losses of eager, and how far others are from them",
                           Style::Bold, colour)
            << '\n';
  lab::Table table({{"step", Align::Right},
                    {"eager", Align::Right},
                    {"graft", Align::Right},
                    {threads_text(row), Align::Right},
                    {kNudged, Align::Right}});
  const int64_t steps = row.eager.size(0), every = (steps + kShown - 1) / kShown;
  for (int64_t i = 0; i < steps; ++i) {
    if (i % every != 0 && i + 1 != steps) continue;
    const double eager = loss(row.eager, i);
    std::vector<Cell> cells{std::to_string(i + 1), short_number(eager, "%.8g")};
    for (const Beside* one : besides(row))
      cells.emplace_back(short_number(loss(one->losses, i) - eager, "%.1e"));
    table.row(std::move(cells));
  }
  table.print(std::cout, colour);
}

nlohmann::json to_json(const at::Tensor& losses) {
  nlohmann::json out = nlohmann::json::array();
  for (int64_t i = 0; i < losses.size(0); ++i) out.push_back(loss(losses, i));
  return out;
}

nlohmann::json to_json(const Trained& row) {
  nlohmann::json losses{{"eager", to_json(row.eager)}}, differences;
  for (const Beside* one : besides(row)) {
    const Apart& apart = one->apart;
    losses[one->name] = to_json(one->losses);
    differences[one->name] = {
        {"steps_with_other_bits", apart.steps},
        {"first", apart.first == 0 ? nlohmann::json() : nlohmann::json(apart.first)},
        {"max_abs", apart.largest}};
  }
  return {{"name", row.name},
          {"variant", "graft"},
          {"ran", row.how.ran},
          {"reason", row.how.reason},
          {"good", row.good},
          {"steps", row.eager.size(0)},
          {"other_threads", row.other_threads},
          {"differences", differences},
          {"losses", losses}};
}

}  // namespace

bool check_steps(const std::vector<Case>& cases, const CheckOptions& options,
                 nlohmann::json& results) {
  std::unique_ptr<lab::Progress> progress;
  if (!options.quiet)
    progress = std::make_unique<lab::Progress>(std::cerr, isatty(STDERR_FILENO) == 1, cases.size());
  std::vector<Trained> rows;
  std::string others;
  for (const Case& c : cases) {
    if (progress) progress->begin(c.name());
    if (std::optional<Trained> row = train(c, options, progress.get()))
      rows.push_back(std::move(*row));
    else
      others += (others.empty() ? "" : ", ") + c.name();
    pool_trim();  // the next has other sizes
  }
  progress.reset();
  if (rows.empty()) {
    throw UsageError("--steps: came for " + others +
                     ", which train nothing: their calls change no arguments, or return no loss. "
                     "'graft check --set training --steps 20' trains those that do.");
  }
  const bool colour = !options.no_color && lab::colour_wanted(STDOUT_FILENO);
  print_rows(rows, options, colour);
  if (!others.empty()) std::cout << "left out, as they train nothing: " << others << '\n';
  for (const Trained& row : rows) {
    if (options.verbose) print_losses(row, colour);
    results.push_back(to_json(row));
  }
  return std::all_of(rows.begin(), rows.end(), [](const Trained& row) { return row.good; });
}

}  // namespace graft::cli
