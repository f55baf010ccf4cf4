// Which function of libtorch's calls, and what it holds: found on the thread's stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <typeinfo>
#include <vector>

namespace graft::optim {

struct Caller {
  /// Where its part of the stack ends: another one for each function that runs. 0: none was found.
  uintptr_t top = 0;
  const char* name = "";  ///< its mangled name, of the library that it is in
  /// What its registers and its part of the stack hold, among that the addresses of its objects.
  std::vector<uintptr_t> words;
};

/// The function nearest to the top of this thread's stack whose mangled name begins with
/// `prefix`, as far as dynamic symbols tell. `words` are left out unless asked for.
Caller find_caller(std::string_view prefix, bool with_words);

/// What the registers and parts of the stack hold of the functions that are nearest, up to that
/// place on the stack.
std::vector<uintptr_t> words_of_callers(uintptr_t outermost);

/// Is what begins with the address of that virtual table a `base`? Of classes with one base each,
/// so that the `base` lies at its start.
bool is_table_of(uintptr_t table, const std::type_info& base);

/// The word at an address, which may be none. False: nothing can be read there.
bool read_word(uintptr_t address, uintptr_t& word);

/// Can the rest of an object of so many bytes be read, whose first word was? The address sanitizer
/// also tells objects from what is left of them.
bool is_rest_readable(uintptr_t address, size_t bytes);

}  // namespace graft::optim
