#include "experiments/llama/llama.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/frame/usage.h"
#include "experiments/frame/experiment.h"
#include "experiments/frame/tables.h"
#include "experiments/llama/parts.h"
#include "lab/words.h"
#include "workloads/decoder/config.h"
#include "workloads/systems/llama.h"

namespace graft::experiments {
namespace {

using cli::UsageError;

/// The write-up's sizes, and one for a machine of two cores. `head` as the axis of that name.
struct Size {
  const char* name;
  int64_t hidden, heads, layers, intermediate, batch, sequence;
  const char* head;
};
constexpr Size kSizes[] = {
    {"small", 1024, 8, 4, 2816, 1, 512, "none"},    {"mini", 2048, 16, 4, 4096, 8, 2048, "none"},
    {"1b", 2048, 16, 16, 5504, 4, 2048, "untied"},  {"3b", 3072, 24, 26, 8192, 2, 2048, "untied"},
    {"8b", 4096, 32, 32, 11008, 1, 2048, "untied"},
};

const Size& size_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Size& size : kSizes) {
    if (name == size.name) return size;
    names.emplace_back(size.name);
  }
  throw UsageError("llama: --size came as '" + name + "'; " + cli::did_you_mean(name, names) +
                   " Expected one of " + lab::joined(names, ", ") + '.');
}

struct Choice {
  std::string size = "small", dtype = "bf16", head;
  int64_t layers = 0, batch = 0, sequence = 0, hidden = 0, heads = 0, kv_heads = 0,
          intermediate = 0, vocabulary = 32000;
  bool no_training = false, tune = false;
  llama::Pretrained pretrained;
};

/// Axis → value of `llama_forward`. Throws UsageError for sizes that do not fit together.
Config config_of(const Choice& choice, const Settings& settings) {
  const bool small = settings.small;
  const workloads::Workload& workload = cli::workload_or_throw("llama_forward");
  Config out;
  if (small) {
    for (const workloads::Axis& axis : workload.axes) out[axis.name] = axis.small;
    out["head"] = "none";
  } else {
    const Size& size = size_of(choice.size);
    const auto set = [&](const char* axis, int64_t given, int64_t value) {
      out[axis] = std::to_string(given > 0 ? given : value);
    };
    set("layers", choice.layers, settings.quick ? 2 : size.layers),
        set("batch", choice.batch, size.batch);
    set("sequence", choice.sequence, size.sequence), set("hidden", choice.hidden, size.hidden);
    set("heads", choice.heads, size.heads);
    set("kv_heads", choice.kv_heads, choice.heads > 0 ? choice.heads : size.heads);
    set("intermediate", choice.intermediate, size.intermediate);
    set("vocabulary", choice.vocabulary, choice.vocabulary);
    out["head"] = choice.head.empty() ? size.head : choice.head;
    out["dtype"] = choice.dtype;
  }
  try {
    (void)workloads::llama::System::shape_of({.config = out});
  } catch (const Error& error) {
    throw UsageError(std::string("llama: ") + error.what());
  }
  return small ? out : without_own("llama_forward", out);
}

/// Compiled calls in a forward.
int64_t calls_of(const std::string& variant, int64_t layers, bool has_head) {
  const int64_t norms = 2 * layers + (has_head ? 1 : 0);
  if (variant == "graft_rope") return layers;
  if (variant.starts_with("graft_surgical")) return norms + 2 * layers;
  return variant == "eager" ? 0 : 1;
}

/// From nothing compiled to all of it: what each further cut gains.
lab::Section ladder(const lab::Run& run, const Config& config) {
  lab::Section out{"boundaries", "Where the boundary lies",
                   "From nothing compiled to all of it. Calls: of compiled functions in a "
                   "forward. Reached: of the gain that Amdahl's law predicts from the regions' "
                   "own."};
  lab::Table table(columns(
      {"compiled"}, {"calls", "kernels", "ms", "against eager [95 %]", "reached", "peak memory"}));
  const bool has_head = value_of("llama_forward", config, "head") != "none";
  const nlohmann::json facts = run.context.value("facts", nlohmann::json::object());
  const lab::Row* eager = nullptr;
  for (const lab::Row& row : run.rows)
    if (row.name == "llama_forward" && row.variant == "eager") eager = &row;
  if (eager == nullptr) return out;
  const std::pair<const char*, const char*> steps[] = {
      {"eager", "nothing"},
      {"graft_rope", "split and RoPE (the write-up's cut)"},
      {"graft_surgical", "and norms with residuals, SwiGLU"},
      {"graft_surgical_attention", "and attention"},
      {"graft", "the whole model"},
      {"graft_max_autotune", "the whole model, tuned"}};
  for (const auto& [variant, what] : steps) {
    const lab::Row* row = run.find(eager->case_name(), variant);
    if (row == nullptr) continue;
    std::string reached;
    if (variant == std::string("graft_surgical") && facts.contains("regions") && median_ms(row) &&
        median_ms(eager)) {
      const double predicted = facts["regions"].value("predicted", 1.0) - 1;
      const double gained = *median_ms(eager) / *median_ms(row) - 1;
      reached = predicted > 0 ? lab::percent_text(gained / predicted) : "";
    }
    table.row({what,
               std::to_string(calls_of(
                   variant, std::stoll(value_of("llama_forward", config, "layers")), has_head)),
               row->kernels ? std::to_string(*row->kernels) : "", ms_cell(row),
               ratio_cell(eager, row), reached, peak_cell(row)});
  }
  out.table = std::move(table);
  return out;
}

