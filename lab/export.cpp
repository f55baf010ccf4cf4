#include "lab/export.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "lab/stats.h"

namespace graft::lab {
namespace {

using nlohmann::json;

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

json repetition(const Row& row, size_t index, double ms) {
  return {{"name", row.case_name() + "/" + row.variant},
          {"run_name", row.case_name() + "/" + row.variant},
          {"run_type", "iteration"},
          {"repetitions", row.samples_ms.size()},
          {"repetition_index", index},
          {"threads", row.threads},
          {"iterations", row.batch},
          {"real_time", ms},
          {"cpu_time", ms},
          {"time_unit", "ms"}};
}

json aggregate(const Row& row, const char* name, double ms) {
  json out = repetition(row, 0, ms);
  out.erase("repetition_index");
  out["name"] = row.case_name() + "/" + row.variant + "_" + name;
  out["run_type"] = "aggregate";
  out["aggregate_name"] = name;
  out["aggregate_unit"] = "time";
  out["iterations"] = row.samples_ms.size();
  return out;
}

}  // namespace

std::string to_csv(const Run& run) {
  std::ostringstream out;
  out.precision(9);
  out << "case,variant,threads,status,samples,median_ms,ci_lo_ms,ci_hi_ms,mean_ms,stddev_ms,cv,"
         "min_ms,max_ms,p90_ms,p99_ms,outliers,first_call_ms,compile_ms,bitwise,max_abs_diff,"
         "peak_allocated_bytes,error\r\n";
  const auto cell = [&](const auto& value) {
    if (value) out << *value;
    out << ',';
  };
  for (const Row& row : run.rows) {
    out << quoted(row.case_name()) << ',' << quoted(row.variant) << ',' << row.threads << ','
        << to_string(row.status) << ',' << row.samples_ms.size() << ',';
    const Summary s = summarise(row.samples_ms);
    for (double value :
         {s.median, s.ci.lo, s.ci.hi, s.mean, s.stddev, s.cv, s.min, s.max, s.p90, s.p99}) {
      if (std::isfinite(value)) out << value;
      out << ',';
    }
    out << s.outliers << ',';
    cell(row.first_call_ms);
    cell(row.compile_ms);
    cell(row.bitwise);
    cell(row.max_abs_diff);
    if (row.memory.peak_allocated >= 0) out << row.memory.peak_allocated;
    out << ',' << quoted(row.error) << "\r\n";
  }
  return out.str();
}

json to_google_benchmark(const Run& run) {
  json context{{"executable", "graft"}, {"library_build_type", "release"}};
  for (const char* key : {"date", "host_name"})
    if (run.context.contains(key)) context[key] = run.context[key];
  context["num_cpus"] = run.context.value("logical_cpus", 0);
  json all = json::array();
  for (const Row& row : run.rows) {
    if (row.samples_ms.empty()) {
      all.push_back({{"name", row.case_name() + "/" + row.variant},
                     {"run_type", "iteration"},
                     {"error_occurred", true},
                     {"error_message", row.error}});
      continue;
    }
    for (size_t i = 0; i < row.samples_ms.size(); ++i)
      all.push_back(repetition(row, i, row.samples_ms[i]));
    const Summary s = summarise(row.samples_ms);
    all.push_back(aggregate(row, "mean", s.mean));
    all.push_back(aggregate(row, "median", s.median));
    all.push_back(aggregate(row, "stddev", s.stddev));
  }
  return {{"context", context}, {"benchmarks", all}};
}

}  // namespace graft::lab
