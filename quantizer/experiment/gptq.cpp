#include "quantizer/experiment/gptq.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/frame/context.h"
#include "cli/frame/usage.h"
#include "formats/files.h"
#include "lab/table.h"
#include "quantizer/experiment/child.h"
#include "quantizer/experiment/decoder.h"
#include "quantizer/experiment/scenario.h"
#include "quantizer/experiment/summary.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kArtifacts[] = {"env_info.json",        "baseline.json",
                                      "compiled.json",        "numerical_check.json",
                                      "memory_sentinel.json", "summary.md"};
const std::vector<std::string> kExperimentModes{"baseline", "compiled", "both", "numerical-check",
                                                "memory-sentinel"};

struct GptqOptions {
  std::string mode = "both", out;
  GptqChoice choice;
  int runs = 3, threads = 0;
  bool no_color = false;
  std::vector<std::string> given;  ///< the options, as they were written

  bool asks(const std::string& step) const { return mode == step || mode == "both"; }
  bool needs_layers() const { return mode != "memory-sentinel"; }
};

void check(GptqOptions& options) {
  const auto known = [](const char* flag, const std::string& given,
                        const std::vector<std::string>& names) {
    if (given.empty())
      throw UsageError(std::string("gptq: ") + flag + " is missing; " + did_you_mean("", names));
    if (std::find(names.begin(), names.end(), given) == names.end())
      throw UsageError(std::string("gptq: ") + flag + " came as '" + given + "'; " +
                       did_you_mean(given, names));
  };
  known("--mode", options.mode, kExperimentModes);
  if (options.needs_layers() || !options.choice.scenario.empty())
    known("--scenario", options.choice.scenario, gptq_scenarios());
  std::error_code error;
  fs::create_directories(options.out, error);
  if (!fs::is_directory(options.out))
    throw UsageError("gptq: --out came as '" + options.out + "', which cannot be made a folder (" +
                     error.message() + "); give one that can be written");
  for (const char* name : kArtifacts) {
    const fs::path file = fs::path(options.out) / name;
    if (fs::is_directory(file))
      throw UsageError("gptq: " + file.string() +
                       " is a folder, where a file of that name is to be written; take it away, or "
                       "give another --out");
    check_writable("--out", file.string());
  }
  if (options.choice.scenario == "tiny-decoder" && options.choice.model.empty())
    options.choice.model = fs::path(options.out) / "tiny-decoder";
  if (options.needs_layers()) options.choice = resolved(options.choice);
}

/// Options that were given, but change nothing.
std::vector<std::string> ignored(const GptqOptions& options) {
  const auto changes = [&](const std::string& option) {
    const std::string& scenario = options.choice.scenario;
    if (!options.needs_layers()) return false;
    if (option == "--runs") return options.mode != "numerical-check";
    if (option == "--seed") return scenario != "minilm";
    if (option == "--model") return scenario == "minilm" || scenario == "tiny-decoder";
    return true;
  };
  std::vector<std::string> out;
  for (const std::string& option : options.given)
    if (!changes(option)) out.push_back(option);
  return out;
}

std::string command_text(const GptqOptions& o) {
  const GptqChoice& c = o.choice;
  std::string out = "graft gptq --mode " + o.mode;
  if (!c.scenario.empty()) out += " --scenario " + c.scenario;
  if (c.layers > 0) out += " --layers " + std::to_string(c.layers);
  if (c.tokens > 0) out += " --tokens " + std::to_string(c.tokens);
  if (c.seed > 0) out += " --seed " + std::to_string(c.seed);
  if (c.small) out += " --small";
  if (!c.model.empty()) out += " --model " + c.model.string();
  out += " --runs " + std::to_string(o.runs);
  if (o.threads > 0) out += " --threads " + std::to_string(o.threads);
  return out + " --out " + o.out;
}

