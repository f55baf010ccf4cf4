// What a peer answers for a case.
#pragma once

#include <cstdint>
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

}  // namespace graft::cli
