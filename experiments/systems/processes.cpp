// Training in several processes.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "experiments/processes/workers.h"
#include "experiments/systems/claim.h"
#include "lab/stats.h"
#include "lab/words.h"

namespace graft::experiments {
namespace {

using nlohmann::json;

json step_of(const Trial& trial) {
  if (trial.small())
    return {{"layers", 1},  {"width", 24}, {"heads", 3},  {"vocabulary", 53},
            {"context", 9}, {"batch", 4},  {"losses", 3}, {"trials", 3}};
  if (trial.quick())
    return {{"layers", 2},    {"width", 512}, {"heads", 8},  {"vocabulary", 5000},
            {"context", 128}, {"batch", 4},   {"losses", 3}, {"trials", 6}};
  return {{"layers", 4},    {"width", 768}, {"heads", 12}, {"vocabulary", 10000},
          {"context", 256}, {"batch", 4},   {"losses", 3}, {"trials", 8}};
}

/// When sums and products run in one step: a point per begin and end.
std::string timeline_text(const json& timeline) {
  const double whole = timeline.at("ms");
  std::string starts, waits;
  double last_product = 0;
  for (const json& event : timeline.at("events")) {
    const std::string name = event[0];
    const double at = event[2].get<double>() / whole;
    if (event[1] == "ends" && !name.starts_with("graft::"))
      last_product = std::max(last_product, at);
    if (event[1] != "begins") continue;
    std::string& list = name == "graft::start_" ? starts : waits;
    if (name.starts_with("graft::")) list += (list.empty() ? "" : ", ") + lab::percent_text(at, 0);
  }
  return "one step: sums start at " + starts + " of it, the last product of backward ends at " +
         lab::percent_text(last_product, 0) + ", sums are awaited from " + waits;
}

void data_parallel(Trial& trial) {
  json asked = step_of(trial);
  const int rounds = trial.quick() ? 1 : 2;
  std::vector<double> one, two, eager_two;
  std::vector<json> alone, both;
  for (int round = 0; round < rounds; ++round) {
    trial.at(static_cast<double>(round) / rounds, "one process, then two");
    alone = run_workers("training_times", asked, 1, 1);
    both = run_workers("training_times", asked, 2, 1);
    json eagerly = asked;
    eagerly["eager"] = true;
    const auto eager = run_workers("training_times", eagerly, 2, 1);
    const auto add = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    add(one, slowest(alone, "ms")), add(two, slowest(both, "ms")),
        add(eager_two, slowest(eager, "ms"));
  }
  double apart = 0;
  for (size_t k = 0; k < alone[0]["losses"].size(); ++k)
    apart = std::max(
        apart, std::abs(alone[0]["losses"][k].get<double>() - both[0]["losses"][k].get<double>()));
  Facts facts;
  facts.accuracy = "losses of " + std::to_string(alone[0]["losses"].size()) +
                   " steps differ by at most " + lab::number(apart);
  const std::string configuration =
      "GPT-2's layers, batch " + asked["batch"].dump() + " x " + asked["context"].dump() + ", " +
      lab::bytes_text(both[0]["bytes"].get<double>()) + " of gradients";
  trial.compare(configuration, "1 process, 1 thread, compiled", one,
                "2 processes, 1 thread each, compiled", two, facts);
  trial.note("two processes eagerly: " + lab::number(lab::median(eager_two)) + " ms a step");
  trial.note(timeline_text(both[0]["timeline"]));
}

}  // namespace

std::vector<Claim> process_claims() {
  return {{"data_parallel", "many processes",
           "training in two processes of one thread: at least 1.6x one process of one thread, with "
           "communication overlapped",
           1.6, data_parallel}};
}

}  // namespace graft::experiments
