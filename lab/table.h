// Plain text tables for terminals and logs.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace graft::lab {

enum class Align { Left, Right };
enum class Style { Plain, Good, Bad, Dim, Bold };

struct Column {
  std::string header;
  Align align = Align::Left;
};

struct Cell {
  Cell(std::string content, Style look = Style::Plain) : text(std::move(content)), style(look) {}
  Cell(const char* content, Style look = Style::Plain) : text(content), style(look) {}
  std::string text;  ///< UTF-8, one line
  Style style;
};

/// Columns are two spaces apart, headers underlined. A row may leave out trailing columns.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void row(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }
  /// A horizontal line between the rows before and after.
  void rule() { rows_.emplace_back(); }
  bool empty() const { return rows_.empty(); }
  const std::vector<Column>& columns() const { return columns_; }
  /// An empty one is a rule.
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }
  void print(std::ostream& out, bool colour = false) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;  // an empty one is a rule
};

/// How many terminal cells UTF-8 text takes: 0 for combining marks, 2 for East Asian wide
/// characters and emoji.
size_t display_width(std::string_view utf8);
/// `text` in the style's ANSI colour; unchanged if not `colour`.
std::string styled(std::string_view text, Style style, bool colour);
/// Is the file descriptor a terminal that shows colour, with neither NO_COLOR nor TERM=dumb set?
bool colour_wanted(int fd);

}  // namespace graft::lab
