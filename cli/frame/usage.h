// Shared by the subcommands: errors that a user can correct, and look-ups that suggest near names.
#pragma once

#include <functional>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "graft/workload.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace graft::cli {

/// A wrong command line. The text names what came, what was expected and what to do. Exit code 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Those of `names` that `given` may have been meant as, nearest first; empty if none is near.
std::vector<std::string> near_names(std::string_view given, const std::vector<std::string>& names);
/// "did you mean 'a' or 'b'?", or "expected one of a, b, c." when nothing is near.
std::string did_you_mean(std::string_view given, const std::vector<std::string>& names);

std::vector<std::string> workload_names();
/// Throws UsageError naming near workloads.
const workloads::Workload& workload_or_throw(const std::string& name);

/// Adds --axis name=value, which writes to `axes`; it must outlive the parse.
void add_axis_flag(CLI::App& command, std::vector<std::string>& axes);
/// Axis → value. Throws UsageError for other text than name=value.
std::map<std::string, std::string> axis_values(const std::vector<std::string>& axes);

/// The sets of workloads, the default one first.
std::vector<std::string> set_names();
/// Adds --set, which writes to `set`; it must outlive the parse. A set that there is not throws
/// UsageError naming those that there are.
void add_set_flag(CLI::App& command, std::string& set);

/// Throws UsageError for text that is not a regular expression; `such_as`: an example for the
/// error.
std::regex pattern_of(const std::string& flag, const std::string& text, const std::string& such_as);

/// Throws UsageError if no file can be made there: before a run rather than after it. An empty path
/// (an option that was not given) passes.
void check_writable(const std::string& flag, const std::string& path);

/// For an option that takes a path: refuses an empty value and one that looks like an option, as an
/// unset shell variable leaves them.
void must_be_path(CLI::Option* option);

/// What --numerics and --mode call the values: "exact", "max-autotune".
std::string numerics_name(Numerics numerics);
std::string mode_name(Mode mode);
/// ATen's setting: "highest", "high", "medium".
std::string float32_matmul_name();
/// Throws UsageError for other names.
void set_float32_matmul(const std::string& name);
/// Adds --numerics and --mode, which write to `options`, that must outlive the parse. Plans are
/// neither taken from the cache nor kept, so that what compiling costs is seen. Adds
/// --float32-matmul, which sets ATen's global switch. Other values throw UsageError naming those
/// that are known.
void add_compile_flags(CLI::App& command, Options& options);

/// Calls the compiled region until its verdict is final (faster, not faster, break, mismatch,
/// failed) and nothing is being compiled, or a minute of calls has passed. Returns the milliseconds
/// of the first call.
double settle(const workloads::CompiledCall& compiled);
/// The same of what `run` calls; `verdict` is final when all of it is.
double settle(const std::function<void()>& run, const std::function<void()>& wait,
              const std::function<Verdict()>& verdict);
bool is_final(Verdict verdict);

}  // namespace graft::cli
