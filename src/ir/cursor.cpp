#include "ir/cursor.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "ir/parse.h"
#include "ir/text.h"

namespace graft::ir {

namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

}  // namespace

ParseError::ParseError(int line, int column, const std::string& what)
    : std::runtime_error("line " + std::to_string(line) + ", column " + std::to_string(column) +
                         ": " + what),
      line(line),
      column(column) {}

void Cursor::skip_spaces() {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
}

bool Cursor::at_end_of_line() {
  skip_spaces();
  return at_end() || text_[at_] == '\n';
}

bool Cursor::next_line() {
  while (at_end_of_line() && !at_end()) ++at_;
  size_t line = at_;
  while (line > 0 && text_[line - 1] != '\n') --line;
  indentation_ = static_cast<int>(at_ - line);
  return !at_end();
}

bool Cursor::sees(std::string_view token) {
  skip_spaces();
  if (!text_.substr(at_).starts_with(token)) return false;
  size_t end = at_ + token.size();
  return !in_word(token.back()) || end == text_.size() || !in_word(text_[end]);
}

bool Cursor::eat(std::string_view token) {
  if (!sees(token)) return false;
  at_ += token.size();
  return true;
}

void Cursor::expect(std::string_view token) {
  if (!eat(token)) fail_expected('"' + std::string(token) + '"');
}

bool Cursor::sees_digit() {
  skip_spaces();
  return !at_end() && is_digit(text_[at_]);
}

std::string_view Cursor::word() {
  skip_spaces();
  size_t end = at_;
  if (end < text_.size() && !is_digit(text_[end]))
    while (end < text_.size() && in_word(text_[end])) ++end;
  std::string_view found = text_.substr(at_, end - at_);
  at_ = end;
  return found;
}

std::string_view Cursor::word(const char* expected) {
  std::string_view found = word();
  if (found.empty()) fail_expected(expected);
  return found;
}

int64_t Cursor::integer(const char* expected) {
  skip_spaces();
  int64_t value = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) fail_at(at_, "the number needs more than 64 bits");
  if (error != std::errc()) fail_expected(expected);
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

int Cursor::index(const char* expected) {
  constexpr int64_t kMost = 1 << 20;
  size_t start = place();
  int64_t value = integer(expected);
  if (value < 0 || value > kMost)
    fail_at(start, "expected " + std::string(expected) + " from 0 to " + std::to_string(kMost) +
                       ", but found " + std::to_string(value));
  return static_cast<int>(value);
}

std::string_view Cursor::number() {
  size_t start = place();
  auto rest = [&] { return text_.substr(at_); };
  if (rest().starts_with("-")) ++at_;
  for (std::string_view name : {"inf", "true", "false"})
    if (eat(name)) return text_.substr(start, at_ - start);
  if (rest().starts_with("nan(0x")) {
    size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) fail_expected("nan(0x…) with its bits");
    at_ = end + 1;
    return text_.substr(start, at_ - start);
  }
  if (eat("nan")) return text_.substr(start, at_ - start);
  if (at_end() || !is_digit(text_[at_])) {
    at_ = start;
    fail_expected("a number");
  }
  while (!at_end() && (is_digit(text_[at_]) || text_[at_] == '.' || text_[at_] == 'e' ||
                       ((text_[at_] == '-' || text_[at_] == '+') && text_[at_ - 1] == 'e')))
    ++at_;
  return text_.substr(start, at_ - start);
}

std::string Cursor::quoted() {
  expect("\"");
  std::string out;
  for (;; ++at_) {
    if (at_end() || text_[at_] == '\n') fail_expected("the text's closing quote");
    if (text_[at_] == '"') break;
    if (text_[at_] != '\\') {
      out += text_[at_];
      continue;
    }
    ++at_;
    if (at_end()) fail_expected("a character behind the backslash");
    out += text_[at_] == 'n' ? '\n' : text_[at_];
  }
  ++at_;
  return out;
}

ScalarType Cursor::type() {
  size_t start = place();
  std::string_view name = word("a dtype, such as f32");
  auto type = type_named(name);
  if (!type)
    fail_at(start, "expected a dtype, such as f32, but found \"" + std::string(name) + "\"");
  return *type;
}

void Cursor::fail_expected(const std::string& expected) {
  skip_spaces();
  size_t end = at_;
  while (end < text_.size() && in_word(text_[end])) ++end;
  end = std::min(std::max(end, at_ + 1), text_.size());
  std::string found = at_end()             ? "the end of the text"
                      : text_[at_] == '\n' ? "the end of the line"
                                           : '"' + std::string(text_.substr(at_, end - at_)) + '"';
  fail_at(at_, "expected " + expected + ", but found " + found);
}

void Cursor::fail_at(size_t place, const std::string& what) const {
  std::string_view before = text_.substr(0, place);
  auto line = std::count(before.begin(), before.end(), '\n') + 1;
  size_t start = before.rfind('\n');
  size_t column = start == std::string_view::npos ? place + 1 : place - start;
  throw ParseError(static_cast<int>(line), static_cast<int>(column), what);
}

}  // namespace graft::ir
