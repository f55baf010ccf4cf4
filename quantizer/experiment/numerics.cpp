#include "quantizer/experiment/numerics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lab/accuracy/compare.h"
#include "quantizer/experiment/decoder.h"
#include "quantizer/experiment/measure.h"
#include "quantizer/experiment/pass.h"
#include "quantizer/model/process_block.h"

namespace graft::cli {
namespace {

using at::Tensor;
using nlohmann::json;
using quantizer::Hessian;
using quantizer::LayerResult;
using quantizer::quantize_block;
using quantizer::QuantizeBlock;

constexpr int kCompiledTries = 2;       // the first records and proves, the second finds plans
constexpr int64_t kOutputTokens = 256;  // calibration inputs on which outputs are compared

bool same_bits(const LayerResult& a, const LayerResult& b) {
  return lab::compare({a.codes, a.scale, a.zero, a.weight}, {b.codes, b.scale, b.zero, b.weight})
      .bitwise;
}

class LayerCheck {
 public:
  LayerCheck(const GptqScenario& scenario, const QuantizeBlock& compiled, lab::Progress& progress)
      : scenario_(scenario), compiled_(compiled), progress_(progress) {}

  /// For the scenario's run(): goes on with eager's weights.
  std::vector<Tensor> operator()(const GptqGroup& group) {
    Hessian hessian(group.inputs.size(-1));
    hessian.add(group.inputs);
    std::vector<Tensor> weights;
    for (const GptqLinear& linear : group.linears) {
      progress_.at(done_ / scenario_.work, linear.name);
      const auto quantise = [&](const QuantizeBlock& process) {
        return quantize_layer(linear.name, linear.weight, hessian, scenario_.settings, process);
      };
      const LayerResult eager = quantise(quantize_block);
      ++layers_;
      bool same = true;
      for (int i = 0; i < kCompiledTries && same; ++i) {
        const LayerResult compiled = quantise(compiled_);
        same = same_bits(eager, compiled);
        if (!same)
          differs(group, linear, eager, compiled, same_bits(eager, quantise(quantize_block)));
      }
      identical_ += same;
      weights.push_back(eager.weight);
      done_ += work_of(linear.weight.size(0), linear.weight.size(1));
    }
    return weights;
  }

  bool passed() const { return layers_ == identical_; }
  json result() const {
    return {{"layers", layers_},
            {"layers_identical", identical_},
            {"differing_codes", differing_codes_},
            {"max_weight_diff", max_weight_},
            {"max_output_diff", max_output_},
            {"mean_output_diff", identical_ == layers_ ? 0 : sum_output_ / (layers_ - identical_)},
            {"where", where_}};
  }

 private:
  void differs(const GptqGroup& group, const GptqLinear& linear, const LayerResult& eager,
               const LayerResult& compiled, bool eager_repeats) {
    const Tensor weight = (eager.weight - compiled.weight).abs();
    const Tensor codes = at::nonzero(eager.codes != compiled.codes);
    const Tensor x = group.inputs.slice(0, 0, kOutputTokens);
    const Tensor outputs = (x.matmul(eager.weight.t()) - x.matmul(compiled.weight.t())).abs();
    differing_codes_ += codes.size(0);
    max_weight_ = std::max(max_weight_, weight.max().item<double>());
    max_output_ = std::max(max_output_, outputs.max().item<double>());
    sum_output_ += outputs.mean().item<double>();
    json where = {{"layer", linear.name},
                  {"differing_codes", codes.size(0)},
                  {"eager_repeats", eager_repeats}};
    if (codes.size(0) > 0) {
      // Columns are quantised from left to right: the leftmost difference is the cause.
      const int64_t first = codes.select(1, 1).argmin().item<int64_t>();
      const auto row = codes[first][0].item<int64_t>(), column = codes[first][1].item<int64_t>();
      where["row"] = row, where["column"] = column;
      where["block"] = column / scenario_.settings.block;
    }
    where_.push_back(where);
  }

  const GptqScenario& scenario_;
  const QuantizeBlock& compiled_;
  lab::Progress& progress_;
  double done_ = 0;
  int64_t layers_ = 0, identical_ = 0, differing_codes_ = 0;
  double max_weight_ = 0, max_output_ = 0, sum_output_ = 0;
  json where_ = json::array();
};

/// What Graft's work costs, plan by plan: its report knows of the newest plan alone. Of a function
/// that is compiled in the call that records it.
class PlanCosts {
 public:
  void after_call(const Report& report) {
    if (report.records == plans_) return;
    plans_ = report.records;
    plan_ms_ += report.record_ms;
    compile_ms_ += report.compile_ms;
  }
  json result(const Report& report) const {
    return {{"plans", plans_},
            {"kernels_compiled", report.kernels_compiled},
            {"plan_ms", plan_ms_},
            {"compile_ms", compile_ms_}};
  }

 private:
  int64_t plans_ = 0;
  double plan_ms_ = 0, compile_ms_ = 0;
};

bool agree(const json& tokens) {
  return tokens.at("matches") == tokens.at("positions");
}

}  // namespace

json check_gptq_numerics(const GptqChoice& choice, const GptqScenario& scenario,
                         lab::Progress& progress) {
  graft::Options options = gptq_compile_options();
  options.async = false;
  options.race = false;
  const auto compiled = graft::compile(quantize_block, options);
  PlanCosts costs;
  const QuantizeBlock process = [&](const auto&... arguments) {
    auto out = compiled(arguments...);
    costs.after_call(compiled.report());
    return out;
  };
  progress.begin("both ways, layer by layer");
  LayerCheck check(scenario, process, progress);
  scenario.run([&](const GptqGroup& group) { return check(group); });
  json out = {{"scenario", scenario.name}, {"about", scenario.about}};
  out.update(check.result());
  bool passed = check.passed();
  if (scenario.run_decoder) {
    GptqPass eager_pass, compiled_pass;
    progress.begin("a whole model, eager");
    const auto eager =
        scenario.run_decoder(gptq_quantiser(scenario, quantize_block, progress, eager_pass));
    progress.begin("a whole model, compiled");
    const auto fast =
        scenario.run_decoder(gptq_quantiser(scenario, process, progress, compiled_pass));
    const json models = compare_decoders(choice, eager, fast);
    passed = passed && agree(models.at("logits")) && agree(models.at("greedy")) &&
             models.at("logits").at("max_logit_diff") == 0;
    out["models"] = models;
  }
  const Report report = compiled.report();
  out["counters"] = gptq_counters(report);
  out["code_generation"] = costs.result(report);
  out["passed"] = passed && report.plan_hits > 0;
  if (report.plan_hits == 0)
    out["where"].push_back(
        {{"layer", "all"}, {"reason", "no call ran compiled code: " + report.reason}});
  return out;
}

}  // namespace graft::cli
