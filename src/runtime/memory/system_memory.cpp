#include "runtime/memory/system_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "runtime/memory/size_class.h"

namespace graft::runtime {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

/// [page for the header | data ...]: data begins at a huge page's border, so the header costs one
/// small page.
SystemBlock system_map(size_t bytes, size_t room) {
  size_t page = page_bytes();
  size_t align = room >= kHugePage ? kHugePage : page;
  size_t data_bytes = round_up(room, align);
  size_t reserved = data_bytes + align + page;
  void* got = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return {};
  auto start = reinterpret_cast<uintptr_t>(got);
  uintptr_t data = round_up(start + page, align);
  uintptr_t base = data - page;
  // What lies outside of the aligned part goes back at once.
  if (base > start) munmap(got, base - start);
  uintptr_t end = data + data_bytes;
  if (start + reserved > end) munmap(reinterpret_cast<void*>(end), start + reserved - end);
  if (bytes >= kHugePage) madvise(reinterpret_cast<void*>(data), data_bytes, MADV_HUGEPAGE);
  return {reinterpret_cast<void*>(data), reinterpret_cast<void*>(base), page + data_bytes};
}

SystemBlock system_allocate(size_t bytes) {
  void* base = nullptr;
  if (posix_memalign(&base, kAlignment, bytes + kAlignment) != 0) return {};
  return {static_cast<char*>(base) + kAlignment, base, 0};
}

void system_free(void* base, size_t base_bytes) {
  if (base_bytes == 0)
    std::free(base);
  else
    munmap(base, base_bytes);
}

size_t cache_limit_bytes() {
  if (const char* text = std::getenv("GRAFT_POOL_MB")) {
    char* end = nullptr;
    unsigned long long megabytes = std::strtoull(text, &end, 10);
    if (end != text && *end == '\0' && megabytes < (1ull << 40))
      return static_cast<size_t>(megabytes) << 20;
  }
  auto pages = static_cast<size_t>(std::max<long>(sysconf(_SC_PHYS_PAGES), 0));
  return std::min(pages * page_bytes() / 4, size_t{4} << 30);
}

}  // namespace graft::runtime
