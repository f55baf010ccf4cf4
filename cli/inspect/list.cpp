#include "cli/inspect/list.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

#include "cli/frame/usage.h"
#include "graft/workload.h"
#include "lab/table.h"

namespace graft::cli {

void add_list(CLI::App& app) {
  CLI::App* command = app.add_subcommand("list", "Show the workloads that bench and explain know");
  const auto set = std::make_shared<std::string>(workloads::kDefaultSet);
  add_set_flag(*command, *set);
  command->callback([set] {
    lab::Table table({{"workload"}, {"what it is"}, {"axes"}});
    for (const workloads::Workload& workload : workloads::workloads()) {
      if (workload.set != *set) continue;
      std::string axes;
      for (const workloads::Axis& axis : workload.axes)
        axes += (axes.empty() ? "" : ", ") + axis.name + "=" + axis.value;
      table.row({workload.name, workload.summary, axes});
    }
    table.print(std::cout, lab::colour_wanted(STDOUT_FILENO));
    for (const std::string& other : set_names())
      if (other != *set) std::cout << "Another set: graft list --set " << other << '\n';
  });
}

}  // namespace graft::cli
