#include "cli/inspect/explain.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/frame/usage.h"
#include "graft/workload.h"

namespace graft::cli {
namespace {

struct Choice {
  std::string workload;
  std::vector<std::string> axes;
  bool source = false, decisions = false;
  int threads = 0;
  Options options;
  bool small = false;
};

/// Cuts a part, heading and all, out of an explanation. Parts begin at lines like "== source ==".
std::string take_part(std::string& text, const std::string& name) {
  const size_t begin = text.find("\n== " + name + " ==\n");
  if (begin == std::string::npos) return "";
  const size_t end = std::min(text.find("\n== ", begin + 1), text.size());
  std::string part = text.substr(begin + 1, end - begin - 1);
  text.erase(begin, end - begin);
  return part.substr(part.find('\n') + 1);
}

void explain(const Choice& choice) {
  const workloads::Workload& workload = workload_or_throw(choice.workload);
  if (choice.threads > 0) at::set_num_threads(choice.threads);
  const c10::NoGradGuard no_grad;  // as bench
  const workloads::Instance instance =
      workload.make({.small = choice.small, .config = axis_values(choice.axes)});
  Options options = choice.options;
  options.name = workload.name;
  const workloads::CompiledCall compiled = instance.compile(options);
  settle(compiled);
  if (choice.decisions) {
    const std::vector<Decision> all = compiled.decisions();
    std::cout << decisions_text(all, all.size());
    return;
  }
  std::string text = compiled.explain();
  const std::string source = take_part(text, "source");
  if (choice.source)
    std::cout << (source.empty() ? text : source);
  else
    std::cout << text << '\n';
}

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* command = app.add_subcommand("explain", "Compile a workload and show each step of it");
  const auto choice = std::make_shared<Choice>();
  command->add_option("workload", choice->workload, "One of 'graft list'")->required();
  command->add_flag("--source", choice->source, "Print its kernels as C++ instead");
  command->add_flag("--decisions", choice->decisions,
                    "Print instead all that was decided by estimated cost");
  command->add_option("--threads", choice->threads, "ATen's threads, which schedules depend on")
      ->check(CLI::Range(1, 1024));
  add_axis_flag(*command, choice->axes);
  add_compile_flags(*command, choice->options);
  command->add_flag("--small", choice->small, "Tiny inputs: short texts to read");
  command->callback([choice] { explain(*choice); });
}

}  // namespace graft::cli
