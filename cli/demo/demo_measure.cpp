#include "cli/demo/demo_measure.h"

#include <graft/pool.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <utility>

#include "cli/frame/usage.h"
#include "workloads/minilm/samples.h"

namespace graft::cli {
namespace {

using namespace workloads::minilm;
using at::Tensor;

std::filesystem::path folder_of(const DemoOptions& options) {
  const auto folder = options.model.empty() ? default_folder() : options.model;
  if (!std::filesystem::exists(folder / "config.json")) {
    throw std::runtime_error(
        "no MiniLM model in " + folder.string() +
        "; tools/setup.sh fetches it, --model or GRAFT_MINILM_DIR names another folder");
  }
  return folder;
}

graft::Options tuned(graft::Options options) {
  options.mode = Mode::MaxAutotune;
  return options;
}

std::string shape_text(int64_t batch, int64_t length) {
  return "(" + std::to_string(batch) + ", " + std::to_string(length) + ")";
}

bool is_settled(const Report& report) {
  return report.verdict != Verdict::NotCalled && report.verdict != Verdict::Compiling &&
         report.verdict != Verdict::Proving;
}

// Calls `run` until `settled`, or until `seconds` have passed: what is still undecided is measured
// as it stands.
template <class Run, class Settled>
void run_until(double seconds, Run&& run, Settled&& settled) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  do {
    run();
  } while (!settled() && std::chrono::steady_clock::now() < end);
}

}  // namespace

double RegionRow::break_even_calls() const {
  // If eager stays, a difference between the two is chance.
  const double saved = report.verdict == Verdict::Faster ? eager_ms() - compiled_ms() : 0;
  return saved > 0 ? std::ceil(report.compile_ms / saved) : std::numeric_limits<double>::infinity();
}

DemoRun::DemoRun(const DemoOptions& options, lab::Progress& progress)
    : options_(options),
      progress_(progress),
      model_(folder_of(options)),
      tokenizer_(folder_of(options) / "vocab.txt"),
      compiled_(Regions::compiled(options.compile, options.cut, options.attention)),
      tuned_(Regions::compiled(tuned(options.compile), Cut::Blocks, options.attention)) {}

size_t DemoRun::steps() {
  return 1 + std::size(kShapes) + 1;
}

lab::MeasureOptions DemoRun::measuring(double seconds, int samples) {
  lab::MeasureOptions out;
  out.min_time = options_.quick ? seconds / 6 : seconds;
  out.min_samples = options_.quick ? std::max(5, samples / 3) : samples;
  out.max_samples = 2000;
  return out;
}

