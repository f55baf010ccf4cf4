// The results of a run of the laboratory, and their file: JSON with a schema version that keeps
// every sample, so that any number in a table or a report can be computed again.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lab/verdict.h"

namespace graft::lab {

inline constexpr int kSchemaVersion = 1;

enum class Status {
  Ok,
  Failed,   ///< threw; `error` is the text
  Crashed,  ///< its process ended by a signal
  Timeout,  ///< took longer than its time limit
  Skipped,  ///< could not run here; `error` says what to install or change
};
const char* to_string(Status status);

/// The work of one call, computed from shapes; 0: not known.
struct Work {
  double flops = 0;
  double bytes = 0;      ///< the least that must be read and written
  double functions = 0;  ///< values of exp, log, tanh, … (lab/functions.h)
  double samples = 0;    ///< items of a batch
  double tokens = 0;
};

/// The memory use of one call, measured; -1: not known.
struct MemoryUse {
  int64_t peak_allocated = -1;  ///< most bytes of live tensors, above those before the call
  int64_t peak_reserved = -1;   ///< most bytes that the allocator held for them
  int64_t peak_resident = -1;   ///< growth of the process over the call
};

/// One variant of one workload in one configuration.
struct Row {
  std::string name;                           ///< of the workload
  std::string variant;                        ///< "eager", "graft", …
  std::map<std::string, std::string> config;  ///< axis → value
  int threads = 0;
  Status status = Status::Ok;
  std::string error;
  std::vector<double> samples_ms;  ///< per call; one value per sample, in the order taken
  int batch = 1;                   ///< calls in a sample
  int warmup_calls = 0;            ///< calls before the first sample
  bool steady = true;              ///< the steady state was seen before the warm-up's time limit
  bool isolated = false;           ///< not measured in turns with others
  std::optional<double> first_call_ms;  ///< of the cold first call
  /// From the first call until its verdict was final: recording, compiling, the calls meanwhile.
  std::optional<double> warmup_ms;
  std::optional<double> compile_ms;
  std::optional<int64_t> kernels;
  std::optional<bool> bitwise;  ///< outputs against the reference's
  std::optional<double> max_abs_diff;
  std::optional<double> fp64_error;  ///< relative to the largest value
  std::string verdict;               ///< the compiler's; empty for other variants
  std::string reason;                ///< the reason of the verdict
  Work work;
  MemoryUse memory;

  /// Name and configuration, "rope_f32" or "matmul[m=64,n=32]". Rows of one case are compared.
  std::string case_name() const;
};

/// Compares samples in pairs if the two rows were measured in turns, independently if not.
Judgement judge(const Row& reference, const Row& row);

struct Run {
  nlohmann::json context;  ///< the machine, the build, the date, the options
  std::vector<Row> rows;
  /// The row that the case's other rows are compared with: "eager", or the first.
  const Row* reference(const std::string& case_name) const;
  /// What this row is compared with. A row that was measured alone (isolated) has the eager that
  /// was measured alone as well: in turns, each variant leaves the next one cold caches. Without
  /// such an eager, the case's reference. The row itself where it is the reference.
  const Row* reference(const Row& row) const;
  const Row* find(const std::string& case_name, const std::string& variant) const;
  /// In the order of the rows.
  std::vector<std::string> cases() const;
};

/// A file that is not a run. The text names the file, what came, what was expected and what to do.
class RunFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// With statistics, rows carry `stats` and, where the reference ran, `ratio`, for other programs to
/// read. Computing them takes a tenth of a second per row: a file that is rewritten often may leave
/// them out.
nlohmann::json to_json(const Run& run, bool with_statistics = true);
Run run_from_json(const nlohmann::json& json, const std::string& where);
/// Throws RunFileError for a schema newer than this program's, for text that is cut off, and for
/// rows that lack required fields.
Run read_run(const std::string& path);
}  // namespace graft::lab
