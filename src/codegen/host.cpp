#include <ATen/Version.h>
#include <dlfcn.h>

#include <filesystem>
#include <stdexcept>

#include "codegen/backend.h"

namespace graft::codegen {

namespace {

using MakeBackend = Backend* (*)();

MakeBackend load_module() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&load_module), &self) == 0 || !self.dli_fname)
    throw std::runtime_error(
        "graft: cannot tell where libgraft.so lies, so libgraft_llvm.so beside it cannot be found");
  std::error_code ignored;
  auto folder = std::filesystem::canonical(self.dli_fname, ignored).parent_path();
  std::string path = (folder / "libgraft_llvm.so").string();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw std::runtime_error("graft: no code generator: looked for " + path + " (" + dlerror() +
                             "); build the target graft_llvm, or install it beside libgraft.so");
  void* made = dlsym(handle, "graft_make_backend");
  if (!made)
    throw std::runtime_error("graft: " + path +
                             " has no graft_make_backend: it is not of this version");
  return reinterpret_cast<MakeBackend>(made);
}

}  // namespace

Backend& host_backend() {
  // Never destroyed: a background thread may still compile while the process exits.
  static Backend* backend = load_module()();
  return *backend;
}

int vector_lanes() {
  static const int lanes = [] {
    std::string capability = at::get_cpu_capability();
    return capability == "AVX512" ? 16 : capability == "AVX2" ? 8 : 4;
  }();
  return lanes;
}

}  // namespace graft::codegen
