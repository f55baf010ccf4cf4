#include "codegen/llvm/symbols.h"

#include <ATen/Version.h>
#include <dlfcn.h>

#include <stdexcept>

namespace graft::codegen {

void* find_symbol(const std::string& name) {
  // A host like Python loads libtorch_cpu.so out of sight of plain look-ups; its path leads to its
  // handle.
  static void* const torch = [] {
    Dl_info where{};
    std::string (*in_torch)() = &at::get_cpu_capability;
    bool found = dladdr(reinterpret_cast<void*>(in_torch), &where) != 0 && where.dli_fname;
    return found ? dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  }();
  void* address = torch ? dlsym(torch, name.c_str()) : nullptr;
  return address ? address : dlsym(RTLD_DEFAULT, name.c_str());
}

std::string RoutineSymbols::use(const std::string& symbol) {
  std::string name = kPrefix + symbol;
  auto [entry, is_new] = used_.try_emplace(name, nullptr);
  if (is_new) entry->second = find_symbol(symbol);
  if (!entry->second) throw std::runtime_error("graft: this libtorch has no routine " + symbol);
  return name;
}

}  // namespace graft::codegen
