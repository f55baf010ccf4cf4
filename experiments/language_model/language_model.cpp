#include "experiments/language_model/language_model.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "cli/frame/usage.h"
#include "experiments/frame/experiment.h"
#include "experiments/frame/tables.h"
#include "experiments/language_model/parts.h"
#include "lab/words.h"

namespace graft::experiments {
namespace {

using cli::UsageError;

struct ModelSize {
  const char* name;
  int64_t width, layers, heads;  ///< the feed-forward layers are four times as wide
};
constexpr ModelSize kModels[] = {{"small", 768, 12, 12},
                                 {"medium", 1024, 24, 16},
                                 {"large", 1280, 36, 20},
                                 {"xl", 1600, 48, 25},
                                 {"2.7b", 2560, 32, 32}};

struct LmChoice {
  std::vector<std::string> models{"small"}, precisions, parts;
  std::vector<int64_t> contexts;
  int64_t layers = 0, batch = 4, vocabulary = 10000;
  int64_t steps = 0;  ///< of the model that learns
  std::string checkpoints;
  bool no_sweep = false, no_learning = false;
};

const ModelSize& model_of(const std::string& name) {
  std::vector<std::string> names;
  for (const ModelSize& model : kModels) {
    if (name == model.name) return model;
    names.emplace_back(model.name);
  }
  throw UsageError("lm: --model came as '" + name + "'; " + cli::did_you_mean(name, names) +
                   " Expected one of " + lab::joined(names, ", ") + '.');
}

void known(const char* flag, const std::vector<std::string>& given,
           const std::vector<std::string>& expected) {
  for (const std::string& name : given)
    if (std::find(expected.begin(), expected.end(), name) == expected.end())
      throw UsageError(std::string("lm: ") + flag + " came as '" + name + "'; " +
                       cli::did_you_mean(name, expected) + " Expected some of " +
                       lab::joined(expected, ", ") + '.');
}

const std::vector<std::string> kPrecisions{"f32", "medium", "bf16"};
const std::vector<std::string> kParts{"forward", "backward", "step"};

void set_defaults(LmChoice& c, const Settings& settings) {
  known("--precision", c.precisions, kPrecisions);
  known("--parts", c.parts, kParts);
  for (const std::string& model : c.models) (void)model_of(model);
  if (c.precisions.empty())
    c.precisions = settings.quick ? std::vector<std::string>{"f32", "bf16"} : kPrecisions;
  if (c.parts.empty()) c.parts = settings.quick ? std::vector<std::string>{"step"} : kParts;
  if (c.contexts.empty())
    c.contexts = settings.quick ? std::vector<int64_t>{128} : std::vector<int64_t>{128, 256, 512};
  if (settings.quick) {
    if (c.layers == 0) c.layers = 1;
    c.batch = std::min<int64_t>(c.batch, 2);
    c.vocabulary = std::min<int64_t>(c.vocabulary, 5000);
  }
  if (c.steps == 0) c.steps = settings.small ? 8 : settings.quick ? 40 : 600;
}

Config config_of(const LmChoice& c, const ModelSize& model, int64_t context,
                 const std::string& precision) {
  return without_own("lm_step", {{"layers", std::to_string(c.layers > 0 ? c.layers : model.layers)},
                                 {"batch", std::to_string(c.batch)},
                                 {"context", std::to_string(context)},
                                 {"width", std::to_string(model.width)},
                                 {"heads", std::to_string(model.heads)},
                                 {"vocabulary", std::to_string(c.vocabulary)},
                                 {"precision", precision}});
}

/// One line per size, context, precision and part.
lab::Section sweep_section(const lab::Run& run) {
  lab::Section out{"sweep", "Steps by size, context and precision",
                   "Medians in ms. Regions: each layer, the loss and AdamW compiled as functions "
                   "of their own; whole: all of it as one, and its speed-up over eager and over "
                   "torch.compile. Peak: memory above what there was before "
                   "the call. medium: fp32 products may round their factors to bf16."};
  out.table = lab::Table(columns(
      {"part", "precision"},
      {"layers", "width", "batch", "context", "eager", "regions", "whole", "whole/eager [95 %]",
       "torch.compile", "whole/torch.compile", "peak eager", "peak whole", "of eager's"}));
  lab::Figure times{"Speed-up over eager", {}, {}, "", "x"},
      peaks{"Peak memory, MiB", {}, {}, "", "MiB"};
  times.series = {{"regions"}, {"whole"}, {"torch.compile"}};
  peaks.series = {{"eager"}, {"whole"}};
  for (const std::string& name : run.cases()) {
    const lab::Row *eager = run.find(name, "eager"), *whole = run.find(name, "graft"),
                   *regions = run.find(name, "graft_regions"),
                   *peer = run.find(name, "torch.compile"),
                   *eager_alone = run.find(name, "eager_alone"),
                   *whole_alone = run.find(name, "graft_alone");
    if (eager == nullptr || !eager->name.starts_with("lm_")) continue;
    const auto axis = [&](const char* axis_name) {
      return value_of(eager->name, eager->config, axis_name);
    };
    const std::string part = eager->name.substr(3);
    const auto ratio = [&](const lab::Row* slow, const lab::Row* fast) {
      return median_ms(slow) && median_ms(fast) ? *median_ms(slow) / *median_ms(fast) : NAN;
    };
    const auto peak = [](const lab::Row* row) {
      return row != nullptr && row->memory.peak_allocated > 0
                 ? static_cast<double>(row->memory.peak_allocated)
                 : NAN;
    };
    const double share = peak(whole) / peak(eager);
    out.table.row(
        {part, axis("precision"), axis("layers"), axis("width"), axis("batch"), axis("context"),
         ms_cell(eager), ms_cell(regions), ms_cell(whole), ratio_cell(eager, whole), ms_cell(peer),
         peer == nullptr ? lab::Cell("-") : times_cell(ratio(peer, whole_alone)), peak_cell(eager),
         peak_cell(whole), std::isnan(share) ? "" : lab::number(share, 2) + "x"});
    const std::string label = part + ", " + axis("precision") + ", context " + axis("context") +
                              ", width " + axis("width");
    times.labels.push_back(label), peaks.labels.push_back(label);
    times.series[0].values.push_back(ratio(eager, regions));
    times.series[1].values.push_back(ratio(eager, whole));
    times.series[2].values.push_back(ratio(eager_alone, peer));
    peaks.series[0].values.push_back(peak(eager) / 0x1p20);
    peaks.series[1].values.push_back(peak(whole) / 0x1p20);
    for (const lab::Row* row : {eager, whole, regions, peer})
      if (row != nullptr && !row->error.empty())
        out.notes.push_back(name + ", " + row->variant + ": " + row->error);
      else if (row != nullptr && row->verdict != "faster" && !row->reason.empty())
        out.notes.push_back(name + ", " + row->variant + ": " + row->reason);
  }
  out.figures.push_back(std::move(times));
  out.figures.push_back(std::move(peaks));
  return out;
}

void run_language_model(LmChoice choice, const Settings& settings) {
  check(settings);
  set_defaults(choice, settings);
  const nlohmann::json all{{"models", choice.models}, {"contexts", choice.contexts},
                           {"parts", choice.parts},   {"precisions", choice.precisions},
                           {"layers", choice.layers}, {"batch", choice.batch},
                           {"steps", choice.steps},   {"vocabulary", choice.vocabulary},
                           {"small", settings.small}};
  Experiment experiment("lm", settings, all);
  const ModelSize& first = model_of(choice.models.front());
  const Config looked_at =
      settings.small ? Config{} : config_of(choice, first, choice.contexts.back(), "f32");
  if (!choice.no_sweep) {
    experiment.view(sweep_section);
    for (const std::string& name : choice.models)
      for (const int64_t context : choice.contexts)
        for (const std::string& precision : choice.precisions)
          for (const std::string& part : choice.parts)
            experiment.measure("lm_" + part,
                               settings.small
                                   ? without_own("lm_" + part, {{"precision", precision}})
                                   : config_of(choice, model_of(name), context, precision),
                               {"eager", "graft", "cuts"});
    namespace parts = language_model;
    const cli::Case step{&cli::workload_or_throw("lm_step"), looked_at};
    experiment.part(
        "warm-up", "warm-up",
        [=, &settings](const Say& say) { return parts::warm_up(looked_at, settings, say); }, step);
    experiment.part(
        "kernels", "kernels",
        [=, &settings](const Say& say) { return parts::kernels(looked_at, settings, say); }, step);
    experiment.part(
        "memory", "memory",
        [=, &settings](const Say& say) { return parts::memory(looked_at, settings, say); }, step);
    experiment.part("accumulation", "accumulation",
                    [](const Say&) { return parts::accumulation(); });
    experiment.part("autocast", "autocast", [](const Say&) { return parts::autocast_dtypes(); });
  }
  if (!choice.no_learning)
    experiment.part("learning", "a model that learns", [=, &settings](const Say& say) {
      language_model::LearningSizes sizes;
      sizes.steps = choice.steps;
      if (settings.quick) sizes.batch = 8;
      if (settings.small)
        sizes = {
            .layers = 1, .width = 32, .heads = 2, .context = 16, .batch = 2, .steps = choice.steps};
      return language_model::learning(sizes, choice.checkpoints, settings, say);
    });
  experiment.run();
}

}  // namespace

void add_language_model(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "lm", "Training a language model: steps by size, context and precision, and one that learns");
  const auto choice = std::make_shared<LmChoice>();
  const auto settings = std::make_shared<Settings>();
  command
      ->add_option("--model", choice->models,
                   "Of small (768 wide, 12 layers), medium (1024, 24), large (1280, 36), xl (1600, "
                   "48), 2.7b (2560, 32); joined by commas")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--layers", choice->layers, "In place of the model's own")
      ->check(CLI::Range(1, 1000));
  command->add_option("--context", choice->contexts, "Tokens of a sequence (128,256,512)")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 20));
  command->add_option("--batch", choice->batch, "Sequences")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--vocabulary", choice->vocabulary, "Tokens known")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  command
      ->add_option("--precision", choice->precisions,
                   "Of f32, medium, bf16 (autocast); joined by commas (all)")
      ->delimiter(',');
  command->add_option("--parts", choice->parts, "Of forward, backward, step (all)")->delimiter(',');
  command->add_option("--steps", choice->steps, "Of the model that learns (600)")
      ->check(CLI::Range(4, 10'000'000));
  cli::must_be_path(command->add_option("--checkpoints", choice->checkpoints,
                                        "Keep the learning model's checkpoints in this folder"));
  command->add_flag("--no-sweep", choice->no_sweep, "The model that learns alone");
  command->add_flag("--no-learning", choice->no_learning, "Without it");
  add_settings(*command, *settings);
  command->callback([choice, settings] { run_language_model(*choice, *settings); });
}

}  // namespace graft::experiments
