// A backend turns kernels into functions. The LLVM one lives in a module of its own, loaded when
// first needed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/kernel.h"

namespace graft::codegen {

/// What a kernel gets at launch, in the order of its Binding: the address that each access starts
/// at, sizes and strides, and the bits of scalars.
struct LaunchArgs {
  char* const* pointers;
  const int64_t* integers;
  const uint64_t* scalars;
};
/// Runs range iterations [begin, end). `scratch`: memory of the calling thread, 64-byte aligned,
/// Kernel::scratch_bytes long.
using KernelFn = void (*)(const LaunchArgs* args, char* scratch, int64_t begin, int64_t end);

/// A kernel's launch arguments, and its structure: all that the machine code depends on.
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
  std::string structure;  ///< kernels of equal structure share their code
};
/// Deterministic and cheap (microseconds): it makes the same walk over the kernel as code
/// generation.
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

/// Looks in the process's cache of compiled kernels, by structure, and compiles what is not there.
/// Thread-safe. `compiled`: whether it was compiled by this call.
Compiled get_or_compile(const ir::Kernel& kernel, const Binding& binding, bool& compiled);

/// Lanes of 32 bits in the vectors that ATen's own kernels use on this machine now: 16 (AVX-512), 8
/// (AVX2), 4 (baseline).
int vector_lanes();

}  // namespace graft::codegen
