#include "lab/report/html.h"

#include <algorithm>

#include "lab/report/charts.h"
#include "lab/report/section.h"
#include "lab/report/style.h"
#include "lab/report/svg.h"
#include "lab/report/tables.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

using charts::Palette;
using svg::escape;

/// Sections, and links to those of the top level; one without content is left out.
class Page {
 public:
  void add(const std::string& id, int level, const std::string& title, const std::string& says,
           const std::string& content) {
    if (content.empty()) return;
    const std::string tag = 'h' + std::to_string(level);
    if (level == 2) link(id, title);
    body_ += "<section id=\"" + id + "\">\n<" + tag + '>' + escape(title) + "</" + tag + ">\n";
    if (!says.empty()) body_ += "<p class=\"says\">" + escape(says) + "</p>\n";
    body_ += content + "</section>\n";
  }
  void link(const std::string& id, const std::string& title) {
    links_ += "<a href=\"#" + id + "\">" + escape(title) + "</a>\n";
  }
  void raw(const std::string& html) { body_ += html; }
  std::string links() const { return "<nav aria-label=\"Sections\">\n" + links_ + "</nav>\n"; }
  const std::string& body() const { return body_; }

 private:
  std::string links_, body_;
};

std::string what_was_measured(const NamedRun& named, const std::vector<CaseFacts>& cases) {
  size_t samples = 0, without = 0;
  for (const Row& row : named.run.rows) {
    samples += row.samples_ms.size();
    without += row.status != Status::Ok;
  }
  std::string out = count_text(cases.size(), "case") + ", " +
                    count_text(named.run.rows.size(), "row") + ", " + count_text(samples, "sample");
  if (without > 0) out += "; " + std::to_string(without) + " without a time";
  return "<p class=\"lead\">" + escape(out) + "</p>\n<p class=\"machine\">" +
         escape(context_text(named.run.context)) + "</p>\n";
}

/// Explains the words that occur on the page.
std::string summary_says(const std::vector<CaseFacts>& cases) {
  for (const CaseFacts& c : cases) {
    for (const RowFacts& row : c.rows) {
      if (row.error_share && !row.row->bitwise.value_or(true))
        return "Output is set beside the reference's: the largest difference, and the error "
               "against "
               "fp64 in multiples of the reference's own.";
    }
  }
  return "";
}

std::string roofline_says(const nlohmann::json& context) {
  const bool limits = context.is_object() && context.contains("limits");
  return std::string("Computed, not measured: work counted from shapes over the measured median") +
         (limits ? "; the roof is what this machine reached in its own probe." : ".");
}

void add_sections(Page& page, const std::string& prefix, int level, const NamedRun& named,
                  const std::vector<CaseFacts>& cases, const Palette& palette) {
  const auto with_legend = [&](const std::string& charts) {
    return charts.empty() ? "" : palette.legend(cases) + charts;
  };
  for (const Section& section : sections_of(named.run.context))
    page.add(prefix + section.id, level, section.title, section.says, html_of(section));
  page.add(prefix + "summary", level, "Summary", summary_says(cases), tables::summary(cases));
  page.add(
      prefix + "speed-up", level, "Speed-up",
      "Ratio of medians to the case's reference, with its 95 % bootstrap interval. Right of 1x "
      "is faster.",
      charts::speed_up(cases, palette));
  page.add(
      prefix + "distributions", level, "Distributions",
      "Each point is a sample; thickness follows density. The line is the median, the box the "
      "middle half, hollow points are outliers by Tukey's fences. Where variants are far apart, "
      "each is shown in multiples of its own median.",
      charts::distributions(cases, palette));
  page.add(prefix + "scaling", level, "Scaling",
           "Median with its 95 % interval; both axes are logarithmic.",
           with_legend(charts::scaling(cases, palette)));
  page.add(prefix + "break-even", level, "Break-even",
           "Computed: total time after a number of calls, compiling included. Only what was found "
           "faster is shown; both axes are logarithmic.",
           with_legend(charts::break_even(cases, palette)));
  page.add(prefix + "roofline", level, "Roofline", roofline_says(named.run.context),
           with_legend(charts::roofline(cases, named.run.context, palette)));
  page.add(prefix + "memory", level, "Memory",
           "Peaks of one call. A bar's length is its share of the case's largest.",
           charts::memory(cases, palette));
}

