// Numbers as words, for reports and logs. (The laboratory has its own, lab/words.h: the library
// does not see it.)
#pragma once

#include <cstdint>
#include <string>

namespace graft::runtime {

/// Three significant digits and a unit: 812 ns, 4.13 us, 27.6 ms.
std::string duration(double microseconds);
/// "11 cases", "1 case".
std::string count_of(int64_t count, const std::string& noun);

}  // namespace graft::runtime
