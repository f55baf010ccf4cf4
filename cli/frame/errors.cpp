#include "cli/frame/errors.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace graft::cli {
namespace {

constexpr const char* kOutOfMemory =
    "memory ran out; give it less to do at a time, end other programs, raise a limit that was set "
    "(ulimit -v), or use a machine with more memory";

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const auto* aten = dynamic_cast<const c10::Error*>(&error);
  return aten != nullptr && aten->msg().find("DefaultCPUAllocator") != std::string::npos;
}

std::string error_text(const std::exception& error) {
  if (is_out_of_memory(error)) return kOutOfMemory;
  const auto* aten = dynamic_cast<const c10::Error*>(&error);
  return aten != nullptr ? aten->what_without_backtrace() : error.what();
}

void foresee_out_of_memory() {
  static const std::terminate_handler usual = std::get_terminate();
  std::set_terminate([] {
    try {
      if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
      std::fprintf(stderr, "graft: %s\n", kOutOfMemory);
      ::_exit(1);
    } catch (...) {
    }
    usual();
    std::abort();
  });
}

}  // namespace graft::cli
