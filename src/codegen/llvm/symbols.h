// Where the routines that kernels call lie in this process.
#pragma once

#include <map>
#include <string>

namespace graft::codegen {

/// Names that a module calls, and their addresses. In the module they carry a prefix, so that LLVM
/// knows nothing of them.
class RoutineSymbols {
 public:
  static constexpr const char* kPrefix = "graft.";
  /// The module's name for the symbol. Throws std::runtime_error when neither libtorch_cpu nor the
  /// C library has it.
  std::string use(const std::string& symbol);
  const std::map<std::string, void*>& used() const { return used_; }  ///< by the module's name

 private:
  std::map<std::string, void*> used_;
};

/// In libtorch_cpu.so, then anywhere in the process; null if nowhere.
void* find_symbol(const std::string& name);

}  // namespace graft::codegen
