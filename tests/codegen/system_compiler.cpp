#include "codegen/system_compiler.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "codegen/source/source.h"

namespace graft::test {

namespace {

std::string compiler() {
  const char* chosen = std::getenv("CXX");
  return chosen != nullptr ? chosen : "c++";
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

codegen::Code SystemCompiler::compile(std::span<const ir::Kernel* const> kernels,
                                      const ir::Target& target,
                                      std::vector<codegen::Listing>* listings) {
  codegen::Code code = codegen::compile_source(kernels, target);
  if (listings != nullptr) listings->push_back({"cpp", code.bytes});
  return code;
}

codegen::Loaded SystemCompiler::load(const codegen::Code& code) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "graft-source-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder at " + name);
  const fs::path folder = name;
  std::ofstream(folder / "kernels.cpp") << code.bytes;
  std::string command =
      compiler() + " " + codegen::kSourceFlags + " -o '" + (folder / "kernels.so").string() +
      "' '" + (folder / "kernels.cpp").string() + "' 2> '" + (folder / "errors").string() + "'";
  const bool compiled = std::system(command.c_str()) == 0;
  const std::string errors = read(folder / "errors");
  void* library =
      compiled ? dlopen((folder / "kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  const std::string why = compiled && library == nullptr ? dlerror() : errors.substr(0, 4000);
  if (std::getenv("GRAFT_KEEP_SOURCE") == nullptr) fs::remove_all(folder);
  if (library == nullptr) throw std::runtime_error("kernels' source: " + why);
  codegen::Loaded loaded;
  loaded.keep_alive = std::shared_ptr<void>(library, [](void* gone) { dlclose(gone); });
  for (const std::string& function : code.functions)
    loaded.functions.push_back(
        reinterpret_cast<codegen::KernelFn>(dlsym(library, function.c_str())));
  return loaded;
}

std::string SystemCompiler::describe(const ir::Target&) const {
  return "C++ by " + compiler();
}

}  // namespace graft::test
