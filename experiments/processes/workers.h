// Several processes of this program that do one work, and answer.
#pragma once

#include <graft/systems/processes.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace graft::experiments {

/// What each of them does: with its place and what it was asked for it finds its answer.
using Work = nlohmann::json (*)(systems::Group&, const nlohmann::json& asked);

/// Runs the work of that name (workers.cpp) in `count` processes of `threads` threads each. Their
/// answers, by rank. Throws std::runtime_error where one fails; what it said is on the terminal.
std::vector<nlohmann::json> run_workers(const std::string& work, const nlohmann::json& asked,
                                        int count, int threads,
                                        const std::map<std::string, std::string>& environment = {});

/// Of times that each answer has under a name, per trial that of the slowest process.
std::vector<double> slowest(const std::vector<nlohmann::json>& answers, const char* name);

/// The hidden subcommand that they run.
void add_worker(CLI::App& app);

nlohmann::json sum_times(systems::Group& group, const nlohmann::json& asked);  // all_reduce.cpp
/// Steps of GPT-2's layers, in ms, with a timeline of one; the first losses. data_parallel.cpp
nlohmann::json training_times(systems::Group& group, const nlohmann::json& asked);

/// Regions, eager and compiled, in ms. region_times.cpp
nlohmann::json region_times(systems::Group& group, const nlohmann::json& asked);

}  // namespace graft::experiments
