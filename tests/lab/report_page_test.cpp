// The page and the text of a run: which sections they have, and that nothing from a file can leave
// its place in them.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lab/report/html.h"
#include "lab/report/markdown.h"
#include "lab/report/section.h"
#include "tests/lab/report_runs.h"

namespace graft::lab {
namespace {

MemoryTimeline one_timeline(const std::string& title, const std::string& variant) {
  return {title, {{variant, {{0, 0, 0}, {0.1, 4096, 8192}}}}};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

/// Empty if every element is closed in order, else what is wrong. Attributes must be quoted.
std::string unbalanced(const std::string& html) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at)) {
    size_t end = at + 1;
    for (bool quoted = false; end < html.size() && (quoted || html[end] != '>'); ++end)
      quoted ^= html[end] == '"';
    if (end >= html.size()) return "a tag without an end: " + html.substr(at, 40);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" \n"));
    at = end;
    if (tag[0] == '!' || tag.back() == '/' || name == "meta" || name == "link") continue;
    if (tag[0] != '/') {
      open.push_back(name);
      if (name == "script" || name == "style") at = html.find("</" + name + '>', end);
    } else if (open.empty() || '/' + open.back() != name) {
      return tag + " closes " + (open.empty() ? "nothing" : open.back()) + " near " +
             html.substr(end > 80 ? end - 80 : 0, 80);
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

std::set<std::string> sections(const std::string& html) {
  std::set<std::string> out;
  const std::string mark = "<section id=\"";
  for (size_t at = html.find(mark); at != std::string::npos; at = html.find(mark, at + 1)) {
    const size_t start = at + mark.size();
    out.insert(html.substr(start, html.find('"', start) - start));
  }
  return out;
}

TEST(Report, FindsWhatAnUnbalancedPageLacks) {
  EXPECT_EQ(unbalanced("<!DOCTYPE html><p a=\"x>y\">t<b>u</b></p>"), "");
  EXPECT_NE(unbalanced("<p><b></p></b>"), "");
  EXPECT_NE(unbalanced("<p>"), "");
}

TEST(Report, SectionsFollowTheData) {
  lab::Run run = small_run();
  const std::set<std::string> plain{"summary",    "speed-up",    "distributions",
                                    "break-even", "environment", "raw"};
  EXPECT_EQ(sections(html_report({{"run", run}})), plain);

  for (Row& row : run.rows) {
    row.work = {.flops = 1e6, .bytes = 1e5};
    row.memory.peak_allocated = 1 << 20;
    row.config["n"] = "8";
  }
  for (int i = 0; i < 4; ++i) {
    run.rows.push_back(run.rows[static_cast<size_t>(i)]);
    run.rows.back().config["n"] = "32";
  }
  std::set<std::string> more = plain;
  more.insert({"scaling", "roofline", "memory"});
  const std::string without_limits = html_report({{"run", run}});
  EXPECT_EQ(sections(without_limits), more);
  EXPECT_FALSE(has(without_limits, "Roofline: computed"));  // the table alone
  run.context["limits"] = {{"bytes_per_s", 1e10}, {"flops_per_s", 1e11}};
  const std::string page = html_report({{"run", run}}, {one_timeline("rope", "eager")});
  more.insert("memory-timeline");
  EXPECT_EQ(sections(page), more);
  EXPECT_TRUE(has(page, "Roofline: computed"));
  EXPECT_EQ(unbalanced(page), "");
  for (const std::string& id : more) EXPECT_TRUE(has(page, "href=\"#" + id + '"')) << id;

  run.context = nlohmann::json::object();
  run.rows = {row_of("rope", "eager", 1)};  // nothing to compare it with
  EXPECT_EQ(sections(html_report({{"run", run}})),
            (std::set<std::string>{"summary", "distributions", "raw"}));
}

TEST(Report, PageStandsAlone) {
  const std::string page = html_report({{"run", small_run()}});
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0u);
  for (const char* part : {"http:", "https:", "src=", "@import", "url("})
    EXPECT_FALSE(has(page, part)) << part;
  EXPECT_TRUE(has(page, "name=\"viewport\""));
  EXPECT_TRUE(has(page, "prefers-color-scheme: dark"));
  EXPECT_EQ(count(page, "<svg class=\"chart"), count(page, "role=\"img\" aria-label=\""));
  EXPECT_FALSE(has(page, "nan"));
  EXPECT_TRUE(has(page, "4.00x"));
  EXPECT_TRUE(has(page, "pays after 10 calls"));
}

TEST(Report, NothingFromAFileLeavesItsPlace) {
  const std::string evil = "</script><img src=x onerror=\"alert(1)\">'&\x01|`";
  lab::Run run = small_run();
  for (Row& row : run.rows) row.name = evil, row.verdict = evil, row.reason = evil;
  run.rows[1].variant = evil;
  run.rows[1].config[evil] = evil;
  run.rows[3].status = Status::Failed;
  run.rows[3].error = evil;
  run.context[evil] = {{evil, evil}};
  run.context["cpu"] = evil;
  const std::string page = html_report({{evil, run}, {evil, run}}, {one_timeline(evil, evil)});
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_EQ(count(page, "<img"), 0u);
  EXPECT_EQ(count(page, "<script"), 3u);  // two runs' JSON, and the page's own
  EXPECT_EQ(count(page, "</script"), 3u);
  EXPECT_FALSE(has(page, "\x01"));
  const std::string text = markdown_report({{evil, run}, {evil, run}});
  EXPECT_EQ(count(text, "<"), 0u);
  EXPECT_EQ(count(text, "`"), count(text, "\\`"));
}

