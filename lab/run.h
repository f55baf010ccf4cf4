// What a run of the laboratory found, and its file: JSON with a schema version that keeps every
// sample, so that any number in a table or a report can be computed again. Rows are written as they
// come.
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
  Failed,   ///< threw; `error` says what
  Crashed,  ///< its process ended by a signal
  Timeout,  ///< took longer than it was given
  Skipped,  ///< could not run here; `error` says what to install or change
};
const char* to_string(Status status);

/// Of one call, computed from shapes rather than measured; 0: not known.
struct Work {
  double flops = 0;
  double bytes = 0;    ///< that must be read and written at least
  double samples = 0;  ///< items of a batch
  double tokens = 0;
};

/// Of one call, measured; -1: not known.
struct MemoryUse {
  int64_t peak_allocated = -1;  ///< bytes of live tensors at most, above those before the call
  int64_t peak_reserved = -1;   ///< bytes that the allocator held for them at most
  int64_t peak_resident = -1;   ///< of the process, growth over the call
};

/// One variant of one workload in one configuration.
struct Row {
  std::string name;                           ///< of the workload
  std::string variant;                        ///< "eager", "graft", …
  std::map<std::string, std::string> config;  ///< axis → value
  int threads = 0;
  Status status = Status::Ok;
  std::string error;
  std::vector<double> samples_ms;  ///< per call; one value a sample, in the order taken
  int batch = 1;                   ///< calls in a sample
  int warmup_calls = 0;            ///< until the steady state was seen
  bool steady = true;              ///< was it seen before patience ended?
  bool isolated = false;           ///< not in turns with others: in a process of its own, or alone
  std::optional<double> first_call_ms;  ///< cold
  std::optional<double> compile_ms;
  std::optional<int64_t> kernels;
  std::optional<bool> bitwise;  ///< outputs against the reference's
  std::optional<double> max_abs_diff;
  std::optional<double> fp64_error;  ///< relative to the largest value
  std::string verdict;               ///< the compiler's own; empty for others
  std::string reason;                ///< of the verdict
  Work work;
  MemoryUse memory;

  /// Name and configuration: rows of one case are compared. "rope_f32", "matmul[m=64,n=32]".
  std::string case_name() const;
};

/// In pairs where the two were measured in turns, independently where not.
Judgement judge(const Row& reference, const Row& row);

struct Run {
  nlohmann::json context;  ///< the machine, the build, the date, the options
  std::vector<Row> rows;
  /// The variant that others are compared with in each case: "eager", or the first.
  const Row* reference(const std::string& case_name) const;
  const Row* find(const std::string& case_name, const std::string& variant) const;
  /// In the order of the rows.
  std::vector<std::string> cases() const;
};

/// A file that is not a run: which, what came, what was expected, what to do.
class RunFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Rows carry `stats` and, where the reference ran, `ratio` for other programs to read; both are
/// computed from the samples, which takes a tenth of a second a row: a file that is written again
/// and again may do without.
nlohmann::json to_json(const Run& run, bool with_statistics = true);
Run run_from_json(const nlohmann::json& json, const std::string& where);
/// Refuses a schema that is newer than this program's, text that is cut off, and rows without what
/// every row has.
Run read_run(const std::string& path);
}  // namespace graft::lab
