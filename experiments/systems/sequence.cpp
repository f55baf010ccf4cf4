// Ring attention and context parallelism. Processes are threads of this one (run_ranks), each with
// one thread for its kernels; what they send goes through Gloo and the loopback.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "experiments/systems/claim.h"
#include "graft/systems/ring_attention.h"
#include "lab/memory/memory.h"
#include "lab/thread_count.h"
#include "lab/timer.h"
#include "lab/words.h"

namespace graft::experiments {
namespace {

using systems::Group;
using systems::SequenceOptions;
using systems::Split;
using Attention = decltype(&systems::ring_attention);

const char* const kPlace =
    "Processes are threads of one process here, one kernel thread each; blocks go through Gloo and "
    "the loopback. The one process computes the same with as many kernel threads.";

struct SequenceSize {
  int64_t heads, length, width;

  std::string text() const {
    return std::to_string(length) + " tokens, " + lab::count_text(heads, "head") + " of " +
           std::to_string(width);
  }
  double causal_scores() const {
    return static_cast<double>(heads) * static_cast<double>(length) *
           static_cast<double>(length + 1) / 2;
  }
};

struct Inputs {
  at::Tensor q, k, v;

  static Inputs random(const SequenceSize& size, int64_t length) {
    const auto one = [&] { return at::randn({1, size.heads, length, size.width}); };
    return {one(), one(), one()};
  }
  Inputs part(const Group& group, Split split = Split::ZigZag) const {
    const auto of = [&](const at::Tensor& x) {
      return systems::split_sequence(x, 2, group.rank(), group.size(), split);
    };
    return {of(q), of(k), of(v)};
  }
  /// Leaves of their own, so that no gradient is added to one of before.
  Inputs leaves(bool train) const {
    const auto of = [&](const at::Tensor& x) { return x.detach().requires_grad_(train); };
    return {of(q), of(k), of(v)};
  }
};

at::Tensor backward_too(const at::Tensor& out, bool train) {
  if (train) out.backward(at::ones_like(out));
  return out.detach();
}

/// Causal attention of one process.
at::Tensor alone(const Inputs& inputs, bool train) {
  const Inputs x = inputs.leaves(train);
  return backward_too(
      std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(x.q, x.k, x.v, 0.0, true)),
      train);
}

at::Tensor shared(Attention attention, const Inputs& part, Group& group, bool train,
                  Split split = Split::ZigZag) {
  const Inputs x = part.leaves(train);
  return backward_too(attention(x.q, x.k, x.v, group, {.causal = true, .split = split}), train);
}

/// What is timed, in a group: by all processes, or by the first with the others waiting.
struct Side {
  std::function<void(Group&)> run;
  bool by_first_only = false;
  int threads = 1;  ///< of each process that runs
};

/// ms of both sides, in turns.
std::vector<std::vector<double>> in_turns(Group& group, const std::vector<Side>& sides,
                                          int trials) {
  std::vector<std::vector<double>> ms(sides.size());
  for (int trial = -1; trial < trials; ++trial)  // the first warms up
    for (size_t i = 0; i < sides.size(); ++i) {
      const Side& side = sides[i];
      at::set_num_threads(side.threads);
      group.barrier();
      const double time = lab::time_once_ms([&] {
        if (!side.by_first_only || group.rank() == 0) side.run(group);
        group.barrier();
      });
      if (trial >= 0) ms[i].push_back(time);
    }
  return ms;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

/// One process with `processes` threads, or with one, against a ring of processes.
lab::Ratio against_one(Trial& trial, const SequenceSize& size, bool train, int processes,
                       int threads) {
  const lab::ThreadCount restored(at::get_num_threads());  // ranks set it for threads to come
  const Inputs whole = Inputs::random(size, size.length);
  std::vector<std::vector<double>> ms;
  std::vector<int64_t> peaks(static_cast<size_t>(processes));
  int64_t one_peak = 0;
  double error = 0;
  systems::run_ranks(processes, [&](Group& group) {
    const Inputs part = whole.part(group);
    {
      const lab::MemoryTracker memory;
      const Inputs own = whole.part(group);  // counted: a process must hold its arguments
      const at::Tensor out = shared(systems::ring_attention, own, group, train);
      peaks[static_cast<size_t>(group.rank())] = memory.report().peak_bytes;
      const at::Tensor joined = systems::join_sequence(out, 2, group);
      if (group.rank() == 0) {
        const lab::MemoryTracker memory_of_one;
        const Inputs copy{whole.q.clone(), whole.k.clone(), whole.v.clone()};
        error = difference(joined, alone(copy, train));
        one_peak = memory_of_one.report().peak_bytes;
      }
    }
    const auto samples = in_turns(
        group, {{[&](Group&) { alone(whole, train); }, true, threads}, {[&](Group& g) {
                  shared(systems::ring_attention, part, g, train);
                }}},
        trial.quick() ? std::min(5, trial.settings.trial_count()) : trial.settings.trial_count());
    if (group.rank() == 0) ms = samples;
  });
  const std::string configuration = size.text() + (train ? ", forward and backward" : ", forward");
  return trial.compare(
      configuration, "1 process, " + lab::count_text(threads, "thread"), ms[0],
      std::to_string(processes) + " processes, ring", ms[1],
      {.accuracy = "results differ by " + lab::number(error, 2) + " at most",
       .baseline_bytes = static_cast<double>(one_peak),
       .bytes = static_cast<double>(*std::max_element(peaks.begin(), peaks.end()))});
}

/// The same work of two processes, by two ways.
void two_ways(Trial& trial, const SequenceSize& size, const std::string& first,
              Attention first_attention, Split first_split, const std::string& second,
              Split second_split) {
  const lab::ThreadCount restored(at::get_num_threads());  // ranks set it for threads to come
  const Inputs whole = Inputs::random(size, size.length);
  std::vector<std::vector<double>> ms;
  systems::run_ranks(2, [&](Group& group) {
    const Inputs a = whole.part(group, first_split), b = whole.part(group, second_split);
    const auto samples = in_turns(
        group,
        {{[&](Group& g) { shared(first_attention, a, g, false, first_split); }},
         {[&](Group& g) { shared(systems::ring_attention, b, g, false, second_split); }}},
        trial.quick() ? std::min(5, trial.settings.trial_count()) : trial.settings.trial_count());
    if (group.rank() == 0) ms = samples;
  });
  trial.compare(size.text() + ", 2 processes, forward", first, ms[0], second, ms[1]);
}

/// The most bytes of a process's tensors in a training step, arguments included.
double peak_bytes(Attention attention, const SequenceSize& size, int processes) {
  const lab::ThreadCount restored(at::get_num_threads());  // ranks set it for threads to come
  std::vector<int64_t> peaks(static_cast<size_t>(processes));
  systems::run_ranks(processes, [&](Group& group) {
    at::set_num_threads(1);
    const lab::MemoryTracker memory;
    shared(attention, Inputs::random(size, size.length / processes), group, true);
    peaks[static_cast<size_t>(group.rank())] = memory.report().peak_bytes;
  });
  return static_cast<double>(*std::max_element(peaks.begin(), peaks.end()));
}

/// Returns what a process of two has, of one of eight: 4 where it falls as 1/N.
double memory_by_processes(Trial& trial) {
  const SequenceSize size{1, trial.small() ? 8192 : trial.quick() ? 16384 : 32768, 32};
  lab::Figure figure{.caption = "Peak memory of a process, " + size.text() +
                                ", forward and backward, by processes",
                     .series = {{"ring"}, {"all keys gathered"}, {"1/N of one process"}},
                     .x_title = "processes",
                     .unit = "MiB",
                     .log_x = true,
                     .log_y = true};
  double one = 0, two = 0, last = 0;
  for (const int processes : {1, 2, 4, 8}) {
    const double ring = peak_bytes(systems::ring_attention, size, processes);
    const double gathered = peak_bytes(systems::gathered_attention, size, processes);
    if (processes == 1) one = ring;
    if (processes == 2) two = ring;
    last = ring;
    for (const auto& [series, bytes] : {std::pair(0, ring), {1, gathered}, {2, one / processes}})
      figure.series[static_cast<size_t>(series)].points.emplace_back(processes, bytes / 1048576);
    trial.row(size.text() + ", " + std::to_string(processes) +
                  (processes == 1 ? " process" : " processes"),
              "all keys gathered", "ring",
              {.accuracy = lab::number(ring / (one / processes), 3) + "x of 1/N of one process",
               .baseline_bytes = gathered,
               .bytes = ring});
  }
  trial.figure(std::move(figure));
  return two / last;
}

/// Largest difference of some queries' results from sums in fp64 over the whole sequence.
double spot_check(const at::Tensor& out, const Inputs& part, Group& group) {
  const at::Tensor k = systems::join_sequence(part.k, 2, group).to(at::kDouble);
  const at::Tensor v = systems::join_sequence(part.v, 2, group).to(at::kDouble);
  const int64_t local = out.size(2);
  const at::Tensor positions = systems::sequence_positions(local, group.rank(), group.size());
  const double scale = 1 / std::sqrt(static_cast<double>(out.size(3)));
  double worst = 0;
  for (const int64_t i : {int64_t{0}, local / 3, local / 2, local - 1}) {
    const int64_t keys = positions[i].item<int64_t>() + 1;
    const at::Tensor q = part.q.narrow(2, i, 1).to(at::kDouble);
    const at::Tensor weights = (q.matmul(k.narrow(2, 0, keys).transpose(2, 3)) * scale).softmax(-1);
    worst = std::max(worst, difference(out.narrow(2, i, 1).to(at::kDouble),
                                       weights.matmul(v.narrow(2, 0, keys))));
  }
  return worst;
}

struct LongRun {
  double seconds = 0, error = 0, bytes = 0;
};

LongRun long_run(const SequenceSize& size, int processes, bool train) {
  const lab::ThreadCount restored(at::get_num_threads());  // ranks set it for threads to come
  LongRun out;
  systems::run_ranks(
      processes,
      [&](Group& group) {
        at::set_num_threads(1);
        const lab::MemoryTracker memory;
        const Inputs part = Inputs::random(size, size.length / processes);
        group.barrier();
        at::Tensor result;
        const double ms = lab::time_once_ms([&] {
          result = shared(systems::ring_attention, part, group, train);
          group.barrier();
        });
        const double bytes = static_cast<double>(memory.report().peak_bytes);
        const double error = spot_check(result, part, group);
        const at::Tensor all = group.all_gather(at::scalar_tensor(error, at::kDouble));
        if (group.rank() == 0) out = {ms / 1e3, all.max().item<double>(), bytes};
      },
      {.timeout = std::chrono::hours(1)});  // processes wait for one another at the barrier
  return out;
}

/// The longest power of two, up to `most`, whose forecast fits, run once.
std::string long_context(Trial& trial, int64_t most, bool train, double limit) {
  const int processes = 2;
  const std::string what = train ? "forward and backward" : "forward";
  SequenceSize size{1, trial.small() ? 2048 : train ? 16384 : 32768, 16};
  long_run(size, processes, train);  // warm
  const LongRun piece = long_run(size, processes, train);
  const double rate = size.causal_scores() / piece.seconds;
  const auto forecast = [&](int64_t length) {
    return SequenceSize{size.heads, length, size.width}.causal_scores() / rate;
  };
  const std::string measured_piece = lab::number(piece.seconds) + " s for " + size.text();
  while (size.length < most && forecast(size.length * 2) <= limit) size.length *= 2;
  const double expected = forecast(size.length);
  if (size.length < most)
    trial.note(std::to_string(most) + " tokens, " + what + ", would take " +
               lab::duration_text(forecast(most)) + " by forecast, more than the limit of " +
               lab::duration_text(limit) + " here; " + std::to_string(size.length) + " were run.");
  trial.at(0.5, size.text() + ", " + what + ": forecast " + lab::duration_text(expected));
  const LongRun run = long_run(size, processes, train);
  trial.note(size.text() + ", " + what + ", " + std::to_string(processes) +
             " processes: forecast before the start " + lab::number(expected) + " s (" +
             measured_piece + ", times the ratio of scores), measured " + lab::number(run.seconds) +
             " s.");
  const double scores = static_cast<double>(size.length) * static_cast<double>(size.length) * 4;
  trial.row(size.text() + ", causal, " + what, "a matrix of scores",
            std::to_string(processes) + " processes, ring",
            {.accuracy = "forecast " + lab::number(expected) + " s, measured " +
                         lab::number(run.seconds) + " s; sampled results within " +
                         lab::number(run.error, 2) + " of fp64",
             .baseline_bytes = scores,
             .bytes = run.bytes});
  return std::to_string(size.length) + " tokens " + what + " in " +
         lab::duration_text(run.seconds) + ", " + lab::bytes_text(run.bytes) + " per process";
}

void ring(Trial& trial) {
  const int64_t length = trial.small() ? 1024 : trial.quick() ? 4096 : 16384;
  double worst = std::numeric_limits<double>::infinity();
  for (const SequenceSize& size : {SequenceSize{2, length, 32}, SequenceSize{4, length, 64}})
    for (const bool train : {false, true})
      worst = std::min(worst, against_one(trial, size, train, 2, 2).ratio);
  against_one(trial, {1, length, 32}, false, 2, 2);
  const SequenceSize size{2, length, 32};
  two_ways(trial, size, "ring, contiguous split", systems::ring_attention, Split::Contiguous,
           "ring, zig-zag", Split::ZigZag);
  two_ways(trial, size, "all keys gathered first", systems::gathered_attention, Split::ZigZag,
           "ring, zig-zag", Split::ZigZag);
  const double limit = trial.small() ? 0.2 : trial.quick() ? 2.5 : 600;
  const std::string longest = long_context(trial, int64_t{1} << 20, false, limit);
  long_context(trial, int64_t{1} << 20, true, limit / 2);
  trial.note(kPlace);
  trial.note(
      "One process's kernel deals blocks of queries to threads in equal numbers, so that of one "
      "causal head the second thread has three quarters; zig-zag halves it. Its backward uses one "
      "thread per head.");
  trial.verdict(longest + "; time " + lab::number(1 / worst, 3) +
                "x of one process's at worst (target 1.15x)");
}

void context(Trial& trial) {
  const int64_t length = trial.small() ? 1024 : trial.quick() ? 4096 : 16384;
  double worst = std::numeric_limits<double>::infinity();
  for (const bool train : {false, true})
    worst = std::min(worst, against_one(trial, {2, length, 32}, train, 2, 1).ratio);
  const double fall = memory_by_processes(trial);
  trial.note(kPlace);
  trial.note(
      "Work per process is 1/N of the scores for any N by count; more than two processes are "
      "timed nowhere here, since there are two cores.");
  trial.verdict(lab::number(worst, 3) + "x with 2 processes at worst; memory per process falls " +
                lab::number(fall, 3) + "x from 2 to 8 processes");
  trial.note(
      "Against one process alone the ring adds a constant factor, its buffers for blocks on their "
      "way and their gradients; from two processes on, memory falls with their number.");
}

}  // namespace

std::vector<Claim> sequence_claims() {
  return {
      {"ring_attention", "sequence", "Ring attention: sequences of 1 M tokens and more", 0, ring},
      {"context_parallelism", "sequence", "Context parallelism: linear in devices", 0, context}};
}

}  // namespace graft::experiments