/// Before any work: is the checkpoint one?
void check(const llama::Pretrained& choice) {
  if (!choice.model.empty()) (void)workloads::decoder::Config::read(choice.model / "config.json");
  if (!choice.text.empty() && !std::filesystem::exists(choice.text))
    throw UsageError("llama: --text came as '" + choice.text.string() +
                     "', which is not there; give a file of UTF-8 text");
}

void run_llama(const Choice& choice, const Settings& settings) {
  check(settings);
  const Config config = config_of(choice, settings);
  const bool fp8 = value_of("llama_forward", config, "dtype") == "fp8";
  workloads::Options model{.seed = settings.seed, .config = config};
  for (const workloads::Axis& axis : cli::workload_or_throw("llama_forward").axes)
    model.config.emplace(axis.name, axis.value);
  nlohmann::json all = config;
  all["training"] = !choice.no_training;
  all["tuned"] = choice.tune;
  all["model"] = choice.pretrained.model.string();
  all["text"] = choice.pretrained.text.string();
  check(choice.pretrained);
  Experiment experiment("llama", settings, all);
  experiment.view([](const lab::Run& run) {
    return variants_section(run, "llama_forward", "forward", "Forward",
                            "Code: its generation, what other variants of this process compiled "
                            "before left out; of the "
                            "peer its first call.");
  });
  experiment.view([config](const lab::Run& run) { return ladder(run, config); });
  std::vector<std::string> variants{"eager", "graft", "cuts"};
  if (choice.tune) variants.emplace_back("graft_max_autotune");
  experiment.measure("llama_forward", config, variants);
  const cli::Case forward{&cli::workload_or_throw("llama_forward"), config};
  experiment.part(
      "regions", "regions",
      [&, model](const Say& say) {
        return llama::regions(model, settings, say, experiment.facts("regions"));
      },
      forward);
  experiment.part("operations", "single operations",
                  [&, model](const Say& say) { return llama::operations(model, settings, say); });
  experiment.part(
      "lengths", "variable lengths",
      [&, model](const Say& say) { return llama::lengths(model, settings, say); }, forward);
  if (!choice.no_training && !fp8) {
    experiment.view([](const lab::Run& run) {
      return variants_section(run, "llama_step", "training", "Training step",
                              "Forward, backward and gradient descent.");
    });
    experiment.measure("llama_step", config, {"eager", "graft", "cuts"});
  }
  experiment.part("pretrained", "real weights", [&](const Say& say) {
    return llama::pretrained(choice.pretrained, settings, say);
  });
  experiment.run();
}

}  // namespace

void add_llama(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "llama", "A Llama of fused layers: compiled in parts and whole, forward and training");
  const auto choice = std::make_shared<Choice>();
  const auto settings = std::make_shared<Settings>();
  command
      ->add_option("--size", choice->size,
                   "small (hidden 1024, 4 layers), mini (2048, 4 layers), 1b, 3b, 8b")
      ->capture_default_str();
  const auto count = [&](const char* flag, int64_t& into, const char* what) {
    command->add_option(flag, into, what)->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  };
  count("--layers", choice->layers, "In place of the size's own; so are the next ones");
  count("--batch", choice->batch, "Sequences");
  count("--sequence", choice->sequence, "Tokens of each");
  count("--hidden", choice->hidden, "Columns");
  count("--heads", choice->heads, "Of queries");
  count("--kv-heads", choice->kv_heads, "Of keys and values: grouped queries");
  count("--intermediate", choice->intermediate, "Columns between gate and down");
  count("--vocabulary", choice->vocabulary, "Tokens, where there is a head");
  command->add_option("--head", choice->head, "none, tied or untied");
  command->add_option("--dtype", choice->dtype, "f32, bf16 or fp8 (forward only)")
      ->capture_default_str();
  command->add_flag("--tune", choice->tune, "The whole model with Mode::MaxAutotune, too");
  cli::must_be_path(command->add_option(
      "--model", choice->pretrained.model,
      "Folder of a Llama or Qwen2 checkpoint with tokenizer.json, for the part with real weights "
      "(default: a small decoder that is trained here)"));
  cli::must_be_path(command->add_option("--text", choice->pretrained.text,
                                        "UTF-8 text whose perplexity is measured"));
  command->add_flag("--no-training", choice->no_training, "The forward alone");
  add_settings(*command, *settings);
  command->callback([choice, settings] { run_llama(*choice, *settings); });
}

}  // namespace graft::experiments
