// Advanced checkpointing, policy by policy; and Graft's memory pool against other allocators.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/mobile/CPUCachingAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <dlfcn.h>
#include <graft/graft.h>
#include <graft/systems/checkpointing.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <unordered_map>

#include "experiments/systems/claim.h"
#include "lab/memory/memory.h"
#include "lab/memory/resident.h"
#include "lab/words.h"

namespace graft::experiments {
namespace {

using at::Tensor;
using systems::CheckpointedLayers;
using systems::Policy;
using systems::Recompute;

struct Size {
  int layers = 0;
  int64_t width = 0, tokens = 0;
};
Size size_of(const Trial& trial) {
  if (trial.small()) return {3, 32, 16};
  if (trial.quick()) return {4, 128, 128};
  return {8, 512, 512};
}

std::string text_of(const Size& size) {
  return std::to_string(size.layers) + " layers of " + std::to_string(size.width) + ", 2 x " +
         std::to_string(size.tokens) + " tokens";
}

/// A transformer's layer, with dropout where it is not compiled.
struct Block {
  Block(int64_t width, double dropout) : dropout(dropout) {
    for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
             {3 * width, width}, {width, width}, {4 * width, width}, {width, 4 * width}})
      parameters.push_back((at::randn(sizes) / std::sqrt(sizes[1])).requires_grad_());
  }
  Tensor operator()(const Tensor& x) const {
    constexpr int64_t kHeads = 4;
    const int64_t width = x.size(-1);
    const auto drop = [&](const Tensor& t) {
      return dropout > 0 ? at::dropout(t, dropout, true) : t;
    };
    const Tensor qkv = at::linear(at::layer_norm(x, {width}), parameters[0])
                           .view({x.size(0), x.size(1), 3, kHeads, width / kHeads})
                           .permute({2, 0, 3, 1, 4});
    const Tensor attended = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, true)
                                .transpose(1, 2)
                                .reshape(x.sizes());
    const Tensor h = x + drop(at::linear(attended, parameters[1]));
    const Tensor up = at::gelu(at::linear(at::layer_norm(h, {width}), parameters[2]));
    return h + drop(at::linear(up, parameters[3]));
  }
  double dropout;
  std::vector<Tensor> parameters;
};

struct Chain {
  Chain(const Size& size, double dropout) : input(at::randn({2, size.tokens, size.width})) {
    for (int i = 0; i < size.layers; ++i) blocks.emplace_back(size.width, dropout);
  }
  std::vector<CheckpointedLayers::Layer> layers() const { return {blocks.begin(), blocks.end()}; }
  /// Forward and backward; the loss and all gradients.
  std::vector<Tensor> step(CheckpointedLayers& layers) const {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(3);
    const Tensor loss = layers(input).square().mean();
    loss.backward();
    std::vector<Tensor> out = {loss.detach()};
    for (const Block& block : blocks)
      for (const Tensor& p : block.parameters) {
        out.push_back(p.grad());
        p.mutable_grad().reset();
      }
    return out;
  }
  Tensor input;
  std::vector<Block> blocks;
};

bool equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) { return x.equal(y); });
}

/// The largest relative difference of a gradient, or the loss, by its norm.
std::string difference_text(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, (a[i] - b[i]).norm().item<double>() / a[i].norm().item<double>());
  return "gradients differ by " + lab::number(most) + " of their norm at most";
}

double peak_of(const std::function<void()>& run) {
  lab::MemoryTracker tracker;
  run();
  tracker.stop();
  return static_cast<double>(tracker.report().peak_bytes);
}

std::string choice_text(const std::vector<Recompute>& choice) {
  const auto count = [&](Recompute what) { return std::ranges::count(choice, what); };
  return std::to_string(count(Recompute::Nothing)) + " layers kept, " +
         std::to_string(count(Recompute::CheapOperators)) + " selective, " +
         std::to_string(count(Recompute::Everything)) + " recomputed";
}

