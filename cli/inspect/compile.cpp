#include "cli/inspect/compile.h"

#include <c10/core/GradMode.h>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/frame/usage.h"
#include "graft/workload.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

struct CompileChoice {
  std::string workload, out;
  std::vector<std::string> axes;
  Options options;
  bool small = false;
};

void compile_workload(const CompileChoice& choice) {
  const workloads::Workload& workload = workload_or_throw(choice.workload);
  const std::string out = choice.out.empty() ? workload.name + ".graft" : choice.out;
  check_writable("--out", out);
  const c10::NoGradGuard no_grad;  // as bench
  const workloads::Instance instance =
      workload.make({.small = choice.small, .config = axis_values(choice.axes)});
  Options options = choice.options;
  options.name = workload.name;
  options.cache = true;
  const workloads::CompiledCall compiled = instance.compile(options);
  settle(compiled);
  std::cout << compiled.report();
  compiled.save(out);
  std::cout << "\nwritten to " << out << ", "
            << lab::bytes_text(static_cast<double>(std::filesystem::file_size(out)))
            << ": graft::load(\"" << out << "\") lets a program on such a machine find it\n";
}

}  // namespace

void add_compile(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "compile", "Compile a workload and write its plan into a file, for graft::load");
  const auto choice = std::make_shared<CompileChoice>();
  command->add_option("workload", choice->workload, "One of 'graft list'")->required();
  must_be_path(
      command->add_option("-o,--out", choice->out, "The file; WORKLOAD.graft if not given"));
  add_axis_flag(*command, choice->axes);
  add_compile_flags(*command, choice->options);
  command->add_flag("--small", choice->small, "Tiny inputs");
  command->callback([choice] { compile_workload(*choice); });
}

}  // namespace graft::cli
