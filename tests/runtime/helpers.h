// What the runtime's tests share.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "graft/graft.h"

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

/// Same dtype, layout and bits (NaN is NaN).
inline ::testing::AssertionResult same(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || a.strides() != b.strides())
    return ::testing::AssertionFailure() << a.toString() << a.sizes() << a.strides() << " against "
                                         << b.toString() << b.sizes() << b.strides();
  if (at::equal(a.isnan(), b.isnan()) && at::equal(a.nan_to_num(), b.nan_to_num()))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "values differ:\n" << a << "\nagainst\n" << b;
}

}  // namespace graft::test
