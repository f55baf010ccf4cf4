#include "experiments/processes/all_reduce.h"

#include <ATen/ops/ones.h>
#include <graft/systems/processes.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "experiments/frame/experiment.h"
#include "experiments/frame/tables.h"
#include "experiments/processes/hand_over.h"
#include "experiments/processes/ring.h"
#include "experiments/processes/workers.h"
#include "lab/memory/available.h"
#include "lab/stats.h"
#include "lab/timer.h"
#include "lab/verdict.h"
#include "lab/words.h"

namespace graft::experiments {
namespace {

using nlohmann::json;

constexpr double kMega = 1e6;
/// The tensor, the copy model's second one, and Gloo's buffers.
constexpr double kTensorsPerProcess = 3;

/// What a process sends of `bytes` in a ring, and gets.
double ring_bytes(double bytes, int processes) {
  return 2.0 * (processes - 1) / processes * bytes;
}

int trials_of(double megabytes, const Settings& settings) {
  if (settings.trials > 0) return settings.trials;
  const double seconds = settings.small ? 0.01 : settings.quick ? 0.5 : 4;
  return std::clamp(static_cast<int>(seconds / (megabytes * 1e-3)), settings.quick ? 5 : 7, 50);
}

/// Why so many processes cannot have tensors of that size; empty: they can.
std::string lacks_memory(double megabytes, int processes) {
  const double needed = kTensorsPerProcess * megabytes * kMega * processes;
  const auto there = static_cast<double>(lab::available_memory());
  if (there < 0 || needed < there) return "";
  return lab::number(megabytes) + " MB in " + std::to_string(processes) + " processes needs " +
         lab::bytes_text(needed) + ", and " + lab::bytes_text(there) + " are free";
}

lab::Section of_processes(int processes, const std::vector<double>& sizes, const Settings& settings,
                          const Say& say) {
  lab::Section out{
      "", "Sums over " + std::to_string(processes) + " processes",
      "Median of the slowest process; below 10 MB of several sums in a row. Bus: the bytes that "
      "each process of a ring would "
      "send, by the time. Copy: each process copies the tensor twice. Handed over: a ring of "
      "copies through shared memory carries those bytes; a processor whose cores are far apart "
      "takes longer for that than for copies of its own. Loopback: a ring of plain sockets "
      "carries them."};
  lab::Table table(columns({"MB"}, {"ms", "bus GB/s", "Gloo ms", "against Gloo [95 %]", "copy ms",
                                    "handed over ms", "loopback ms", "against the better [95 %]"}));
  lab::Figure figure{"Bus bandwidth", {}, {{"graft"}, {"Gloo"}}, "MB", "GB/s", true};
  for (size_t s = 0; s < sizes.size(); ++s) {
    const double size = sizes[s];
    say(static_cast<double>(s) / static_cast<double>(sizes.size()), lab::number(size) + " MB");
    if (std::string why = lacks_memory(size, processes); !why.empty()) {
      out.notes.push_back("skipped: " + why);
      continue;
    }
    const int trials = trials_of(size, settings);
    const int threads = settings.threads > 0 ? settings.threads : 1;
    const auto answers =
        run_workers("sum_times", {{"bytes", size * kMega}, {"trials", trials}}, processes, threads);
    const auto memory = slowest(answers, "memory"), gloo = slowest(answers, "sockets"),
               copy = slowest(answers, "copy"), handed = slowest(answers, "handed over"),
               loopback = slowest(answers, "loopback");
    const double ms = lab::median(memory), moved = ring_bytes(size * kMega, processes);
    const auto against = [&](const std::vector<double>& reference) {
      return ratio_cell(lab::judge(reference, memory).ratio);
    };
    const bool copy_is_better = lab::median(copy) < lab::median(gloo);
    table.row({lab::number(size), lab::number(ms), lab::number(moved / ms / kMega),
               lab::number(lab::median(gloo)), against(gloo), lab::number(lab::median(copy)),
               lab::number(lab::median(handed)), lab::number(lab::median(loopback)),
               against(copy_is_better ? copy : gloo)});
    figure.series[0].points.emplace_back(size, moved / ms / kMega);
    figure.series[1].points.emplace_back(size, moved / lab::median(gloo) / kMega);
  }
  out.table = std::move(table);
  if (!figure.series[0].points.empty()) out.figures.push_back(std::move(figure));
  return out;
}

struct Choice {
  std::vector<double> sizes;
  std::vector<int> processes;
};

void run_all_reduce(Choice choice, const Settings& settings) {
  check(settings);
  if (choice.sizes.empty())
    choice.sizes = settings.small   ? std::vector<double>{0.1}
                   : settings.quick ? std::vector<double>{1, 10, 100}
                                    : std::vector<double>{1, 10, 100, 1000};
  if (choice.processes.empty())
    choice.processes =
        settings.quick || settings.small ? std::vector<int>{2} : std::vector<int>{2, 4, 6};
  Experiment experiment("allreduce", settings,
                        {{"sizes", choice.sizes}, {"processes", choice.processes}});
  for (const int count : choice.processes)
    experiment.part("processes-" + std::to_string(count), std::to_string(count) + " processes",
                    [&choice, &settings, count](const Say& say) {
                      return of_processes(count, choice.sizes, settings, say);
                    });
  experiment.run();
}

}  // namespace

/// Times of each way, in turns, each behind a barrier and a short sum: a barrier by sockets lets go
/// of the processes one after another, up to 0.1 ms apart. Short sums are timed several at a time.
json sum_times(systems::Group& group, const json& asked) {
  const auto bytes = static_cast<int64_t>(asked.at("bytes").get<double>());
  const int trials = asked.at("trials");
  systems::GroupOptions by_sockets;
  by_sockets.name = "sockets";
  by_sockets.sums = systems::GroupOptions::Sums::BySockets;
  const auto sockets = systems::Group::join(by_sockets);
  HandOver hand_over(group);
  Ring ring(group);
  const at::Tensor meeting = at::ones({1});
  const at::Tensor tensor = at::ones({std::max<int64_t>(bytes / 4, 1)}), other = tensor.clone();
  const auto ring_share =
      static_cast<int64_t>(ring_bytes(static_cast<double>(tensor.nbytes()), group.size()));
  const std::vector<std::pair<std::string, std::function<void()>>> ways{
      {"memory", [&] { group.all_reduce(tensor); }},
      {"sockets", [&] { sockets->all_reduce(tensor); }},
      {"copy",
       [&] {
         std::memcpy(other.mutable_data_ptr(), tensor.const_data_ptr(), tensor.nbytes());
         std::memcpy(tensor.mutable_data_ptr(), other.const_data_ptr(), tensor.nbytes());
       }},
      {"handed over",
       [&] {
         for (int half = 0; half < 2; ++half)
           hand_over.pass(static_cast<const char*>(tensor.const_data_ptr()),
                          static_cast<char*>(other.mutable_data_ptr()), ring_share / 2);
       }},
      {"loopback", [&] { ring.pass(ring_share); }},
  };
  json out;
  constexpr int kWarmUp = 2;
  constexpr int64_t kTimedBytes = 50'000'000, kMostCalls = 50;
  const int64_t calls =
      std::clamp<int64_t>(kTimedBytes / std::max<int64_t>(bytes, 1), 1, kMostCalls);
  for (int trial = -kWarmUp; trial < trials; ++trial) {
    tensor.fill_(1);
    for (const auto& [name, run] : ways) {
      group.barrier();
      group.all_reduce(meeting);
      const double ms = lab::time_once_ms([&] {
        for (int64_t call = 0; call < calls; ++call) run();
      });
      if (trial >= 0) out[name].push_back(ms / static_cast<double>(calls));
    }
  }
  return out;
}

void add_all_reduce(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "allreduce", "Sums over processes by size, beside Gloo, the loopback and a memory copy");
  const auto choice = std::make_shared<Choice>();
  const auto settings = std::make_shared<Settings>();
  command->add_option("--size", choice->sizes, "MB, joined by commas (1,10,100,1000)")
      ->delimiter(',')
      ->check(CLI::Range(1e-3, 1e5));
  command->add_option("--processes", choice->processes, "Joined by commas (2,4,6)")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  add_settings(*command, *settings);
  command->callback([choice, settings] { run_all_reduce(*choice, *settings); });
}

}  // namespace graft::experiments
