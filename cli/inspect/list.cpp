#include "cli/inspect/list.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <iostream>

#include "graft/workload.h"
#include "lab/table.h"

namespace graft::cli {

void add_list(CLI::App& app) {
  CLI::App* command = app.add_subcommand("list", "Show the workloads that bench and explain know");
  command->callback([] {
    lab::Table table({{"workload"}, {"what it is"}, {"axes"}});
    for (const workloads::Workload& workload : workloads::workloads()) {
      std::string axes;
      for (const workloads::Axis& axis : workload.axes)
        axes += (axes.empty() ? "" : ", ") + axis.name + "=" + axis.value;
      table.row({workload.name, workload.summary, axes});
    }
    table.print(std::cout, lab::colour_wanted(STDOUT_FILENO));
  });
}

}  // namespace graft::cli
