#include "cli/inspect/env.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/frame/version.h"
#include "lab/env.h"
#include "lab/table.h"

namespace graft::cli {

void add_env(CLI::App& app) {
  CLI::App* command = app.add_subcommand("env", "Show the machine and the build");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "As JSON");
  command->callback([json] {
    const lab::Environment environment = lab::read_environment(kVersion);
    if (*json) {
      std::cout << lab::to_json(environment).dump(2) << '\n';
    } else {
      lab::print(std::cout, environment, lab::colour_wanted(STDOUT_FILENO));
    }
  });
}

}  // namespace graft::cli
