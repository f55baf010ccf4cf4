// A backend turns kernels into functions. The LLVM one lives in a module of its own, loaded when
// first needed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/kernel.h"

namespace graft::codegen {

/// What a kernel gets at launch. `pointers`: one an access in KernelCode::accesses, base of the
/// storage plus the access's offset. `integers`: sizes and strides in KernelCode::integers' order.
/// `scalars`: bits, likewise.
struct LaunchArgs {
  char* const* pointers;
  const int64_t* integers;
  const uint64_t* scalars;
};
/// Runs range iterations [begin, end). `scratch`: 64-byte aligned, Kernel::scratch_bytes long, of
/// this thread.
using KernelFn = void (*)(const LaunchArgs* args, char* scratch, int64_t begin, int64_t end);

/// How a kernel's arguments are laid out, and its structure: all that the machine code depends on.
struct Binding {
  struct Pointer {
    int storage;  ///< never a scratch one
    int64_t byte_offset;
  };
  std::vector<Pointer> pointers;
  std::vector<int64_t> integers;
  std::vector<uint64_t> scalars;
  int64_t range_extent = 0;  ///< range iterations in all
  int64_t grain = 1;
  int64_t scratch_bytes = 0;
  std::string structure;  ///< equal structure, equal code
};
/// Deterministic and cheap (microseconds): the same walk over the kernel that code generation
/// makes.
Binding bind(const ir::Kernel& kernel);

struct Compiled {
  KernelFn fn = nullptr;
  std::shared_ptr<void> keep_alive;  ///< the code
  double milliseconds = 0;
  std::string ir;        ///< LLVM IR after optimisation, when asked for
  std::string assembly;  ///< when asked for
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// Thread-safe. Throws std::runtime_error with a readable text.
  virtual Compiled compile(const ir::Kernel& kernel, bool keep_text) = 0;
  virtual std::string describe() const = 0;  ///< "LLVM 19.1.7, znver5, 512-bit vectors"
};

/// The host's backend; loads libgraft_llvm.so on first use. Throws when it is missing, saying where
/// it was looked for.
Backend& host_backend();

/// Compiled kernels of the process by structure. Thread-safe. `compiled` tells whether it was new.
Compiled get_or_compile(const ir::Kernel& kernel, const Binding& binding, bool& compiled);

/// Lanes of 32 bits in the vectors that ATen's own kernels use on this machine now: 16 (AVX-512), 8
/// (AVX2), 4 (baseline).
int vector_lanes();

}  // namespace graft::codegen
