#include "experiments/processes/launch.h"

#include <graft/systems/processes.h>

#include <CLI/CLI.hpp>

#include <memory>
#include <stdexcept>

#include "cli/frame/usage.h"

namespace graft::experiments {

void add_launch(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "launch", "Starts a program several times, with torchrun's variables, and waits for all");
  const auto options = std::make_shared<systems::LaunchOptions>();
  const auto grace = std::make_shared<double>(5);
  command->add_option("-n,--processes", options->count, "How many (2)")->check(CLI::Range(1, 4096));
  command->add_option("--threads", options->threads, "OMP_NUM_THREADS of each (the cores, divided)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--port", options->port, "MASTER_PORT (a free one)")
      ->check(CLI::Range(1, 65535));
  command
      ->add_option("--grace", *grace,
                   "Seconds from the first that fails until others are killed (5)")
      ->check(CLI::Range(0.0, 3600.0));
  command->add_option("program", options->command, "Program and arguments")->required();
  command->positionals_at_end();
  command->prefix_command();
  command->callback([command, options, grace] {
    for (const std::string& word : command->remaining()) options->command.push_back(word);
    options->grace = std::chrono::milliseconds(static_cast<int64_t>(*grace * 1000));
    int status = 0;
    try {
      status = systems::launch(*options);
    } catch (const std::invalid_argument& error) {
      throw cli::UsageError(error.what());
    }
    if (status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace graft::experiments
