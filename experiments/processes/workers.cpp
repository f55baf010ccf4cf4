#include "experiments/processes/workers.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>

#include "cli/frame/child.h"
#include "experiments/frame/folder.h"
#include "formats/files.h"

namespace graft::experiments {
namespace {

using nlohmann::json;

const std::map<std::string, Work>& works() {
  static const std::map<std::string, Work> all{
      {"sum_times", sum_times}, {"training_times", training_times}, {"region_times", region_times}};
  return all;
}

std::string answer_file(int rank) {
  return std::to_string(rank) + ".json";
}

}  // namespace

std::vector<json> run_workers(const std::string& work, const json& asked, int count, int threads,
                              const std::map<std::string, std::string>& environment) {
  const Folder folder({}, "");
  systems::LaunchOptions options;
  options.count = count;
  options.threads = threads;
  options.environment = environment;
  options.command = {"/proc/self/exe", "worker", work, asked.dump(), folder.path().string()};
  const int status = systems::launch(options);
  if (status != 0)
    throw std::runtime_error("a process of '" + work + "' ended with status " +
                             std::to_string(status) + "; what it said stands above");
  std::vector<json> answers;
  for (int rank = 0; rank < count; ++rank)
    answers.push_back(formats::read_json(folder.file(answer_file(rank))));
  return answers;
}

std::vector<double> slowest(const std::vector<json>& answers, const char* name) {
  std::vector<double> out = answers.front().at(name).get<std::vector<double>>();
  for (const json& answer : answers) {
    const auto own = answer.at(name).get<std::vector<double>>();
    for (size_t i = 0; i < out.size(); ++i) out[i] = std::max(out[i], own[i]);
  }
  return out;
}

void add_worker(CLI::App& app) {
  CLI::App* command = app.add_subcommand("worker", "One of several processes of an experiment");
  command->group("");  // not for people
  const auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("words", *words)->expected(3)->required();
  command->callback([words] {
    cli::end_with_parent();
    const auto group = systems::Group::join();
    const json answer = works().at((*words)[0])(*group, json::parse((*words)[1]));
    formats::write_file((*words)[2] + '/' + answer_file(group->rank()), answer.dump());
    group->barrier();  // rank 0 keeps the store until all are done
  });
}

}  // namespace graft::experiments
