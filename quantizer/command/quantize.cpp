#include "quantizer/command/quantize.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/frame/context.h"
#include "cli/frame/errors.h"
#include "cli/frame/usage.h"
#include "formats/files.h"
#include "lab/memory/resident.h"
#include "lab/progress.h"
#include "lab/table.h"
#include "lab/words.h"
#include "quantizer/command/quantize_summary.h"
#include "quantizer/model/out_folder.h"
#include "quantizer/model/quantize_model.h"

namespace graft::cli {
namespace {

using lab::number;
using quantizer::LayerReport;
using quantizer::QuantizeOptions;
using quantizer::QuantizeReport;

constexpr const char* kNotes = R"(MODEL_DIR holds config.json (model_type bert, llama or qwen2) and
model.safetensors, or shards with their index. Out come safetensors in
compressed-tensors' pack-quantized form. Layers that are done are kept: the
same command goes on where an earlier run ended.

--calibration takes, for
  bert           a text file, one sample per line
  llama, qwen2   a .json file of token ids (a list of lists, one list, or an
                 object with "input_ids"), or a text file of ids, one sample
                 per line; with a vocabulary of 256, any other file's bytes
Without it: 40 built-in sentences (bert), random ids (the others). For models
that are to be used, give text of their kind.

All of it: docs/quantizing.md)";

struct Arguments {
  QuantizeOptions options;
  std::string model, out, calibration, json;
  bool symmetric = false, asymmetric = false, eager = false, compiled = false;
  int threads = 0;
};

/// A line per finished layer, with its loss and the time left; on a terminal also where it stands.
class LayerLog {
 public:
  explicit LayerLog(bool terminal) : terminal_(terminal) {}

  void at(int64_t layer, double done, const std::string& what) {
    where_ = layers_ > 0 && layer > layers_ ? what : "layer " + std::to_string(layer) + ", " + what;
    if (!terminal_) return;
    std::cerr << "\r\x1b[K";
    if (layers_ > 0 && layer > layers_)
      std::cerr << what;
    else
      std::cerr << "layer " << layer << ": " << what << ", " << static_cast<int>(100 * done)
                << " %";
    std::cerr << std::flush;
  }

  void layer_done(const LayerReport& report, int64_t layers) {
    ++done_;
    clear();
    layers_ = layers;
    const double passed = std::chrono::duration<double>(Clock::now() - start_).count();
    std::cerr << "layer " << report.layer + 1 << '/' << layers << ": loss "
              << number(report.loss());
    if (report.resumed) {
      std::cerr << ", done by an earlier run";
    } else {
      std::cerr << ", " << lab::duration_text(report.seconds);
      // Layers that were taken up again say little of those to come.
      ++quantised_;
      const double each = (passed - taken_up_) / static_cast<double>(quantised_);
      std::cerr << ", " << lab::duration_text(each * static_cast<double>(layers - done_))
                << " left";
    }
    if (report.resumed) taken_up_ = passed;
    std::cerr << '\n';
  }

  /// After an error: what is not lost.
  void kept() const {
    if (done_ > 0)
      std::cerr << "graft: " << done_ << " of " << layers_
                << " layers are done and kept; the same command goes on from there.\n";
  }

  /// What was being done, for an error.
  const std::string& where() const { return where_; }

