#include "passes/inline_cost.h"

#include <algorithm>

#include "ir/facts.h"
#include "passes/cost.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Statement;

namespace {

constexpr int64_t kRepeated = 8;     ///< points that read the same element
constexpr double kFromCache = 0.25;  ///< instructions of such a load
constexpr double kPlaced = 4;        ///< of a load of a row that data places
/// Instructions for each point that take no time: where one value serves many, the loop that makes
/// it has to end before theirs begins, which then waits for memory.
constexpr double kHidden = 1.5;

/// How many elements the load reads, as far as its strides tell.
int64_t elements(const Access& load, const Statement& s) {
  if (!load.indirect.empty()) return points(s);
  int64_t count = 1;
  for (size_t a = 0; a < s.axes.size(); ++a)
    if (load.strides[a] != 0) count *= s.axes[a];
  return count;
}

/// Instructions for a vector of points.
double cost_of_load(const Access& load, const Statement& s, const ir::Target& target) {
  if (is_repeated(load, s)) return kFromCache;
  if (load.indirect.empty()) return 1;
  const bool scattered = !s.axes.empty() && is_scattered(s, load, s.axes.size() - 1);
  return scattered ? target.lanes : kPlaced;
}

/// Instructions for a vector of the statement's points, but for the store.
double cost_of_point(const Statement& s, const ir::Target& target) {
  double sum = work(s);
  for (const Access& load : s.loads) sum += cost_of_load(load, s, target);
  return sum;
}

/// The least distance of two elements along an axis; 0 where there is one element.
int64_t least_stride(const Access& access, const Statement& s) {
  int64_t least = 0;
  for (size_t a = 0; a < s.axes.size(); ++a) {
    const int64_t stride = std::abs(access.strides[a]);
    if (s.axes[a] > 1 && stride != 0 && (least == 0 || stride < least)) least = stride;
  }
  return least;
}

/// Can the reader not be passed on what the producer's loop makes? It reads overlapping windows, or
/// elements between which the producer stores others (farther apart, either way gathers).
bool reads_apart(const Statement& reader, const Access& load, int64_t read,
                 const Statement& producer) {
  if (!load.indirect.empty()) return false;
  if (std::min(read, elements(load, reader)) > points(producer)) return true;
  const int64_t own = least_stride(producer.store, producer), stride = least_stride(load, reader);
  return own > 0 && stride > own && stride / own <= ir::kInterleaved;
}

}  // namespace

bool is_repeated(const Access& load, const Statement& s) {
  return kRepeated * elements(load, s) <= points(s);
}

bool is_cheap(const Statement& s) {
  return work(s) <= 1 && std::count_if(s.loads.begin(), s.loads.end(), [&](const Access& load) {
                           return !is_repeated(load, s);
                         }) <= 1;
}

bool has_narrow_steps(const Statement& reader, const ir::Target& target) {
  return reader.repeated() && points(reader) < reader.axes[0] * target.lanes;
}

InlineCosts step_costs(int64_t read, const Statement& producer, const Readership& readers,
                       const ir::Target& target) {
  constexpr double kThreads = 2;  // of a small machine: the steps take one
  const int64_t made = points(producer);
  const double each = cost_of_point(producer, target), alone = kThreads * target.lanes,
               share = readers.stored ? 0 : 1 / readers.times;
  const auto bytes = static_cast<double>(made * c10::elementSize(producer.store.dtype));
  const double moving = bytes * byte_nanoseconds(static_cast<int64_t>(bytes), target);
  return {nanoseconds(each * alone, read, target),
          share * (nanoseconds(each + 1, made, target) + moving + target.times.kernel) + moving +
              nanoseconds(alone, read, target)};
}

InlineCosts inline_costs(const Statement& reader, const Access& load, int64_t read,
                         const Statement& producer, const Readership& readers,
                         const ir::Target& target) {
  const int64_t made = points(producer), used = std::min(read, made);
  const double each = cost_of_point(producer, target);
  // The reader's share of making and storing the value, and what it loads.
  const double share = readers.stored ? 0 : static_cast<double>(used) / readers.times;
  const auto size = static_cast<double>(c10::elementSize(producer.store.dtype));
  InlineCosts costs{
      nanoseconds(each, read, target),
      share / used * nanoseconds(each + 1, used, target) + nanoseconds(1, read, target)};
  if (reads_apart(reader, load, read, producer)) {
    const auto bytes = static_cast<int64_t>(size) * made;
    costs.stored += share * size * byte_nanoseconds(bytes, target) +
                    static_cast<double>(read) * size * target.times.cache_byte;
  } else if (read > made) {
    costs.stored += nanoseconds(kHidden, read, target);
  }
  return costs;
}

}  // namespace graft::passes
