#include "quantizer/experiment/parts.h"

#include <algorithm>
#include <utility>

#include "lab/table.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using nlohmann::json;

constexpr double kUnsteady = 0.1;  // CV from which on a mean says little
constexpr const char* kMark = " (?)";

std::string ms(const json& value) {
  return lab::number(value.get<double>());
}

/// From pass to pass; 0 of one pass.
double spread(const json& statistics) {
  return statistics.at("runs") == 1 ? 0 : statistics.at("cv").get<double>();
}

std::string spread_text(const json& statistics) {
  return statistics.at("runs") == 1 ? "-" : lab::percent_text(spread(statistics));
}

std::string shape_of(const json& row) {
  return std::to_string(row.at("rows").get<int64_t>()) + " x " +
         std::to_string(row.at("columns").get<int64_t>());
}

}  // namespace

std::string times(double a, double b) {
  return b > 0 ? lab::number(a / b) + "x" : "-";
}

GptqPart whole_part(const GptqFindings& found) {
  GptqPart out{"One pass over all layers, ms, without the Hessians",
               {"variant", "mean", "stddev", "CV", "min", "max", "p50", "p90", "p99",
                "outside BLAS, LAPACK", "Hessians"},
               {}};
  const auto add = [&](const std::string& name, const json& statistics) {
    const json& s = statistics.at("total_ms");
    std::vector<std::string> row{name, ms(s["mean"])};
    for (const char* key : {"stddev", "cv", "min", "max", "p50", "p90", "p99"})
      row.push_back(s["runs"] == 1             ? "-"
                    : std::string(key) == "cv" ? lab::percent_text(s[key])
                                               : ms(s[key]));
    row.push_back(ms(statistics.at("outside_blas_ms").at("mean")));
    row.push_back(ms(statistics.at("hessian_ms").at("mean")));
    out.rows.push_back(std::move(row));
  };
  if (!found.baseline.is_null()) add("eager", found.baseline.at("statistics"));
  if (!found.compiled.is_null()) {
    const json& cold = found.compiled.at("cold");
    add("compiled, warm", found.compiled.at("statistics"));
    out.rows.push_back({"compiled, cold", ms(cold.at("total_ms")), "", "", "", "", "", "", "",
                        ms(cold.at("outside_blas_ms")), ms(cold.at("hessian_ms"))});
  }
  return out;
}

GptqPart shares_part(const std::string& name, const json& statistics) {
  GptqPart out{"A layer of each kind, " + name + ", ms",
               {"layers", "shape", "whole step", "quantize_block", "Cholesky", "update matmuls",
                "other", "Hessian, apart"},
               {}};
  for (const json& row : statistics.at("kinds")) {
    const json& share = row.at("share");
    const auto cell = [&](const char* time, const char* part) {
      if (row.at(time) == 0) return std::string("shared");
      return ms(row.at(time)) + " (" + lab::percent_text(share.at(part)) + ")";
    };
    out.rows.push_back({row.at("kind"), shape_of(row), ms(row.at("total_ms").at("mean")),
                        cell("process_ms", "process"), cell("factor_ms", "factor"),
                        cell("update_ms", "update"), lab::percent_text(share.at("other")),
                        row.at("hessian_ms") > 0 ? ms(row.at("hessian_ms")) : "shared"});
  }
  return out;
}

GptqPart gains_part(const json& baseline, const json& compiled) {
  GptqPart out{"Eager against compiled, ms per layer (means)",
               {"layers", "shape", "eager", "CV", "compiled", "CV", "speed-up",
                "outside BLAS: eager", "compiled", "times less"},
               {}};
  const json& a = baseline.at("statistics").at("kinds");
  const json& b = compiled.at("statistics").at("kinds");
  for (size_t i = 0; i < a.size(); ++i) {
    const json &slow_ms = a[i].at("total_ms"), &fast_ms = b[i].at("total_ms");
    const double eager = slow_ms.at("mean"), fast = fast_ms.at("mean");
    const bool unsteady = spread(slow_ms) > kUnsteady || spread(fast_ms) > kUnsteady;
    const std::string mark = unsteady ? kMark : "";
    const double eager_outside = a[i].at("outside_blas_ms"), outside = b[i].at("outside_blas_ms");
    out.rows.push_back({a[i].at("kind"), shape_of(a[i]), lab::number(eager), spread_text(slow_ms),
                        lab::number(fast), spread_text(fast_ms), times(eager, fast) + mark,
                        lab::number(eager_outside), lab::number(outside),
                        times(eager_outside, outside) + mark});
  }
  return out;
}

std::string unsteady_text(const GptqPart& gains) {
  const bool marked = std::any_of(gains.rows.begin(), gains.rows.end(),
                                  [](const auto& row) { return row.back().ends_with(kMark); });
  if (!marked) return "";
  return "(?): the times differ by more than " + lab::percent_text(kUnsteady) +
         " (CV) from pass to pass; do not trust these rows. Stop other programs, and give more "
         "--runs.";
}

GptqPart memory_part(const GptqFindings& found) {
  GptqPart out{"Memory of one pass, above what was there before",
               {"variant", "peak allocated", "peak reserved", "resident growth", "allocations",
                "left behind", "results: shown", "stored", "inflated"},
               {}};
  const auto bytes = [](const json& value) { return lab::bytes_text(value.get<double>()); };
  const auto add = [&](const std::string& name, const json& variant) {
    const json &m = variant.at("memory"), &s = variant.at("storage");
    const int64_t resident = m.at("peak_resident");
    out.rows.push_back({name, bytes(m.at("peak_bytes")), bytes(m.at("peak_reserved")),
                        resident < 0 ? "-" : lab::bytes_text(static_cast<double>(resident)),
                        std::to_string(m.at("allocations").get<int64_t>()),
                        bytes(m.at("end_bytes")), bytes(s.at("logical_bytes")),
                        bytes(s.at("stored_bytes")), std::to_string(s.at("inflated").size())});
  };
  if (!found.baseline.is_null()) add("eager", found.baseline);
  if (!found.compiled.is_null()) add("compiled", found.compiled);
  return out;
}

}  // namespace graft::cli
