#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <graft/graft.h>

#include <cmath>
#include <numbers>

#include "experiments/frame/folder.h"
#include "experiments/frame/tables.h"
#include "experiments/language_model/parts.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "lab/stats.h"
#include "lab/timer.h"
#include "lab/words.h"
#include "workloads/decoder/tiny.h"
#include "workloads/training/parameters.h"
#include "workloads/training/steps.h"

namespace graft::experiments::language_model {
namespace {

using at::Tensor;
using workloads::Tensors;
namespace fs = std::filesystem;

constexpr double kHighestRate = 3e-3, kLastRate = 3e-4, kDecay = 0.1;
constexpr int64_t kBytes = 256;

/// Rises over the first twentieth of all steps, then falls as a cosine.
double rate_at(int64_t step, int64_t steps) {
  const double warm = std::max(1.0, static_cast<double>(steps) / 20);
  const double at = static_cast<double>(step);
  if (at < warm) return kHighestRate * (at + 1) / warm;
  const double part = (at - warm) / std::max(1.0, static_cast<double>(steps) - warm);
  return kLastRate + (kHighestRate - kLastRate) * 0.5 * (1 + std::cos(std::numbers::pi * part));
}

/// All that a training goes on from.
struct State {
  Tensors parameters, first, second;
  Tensor count = at::zeros({});
  int64_t step = 0;

  static State random(const LearningSizes& sizes, uint64_t seed) {
    workloads::Options options{.seed = seed};
    options.config = {{"width", std::to_string(sizes.width)},
                      {"layers", std::to_string(sizes.layers)},
                      {"context", std::to_string(sizes.context)},
                      {"vocabulary", std::to_string(kBytes)}};
    workloads::Draw draw(options);
    State out;
    out.parameters = workloads::gpt_parameters(options, draw, workloads::kInitial);
    for (const Tensor& p : out.parameters) {
      out.first.push_back(at::zeros_like(p)), out.second.push_back(at::zeros_like(p));
      p.requires_grad_();
    }
    return out;
  }
  State copy() const {
    State out = *this;
    const auto clone = [](Tensors& all) {
      for (Tensor& t : all) {
        const bool leaf = t.requires_grad();
        t = t.detach().clone();
        if (leaf) t.requires_grad_();
      }
    };
    clone(out.parameters), clone(out.first), clone(out.second);
    out.count = count.clone();
    return out;
  }

  std::vector<std::pair<std::string, Tensor>> named() const {
    std::vector<std::pair<std::string, Tensor>> out{{"count", count},
                                                    {"step", at::full({}, step, at::kLong)}};
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string at = std::to_string(i);
      out.emplace_back("parameter." + at, parameters[i].detach());
      out.emplace_back("first." + at, first[i]);
      out.emplace_back("second." + at, second[i]);
    }
    return out;
  }
  void save(const fs::path& file) const { formats::write_safetensors(file, named()); }
  /// Into a state of the same sizes. Throws formats::SafetensorsError for another one's file.
  static State read(const fs::path& file, const State& like) {
    State out = like.copy();
    const formats::Safetensors stored = formats::read_safetensors(file);
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : out.named()) {
      if (name == "step")
        out.step = stored.get(name, at::kLong, {}).item<int64_t>();
      else
        tensor.copy_(stored.get(name, tensor.scalar_type(), tensor.sizes()));
    }
    return out;
  }
  bool same_bits(const State& other) const {
    for (size_t i = 0; i < parameters.size(); ++i)
      if (!parameters[i].equal(other.parameters[i]) || !first[i].equal(other.first[i]) ||
          !second[i].equal(other.second[i]))
        return false;
    return step == other.step;
  }
};

/// Bytes of text: batches that follow from the step's number, so that a training that goes on sees
/// what it would have seen.
struct Data {
  Tensor train, held_out;
  int64_t batch, context;
  uint64_t seed;

  std::pair<Tensor, Tensor> windows(const Tensor& text, uint64_t number, int64_t count) const {
    const at::Generator generator = at::detail::createCPUGenerator(seed * 1000003 + number);
    const Tensor starts = at::randint(text.size(0) - context - 1, {count, 1}, generator, at::kLong);
    const Tensor all = text.take(starts + at::arange(context + 1, at::kLong));
    return {all.slice(1, 0, context).contiguous(), all.slice(1, 1).contiguous()};
  }
};

using Step =
    std::function<Tensor(const Tensors& p, const Tensors& m, const Tensors& v, const Tensor& count,
                         const Tensor& rate, const Tensor& tokens, const Tensor& next)>;

Step step_of(const LearningSizes& sizes) {
  const workloads::Gpt model{sizes.heads};
  return [model](const Tensors& p, const Tensors& m, const Tensors& v, const Tensor& count,
                 const Tensor& rate, const Tensor& tokens, const Tensor& next) {
    const workloads::AdamW adamw{.decay = kDecay, .beta2 = 0.95};
    return workloads::training_step(
        [&] { return model.loss(p, tokens, next); },
        [&] {
          workloads::AdamW::step(p, m, v, count,
                                 [&](const auto&... all) { adamw.update_at(rate, all...); });
        });
  };
}

struct Curves {
  std::vector<double> losses, ms;
  std::vector<std::pair<double, double>> validation;  ///< step, loss
};

class Training {
 public:
  Training(const LearningSizes& sizes, const Data& data) : sizes_(sizes), data_(data) {}

  Tensor call(const Step& step, State& state) const {
    const auto [tokens, next] =
        data_.windows(data_.train, static_cast<uint64_t>(state.step), data_.batch);
    const Tensor rate = at::full({}, rate_at(state.step, sizes_.steps));
    ++state.step;
    return step(state.parameters, state.first, state.second, state.count, rate, tokens, next);
  }