void test_policies(Trial& trial) {
  const Size size = size_of(trial);
  const Chain chain(size, 0.1);
  CheckpointedLayers none(chain.layers(), Policy::none());
  CheckpointedLayers measured(chain.layers(), Policy::budget(int64_t{1} << 50));
  measured(chain.input);
  const auto activations = [&](Recompute what) {
    return systems::activation_peak(measured.costs(),
                                    std::vector<Recompute>(chain.blocks.size(), what));
  };
  const int64_t most = activations(Recompute::Nothing), least = activations(Recompute::Everything);
  const auto root = static_cast<int64_t>(std::lround(std::sqrt(size.layers)));
  std::vector<std::pair<std::string, Policy>> policies = {
      {"each layer recomputed", Policy::every()},
      {"selective: products and attention kept", Policy::selective()}};
  if (!trial.quick() || trial.small())
    policies.push_back({"segments of " + std::to_string(root) + " layers", Policy::every(root)});
  for (const double share :
       trial.quick() ? std::vector<double>{0.5} : std::vector<double>{0.75, 0.5, 0.25}) {
    const auto budget = static_cast<int64_t>(static_cast<double>(least) +
                                             share * static_cast<double>(most - least));
    policies.push_back(
        {"a budget of " + lab::bytes_text(static_cast<double>(budget)), Policy::budget(budget)});
  }
  const std::vector<Tensor> expected = chain.step(none);
  const double peak = peak_of([&] { chain.step(none); });
  lab::Figure figure{.caption = "Time and peak memory by policy, of keeping everything",
                     .unit = "%"};
  lab::Figure::Series time{"time"}, memory{"peak memory"};
  bool all_equal = true;
  double least_share = 1, slowest = 1;
  for (size_t i = 0; i < policies.size(); ++i) {
    const auto& [name, policy] = policies[i];
    trial.at(static_cast<double>(i) / static_cast<double>(policies.size()), name);
    CheckpointedLayers layers(chain.layers(), policy);
    const bool bits = equal(chain.step(layers), expected);
    all_equal = all_equal && bits;
    const double own = peak_of([&] { chain.step(layers); });
    std::string says = bits ? "loss and gradients bitwise equal" : "loss or gradients differ";
    if (policy.kind == Policy::Kind::Budget) says += "; " + choice_text(layers.choice());
    const auto ratio =
        trial.compare(text_of(size) + ", dropout", {"all kept", [&] { chain.step(none); }},
                      {name, [&] { chain.step(layers); }},
                      {.accuracy = std::move(says), .baseline_bytes = peak, .bytes = own});
    figure.labels.push_back(name);
    time.values.push_back(100 / ratio.ratio);
    memory.values.push_back(100 * own / peak);
    least_share = std::min(least_share, own / peak);
    slowest = std::min(slowest, ratio.ratio);
  }
  figure.series = {time, memory};
  trial.figure(std::move(figure));
  trial.verdict(std::string(all_equal ? "holds" : "fails: bits differ") + ": down to " +
                lab::number(least_share) + "x of the memory at " + lab::number(slowest) +
                "x of the speed or more");
  trial.note(
      "Memory is the peak of all tensors of the step beyond parameters: activations and "
      "gradients. Recomputing all costs a forward pass more, a third of the step.");
}

// Graft's own backward recomputes within a layer already: what checkpointing adds to that.
void test_compiled(Trial& trial) {
  const Size size = size_of(trial);
  const Chain chain(size, 0);
  std::vector<CheckpointedLayers::Layer> compiled;
  std::vector<std::function<void()>> waits;
  for (const Block& block : chain.blocks) {
    const auto f = graft::compile(block);
    compiled.push_back([f](const Tensor& x) { return f(x); });
    waits.push_back([f] { f.wait(); });
  }
  CheckpointedLayers eager(chain.layers(), Policy::none());
  CheckpointedLayers kept(compiled, Policy::none()), each(compiled, Policy::every());
  CheckpointedLayers eager_each(chain.layers(), Policy::every());
  for (int i = 0; i < 10; ++i) {  // recorded, compiled and proven under both
    chain.step(kept);
    chain.step(each);
    for (const auto& wait : waits) wait();
  }
  const bool bits = equal(chain.step(kept), chain.step(each));
  const std::string apart = difference_text(chain.step(eager), chain.step(kept));
  const auto peak = [&](CheckpointedLayers& layers) {
    return peak_of([&] { chain.step(layers); });
  };
  const auto compare = [&](const std::string& a, CheckpointedLayers& first, const std::string& b,
                           CheckpointedLayers& second, const std::string& says) {
    trial.compare(text_of(size), {a, [&] { chain.step(first); }}, {b, [&] { chain.step(second); }},
                  {.accuracy = says, .baseline_bytes = peak(first), .bytes = peak(second)});
  };
  compare("eager, all kept", eager, "compiled, all kept", kept, apart);
  compare("compiled, all kept", kept, "compiled, each layer recomputed", each,
          bits ? "bitwise equal" : "bits differ");
  compare("eager, each layer recomputed", eager_each, "compiled, each layer recomputed", each, "");
  trial.verdict(bits ? "holds: both compose, with the bits of the compiled layers alone"
                     : "fails: bits differ");
}

// ---- The pool

struct Event {
  bool is_free = false;
  size_t block = 0, bytes = 0;
};
/// What one thread's run asks of its allocator, in order.
struct Pattern {
  std::vector<Event> events;
  size_t blocks = 0;
};

Pattern record(const std::function<void()>& run) {
  struct Recorder : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* at, int64_t bytes, size_t, size_t, c10::Device) override {
      if (bytes > 0) {
        pattern.events.push_back({false, pattern.blocks, static_cast<size_t>(bytes)});
        live[at] = pattern.blocks++;
      } else if (const auto found = live.find(at); found != live.end()) {
        pattern.events.push_back({true, found->second, 0});
        live.erase(found);
      }
    }
    bool memoryProfilingEnabled() const override { return true; }
    Pattern pattern;
    std::unordered_map<void*, size_t> live;
  };
  const auto recorder = std::make_shared<Recorder>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, recorder);
    run();
  }
  for (const auto& [at, block] : recorder->live)  // what outlives the step
    recorder->pattern.events.push_back({true, block, 0});
  return recorder->pattern;
}

