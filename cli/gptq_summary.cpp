#include "cli/gptq_summary.h"

#include <cmath>
#include <ostream>
#include <sstream>
#include <utility>
#include <vector>

#include "lab/table.h"

namespace graft::cli {
namespace {

using nlohmann::json;

/// A table, or with no columns a line of text.
struct Part {
  std::string text;
  std::vector<std::string> columns;  ///< the first is left-aligned
  std::vector<std::vector<std::string>> rows;
};

std::string ms(const json& value) {
  return lab::number(value.get<double>());
}

/// Differences: nothing is 0, not "0.00".
std::string difference(const json& value) {
  return value == 0 ? "0" : lab::number(value.get<double>());
}

std::string percent(double share) {
  return lab::number(100 * share) + " %";
}

std::string counted(int64_t n, const std::string& what) {
  return std::to_string(n) + ' ' + what + (n == 1 ? "" : "s");
}

std::string times(double a, double b) {
  return b > 0 ? lab::number(a / b) + "x" : "-";
}

Part whole_part(const GptqFindings& found) {
  Part out{"One pass over all layers, ms, without the Hessians",
           {"variant", "mean", "stddev", "CV", "min", "max", "p50", "p90", "p99",
            "outside BLAS, LAPACK", "Hessians"},
           {}};
  const auto add = [&](const std::string& name, const json& statistics) {
    const json& s = statistics.at("total_ms");
    std::vector<std::string> row{name, ms(s["mean"])};
    for (const char* key : {"stddev", "cv", "min", "max", "p50", "p90", "p99"})
      row.push_back(s["runs"] == 1 ? "-" : std::string(key) == "cv" ? percent(s[key]) : ms(s[key]));
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

std::string shape_of(const json& row) {
  return std::to_string(row.at("rows").get<int64_t>()) + " x " +
         std::to_string(row.at("columns").get<int64_t>());
}

/// Of one variant: where a layer's time goes.
Part shares_part(const std::string& name, const json& statistics) {
  Part out{"A layer of each kind, " + name + ", ms",
           {"layers", "shape", "whole step", "quantize_block", "Cholesky", "update matmuls",
            "other", "Hessian, apart"},
           {}};
  for (const json& row : statistics.at("kinds")) {
    const json& share = row.at("share");
    const auto cell = [&](const char* time, const char* part) {
      return ms(row.at(time)) + " (" + percent(share.at(part)) + ")";
    };
    out.rows.push_back({row.at("kind"), shape_of(row), ms(row.at("total_ms").at("mean")),
                        cell("process_ms", "process"), cell("factor_ms", "factor"),
                        cell("update_ms", "update"), percent(share.at("other")),
                        row.at("hessian_ms") > 0 ? ms(row.at("hessian_ms")) : "shared"});
  }
  return out;
}

Part gains_part(const json& baseline, const json& compiled) {
  Part out{"Eager against compiled, ms a layer (means)",
           {"layers", "shape", "eager", "compiled", "speed-up", "outside BLAS: eager", "compiled",
            "times less"},
           {}};
  const json& a = baseline.at("statistics").at("kinds");
  const json& b = compiled.at("statistics").at("kinds");
  for (size_t i = 0; i < a.size(); ++i) {
    const double eager = a[i].at("total_ms").at("mean"), fast = b[i].at("total_ms").at("mean");
    const double eager_outside = a[i].at("outside_blas_ms"), outside = b[i].at("outside_blas_ms");
    out.rows.push_back({a[i].at("kind"), shape_of(a[i]), lab::number(eager), lab::number(fast),
                        times(eager, fast), lab::number(eager_outside), lab::number(outside),
                        times(eager_outside, outside)});
  }
  return out;
}

Part memory_part(const GptqFindings& found) {
  Part out{"Memory of one pass, above what was there before",
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

std::string memory_change(const json& baseline, const json& compiled, const char* key) {
  const double a = baseline.at("memory").at(key), b = compiled.at("memory").at(key);
  std::ostringstream out;
  out << std::showpos << std::fixed;
  out.precision(1);
  out << (a > 0 ? 100 * (b - a) / a : 0) << " %";
  return out.str();
}

/// What planning and the code generator took, in the numerical check's process: there plans are
/// made one after the other, in the calls that record them. Beside it, where known, one layer's
/// time.
std::string code_generation_text(const GptqFindings& found) {
  const json& cost = found.numerics.at("code_generation");
  const double plan = cost.at("plan_ms"), compile = cost.at("compile_ms");
  std::string out = "Planning and the code generator took " + lab::number(plan + compile) +
                    " ms for " + counted(cost.at("plans").get<int64_t>(), "plan") + " with " +
                    counted(cost.at("kernels_compiled").get<int64_t>(), "kernel") + " (" +
                    lab::number(plan) + " and " + lab::number(compile) + ")";
  if (found.baseline.is_null()) return out + '.';
  const double pass = found.baseline.at("statistics").at("total_ms").at("mean");
  const double layer = pass / found.baseline.at("layers").get<double>();
  return out + ", " + percent((plan + compile) / layer) + " of the " + lab::number(layer) +
         " ms that one of the model's layers takes eagerly.";
}

void add_compiled(const GptqFindings& found, std::vector<Part>& out) {
  const json& compiled = found.compiled;
  const json& counters = compiled.at("counters");
  const auto count = [&](const char* key) { return counters.at(key).get<int64_t>(); };
  const double warm = compiled.at("statistics").at("total_ms").at("mean");
  const double overhead = compiled.at("compile_overhead_ms");
  std::string cost = overhead > 0
                         ? "Compiling cost " + lab::number(overhead) + " ms, " +
                               percent(warm > 0 ? overhead / warm : 0) +
                               " of a pass: the cold pass less the mean of the warm ones."
                         : "Compiling cost less than passes differ by: the cold one took " +
                               lab::number(-overhead) + " ms less than the mean of the warm ones.";
  if (!found.baseline.is_null()) {
    const double saved =
        found.baseline.at("statistics").at("total_ms").at("mean").get<double>() - warm;
    cost += saved <= 0      ? " It never pays: warm passes are no faster than eager ones."
            : overhead <= 0 ? " It pays from the first pass."
                            : " It pays after " + lab::number(overhead / saved) + " passes.";
  }
  out.push_back({cost, {}, {}});
  const std::string reason = counters.at("reason");
  out.push_back({"Counters: " + counted(count("graphs"), "graph") + ", " +
                     counted(count("breaks"), "break") + ", " + counted(count("calls"), "call") +
                     ", " + std::to_string(count("records")) + " recorded, " +
                     std::to_string(count("plan_hits")) + " by compiled code; " +
                     counted(count("kernels"), "kernel") + " in the newest plan, " +
                     std::to_string(count("kernels_compiled")) + " compiled in all; verdict " +
                     counters.at("verdict").get<std::string>() +
                     (reason.empty() ? "" : " (" + reason + ")") + ".",
                 {},
                 {}});
}

std::string tokens_text(const json& tokens) {
  std::string out = percent(tokens.at("match_rate")) + " of " +
                    std::to_string(tokens.at("positions").get<int64_t>()) + " tokens";
  if (!tokens.at("max_logit_diff").is_null())
    out += ", logits differ by " + difference(tokens.at("max_logit_diff")) + " at most, " +
           difference(tokens.at("mean_logit_diff")) + " on average";
  return out;
}

void add_numerics(const json& numerics, std::vector<Part>& out) {
  const auto count = [&](const char* key) {
    return std::to_string(numerics.at(key).get<int64_t>());
  };
  const json& counters = numerics.at("counters");
  out.push_back({std::string("Numerical check ") +
                     (numerics.at("passed").get<bool>() ? "passed" : "FAILED") + ": " +
                     count("layers_identical") + " of " + count("layers") +
                     " layers equal bit for bit (codes, scales, zeros, weights), with " +
                     std::to_string(counters.at("plan_hits").get<int64_t>()) + " of " +
                     std::to_string(counters.at("calls").get<int64_t>()) +
                     " calls by compiled code; weights differ by " +
                     difference(numerics.at("max_weight_diff")) + " at most, outputs by " +
                     difference(numerics.at("max_output_diff")) + ".",
                 {},
                 {}});
  for (const json& where : numerics.at("where"))
    out.push_back({"It differs at: " + where.dump(), {}, {}});
  if (!numerics.contains("models")) return;
  const json& models = numerics.at("models");
  const json& original = models.at("against_original");
  out.push_back(
      {"Two quantised models",
       {"comparison", "logits on held-out text", "greedy decode"},
       {{"eager, compiled", tokens_text(models.at("logits")), tokens_text(models.at("greedy"))},
        {"original, eager", tokens_text(original.at("logits")),
         tokens_text(original.at("greedy"))}}});
  const json& perplexity = models.at("perplexity");
  out.push_back({"Perplexity of held-out text: " + lab::number(perplexity.at("original"), 5) +
                     " before, " + lab::number(perplexity.at("eager"), 5) + " quantised eagerly, " +
                     lab::number(perplexity.at("compiled"), 5) + " quantised compiled.",
                 {},
                 {}});
}

std::vector<Part> parts_of(const GptqFindings& found) {
  std::vector<Part> out;
  const bool baseline = !found.baseline.is_null(), compiled = !found.compiled.is_null();
  if (!found.sentinel.is_null())
    for (const json& one : found.sentinel.at("sentinels"))
      out.push_back(
          {one.at("text").get<std::string>() + " (" + one.at("allocator").get<std::string>() + ")",
           {},
           {}});
  if (baseline || compiled) out.push_back(whole_part(found));
  if (baseline && compiled) out.push_back(gains_part(found.baseline, found.compiled));
  if (baseline) out.push_back(shares_part("eager", found.baseline.at("statistics")));
  if (compiled) out.push_back(shares_part("compiled, warm", found.compiled.at("statistics")));
  if (compiled) add_compiled(found, out);
  if (!found.numerics.is_null()) out.push_back({code_generation_text(found), {}, {}});
  if (baseline || compiled) out.push_back(memory_part(found));
  if (baseline && compiled)
    out.push_back({"Compiled against eager: allocated " +
                       memory_change(found.baseline, found.compiled, "peak_bytes") + ", reserved " +
                       memory_change(found.baseline, found.compiled, "peak_reserved") + ".",
                   {},
                   {}});
  if (!found.numerics.is_null()) add_numerics(found.numerics, out);
  return out;
}

/// The scenario's line, from whichever step made one.
std::string about(const GptqFindings& found) {
  for (const json* from : {&found.baseline, &found.compiled, &found.numerics})
    if (!from->is_null())
      return from->at("scenario").get<std::string>() + ": " + from->at("about").get<std::string>();
  return "Memory sentinel";
}

}  // namespace

void print(std::ostream& out, const GptqFindings& found, bool colour) {
  out << about(found) << '\n';
  for (const Part& part : parts_of(found)) {
    out << '\n' << part.text << '\n';
    if (part.columns.empty()) continue;
    std::vector<lab::Column> columns;
    for (const std::string& header : part.columns)
      columns.push_back({header, columns.empty() ? lab::Align::Left : lab::Align::Right});
    lab::Table table(std::move(columns));
    for (const auto& row : part.rows) table.row({row.begin(), row.end()});
    table.print(out, colour);
  }
}

std::string gptq_markdown(const GptqFindings& found) {
  std::ostringstream out;
  const json& env = found.environment;
  out << "# GPTQ, eager and compiled\n\n"
      << about(found) << ".\n\n"
      << env.value("cpu", "") << ", " << env.value("threads", 0) << " threads, torch "
      << env.value("torch", "") << ", graft " << env.value("graft", "") << ", "
      << env.value("date", "") << ".\nCommand: `" << env.value("command", "") << "`\n";
  const auto line = [&](const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) out << "| " << cell << ' ';
    out << "|\n";
  };
  for (const Part& part : parts_of(found)) {
    out << '\n';
    if (part.columns.empty()) {
      out << part.text << '\n';
      continue;
    }
    out << "## " << part.text << "\n\n";
    line(part.columns);
    for (size_t i = 0; i < part.columns.size(); ++i) out << (i == 0 ? "|---" : "|---:");
    out << "|\n";
    for (const auto& row : part.rows) line(row);
  }
  return out.str();
}

}  // namespace graft::cli
