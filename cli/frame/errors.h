// The texts of unexpected errors.
#pragma once

#include <exception>
#include <string>

namespace graft::cli {

/// Is it std::bad_alloc, or the error of ATen's allocator?
bool is_out_of_memory(const std::exception& error);

/// The error's text without the backtrace that ATen adds; out of memory is said in plain words.
std::string error_text(const std::exception& error);

/// Called at the process's start: if memory runs out where nothing may be thrown (as while another
/// exception is handled), the process ends with that text and exit code 1 rather than by a signal.
void foresee_out_of_memory();

}  // namespace graft::cli
