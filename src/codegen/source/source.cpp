#include "codegen/source/source.h"

#include <map>

#include "codegen/source/prelude.h"
#include "codegen/source/printer.h"

namespace graft::codegen {

Code compile_source(std::span<const ir::Kernel* const> kernels, const ir::Target& target) {
  Code code;
  std::map<std::string, std::string> routines;
  std::string functions;
  for (const ir::Kernel* kernel : kernels) {
    code.functions.push_back("graft_kernel_" + std::to_string(code.functions.size()));
    functions += "\n" + SourcePrinter(*kernel, target, routines).print(code.functions.back());
  }
  code.bytes = source_prelude(target);
  for (const auto& [symbol, declaration] : routines) {
    code.symbols.push_back(symbol);
    code.bytes += declaration;
  }
  if (functions.find("array_") != std::string::npos) code.bytes += source_array_formulas(target);
  code.bytes += functions;
  return code;
}

}  // namespace graft::codegen
