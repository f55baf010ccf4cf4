// How tests look at printed programs and reports.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace graft::test {

/// Both parts are in the text, and `first` begins before `second`. (`find(a) < find(b)` alone also
/// holds where b is absent.)
inline ::testing::AssertionResult comes_before(std::string_view text, std::string_view first,
                                               std::string_view second) {
  size_t at = text.find(first), next = text.find(second);
  if (at != text.npos && next != text.npos && at < next) return ::testing::AssertionSuccess();
  auto place = [&](size_t found) {
    return found == text.npos ? std::string("absent") : "at " + std::to_string(found);
  };
  return ::testing::AssertionFailure() << "\"" << first << "\" is " << place(at) << ", \"" << second
                                       << "\" is " << place(next) << " in\n"
                                       << text;
}

}  // namespace graft::test
