#include "graft/workload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "workloads/region_cases.h"

namespace graft::workloads {
namespace {

std::vector<Workload>& registry() {
  static std::vector<Workload> all = [] {
    std::vector<Workload> cases = region_cases();
    for (const std::vector<Workload>& more :
         std::array{loop_cases(), wild_cases(), training_cases(), step_cases(), attention_cases(),
                    decode_cases(), model_cases(), llama_cases(), component_cases(),
                    language_model_cases()})
      cases.insert(cases.end(), more.begin(), more.end());
    return cases;
  }();
  return all;
}

}  // namespace

const std::string& Options::text(const std::string& axis) const {
  const auto found = config.find(axis);
  if (found == config.end())
    throw Error("the workload asks for an axis '" + axis + "' that it does not list");
  return found->second;
}

int64_t Options::integer(const std::string& axis) const {
  const std::string& value = text(axis);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size() && number >= 1) return number;
  throw Error("axis " + axis + ": came '" + value + "', expected a whole number of at least 1");
}

at::ScalarType Options::dtype(const std::string& axis) const {
  const std::string& value = text(axis);
  for (const auto& [name, type] : {std::pair("f64", at::kDouble),
                                   {"f32", at::kFloat},
                                   {"f16", at::kHalf},
                                   {"bf16", at::kBFloat16}})
    if (value == name) return type;
  throw Error("axis " + axis + ": came '" + value + "', expected one of f64, f32, f16, bf16");
}

Options Workload::resolved(const Options& options) const {
  Options resolved = options;
  for (const auto& [name, value] : options.config) {
    const auto same = [&, wanted = &name](const Axis& axis) { return axis.name == *wanted; };
    if (std::any_of(axes.begin(), axes.end(), same)) continue;
    std::string known;
    for (const Axis& axis : axes) known += (known.empty() ? "" : ", ") + axis.name;
    throw Error("workload " + this->name + " has no axis '" + name +
                "'; its axes are: " + (known.empty() ? "none" : known));
  }
  for (const Axis& axis : axes)
    resolved.config.emplace(axis.name, options.small ? axis.small : axis.value);
  return resolved;
}

Instance Workload::make(const Options& options) const {
  return build(resolved(options));
}

double Workload::peak(const Options& options) const {
  return peak_bytes ? peak_bytes(resolved(options)) : 0;
}

const std::vector<Workload>& workloads() {
  return registry();
}

void add(Workload workload) {
  if (find_workload(workload.name) != nullptr)
    throw Error("there is a workload named '" + workload.name + "' already");
  registry().push_back(std::move(workload));
}

const Workload* find_workload(std::string_view name) {
  for (const Workload& workload : workloads())
    if (workload.name == name) return &workload;
  return nullptr;
}

}  // namespace graft::workloads
