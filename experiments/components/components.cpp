#include "experiments/components/components.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/frame/usage.h"
#include "experiments/components/decomposition.h"
#include "experiments/frame/experiment.h"
#include "experiments/frame/tables.h"
#include "lab/words.h"

namespace graft::experiments {
namespace {

using cli::UsageError;

struct ComponentChoice {
  std::vector<int64_t> batches, lengths, d_in, d_out, parts;
  std::vector<std::string> dtypes, forms, modes;
  int64_t layers = 0;
  bool sweep = false, no_model = false, no_components = false, no_decomposition = false;
};

/// The write-up's model sweep, its component sweep, and what fits into an hour here.
void set_defaults(ComponentChoice& c, const Settings& settings) {
  const auto fill = [](auto& list, std::initializer_list<int64_t> values) {
    if (list.empty()) list = values;
  };
  if (!c.d_in.empty() || !c.d_out.empty() || !c.parts.empty())  // one layer, where one is named
    fill(c.d_in, {768}), fill(c.parts, {1200});
  if (settings.quick) {
    fill(c.batches, {2}), fill(c.lengths, {128});
    fill(c.d_in, {768}), fill(c.parts, {1200});
    if (c.layers == 0) c.layers = 2;
  } else if (c.sweep) {
    fill(c.batches, {16, 32, 64, 128}), fill(c.lengths, {128, 256});
    fill(c.d_in, {512, 1024, 2048, 4096}), fill(c.parts, {512, 1024, 2048, 4096});
  } else {
    fill(c.batches, {16}), fill(c.lengths, {128, 256});
    fill(c.d_in, {512, 1024, 2048}), fill(c.parts, {512, 1200});
  }
  if (c.layers == 0) c.layers = 4;
  if (c.dtypes.empty())
    c.dtypes =
        settings.quick ? std::vector<std::string>{"f32"} : std::vector<std::string>{"f32", "bf16"};
  if (c.forms.empty()) c.forms = {"pure", "module"};
  if (c.modes.empty())
    c.modes = settings.quick
                  ? std::vector<std::string>{"default", "reduce-overhead"}
                  : std::vector<std::string>{"default", "reduce-overhead", "max-autotune"};
}

std::string variant_of(const std::string& mode) {
  if (mode == "default") return "graft";
  if (mode == "reduce-overhead") return "graft_reduce_overhead";
  if (mode == "max-autotune") return "graft_max_autotune";
  throw UsageError("spd: --mode came as '" + mode + "'; " +
                   cli::did_you_mean(mode, {"default", "reduce-overhead", "max-autotune"}));
}

std::vector<std::string> variants_of(const ComponentChoice& c) {
  std::vector<std::string> out{"eager"};
  for (const std::string& mode : c.modes) out.push_back(variant_of(mode));
  return out;
}

void check(const ComponentChoice& c) {
  for (const std::string& dtype : c.dtypes)
    if (dtype != "f32" && dtype != "f16" && dtype != "bf16")
      throw UsageError("spd: --dtype came as '" + dtype + "'; expected f32, f16 or bf16");
  for (const std::string& form : c.forms)
    if (form != "pure" && form != "module")
      throw UsageError("spd: --form came as '" + form + "'; expected pure or module");
}

/// One line per size and mode.
lab::Section model_section(const lab::Run& run) {
  lab::Section out{"model", "The whole model, forward and backward",
                   "Warm-up: from the first call until the compiled step is proven, or rejected; "
                   "of the peer its first call."};
  lab::Table table(
      columns({"dtype", "variant"}, {"batch", "length", "ms", "against eager [95 %]", "warm-up s",
                                     "pays after", "peak memory", "outputs"}));
  for (const lab::Row& row : run.rows) {
    if (row.name != "spd_model" || is_for_peer(row)) continue;
    const auto axis = [&](const char* name) { return value_of(row.name, row.config, name); };
    const lab::Row* eager = run.reference(row);
    const auto before = median_ms(eager), after = median_ms(&row);
    const double warmup = row.warmup_ms            ? *row.warmup_ms
                          : row.variant != "eager" ? row.first_call_ms.value_or(NAN)
                                                   : NAN;
    table.row({axis("dtype"), row.variant, axis("batch"), axis("sequence"), ms_cell(&row),
               ratio_cell(eager, &row), std::isnan(warmup) ? "" : lab::number(warmup / 1000),
               row.compile_ms && before && after ? pays_text(*row.compile_ms, *before, *after) : "",
               peak_cell(&row), output_cell(row)});
    if (!row.error.empty())
      out.notes.push_back(row.case_name() + ", " + row.variant + ": " + row.error);
  }
  out.table = std::move(table);
  return out;
}

/// One line per layer, and why it is compiled or left alone.
lab::Section layer_section(const lab::Run& run) {
  lab::Section out{"components", "Component layers alone, forward and backward",
                   "What a layer does beside its four and more matmuls is a product by a mask: "
                   "compiling is to be no slower, and the last column says what was decided."};
  std::vector<lab::Column> all = columns(
      {"form", "dtype"},
      {"d_in", "d_out", "C", "eager ms", "graft ms", "against eager [95 %]", "torch.compile ms"});
  all.push_back({"compiled, or left alone"});
  lab::Table table(std::move(all));
  lab::Figure figure{"Speed-up by size", {}, {}, "", "x"};
  figure.series = {{"graft"}, {"torch.compile"}};
  for (const std::string& name : run.cases()) {
    const lab::Row *eager = run.find(name, "eager"), *graft = run.find(name, "graft"),
                   *peer = run.find(name, "torch.compile"),
                   *eager_alone = run.find(name, "eager_alone");
    if (eager == nullptr || eager->name != "spd_component") continue;
    const auto axis = [&](const char* axis_name) {
      return value_of(eager->name, eager->config, axis_name);
    };
    std::string why = graft == nullptr ? "" : graft->verdict;
    if (graft != nullptr && !graft->reason.empty()) why += ": " + graft->reason;
    table.row({axis("form"), axis("dtype"), axis("d_in"), axis("d_out"), axis("parts"),
               ms_cell(eager), ms_cell(graft), ratio_cell(eager, graft), ms_cell(peer), why});
    figure.labels.push_back(axis("form") + ", " + axis("dtype") + ", " + axis("d_in") + " to " +
                            axis("d_out") + ", C " + axis("parts"));
    const auto ratio = [&](const lab::Row* slow, const lab::Row* row) {
      return median_ms(slow) && median_ms(row) ? *median_ms(slow) / *median_ms(row) : NAN;
    };
    figure.series[0].values.push_back(ratio(eager, graft));
    figure.series[1].values.push_back(ratio(eager_alone, peer));
    if (!eager->error.empty()) out.notes.push_back(name + ": " + eager->error);
  }
  if (!figure.labels.empty()) out.figures.push_back(std::move(figure));
  out.table = std::move(table);
  return out;
}

void run_components(ComponentChoice choice, const Settings& settings) {
  check(settings);
  check(choice);
  set_defaults(choice, settings);
  const std::vector<std::string> variants = variants_of(choice);
  const nlohmann::json all{{"batches", choice.batches}, {"lengths", choice.lengths},
                           {"d_in", choice.d_in},       {"d_out", choice.d_out},
                           {"parts", choice.parts},     {"dtypes", choice.dtypes},
                           {"forms", choice.forms},     {"modes", choice.modes},
                           {"layers", choice.layers},   {"small", settings.small}};
  Experiment experiment("spd", settings, all);
  if (!choice.no_model) {
    experiment.view(model_section);
    for (const std::string& dtype : choice.dtypes)
      for (const int64_t length : choice.lengths)
        for (const int64_t batch : choice.batches)
          experiment.measure(
              "spd_model",
              settings.small ? Config{}
                             : without_own("spd_model", {{"batch", std::to_string(batch)},
                                                         {"sequence", std::to_string(length)},
                                                         {"layers", std::to_string(choice.layers)},
                                                         {"dtype", dtype}}),
              variants);
  }
  if (!choice.no_components) {
    experiment.view(layer_section);
    for (const std::string& form : choice.forms)
      for (const std::string& dtype : choice.dtypes)
        for (const int64_t in : choice.d_in)
          for (const int64_t to : choice.d_out.empty() ? std::vector<int64_t>{in} : choice.d_out)
            for (const int64_t parts : choice.parts)
              experiment.measure(
                  "spd_component",
                  settings.small ? Config{{"form", form}}
                                 : without_own("spd_component", {{"d_in", std::to_string(in)},
                                                                 {"d_out", std::to_string(to)},
                                                                 {"parts", std::to_string(parts)},
                                                                 {"dtype", dtype},
                                                                 {"form", form}}),
                  {"eager", "graft"});
  }
  if (!choice.no_decomposition) {
    DecompositionSizes sizes;
    if (settings.quick) sizes.training = 40, sizes.steps = 30, sizes.tokens = 512;
    if (settings.small)
      sizes = {.layers = 1,
               .hidden = 32,
               .intermediate = 48,
               .tokens = 256,
               .parts = 24,
               .training = 3,
               .steps = 6};
    experiment.part("decomposition", "decomposition", [sizes, &settings](const Say& say) {
      return decomposition(sizes, settings, say);
    });
  }
  experiment.run();
}

}  // namespace

void add_components(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "spd", "Linear layers in masked components: a whole model, layers alone, a decomposition");
  const auto choice = std::make_shared<ComponentChoice>();
  const auto settings = std::make_shared<Settings>();
  const auto counts = [&](const char* flags, std::vector<int64_t>& into, const char* what) {
    command->add_option(flags, into, what)
        ->delimiter(',')
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  };
  counts("--batch_size,--batch-size", choice->batches, "Sequences, joined by commas (16)");
  counts("--seq_len,--seq-len", choice->lengths, "Tokens of each (128,256)");
  counts("--d_in,--d-in", choice->d_in, "Columns of a layer's input (512,1024,2048)");
  counts("--d_out,--d-out", choice->d_out, "Columns of its result (as its input)");
  counts("--C", choice->parts, "Components (512,1200)");
  command->add_option("--layers", choice->layers, "Of the model (4)")->check(CLI::Range(1, 1000));
  command->add_option("--dtype", choice->dtypes, "Of f32, f16, bf16 (f32,bf16)")->delimiter(',');
  command->add_option("--form", choice->forms, "Of pure, module (both)")->delimiter(',');
  command
      ->add_option("--mode", choice->modes,
                   "Of default, reduce-overhead, max-autotune (all) for the model")
      ->delimiter(',');
  command->add_flag("--sweep", choice->sweep,
                    "Batch 16 to 128, widths and components 512 to 4096: hours");
  command->add_flag("--no-model", choice->no_model, "Without the whole model");
  command->add_flag("--no-components", choice->no_components, "Without the layers alone");
  command->add_flag("--no-decomposition", choice->no_decomposition, "Without the training");
  add_settings(*command, *settings);
  command->callback([choice, settings] { run_components(*choice, *settings); });
}

}  // namespace graft::experiments
