#include <llvm/Config/llvm-config.h>

#include <map>
#include <mutex>

#include "codegen/backend.h"
#include "codegen/llvm/compiler.h"

namespace graft::codegen {

namespace {

/// One at a time may use it: LLVM's own part is changed by use.
struct Emitting {
  explicit Emitting(const ir::Target& target) : machine(target), llvm(machine.target_machine()) {}
  Machine machine;
  std::unique_ptr<llvm::TargetMachine> llvm;
};

class LlvmBackend : public Backend {
 public:
  Code compile(std::span<const ir::Kernel* const> kernels, const ir::Target& target,
               std::vector<Listing>* listings) override {
    std::unique_ptr<Emitting> emitting = borrow(target);
    Code code = compile_object(kernels, emitting->machine, *emitting->llvm, listings);
    give_back(std::move(emitting));
    return code;
  }

  Loaded load(const Code& code) override { return load_object(code); }

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

  std::mutex mutex_;
  std::map<std::string, std::vector<std::unique_ptr<Emitting>>> idle_;  ///< by Target::code_key()
};

}  // namespace

}  // namespace graft::codegen

extern "C" graft::codegen::Backend* graft_make_backend() {
  return new graft::codegen::LlvmBackend;
}
