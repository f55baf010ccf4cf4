// The graft command: one file a subcommand.

#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <iostream>

#include "cli/bench.h"
#include "cli/demo.h"
#include "cli/env.h"
#include "cli/explain.h"
#include "cli/list.h"
#include "cli/usage.h"
#include "cli/version.h"

namespace {

constexpr int kUsage = 1;

/// CLI11 says which words it could not place; a mistyped subcommand deserves the one that was
/// meant.
void check_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return;
  throw graft::cli::UsageError("there is no subcommand '" + std::string(argv[1]) + "'; " +
                               graft::cli::did_you_mean(argv[1], names) +
                               " 'graft --help' explains each.");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("torch.compile for LibTorch programs, and a laboratory that measures what it gains.",
               "graft");
  app.set_version_flag("--version", std::string("graft ") + graft::cli::kVersion);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("graft: ") + error.what() +
           "\nRun 'graft --help' or 'graft SUBCOMMAND --help' to see what is expected.\n";
  });
  graft::cli::add_demo(app);
  graft::cli::add_list(app);
  graft::cli::add_bench(app);
  graft::cli::add_explain(app);
  graft::cli::add_env(app);
  try {
    check_subcommand(app, argc, argv);
    app.parse(argc, argv);  // runs the subcommand
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0
                                : kUsage;  // CLI11's own codes start at 100; help and version are 0
  } catch (const std::exception& error) {
    std::cerr << "graft: " << error.what() << '\n';
    return kUsage;
  }
  return 0;
}
