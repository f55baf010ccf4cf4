#include "quantizer/experiment/pass.h"

#include <algorithm>
#include <utility>

#include "lab/stats.h"
#include "lab/timer.h"

namespace graft::cli {
namespace {

using nlohmann::json;
using quantizer::Hessian;
using quantizer::LayerResult;
using quantizer::LayerTimes;

double outside(const LayerTimes& times) {
  return times.total - times.factor - times.update;
}

json summary(const std::vector<double>& ms) {
  const lab::Summary s = lab::summarise(ms);
  return {{"runs", s.count}, {"mean", s.mean}, {"stddev", s.stddev}, {"cv", s.cv},  {"min", s.min},
          {"max", s.max},    {"p50", s.p50},   {"p90", s.p90},       {"p99", s.p99}};
}

/// Means over all layers of a kind, in all passes; the spread is that of the passes' means.
json kind_row(std::span<const GptqPass> passes, const std::string& kind) {
  LayerTimes sum;
  double count = 0, hessian = 0, hessians = 0;
  const GptqLayerTime* one = nullptr;
  std::vector<double> totals;
  for (const GptqPass& pass : passes) {
    double total = 0, layers = 0;
    for (const GptqLayerTime& layer : pass.layers) {
      if (layer.kind != kind) continue;
      one = &layer, ++count;
      sum.total += layer.times.total, sum.factor += layer.times.factor;
      sum.process += layer.times.process, sum.update += layer.times.update;
      hessian += layer.hessian_ms, hessians += layer.hessian_ms > 0;
      total += layer.times.total, ++layers;
    }
    totals.push_back(total / layers);
  }
  const auto share = [&](double ms) { return sum.total > 0 ? ms / sum.total : 0; };
  return {{"kind", kind},
          {"layers", count / static_cast<double>(passes.size())},
          {"rows", one->rows},
          {"columns", one->columns},
          {"total_ms", summary(totals)},
          {"process_ms", sum.process / count},
          {"factor_ms", sum.factor / count},
          {"update_ms", sum.update / count},
          {"outside_blas_ms", outside(sum) / count},
          {"hessian_ms", hessians > 0 ? hessian / hessians : 0},
          {"share",
           {{"process", share(sum.process)},
            {"factor", share(sum.factor)},
            {"update", share(sum.update)},
            {"other", share(outside(sum) - sum.process)}}}};
}

}  // namespace

double GptqPass::total_ms() const {
  double sum = 0;
  for (const GptqLayerTime& layer : layers) sum += layer.times.total;
  return sum;
}

double GptqPass::hessian_ms() const {
  double sum = 0;
  for (const GptqLayerTime& layer : layers) sum += layer.hessian_ms;
  return sum;
}

double GptqPass::outside_ms() const {
  double sum = 0;
  for (const GptqLayerTime& layer : layers) sum += outside(layer.times);
  return sum;
}

json to_json(const GptqPass& pass) {
  json layers = json::array();
  for (const GptqLayerTime& l : pass.layers)
    layers.push_back({{"name", l.name},
                      {"kind", l.kind},
                      {"rows", l.rows},
                      {"columns", l.columns},
                      {"total_ms", l.times.total},
                      {"process_ms", l.times.process},
                      {"factor_ms", l.times.factor},
                      {"update_ms", l.times.update},
                      {"hessian_ms", l.hessian_ms},
                      {"loss", l.loss}});
  return {{"total_ms", pass.total_ms()},
          {"hessian_ms", pass.hessian_ms()},
          {"outside_blas_ms", pass.outside_ms()},
          {"layers", layers}};
}

json gptq_statistics(std::span<const GptqPass> passes) {
  std::vector<double> totals, hessians, outsides;
  std::vector<std::string> kinds;
  for (const GptqPass& pass : passes) {
    totals.push_back(pass.total_ms());
    hessians.push_back(pass.hessian_ms());
    outsides.push_back(pass.outside_ms());
    for (const GptqLayerTime& layer : pass.layers)
      if (std::find(kinds.begin(), kinds.end(), layer.kind) == kinds.end())
        kinds.push_back(layer.kind);
  }
  json rows = json::array();
  for (const std::string& kind : kinds) rows.push_back(kind_row(passes, kind));
  return {{"total_ms", summary(totals)},
          {"hessian_ms", summary(hessians)},
          {"outside_blas_ms", summary(outsides)},
          {"kinds", rows}};
}

QuantiseGroup gptq_quantiser(const GptqScenario& scenario, const quantizer::QuantizeBlock& process,
                             lab::Progress& progress, GptqPass& pass, OnGptqResult on_result) {
  return [&, on_result = std::move(on_result), done = 0.0](const GptqGroup& group) mutable {
    Hessian hessian(group.inputs.size(-1));
    double hessian_ms = lab::time_once_ms([&] { hessian.add(group.inputs); });
    std::vector<at::Tensor> weights;
    for (const GptqLinear& linear : group.linears) {
      progress.at(done / scenario.work, linear.name);
      const LayerResult result =
          quantize_layer(linear.name, linear.weight, hessian, scenario.settings, process);
      pass.layers.push_back({linear.name, linear.kind, linear.weight.size(0), linear.weight.size(1),
                             result.times, std::exchange(hessian_ms, 0), result.loss});
      if (on_result) on_result(linear, result);
      weights.push_back(result.weight);
      done += work_of(linear.weight.size(0), linear.weight.size(1));
    }
    return weights;
  };
}

GptqPass run_gptq_pass(const GptqScenario& scenario, const std::string& label,
                       const quantizer::QuantizeBlock& process, lab::Progress& progress,
                       OnGptqResult on_result) {
  progress.begin(label);
  GptqPass pass;
  scenario.run(gptq_quantiser(scenario, process, progress, pass, std::move(on_result)));
  return pass;
}

}  // namespace graft::cli
