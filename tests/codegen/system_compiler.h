// A backend of two halves that are not LLVM's: kernels printed as C++, and the system's compiler.
#pragma once

#include "codegen/backend.h"

namespace graft::test {

class SystemCompiler : public codegen::Backend {
 public:
  /// The bytes are C++ source, as codegen::compile_source prints it.
  codegen::Code compile(std::span<const ir::Kernel* const> kernels, const ir::Target& target,
                        std::vector<codegen::Listing>* listings) override;
  /// Runs `c++` (or $CXX), and loads what it made. Throws with the compiler's own messages. With
  /// GRAFT_KEEP_SOURCE set, the source stays in its folder of $TMPDIR.
  codegen::Loaded load(const codegen::Code& code) override;
  std::string describe(const ir::Target& target) const override;
};

}  // namespace graft::test