  void clear() const {
    if (terminal_) std::cerr << "\r\x1b[K" << std::flush;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  int64_t done_ = 0, layers_ = 0, quantised_ = 0;
  std::string where_ = "reading the model and the calibration data";
  double taken_up_ = 0;  // seconds until the last layer of an earlier run was taken up
};

nlohmann::json json_of(const QuantizeReport& report, const Arguments& given) {
  nlohmann::json out = to_json(report);
  const auto& settings = given.options.settings;
  out["context"] = run_context();
  out["context"]["command"] = "quantize";
  out["model"] = given.model;
  out["out"] = given.out;
  out["settings"] = {{"bits", settings.bits},
                     {"group", settings.group},
                     {"symmetric", settings.symmetric},
                     {"act_order", settings.act_order},
                     {"block", settings.block},
                     {"dampening", settings.dampening},
                     {"compiled", given.options.compiled}};
  out["peak_resident_bytes"] = lab::read_resident().peak;
  return out;
}

/// It is written last: better known now than after hours.
void check_json(const Arguments& given) {
  if (given.json.empty()) return;
  check_writable("--json", given.json);
  const auto refuse = [&](const std::string& what) {
    throw UsageError("--json: came '" + given.json + "', which " + what +
                     " and would be replaced; name another file.");
  };
  if (quantizer::lies_in(given.json, given.model)) refuse("lies in the model's folder");
  if (!given.calibration.empty() && quantizer::lies_in(given.json, given.calibration))
    refuse("is the calibration file");
}

void run_quantize(Arguments& given) {
  if (given.threads > 0) at::set_num_threads(given.threads);
  check_json(given);
  QuantizeOptions& options = given.options;
  options.model = given.model;
  options.out = given.out;
  options.calibration.file = given.calibration;
  options.settings.symmetric = !given.asymmetric;
  options.compiled = !given.eager;
  LayerLog log(::isatty(STDERR_FILENO) == 1);
  options.warning = [](const std::string& text) { std::cerr << "graft: " << text << ".\n"; };
  options.progress = [&](int64_t layer, double done, const std::string& what) {
    log.at(layer + 1, done, what);
  };
  options.layer_done = [&](const LayerReport& report, int64_t layers) {
    log.layer_done(report, layers);
  };
  QuantizeReport report;
  try {
    report = quantizer::quantize_model(options);
  } catch (const std::exception& error) {
    log.clear();
    log.kept();
    if (!is_out_of_memory(error)) throw;
    throw std::runtime_error("memory ran out (" + log.where() +
                             "); give fewer --samples or a shorter --sequence, end other "
                             "programs, raise a limit that was set (ulimit -v), or use a machine "
                             "with more memory");
  }
  log.clear();
  print(std::cout, report, options.settings, lab::colour_wanted(STDOUT_FILENO));
  std::cout << "\nWritten to " << given.out << ".\n";
  if (!given.json.empty()) formats::write_file(given.json, json_of(report, given).dump(1) + '\n');
}

}  // namespace

void add_quantize(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("quantize", "Quantise a model's linear layers to 3, 4 or 8 bits by GPTQ");
  command->footer(kNotes);
  const auto given = std::make_shared<Arguments>();
  auto& settings = given->options.settings;
  must_be_path(command->add_option("MODEL_DIR", given->model, "The model's folder")->required());
  must_be_path(
      command->add_option("--out", given->out, "A new folder for the quantised model")->required());
  command->add_option("--bits", settings.bits, "Bits per weight: 3, 4 or 8 (default 4)")
      ->check(CLI::IsMember(std::vector<std::string>{"3", "4", "8"}));
  command
      ->add_option("--group", settings.group,
                   "Columns that share a scale (default 128); -1: one scale per row")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 30));
  CLI::Option* sym = command->add_flag("--sym", given->symmetric, "Codes around 0 (the default)");
  command->add_flag("--asym", given->asymmetric, "Codes with a zero point")->excludes(sym);
  command->add_flag("--act-order", settings.act_order,
                    "Columns with the strongest activations first");
  command
      ->add_option("--block", settings.block,
                   "Columns quantised at a time (default 128): for speed")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--dampening", settings.dampening,
                   "Added to the Hessian's diagonal, as a share of its mean (default 0.01); "
                   "losses compare only where it is the same")
      ->check(CLI::Range(0.0, 1000.0));
  command->add_option("--targets", given->options.targets,
                      "Only linear layers in whose name this regular expression is found");
  must_be_path(command->add_option("--calibration", given->calibration,
                                   "File of calibration samples: text or token ids, see below"));
  command
      ->add_option("--samples", given->options.calibration.samples,
                   "Calibration samples at most (default 128)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command
      ->add_option("--sequence", given->options.calibration.sequence,
                   "Tokens of a sample at most (default: 256 for bert, 512 for others)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  CLI::Option* eager =
      command->add_flag("--eager", given->eager, "GPTQ's inner loop as plain ATen");
  command->add_flag("--compiled", given->compiled, "GPTQ's inner loop compiled (the default)")
      ->excludes(eager);
  command->add_option("--threads", given->threads, "Intra-op threads (default: ATen's choice)")
      ->check(CLI::Range(1, 4096));
  must_be_path(command->add_option("--json", given->json,
                                   "Write losses, times and checksums of each layer to this file"));
  command->callback([given] { run_quantize(*given); });
}

}  // namespace graft::cli
