#include "cli/measure/bench_options.h"

#include <CLI/CLI.hpp>

#include <toml++/toml.h>
#include <algorithm>
#include <sstream>

#include "cli/frame/usage.h"

namespace graft::cli {
namespace {

struct Preset {
  const char* name;
  double min_time, max_time, precision;
  int min_samples;
};
constexpr Preset kPresets[] = {
    {"quick", 0.15, 0.5, 0.05, 5},
    {"default", 1, 4, 0.01, 10},
    {"strict", 5, 30, 0.005, 30},
};
const std::vector<std::string> kVariants{"eager",
                                         "eager_pool",
                                         "graft",
                                         "graft_fast",
                                         "graft_eager_bits",
                                         "graft_max_autotune",
                                         "graft_reduce_overhead",
                                         "hand",
                                         "others",
                                         "cuts"};
const std::vector<std::string> kUsual{"eager", "eager_pool", "graft", "hand", "others", "cuts"};

const Preset& preset_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return preset;
    names.emplace_back(preset.name);
  }
  throw UsageError("--preset: came '" + name + "'; " + did_you_mean(name, names));
}

std::string text_of(const toml::node& node, const std::string& key, const std::string& file) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* number = node.as_floating_point()) {
    std::ostringstream text;
    text << number->get();
    return text.str();
  }
  throw UsageError(file + ": " + key +
                   " is neither text, a number, true or false, nor a list of them.");
}

/// A key's values, as the flag's: a list is several; of a table [axis], each key is one axis.
std::vector<std::string> texts_of(const toml::node& node, const std::string& key,
                                  const std::string& file) {
  std::vector<std::string> out;
  if (const auto* list = node.as_array()) {
    for (const toml::node& item : *list) out.push_back(text_of(item, key, file));
  } else if (const auto* table = node.as_table()) {
    for (const auto& [name, values] : *table) {
      std::string line;
      for (const std::string& value : texts_of(values, key, file))
        line += (line.empty() ? std::string(name.str()) + "=" : ",") + value;
      out.push_back(line);
    }
  } else {
    out.push_back(text_of(node, key, file));
  }
  return out;
}

void read_config(CLI::App& command, const std::string& file) {
  toml::table table;
  try {
    table = toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    std::ostringstream where;
    where << error.source().begin;
    throw UsageError("--config: " + file + ", " + where.str() + ": " +
                     std::string(error.description()));
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_lnames().empty()) names.push_back(option->get_lnames().front());
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option == nullptr || name == "config" || name == "help")
      throw UsageError("--config: " + file + " has a key '" + name + "'; " +
                       did_you_mean(name, names));
    if (option->count() > 0) continue;  // a flag says otherwise
    for (const std::string& value : texts_of(node, name, file)) option->add_result(value);
    option->run_callback();
  }
}

}  // namespace

lab::MeasureOptions BenchOptions::measuring() const {
  const Preset& p = preset_of(preset);
  lab::MeasureOptions out;
  out.min_time = min_time > 0 ? min_time : p.min_time;
  // --min-time without --max-time is also the most.
  out.max_time = max_time > 0 ? max_time : min_time > 0 ? min_time : p.max_time;
  out.precision = precision >= 0 ? precision : p.precision;
  out.min_samples = min_samples > 0 ? min_samples : p.min_samples;
  out.max_samples = std::max(out.max_samples, out.min_samples);
  out.warmup = warmup;
  out.max_warmup_time = std::min(1.0, out.min_time);
  return out;
}

std::map<std::string, std::string> BenchOptions::identity() const {
  const lab::MeasureOptions m = measuring();
  const auto text = [](double value) {
    std::ostringstream out;
    out << value;
    return out.str();
  };
  std::string all;
  for (const std::string& variant : variants) all += (all.empty() ? "" : ",") + variant;
  return {{"preset", preset},
          {"variants", all},
          {"min_time", text(m.min_time)},
          {"max_time", text(m.max_time)},
          {"precision", text(m.precision)},
          {"min_samples", std::to_string(m.min_samples)},
          {"warmup", std::to_string(warmup)},
          {"seed", std::to_string(seed)},
          {"small", small ? "true" : "false"},
          {"isolate", isolate ? "true" : "false"},
          {"numerics", numerics_name(compile.numerics)},
          {"mode", mode_name(compile.mode)},
          {"float32_matmul", float32_matmul_name()}};
}

