// What one run of `graft bench` found, and its two forms: a JSON file and a table.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace graft::cli {

struct VariantResult {
  std::string variant;  ///< "eager", "eager_pool", "graft", "hand"; "torch.compile", "graft_alone"
  std::vector<double> samples_ms;
  std::optional<double> first_call_ms;
  std::optional<double> compile_ms;
  std::optional<int64_t> kernels;
  std::optional<bool> bitwise;  ///< outputs against eager's
  std::optional<double> max_abs_diff;
  std::optional<double>
      fp64_error;       ///< relative to the largest value; known where some variant is not bitwise
  std::string verdict;  ///< graft's own; empty for others
  std::string reason;   ///< why the verdict, or why a peer has no samples
};

struct WorkloadResult {
  std::string name;
  std::vector<VariantResult> variants;
  /// Null if the variant did not run.
  const VariantResult* find(const std::string& variant) const;
};

/// {"schema_version", "context", "results": [a row a workload and variant]}; unknown numbers are
/// null.
nlohmann::json to_json(const std::vector<WorkloadResult>& results, int threads,
                       nlohmann::json context);
/// The table, its footer with geometric means, and the reasons of all that is not simply faster.
void print(std::ostream& out, const std::vector<WorkloadResult>& results, bool colour);

/// Throws UsageError now rather than after the run, if no file can be made there.
void check_writable(const std::string& path);
/// Writes to a temporary name beside `path`, then renames: a reader never sees half a file.
void write_file(const std::string& path, const std::string& content);

}  // namespace graft::cli
