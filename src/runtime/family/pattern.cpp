#include "runtime/family/pattern.h"

#include <algorithm>

#include "runtime/key/numbers.h"

namespace graft::runtime {

namespace {

constexpr uint64_t kLargestSize = uint64_t{1} << 31;
constexpr size_t kMostSymbols = 3;

bool is_size(uint64_t word) {
  return word >= 2 && word < kLargestSize;
}

}  // namespace

bool same_kind(KeyWords a, KeyWords b) {
  if (a.size() != b.size() || a[0] != b[0]) return false;
  std::vector<bool> number(a.size(), false);
  for (const KeyNumber& found : numbers_of(a)) {
    if (found.place >= a.size()) return false;  // ranks differ
    number[found.place] = true;
  }
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(number[i] && is_size(a[i]) && is_size(b[i]))) return false;
  return true;
}

std::optional<Pattern> Pattern::of(std::span<const KeyWords> keys) {
  Pattern made;
  const KeyWords first = keys.front();
  made.words_.assign(first.begin(), first.end());
  made.varies_.resize(first.size(), false);
  std::vector<Point> points(keys.size());
  for (const KeyNumber& number : numbers_of(first)) {
    std::vector<int64_t> values;
    for (KeyWords key : keys) values.push_back(static_cast<int64_t>(key[number.place]));
    if (std::equal(values.begin() + 1, values.end(), values.begin())) continue;
    made.varies_[number.place] = true;
    std::optional<Formula> follows;
    if (!made.symbols_.empty()) follows = explain(points, values, ir::NumberKind::Exact);
    if (follows) {
      made.follows_.push_back({number.place, std::move(*follows), number.name});
      continue;
    }
    if (made.symbols_.size() == kMostSymbols) return std::nullopt;
    made.symbols_.push_back(number.place);
    made.symbol_names_.push_back(number.name);
    for (size_t k = 0; k < keys.size(); ++k) points[k].push_back(values[k]);
  }
  if (made.symbols_.empty() || keys.size() < made.symbols_.size() + 2) return std::nullopt;
  return made;
}

std::optional<Point> Pattern::match(KeyWords words) const {
  if (words.size() != words_.size()) return std::nullopt;
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] != words_[i] && !(varies_[i] && is_size(words[i]))) return std::nullopt;
  Point point;
  for (size_t place : symbols_) {
    if (!is_size(words[place])) return std::nullopt;
    point.push_back(static_cast<int64_t>(words[place]));
  }
  for (const Follows& number : follows_)
    if (number.formula.at(point) != static_cast<int64_t>(words[number.place])) return std::nullopt;
  return point;
}

std::vector<std::string> Pattern::names() const {
  std::vector<std::string> all;
  for (size_t k = 0; k < symbols_.size(); ++k)
    all.push_back(symbols_.size() == 1 ? "s" : "s" + std::to_string(k));
  return all;
}

std::string Pattern::text() const {
  const std::vector<std::string> all = names();
  std::string text;
  auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (size_t k = 0; k < symbols_.size(); ++k) add(all[k] + " is " + symbol_names_[k]);
  for (const Follows& number : follows_) add(number.name + " is " + number.formula.text(all));
  return text;
}

}  // namespace graft::runtime
