#include "lab/table.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ostream>

namespace graft::lab {
namespace {

struct Range {
  uint32_t first, last;
};
// What a table of ours may hold; not the whole of Unicode's East Asian Width.
constexpr Range kZeroWidth[] = {
    {0x300, 0x36F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}};
constexpr Range kWide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},  {0x3041, 0xA4CF},
                           {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},  {0xFE30, 0xFE6F},
                           {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},  {0x1F300, 0x1F64F},
                           {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

template <size_t N>
bool in(uint32_t code, const Range (&ranges)[N]) {
  return std::any_of(ranges, ranges + N,
                     [&](Range r) { return r.first <= code && code <= r.last; });
}

/// The code point at `at`, which moves past it. A malformed byte counts as one character.
uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
  uint32_t code = more == 0 ? lead : lead & (0x3F >> more);
  for (int i = 0; i < more && at < text.size() && (text[at] & 0xC0) == 0x80; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[at++]) & 0x3F);
  }
  return code;
}

void print_padded(std::ostream& out, const Cell& cell, size_t width, Align align, bool last,
                  bool colour) {
  const size_t used = display_width(cell.text);
  const std::string pad(width > used ? width - used : 0, ' ');
  if (align == Align::Right) out << pad;
  out << styled(cell.text, cell.style, colour);
  if (align == Align::Left && !last) out << pad;  // no blanks at a line's end
}

}  // namespace

size_t display_width(std::string_view utf8) {
  size_t width = 0;
  for (size_t at = 0; at < utf8.size();) {
    const uint32_t code = next_code_point(utf8, at);
    if (in(code, kZeroWidth)) continue;
    width += in(code, kWide) ? 2 : 1;
  }
  return width;
}

std::string styled(std::string_view text, Style style, bool colour) {
  const char* code = style == Style::Good   ? "\x1b[32m"
                     : style == Style::Bad  ? "\x1b[31m"
                     : style == Style::Dim  ? "\x1b[2m"
                     : style == Style::Bold ? "\x1b[1m"
                                            : nullptr;
  if (!colour || code == nullptr || text.empty()) return std::string(text);
  return code + std::string(text) + "\x1b[0m";
}

bool colour_wanted(int fd) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  if (term == nullptr || std::strcmp(term, "dumb") == 0) return false;
  return isatty(fd) == 1;
}

void Table::print(std::ostream& out, bool colour) const {
  std::vector<size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.header));
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i].text));
    }
  }
  const auto line = [&](const std::vector<Cell>& cells) {
    const size_t count = std::min(cells.size(), columns_.size());
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out << "  ";
      print_padded(out, cells[i], widths[i], columns_[i].align, i + 1 == count, colour);
    }
    out << '\n';
  };
  const auto rule = [&] {
    std::string dashes;
    for (size_t i = 0; i < widths.size(); ++i) {
      if (i > 0) dashes += "  ";
      for (size_t j = 0; j < widths[i]; ++j) dashes += "─";
    }
    out << styled(dashes, Style::Dim, colour) << '\n';
  };
  std::vector<Cell> headers;
  for (const Column& column : columns_) headers.emplace_back(column.header, Style::Bold);
  line(headers);
  rule();
  for (const auto& row : rows_) row.empty() ? rule() : line(row);
}

}  // namespace graft::lab
