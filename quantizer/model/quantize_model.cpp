// The loop over layers: observe, quantise, write, and pass the activations on.
#include "quantizer/model/quantize_model.h"
#include "lab/memory/available.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "quantizer/model/architecture.h"
#include "quantizer/model/checkpoint.h"
#include "quantizer/model/checksum.h"
#include "quantizer/model/out_folder.h"
#include "quantizer/model/output.h"
#include "quantizer/model/pack.h"
#include "quantizer/model/shards.h"
#include "quantizer/model/start.h"
#include "quantizer/model/targets.h"

namespace graft::quantizer {
namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::unique_ptr<graft::Compiled<decltype(&quantize_block)>> compiled_block() {
  graft::Options options;
  options.name = "gptq_quantize_block";
  return std::make_unique<graft::Compiled<decltype(&quantize_block)>>(&quantize_block, options);
}

class Quantizer {
 public:
  explicit Quantizer(const QuantizeOptions& options)
      : options_(options),
        source_(options.model),
        model_(read_architecture(source_)),
        targets_(*model_, options.targets),
        shards_(source_, targets_, model_->layers),
        calibration_(read_calibration(options.calibration, *model_, options.model,
                                      [this](const CalibrationSize& size) { reckon(size); })) {
    for (int64_t layer = 0; layer < model_->layers; ++layer) {
      for (const LinearSpec& linear : model_->linears(layer)) {
        if (!targets_.contains(linear.module)) continue;
        check_settings(linear.module, options.settings, linear.columns);
      }
    }
    process_ = &quantize_block;
    if (options.compiled) {
      compiled_ = compiled_block();
      process_ = [this](const auto&... arguments) { return (*compiled_)(arguments...); };
    }
  }

  ~Quantizer() {
    if (compiled_) compiled_->wait();  // nothing is compiled any more when the process ends
  }
  Quantizer(const Quantizer&) = delete;
  Quantizer& operator=(const Quantizer&) = delete;

  QuantizeReport run() {
    const Clock::time_point start = Clock::now();
    Workspace workspace(options_.out, run_identity(options_, source_, targets_, calibration_));
    warn();
    if (!workspace.has_layer(0)) check_weights();
    embed();
    for (int64_t layer = 0; layer < model_->layers; ++layer) run_layer(layer, workspace);
    finish(workspace);
    report_.seconds = seconds_since(start);
    return std::move(report_);
  }

 private:
  // Before anything large is made.
  void reckon(const CalibrationSize& size) {
    report_.memory = memory_need(*model_, size, options_.settings);
    check_memory(report_.memory, options_.available_memory >= 0 ? options_.available_memory
                                                                : lab::available_memory());
  }

  void progress(int64_t layer, double done, const std::string& what) const {
    if (options_.progress) options_.progress(layer, done, what);
  }

  // Before the work, which may take hours.
  void warn() {
    report_.warnings = run_warnings(options_.settings, *model_, targets_, calibration_);
    for (const std::string& warning : report_.warnings) {
      if (options_.warning) options_.warning(warning);
    }
  }

  void check_weights() const {
    source_.check_finite([&](double done) { progress(0, done, "checking weights"); });
  }

  void embed() {
    int64_t tokens = 0;
    for (const Tensor& ids : calibration_.batches) {
      hidden_.push_back(model_->embed(source_, ids));
      // The original model runs beside the quantised one on the first of the samples.
      if (tokens < kReferenceTokens) reference_.push_back(hidden_.back());
      tokens += ids.numel();
    }
  }

  void run_layer(int64_t layer, Workspace& workspace) {
    const Clock::time_point start = Clock::now();
    const formats::Safetensors tensors = source_.read(source_.names(model_->prefix(layer)));
    const std::unique_ptr<Layer> weights = model_->read_layer(tensors, layer);
    for (Tensor& hidden : reference_) hidden = weights->forward(hidden, {});
    const std::string shard = shards_.name(layer);
    LayerReport report;
    if (workspace.has_layer(layer)) {
      report = workspace.report(layer);
      restore(layer, workspace.finished(workspace.shard(layer)), *weights);
    } else {
      report.layer = layer;
      const NamedTensors packed = quantize(layer, *weights, report);
      shards_.write_layer(workspace.working(shard), tensors, packed);
      report.seconds = seconds_since(start);
      workspace.finish_layer(report, shard);
    }
    for (size_t i = 0; i < hidden_.size(); ++i) {
      progress(layer, 0.9 + 0.1 * static_cast<double>(i) / static_cast<double>(hidden_.size()),
               "passing on");
      hidden_[i] = weights->forward(hidden_[i], {});
      if (!all_finite(hidden_[i])) {
        throw GptqError("the activations after " + model_->prefix(layer) +
                        "* hold NaN or Inf; does the original model run on this calibration data "
                        "in fp32?");
      }
    }
    shards_.note_layer(layer, workspace.finished(shard));
    if (options_.layer_done) options_.layer_done(report, model_->layers);
    report_.layers.push_back(std::move(report));
  }

