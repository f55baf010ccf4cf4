#include "quantizer/experiment/measure.h"

#include <graft/graft.h>

#include <utility>
#include <vector>

#include "lab/memory/memory.h"
#include "lab/memory/storage.h"
#include "quantizer/experiment/pass.h"
#include "quantizer/model/process_block.h"

namespace graft::cli {
namespace {

using at::Tensor;
using nlohmann::json;
using quantizer::LayerResult;
using quantizer::quantize_block;
using quantizer::QuantizeBlock;

constexpr int kSettlingPasses = 3;

std::vector<std::pair<std::string, Tensor>> tensors_of(const GptqLinear& linear,
                                                       const LayerResult& result) {
  return {{linear.name + " codes", result.codes},
          {linear.name + " scale", result.scale},
          {linear.name + " zero", result.zero},
          {linear.name + " weight", result.weight}};
}

/// Sums the storage proofs of layers whose tensors are not kept.
struct StorageSums {
  int64_t tensors = 0, views = 0, logical = 0, stored = 0;
  json inflated = json::array();  ///< names of those with more than 10 % too much

  void add(const lab::StorageProof& proof) {
    logical += proof.logical, stored += proof.stored;
    for (const lab::StoredTensor& tensor : proof.tensors) {
      ++tensors, views += tensor.view;
      if (tensor.notable) inflated.push_back(tensor.name);
    }
  }
  json to_json() const {
    return {{"tensors", tensors},
            {"views", views},
            {"logical_bytes", logical},
            {"stored_bytes", stored},
            {"inflated", inflated}};
  }
};

/// A pass under the memory tracker, which makes its times worthless: what memory it took and what
/// its results' storages hold.
void add_memory_pass(const GptqScenario& scenario, const std::string& label,
                     const QuantizeBlock& process, lab::Progress& progress, json& out) {
  pool_trim();
  StorageSums storage;
  lab::MemoryTracker tracker({.cached = [] { return pool_stats().cached_bytes; }});
  run_gptq_pass(scenario, label, process, progress,
                [&](const GptqLinear& linear, const LayerResult& result) {
                  storage.add(lab::storage_proof(tensors_of(linear, result)));
                });
  tracker.stop();
  out["memory"] = to_json(tracker.report());
  out["storage"] = storage.to_json();
}

json head_of(const GptqScenario& scenario) {
  const quantizer::Settings& s = scenario.settings;
  return {{"scenario", scenario.name},
          {"about", scenario.about},
          {"layers", scenario.layers},
          {"linears", scenario.linears},
          {"settings",
           {{"bits", s.bits},
            {"group", s.group},
            {"symmetric", s.symmetric},
            {"block", s.block},
            {"dampening", s.dampening},
            {"act_order", s.act_order}}}};
}

std::vector<GptqPass> timed_passes(const GptqScenario& scenario, const std::string& label, int runs,
                                   const QuantizeBlock& process, lab::Progress& progress) {
  std::vector<GptqPass> out;
  for (int i = 1; i <= runs; ++i)
    out.push_back(run_gptq_pass(scenario, label + ' ' + std::to_string(i), process, progress));
  return out;
}

void add_passes(const std::vector<GptqPass>& passes, json& out) {
  out["statistics"] = gptq_statistics(passes);
  for (const GptqPass& pass : passes) out["passes"].push_back(to_json(pass));
}

}  // namespace

graft::Options gptq_compile_options() {
  graft::Options out;
  out.cache = false;  // what compiling costs is measured
  out.name = "quantize_block";
  return out;
}

json gptq_counters(const Report& report) {
  return {{"verdict", to_string(report.verdict)},
          {"reason", report.reason},
          {"calls", report.calls},
          {"records", report.records},
          {"graphs", report.plans},
          {"plan_hits", report.plan_hits},
          {"breaks", report.breaks},
          {"kernels", report.kernels},
          {"kernels_compiled", report.kernels_compiled},
          {"newest_plan_record_ms", report.record_ms},
          {"newest_plan_compile_ms", report.compile_ms}};
}

json measure_gptq_baseline(const GptqScenario& scenario, int runs, lab::Progress& progress) {
  json out = head_of(scenario);
  run_gptq_pass(scenario, "eager, warm-up", quantize_block, progress);
  add_passes(timed_passes(scenario, "eager, run", runs, quantize_block, progress), out);
  add_memory_pass(scenario, "eager, memory", quantize_block, progress, out);
  return out;
}

json measure_gptq_compiled(const GptqScenario& scenario, int runs, lab::Progress& progress) {
  json out = head_of(scenario);
  run_gptq_pass(scenario, "eager, warm-up", quantize_block, progress);
  const auto compiled = graft::compile(quantize_block, gptq_compile_options());
  const GptqPass cold = run_gptq_pass(scenario, "compiled, cold", compiled, progress);
  out["cold"] = to_json(cold);
  out["cold"]["counters"] = gptq_counters(compiled.report());
  out["settling"] = json::array();
  const auto unsettled = [&] {
    compiled.wait();
    const Verdict verdict = compiled.report().verdict;
    return verdict == Verdict::Compiling || verdict == Verdict::Proving;
  };
  progress.begin("compiled, settling");
  const QuantizeBlock process = compiled;
  for (int i = 0; i < kSettlingPasses && unsettled(); ++i) {
    GptqPass pass;
    scenario.run(gptq_quantiser(scenario, process, progress, pass));
    out["settling"].push_back(to_json(pass));
  }
  const std::vector<GptqPass> warm =
      timed_passes(scenario, "compiled, warm run", runs, compiled, progress);
  add_passes(warm, out);
  const double mean = out["statistics"]["total_ms"]["mean"];
  out["compile_overhead_ms"] = cold.total_ms() - mean;
  out["counters"] = gptq_counters(compiled.report());
  add_memory_pass(scenario, "compiled, memory", compiled, progress, out);
  return out;
}

}  // namespace graft::cli
