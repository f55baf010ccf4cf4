#include "cli/measure/sweep.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <regex>
#include <set>

#include "cli/frame/usage.h"
#include "lab/run.h"

namespace graft::cli {
namespace {

using workloads::Axis;
using workloads::Workload;

struct Sweep {
  std::string axis;
  std::vector<std::string> values;
};

Sweep parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  Sweep out{text.substr(0, equals), {}};
  std::string rest = equals == std::string::npos ? "" : text.substr(equals + 1);
  for (size_t begin = 0; begin <= rest.size();) {
    const size_t end = std::min(rest.find(',', begin), rest.size());
    out.values.push_back(rest.substr(begin, end - begin));
    begin = end + 1;
  }
  const bool empty =
      std::any_of(out.values.begin(), out.values.end(), [](const auto& v) { return v.empty(); });
  if (out.axis.empty() || out.values.empty() || empty)
    throw UsageError("--axis: came '" + text +
                     "', expected NAME=VALUE,VALUE,… such as rows=64,128");
  return out;
}

struct Condition {
  std::string axis, relation, other;
};

Condition parse_condition(const std::string& text) {
  static const std::regex form(R"(\s*(\w+)\s*(<=|>=|!=|==|=|<|>)\s*([\w.]+)\s*)");
  std::smatch match;
  if (!std::regex_match(text, match, form))
    throw UsageError("--where: came '" + text +
                     "', expected AXIS RELATION VALUE such as 'rows<=1024' or 'heads=batch'");
  return {match[1], match[2], match[3]};
}

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return std::nullopt;
}

const Axis* find_axis(const Workload& workload, const std::string& name) {
  for (const Axis& axis : workload.axes)
    if (axis.name == name) return &axis;
  return nullptr;
}

const std::string* value_of(const Case& c, const std::string& axis) {
  if (auto found = c.config.find(axis); found != c.config.end()) return &found->second;
  const Axis* known = find_axis(*c.workload, axis);
  return known == nullptr ? nullptr : &known->value;
}

template <class T>
bool holds(const T& a, const std::string& relation, const T& b) {
  if (relation == "<") return a < b;
  if (relation == "<=") return a <= b;
  if (relation == ">") return a > b;
  if (relation == ">=") return a >= b;
  return (a == b) == (relation != "!=");
}

bool holds(const Case& c, const Condition& condition) {
  const std::string* left = value_of(c, condition.axis);
  if (left == nullptr) return true;  // says nothing of this workload
  const std::string* axis = value_of(c, condition.other);
  const std::string& right = axis == nullptr ? condition.other : *axis;
  const auto a = as_number(*left), b = as_number(right);
  return a && b ? holds(*a, condition.relation, *b) : holds(*left, condition.relation, right);
}

std::vector<std::string> axis_names(const std::vector<const Workload*>& workloads) {
  std::set<std::string> names;
  for (const Workload* workload : workloads)
    for (const Axis& axis : workload->axes) names.insert(axis.name);
  return {names.begin(), names.end()};
}

void check_known(const char* flag, const std::string& axis, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), axis) != known.end()) return;
  throw UsageError(std::string(flag) + ": no chosen workload has an axis '" + axis + "'; " +
                   did_you_mean(axis, known) + " 'graft list' shows each workload's.");
}

}  // namespace

std::string Case::name() const {
  lab::Row row;
  row.name = workload->name;
  row.config = config;
  return row.case_name();
}

std::vector<const Workload*> chosen_workloads(const std::string& filter, const std::string& set) {
  std::vector<const Workload*> out;
  std::vector<std::string> names;
  std::string elsewhere;
  const std::regex pattern =
      pattern_of("--filter", filter, "'rope|softmax'. 'graft list' shows the names.");
  for (const Workload& workload : workloads::workloads()) {
    const bool matches = std::regex_search(workload.name, pattern);
    if (!set.empty() && workload.set != set) {
      if (matches && elsewhere.empty()) elsewhere = workload.set;
      continue;
    }
    names.push_back(workload.name);
    if (matches) out.push_back(&workload);
  }
  if (!out.empty()) return out;
  if (!elsewhere.empty())
    throw UsageError("--filter: no workload of set '" + set + "' matches '" + filter +
                     "', but one of set '" + elsewhere + "' does; choose it with --set " +
                     elsewhere + '.');
  throw UsageError("--filter: no workload matches '" + filter + "'; " +
                   did_you_mean(filter, names) + " 'graft list' shows all.");
}

std::vector<Case> cases_of(const std::vector<const Workload*>& workloads,
                           const std::vector<std::string>& axes,
                           const std::vector<std::string>& where) {
  const std::vector<std::string> known = axis_names(workloads);
  std::vector<Sweep> sweeps;
  for (const std::string& text : axes) {
    sweeps.push_back(parse_axis(text));
    check_known("--axis", sweeps.back().axis, known);
  }
  std::vector<Condition> conditions;
  for (const std::string& text : where) {
    conditions.push_back(parse_condition(text));
    check_known("--where", conditions.back().axis, known);
  }
  std::vector<Case> out;
  for (const Workload* workload : workloads) {
    std::vector<Case> grown{{workload, {}}};
    for (const Sweep& sweep : sweeps) {
      if (find_axis(*workload, sweep.axis) == nullptr) continue;
      std::vector<Case> next;
      for (const Case& c : grown)
        for (const std::string& value : sweep.values) {
          next.push_back(c);
          next.back().config[sweep.axis] = value;
        }
      grown = std::move(next);
    }
    for (Case& c : grown)
      if (std::all_of(conditions.begin(), conditions.end(),
                      [&](const Condition& condition) { return holds(c, condition); }))
        out.push_back(std::move(c));
  }
  if (out.empty()) throw UsageError("--where: no case is left; relax a condition.");
  return out;
}

}  // namespace graft::cli
