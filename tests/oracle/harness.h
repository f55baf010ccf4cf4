// Runs one call four times through graft::compile and compares each with eager: call 1 is recorded,
// call 2 is the shadow, calls 3 and 4 are the plan's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/graft.h"
#include "oracle/values.h"
#include "support/compare.h"

namespace graft::test {

using Function = std::function<Tensors(const Tensors&)>;

/// The same layouts and the same overlaps over memory of its own, bytes copied.
Tensors clone_arguments(const Tensors& arguments);

/// What a call gave, or how it failed.
struct Attempt {
  Tensors results;
  std::string error;  ///< type and message; empty when it returned
};
Attempt attempt(const std::function<Tensors()>& call);

/// Is every fused operator of this call promised to have eager's bits? Empty: the call cannot be
/// lowered.
struct Promise {
  bool exact = true;
  bool either_zero = false;  ///< but for the sign of a zero
};
std::optional<Promise> promise_of(const Function& f, const Tensors& arguments, Numerics numerics);

/// A call and what is expected of it.
struct Check {
  std::string label;
  Function f;
  std::function<Tensors(int call)> arguments;  ///< other data, the same layouts for each call
  bool must_fuse = true;
  /// Operators that may stay extern, by a part of their reason.
  std::vector<std::string_view> may_refuse;
  /// What ATen's vectorised loop gives for these arguments: the oracle of calls that are not exact.
  Function body;
  /// Compares the results of a call that is not exact, where there is no `body`; empty when they
  /// will do.
  std::function<std::string(const Tensors& arguments, const Tensors& eager, const Tensors& came)>
      judge;
  double ulps = 2;                        ///< between plain eager and a call that is not exact
  at::ScalarType computed = at::kDouble;  ///< these are of this dtype, where a result is wider
  Numerics numerics = Numerics::Exact;
  /// Eager gives NaN or an infinity for some numbers where the answer is a number.
  bool eager_may_lose_numbers = false;
};

/// Compiled on the caller's thread, and used even where it is slower.
inline Options in_order(std::string name) {
  Options options;
  options.name = std::move(name);
  options.async = false;
  options.race = false;
  return options;
}

/// Empty, or what went wrong in which call.
std::string run(const Check& check);

/// As run(), and tells GoogleTest. At most `kReported` failures of a group are told, then only
/// counted.
class Reporter {
 public:
  explicit Reporter(std::string group) : group_(std::move(group)) {}
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  void operator()(const Check& check);
  void fail(const std::string& what);

  /// Does GRAFT_ORACLE_ONLY, a part of a row's name, leave this row out? With "!" before it, that
  /// row only. For work on one row.
  static bool skipped(std::string_view name);

 private:
  static constexpr int kReported = 4;
  std::string group_;
  int failed_ = 0, cases_ = 0;
};

}  // namespace graft::test