  double validation_loss(const State& state) const {
    const at::NoGradGuard no_grad;
    constexpr int64_t kWindows = 32;
    const auto [tokens, next] = data_.windows(data_.held_out, 0, kWindows);
    return workloads::Gpt{sizes_.heads}.loss(state.parameters, tokens, next).item<double>();
  }

  /// From the state's step to `until`.
  Curves run(const Step& step, State& state, int64_t until, const Say& say) const {
    Curves out;
    const int64_t every = std::max<int64_t>(1, sizes_.steps / 12);
    while (state.step < until) {
      Tensor loss;
      out.ms.push_back(lab::time_once_ms([&] { loss = call(step, state); }));
      out.losses.push_back(loss.item<double>());
      if (state.step % every == 0 || state.step == until)
        out.validation.emplace_back(static_cast<double>(state.step), validation_loss(state));
      say(static_cast<double>(state.step) / static_cast<double>(sizes_.steps),
          "loss " + lab::number(out.losses.back()));
    }
    return out;
  }

 private:
  const LearningSizes& sizes_;
  const Data& data_;
};

double later_half(const std::vector<double>& ms) {
  return lab::median(std::span(ms).subspan(ms.size() / 2));
}

lab::Figure::Series smoothed(const std::string& name, const std::vector<double>& losses) {
  lab::Figure::Series out{name};
  const size_t window = std::max<size_t>(1, losses.size() / 60);
  for (size_t i = 0; i < losses.size(); i += window) {
    const size_t count = std::min(window, losses.size() - i);
    out.points.emplace_back(static_cast<double>(i + count),
                            lab::mean(std::span(losses).subspan(i, count)));
  }
  return out;
}

}  // namespace

lab::Section learning(const LearningSizes& sizes, const fs::path& checkpoints,
                      const Settings& settings, const Say& say) {
  const workloads::decoder::TinyText text = workloads::decoder::tiny_text({});
  const Data data{workloads::decoder::byte_ids(text.train),
                  workloads::decoder::byte_ids(text.held_out), sizes.batch, sizes.context,
                  settings.seed};
  const Training training(sizes, data);
  const State start = State::random(sizes, settings.seed);
  const Folder folder(checkpoints, "lm: --checkpoints");
  const Step eager = step_of(sizes);
  Options options;
  options.name = "learning";
  options.cache = false;
  options.race = false;  // whether a step is compiled must not depend on the time of day

  lab::Section out{"learning", "A model that learns",
                   "GPT-2's layers (" + std::to_string(sizes.layers) + " of width " +
                       std::to_string(sizes.width) +
                       ") on bytes of the licences that Debian installs, AdamW with a cosine "
                       "schedule, eager and compiled from one start. Resumed: stopped at half, "
                       "read from its checkpoint by a program that compiles anew, and gone on."};
  out.table = lab::Table(columns({"variant"}, {"last loss", "validation loss", "ms a step",
                                               "against eager", "bits of the resumed training"}));
  lab::Figure curves{"Loss by step, nats a byte", {}, {}, "step", ""},
      validation{"Validation loss by step", {}, {}, "step", ""};

  std::vector<Curves> all;
  const std::pair<const char*, bool> variants[] = {{"eager", false}, {"graft", true}};
  for (const auto& [name, is_compiled] : variants) {
    const auto made = [&, is = is_compiled]() -> Step {
      if (!is) return eager;
      const auto compiled = graft::compile(eager, options);
      State scratch = start.copy();  // records and proves itself on a copy
      for (int i = 0; i < 4; ++i) {
        (void)training.call(compiled, scratch);
        compiled.wait();
      }
      return compiled;
    };
    const double before = is_compiled ? 0.5 : 0;
    const auto part = [&, label = std::string(name)](double done, const std::string& what) {
      say(before + 0.33 * done, label + ", " + what);
    };
    State state = start.copy();
    const Step step = made();
    const fs::path file = folder.file(std::string(name) + ".safetensors");
    Curves run = training.run(step, state, sizes.steps / 2, part);
    state.save(file);
    const Curves rest = training.run(step, state, sizes.steps, part);
    run.losses.insert(run.losses.end(), rest.losses.begin(), rest.losses.end());
    run.ms.insert(run.ms.end(), rest.ms.begin(), rest.ms.end());
    run.validation.insert(run.validation.end(), rest.validation.begin(), rest.validation.end());

    State resumed = State::read(file, start);
    (void)training.run(made(), resumed, sizes.steps, part);
    const bool same = resumed.same_bits(state);
    all.push_back(std::move(run));
    const Curves& of = all.back();
    out.table.row(
        {name,
         lab::number(of.losses.back(), 5),
         lab::number(of.validation.back().second, 5),
         lab::number(later_half(of.ms)),
         is_compiled ? times_cell(later_half(all[0].ms) / later_half(of.ms)) : lab::Cell(""),
         {same ? "the same" : "others", same ? lab::Style::Good : lab::Style::Bad}});
    curves.series.push_back(smoothed(name, of.losses));
    validation.series.push_back({name, of.validation});
  }
  double largest = 0;
  for (size_t i = 0; i < all[0].losses.size(); ++i)
    largest = std::max(largest, std::abs(all[1].losses[i] / all[0].losses[i] - 1));
  out.notes.push_back("over " + std::to_string(sizes.steps) +
                      " steps the two losses differ by at most " + lab::percent_text(largest, 3) +
                      " of their value; 'graft check --steps' sets such differences beside what "
                      "rounding alone does");
  out.figures = {std::move(curves), std::move(validation)};
  return out;
}

}  // namespace graft::experiments::language_model
