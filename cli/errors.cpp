#include "cli/errors.h"

#include <c10/util/Exception.h>

#include <new>

namespace graft::cli {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const auto* aten = dynamic_cast<const c10::Error*>(&error);
  return aten != nullptr && aten->msg().find("DefaultCPUAllocator") != std::string::npos;
}

std::string error_text(const std::exception& error) {
  if (is_out_of_memory(error))
    return "memory ran out; give it less to do at a time, end other programs, raise a limit that "
           "was set (ulimit -v), or use a machine with more memory";
  const auto* aten = dynamic_cast<const c10::Error*>(&error);
  return aten != nullptr ? aten->what_without_backtrace() : error.what();
}

}  // namespace graft::cli
