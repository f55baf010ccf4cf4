// What work costs on the target: fusing and the choice of vector loops decide by it alone, and
// inlining by inline_cost.h, which asks it. (`lanes` counts for itself what a kernel with tiles as
// lanes does, and weighs it by the same times; code generation weighs its registers.)
//
// A model, not a measurement: it has to put alternatives in order, so only ratios matter. It does
// not ask how many threads there are: schedules, and so results, are the same for any number.
#pragma once

#include <utility>
#include <vector>

#include "ir/kernel.h"
#include "ir/target.h"
#include "passes/group.h"

namespace graft::passes {

/// Lines so many bytes apart are not prefetched one with the other.
constexpr int64_t kApartBytes = 1024;

/// Instructions for a lane that is gathered from its neighbours' lines.
constexpr double kGathered = 1.25;

/// Rows that are longer leave the first cache where each lane has its own in scratch.
constexpr int64_t kLongestStaged = 256;
/// Those of a scan, which can go no other way but one by one, may fill the second.
constexpr int64_t kLongestScanned = 4096;

/// Accesses to a storage, by their stride along the lanes: rows that are staged.
using StagedRow = std::pair<int, int64_t>;

/// Instructions for a vector of the statement's points along `axis`, a share of the loop's start
/// and of its last, unfilled vector among them; -1: for as many points, one by one. What is
/// `staged` lies in scratch, lanes side by side.
double vector_cost(const ir::Statement& s, int axis, const ir::Target& target,
                   const std::vector<StagedRow>& staged = {});

/// Of the axis over a loop's steps.
double mean_extent(const ir::Statement& s, size_t axis);

/// Instructions that copy rows of so many elements of the dtype between memory and scratch where
/// they lie lane by lane, a row for each lane.
double transposing_cost(int64_t count, c10::ScalarType dtype, const ir::Target& target);

/// Of a matrix product as the routine computes it.
double product_nanoseconds(const ir::Statement& s, const ir::Target& target);

/// Of so many instructions for each vector of so many points.
double nanoseconds(double instructions, int64_t points, const ir::Target& target);
/// Of the statement's instructions alone, along its best axis.
double nanoseconds(const ir::Statement& s, const ir::Target& target);

/// Of moving one byte of a storage so large: from the second cache if it fits there, or memory.
double byte_nanoseconds(int64_t storage_bytes, const ir::Target& target);

/// Of running the group as a kernel: the instructions of its best vector loop, what it moves
/// between memory and the caches, and its start. A temporary that nothing outside touches
/// (`touching` counts all who do) is moved only where a tile's part of it leaves the cache.
double cost(const Group& group, const std::vector<int>& touching,
            const std::vector<ir::Storage>& storages, const ir::Target& target);

}  // namespace graft::passes
