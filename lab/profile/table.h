// A profile in numbers: time by range, by operator and by kind of work.
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
  Elementwise,  ///< each result element from the input elements at its place
  Reduction,    ///< sums, norms, softmax, losses, sorting
  Memory,       ///< copies, fills, gathers, allocations
  View,         ///< a new view of the same memory; all of its time is overhead
  Compiled,     ///< own time of ranges named graft::…
  Other,        ///< the rest, including the program's own code between operators
};
inline constexpr Kind kKinds[] = {Kind::Matmul, Kind::Elementwise, Kind::Reduction, Kind::Memory,
                                  Kind::View,   Kind::Compiled,    Kind::Other};
const char* to_string(Kind kind);
/// Decided by libtorch's tags and schemas where they tell, else by name.
Kind kind_of(const ProfileEvent& event);

/// All calls of one operator within a range. Times are self times unless said otherwise, so that
/// rows add up.
struct OperatorRow {
  std::string name;  ///< kHostCode for the time of ranges outside operators
  Kind kind = Kind::Other;
  double share = 0;     ///< of the range's time, 0 to 1
  double self_ms = 0;   ///< over all profiled calls
  double total_ms = 0;  ///< including the operators that it calls
  int64_t instances = 0;
  double avg_us = 0, median_us = 0, min_us = 0, max_us = 0, stddev_us = 0;
};
inline constexpr const char* kHostCode = "(between operators)";
/// Operators in `range` and the ranges inside it, largest self time first.
std::vector<OperatorRow> operator_rows(const Profile& profile, const std::string& range = "");

struct KindRow {
  Kind kind = Kind::Other;
  double share = 0, self_ms = 0;
  int64_t instances = 0;
};
/// The kinds that occur, in the order of kKinds.
std::vector<KindRow> kind_rows(const Profile& profile, const std::string& range = "");

struct RangeRow {
  std::string range;
  double share = 0;     ///< of the time of `within`
  double total_ms = 0;  ///< over all profiled calls
  int64_t instances = 0;
  double avg_us = 0, median_us = 0, min_us = 0, max_us = 0, stddev_us = 0;
};
/// `within` ("": the whole call), then the ranges inside it in the order in which they first began.
std::vector<RangeRow> range_rows(const Profile& profile, const std::string& within = "");

Table table_of(const std::vector<RangeRow>& rows);
/// The `most` largest operators, and a last row for the rest.
Table table_of(const std::vector<OperatorRow>& rows, size_t most);
/// Shares and milliseconds per call by kind of work, with the ranges side by side.
Table kind_table(const Profile& profile, const std::vector<std::string>& ranges);
/// The same with a row per range: milliseconds per call, and the share of each kind that occurs.
Table kinds_by_range(const Profile& profile, const std::vector<std::string>& ranges);

/// {"calls", "call_ms", "plain_ms", "ranges": [{…, "operators": […], "kinds": […]}]}. Events are
/// not included: trace_json has them.
nlohmann::json to_json(const Profile& profile);

}  // namespace graft::lab
