#include "lab/report/tables.h"

#include <algorithm>
#include <cmath>

#include "lab/report/cells.h"
#include "lab/report/svg.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab::tables {
namespace {

using svg::escape;

std::string readable(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

/// {"name": "L2", "bytes": 1048576, "shared_by": 2} as "L2, 1.00 MiB, shared by 2".
std::string context_value(const std::string& key, const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number()) {
    const double v = value.get<double>();
    if (key.ends_with("bytes")) return bytes_text(v);
    return key.ends_with("_per_s") ? si_text(v) + "/s" : svg::plain(v);
  }
  std::vector<std::string> parts;
  for (const auto& [name, item] : value.items()) {
    const std::string text = context_value(value.is_object() ? name : "", item);
    if (value.is_array() || name == "name") {
      parts.insert(value.is_array() ? parts.end() : parts.begin(), text);
    } else {
      parts.push_back(name == "bytes" ? text : readable(name) + ' ' + text);
    }
  }
  const bool plain = value.is_array() && !value.empty() && value[0].is_primitive();
  return joined(parts, plain ? " " : value.is_array() ? "; " : ", ");
}

}  // namespace

std::string cell(const Shown& shown, bool is_number) {
  std::string classes = shown.classes;
  if (is_number) classes += classes.empty() ? "n" : " n";
  std::string out = "<td";
  if (!classes.empty()) out += " class=\"" + classes + '"';
  if (!std::isnan(shown.key)) {
    const double finite = std::isinf(shown.key) ? 1e300 : shown.key;
    out += " data-key=\"" + nlohmann::json(finite).dump() + '"';
  }
  return out + '>' + escape(shown.text) + "</td>";
}

std::string header(const std::string& text, bool is_number) {
  return std::string("<th scope=\"col\"") + (is_number ? " class=\"n\"" : "") +
         "><button type=\"button\">" + escape(text) + "</button></th>";
}

std::string tally_of(const std::vector<GateRow>& rows) {
  std::string out = "<p class=\"tally\">";
  for (const Outcome outcome : {Outcome::Faster, Outcome::Same, Outcome::Regression,
                                Outcome::Ambiguous, Outcome::Missing, Outcome::New}) {
    const auto count = std::count_if(rows.begin(), rows.end(),
                                     [&](const GateRow& row) { return row.outcome == outcome; });
    const std::string name = to_string(outcome);
    if (count > 0)
      out += "<span class=\"verdict is-" + name + "\">" + std::to_string(count) + ' ' + name +
             "</span> ";
  }
  return out + "</p>\n";
}

std::string before_after(const std::vector<GateRow>& rows) {
  std::string out =
      "<div class=\"scroll\"><table class=\"sortable\"><caption>Each case and variant in the two "
      "runs"
      "</caption><thead><tr>" +
      header("Case", false) + header("Variant", false) + header("Before", true) +
      header("After", true) + header("Change", true) + header("95 % interval", true) +
      header("Noise", true) + header("Verdict", false) + header("Why", false) +
      "</tr></thead>\n<tbody>\n";
  const auto time = [](double ms) {
    return cell(ms > 0 ? Shown{time_text(ms), ms} : Shown{}, true);
  };
  for (const GateRow& row : rows) {
    const std::string verdict = to_string(row.outcome);
    const bool both = row.change.ratio > 0;
    out += "<tr><th scope=\"row\">" + escape(row.case_name) + "</th><td>" + escape(row.variant) +
           "</td>" + time(row.before_ms) + time(row.after_ms);
    out += cell(both ? Shown{ratio_text(row.change.ratio) + (row.relative ? " *" : ""),
                             row.change.ratio, "strong"}
                     : Shown{},
                true);
    out += cell(both ? Shown{range_text(row.change), row.change.lo, "soft"} : Shown{}, true);
    out += cell(both ? Shown{percent_text(row.threshold), row.threshold, "soft"} : Shown{}, true);
    out += cell({verdict, std::nan(""), "verdict is-" + verdict}, false) + "<td>" +
           escape(row.why) + "</td></tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

/// Lists within lists are data, not facts; the file has them.
bool is_nested(const nlohmann::json& value) {
  if (!value.is_array()) return false;
  return std::any_of(value.begin(), value.end(), [](const nlohmann::json& item) {
    return std::any_of(item.begin(), item.end(), [](const auto& part) { return part.is_array(); });
  });
}

std::string environment(const std::vector<NamedRun>& runs) {
  std::vector<std::string> keys;
  for (const NamedRun& named : runs) {
    if (!named.run.context.is_object()) continue;
    for (const auto& [key, value] : named.run.context.items()) {
      if (is_nested(value)) continue;
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  if (keys.empty()) return "";
  std::string out = "<div class=\"scroll\"><table class=\"facts\">";
  if (runs.size() > 1) {
    out += "<thead><tr><th scope=\"col\">Fact</th>";
    for (const NamedRun& named : runs) out += "<th scope=\"col\">" + escape(named.name) + "</th>";
    out += "</tr></thead>";
  }
  out += "<tbody>\n";
  for (const std::string& key : keys) {
    std::string values;
    bool differ = false;
    for (const NamedRun& named : runs) {
      const auto& context = named.run.context;
      const std::string text = context.contains(key) ? context_value(key, context[key]) : "";
      const auto& first = runs.front().run.context;
      differ |= text != (first.contains(key) ? context_value(key, first[key]) : "");
      values += "<td>" + escape(text) + "</td>";
    }
    out += std::string("<tr") + (differ ? " class=\"differs\"" : "") + "><th scope=\"row\">" +
           escape(readable(key)) + "</th>" + values + "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string raw(const Run& run) {
  std::string out;
  for (const Row& row : run.rows) {
    out += "<tr><th scope=\"row\">" + escape(row.case_name()) + "</th><td>" + escape(row.variant) +
           "</td><td class=\"n\">" + std::to_string(row.samples_ms.size()) +
           "</td><td class=\"samples\">";
    for (const double ms : row.samples_ms) out += number(ms, 5) + ' ';
    out += "</td></tr>\n";
  }
  return "<details><summary>All samples</summary>\n<div class=\"scroll\"><table><thead><tr>"
         "<th>Case</th><th>Variant</th><th class=\"n\">Count</th><th>Milliseconds per call, in the "
         "order taken</th></tr></thead><tbody>\n" +
         out + "</tbody></table></div></details>\n";
}

}  // namespace graft::lab::tables
