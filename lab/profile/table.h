// What a profile says in numbers: time by range, by operator and by kind of work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/profile/profile.h"
#include "lab/table.h"

namespace graft::lab {

enum class Kind {
  Matmul,       ///< products of matrices, convolutions, attention
  Elementwise,  ///< each result from the values at its own place
  Reduction,    ///< sums, norms, softmax, losses, sorting
  Memory,       ///< copies, fills, gathers, allocations
  View,         ///< another look at the same memory; all of its time is overhead
  Compiled,     ///< own time of ranges named graft::…
  Other,        ///< the rest, among it the program's own code between operators
};
inline constexpr Kind kKinds[] = {Kind::Matmul, Kind::Elementwise, Kind::Reduction, Kind::Memory,
                                  Kind::View,   Kind::Compiled,    Kind::Other};
const char* to_string(Kind kind);
/// By libtorch's own tags and schemas where they say it, by name for the rest.
Kind kind_of(const ProfileEvent& event);

/// All calls of one operator within a range. Figures are of self time, which adds up.
struct OperatorRow {
  std::string name;  ///< kHostCode for what ranges spend outside of operators
  Kind kind = Kind::Other;
  double share = 0;     ///< of the range's time, 0 to 1
  double self_ms = 0;   ///< over all profiled calls
  double total_ms = 0;  ///< with the operators that it calls
  int64_t instances = 0;
  double avg_us = 0, median_us = 0, min_us = 0, max_us = 0, stddev_us = 0;
};
inline constexpr const char* kHostCode = "(between operators)";
/// Largest self time first. Ranges inside count.
std::vector<OperatorRow> operator_rows(const Profile& profile, const std::string& range = "");

struct KindRow {
  Kind kind = Kind::Other;
  double share = 0, self_ms = 0;
  int64_t instances = 0;
};
/// In the order of kKinds, those with instances.
std::vector<KindRow> kind_rows(const Profile& profile, const std::string& range = "");

struct RangeRow {
  std::string range;
  double share = 0;     ///< of the range that was asked for
  double total_ms = 0;  ///< over all profiled calls
  int64_t instances = 0;
  double avg_us = 0, median_us = 0, min_us = 0, max_us = 0, stddev_us = 0;
};
/// `within` ("": the whole call) first, then those inside in the order in which they first began.
std::vector<RangeRow> range_rows(const Profile& profile, const std::string& within = "");

/// "12.3 %" for 0.123.
std::string percent_text(double part);
Table table_of(const std::vector<RangeRow>& rows);
/// The `most` largest, and a last row for the rest.
Table table_of(const std::vector<OperatorRow>& rows, size_t most);
/// Shares and milliseconds a call by kind, side by side for several ranges.
Table kind_table(const Profile& profile, const std::vector<std::string>& ranges);

/// {"calls", "call_ms", "plain_ms", "ranges": [{…, "operators": […], "kinds": […]}]}; no events,
/// which the trace has.
nlohmann::json to_json(const Profile& profile);

}  // namespace graft::lab