std::string before_after_says(const Run& before, const Run& after) {
  const std::string difference = difference_of_contexts(before, after);
  return "Judged as 'graft compare' does: certain only beyond the noise of both runs. Changes with "
         "* "
         "are of the speed-up over the run's own reference, so that what slowed the whole machine "
         "cancels." +
         (difference.empty() ? ""
                             : " The runs are of different machines or builds (" + difference +
                                   "): what changed may be theirs.");
}

/// Within a script element nothing may look like its end.
std::string json_for_script(const nlohmann::json& json) {
  const std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

std::string raw_section(const std::vector<NamedRun>& runs) {
  std::string out;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string id = "run-" + std::to_string(i);
    if (runs.size() > 1) out += "<h3>" + escape(runs[i].name) + "</h3>\n";
    out += tables::raw(runs[i].run) + "<p><button type=\"button\" class=\"save\" data-run=\"" + id +
           "\" data-name=\"" + escape(runs[i].name) + ".json\">Save as JSON</button></p>\n" +
           "<script type=\"application/json\" id=\"" + id + "\">" +
           json_for_script(to_json(runs[i].run)) + "</script>\n";
  }
  return out;
}

std::string title_of(const std::vector<NamedRun>& runs) {
  if (runs.size() == 1) return runs[0].name;
  std::string out;
  for (const NamedRun& named : runs) out += (out.empty() ? "" : " and ") + named.name;
  return out;
}

}  // namespace

std::string html_report(const std::vector<NamedRun>& runs,
                        const std::vector<MemoryTimeline>& timelines) {
  std::vector<std::vector<CaseFacts>> facts;
  for (const NamedRun& named : runs) facts.push_back(facts_of(named.run));
  const Palette palette(facts);
  const bool several = runs.size() > 1;

  Page page;
  for (size_t i = 1; i < runs.size(); ++i) {
    const std::vector<GateRow> rows = gate(runs[0].run, runs[i].run);
    page.add(
        "change-" + std::to_string(i), 2, runs[0].name + " → " + runs[i].name,
        before_after_says(runs[0].run, runs[i].run),
        tables::tally_of(rows) + charts::before_after(rows, palette) + tables::before_after(rows));
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string prefix = several ? "r" + std::to_string(i) + '-' : "";
    if (several) {
      const std::string id = prefix + "run";
      page.link(id, runs[i].name);
      page.raw("<header class=\"run\" id=\"" + id + "\"><h2>" + escape(runs[i].name) + "</h2>\n" +
               what_was_measured(runs[i], facts[i]) + tables::score_tiles(facts[i]) +
               "</header>\n");
    }
    add_sections(page, prefix, several ? 3 : 2, runs[i], facts[i], palette);
  }
  page.add("memory-timeline", 2, "Memory over time",
           "Live tensors above what there was before; dashed, what the allocator held.",
           charts::timelines(timelines, palette));
  page.add("environment", 2, "Environment",
           several ? "Marked where a run differs from the first." : "", tables::environment(runs));
  page.add("raw", 2, "Raw samples", "", raw_section(runs));

  const std::string title = escape(title_of(runs));
  std::string out = page_start(title);
  out += svg::symbols() +
         "<header class=\"top\">\n<p class=\"eyebrow\">Graft laboratory</p>\n<h1>" + title +
         "</h1>\n";
  if (!several && !runs.empty())
    out += what_was_measured(runs[0], facts[0]) + tables::score_tiles(facts[0]);
  return out + page.links() + "</header>\n<main>\n" + page.body() + "</main>\n" + page_end();
}

}  // namespace graft::lab
