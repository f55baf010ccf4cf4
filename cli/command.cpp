// The graft command: one file per subcommand.

#include <graft/workload.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>

#include "cli/demo/demo.h"
#include "cli/frame/errors.h"
#include "cli/frame/usage.h"
#include "cli/frame/version.h"
#include "cli/inspect/cache.h"
#include "cli/inspect/check.h"
#include "cli/inspect/compile.h"
#include "cli/inspect/env.h"
#include "cli/inspect/explain.h"
#include "cli/inspect/list.h"
#include "cli/inspect/memory.h"
#include "cli/inspect/profile.h"
#include "cli/inspect/tune.h"
#include "cli/measure/bench.h"
#include "cli/measure/study.h"
#include "cli/results/compare.h"
#include "cli/results/history.h"
#include "cli/results/report.h"
#include "experiments/components/components.h"
#include "experiments/language_model/language_model.h"
#include "experiments/llama/llama.h"
#include "experiments/processes/all_reduce.h"
#include "experiments/processes/launch.h"
#include "experiments/processes/workers.h"
#include "experiments/systems/systems.h"
#include "quantizer/command/generate.h"
#include "quantizer/command/quantize.h"
#include "quantizer/experiment/gptq.h"

namespace graft {
namespace {

constexpr int kUsage = 1;

/// CLI11 only says which words it did not expect; for a mistyped subcommand this names the one that
/// was meant.
void check_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return;
  throw cli::UsageError("there is no subcommand '" + std::string(argv[1]) + "'; " +
                        cli::did_you_mean(argv[1], names) + " 'graft --help' explains each.");
}

}  // namespace

int run_command(int argc, char** argv) {
  cli::foresee_out_of_memory();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error that says so, not an end
  CLI::App app("torch.compile for LibTorch programs, and a laboratory that measures what it gains.",
               "graft");
  app.set_version_flag("--version", std::string("graft ") + cli::kVersion);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* root, const CLI::Error& error) {
    const auto given = root->get_subcommands();
    return std::string("graft: ") + error.what() + "\nRun 'graft " +
           (given.empty() ? "" : given.front()->get_name() + ' ') +
           "--help' to see what is expected.\n";
  });
  cli::add_demo(app);
  cli::add_list(app);
  cli::add_bench(app);
  cli::add_check(app);
  cli::add_cache(app);
  cli::add_compile(app);
  cli::add_compare(app);
  cli::add_history(app);
  cli::add_explain(app);
  cli::add_generate(app);
  cli::add_gptq(app);
  experiments::add_llama(app);
  experiments::add_language_model(app);
  cli::add_memory(app);
  cli::add_profile(app);
  cli::add_quantize(app);
  experiments::add_components(app);
  experiments::add_systems(app);
  experiments::add_all_reduce(app);
  experiments::add_launch(app);
  experiments::add_worker(app);
  cli::add_study(app);
  cli::add_tune(app);
  cli::add_env(app);
  cli::add_report(app);
  try {
    check_subcommand(app, argc, argv);
    app.parse(argc, argv);  // runs the subcommand
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();  // a subcommand's verdict
  } catch (const CLI::ParseError& error) {
    // CLI11's own codes start at 100; help and version are 0.
    return app.exit(error) == 0 ? 0 : kUsage;
  } catch (const std::exception& error) {
    std::cerr << "graft: " << cli::error_text(error) << '\n';
    return kUsage;
  }
  return 0;
}

}  // namespace graft
