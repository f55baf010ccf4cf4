// Which workloads a command runs, in which configurations.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graft/workload.h"

namespace graft::cli {

/// A workload in one configuration: the axes that a sweep sets. Other axes keep their defaults.
struct Case {
  const workloads::Workload* workload = nullptr;
  std::map<std::string, std::string> config;
  std::string name() const;  ///< as lab::Row::case_name
};

/// The workloads of a set, or of all where it is empty, whose name the regular expression matches
/// somewhere. Throws UsageError if none.
std::vector<const workloads::Workload*> chosen_workloads(const std::string& filter,
                                                         const std::string& set);

/// Every combination of the axes' values, for each workload over the axes that it has, in the given
/// order.
///   axes   "rows=64,128": the values to take
///   where  "rows<=1024", "heads=batch": combinations to keep; = != < <= > >=, against a value or
///          an axis
/// Throws UsageError for other text, and for an axis that no workload has.
std::vector<Case> cases_of(const std::vector<const workloads::Workload*>& workloads,
                           const std::vector<std::string>& axes,
                           const std::vector<std::string>& where);

}  // namespace graft::cli
