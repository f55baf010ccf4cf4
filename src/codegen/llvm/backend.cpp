#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "codegen/backend.h"
#include "codegen/llvm/compiler.h"

namespace graft::codegen {

namespace {

using namespace llvm::orc;

void check(llvm::Error error, const char* what) {
  if (error)
    throw std::runtime_error(std::string("graft: ") + what + ": " +
                             llvm::toString(std::move(error)));
}

template <class T>
T check(llvm::Expected<T> value, const char* what) {
  check(value.takeError(), what);
  return std::move(*value);
}

/// One at a time may use it: LLVM's own part is changed by use.
struct Emitting {
  explicit Emitting(const ir::Target& target) : machine(target), llvm(machine.target_machine()) {}
  Machine machine;
  std::unique_ptr<llvm::TargetMachine> llvm;
};

class LlvmBackend : public Backend {
 public:
  LlvmBackend() {
    JITTargetMachineBuilder host{llvm::Triple(host_triple())};
    jit_ = check(LLJITBuilder()
                     .setJITTargetMachineBuilder(std::move(host))
                     .setPlatformSetUp(setUpInactivePlatform)
                     .create(),
                 "cannot set up LLVM's JIT");
    // What instructions without hardware become: fma and the like, which LLVM calls by their C
    // names.
    auto process = check(DynamicLibrarySearchGenerator::GetForCurrentProcess(
                             jit_->getDataLayout().getGlobalPrefix()),
                         "no process symbols");
    jit_->getMainJITDylib().addGenerator(std::move(process));
  }

  Code compile(std::span<const ir::Kernel* const> kernels, const ir::Target& target,
               std::vector<Listing>* listings) override {
    std::unique_ptr<Emitting> emitting = borrow(target);
    Code code = compile_object(kernels, emitting->machine, *emitting->llvm, listings);
    give_back(std::move(emitting));
    return code;
  }

  Loaded load(const Code& code) override {
    define(code.symbols);
    // A library of its own: names in it are nobody else's.
    JITDylib& library = jit_->getExecutionSession().createBareJITDylib(
        "kernels-" + std::to_string(count_.fetch_add(1)));
    Loaded loaded;
    loaded.keep_alive = std::shared_ptr<void>(&library, [this](JITDylib* gone) {
      llvm::consumeError(jit_->getExecutionSession().removeJITDylib(*gone));
    });
    library.addToLinkOrder(jit_->getMainJITDylib());
    check(jit_->addObjectFile(library, llvm::MemoryBuffer::getMemBufferCopy(code.bytes)),
          "cannot link a kernel");
    for (const std::string& name : code.functions)
      loaded.functions.push_back(
          check(jit_->lookup(library, name), "cannot link a kernel").toPtr<KernelFn>());
    return loaded;
  }

  std::string describe(const ir::Target& target) const override {
    Machine machine(target);
    return "LLVM " LLVM_VERSION_STRING ", " + machine.cpu + ", " +
           std::to_string(machine.vector_bits()) + "-bit vectors";
  }

 private:
  std::unique_ptr<Emitting> borrow(const ir::Target& target) {
    {
      std::lock_guard lock(mutex_);
      auto& idle = idle_[target.code_key()];
      if (!idle.empty()) {
        auto emitting = std::move(idle.back());
        idle.pop_back();
        return emitting;
      }
    }
    return std::make_unique<Emitting>(target);
  }
  void give_back(std::unique_ptr<Emitting> emitting) {
    std::lock_guard lock(mutex_);
    idle_[emitting->machine.target.code_key()].push_back(std::move(emitting));
  }

  /// Defines each routine once, for all libraries.
  void define(const std::vector<std::string>& symbols) {
    SymbolMap added;
    std::lock_guard lock(mutex_);
    for (const std::string& symbol : symbols) {
      if (defined_.contains(symbol)) continue;
      void* address = find_symbol(symbol);
      if (address == nullptr)
        throw std::runtime_error("graft: this libtorch has no routine " + symbol);
      defined_.insert(symbol);
      added[jit_->mangleAndIntern(kRoutinePrefix + symbol)] = {
          ExecutorAddr::fromPtr(address),
          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    }
    if (!added.empty())
      check(jit_->getMainJITDylib().define(absoluteSymbols(std::move(added))),
            "cannot define routines");
  }

  std::unique_ptr<LLJIT> jit_;
  std::mutex mutex_;
  std::map<std::string, std::vector<std::unique_ptr<Emitting>>> idle_;  ///< by Target::code_key()
  std::set<std::string> defined_;
  std::atomic<uint64_t> count_{0};
};

}  // namespace

}  // namespace graft::codegen

extern "C" graft::codegen::Backend* graft_make_backend() {
  return new graft::codegen::LlvmBackend;
}
