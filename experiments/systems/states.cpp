// Deep optimizer states: AdamW's states in a file, within a budget of memory.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fcntl.h>
#include <graft/systems/optimizer_states.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include "experiments/systems/claim.h"
#include "lab/memory/resident.h"
#include "lab/stats.h"
#include "lab/words.h"

namespace graft::experiments {
namespace {

using at::Tensor;
using systems::FileAccess;
using systems::OffloadedAdamW;
using systems::OffloadOptions;

/// A multi-layer perceptron: as many steps of matrix products per parameter as a transformer has.
struct Model {
  Model(int layers, int64_t width, int64_t rows) : input(at::randn({rows, width})) {
    for (int i = 0; i < layers; ++i)
      parameters.push_back((at::randn({width, width}) / std::sqrt(width)).requires_grad_());
  }
  void backward() const {
    Tensor x = input;
    for (const Tensor& p : parameters) x = at::mm(x, p).tanh();
    x.square().mean().backward();
  }
  void zero_grad() const {
    for (const Tensor& p : parameters) p.mutable_grad().reset();
  }
  int64_t elements() const {
    int64_t sum = 0;
    for (const Tensor& p : parameters) sum += p.numel();
    return sum;
  }
  int64_t state_bytes() const { return 2 * elements() * int64_t{sizeof(float)}; }

