#include "quantizer/command/generate.h"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/frame/context.h"
#include "cli/frame/usage.h"
#include "formats/files.h"
#include "lab/stats.h"
#include "lab/table.h"
#include "lab/words.h"
#include "quantizer/model/read_generator.h"
#include "workloads/decoder/sampling.h"
#include "workloads/decoder/session.h"
#include "workloads/decoder/text.h"
#include "workloads/decoder/tiny.h"

namespace graft::cli {
namespace {

namespace decoder = workloads::decoder;
using at::Tensor;
using Clock = std::chrono::steady_clock;

constexpr const char* kGenerateNotes =
    R"(MODEL_DIR holds config.json (model_type llama or qwen2) and safetensors, of
plain weights or as graft quantize writes them. Each token is the most likely
one, unless --temperature says to draw. The first calls of a layer run eagerly, while it is recorded, compiled and
proven; the table's time of a token is the median of the last half.

Text goes in and out where MODEL_DIR has a tokenizer.json (byte-pair encoding), or the
model's tokens are bytes; of others give token ids with --ids, and ids come out.

  graft generate tiny --train-tiny --prompt "You may copy"   # trains one first
  graft quantize tiny --out tiny4 --bits 4 --group 8 && graft generate tiny4

All of it: docs/generating.md)";

struct GenerateArguments {
  quantizer::GeneratorOptions options;
  std::string model, prompt = "This License ", json, dtype = "f32";
  std::optional<std::string> ids;
  decoder::Sampling sampling;
  int64_t tokens = 100, repeat = 1;
  bool eager = false, compare = false, train_tiny = false;
  int threads = 0;
};

/// One run.
struct Continuation {
  std::string variant;
  std::vector<int64_t> tokens;
  std::vector<double> seconds;  ///< of each token
  double prompt_seconds = 0;
  std::map<std::string, Report> reports = {};

  /// Of the last half of all tokens: what goes on for as long as one likes.
  double median() const { return lab::median(std::span(seconds).subspan(seconds.size() / 2)); }
  double total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }
};

std::vector<int64_t> parsed_ids(const std::string& text) {
  std::vector<int64_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int64_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next < end && *next != ','))
      throw UsageError("--ids: came '" + text +
                       "', expected numbers with commas between: 12,7,99.");
    ids.push_back(id);
    at = next;
    if (at == end) return ids;
    ++at;
  }
  throw UsageError("--ids: came '" + text + "', expected a number behind each comma: 12,7,99.");
}

using decoder::Text;

Tensor prompt_ids(const GenerateArguments& given, const Text& text, int64_t vocabulary) {
  if (given.ids) return at::tensor(parsed_ids(*given.ids), at::kLong);
  if (!text)
    throw UsageError("--prompt: the model's folder has no tokenizer.json, and its vocabulary has " +
                     std::to_string(vocabulary) +
                     " tokens, more than the 256 of a model of bytes; give the prompt's token ids "
                     "with --ids 1,2,3.");
  if (given.prompt.empty()) throw UsageError("--prompt: came nothing, expected text to continue.");
  return text.ids(given.prompt);
}

/// Shows tokens as they come: text as far as it is whole characters, or ids.
class Printer {
 public:
  /// `text` null: ids.
  Printer(bool shown, const Text* text, const Tensor& prompt) : shown_(shown), text_(text) {
    if (text_ == nullptr) return;
    const auto* first = prompt.const_data_ptr<int64_t>();
    ids_.assign(first, first + prompt.numel());
    said_ = text_->of(ids_).size();
  }
  void token(int64_t id, bool last) {
    if (!shown_) return;
    ids_.push_back(id);
    if (text_ == nullptr) {
      std::cout << (first_ ? "" : ",") << id << std::flush;
      first_ = false;
      return;
    }
    const std::string all = text_->of(ids_);
    const bool part = text_->has_parts() && all.ends_with("\xEF\xBF\xBD");  // of a character
    if ((part && !last) || all.size() < said_) return;
    std::cout << all.substr(said_) << std::flush;
    said_ = all.size();
  }

 private:
  bool shown_, first_ = true;
  const Text* text_;
  std::vector<int64_t> ids_;  ///< the prompt's, too
  size_t said_ = 0;           ///< bytes
};

