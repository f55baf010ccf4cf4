// A kernel's loop tree, run as it stands.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/kernel.h"
#include "support/memory.h"

namespace graft::test {

/// Counts through the points of a domain, last axis fastest. False after the last one.
bool next(std::vector<int64_t>& at, const std::vector<int64_t>& extents);

void run_kernel(const ir::Kernel& kernel, Memory& memory);

}  // namespace graft::test