using Allocate = std::function<void*(size_t)>;
using Free = std::function<void(void*)>;

/// Allocates and frees as recorded, and writes to each page as the operator that asked does.
void replay(const Pattern& pattern, const Allocate& allocate, const Free& release) {
  std::vector<void*> blocks(pattern.blocks);
  for (const Event& event : pattern.events) {
    void*& block = blocks[event.block];
    if (event.is_free) {
      release(block);
      continue;
    }
    block = allocate(event.bytes);
    for (size_t at = 0; at < event.bytes; at += 4096) static_cast<volatile char*>(block)[at] = 1;
  }
}

struct Allocator {
  std::string name;
  Allocate allocate;
  Free release;
};

/// malloc's ways of an allocator that is loaded beside the process's own; null where it is missing.
std::optional<Allocator> jemalloc() {
  void* library = dlopen("libjemalloc.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  const auto allocate =
      reinterpret_cast<void* (*)(size_t, size_t)>(dlsym(library, "aligned_alloc"));
  const auto release = reinterpret_cast<void (*)(void*)>(dlsym(library, "free"));
  if (allocate == nullptr || release == nullptr) return std::nullopt;
  return Allocator{"jemalloc", [=](size_t bytes) { return allocate(64, (bytes + 63) / 64 * 64); },
                   release};
}

void test_pool(Trial& trial) {
  const Size size = size_of(trial);
  const Chain chain(size, 0.1);
  CheckpointedLayers layers(chain.layers(), Policy::none());
  chain.step(layers);
  const Pattern pattern = record([&] { chain.step(layers); });
  const auto caching = std::make_shared<c10::CPUCachingAllocator>();
  c10::Allocator* aten = c10::GetDefaultCPUAllocator();
  std::vector<Allocator> others = {
      {"malloc", [](size_t bytes) { return std::malloc(bytes); }, [](void* p) { std::free(p); }},
      {"ATen's default", [=](size_t bytes) { return aten->raw_allocate(bytes); },
       [=](void* p) { aten->raw_deallocate(p); }},
      {"ATen's caching allocator", [=](size_t bytes) { return caching->allocate(bytes); },
       [=](void* p) { caching->free(p); }}};
  if (const auto found = jemalloc()) {
    others.push_back(*found);
  } else {
    trial.row("replay", "jemalloc", "skipped",
              {.accuracy = "libjemalloc.so.2 is not there: apt-get install libjemalloc2"});
  }
  const auto with_pool = [&](const std::function<void()>& run) {
    const graft::PoolGuard guard;
    run();
  };
  const auto pool_replay = [&] {
    with_pool([&] {
      c10::Allocator* pool = c10::GetCPUAllocator();
      replay(
          pattern, [=](size_t bytes) { return pool->raw_allocate(bytes); },
          [=](void* p) { pool->raw_deallocate(p); });
    });
  };
  const auto growth = [](const std::function<void()>& run) {
    graft::pool_trim();
    malloc_trim(0);
    if (!lab::reset_resident_peak()) return 0.0;
    const int64_t before = lab::read_resident().current;
    run();
    return static_cast<double>(lab::read_resident().peak - before);
  };
  const double own = growth(pool_replay);
  std::string verdict;
  for (const Allocator& other : others) {
    const auto run = [&] { replay(pattern, other.allocate, other.release); };
    const double bytes = growth(run);
    const auto ratio = trial.compare(
        "replay of " + std::to_string(pattern.events.size()) +
            " allocations and frees of a training step, each page written",
        {other.name, run}, {"Graft's pool", pool_replay}, {.baseline_bytes = bytes, .bytes = own});
    verdict += lab::number(ratio.ratio) + "x of " + other.name + ", ";
  }
  const auto step = [&] { chain.step(layers); };
  const double plain = growth(step), pooled = growth([&] { with_pool(step); });
  const auto whole = trial.compare(
      "the training step itself, " + text_of(size), {"ATen's default", step},
      {"under PoolGuard", [&] { with_pool(step); }}, {.baseline_bytes = plain, .bytes = pooled});
  trial.verdict("allocations at " + verdict + "the step at " + lab::number(whole.ratio) + "x");
  trial.note(
      "malloc's speed depends on the process's past: it gives blocks back to the system until "
      "its thresholds have grown.");
  trial.note(
      "Memory is how far the process grows at the first replay after all caches were "
      "emptied. ATen's default is posix_memalign.");
}

}  // namespace

std::vector<Claim> checkpoint_claims() {
  return {
      {"checkpointing", "advanced checkpointing",
       "recompute by policy: none, per layer, selective by cost, by memory budget; bits equal, "
       "with dropout",
       0, test_policies},
      {"checkpointing_compiled", "advanced checkpointing",
       "checkpointing composes with compiled layers", 0, test_compiled},
      {"memory_pool", "memory pool", "a memory pool makes steps faster", 0, test_pool},
  };
}

}  // namespace graft::experiments
