#include "runtime/process/text.h"

#include <sstream>

namespace graft::runtime {

std::string duration(double microseconds) {
  std::ostringstream out;
  out.precision(3);
  if (microseconds < 0.9995)
    out << microseconds * 1e3 << " ns";
  else if (microseconds < 999.5)
    out << microseconds << " us";
  else if (microseconds < 999.5e3)
    out << microseconds / 1e3 << " ms";
  else
    out << microseconds / 1e6 << " s";
  return out.str();
}

std::string count_of(int64_t count, const std::string& noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

}  // namespace graft::runtime
