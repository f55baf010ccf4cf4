#include "cli/inspect/profile_subject.h"

#include <graft/pool.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cli/frame/usage.h"
#include "lab/profile/profile.h"
#include "workloads/minilm/model.h"
#include "workloads/minilm/samples.h"
#include "workloads/minilm/sentences.h"
#include "workloads/minilm/tokenizer.h"

namespace graft::cli {
namespace {

using namespace workloads::minilm;

constexpr Cut kCut = Cut::Blocks;
constexpr Attention kAttention = Attention::Sdpa;

Subject workload_subject(const SubjectOptions& options, lab::Progress* progress) {
  std::vector<std::string> names = workload_names();
  names.emplace_back(kMiniLm);
  const workloads::Workload* workload = workloads::find_workload(options.name);
  if (workload == nullptr) {
    throw UsageError("there is no workload '" + options.name + "'; " +
                     did_you_mean(options.name, names) + " 'graft list' shows all; '" + kMiniLm +
                     "' is the demo's model.");
  }
  if (progress != nullptr) progress->begin("compiling " + workload->name);
  const workloads::Options inputs{
      .seed = options.seed, .small = options.small, .config = axis_values(options.axes)};
  const workloads::Instance instance = workload->make(inputs);
  Options compile = options.compile;
  compile.name = workload->name;
  const workloads::CompiledCall compiled = instance.compile(compile);
  settle(compiled);
  Subject out;
  out.title = workload->name;
  for (const auto& [axis, value] : inputs.config) out.title += ' ' + axis + '=' + value;
  out.eager = [name = workload->name, run = instance.eager.run] {
    const lab::ProfileRange range(name);
    run();
  };
  out.compiled = [name = lab::kCompiledPrefix + workload->name, run = compiled.run] {
    const lab::ProfileRange range(name);
    run();
  };
  out.regions.push_back({workload->name, 1, instance, compiled});
  return out;
}

/// Calls of `function` are ranges, named as region_samples() names them: with the width of the
/// first argument where the region has several forms.
template <class R, class... A>
void name_range(std::function<R(A...)>& function, const std::string& prefix,
                const std::string& name,
                const std::shared_ptr<const std::set<std::string>>& known) {
  function = [inner = std::move(function), prefix, name, known](A... args) -> R {
    const auto width = std::get<0>(std::tie(args...)).size(-1);
    const bool one_form = known->contains(name);
    const lab::ProfileRange range(prefix + (one_form ? name : name + ' ' + std::to_string(width)));
    return inner(std::forward<A>(args)...);
  };
}

Regions with_ranges(Regions regions, const std::string& prefix,
                    const std::shared_ptr<const std::set<std::string>>& known) {
  name_range(regions.embed_norm, prefix, "embed_norm", known);
  name_range(regions.linear_qkv, prefix, "linear_qkv", known);
  name_range(regions.linear_gelu, prefix, "linear_gelu", known);
  name_range(regions.linear_residual_norm, prefix, "linear_residual_norm", known);
  name_range(regions.pool_normalize, prefix, "pool_normalize", known);
  return regions;
}

/// Texts without padding, as the demo's: each row starts at another sentence and goes on until it
/// is full.
Tokenizer::Batch text_batch(const Tokenizer& tokenizer, int64_t batch, int64_t length) {
  std::vector<std::string> texts;
  for (int64_t row = 0; row < batch; ++row) {
    std::string text;
    for (auto i = static_cast<size_t>(row); text.size() < static_cast<size_t>(8 * length); ++i)
      text += std::string(kSentences[i % std::size(kSentences)]) + ' ';
    texts.push_back(std::move(text));
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return tokenizer.batch(views, static_cast<size_t>(length));
}

struct LoadedModel {
  explicit LoadedModel(const std::filesystem::path& folder)
      : model(folder), tokenizer(folder / "vocab.txt") {}
  MiniLM model;
  Tokenizer tokenizer;
  Tokenizer::Batch text;
  Regions eager, compiled;
};

Subject model_subject(const SubjectOptions& options, lab::Progress* progress) {
  if (!options.axes.empty())
    throw UsageError("--axis: came '" + options.axes.front() +
                     "', but the model has --batch and --length instead.");
  const auto folder = options.model.empty() ? default_folder() : options.model;
  if (!std::filesystem::exists(folder / "config.json")) {
    throw UsageError("no MiniLM model in " + folder.string() +
                     "; tools/setup.sh fetches it, --model or GRAFT_MINILM_DIR names another "
                     "folder");
  }
  const int64_t batch = options.small ? 1 : options.batch;
  const int64_t length = options.small ? 16 : options.length;
  const auto loaded = std::make_shared<LoadedModel>(folder);
  loaded->text = text_batch(loaded->tokenizer, batch, length);
  const auto encode = [loaded](const Regions& regions) {
    loaded->model.encode(loaded->text.ids, loaded->text.mask, regions);
  };

  Subject out;
  out.title = "MiniLM, batch " + std::to_string(batch) + " x " + std::to_string(length) + " tokens";
  if (progress != nullptr) progress->begin("compiling the model's regions");
  auto samples =
      region_samples(loaded->model, loaded->text.ids, loaded->text.mask, kCut, kAttention);
  std::set<std::string> names;
  for (RegionSample& sample : samples) {
    if (progress != nullptr)
      progress->at(static_cast<double>(names.size()) / static_cast<double>(samples.size()),
                   sample.name);
    Options compile = options.compile;
    compile.name = sample.name;
    workloads::CompiledCall compiled = sample.instance.compile(compile);
    compiled.run = [run = compiled.run] {  // as the compiled model below
      const PoolGuard pool;
      run();
    };
    settle(compiled);
    names.insert(sample.name);
    out.regions.push_back({sample.name, static_cast<double>(sample.calls_per_encode),
                           std::move(sample.instance), compiled});
  }

  const auto known = std::make_shared<const std::set<std::string>>(std::move(names));
  loaded->eager = with_ranges(Regions::eager(kAttention), "", known);
  loaded->compiled = with_ranges(Regions::compiled(options.compile, kCut, kAttention),
                                 lab::kCompiledPrefix, known);
  out.eager = [loaded, encode] { encode(loaded->eager); };
  out.compiled = [loaded, encode] {
    const PoolGuard pool;
    encode(loaded->compiled);
  };
  if (progress != nullptr) progress->begin("compiling the model");
  for (const auto& handle : loaded->compiled.compiled_functions) {
    workloads::CompiledCall call;
    call.run = out.compiled;
    call.report = handle.report;
    call.wait = handle.wait;
    settle(call);
  }
  return out;
}

}  // namespace

Subject make_subject(const SubjectOptions& options, lab::Progress* progress) {
  return options.name == kMiniLm ? model_subject(options, progress)
                                 : workload_subject(options, progress);
}

size_t subject_steps(const SubjectOptions& options) {
  return options.name == kMiniLm ? 2 : 1;
}

}  // namespace graft::cli