TEST(Report, EmbeddedJsonIsTheRun) {
  lab::Run run = small_run();
  run.rows[0].name = "<b>&";
  const std::string page = html_report({{"run", run}});
  const std::string mark = "id=\"run-0\">";
  const size_t start = page.find(mark) + mark.size();
  const auto json =
      nlohmann::json::parse(page.substr(start, page.find("</script>", start) - start));
  EXPECT_EQ(json, to_json(run));
}

TEST(Report, SurvivesOddValues) {
  lab::Run run;
  run.context = nullptr;
  run.rows = {row_of("zero", "eager", 0), row_of("zero", "graft", 1), row_of("one", "eager", 1)};
  run.rows[0].samples_ms = {0, 0, 0};
  run.rows[2].samples_ms = {1e300};
  run.rows.push_back(row_of("tiny", "eager", 1e-9));
  run.rows.push_back(row_of("tiny", "graft", 1e9));
  const std::string page = html_report({{"odd", run}});
  EXPECT_EQ(unbalanced(page), "");
  for (const char* part : {"\"nan", "\"inf", "\"-inf", "nan%", "inf%"})
    EXPECT_FALSE(has(page, part)) << part;
  EXPECT_EQ(unbalanced(html_report({{"empty", lab::Run{}}})), "");
  EXPECT_EQ(markdown_report({{"empty", lab::Run{}}}), "# empty\n\nNo cases.\n");
}

TEST(Report, SeveralRunsAreSetBesideTheFirst) {
  lab::Run after = small_run();
  after.rows[3].samples_ms = around(1.5);
  after.rows.push_back(row_of("new", "eager", 1));
  const std::string page = html_report({{"before", small_run()}, {"after", after}});
  EXPECT_EQ(unbalanced(page), "");
  const std::set<std::string> found = sections(page);
  for (const char* id : {"change-1", "r0-summary", "r1-summary", "environment"})
    EXPECT_TRUE(found.count(id) > 0) << id;
  EXPECT_TRUE(has(page, "1 new"));
  const std::string text = markdown_report({{"before", small_run()}, {"after", after}});
  EXPECT_TRUE(has(text, "# From before to after")) << text;
  EXPECT_TRUE(has(text, "2.00x")) << text;
  EXPECT_TRUE(has(text, "0 have samples only in before, 1 only in after")) << text;
}

TEST(Report, MarkdownSaysWhatFailedAndWhatIsAmbiguous) {
  lab::Run run = small_run();
  run.rows[1].samples_ms = {1, 100, 1, 100, 1, 100, 1};
  run.rows[3].samples_ms.clear();
  run.rows[3].status = Status::Skipped;
  run.rows[3].error = "no torch: pip install torch";
  run.rows[2].steady = false;
  const std::string text = markdown_report({{"run", run}});
  EXPECT_TRUE(has(text, "a CPU, 2 threads, torch 2.11.0.")) << text;
  EXPECT_TRUE(has(text, "- sum, graft: no torch: pip install torch")) << text;
  EXPECT_TRUE(has(text, "- Ambiguous; more samples may tell: rope, graft [")) << text;
  EXPECT_TRUE(has(text, "- Times had not settled when the samples began: sum (eager)")) << text;
  std::set<size_t> bars;  // every line of the table has as many cells
  for (size_t at = text.find("\n|"); at != std::string::npos; at = text.find("\n|", at + 1)) {
    const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    bars.insert(count(line, "|"));
  }
  EXPECT_EQ(bars.size(), 1u);
}

Section one_section() {
  Section out{"sizes", "By <size>", "What & why."};
  out.table = Table({{"name"}, {"ms", Align::Right}});
  out.table.row({"a|b <i>", Cell("1.5", Style::Good)});
  out.table.rule();
  out.table.row({"c"});
  out.figures.push_back({"Bars & more", {"one", "two"}, {{"x", {}, {1, NAN}}}, "", "ms"});
  out.figures.push_back({"Lines", {}, {{"loss", {{1, 4}, {2, 2}}}}, "step", "", false, true});
  out.notes.push_back("a <note>");
  return out;
}

TEST(ReportPage, AnExperimentsSectionsComeFirst) {
  lab::Run run = small_run();
  run.context["sections"] = nlohmann::json::array({to_json(one_section())});
  const std::string page = html_report({{"run", run}});
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_TRUE(sections(page).contains("sizes"));
  EXPECT_LT(page.find("id=\"sizes\""), page.find("id=\"summary\""));
  for (const char* text : {"By &lt;size&gt;", "a|b &lt;i&gt;", "Bars &amp; more", "a &lt;note&gt;"})
    EXPECT_TRUE(has(page, text)) << text;
  EXPECT_EQ(count(page, "<figure"), count(html_report({{"run", small_run()}}), "<figure") + 2);
  const std::string text = markdown_report({{"run", run}});
  EXPECT_TRUE(has(text, "## By &lt;size>")) << text;
  EXPECT_TRUE(has(text, "a\\|b &lt;i>")) << text;
}

TEST(ReportPage, ASectionIsReadAsItWasWritten) {
  const nlohmann::json written = to_json(one_section());
  EXPECT_EQ(to_json(section_from_json(written)), written);
  EXPECT_TRUE(sections_of(nlohmann::json()).empty());
  EXPECT_THROW(section_from_json({{"id", "x"}}), nlohmann::json::exception);
}

}  // namespace
}  // namespace graft::lab
