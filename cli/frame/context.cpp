#include "cli/frame/context.h"

#include <ctime>
#include <iostream>

#include "cli/frame/version.h"
#include "lab/env.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::cli {

nlohmann::json run_context() {
  nlohmann::json context = lab::to_json(lab::read_environment(kVersion));
  char now[32];
  const std::time_t seconds = std::time(nullptr);
  std::strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&seconds));
  context["date"] = now;
  return context;
}

std::string busy_text(const nlohmann::json& context) {
  const double load = context.value("load", 0.0);
  const int cpus = context.value("logical_cpus", 1);
  if (load < 0.5 * cpus) return "";
  return "the machine is busy (load " + lab::number(load, 2) + " on " + std::to_string(cpus) +
         " CPUs): timings will be unsteady; stop other programs first";
}

void warn_if_busy(const nlohmann::json& context) {
  if (const std::string text = busy_text(context); !text.empty())
    std::cerr << "graft: " << text << ".\n";
}

}  // namespace graft::cli
