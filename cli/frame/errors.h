// What is said of errors that were not foreseen.
#pragma once

#include <exception>
#include <string>

namespace graft::cli {

/// The C++ library's error for it, or that of ATen's allocator.
bool is_out_of_memory(const std::exception& error);

/// Its text, without the backtrace that ATen adds to it; that memory ran out is said as such.
std::string error_text(const std::exception& error);

/// For the process's start: memory that runs out where nothing may be thrown, such as while another
/// error is on its way, ends it with that text and code 1, rather than by a signal.
void foresee_out_of_memory();

}  // namespace graft::cli
