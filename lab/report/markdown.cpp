#include "lab/report/markdown.h"

#include <algorithm>

#include "lab/gate.h"
#include "lab/report/section.h"
#include "lab/table.h"

namespace graft::lab {
namespace {

/// What would begin a tag, a link, code or emphasis, or end the cell, is taken as it is.
std::string plain_text(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool link = c == '(' && i > 0 && text[i - 1] == ']';
    if (c == '\n' || c == '\r' || c == '\t') {
      out += ' ';
    } else if (c == '<') {
      out += "&lt;";
    } else {
      if (link || c == '|' || c == '`' || c == '*' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out;
}

struct Grid {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

std::string padded(const std::string& text, size_t width, Align align) {
  const std::string pad(width - std::min(width, display_width(text)), ' ');
  return align == Align::Right ? pad + text : text + pad;
}

/// Columns without content are left out.
std::string to_markdown(const Grid& grid) {
  std::string head = "|", rule = "|";
  std::vector<std::string> lines(grid.rows.size(), "|");
  for (size_t i = 0; i < grid.columns.size(); ++i) {
    const Column& column = grid.columns[i];
    size_t content = 0;
    for (const auto& row : grid.rows) content = std::max(content, display_width(row[i]));
    if (content == 0) continue;
    const size_t width = std::max({content, display_width(column.header), size_t{3}});
    head += ' ' + padded(column.header, width, column.align) + " |";
    rule += ' ' + std::string(width - 1, '-') + (column.align == Align::Right ? ':' : '-') + " |";
    for (size_t row = 0; row < grid.rows.size(); ++row)
      lines[row] += ' ' + padded(grid.rows[row][i], width, column.align) + " |";
  }
  std::string out = head + '\n' + rule + '\n';
  for (const std::string& line : lines) out += line + '\n';
  return out;
}

std::string ratio_with_range(const Ratio& ratio) {
  return ratio_text(ratio.ratio) + ' ' + range_text(ratio);
}

Grid summary_grid(const std::vector<CaseFacts>& cases) {
  Grid grid{{{"case"},
             {"variant"},
             {"median", Align::Right},
             {"95 %", Align::Right},
             {"speed-up [95 %]", Align::Right},
             {"verdict"},
             {"class"},
             {"compiling", Align::Right},
             {"pays after", Align::Right},
             {"output"}},
            {}};
  for (const CaseFacts& c : cases) {
    for (const RowFacts& row : c.rows) {
      grid.rows.push_back(
          {plain_text(c.name), plain_text(row.row->variant),
           row.timed() ? time_text(row.summary.median) : "", interval_text(row.summary),
           row.against ? ratio_with_range(row.against->ratio) : "", verdict_text(row),
           class_text(row), row.row->compile_ms ? time_text(*row.row->compile_ms) : "",
           pays_text(row), output_text(row)});
    }
  }
  return grid;
}

Grid change_grid(const std::vector<GateRow>& rows) {
  Grid grid{{{"case"},
             {"variant"},
             {"before", Align::Right},
             {"after", Align::Right},
             {"change [95 %]", Align::Right},
             {"verdict"},
             {"why"}},
            {}};
  for (const GateRow& row : rows) {
    grid.rows.push_back({plain_text(row.case_name), plain_text(row.variant),
                         time_text(row.before_ms), time_text(row.after_ms),
                         (row.relative ? "\\* " : "") + ratio_with_range(row.change),
                         to_string(row.outcome), plain_text(row.why)});
  }
  return grid;
}

std::string changes(const NamedRun& before, const NamedRun& after) {
  const std::vector<GateRow> rows = gate(before.run, after.run);
  std::string out =
      "\n# From " + plain_text(before.name) + " to " + plain_text(after.name) + "\n\n";
  std::vector<GateRow> both;
  int only_before = 0, only_after = 0;
  for (const GateRow& row : rows) {
    const bool was = row.before_ms > 0, is = row.after_ms > 0;
    if (was && is) {
      both.push_back(row);
    } else {
      ++(was ? only_before : only_after);
    }
  }
  if (both.empty()) return out + "No case and variant has samples in both.\n";
  out += to_markdown(change_grid(both));
  if (only_before + only_after > 0)
    out += "\nOf the other rows " + std::to_string(only_before) + " have samples only in " +
           plain_text(before.name) + ", " + std::to_string(only_after) + " only in " +
           plain_text(after.name) + ".\n";
  if (std::any_of(rows.begin(), rows.end(), [](const GateRow& row) { return row.relative; }))
    out += "\n\\* change of the speed-up over the run's own reference.\n";
  const std::string difference = difference_of_contexts(before.run, after.run);
  if (!difference.empty())
    out += "\nThe runs are of different machines or builds (" + plain_text(difference) +
           "): what changed may be theirs.\n";
  return out;
}

/// "- graft against eager: 8.96x in the geometric mean; 10 faster, 1 same"
std::string score_lines(const std::vector<CaseFacts>& cases) {
  std::string out;
  for (const VariantScore& score : scores(cases)) {
    out += "- " + plain_text(score.variant);
    if (score.compared() > 0) {
      out += " against " +
             (score.reference.empty() ? "the reference" : plain_text(score.reference)) + ": " +
             ratio_text(score.mean_ratio) +
             (score.compared() > 1 ? " in the geometric mean;" : ";");
    } else {
      out += ':';
    }
    std::string counts;
    for (const auto& [count, what] : {std::pair(score.faster, "faster"),
                                      {score.same, "same"},
                                      {score.slower, "slower"},
                                      {score.ambiguous, "ambiguous"},
                                      {score.without_time, "without a time"}}) {
      if (count > 0) counts += (counts.empty() ? " " : ", ") + std::to_string(count) + ' ' + what;
    }
    out += counts + '\n';
  }
  return out.empty() ? "" : out + '\n';
}

std::string notes(const std::vector<CaseFacts>& cases) {
  std::string out;
  for (const Note& note : notes_of(cases))
    out += "- " + plain_text(note.about) + ": " + plain_text(note.text) + '\n';
  return out.empty() ? "" : "\nNotes:\n\n" + out;
}

std::string section_text(const Section& section) {
  Grid grid{section.table.columns(), {}};
  for (const std::vector<Cell>& row : section.table.rows()) {
    if (row.empty()) continue;
    std::vector<std::string> cells(grid.columns.size());
    for (size_t i = 0; i < std::min(row.size(), cells.size()); ++i)
      cells[i] = plain_text(row[i].text);
    grid.rows.push_back(std::move(cells));
  }
  std::string out = "## " + plain_text(section.title) + "\n\n";
  if (!section.says.empty()) out += plain_text(section.says) + "\n\n";
  if (!grid.rows.empty()) out += to_markdown(grid) + '\n';
  for (const std::string& note : section.notes) out += "- " + plain_text(note) + '\n';
  return out + (section.notes.empty() ? "" : "\n");
}

}  // namespace

std::string markdown_report(const std::vector<NamedRun>& runs) {
  std::string out;
  std::vector<std::vector<CaseFacts>> facts;
  for (const NamedRun& named : runs) {
    facts.push_back(facts_of(named.run));
    const std::vector<CaseFacts>& cases = facts.back();
    const std::string context = context_text(named.run.context);
    out += (out.empty() ? "# " : "\n# ") + plain_text(named.name) + "\n\n";
    if (!context.empty()) out += plain_text(context) + ".\n\n";
    const std::vector<Section> sections = sections_of(named.run.context);
    for (const Section& section : sections) out += section_text(section);
    if (!sections.empty() && !cases.empty()) out += "## Rows\n\n";
    if (cases.empty()) {
      out += "No cases.\n";
      continue;
    }
    out += score_lines(cases) + to_markdown(summary_grid(cases)) + notes(cases);
  }
  for (size_t i = 1; i < runs.size(); ++i) out += changes(runs[0], runs[i]);
  return out;
}

}  // namespace graft::lab
