#include "quantizer/experiment/summary.h"

#include <cmath>
#include <ostream>
#include <sstream>
#include <utility>
#include <vector>

#include "lab/table.h"
#include "lab/words.h"
#include "quantizer/experiment/parts.h"

namespace graft::cli {
namespace {

using nlohmann::json;

/// Differences: nothing is 0, not "0.00".
std::string difference(const json& value) {
  return value == 0 ? "0" : lab::number(value.get<double>());
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
                    " ms for " + lab::count_text(cost.at("plans").get<int64_t>(), "plan") +
                    " with " +
                    lab::count_text(cost.at("kernels_compiled").get<int64_t>(), "kernel") + " (" +
                    lab::number(plan) + " and " + lab::number(compile) + ")";
  if (found.baseline.is_null()) return out + '.';
  const double pass = found.baseline.at("statistics").at("total_ms").at("mean");
  const double layer = pass / found.baseline.at("layers").get<double>();
  return out + ", " + lab::percent_text((plan + compile) / layer) + " of the " +
         lab::number(layer) + " ms that one of the model's layers takes eagerly.";
}

/// What the cold pass has that warm ones have not.
std::string cold_parts(const GptqFindings& found) {
  const std::string eagerly = "calls that ran eagerly while code was compiled, proven and raced";
  if (found.numerics.is_null()) return " In it are recording, planning, and " + eagerly + '.';
  const json& cost = found.numerics.at("code_generation");
  return " In it are about " + lab::number(cost.at("plan_ms")) +
         " ms of recording and planning, and " + eagerly + "; code generation, about " +
         lab::number(cost.at("compile_ms")) +
         " ms, ran beside it on another thread (both as the numerical check's process measured "
         "them).";
}

void add_compiled(const GptqFindings& found, std::vector<GptqPart>& out) {
  const json& compiled = found.compiled;
  const json& counters = compiled.at("counters");
  const auto count = [&](const char* key) { return counters.at(key).get<int64_t>(); };
  const double warm = compiled.at("statistics").at("total_ms").at("mean");
  const double overhead = compiled.at("compile_overhead_ms");
  std::string cost = "The cold pass took " + lab::number(std::abs(overhead)) + " ms " +
                     (overhead < 0 ? "less" : "more") + " than the mean of the warm ones" +
                     (overhead < 0 ? ": less than passes differ by." : '.' + cold_parts(found));
  if (!found.baseline.is_null()) {
    const double eager = found.baseline.at("statistics").at("total_ms").at("mean");
    const double cold = compiled.at("cold").at("total_ms"), saved = eager - warm;
    cost += " Eager's passes take " + times(eager, cold) + " as long as the cold one, and " +
            times(eager, warm) + " as long as warm ones.";
    cost += saved <= 0 ? " Compiling never pays: warm passes are no faster than eager ones."
            : overhead <= saved
                ? " Compiling pays within the first pass."
                : " Compiling pays after " + lab::number(overhead / saved) + " passes.";
  }
  out.push_back({cost, {}, {}});
  const std::string reason = counters.at("reason");
  out.push_back({"Counters: " + lab::count_text(count("graphs"), "graph") + ", " +
                     lab::count_text(count("breaks"), "break") + ", " +
                     lab::count_text(count("calls"), "call") + ", " +
                     std::to_string(count("records")) + " recorded, " +
                     std::to_string(count("plan_hits")) + " by compiled code; " +
                     lab::count_text(count("kernels"), "kernel") + " in the newest plan, " +
                     std::to_string(count("kernels_compiled")) + " compiled in all; verdict " +
                     counters.at("verdict").get<std::string>() + " of the newest plan" +
                     (reason.empty() ? "" : " (" + reason + ")") + ".",
                 {},
                 {}});
}

std::string tokens_text(const json& tokens) {
  std::string out = lab::percent_text(tokens.at("match_rate")) + " of " +
                    std::to_string(tokens.at("positions").get<int64_t>()) + " tokens";
  if (!tokens.at("max_logit_diff").is_null())
    out += ", logits differ by " + difference(tokens.at("max_logit_diff")) + " at most, " +
           difference(tokens.at("mean_logit_diff")) + " on average";
  return out;
}

void add_numerics(const json& numerics, std::vector<GptqPart>& out) {
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

std::vector<GptqPart> parts_of(const GptqFindings& found) {
  std::vector<GptqPart> out;
  const bool baseline = !found.baseline.is_null(), compiled = !found.compiled.is_null();
  if (!found.sentinel.is_null())
    for (const json& one : found.sentinel.at("sentinels"))
      out.push_back(
          {one.at("text").get<std::string>() + " (" + one.at("allocator").get<std::string>() + ")",
           {},
           {}});
  if (baseline || compiled) out.push_back(whole_part(found));
  if (baseline && compiled) {
    out.push_back(gains_part(found.baseline, found.compiled));
    if (const std::string text = unsteady_text(out.back()); !text.empty())
      out.push_back({text, {}, {}});
  }
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
  for (const GptqPart& part : parts_of(found)) {
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
  if (env.contains("busy")) out << "\nWarning: " << env.at("busy").get<std::string>() << ".\n";
  const auto line = [&](const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) out << "| " << cell << ' ';
    out << "|\n";
  };
  for (const GptqPart& part : parts_of(found)) {
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
