// Cells of the page's sortable tables.
#pragma once

#include <cmath>
#include <string>

namespace graft::lab::tables {

/// One cell: the text shown, and the number that sorting compares (NaN: it compares the text).
struct Shown {
  std::string text;
  double key = std::nan("");
  std::string classes = "";
};

/// A <td>; numbers are right-aligned.
std::string cell(const Shown& shown, bool is_number);
/// A <th> that sorts the table when clicked.
std::string header(const std::string& text, bool is_number);

}  // namespace graft::lab::tables
