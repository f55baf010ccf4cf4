// What tests require of a compiled function's report.
#pragma once

#include <gtest/gtest.h>

#include "graft/report.h"

namespace graft::test {

/// The function became kernels, and these gave eager's results: no break, nothing that stays eager
/// for another reason than its speed. A test of results alone passes on an eager function too.
inline ::testing::AssertionResult was_compiled(const Report& report) {
  bool stands = report.verdict == Verdict::Proving || report.verdict == Verdict::Faster ||
                report.verdict == Verdict::NotFaster;
  if (stands && report.kernels > 0 && report.compared) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "was not compiled and proven:\n" << report;
}

}  // namespace graft::test
