#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>

#include <atomic>
#include <chrono>
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

class LlvmBackend : public Backend {
 public:
  LlvmBackend() : machine_(Machine::host()) {
    JITTargetMachineBuilder target{llvm::Triple(machine_.triple)};
    target.setCPU(machine_.cpu);
    jit_ = check(LLJITBuilder()
                     .setJITTargetMachineBuilder(std::move(target))
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

  Compiled compile(const ir::Kernel& kernel, bool keep_text) override {
    auto start = std::chrono::steady_clock::now();
    std::string name = "graft_kernel_" + std::to_string(count_.fetch_add(1));
    std::unique_ptr<llvm::TargetMachine> target = borrow();
    ObjectCode code = compile_object(kernel, name, machine_, *target, keep_text);
    give_back(std::move(target));

    Compiled compiled;
    JITDylib& library = jit_->getMainJITDylib();
    define(library, code.symbols);
    auto tracker = library.createResourceTracker();
    check(jit_->addObjectFile(tracker, std::move(code.object)), "cannot link a kernel");
    compiled.fn = check(jit_->lookup(name), "cannot link a kernel").toPtr<KernelFn>();
    compiled.keep_alive = std::shared_ptr<void>(
        tracker.get(), [tracker](void*) { llvm::consumeError(tracker->remove()); });
    compiled.ir = std::move(code.ir);
    compiled.assembly = std::move(code.assembly);
    compiled.milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return compiled;
  }

  std::string describe() const override {
    return "LLVM " LLVM_VERSION_STRING ", " + machine_.cpu + ", " +
           std::to_string(machine_.vector_bits()) + "-bit vectors";
  }

 private:
  std::unique_ptr<llvm::TargetMachine> borrow() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return machine_.target_machine();
    auto target = std::move(idle_.back());
    idle_.pop_back();
    return target;
  }
  void give_back(std::unique_ptr<llvm::TargetMachine> target) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(target));
  }

  void define(JITDylib& library, const RoutineSymbols& symbols) {
    SymbolMap added;
    std::lock_guard lock(mutex_);
    for (const auto& [name, address] : symbols.used())
      if (defined_.insert(name).second)
        added[jit_->mangleAndIntern(name)] = {
            ExecutorAddr::fromPtr(address),
            llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    if (!added.empty())
      check(library.define(absoluteSymbols(std::move(added))), "cannot define routines");
  }

  const Machine& machine_;
  std::unique_ptr<LLJIT> jit_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<llvm::TargetMachine>> idle_;
  std::set<std::string> defined_;
  std::atomic<uint64_t> count_{0};
};

}  // namespace

}  // namespace graft::codegen

extern "C" graft::codegen::Backend* graft_make_backend() {
  return new graft::codegen::LlvmBackend;
}
