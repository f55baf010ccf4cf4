// One statement of a loop program, point by point.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/program.h"
#include "support/memory.h"
#include "support/scalars.h"

namespace graft::test {

/// Executes points of a statement in whatever order the caller visits them. Accumulators are kept
/// one per combination of indices that are not reduced, so any loop order works.
class StatementRun {
 public:
  StatementRun(const ir::Statement& statement, const Memory& memory);

  /// Visits a point: stores it; or, for a reduction, accumulates it (a scan does both).
  void visit(const std::vector<int64_t>& at);
  /// Stores every accumulated value, and forgets it.
  void finish();

  /// From now on watches for points that store one place or read what another point stores.
  /// `bytes`: of the storage stored to.
  void watch(int64_t bytes) { writer_.assign(static_cast<size_t>(bytes), -1); }
  /// Empty, or what the watch found. Call when all is stored.
  std::string conflict() const;

 private:
  struct Accumulator {
    Bits value = 0;
    int64_t place = -1;  ///< ArgMax, ArgMin: where `value` stood
    int64_t point = 0;
  };
  using Cone = std::vector<bool>;

  Cone cone_of(const std::vector<ir::NodeId>& roots) const;
  void check_epilogue() const;
  void evaluate(const Cone& cone, const std::vector<int64_t>& at);
  Bits leaf(const ir::Node& node, const std::vector<int64_t>& at);
  int64_t byte_offset(const ir::Access& access, const std::vector<int64_t>& at) const;
  void accumulate(Accumulator& into, const std::vector<int64_t>& at);
  void store_reduced(const Accumulator& accumulator, const std::vector<int64_t>& at);
  void store(const std::vector<int64_t>& at);

  const ir::Statement& s_;
  const Memory& memory_;
  Cone input_, output_;       ///< nodes the reduction's input needs; nodes the store needs
  std::vector<Bits> values_;  ///< of each node, at the point being evaluated
  Bits reduced_ = 0;
  std::map<std::vector<int64_t>, Accumulator> open_;  ///< by index, 0 along reduced axes

  // The watch: for every byte of the stored storage, the point that stored it; and the reads from
  // that storage.
  struct Read {
    int64_t offset, size, point;
  };
  std::vector<int64_t> writer_;
  std::vector<Read> reads_;
  int64_t point_ = 0;   ///< a number of the point being executed; a reduction's row is one point
  int64_t points_ = 0;  ///< numbers given out
  bool stored_twice_ = false;
};

}  // namespace graft::test
