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

// The regions take about as long as so many shapes of the whole model.
constexpr size_t kRegionSteps = 3;

// The part of a shape's step that it takes until all regions are proven.
constexpr double kSettled = 0.5;

}  // namespace

double RegionRow::break_even_calls() const {
  // Where eager stays, a difference between the two is chance.
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

std::span<const DemoRun::Shape> DemoRun::batches(bool full) {
  return std::span(kBatches).first(full ? std::size(kBatches) : 1);
}

size_t DemoRun::steps(bool full) {
  return 1 + std::size(kSingle) + batches(full).size() + kRegionSteps + 1;
}

lab::MeasureOptions DemoRun::measuring(double seconds, int samples) const {
  lab::MeasureOptions out;
  out.min_time = options_.full ? seconds : seconds / 6;
  out.min_samples = options_.full ? samples : std::max(5, samples / 3);
  out.max_warmup_time = options_.full ? 1 : 0.2;
  out.max_samples = 2000;
  return out;
}

// Real text without padding: each row starts at another sentence and goes on until it is full.
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

void DemoRun::compile_regions() {
  const auto [batch, length] = batches(options_.full).back();
  progress_.begin("compiling the regions at " + shape_text(batch, length));
  const auto [ids, mask] = text_batch(batch, length);
  auto samples = region_samples(model_, ids, mask, options_.cut, options_.attention);
  for (RegionSample& sample : samples) {
    progress_.at(static_cast<double>(regions_.size()) / static_cast<double>(samples.size()),
                 sample.name);
    graft::Options compile_options = options_.compile;
    compile_options.name = sample.name;
    const auto compiled = sample.instance.compile(compile_options);
    const double first_call_ms = cli::settle(compiled);
    regions_.push_back({std::move(sample), compiled, first_call_ms});
  }
}

std::vector<RegionRow> DemoRun::measure_regions() {
  const auto [batch, length] = batches(options_.full).back();
  progress_.begin("regions at " + shape_text(batch, length), kRegionSteps);
  std::vector<RegionRow> out;
  for (const auto& [sample, compiled, first_call_ms] : regions_) {
    const auto before = static_cast<double>(out.size()), all = static_cast<double>(regions_.size());
    RegionRow row;
    row.name = sample.name;
    row.calls_per_encode = sample.calls_per_encode;
    row.first_call_ms = first_call_ms;

    lab::MeasureOptions options = measuring(1.5, 20);
    options.progress = [&, &region = sample](double done, const std::string& what) {
      progress_.at((before + done) / all, region.name + ", " + what);
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
  const double most = options_.full ? 30 : 3;
  const auto start = std::chrono::steady_clock::now();
  double spent = 0;
  bool settled = false;
  // What is still undecided then is measured as it stands.
  while (!settled && spent < most) {
    progress_.at(kSettled * spent / most, "compiling and proving");
    encode(batch, compiled);
    for (const auto& function : compiled.compiled_functions) function.wait();
    settled = std::ranges::all_of(compiled.compiled_functions, [](const auto& function) {
      return is_settled(function.report());
    });
    spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
}

Attention DemoRun::faster_attention(const Tokenizer::Batch& text) {
  const Regions sdpa = Regions::eager(Attention::Sdpa),
                explicit_ = Regions::eager(Attention::Explicit);
  const auto both =
      lab::measure({{"sdpa", [&] { model_.encode(text.ids, text.mask, sdpa); }},
                    {"explicit", [&] { model_.encode(text.ids, text.mask, explicit_); }}},
                   measuring(0.5, 6));
  return lab::median(both[1].ms) < lab::median(both[0].ms) ? Attention::Explicit : Attention::Sdpa;
}

ModelRow DemoRun::measure_shape(int64_t batch, int64_t length) {
  const auto text = text_batch(batch, length);
  ModelRow row;
  row.batch = batch;
  row.length = length;
  row.baseline = faster_attention(text);
  const Regions baseline = Regions::eager(row.baseline), same = Regions::eager(options_.attention);
  const auto eager = [&](const Regions& regions) {
    return model_.encode(text.ids, text.mask, regions);
  };
  std::vector<lab::TimedVariant> variants{{"eager", [&] { eager(baseline); }},
                                          {"eager with the pool",
                                           [&] {
                                             const PoolGuard pool;
                                             eager(baseline);
                                           }},
                                          {"compiled", [&] { encode(text, compiled_); }}};
  settle_model(text, compiled_);
  if (options_.full) {
    settle_model(text, tuned_);
    variants.push_back({"max-autotune", [&] { encode(text, tuned_); }});
  }

  lab::MeasureOptions options = measuring(4, 15);
  options.progress = [&](double done, const std::string& what) {
    progress_.at(kSettled + (1 - kSettled) * done, what);
  };
  auto timed = lab::measure(variants, options);
  row.eager = std::move(timed[0]);
  row.pooled = std::move(timed[1]);
  row.compiled = std::move(timed[2]);
  row.speedup = lab::bootstrap_ratio(row.eager.ms, row.compiled.ms);
  const at::Tensor expected = eager(same);
  row.result = lab::compare({encode(text, compiled_)}, {expected});
  if (options_.full) {
    row.tuned = std::move(timed[3]);
    row.tuned_speedup = lab::bootstrap_ratio(row.eager.ms, row.tuned.ms);
    row.tuned_result = lab::compare({encode(text, tuned_)}, {expected});
  }
  options.min_time /= 2;
  row.alone = std::move(lab::measure({{"compiled alone", variants[2].run}}, options)[0]);
  row.eager_alone = std::move(lab::measure({{"eager alone", variants[0].run}}, options)[0]);
  row.alone_speedup = lab::bootstrap_ratio(row.eager_alone.ms, row.alone.ms);
  return row;
}

std::vector<ModelRow> DemoRun::measure_model(std::span<const Shape> shapes) {
  std::vector<ModelRow> out;
  for (const auto& [batch, length] : shapes) {
    progress_.begin("the model at " + shape_text(batch, length));
    out.push_back(measure_shape(batch, length));
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
