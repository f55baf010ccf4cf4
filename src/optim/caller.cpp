#include "optim/caller.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace graft::optim {

namespace {

constexpr int kMostFrames = 64;
constexpr uintptr_t kMostStack = uintptr_t{1} << 26;
constexpr uintptr_t kMostWords = 4096;  ///< of one function's part of the stack

/// The registers that a function finds as it left them after it called another one.
#if defined(__x86_64__)
constexpr std::array<int, 6> kKept = {3, 6, 12, 13, 14, 15};  // rbx, rbp, r12 to r15
#elif defined(__aarch64__)
constexpr std::array<int, 11> kKept = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29};
#else
constexpr std::array<int, 0> kKept = {};
#endif

/// Null where it has none.
const char* name_of(uintptr_t address) {
  // Symbols do not move while code that calls operators runs.
  thread_local std::unordered_map<uintptr_t, const char*> known;
  auto found = known.find(address);
  if (found == known.end()) {
    Dl_info info{};
    const bool has_name =
        dladdr(reinterpret_cast<void*>(address), &info) != 0 && info.dli_sname != nullptr;
    found = known.emplace(address, has_name ? info.dli_sname : nullptr).first;
  }
  return found->second;
}

struct Search {
  std::string_view prefix;
  bool with_words;
  bool all = false;  ///< not the first one alone, and whatever its name
  uintptr_t outermost = UINTPTR_MAX;
  Caller found = {};
  bool inside = false;
  uintptr_t bottom = 0;
  int frames = 0;
};

/// Called for each function, from the inside out, with where its part of the stack begins.
__attribute__((no_sanitize("address", "thread"))) _Unwind_Reason_Code
visit(_Unwind_Context* context, void* data) {
  Search& search = *static_cast<Search*>(data);
  std::vector<uintptr_t>& words = search.found.words;
  const uintptr_t begin = _Unwind_GetCFA(context);
  if (search.inside) {  // the part of the one before ends here
    search.found.top = begin;
    const uintptr_t end =
        std::min<uintptr_t>(begin, search.bottom + kMostWords * sizeof(uintptr_t));
    for (uintptr_t at = search.bottom; search.with_words && at + sizeof(uintptr_t) <= end;
         at += sizeof(uintptr_t)) {
      // Read here: within push_back a sanitizer would look at where it stands.
      const uintptr_t word = *reinterpret_cast<const uintptr_t*>(at);
      words.push_back(word);
    }
    if (!search.all) return _URC_NORMAL_STOP;
    search.inside = false;
  }
  if (++search.frames > kMostFrames || begin > search.outermost) return _URC_NORMAL_STOP;
  // A call may be a function's last instruction: what follows is another one.
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0) return _URC_NO_REASON;
  if (!search.all) {
    const char* name = name_of(address - 1);
    if (name == nullptr || !std::string_view(name).starts_with(search.prefix))
      return _URC_NO_REASON;
    search.found.name = name;
  }
  search.inside = true;
  search.bottom = begin;
  for (const int number : kKept)
    if (search.with_words) words.push_back(_Unwind_GetGR(context, number));
  return _URC_NO_REASON;
}

}  // namespace

Caller find_caller(std::string_view prefix, bool with_words) {
  Search search{prefix, with_words};
  _Unwind_Backtrace(visit, &search);
  return std::move(search.found);
}

std::vector<uintptr_t> words_of_callers(uintptr_t outermost) {
  Search search{{}, /*with_words=*/true, /*all=*/true};
  // (A sanitizer may keep objects elsewhere.)
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (outermost > here && outermost - here < kMostStack) search.outermost = outermost;
  _Unwind_Backtrace(visit, &search);
  return std::move(search.found.words);
}

namespace {

/// Two classes of whose types the kinds tell how a class with one base is told of.
struct Base {
  virtual ~Base() = default;
};
struct Derived : Base {};

/// Words on the stack may look like a table, too: a zero and a type.
bool is_in_library(uintptr_t address) {
  Dl_info found;
  return dladdr(reinterpret_cast<const void*>(address), &found) != 0;
}

}  // namespace

/// As the Itanium C++ ABI lays types out: before a virtual table the offset to the object's top and
/// its type; in a type its kind, its name, and its base where it has one.
bool is_table_of(uintptr_t table, const std::type_info& base) {
  constexpr uintptr_t kWord = sizeof(uintptr_t);
  constexpr int kMostBases = 16;
  const std::type_info& derived = typeid(Derived);
  const auto of_one_base = *reinterpret_cast<const uintptr_t*>(&derived);
  const auto base_name = reinterpret_cast<uintptr_t>(base.name());
  uintptr_t to_top = 0, type = 0, kind = 0, name = 0;
  if (!read_word(table - 2 * kWord, to_top) || to_top != 0) return false;
  if (!read_word(table - kWord, type)) return false;
  for (int k = 0; k < kMostBases; ++k) {
    if (!read_word(type, kind) || !read_word(type + kWord, name)) return false;
    if (name == base_name) return is_in_library(table);
    if (kind != of_one_base || !read_word(type + 2 * kWord, type)) return false;
  }
  return false;
}

__attribute__((no_sanitize("address", "thread"))) bool read_word(uintptr_t address,
                                                                 uintptr_t& word) {
  // The kernel says whether there is something; a look of our own might end the process.
  static const int file = memfd_create("graft", MFD_CLOEXEC);
  if (file < 0 || address % sizeof(uintptr_t) != 0) return false;
  // (A sanitizer would look at what the library's function is given.)
  if (syscall(SYS_pwrite64, file, address, sizeof word, 0) != sizeof word) return false;
  word = *reinterpret_cast<const uintptr_t*>(address);
  return true;
}

bool is_rest_readable(uintptr_t address, size_t bytes) {
  uintptr_t word = 0;
  if (!read_word((address + bytes - sizeof word) / sizeof word * sizeof word, word)) return false;
#ifdef __SANITIZE_ADDRESS__
  return __asan_region_is_poisoned(reinterpret_cast<void*>(address), bytes) == nullptr;
#else
  return true;
#endif
}

}  // namespace graft::optim
