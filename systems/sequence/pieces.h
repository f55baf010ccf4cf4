// What a process computes with one block of keys: at most one rectangle or triangle of scores.
#pragma once

#include <cstdint>

#include "graft/systems/ring_attention.h"

namespace graft::systems {

/// Ranges in a process's local sequence. No queries: nothing to compute.
struct Piece {
  int64_t query_begin = 0, queries = 0;
  int64_t key_begin = 0, keys = 0;
  bool triangle = false;  ///< query i sees keys 0 to i; else every key

  int64_t scores() const { return triangle ? queries * (queries + 1) / 2 : queries * keys; }
};

/// For the queries of `rank` with the keys that `owner` holds, `length` of each.
Piece piece_of(int rank, int owner, int64_t length, const SequenceOptions& options);

}  // namespace graft::systems
