// The words of the reports.

#include <cmath>
#include <functional>

#include "lab/report/report.h"
#include "lab/report/svg.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

struct Unit {
  const char* name;
  double ms;
};

Unit unit_of(double ms) {
  constexpr Unit kUnits[] = {{"ns", 1e-6}, {"µs", 1e-3}, {"ms", 1}};
  constexpr double kRounds = 0.9995;  // what three digits show as 1000 is 1 of the next unit
  for (const Unit& unit : kUnits) {
    if (std::abs(ms) < 1000 * kRounds * unit.ms) return unit;
  }
  return {"s", 1000};
}

struct Prefix {
  const char* name;
  double size;
};

Prefix prefix_of(double value) {
  constexpr double kRounds = 0.9995;
  for (const Prefix& prefix : {Prefix{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}}) {
    if (value >= prefix.size * kRounds) return prefix;
  }
  return {"", 1};
}

void add(std::string& text, const std::string& more, const char* between) {
  if (more.empty()) return;
  text += (text.empty() ? "" : between) + more;
}

std::string string_in(const nlohmann::json& context, const char* key) {
  const auto found = context.find(key);
  if (found == context.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

std::string exponent(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

}  // namespace

std::string time_text(double ms) {
  if (!std::isfinite(ms)) return "-";
  if (ms == 0) return "0";
  const Unit unit = unit_of(ms);
  return number(ms / unit.ms) + ' ' + unit.name;
}

std::string time_tick(double ms) {
  if (ms == 0) return "0";
  const Unit unit = unit_of(ms);
  return svg::plain(ms / unit.ms) + ' ' + unit.name;
}

std::string si_text(double value) {
  const Prefix prefix = prefix_of(value);
  return number(value / prefix.size) + ' ' + prefix.name;
}

std::string si_tick(double value) {
  const Prefix prefix = prefix_of(value);
  return svg::plain(value / prefix.size) + (*prefix.name == '\0' ? "" : " ") + prefix.name;
}

std::string interval_text(const Summary& summary) {
  if (!std::isfinite(summary.ci.lo)) return "";
  const double ms = unit_of(summary.median).ms;
  return number(summary.ci.lo / ms) + " … " + number(summary.ci.hi / ms);
}

std::string ratio_text(double ratio) {
  return std::isfinite(ratio) ? number(ratio) + 'x' : "-";
}

std::string range_text(const Ratio& ratio) {
  return '[' + number(ratio.lo) + ", " + number(ratio.hi) + ']';
}

std::string verdict_text(const RowFacts& row) {
  if (row.row->status != Status::Ok) return to_string(row.row->status);
  if (row.is_reference()) return row.timed() ? "reference" : "no samples";
  if (row.against) return to_string(row.against->verdict);
  return row.timed() ? "" : "no samples";
}

std::string class_text(const RowFacts& row) {
  if (!row.against || row.against->verdict == Verdict::Ambiguous) return "";
  return gain_class(row.against->ratio.ratio);
}

std::string pays_text(const RowFacts& row) {
  if (!row.pays_after) return "";
  if (!std::isfinite(*row.pays_after)) return "never";
  const double calls = std::max(1.0, std::ceil(*row.pays_after));
  constexpr double kExact = 10000;  // more digits than that say nothing
  return (calls < kExact ? std::to_string(static_cast<int>(calls)) + ' ' : si_text(calls) + ' ') +
         (calls == 1 ? "call" : "calls");
}

std::string output_text(const RowFacts& row) {
  const Row& r = *row.row;
  if (row.is_reference() || !r.bitwise) return "";
  if (*r.bitwise) return "bitwise";
  std::string text = r.max_abs_diff ? "max " + exponent(*r.max_abs_diff) : "differs";
  if (row.error_share) text += ", " + number(*row.error_share, 2) + "x error";
  return text;
}

std::vector<Note> notes_of(const std::vector<CaseFacts>& cases) {
  std::vector<Note> out;
  Note ambiguous{"Ambiguous; more samples may tell", ""};
  Note unsteady{"Times had not settled when the samples began", ""};
  for (const CaseFacts& c : cases) {
    std::string variants;
    for (const RowFacts& row : c.rows) {
      const Row& r = *row.row;
      const std::string about = c.name + ", " + r.variant;
      if (r.status != Status::Ok)
        out.push_back({about, r.error.empty() ? "it left no message" : r.error});
      if (!r.verdict.empty() && r.verdict != "faster")
        out.push_back(
            {about, "the compiler says " + r.verdict + (r.reason.empty() ? "" : ": " + r.reason)});
      if (row.against && row.against->verdict == Verdict::Ambiguous)
        add(ambiguous.text, about + ' ' + range_text(row.against->ratio), "; ");
      if (!r.steady) add(variants, r.variant, ", ");
    }
    if (!variants.empty()) add(unsteady.text, c.name + " (" + variants + ')', "; ");
  }
  for (Note& note : {std::ref(ambiguous), std::ref(unsteady)}) {
    if (!note.text.empty()) out.push_back(std::move(note));
  }
  return out;
}

std::string context_text(const nlohmann::json& context) {
  if (!context.is_object()) return "";
  std::string text = string_in(context, "cpu");
  const std::string threads = string_in(context, "threads"), aten = string_in(context, "aten_cpu");
  if (!threads.empty()) add(text, threads + (threads == "1" ? " thread" : " threads"), ", ");
  for (const auto& [key, name] : {std::pair("graft", "Graft "), {"torch", "torch "}}) {
    const std::string version = string_in(context, key);
    if (!version.empty()) add(text, name + version, ", ");
  }
  if (!aten.empty()) text += " (" + aten + ')';
  add(text, string_in(context, "date"), ", ");
  return text;
}

}  // namespace graft::lab
