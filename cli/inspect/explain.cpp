#include "cli/inspect/explain.h"

#include <c10/core/GradMode.h>

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

#include "cli/frame/usage.h"
#include "graft/workload.h"

namespace graft::cli {
namespace {

struct Choice {
  std::string workload;
  Options options;
  bool small = false;
};

void explain(const Choice& choice) {
  const workloads::Workload& workload = workload_or_throw(choice.workload);
  const c10::NoGradGuard no_grad;  // as bench
  const workloads::Instance instance = workload.make({.small = choice.small});
  Options options = choice.options;
  options.name = workload.name;
  const workloads::CompiledCall compiled = instance.compile(options);
  settle(compiled);
  std::cout << compiled.explain() << '\n' << compiled.report();
}

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* command = app.add_subcommand("explain", "Compile a workload and show each step of it");
  const auto choice = std::make_shared<Choice>();
  command->add_option("workload", choice->workload, "One of 'graft list'")->required();
  add_compile_flags(*command, choice->options);
  command->add_flag("--small", choice->small, "Tiny inputs: short texts to read");
  command->callback([choice] { explain(*choice); });
}

}  // namespace graft::cli
