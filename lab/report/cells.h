// Cells of the page's sortable tables.
#pragma once

#include <cmath>
#include <string>

namespace graft::lab::tables {

/// One cell: what is shown, and what a sort compares (NaN: the text).
struct Shown {
  std::string text;
  double key = std::nan("");
  std::string classes = "";
};

/// A td; numbers stand to the right.
std::string cell(const Shown& shown, bool is_number);
/// A th that sorts when clicked.
std::string header(const std::string& text, bool is_number);

}  // namespace graft::lab::tables