/// Continues the prompt that often; what the last time took.
Continuation generate(const std::shared_ptr<const decoder::Generator>& model, const Tensor& prompt,
                      const GenerateArguments& given, bool compiled, Printer print) {
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  decoder::Session session(model, prompt.size(0) + given.tokens, compiled);
  Continuation run;
  for (int64_t time = 0; time < given.repeat; ++time) {
    run = {compiled ? "compiled" : "eager", {}, {}};
    session.clear();
    decoder::Sampler sampler(given.sampling);
    auto start = Clock::now();
    Tensor logits = session.feed(prompt);
    run.prompt_seconds = since(start);
    for (int64_t k = 0; k < given.tokens; ++k) {
      start = Clock::now();
      const Tensor next = sampler.next(logits);
      run.tokens.push_back(next.item<int64_t>());
      if (k + 1 < given.tokens) logits = session.feed(next);
      run.seconds.push_back(since(start));
      if (time == 0) print.token(run.tokens.back(), k + 1 == given.tokens);
    }
    if (given.tokens > 1) run.seconds.pop_back();  // the last token itself was not run
    session.wait();
  }
  run.reports = session.reports();
  return run;
}

/// Tokens that are equal from the start on.
int64_t equal_tokens(const Continuation& a, const Continuation& b) {
  const auto differ = std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin());
  return differ.first - a.tokens.begin();
}

void print_table(const std::vector<Continuation>& runs, const decoder::Generator& model,
                 int64_t prompt) {
  using lab::Align;
  lab::Table table({{"variant"},
                    {"prompt tokens/s", Align::Right},
                    {"tokens", Align::Right},
                    {"in s", Align::Right},
                    {"ms per token", Align::Right},
                    {"tokens/s", Align::Right},
                    {"weights GB/s", Align::Right}});
  const auto bytes = static_cast<double>(model.bytes_per_token());
  for (const Continuation& run : runs)
    table.row({run.variant, lab::number(static_cast<double>(prompt) / run.prompt_seconds),
               std::to_string(run.tokens.size()), lab::number(run.total()),
               lab::number(1e3 * run.median()), lab::number(1 / run.median()),
               lab::number(bytes / run.median() / 1e9)});
  table.print(std::cout, lab::colour_wanted(STDOUT_FILENO));
  std::cout << "ms per token: the median of the last half of the tokens. Each token reads "
            << lab::number(bytes / 1e6) << " MB of weights.\n";
}

nlohmann::json json_of_runs(const std::vector<Continuation>& runs, const GenerateArguments& given,
                            const decoder::Generator& model, const Tensor& prompt) {
  nlohmann::json out;
  out["context"] = run_context();
  out["context"]["command"] = "generate";
  out["model"] = given.model;
  out["settings"] = {{"dtype", given.dtype},
                     {"bits", given.options.bits},
                     {"group", given.options.group},
                     {"tokens", given.tokens},
                     {"temperature", given.sampling.temperature},
                     {"top_k", given.sampling.top_k},
                     {"top_p", given.sampling.top_p},
                     {"seed", given.sampling.seed}};
  out["weight_bytes_per_token"] = model.bytes_per_token();
  const auto* first = prompt.const_data_ptr<int64_t>();
  out["prompt"] = std::vector<int64_t>(first, first + prompt.numel());
  for (const Continuation& run : runs) {
    nlohmann::json reports;
    for (const auto& [name, report] : run.reports)
      reports[name] = {{"kernels", report.kernels}, {"plan_hits", report.plan_hits}};
    out["runs"].push_back({{"variant", run.variant},
                           {"tokens", run.tokens},
                           {"seconds", run.seconds},
                           {"median_seconds", run.median()},
                           {"prompt_seconds", run.prompt_seconds},
                           {"compiled", reports}});
  }
  return out;
}

void train(const std::string& folder) {
  const decoder::TinyResult made = decoder::train_tiny(folder);
  if (!made.reused)
    std::cerr << "graft: trained a small decoder in " << lab::duration_text(made.seconds) << ", in "
              << folder << ".\n";
}