  // Quantises the layer's linear layers in their places, and returns what to write.
  NamedTensors quantize(int64_t layer, Layer& weights, LayerReport& report) {
    std::map<std::string, Hessian, std::less<>> hessians = observe(layer, weights);
    NamedTensors out;
    const std::vector<LinearSpec> linears = model_->linears(layer);
    for (size_t i = 0; i < linears.size(); ++i) {
      const LinearSpec& linear = linears[i];
      if (!targets_.contains(linear.module)) continue;
      progress(layer, 0.2 + 0.7 * static_cast<double>(i) / static_cast<double>(linears.size()),
               linear.key);
      const LayerResult result =
          quantize_layer(linear.module, weights.weight(linear.key), hessians.at(linear.inputs),
                         options_.settings, process_);
      const PackedLinear packed =
          pack_linear(result, options_.settings.bits, options_.settings.symmetric);
      Tensor weight = dequantize(packed, options_.settings.bits, linear.module);
      if (!at::equal(weight, result.weight)) {
        throw GptqError(
            linear.module +
            ": the packed weight is not the quantised one; this is an error of Graft's");
      }
      report.linears.push_back({linear.module, linear.rows, linear.columns, result.loss,
                                result.dead_columns, result.dampening, result.times,
                                crc_text(crc32(weight))});
      weights.weight(linear.key) = std::move(weight);
      // It keeps its factor, another matrix of its size, for layers of the same inputs.
      if (std::none_of(linears.begin() + static_cast<std::ptrdiff_t>(i) + 1, linears.end(),
                       [&](const LinearSpec& other) { return other.inputs == linear.inputs; }))
        hessians.erase(linear.inputs);
      for (auto& [name, tensor] : tensors_of(packed, linear.module)) out.emplace_back(name, tensor);
    }
    return out;
  }

  // The second moments of the targeted linear layers' inputs, by `LinearSpec::inputs`.
  std::map<std::string, Hessian, std::less<>> observe(int64_t layer, const Layer& weights) const {
    std::map<std::string, Hessian, std::less<>> out;
    for (const LinearSpec& linear : model_->linears(layer)) {
      if (targets_.contains(linear.module)) out.try_emplace(linear.inputs, linear.columns);
    }
    const Observer observer = [&](std::string_view key, const Tensor& inputs) {
      if (const auto found = out.find(key); found != out.end()) found->second.add(inputs);
    };
    for (size_t i = 0; i < hidden_.size() && !out.empty(); ++i) {
      progress(layer, 0.2 * static_cast<double>(i) / static_cast<double>(hidden_.size()),
               "observing");
      weights.forward(hidden_[i], observer);
    }
    return out;
  }

  void restore(int64_t layer, const std::filesystem::path& shard, Layer& weights) const {
    progress(layer, 0.1, "taking up what was done");
    const formats::Safetensors file = formats::read_safetensors(shard);
    for (const LinearSpec& linear : model_->linears(layer)) {
      if (targets_.contains(linear.module)) {
        weights.weight(linear.key) =
            dequantize(read_packed(file, linear.module), options_.settings.bits, linear.module);
      }
    }
  }

  void finish(Workspace& workspace) {
    progress(model_->layers, 0, "the rest of the model");
    report_.similarity = similarity();
    shards_.write_rest(workspace.working(shards_.name(model_->layers)));
    copy_companions(options_.model, workspace.files());
    write_index(workspace.files(), shards_.places(), shards_.bytes().written);
    write_config(options_.model, workspace.files(),
                 quantization_config(options_.settings, targets_.ignored(), shards_.scattered()));
    workspace.publish(shards_.names());
    workspace.remove();
    report_.architecture = model_->type;
    report_.samples = calibration_.samples;
    report_.tokens = calibration_.tokens;
    report_.calibration = calibration_.source;
    report_.source_bytes = shards_.bytes().source;
    report_.bytes = shards_.bytes().written;
    report_.linears_source_bytes = shards_.bytes().linears_source;
    report_.linears_bytes = shards_.bytes().linears_written;
    if (compiled_) {
      compiled_->wait();
      report_.compiled = compiled_->report();
    }
  }

  Similarity similarity() const {
    Similarity out;
    out.least = 1;
    double sum = 0;
    for (size_t i = 0; i < reference_.size(); ++i) {
      const Tensor cosine = at::cosine_similarity(model_->vectors(hidden_[i]).to(at::kDouble),
                                                  model_->vectors(reference_[i]).to(at::kDouble));
      out.vectors += cosine.numel();
      sum += cosine.sum().item<double>();
      out.least = std::min(out.least, cosine.min().item<double>());
    }
    out.mean = sum / static_cast<double>(std::max<int64_t>(out.vectors, 1));
    return out;
  }

  static constexpr int64_t kReferenceTokens = 4096;

  const QuantizeOptions& options_;
  const Checkpoint source_;
  const std::unique_ptr<Architecture> model_;
  const Targets targets_;
  Shards shards_;
  QuantizeReport report_;
  const Calibration calibration_;
  std::unique_ptr<graft::Compiled<decltype(&quantize_block)>> compiled_;
  QuantizeBlock process_;
  std::vector<Tensor> hidden_;     // of each batch, after the quantised layers so far
  std::vector<Tensor> reference_;  // of the first batches, after the original layers so far
};

}  // namespace

QuantizeReport quantize_model(const QuantizeOptions& options) {
  check_out_folder(options.out, options.model);
  const c10::InferenceMode inference;
  return Quantizer(options).run();
}

}  // namespace graft::quantizer
