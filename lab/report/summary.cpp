// The summary of a run: scores and the table of all rows.

#include <algorithm>
#include <cmath>
#include <functional>

#include "lab/report/cells.h"
#include "lab/report/svg.h"
#include "lab/report/tables.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab::tables {
namespace {

using svg::escape;

struct Field {
  const char* header;
  bool is_number;
  std::function<Shown(const RowFacts&)> show;
};

double key_of(const std::optional<double>& value) {
  return value.value_or(std::nan(""));
}

Shown verdict_cell(const RowFacts& row) {
  const std::string text = verdict_text(row);
  const bool bad = row.row->status != Status::Ok && row.row->status != Status::Skipped;
  return {text, std::nan(""), bad ? "verdict is-failed" : text.empty() ? "" : "verdict is-" + text};
}

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields{
      {"Median", true,
       [](const RowFacts& r) {
         return Shown{r.timed() ? time_text(r.summary.median) : "", r.summary.median, "strong"};
       }},
      {"95 % interval", true,
       [](const RowFacts& r) { return Shown{interval_text(r.summary), r.summary.ci.lo, "soft"}; }},
      {"Speed-up", true,
       [](const RowFacts& r) {
         return r.against
                    ? Shown{ratio_text(r.against->ratio.ratio), r.against->ratio.ratio, "strong"}
                    : Shown{};
       }},
      {"95 % interval", true,
       [](const RowFacts& r) {
         return r.against ? Shown{range_text(r.against->ratio), r.against->ratio.lo, "soft"}
                          : Shown{};
       }},
      {"Verdict", false, verdict_cell},
      {"Class", false, [](const RowFacts& r) { return Shown{class_text(r)}; }},
      {"Compiling", true,
       [](const RowFacts& r) {
         return Shown{r.row->compile_ms ? time_text(*r.row->compile_ms) : "",
                      key_of(r.row->compile_ms)};
       }},
      {"Pays after", true,
       [](const RowFacts& r) { return Shown{pays_text(r), key_of(r.pays_after)}; }},
      {"Output", false, [](const RowFacts& r) { return Shown{output_text(r)}; }},
      {"Spread", true,
       [](const RowFacts& r) {
         const bool known = r.timed() && std::isfinite(r.summary.cv);
         return Shown{known ? percent_text(r.summary.cv) : "", known ? r.summary.cv : std::nan(""),
                      "soft"};
       }},
  };
  return kFields;
}

/// Those that some row has something for.
std::vector<const Field*> fields_with_data(const std::vector<CaseFacts>& cases) {
  std::vector<const Field*> out;
  for (const Field& field : fields()) {
    const auto says = [&](const RowFacts& row) { return !field.show(row).text.empty(); };
    if (std::any_of(cases.begin(), cases.end(), [&](const CaseFacts& c) {
          return std::any_of(c.rows.begin(), c.rows.end(), says);
        }))
      out.push_back(&field);
  }
  return out;
}

std::string notes(const std::vector<CaseFacts>& cases) {
  std::string out;
  for (const Note& note : notes_of(cases))
    out += "<li><b>" + escape(note.about) + "</b> " + escape(note.text) + "</li>\n";
  return out.empty() ? "" : "<ul class=\"notes\">\n" + out + "</ul>\n";
}

std::string tally(const VariantScore& score) {
  std::string out;
  const std::pair<int, const char*> counts[] = {{score.faster, "faster"},
                                                {score.same, "same"},
                                                {score.slower, "slower"},
                                                {score.ambiguous, "ambiguous"},
                                                {score.without_time, "failed"}};
  for (const auto& [count, what] : counts) {
    if (count == 0) continue;
    const char* words =
        score.without_time == count && std::string(what) == "failed" ? "without a time" : what;
    out += std::string("<span class=\"verdict is-") + what + "\">" + std::to_string(count) + ' ' +
           words + "</span> ";
  }
  return out;
}

}  // namespace

std::string summary(const std::vector<CaseFacts>& cases) {
  const std::vector<const Field*> shown = fields_with_data(cases);
  std::string out =
      "<div class=\"scroll\"><table class=\"sortable\"><caption>Each case and variant: time, "
      "speed-up over the reference, verdict and cost</caption><thead><tr>" +
      header("Case", false) + header("Variant", false);
  for (const Field* field : shown) out += header(field->header, field->is_number);
  out += "</tr></thead>\n<tbody>\n";
  for (const CaseFacts& c : cases) {
    for (const RowFacts& row : c.rows) {
      out += std::string("<tr") + (&row == &c.rows.front() ? " class=\"first\"" : "") +
             "><th scope=\"row\">" + escape(c.name) + "</th><td>" + escape(row.row->variant) +
             "</td>";
      for (const Field* field : shown) out += cell(field->show(row), field->is_number);
      out += "</tr>\n";
    }
  }
  return out + "</tbody></table></div>\n" + notes(cases);
}

std::string score_tiles(const std::vector<CaseFacts>& cases) {
  std::string out;
  std::vector<VariantScore> all = scores(cases);
  std::stable_partition(all.begin(), all.end(), [](const auto& s) { return s.variant == "graft"; });
  for (const VariantScore& score : all) {
    out += "<div class=\"score\"><p class=\"who\">" + escape(score.variant) +
           "</p><p class=\"big\">" + ratio_text(score.mean_ratio) + "</p><p class=\"what\">";
    if (score.compared() > 0) {
      out += std::string(score.compared() == 1 ? "" : "geometric mean, ") + "against " +
             escape(score.reference.empty() ? "the reference" : score.reference) + ", " +
             count_text(static_cast<size_t>(score.compared()), "case");
    }
    out += "</p><p class=\"tally\">" + tally(score) + "</p></div>\n";
  }
  return out.empty() ? "" : "<div class=\"scores\">\n" + out + "</div>\n";
}

}  // namespace graft::lab::tables
