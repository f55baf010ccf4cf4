#include <algorithm>
#include <map>
#include <stdexcept>

#include "runtime/family/family.h"

namespace graft::runtime {

FreeProgram::FreeProgram(std::vector<std::string> names, std::span<const Point> points,
                         std::span<const ir::Program* const> programs)
    : names_(std::move(names)), program_(*programs.front()) {
  std::vector<ir::Numbers> numbers;
  for (const ir::Program* program : programs) numbers.push_back(ir::numbers_of(*program));
  for (size_t k = 1; k < numbers.size(); ++k) {
    if (numbers[k].same_structure(numbers[0])) continue;
    throw std::runtime_error(
        "the function did something else at other sizes: " +
        std::to_string(programs[0]->items.size()) + " operators at " + list(points[0]) + ", " +
        std::to_string(programs[k]->items.size()) + " at " + list(points[k]) +
        (programs[0]->items.size() == programs[k]->items.size() ? ", not the same ones" : ""));
  }
  values_ = numbers[0].values;
  kinds_ = numbers[0].kinds;
  std::map<std::vector<int64_t>, uint32_t> known;
  std::vector<int64_t> values(points.size());
  for (uint32_t i = 0; i < values_.size(); ++i) {
    for (size_t k = 0; k < numbers.size(); ++k) values[k] = numbers[k].values[i];
    positive_.push_back(numbers[0].kinds[i] == ir::NumberKind::Exact &&
                        *std::min_element(values.begin(), values.end()) >= 2);
    if (std::equal(values.begin() + 1, values.end(), values.begin())) continue;
    auto [found, fresh] = known.try_emplace(values, static_cast<uint32_t>(formulas_.size()));
    if (fresh) {
      auto formula = explain(points, values, numbers[0].kinds[i]);
      if (!formula) {
        std::string at;
        for (const Point& point : points) at += (at.empty() ? "" : "; ") + list(point);
        throw std::runtime_error("a number of the program is " + list(values) +
                                 ", which does not follow the sizes " + at);
      }
      formulas_.push_back(std::move(*formula));
    }
    follows_.emplace_back(i, found->second);
  }
}

ir::Program FreeProgram::at(std::span<const int64_t> point) const {
  std::vector<int64_t> values = values_, of;
  for (const Formula& formula : formulas_) {
    auto value = formula.at(point);
    if (!value)
      throw std::runtime_error(formula.text(names_) + " is no whole number at " + list(point));
    of.push_back(*value);
  }
  for (auto [place, formula] : follows_) {
    values[place] = of[formula];
    if (positive_[place] && values[place] < 2)
      throw std::runtime_error(formulas_[formula].text(names_) + " is " +
                               std::to_string(values[place]) + " at " + list(point));
  }
  ir::Program made = program_;
  ir::Replace replace(values);
  ir::visit(made, replace);
  if (std::string wrong = ir::verify(made); !wrong.empty())
    throw std::runtime_error("no program at " + list(point) + ": " + wrong);
  return made;
}

std::vector<Formula> FreeProgram::formulas() const {
  std::vector<Formula> whole;
  for (const Formula& formula : formulas_)
    if (formula.form == Formula::Form::Integer && formula.divisor == 1) whole.push_back(formula);
  return whole;
}

std::set<int64_t> FreeProgram::constants() const {
  std::vector<bool> varies(values_.size(), false);
  for (auto [place, formula] : follows_) varies[place] = true;
  std::set<int64_t> found;
  for (size_t i = 0; i < values_.size(); ++i)
    if (!varies[i] && kinds_[i] == ir::NumberKind::Exact && values_[i] >= 2)
      found.insert(values_[i]);
  return found;
}

std::string FreeProgram::text() const {
  std::vector<size_t> counts(formulas_.size(), 0);
  for (auto [place, formula] : follows_) ++counts[formula];
  std::map<std::string, size_t> by_text;
  for (size_t k = 0; k < formulas_.size(); ++k) by_text[formulas_[k].text(names_)] += counts[k];
  std::string text;
  for (const auto& [formula, count] : by_text)
    text += (text.empty() ? "" : ", ") + formula +
            (count == 1 ? "" : " (" + std::to_string(count) + " times)");
  return text;
}

}  // namespace graft::runtime