/// Runs the steps, writes each artifact as soon as it is there, and returns the exit code.
int gptq(GptqOptions options) {
  const std::string command = command_text(options);  // as it was given
  for (const std::string& option : ignored(options))
    std::cerr << "graft: gptq: " << option << " changes nothing with --mode " << options.mode
              << (options.needs_layers() ? " --scenario " + options.choice.scenario : "")
              << "; it is ignored.\n";
  check(options);
  if (options.threads > 0) at::set_num_threads(options.threads);
  GptqFindings found;
  found.environment = run_context();
  found.environment["command"] = command;
  found.environment["choice"] = to_json(options.choice);
  warn_if_busy(found.environment);
  if (const std::string busy = busy_text(found.environment); !busy.empty())
    found.environment["busy"] = busy;
  const auto write = [&](const char* name, const nlohmann::json& content) {
    formats::write_file((fs::path(options.out) / name).string(), content.dump(1) + '\n');
  };
  write("env_info.json", found.environment);
  if (options.needs_layers() && options.choice.scenario == "tiny-decoder")
    prepare_decoder(options.choice);
  const auto step = [&](const std::string& what, const char* file, nlohmann::json& into) {
    if (!options.asks(what)) return;
    std::cerr << "gptq: " << what << ", in a process of its own\n";
    into = run_gptq_step({what, options.choice, options.runs, options.threads});
    write(file, into);
  };
  step("memory-sentinel", "memory_sentinel.json", found.sentinel);
  step("baseline", "baseline.json", found.baseline);
  step("compiled", "compiled.json", found.compiled);
  step("numerical-check", "numerical_check.json", found.numerics);
  formats::write_file((fs::path(options.out) / "summary.md").string(), gptq_markdown(found));
  print(std::cout, found, !options.no_color && lab::colour_wanted(STDOUT_FILENO));
  std::cout << "\nAll of it: " << options.out << "/summary.md and the JSON files beside it\n";
  const auto failed = [](const nlohmann::json& proof) {
    return !proof.is_null() && !proof.at("passed").get<bool>();
  };
  return failed(found.sentinel) || failed(found.numerics) ? 2 : 0;
}

}  // namespace

void add_gptq(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "gptq", "Quantise layers by GPTQ, eager and compiled: time, memory, and whether they agree");
  const auto options = std::make_shared<GptqOptions>();
  command->add_option("--mode", options->mode,
                      "baseline, compiled, numerical-check, memory-sentinel, or all of them: both "
                      "(the default)");
  command->add_option(
      "--scenario", options->choice.scenario,
      "minilm, qwen3b-layers, tiny-decoder, blocksize-32, -64, -128 or -256; all modes "
      "but memory-sentinel need one");
  must_be_path(
      command
          ->add_option("--out", options->out, "Folder for the artifacts; made if it is not there")
          ->required());
  command->add_option("--layers", options->choice.layers, "Of the model (default: the scenario's)")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--runs", options->runs,
                   "Timed passes of eager, and of compiled when warm (default 3)")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--tokens", options->choice.tokens,
                   "For calibration, about (default: the scenario's)")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--seed", options->choice.seed, "Of weights, inputs and training (0)")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  must_be_path(command->add_option("--model", options->choice.model,
                                   "MiniLM's folder, or where the small decoder is or shall be"));
  command->add_flag("--small", options->choice.small, "Tiny sizes: to try the command");
  command->add_option("--threads", options->threads, "ATen's threads (default: its choice)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--no-color", options->no_color,
                    "Plain text on a terminal too; NO_COLOR does the same");
  command->callback([options, command] {
    for (const char* name :
         {"--scenario", "--layers", "--runs", "--tokens", "--seed", "--model", "--small"})
      if (command->count(name) > 0) options->given.emplace_back(name);
    if (const int code = gptq(*options); code != 0) throw CLI::RuntimeError(code);
  });
  add_gptq_child(app);
}

}  // namespace graft::cli
