// Eager against the plans of a range of sizes, whose calls are hardly ever alike: decided by
// proofs, in which a call runs both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace graft::runtime {

class Odds {
 public:
  struct Verdict {
    bool faster;
    /// Calls until there should be another proof; 0: the plans are faster for good.
    int64_t until_proof;
  };
  /// After a proof. `gain`: eager's time against the plan's; none where the plan gave up. `beside`:
  /// something compiled meanwhile, on the same processors. None: another proof, at once.
  ///
  /// A proof costs two or three calls, and deciding wrongly between sides that are close costs
  /// little: so the median decides at once, and later proofs correct it.
  std::optional<Verdict> add(std::optional<double> gain, bool beside);

  /// Is it so large that another measurement would not matter? Beside a compilation eager may take
  /// several times as long as otherwise.
  static bool is_clear(double gain, bool beside) { return gain >= (beside ? 4 : 1.5); }

 private:
  /// Until the first proofs after the verdicts; doubled with each.
  static constexpr int64_t kFaster = 16, kSlower = 64;
  static constexpr int64_t kBeside = 8;  ///< after a proof that counts little
  static constexpr size_t kMostGains = 7;
  static constexpr size_t kGivenUp = 3;  ///< so many proofs before giving up decides

  std::vector<double> gains_;  ///< of the last proofs with nothing beside them
  int proofs_ = 0;
};

}  // namespace graft::runtime
