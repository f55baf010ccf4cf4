#include "cli/demo/demo_run.h"

#include <ATen/Parallel.h>

#include "cli/frame/context.h"

namespace graft::cli {
namespace {

using lab::Row;

Row row_of(const std::string& name, const std::string& variant, const lab::Samples& samples) {
  Row row;
  row.name = name;
  row.variant = variant;
  row.threads = at::get_num_threads();
  row.samples_ms = samples.ms;
  row.batch = samples.batch;
  row.warmup_calls = samples.warmup_calls;
  row.steady = samples.steady;
  return row;
}

void set_result(const lab::Comparison& result, Row& row) {
  row.bitwise = result.bitwise;
  row.max_abs_diff = result.max_abs_diff;
}

void add_model(const ModelRow& from, lab::Run& run) {
  const auto add = [&](const std::string& variant, const lab::Samples& samples) -> Row& {
    Row row = row_of("minilm", variant, samples);
    row.config = {{"batch", std::to_string(from.batch)}, {"length", std::to_string(from.length)}};
    row.work.samples = static_cast<double>(from.batch);
    row.work.tokens = static_cast<double>(from.batch * from.length);
    return run.rows.emplace_back(std::move(row));
  };
  add("eager", from.eager);
  add("eager_pool", from.pooled);
  set_result(from.result, add("graft", from.compiled));
  add("eager_alone", from.eager_alone).isolated = true;
  Row& alone = add("graft_alone", from.alone);
  set_result(from.result, alone);
  alone.isolated = true;
  if (!from.tuned.ms.empty()) set_result(from.tuned_result, add("graft_max_autotune", from.tuned));
}

void add_region(const RegionRow& from, lab::Run& run) {
  run.rows.push_back(row_of(from.name, "eager", from.eager));
  Row row = row_of(from.name, "graft", from.compiled);
  set_result(from.result, row);
  row.first_call_ms = from.first_call_ms;
  row.compile_ms = from.report.compile_ms;
  row.kernels = from.report.kernels;
  row.verdict = to_string(from.report.verdict);
  row.reason = from.report.reason;
  run.rows.push_back(std::move(row));
}

nlohmann::json nearest_of(const NearestRow& from) {
  nlohmann::json found = nlohmann::json::array();
  for (size_t i = 0; i < from.eager.size(); ++i)
    found.push_back({{"eager", from.eager[i].index},
                     {"eager_similarity", from.eager[i].similarity},
                     {"compiled", from.compiled[i].index},
                     {"compiled_similarity", from.compiled[i].similarity}});
  return {{"query", from.query}, {"found", found}};
}

}  // namespace

const char* attention_name(workloads::minilm::Attention attention) {
  return attention == workloads::minilm::Attention::Sdpa ? "sdpa" : "explicit";
}

lab::Run run_of(const DemoResults& results, const DemoOptions& options) {
  lab::Run run;
  run.context = run_context();
  run.context["command"] = "demo";
  run.context["cut"] =
      options.cut == workloads::minilm::Cut::Elementwise ? "elementwise" : "blocks";
  run.context["attention"] = attention_name(options.attention);
  for (const ModelRow& row : results.model) {
    add_model(row, run);
    run.context["eager_attention"].push_back(attention_name(row.baseline));
  }
  for (const RegionRow& row : results.regions) add_region(row, run);
  for (const NearestRow& row : results.nearest) run.context["nearest"].push_back(nearest_of(row));
  return run;
}

}  // namespace graft::cli
