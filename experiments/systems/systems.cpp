#include "experiments/systems/systems.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/frame/usage.h"
#include "experiments/frame/experiment.h"
#include "experiments/systems/claim.h"
#include "lab/words.h"

namespace graft::experiments {
namespace {

std::vector<Claim> all_claims() {
  std::vector<Claim> out;
  for (const auto& list :
       {process_claims(), sequence_claims(), state_claims(), checkpoint_claims(),
        compression_claims(), sparse_claims(), number_claims(), fusion_claims(), target_claims()})
    out.insert(out.end(), list.begin(), list.end());
  return out;
}

/// Those that are named, by their ids or their systems; all where none is.
std::vector<Claim> chosen(const std::vector<Claim>& all, const std::vector<std::string>& names) {
  if (names.empty()) return all;
  std::vector<Claim> out;
  std::vector<std::string> known;
  for (const Claim& claim : all)
    for (const std::string& name : {claim.id, claim.system})
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw cli::UsageError("systems: there is no claim or system '" + name + "'; " +
                            cli::did_you_mean(name, known) + " 'graft systems --list' has all.");
  for (const Claim& claim : all)
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return name == claim.id || name == claim.system;
        }))
      out.push_back(claim);
  return out;
}

void list(const std::vector<Claim>& claims) {
  lab::Table table({{"system"}, {"claim"}, {"says"}});
  for (const Claim& claim : claims) table.row({claim.system, claim.id, claim.says});
  table.print(std::cout);
}

void run_systems(const std::vector<std::string>& names, const Settings& settings) {
  check(settings);
  const std::vector<Claim> claims = chosen(all_claims(), names);
  std::vector<std::string> ids;
  for (const Claim& claim : claims) ids.push_back(claim.id);
  Experiment experiment("systems", settings, {{"claims", ids}, {"small", settings.small}});
  experiment.view([&](const lab::Run& run) { return claims_section(claims, run); });
  for (const Claim& claim : claims)
    experiment.part(claim.id, claim.id, [&](const Say& say) {
      return claim.run(settings, say, experiment.facts(claim.id));
    });
  experiment.run();
}

}  // namespace

void add_systems(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "systems", "The write-ups' optimisations: what is claimed, what is measured here");
  const auto names = std::make_shared<std::vector<std::string>>();
  const auto settings = std::make_shared<Settings>();
  const auto only_list = std::make_shared<bool>(false);
  command->add_option("names", *names, "Claims or whole systems (all)");
  command->add_flag("--list", *only_list, "What is claimed, without measuring");
  add_settings(*command, *settings);
  command->callback([=] {
    if (*only_list) return list(chosen(all_claims(), *names));
    run_systems(*names, *settings);
  });
}

}  // namespace graft::experiments
