#include "runtime/proof/odds.h"

#include <algorithm>

#include "runtime/proof/race.h"

namespace graft::runtime {

std::optional<Odds::Verdict> Odds::add(std::optional<double> gain, bool beside) {
  if (gain && beside) return Verdict{*gain >= 1, is_clear(*gain, beside) ? 0 : kBeside};
  if (gains_.size() == kMostGains) gains_.erase(gains_.begin());
  gains_.push_back(gain.value_or(0));
  if (!gain && gains_.size() < kGivenUp) return std::nullopt;
  const double usual = median(gains_);
  const int64_t doubled = int64_t{1} << std::min(proofs_++, 16);
  if (usual < 1) return Verdict{false, kSlower * doubled};
  const bool for_good = is_clear(usual, beside) || gains_.size() == kMostGains;
  return Verdict{true, for_good ? 0 : kFaster * doubled};
}

}  // namespace graft::runtime