// Real text without padding: each row starts at another sentence and continues until it is full.
Tokenizer::Batch DemoRun::text_batch(int64_t batch, int64_t length) const {
  std::vector<std::string> texts;
  for (int64_t row = 0; row < batch; ++row) {
    std::string text;
    // A token takes more than a byte, so this is always enough.
    for (size_t i = row; text.size() < static_cast<size_t>(8 * length); ++i) {
      text += std::string(kSentences[i % std::size(kSentences)]) + ' ';
    }
    texts.push_back(std::move(text));
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return tokenizer_.batch(views, length);
}

std::vector<RegionRow> DemoRun::measure_regions() {
  const auto [batch, length] = std::pair(std::rbegin(kShapes)[0][0], std::rbegin(kShapes)[0][1]);
  progress_.begin("regions at " + shape_text(batch, length));
  const auto [ids, mask] = text_batch(batch, length);
  const auto samples = region_samples(model_, ids, mask, options_.cut, options_.attention);
  std::vector<RegionRow> out;
  for (const RegionSample& sample : samples) {
    const double before = static_cast<double>(out.size()) / static_cast<double>(samples.size());
    progress_.at(before, sample.name + ", compiling");
    RegionRow row;
    row.name = sample.name;
    row.calls_per_encode = sample.calls_per_encode;
    graft::Options compile_options = options_.compile;
    compile_options.name = sample.name;
    const auto compiled = sample.instance.compile(compile_options);
    row.first_call_ms = cli::settle(compiled);

    lab::MeasureOptions options = measuring(1.5, 20);
    options.progress = [&](double done, const std::string& what) {
      progress_.at(before + done / static_cast<double>(samples.size()), sample.name + ", " + what);
    };
    auto timed =
        lab::measure({{"eager", sample.instance.eager.run}, {"compiled", compiled.run}}, options);
    row.eager = std::move(timed[0]);
    row.compiled = std::move(timed[1]);
    row.speedup = lab::bootstrap_ratio(row.eager.ms, row.compiled.ms);
    row.result = lab::compare(compiled.outputs(), sample.instance.eager.outputs());
    row.report = compiled.report();
    out.push_back(std::move(row));
  }
  return out;
}

Tensor DemoRun::encode(const Tokenizer::Batch& batch, const Regions& compiled) const {
  const PoolGuard pool;
  return model_.encode(batch.ids, batch.mask, compiled);
}

void DemoRun::settle_model(const Tokenizer::Batch& batch, const Regions& compiled) {
  run_until(
      options_.quick ? 10 : 30,
      [&] {
        encode(batch, compiled);
        for (const auto& function : compiled.compiled_functions) function.wait();
        progress_.at(0, "compiling and proving");
      },
      [&] {
        return std::ranges::all_of(compiled.compiled_functions, [](const auto& function) {
          return is_settled(function.report());
        });
      });
}

std::vector<ModelRow> DemoRun::measure_model() {
  const Regions sdpa = Regions::eager(Attention::Sdpa),
                explicit_ = Regions::eager(Attention::Explicit);
  std::vector<ModelRow> out;
  for (const auto& [batch, length] : kShapes) {
    progress_.begin("the model at " + shape_text(batch, length));
    const auto text = text_batch(batch, length);
    const auto eager = [&](const Regions& regions) {
      return model_.encode(text.ids, text.mask, regions);
    };
    ModelRow row;
    row.batch = batch;
    row.length = length;

    // The baseline is eager's faster attention: a user would not keep the slower one.
    const auto both =
        lab::measure({{"sdpa", [&] { eager(sdpa); }}, {"explicit", [&] { eager(explicit_); }}},
                     measuring(0.5, 6));
    const bool explicit_wins = lab::median(both[1].ms) < lab::median(both[0].ms);
    row.baseline = explicit_wins ? Attention::Explicit : Attention::Sdpa;
    const Regions& baseline = explicit_wins ? explicit_ : sdpa;

    settle_model(text, compiled_);
    settle_model(text, tuned_);
    lab::MeasureOptions options = measuring(4, 15);
    options.progress = [&](double done, const std::string& what) { progress_.at(done, what); };
    auto timed = lab::measure({{"eager", [&] { eager(baseline); }},
                               {"eager with the pool",
                                [&] {
                                  const PoolGuard pool;
                                  eager(baseline);
                                }},
                               {"compiled", [&] { encode(text, compiled_); }},
                               {"max-autotune", [&] { encode(text, tuned_); }}},
                              options);
    row.eager = std::move(timed[0]);
    row.pooled = std::move(timed[1]);
    row.compiled = std::move(timed[2]);
    row.tuned = std::move(timed[3]);
    options.min_time /= 2;
    row.alone =
        std::move(lab::measure({{"compiled alone", [&] { encode(text, compiled_); }}}, options)[0]);
    row.speedup = lab::bootstrap_ratio(row.eager.ms, row.compiled.ms);
    row.tuned_speedup = lab::bootstrap_ratio(row.eager.ms, row.tuned.ms);
    row.pool_speedup = lab::bootstrap_ratio(row.eager.ms, row.pooled.ms);
    const Regions& same = options_.attention == Attention::Explicit ? explicit_ : sdpa;
    row.result = lab::compare({encode(text, compiled_)}, {eager(same)});
    row.tuned_result = lab::compare({encode(text, tuned_)}, {eager(same)});
    out.push_back(std::move(row));
  }
  return out;
}

std::vector<NearestRow> DemoRun::find_nearest() {
  progress_.begin("sentences");
  const Regions eager = Regions::eager(options_.attention);
  const auto candidates = tokenizer_.batch(kSentences), asked = tokenizer_.batch(kQueries);
  const Tensor among = model_.encode(candidates.ids, candidates.mask, eager);
  const Tensor wanted = model_.encode(asked.ids, asked.mask, eager);
  settle_model(candidates, compiled_);
  settle_model(asked, compiled_);
  const Tensor among_compiled = encode(candidates, compiled_),
               wanted_compiled = encode(asked, compiled_);
  std::vector<NearestRow> out;
  for (size_t i = 0; i < std::size(kQueries); ++i) {
    const auto row = static_cast<int64_t>(i);
    out.push_back({kQueries[i], nearest(wanted.select(0, row), among, 3),
                   nearest(wanted_compiled.select(0, row), among_compiled, 3)});
  }
  return out;
}

}  // namespace graft::cli