void add_bench_flags(CLI::App& command, BenchOptions& o) {
  add_set_flag(command, o.set);
  command.add_option("--filter", o.filter,
                     "Only workloads whose name has a match of this regular expression");
  command.add_option("--axis", o.axes, "Sweep: NAME=VALUE,VALUE,…; several are combined");
  command.add_option("--where", o.where, "Only combinations such as 'rows<=1024' or 'heads=batch'");
  command
      .add_option("--variants", o.variants,
                  "Of eager, eager_pool, graft, graft_fast, graft_eager_bits (matmuls by "
                  "eager's routine), graft_max_autotune, graft_reduce_overhead, hand, others (the "
                  "workload's own), cuts (its parts compiled one by one); joined by commas")
      ->delimiter(',');
  command.add_option("--preset", o.preset, "quick, default or strict: how long, how precisely")
      ->capture_default_str();
  command.add_flag("--quick", o.quick, "As --preset quick: a first look, wider intervals");
  command.add_option("--min-time", o.min_time, "Seconds of samples per variant, at least")
      ->check(CLI::Range(0.001, 3600.0));
  command.add_option("--max-time", o.max_time, "At most, while --precision is not reached")
      ->check(CLI::Range(0.001, 3600.0));
  command
      .add_option("--precision", o.precision,
                  "Stop once each ratio's 95 % interval is within this part of it (0.01)")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--min-samples", o.min_samples, "Of each variant")
      ->check(CLI::Range(1, 100000));
  command.add_option("--warmup", o.warmup, "Untimed calls; without it, until times stop falling")
      ->check(CLI::Range(0, 100000));
  command.add_option("--threads", o.threads, "ATen's threads")->check(CLI::Range(1, 1024));
  command.add_option("--seed", o.seed, "Of the inputs")->capture_default_str();
  command.add_flag("--small", o.small, "Tiny inputs: to try the command, not to measure");
  command.add_flag("--isolate", o.isolate,
                   "Each variant in a fresh process: first call cold, a crash is a row");
  command.add_option("--timeout", o.timeout, "Seconds for a variant in its own process")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command.add_option("--json", o.json, "Write all samples to this file, case by case");
  command.add_flag("--resume", o.resume, "Keep what the --json file has, and do the rest");
  command.add_option("--csv", o.csv, "Write one line per variant to this file");
  command.add_option("--markdown", o.markdown, "Write a summary to this file");
  command.add_option("--html", o.html, "Write a page with pictures to this file");
  command.add_flag("--peers", o.peers, "Measure torch.compile and JAX too, in Python");
  command.add_option("--peer", o.own_peers, "NAME=SCRIPT: a peer of your own (docs/peers.md)");
  command.add_option("--python", o.python, "The Python that has torch")->capture_default_str();
  command.add_option("--config", o.config, "Take options from this TOML file; flags override it");
  command.add_flag("--dump-config", o.dump_config,
                   "Print the options that were given as TOML, and stop");
  command.add_flag("--no-color", o.no_color,
                   "Plain text on a terminal too; NO_COLOR does the same");
  command.add_flag("--quiet", o.quiet, "No progress");
  add_compile_flags(command, o.compile);
}

void finish_options(CLI::App& command, BenchOptions& o) {
  const bool preset_on_line = command.get_option("--preset")->count() > 0, quick_on_line = o.quick;
  if (!o.config.empty()) read_config(command, o.config);
  if (quick_on_line || (o.quick && !preset_on_line)) o.preset = "quick";
  preset_of(o.preset);
  if (o.variants.empty()) o.variants = kUsual;
  for (const std::string& variant : o.variants) {
    if (std::find(kVariants.begin(), kVariants.end(), variant) != kVariants.end()) continue;
    throw UsageError("--variants: came '" + variant + "'; " + did_you_mean(variant, kVariants) +
                     " Several are joined by commas; torch.compile runs with --peers.");
  }
  for (const auto& [flag, path] : {std::pair("--json", o.json),
                                   {"--csv", o.csv},
                                   {"--markdown", o.markdown},
                                   {"--html", o.html}})
    check_writable(flag, path);
  if (o.resume && o.json.empty())
    throw UsageError("--resume: there is nothing to go on with; name the run's file with --json.");
}

std::string as_toml(const CLI::App& command) {
  toml::table table;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string name = option->get_lnames().front();
    if (name == "dump-config" || name == "config" || name == "help") continue;
    const std::vector<std::string> values = option->reduced_results();
    if (option->get_items_expected_max() == 0) {
      table.insert(name, option->as<bool>());
    } else if (values.size() == 1) {
      table.insert(name, values.front());
    } else {
      toml::array list;
      for (const std::string& value : values) list.push_back(value);
      table.insert(name, std::move(list));
    }
  }
  std::ostringstream out;
  out << table << '\n';
  return out.str();
}

}  // namespace graft::cli