  Tensor input;
  std::vector<Tensor> parameters;
};

/// The states in memory, and the same formula.
struct InMemory {
  explicit InMemory(const Model& m) : model(m) {
    for (const Tensor& p : model.parameters) {
      exp_avg.push_back(at::zeros_like(p.detach()));
      exp_avg_sq.push_back(at::zeros_like(p.detach()));
      steps.push_back(at::full({}, 0.0f));
    }
  }
  void step() {
    const c10::NoGradGuard no_grad;
    std::vector<Tensor> gradients;
    for (const Tensor& p : model.parameters) gradients.push_back(p.grad());
    for (const Tensor& count : steps) count.add_(1);
    const OffloadOptions o;
    at::_fused_adamw_(model.parameters, gradients, exp_avg, exp_avg_sq, {}, steps, o.lr, o.beta1,
                      o.beta2, o.weight_decay, o.eps, false, false);
  }
  const Model& model;
  std::vector<Tensor> exp_avg, exp_avg_sq, steps;
};

/// A state file that goes with the object.
struct Place {
  explicit Place(const std::string& folder)
      : file(folder + "/graft_states_" + std::to_string(getpid())) {
    std::filesystem::remove(file);
  }
  ~Place() { std::filesystem::remove(file); }
  std::string file;
};

std::string disk() {
  return std::filesystem::temp_directory_path().string();
}

struct ModelSize {
  int layers = 0;
  int64_t width = 0;
  std::vector<int64_t> rows;
};
ModelSize model_size_of(const Trial& trial) {
  if (trial.small()) return {6, 128, {16}};
  if (trial.quick()) return {12, 512, {256}};
  return {12, 1024, {64, 512}};
}

struct Kind {
  std::string name, folder;
  FileAccess access;
  bool keep_parameters;
};

std::vector<Kind> kinds(const Trial& trial) {
  std::vector<Kind> out = {
      {"disk past the page cache, resumable", disk(), FileAccess::Direct, true}};
  out.push_back({"shared memory, resumable", "/dev/shm", FileAccess::Cached, true});
  if (trial.quick()) return out;
  out.push_back({"disk past the page cache, states alone", disk(), FileAccess::Direct, false});
  out.push_back({"page cache, resumable", disk(), FileAccess::Cached, true});
  return out;
}

/// Seconds of reading and writing `bytes` of the file that optimizers use, in blocks as large as
/// theirs.
struct Bandwidth {
  double read = 0, write = 0;  ///< bytes per second
};
Bandwidth bandwidth(const Kind& kind, int64_t block, int blocks) {
  const Place place(kind.folder);
  const int flags = kind.access == FileAccess::Direct ? O_DIRECT : 0;
  const int file = ::open(place.file.c_str(), O_RDWR | O_CREAT | flags, 0600);
  TORCH_CHECK(file >= 0, place.file, ": ", std::strerror(errno));
  void* memory = mmap(nullptr, block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, static_cast<size_t>(block));
  const auto pass = [&](auto call) {
    return lab::time_once_ms([&] {
             for (int i = 0; i < blocks; ++i)
               TORCH_CHECK(call(file, memory, static_cast<size_t>(block), i * block) == block,
                           place.file, ": ", std::strerror(errno));
           }) /
           1e3;
  };
  std::vector<double> reads, writes;
  pass(::pwrite);  // takes the space
  for (int i = 0; i < 3; ++i) {
    writes.push_back(pass(::pwrite));
    reads.push_back(pass(::pread));
  }
  munmap(memory, block);
  ::close(file);
  const double bytes = static_cast<double>(block) * blocks;
  return {bytes / lab::median(reads), bytes / lab::median(writes)};
}

// Whole training steps. What goes on in the background after step() is part of the time.
void train_within_budget(Trial& trial) {
  const ModelSize size = model_size_of(trial);
  const int steps = trial.quick() ? 2 : 3;
  double worst = 1e9;
  std::string where;
  int at = 0;
  const auto all = kinds(trial);
  for (const int64_t rows : size.rows)
    for (const Kind& kind : all) {
      trial.at(static_cast<double>(at++) / (size.rows.size() * all.size()), kind.name);
      const Model model(size.layers, size.width, rows), offloaded(size.layers, size.width, rows);
      InMemory memory(model);
      const Place place(kind.folder);
      const int64_t budget = model.state_bytes() / 4;
      offloaded.backward();  // its gradients and activations have their memory before
      const int64_t resident = lab::resident_bytes();
      OffloadedAdamW adamw(offloaded.parameters, {.file = place.file,
                                                  .budget_bytes = budget,
                                                  .keep_parameters = kind.keep_parameters,
                                                  .access = kind.access});
      adamw.step();
      adamw.wait();
      const int64_t grown = lab::resident_bytes() - resident;
      const auto ratio = trial.compare(
          std::to_string(size.layers) + " x " + std::to_string(size.width) + "^2, " +
              std::to_string(rows) + " rows, " + kind.name,
          {"states in memory",
           [&] {
             for (int i = 0; i < steps; ++i) {
               model.zero_grad();
               model.backward();
               memory.step();
             }
           }},
          {"in a file, interleaved",
           [&] {
             for (int i = 0; i < steps; ++i) {
               adamw.zero_grad();
               offloaded.backward();
               adamw.step();
             }
             adamw.wait();
           }},
          {.accuracy = "bits equal (tests); the process grew by " + lab::bytes_text(grown),
           .baseline_bytes = static_cast<double>(model.state_bytes()),
           .bytes = static_cast<double>(adamw.resident_bytes())});
      if (ratio.ratio < worst) {
        worst = ratio.ratio;
        where = std::to_string(rows) + " rows, " + kind.name;
      }
    }
  trial.verdict((worst >= 0.5 ? "holds: states of 4x the budget train at " : "falls short: ") +
                lab::number(worst) + "x of the speed with all in memory or more (at " + where +
                "); 0.5x was asked for");
  trial.note("A sample is " + std::to_string(steps) +
             " steps and waits for the last commit. The resumable file has the parameters, too: "
             "12 bytes written and 8 read per element and step.");
}

// What the caller waits for in step(): updates interleaved with backward, and all after it.
void test_exposed(Trial& trial) {
  const ModelSize size = model_size_of(trial);
  const int samples = trial.quick() ? 6 : 15;
  for (const Kind& kind : kinds(trial)) {
    std::vector<std::vector<double>> ms(2);
    const Model model(size.layers, size.width, size.rows.back());
    const Place place(kind.folder);
    for (int round = 0; round < samples; ++round)
      for (const bool interleave : {false, true}) {
        OffloadedAdamW adamw(model.parameters, {.file = place.file,
                                                .budget_bytes = model.state_bytes() / 4,
                                                .interleave = interleave,
                                                .keep_parameters = kind.keep_parameters,
                                                .access = kind.access});
        for (int i = 0; i < 2; ++i) {  // of two steps the second one counts
          adamw.zero_grad();
          model.backward();
          const double took = lab::time_once_ms([&] { adamw.step(); });
          adamw.wait();
          if (i == 1 && round > 0) ms[interleave].push_back(took);
        }
      }
    trial.compare("step() of " + std::to_string(size.layers) + " x " + std::to_string(size.width) +
                      "^2, " + std::to_string(size.rows.back()) + " rows, " + kind.name,
                  "offloaded, after backward", ms[0], "offloaded, interleaved", ms[1]);
  }
  trial.note(
      "The time of step() alone: what backward does not hide. Both pass all states through "
      "the same three buffers.");
}

// The update without a backward to hide in, against what the medium moves.
void compare_bandwidth(Trial& trial) {
  const ModelSize size = model_size_of(trial);
  const Model model(size.layers, size.width, 1);
  for (const Tensor& p : model.parameters) p.mutable_grad() = at::randn(p.sizes());
  std::string shares;
  for (const Kind& kind : kinds(trial)) {
    const Place place(kind.folder);
    InMemory memory(model);
    OffloadedAdamW adamw(model.parameters, {.file = place.file,
                                            .budget_bytes = model.state_bytes() / 4,
                                            .interleave = false,
                                            .keep_parameters = kind.keep_parameters,
                                            .access = kind.access});
    const int64_t block = adamw.resident_bytes() / 3 / 4096 * 4096;
    const Bandwidth medium =
        bandwidth(kind, block, static_cast<int>(std::max<int64_t>(4, adamw.group_count())));
    const auto step = [&] {
      adamw.step();
      adamw.wait();
    };
    for (int i = 0; i < 2; ++i) step();  // both slots have their blocks on disk
    const auto before = adamw.stats();
    const int counted = trial.quick() ? 5 : 10;
    const double ms = lab::time_once_ms([&] {
                        for (int i = 0; i < counted; ++i) step();
                      }) /
                      counted;
    const auto after = adamw.stats();
    const double read = static_cast<double>(after.read_bytes - before.read_bytes) / counted;
    const double written =
        static_cast<double>(after.written_bytes - before.written_bytes) / counted;
    const double least = read / medium.read + written / medium.write;
    shares +=
        (shares.empty() ? "" : "; ") + lab::percent_text(least * 1e3 / ms, 0) + ' ' + kind.name;
    trial.compare("update alone, " + kind.name, {"in memory", [&] { memory.step(); }},
                  {"in a file", step},
                  {.accuracy = lab::number((read + written) / ms / 1e6) + " GB/s moved; reads " +
                               lab::number(medium.read / 1e9) + ", writes " +
                               lab::number(medium.write / 1e9) + " GB/s alone",
                   .baseline_bytes = static_cast<double>(model.state_bytes()),
                   .bytes = static_cast<double>(adamw.resident_bytes()),
                   .share = least * 1e3 / ms,
                   .share_of = "of reading and writing one after another"});
  }
  trial.verdict("of the bandwidth: " + shares);
  trial.note(
      "The bound is the time in which the same file, in blocks of the same size, is read and "
      "written without anything else. Reading and writing at once may beat it.");
}

}  // namespace

std::vector<Claim> state_claims() {
  const std::string system = "deep optimizer states";
  return {
      {"states_interleaved", system,
       "offloaded and interleaved with backward: 20x, 0.7 against 14.1 ms", 20, test_exposed},
      {"states_training", system,
       "a model whose states are 4x the memory's budget trains at no less than 0.5x", 0,
       train_within_budget},
      {"states_bandwidth", system, "the update runs at the disk's or memory's bandwidth", 0,
       compare_bandwidth},
  };
}

}  // namespace graft::experiments
