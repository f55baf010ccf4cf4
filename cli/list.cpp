#include "cli/list.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <iostream>

#include "lab/table.h"
#include "workloads/workload.h"

namespace graft::cli {

void add_list(CLI::App& app) {
  CLI::App* command = app.add_subcommand("list", "Show the workloads that bench and explain know");
  command->callback([] {
    lab::Table table({{"workload"}, {"what it is"}});
    for (const workloads::Workload& workload : workloads::workloads())
      table.row({workload.name, workload.summary});
    table.print(std::cout, lab::colour_wanted(STDOUT_FILENO));
  });
}

}  // namespace graft::cli
