// What a run did, in numbers and as JSON.
#include "quantizer/model/quantize_model.h"

namespace graft::quantizer {

double QuantizeReport::loss() const {
  double out = 0;
  for (const LayerReport& layer : layers) out += layer.loss();
  return out;
}

nlohmann::json to_json(const QuantizeReport& report) {
  nlohmann::json layers = nlohmann::json::array();
  for (const LayerReport& layer : report.layers) layers.push_back(to_json(layer));
  nlohmann::json out = {{"architecture", report.architecture},
                        {"layers", layers},
                        {"loss", report.loss()},
                        {"source_bytes", report.source_bytes},
                        {"bytes", report.bytes},
                        {"linears_source_bytes", report.linears_source_bytes},
                        {"linears_bytes", report.linears_bytes},
                        {"samples", report.samples},
                        {"tokens", report.tokens},
                        {"calibration", report.calibration},
                        {"warnings", report.warnings},
                        {"cosine",
                         {{"vectors", report.similarity.vectors},
                          {"mean", report.similarity.mean},
                          {"least", report.similarity.least}}},
                        {"memory_need_bytes", report.memory.total()},
                        {"seconds", report.seconds}};
  if (report.compiled) {
    const Report& compiled = *report.compiled;
    out["compiled"] = {{"verdict", to_string(compiled.verdict)},
                       {"reason", compiled.reason},
                       {"calls", compiled.calls},
                       {"records", compiled.records},
                       {"plan_hits", compiled.plan_hits},
                       {"breaks", compiled.breaks},
                       {"kernels_compiled", compiled.kernels_compiled},
                       {"newest_plan_compile_ms", compiled.compile_ms}};
  }
  return out;
}

}  // namespace graft::quantizer
