#include "lab/run.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "lab/stats.h"

namespace graft::lab {
namespace {

using nlohmann::json;

constexpr Status kStatuses[] = {Status::Ok, Status::Failed, Status::Crashed, Status::Timeout,
                                Status::Skipped};

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

template <class T>
void read(const json& row, const char* name, std::optional<T>& out) {
  if (auto found = row.find(name); found != row.end() && !found->is_null()) out = found->get<T>();
}

template <class T>
void read(const json& row, const char* name, T& out) {
  if (auto found = row.find(name); found != row.end() && !found->is_null()) out = found->get<T>();
}

json to_json(const Summary& s) {
  return {{"count", s.count},
          {"median", s.median},
          {"mean", s.mean},
          {"stddev", s.stddev},
          {"cv", s.cv},
          {"min", s.min},
          {"max", s.max},
          {"p50", s.p50},
          {"p90", s.p90},
          {"p99", s.p99},
          {"ci95", {s.ci.lo, s.ci.hi}},
          {"outliers", s.outliers}};
}

json ratio_json(const Row& reference, const Row& row) {
  const Judgement j = judge(reference, row);
  return {{"to", reference.variant},          {"ratio", j.ratio.ratio},
          {"ci95", {j.ratio.lo, j.ratio.hi}}, {"p", j.p},
          {"verdict", to_string(j.verdict)},  {"class", gain_class(j.ratio.ratio)}};
}

json to_json(const Row& row, const Row* reference, bool with_statistics) {
  json out{{"name", row.name},
           {"variant", row.variant},
           {"config", row.config},
           {"threads", row.threads},
           {"status", to_string(row.status)},
           {"median_ms", nullptr},
           {"samples_ms", row.samples_ms},
           {"batch", row.batch},
           {"warmup_calls", row.warmup_calls},
           {"steady", row.steady},
           {"isolated", row.isolated},
           {"first_call_ms", or_null(row.first_call_ms)},
           {"warmup_ms", or_null(row.warmup_ms)},
           {"compile_ms", or_null(row.compile_ms)},
           {"kernels", or_null(row.kernels)},
           {"bitwise", or_null(row.bitwise)},
           {"max_abs_diff", or_null(row.max_abs_diff)},
           {"fp64_error", or_null(row.fp64_error)}};
  if (!row.error.empty()) out["error"] = row.error;
  if (!row.verdict.empty()) out["verdict"] = row.verdict;
  if (!row.reason.empty()) out["reason"] = row.reason;
  if (row.memory.peak_allocated >= 0)
    out["memory"] = {{"peak_allocated_bytes", row.memory.peak_allocated},
                     {"peak_reserved_bytes", row.memory.peak_reserved},
                     {"peak_resident_bytes", row.memory.peak_resident}};
  const Work& w = row.work;
  if (w.flops + w.bytes + w.functions + w.samples + w.tokens > 0)
    out["work"] = {{"flops", w.flops},
                   {"bytes", w.bytes},
                   {"functions", w.functions},
                   {"samples", w.samples},
                   {"tokens", w.tokens}};
  if (row.samples_ms.empty()) return out;
  out["median_ms"] = median(row.samples_ms);
  if (!with_statistics) return out;
  const Summary s = summarise(row.samples_ms);
  out["stats"] = to_json(s);
  if (reference != nullptr && reference != &row && !reference->samples_ms.empty())
    out["ratio"] = ratio_json(*reference, row);
  if (row.isolated && row.first_call_ms) out["cold_overhead_ms"] = *row.first_call_ms - s.mean;
  // Computed from shapes and the measured time, not measured themselves.
  for (const auto& [name, amount] : {std::pair("flops_per_s", w.flops),
                                     {"bytes_per_s", w.bytes},
                                     {"functions_per_s", w.functions},
                                     {"samples_per_s", w.samples},
                                     {"tokens_per_s", w.tokens}})
    if (amount > 0) out["computed"][name] = amount / (s.median * 1e-3);
  return out;
}

Row row_from_json(const json& from) {
  Row row;
  row.name = from.at("name").get<std::string>();
  row.variant = from.at("variant").get<std::string>();
  row.samples_ms = from.at("samples_ms").get<std::vector<double>>();
  read(from, "config", row.config);
  read(from, "threads", row.threads);
  read(from, "error", row.error);
  read(from, "batch", row.batch);
  read(from, "warmup_calls", row.warmup_calls);
  read(from, "steady", row.steady);
  read(from, "isolated", row.isolated);
  read(from, "first_call_ms", row.first_call_ms);
  read(from, "warmup_ms", row.warmup_ms);
  read(from, "compile_ms", row.compile_ms);
  read(from, "kernels", row.kernels);
  read(from, "bitwise", row.bitwise);
  read(from, "max_abs_diff", row.max_abs_diff);
  read(from, "fp64_error", row.fp64_error);
  read(from, "verdict", row.verdict);
  read(from, "reason", row.reason);
  if (auto m = from.find("memory"); m != from.end()) {
    read(*m, "peak_allocated_bytes", row.memory.peak_allocated);
    read(*m, "peak_reserved_bytes", row.memory.peak_reserved);
    read(*m, "peak_resident_bytes", row.memory.peak_resident);
  }
  if (auto w = from.find("work"); w != from.end()) {
    read(*w, "flops", row.work.flops);
    read(*w, "bytes", row.work.bytes);
    read(*w, "functions", row.work.functions);
    read(*w, "samples", row.work.samples);
    read(*w, "tokens", row.work.tokens);
  }
  std::string status = "ok";
  read(from, "status", status);
  const auto* known = std::find_if(std::begin(kStatuses), std::end(kStatuses),
                                   [&](Status s) { return status == to_string(s); });
  if (known == std::end(kStatuses)) throw std::invalid_argument("status '" + status + "'");
  row.status = *known;
  for (double ms : row.samples_ms)
    if (!(ms >= 0)) throw std::invalid_argument("a negative time");
  return row;
}

}  // namespace

const char* to_string(Status status) {
  switch (status) {
    case Status::Ok:
      return "ok";
    case Status::Failed:
      return "failed";
    case Status::Crashed:
      return "crashed";
    case Status::Timeout:
      return "timeout";
    case Status::Skipped:
      return "skipped";
  }
  return "";
}

std::string Row::case_name() const {
  std::string text;
  for (const auto& [axis, value] : config) text += (text.empty() ? "" : ",") + axis + "=" + value;
  return text.empty() ? name : name + "[" + text + "]";
}

Judgement judge(const Row& reference, const Row& row) {
  return judge(reference.samples_ms, row.samples_ms,
               {.paired = !reference.isolated && !row.isolated});
}

const Row* Run::reference(const std::string& case_name) const {
  if (const Row* eager = find(case_name, "eager")) return eager;
  for (const Row& row : rows)
    if (row.case_name() == case_name) return &row;
  return nullptr;
}

const Row* Run::reference(const Row& row) const {
  if (row.isolated)
    for (const char* variant : {"eager_alone", "eager"})
      if (const Row* eager = find(row.case_name(), variant); eager != nullptr && eager->isolated)
        return eager;
  return reference(row.case_name());
}

const Row* Run::find(const std::string& case_name, const std::string& variant) const {
  for (const Row& row : rows)
    if (row.variant == variant && row.case_name() == case_name) return &row;
  return nullptr;
}

std::vector<std::string> Run::cases() const {
  std::vector<std::string> out;
  for (const Row& row : rows)
    if (std::string name = row.case_name(); std::find(out.begin(), out.end(), name) == out.end())
      out.push_back(std::move(name));
  return out;
}

json to_json(const Run& run, bool with_statistics) {
  json rows = json::array();
  for (const Row& row : run.rows) rows.push_back(to_json(row, run.reference(row), with_statistics));
  return {{"schema_version", kSchemaVersion}, {"context", run.context}, {"results", rows}};
}

Run run_from_json(const json& from, const std::string& where) {
  auto refuse = [&](const std::string& why) -> RunFileError {
    return RunFileError(where + ": " + why + "; expected a file that 'graft bench --json' wrote.");
  };
  if (!from.is_object() || !from.contains("results") || !from["results"].is_array())
    throw refuse("no list 'results'");
  const json version = from.value("schema_version", json());
  if (!version.is_number_integer()) throw refuse("no number 'schema_version'");
  if (version.get<int64_t>() > kSchemaVersion)
    throw RunFileError(where + ": schema version " + version.dump() + ", this graft reads up to " +
                       std::to_string(kSchemaVersion) +
                       "; use the graft that wrote it, or a newer one.");
  Run run;
  run.context = from.value("context", json::object());
  if (!run.context.is_object()) throw refuse("its 'context' is no object");
  size_t index = 0;
  for (const json& row : from["results"]) {
    try {
      run.rows.push_back(row_from_json(row));
    } catch (const std::exception& error) {
      throw refuse("result " + std::to_string(index) + " is not one (" + error.what() + ")");
    }
    ++index;
  }
  return run;
}

Run read_run(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    const bool empty = file.is_open() && errno == 0;
    throw RunFileError(path + (empty ? ": empty" : std::string(": ") + std::strerror(errno)) +
                       "; expected a file that 'graft bench --json' wrote.");
  }
  json parsed = json::parse(text.str(), nullptr, false);
  if (parsed.is_discarded())
    throw RunFileError(path + ": not JSON, or cut off (" + std::to_string(text.str().size()) +
                       " bytes); expected a file that 'graft bench --json' wrote.");
  return run_from_json(parsed, path);
}

}  // namespace graft::lab
