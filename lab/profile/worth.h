// Which parts of a program are worth compiling: how much of the program's time each would save.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/table.h"

namespace graft::lab {

/// A region of a program, measured.
struct RegionGain {
  std::string name;
  double calls = 1;                      ///< calls in one run of the program
  double share = 0;                      ///< of all these calls in the program's eager time; 0 to 1
  double eager_ms = 0, compiled_ms = 0;  ///< of one call of the region
  double compile_ms = 0;                 ///< of compiling it once
  bool stays_eager = false;  ///< the compiler's verdict; a difference between the times is chance
  std::string note = {};     ///< why it stays eager, for readers; may be empty

  double speedup() const;
  /// The share of the program's time that compiling the region saves: share x (1 - 1 / speed-up);
  /// negative where the region becomes slower, 0 where it stays eager.
  double saves() const;
  /// Runs of the program until compiling has paid for itself; infinity where it never does.
  double pays_after() const;
};

/// Sorts regions by what they save, largest first.
void order_by_saving(std::vector<RegionGain>& regions);
/// The share that compiling all regions with a positive saving would save.
double total_saving(const std::vector<RegionGain>& regions);
/// Columns region, calls, share, eager ms, compiled ms, speed-up, saves, compile ms, pays after.
Table table_of(const std::vector<RegionGain>& regions);
nlohmann::json to_json(const std::vector<RegionGain>& regions);

}  // namespace graft::lab
