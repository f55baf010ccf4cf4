// A backend turns kernels into bytes, and bytes into functions. LLVM's lives in a module of its
// own, loaded when first needed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/target.h"

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
  /// An integer that is a byte offset in the scratch block.
  struct InScratch {
    int slot;      ///< into `integers`
    int64_t base;  ///< where the region begins that it lies in
  };
  std::vector<Pointer> pointers;
  std::vector<int64_t> integers;
  std::vector<InScratch> in_scratch;
  bool has_room = false;  ///< ir::Kernel::is_rest
  std::vector<uint64_t> scalars;
  int64_t range_extent = 0;  ///< range iterations in all
  int64_t grain = 1;
  int64_t scratch_bytes = 0;
  std::string structure;  ///< equal structure, equal code on one target
};
/// Deterministic and cheap (microseconds): it makes the same walk over the kernel as code
/// generation.
Binding bind(const ir::Kernel& kernel);

/// Kernels as bytes that any process on the same target can load: no address is in them.
struct Code {
  std::string bytes;                   ///< an object file; its form is the backend's own
  std::vector<std::string> functions;  ///< one per kernel, in order: its name in `bytes`
  /// The routines that it calls. Each is looked up by name when the code is loaded.
  std::vector<std::string> symbols;
};

/// What a person reads of the code: "ll" (LLVM IR), "s" (assembly), "cpp". `kind` is also the usual
/// end of such a file's name.
struct Listing {
  std::string kind, text;
};

struct Loaded {
  std::vector<KernelFn> functions;   ///< Code::functions' order
  std::shared_ptr<void> keep_alive;  ///< the functions are there as long as this is
};

/// Thread-safe. Errors are std::runtime_error with a readable text.
class Backend {
 public:
  virtual ~Backend() = default;
  /// Equal kernels and targets give equal bytes; for a target without a processor's name, on one
  /// machine. `listings`, where given, gets the code's texts.
  virtual Code compile(std::span<const ir::Kernel* const> kernels, const ir::Target& target,
                       std::vector<Listing>* listings) = 0;
  virtual Loaded load(const Code& code) = 0;
  /// "LLVM 19.1.7, znver5, 512-bit vectors"
  virtual std::string describe(const ir::Target& target) const = 0;
};

/// What routines are called by in an object file: their names carry a prefix, so that LLVM knows
/// nothing of them.
constexpr const char* kRoutinePrefix = "graft.";
/// Puts an object file of the host's backend (ELF, x86-64) into memory, which is never writable and
/// executable at once. Needs no backend. Thread-safe. Throws std::runtime_error naming what is
/// missing or malformed.
Loaded load_object(const Code& code);

/// The host's backend; loads libgraft_llvm.so on first use. Throws when it is missing, saying where
/// it was looked for.
Backend& host_backend();

/// The machine that this process runs on, for kernels that `threads` threads share. The one place
/// that reads it: ATen's choice of kernels, the processor, its caches, libtorch's routines.
ir::Target host_target(int threads);

/// In libtorch_cpu.so, then anywhere in the process; null if nowhere.
void* find_symbol(const std::string& name);
/// The file of the code generator's module. Throws std::runtime_error where it cannot be told.
std::string module_path();

struct Compiled {
  KernelFn fn = nullptr;
  std::shared_ptr<void> keep_alive;  ///< the code
  std::shared_ptr<const Code> code;  ///< … as bytes; of this kernel alone
};

/// Compiled kernels of the process by target and structure. Thread-safe. `known`: what compiling it
/// for that target gave before; null: nobody knows. `compiled` tells whether it was compiled now.
Compiled get_or_compile(const ir::Kernel& kernel, const Binding& binding, const ir::Target& target,
                        std::shared_ptr<const Code> known, bool& compiled);

}  // namespace graft::codegen
