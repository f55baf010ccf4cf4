// Gradient compression: bytes and time of one average, and what training loses by it. Processes
// are threads of this one (run_ranks), each with one kernel thread, over Gloo and the loopback.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/systems/claim.h"
#include "graft/systems/gradient_compression.h"
#include "lab/stats.h"
#include "lab/thread_count.h"
#include "lab/timer.h"
#include "lab/words.h"

namespace graft::experiments {
namespace {

using systems::Compressor;
using systems::Group;

constexpr int kProcesses = 2;

struct Way {
  std::string name;
  std::function<std::shared_ptr<Compressor>()> make;
  bool forgets = false;  ///< no error feedback though it leaves much out: to see what that is for
};

std::vector<Way> all_ways() {
  using namespace systems;
  return {
      {"uncompressed", uncompressed},
      {"top 1 %", [] { return top_k({.share = 0.01}); }},
      {"top 1 %, nothing remembered",
       [] { return top_k({.share = 0.01, .error_feedback = false}); }, true},
      {"PowerSGD, rank 2", [] { return power_sgd({.rank = 2}); }},
      {"8 bits", [] { return eight_bit(); }},
      {"8 bits, by chance", [] { return eight_bit({.stochastic = true}); }},
      {"1 bit", [] { return one_bit(); }},
      {"1 bit, nothing remembered", [] { return one_bit({.error_feedback = false}); }, true},
  };
}

at::Generator generator(uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

struct Reduction {
  std::vector<double> baseline_ms, ms;   ///< in turns
  double baseline_bytes = 0, bytes = 0;  ///< per call
  double error = 0;                      ///< of the average, relative
};

/// Averages of one gradient, uncompressed and by `way`.
Reduction reduce_in_turns(const Way& way, int64_t side, int trials) {
  const lab::ThreadCount restored(at::get_num_threads());  // ranks set it for threads to come
  Reduction out;
  systems::run_ranks(kProcesses, [&](Group& group) {
    at::set_num_threads(1);
    const auto plain = systems::uncompressed(), compressed = way.make();
    const at::Tensor source =
        at::randn({side, side}, generator(1 + static_cast<uint64_t>(group.rank())));
    at::Tensor exact = source.clone(), work = source.clone();
    for (int trial = -2; trial < trials; ++trial)
      for (Compressor* one : {plain.get(), compressed.get()}) {
        at::Tensor& into = one == plain.get() ? exact : work;
        into.copy_(source);
        group.barrier();
        const double ms = lab::time_once_ms([&] {
          one->reduce(group, into);
          group.barrier();
        });
        if (group.rank() != 0) continue;
        if (trial == -2 && one == compressed.get())
          out.error = ((work - exact).norm() / exact.norm()).item<double>();
        if (trial >= 0) (one == plain.get() ? out.baseline_ms : out.ms).push_back(ms);
      }
    if (group.rank() != 0) return;
    out.baseline_bytes = static_cast<double>(plain->bytes_sent()) / (trials + 2);
    out.bytes = static_cast<double>(compressed->bytes_sent()) / (trials + 2);
  });
  return out;
}

/// Points of ten classes around four centres each, in 16 dimensions.
struct Data {
  at::Tensor x, y;

  static Data draw(int64_t count, uint64_t seed) {
    constexpr int64_t kClasses = 10, kCentres = 4, kWidth = 16;
    const at::Tensor centres = at::randn({kClasses * kCentres, kWidth}, generator(11));
    const at::Tensor which =
        at::randint(0, kClasses * kCentres, {count}, generator(seed), at::kLong);
    const at::Tensor noise = at::randn({count, kWidth}, generator(seed + 1000003));
    return {centres.index_select(0, which) + 0.75 * noise,
            which.div(kCentres, "floor").to(at::kLong)};
  }
};

/// 16 - 128 - 128 - 10 with ReLU.
struct Network {
  std::vector<at::Tensor> parameters;

  Network() {
    const int64_t widths[] = {16, 128, 128, 10};
    for (uint64_t i = 0; i < 3; ++i) {
      const double scale = std::sqrt(2.0 / static_cast<double>(widths[i]));
      parameters.push_back(
          (at::randn({widths[i + 1], widths[i]}, generator(21 + i)) * scale).requires_grad_());
      parameters.push_back(at::zeros({widths[i + 1]}).requires_grad_());
    }
  }
  at::Tensor operator()(at::Tensor x) const {
    for (size_t i = 0; i < 6; i += 2) {
      x = at::addmm(parameters[i + 1], x, parameters[i].t());
      if (i < 4) x = x.relu();
    }
    return x;
  }
};

struct Learned {
  double accuracy = 0;  ///< of points that were not trained on
  double bytes = 0;     ///< per step and process
  std::vector<std::pair<double, double>> loss;
};

/// `steps` of SGD with momentum, each process with batches of its own.
Learned train(const Way& way, int steps) {
  const lab::ThreadCount restored(at::get_num_threads());  // ranks set it for threads to come
  Learned out;
  systems::run_ranks(kProcesses, [&](Group& group) {
    at::set_num_threads(1);
    const Network network;
    const auto compressor = way.make();
    std::vector<std::vector<int64_t>> shapes;
    std::vector<at::Tensor> momentum;
    std::vector<int64_t> counts;
    for (const at::Tensor& parameter : network.parameters) {
      shapes.push_back(parameter.sizes().vec());
      counts.push_back(parameter.numel());
      momentum.push_back(at::zeros(parameter.sizes()));
    }
    double mean = 0;
    const int between = std::max(1, steps / 40);
    for (int step = 0; step < steps; ++step) {
      const Data batch =
          Data::draw(64, 100 + static_cast<uint64_t>(step * kProcesses + group.rank()));
      const at::Tensor loss = at::cross_entropy_loss(network(batch.x), batch.y);
      loss.backward();
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : network.parameters)
        gradients.push_back(parameter.grad().view(-1));
      const at::Tensor flat = at::cat(gradients);
      compressor->reduce(group, flat, 0, shapes);
      const std::vector<at::Tensor> averages = flat.split_with_sizes(counts);
      for (size_t i = 0; i < momentum.size(); ++i) {
        const at::Tensor& parameter = network.parameters[i];
        momentum[i].mul_(0.9).add_(averages[i].view(shapes[i]));
        parameter.detach().sub_(momentum[i], 0.02);
        parameter.mutable_grad().reset();
      }
      mean += loss.item<double>() / between;
      if ((step + 1) % between != 0) continue;
      if (group.rank() == 0) out.loss.emplace_back(step + 1, mean);
      mean = 0;
    }
    if (group.rank() != 0) return;
    const Data held_out = Data::draw(4096, 7);
    const at::Tensor right = network(held_out.x).argmax(1).eq(held_out.y);
    out.accuracy = right.to(at::kDouble).mean().item<double>();
    out.bytes = static_cast<double>(compressor->bytes_sent()) / steps;
  });
  return out;
}

void times(Trial& trial, const std::vector<Way>& ways) {
  const int64_t side = trial.small() ? 128 : trial.quick() ? 1280 : 2560;
  const int trials =
      trial.quick() ? std::min(5, trial.settings.trial_count()) : trial.settings.trial_count();
  std::vector<std::string> bounds;
  for (size_t i = 1; i < ways.size(); ++i) {
    trial.at(0.4 * static_cast<double>(i) / static_cast<double>(ways.size()), ways[i].name);
    const Reduction got = reduce_in_turns(ways[i], side, trials);
    const lab::Ratio ratio = trial.compare(
        "average of " + lab::bytes_text(static_cast<double>(side * side * 4)) + ", 2 processes",
        "uncompressed", got.baseline_ms, ways[i].name, got.ms,
        {.accuracy = "average differs by " + lab::percent_text(got.error) + " in norm",
         .baseline_bytes = got.baseline_bytes,
         .bytes = got.bytes});
    if (ratio.ratio >= 1) {
      bounds.push_back(ways[i].name + " on any");
      continue;
    }
    // What it takes longer here must be won back by the bytes that the link does not carry.
    const double more = (lab::median(got.ms) - lab::median(got.baseline_ms)) / 1e3;
    bounds.push_back(ways[i].name + " below " +
                     lab::number((got.baseline_bytes - got.bytes) * 8 / more / 1e9) + " Gbit/s");
  }
  trial.note("Links on which a way is ahead, by the time that it takes longer over the loopback: " +
             lab::joined(bounds, ", ") + ".");
}

std::string learning(Trial& trial, const std::vector<Way>& ways) {
  const int steps = trial.small() ? 20 : trial.quick() ? 300 : 2000;
  const std::string configuration = "10 classes, " + std::to_string(steps) + " steps, 2 processes";
  lab::Figure figure{.caption = "Training loss by step", .x_title = "steps", .log_y = true};
  Learned exact;
  double least = 1, least_forgetting = 1;
  for (size_t i = 0; i < ways.size(); ++i) {
    trial.at(0.4 + 0.6 * static_cast<double>(i) / static_cast<double>(ways.size()),
             "training, " + ways[i].name);
    const Learned got = train(ways[i], steps);
    figure.series.push_back({ways[i].name, got.loss});
    if (i == 0) {
      exact = got;
      continue;
    }
    const double kept = got.accuracy / exact.accuracy;
    double& lowest = ways[i].forgets ? least_forgetting : least;
    lowest = std::min(lowest, kept);
    trial.row(
        configuration, ways[0].name, ways[i].name,
        {.accuracy = lab::percent_text(got.accuracy) + " right against " +
                     lab::percent_text(exact.accuracy) + ": " + lab::percent_text(kept) + " kept",
         .baseline_bytes = exact.bytes,
         .bytes = got.bytes});
  }
  trial.figure(std::move(figure));
  return std::string(least >= 0.94 ? "holds" : "does not hold") + ": " + lab::percent_text(least) +
         " of the accuracy kept at least, " + lab::percent_text(least_forgetting) +
         " where what is left out is not remembered";
}

void compression(Trial& trial) {
  const std::vector<Way> ways = all_ways();
  times(trial, ways);
  const std::string kept = learning(trial, ways);
  trial.note(
      "Bytes: sent by a process per call. The network, 16 - 128 - 128 - 10, is trained by SGD with "
      "momentum at one rate for all ways, each process on 64 points a step; accuracy is of 4096 "
      "points not seen.");
  trial.note("Processes are threads here, with one kernel thread each, over Gloo's loopback.");
  trial.verdict(kept);
}

}  // namespace

std::vector<Claim> compression_claims() {
  return {{"gradient_compression", "compression",
           "Gradient compression (top-k, PowerSGD, 8 bits, 1 bit): 94 % of the accuracy kept", 0,
           compression}};
}

}  // namespace graft::experiments
