// What the runtime's tests share.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "graft/graft.h"
#include "support/compare.h"
#include "support/report.h"

namespace graft::test {

/// Compiled in the call itself and used as soon as proven.
inline Options at_once(std::string name = {}) {
  Options options;
  options.name = std::move(name);
  options.async = false;
  options.race = false;
  return options;
}

/// Calls until the plan is in use: recorded, proven.
template <class F, class... Args>
void warm_up(const F& f, const Args&... args) {
  for (int i = 0; i < 2; ++i) f(args...);
  ASSERT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
}

}  // namespace graft::test
