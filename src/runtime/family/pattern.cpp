#include "runtime/family/pattern.h"

#include <algorithm>
#include <map>

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
  made.same_.resize(first.size(), ~uint64_t{0});
  std::vector<Point> points(keys.size());
  std::map<std::vector<int64_t>, uint32_t> known;  // formulas, by their values
  for (const KeyNumber& number : numbers_of(first)) {
    std::vector<int64_t> values;
    for (KeyWords key : keys) values.push_back(static_cast<int64_t>(key[number.place]));
    if (std::equal(values.begin() + 1, values.end(), values.begin())) continue;
    made.same_[number.place] = 0;
    auto follows = known.find(values);
    if (follows == known.end() && !made.symbols_.empty())
      if (auto formula = explain(points, values, ir::NumberKind::Exact))
        follows = known.emplace(values, made.formulas_.add(std::move(*formula))).first;
    if (follows != known.end()) {
      made.follows_.emplace_back(static_cast<uint32_t>(number.place), follows->second);
      made.follow_names_.push_back(number.name);
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
  uint64_t other = 0;
  for (size_t i = 0; i < words.size(); ++i) other |= (words[i] ^ words_[i]) & same_[i];
  if (other != 0) return std::nullopt;
  Point point;
  for (size_t place : symbols_) {
    if (!is_size(words[place])) return std::nullopt;
    point.push_back(static_cast<int64_t>(words[place]));
  }
  Formulas::Values values;
  if (!formulas_.at(point, values)) return std::nullopt;
  for (int64_t value : values)
    if (!is_size(static_cast<uint64_t>(value))) return std::nullopt;
  for (auto [place, formula] : follows_)
    if (words[place] != static_cast<uint64_t>(values[formula])) return std::nullopt;
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
  for (size_t k = 0; k < follows_.size(); ++k)
    add(follow_names_[k] + " is " + formulas_[follows_[k].second].text(all));
  return text;
}

}  // namespace graft::runtime