void run_generate(GenerateArguments& given) {
  if (given.threads > 0) at::set_num_threads(given.threads);
  check_writable("--json", given.json);
  given.options.dtype = given.dtype == "bf16" ? at::kBFloat16 : at::kFloat;
  if (given.train_tiny) train(given.model);
  const auto model = std::make_shared<const decoder::Generator>(
      quantizer::read_generator(given.model, given.options));
  const Text text(given.model, model->config.vocabulary);
  const Tensor prompt = prompt_ids(given, text, model->config.vocabulary);
  const Text* shown = text && !given.ids ? &text : nullptr;
  if (prompt.size(0) + given.tokens > model->config.positions)
    throw UsageError("--tokens: " + std::to_string(given.tokens) + " behind a prompt of " +
                     std::to_string(prompt.size(0)) + " are more than the model's " +
                     std::to_string(model->config.positions) + " positions; give fewer.");
  if (shown != nullptr) std::cout << given.prompt << std::flush;
  std::vector<Continuation> runs;
  if (given.compare || given.eager)
    runs.push_back(generate(model, prompt, given, false, {given.eager, shown, prompt}));
  if (!given.eager) runs.push_back(generate(model, prompt, given, true, {true, shown, prompt}));
  std::cout << "\n\n";
  print_table(runs, *model, prompt.size(0));
  if (runs.size() == 2) {
    const int64_t equal = equal_tokens(runs[0], runs[1]);
    std::cout << "Compiled, a token takes 1 / " << lab::number(runs[0].median() / runs[1].median())
              << " of eager's time; "
              << (equal == given.tokens
                      ? "all tokens are equal.\n"
                      : "the first " + std::to_string(equal) + " of " +
                            std::to_string(given.tokens) +
                            " tokens are equal (two tokens can be as likely as one another but "
                            "for rounding).\n");
  }
  if (!given.json.empty())
    formats::write_file(given.json, json_of_runs(runs, given, *model, prompt).dump(1) + '\n');
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "generate", "Continue a prompt with a decoder, of plain or of quantised weights");
  command->footer(kGenerateNotes);
  const auto given = std::make_shared<GenerateArguments>();
  must_be_path(command->add_option("MODEL_DIR", given->model, "The model's folder")->required());
  CLI::Option* prompt =
      command->add_option("--prompt", given->prompt, "Text to continue (default: 'This License ')");
  command->add_option("--ids", given->ids, "Token ids to continue, in place of text: 12,7,99")
      ->excludes(prompt);
  command->add_option("--tokens", given->tokens, "Tokens to generate (default 100)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  CLI::Option* temperature =
      command
          ->add_option("--temperature", given->sampling.temperature,
                       "Draw tokens, from logits divided by this (default 0: the most likely one)")
          ->check(CLI::Range(0.0, 1e6));
  command
      ->add_option("--top-k", given->sampling.top_k,
                   "Draw from the so many most likely tokens (default 0: all)")
      ->needs(temperature)
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  command
      ->add_option("--top-p", given->sampling.top_p,
                   "Draw from the fewest tokens whose probabilities reach this (default 1: all)")
      ->needs(temperature)
      ->check(CLI::Range(1e-9, 1.0));
  command->add_option("--seed", given->sampling.seed, "Of what is drawn (default 0)")
      ->needs(temperature);
  command->add_option("--dtype", given->dtype, "f32 (the default) or bf16: to compute in")
      ->check(CLI::IsMember(std::vector<std::string>{"f32", "bf16"}));
  CLI::Option* bits =
      command
          ->add_option("--bits", given->options.bits,
                       "Turn plain weights into their nearest codes of 8 or 4 bits (worse than "
                       "graft quantize's)")
          ->check(CLI::IsMember(std::vector<std::string>{"4", "8"}));
  command
      ->add_option("--group", given->options.group,
                   "With --bits: columns that share a scale (default 128)")
      ->needs(bits)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command
      ->add_option("--repeat", given->repeat,
                   "Continue the prompt so often in one process; times are the last one's "
                   "(default 1)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  CLI::Option* eager = command->add_flag("--eager", given->eager, "Plain ATen, nothing compiled");
  command->add_flag("--compare", given->compare, "Run eagerly, too, and compare tokens and times")
      ->excludes(eager);
  command->add_flag("--train-tiny", given->train_tiny,
                    "First train a small decoder of bytes into MODEL_DIR, unless it is there "
                    "(some minutes)");
  command->add_option("--threads", given->threads, "Intra-op threads (default: ATen's choice)")
      ->check(CLI::Range(1, 4096));
  must_be_path(command->add_option("--json", given->json, "Write tokens and times to this file"));
  command->callback([given] { run_generate(*given); });
}

}  // namespace graft::cli
