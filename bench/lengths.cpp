// Sizes that are never seen twice: 200 random lengths, each once, and decoding with a cache that
// grows by one row at each token. Eager and compiled (Sizes::Family) take turns: in one process,
// whose memory both have warmed, where results are compared; and in processes of their own, as a
// service is one or the other, three of each. (While Graft compiles on the same few cores, eager's
// parallel loops are slow, so that decoding is timed in processes of their own alone.)
//
//     build/bench/lengths [FILTER]                      a line each; FILTER is part of a name
//     build/bench/lengths --alone eager|graft NAME      one such process: its milliseconds
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "graft/graft.h"
#include "lab/stats.h"
#include "lab/timer.h"
#include "workloads/regions.h"

namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

graft::Options family(const std::string& name) {
  graft::Options options;
  options.name = name;
  options.sizes = graft::Sizes::Family;
  options.cache = false;
  return options;
}

double difference(const Tensors& a, const Tensors& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].numel() > 0)
      most = std::max(most,
                      at::max((a[i].to(at::kDouble) - b[i].to(at::kDouble)).abs()).item<double>());
  return most;
}

/// All numbers from 1 to `most` in an order of chance; the first 200.
std::vector<int64_t> lengths(int64_t most) {
  std::vector<int64_t> all(static_cast<size_t>(most));
  std::iota(all.begin(), all.end(), 1);
  std::shuffle(all.begin(), all.end(), std::mt19937(7));
  all.resize(200);
  return all;
}

/// A virtual machine whose free memory goes back to its host takes 20 times as long for pages that
/// it has to ask for again (2.5 ms a MiB here), and which process meets them is chance: before each
/// measurement it gets enough of them.
void get_machine_memory() {
  constexpr size_t kBytes = size_t{512} << 20, kPage = 4096;
  void* got = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return;
  madvise(got, kBytes, MADV_HUGEPAGE);
  for (size_t i = 0; i < kBytes; i += kPage) static_cast<volatile char*>(got)[i] = 1;
  munmap(got, kBytes);
}

/// One side in a process of its own: what 200 calls take.
void alone(bool eager, const std::string& name, const Function& f,
           const std::function<Tensors(int64_t)>& make, int64_t most) {
  const auto compiled = graft::compile(f, family(name));
  double ms = 0;
  int call = 0;
  get_machine_memory();
  for (int64_t length : lengths(most)) {
    const Tensors arguments = make(length);
    Tensors results;
    ms += graft::lab::time_once_ms([&] { results = eager ? f(arguments) : compiled(arguments); });
    if (!eager && ++call <= 4) compiled.wait();
  }
  std::printf("%.3f\n", ms);
}

/// What such a process says.
double ask_process(const std::string& side, const std::string& name) {
  const std::string command =
      std::filesystem::read_symlink("/proc/self/exe").string() + " --alone " + side + " " + name;
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  double ms = 0;
  if (pipe == nullptr || std::fscanf(pipe.get(), "%lf", &ms) != 1) {
    std::fprintf(stderr, "lengths: no time came from '%s'\n", command.c_str());
    std::exit(1);
  }
  return ms;
}

/// Graft's time over eager's, each in three processes that take turns: median, least and most.
void in_processes(const std::string& name) {
  std::vector<double> ratios;
  for (int round = 0; round < 3; ++round) {
    const bool eager_first = round % 2 == 0;
    const double first = ask_process(eager_first ? "eager" : "graft", name),
                 second = ask_process(eager_first ? "graft" : "eager", name);
    ratios.push_back(eager_first ? second / first : first / second);
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("%-22s in processes of their own %.2fx the time (%.2fx to %.2fx)\n", "", ratios[1],
              ratios.front(), ratios.back());
}

/// Each length once. The first four are waited for, as by a service that warms up.
void over_lengths(const std::string& name, const Function& f,
                  const std::function<Tensors(int64_t)>& make, int64_t most) {
  const auto compiled = graft::compile(f, family(name));
  double eager = 0, graft_ms = 0, most_different = 0;
  int call = 0;
  get_machine_memory();
  for (int64_t length : lengths(most)) {
    const Tensors arguments = make(length);
    Tensors theirs, mine;
    auto run_eager = [&] { eager += graft::lab::time_once_ms([&] { theirs = f(arguments); }); };
    auto run_compiled = [&] {
      graft_ms += graft::lab::time_once_ms([&] { mine = compiled(arguments); });
    };
    if (call++ % 2 == 0)
      run_eager(), run_compiled();
    else
      run_compiled(), run_eager();
    if (call <= 4) compiled.wait();
    most_different = std::max(most_different, difference(theirs, mine));
  }
  const graft::Report report = compiled.report();
  std::printf(
      "%-22s eager %9.1f ms  graft %9.1f ms  %.2fx the time  %3ld of 200 by families, "
      "%3ld records, %2ld kernels, largest difference %.1e\n",
      name.c_str(), eager, graft_ms, graft_ms / eager, static_cast<long>(report.family_calls),
      static_cast<long>(report.records), static_cast<long>(report.kernels_compiled),
      most_different);
  in_processes(name);
}

/// A Llama's layers, with caches of keys and values that `cat` lengthens.
struct Llama {
  int64_t hidden, heads, layers, vocabulary;
  struct Layer {
    Tensor q, k, v, o, gate, up, down, before, after;
  };
  std::vector<Layer> all;
  Tensor embedding, last, cos, sin;

  Llama(int64_t hidden, int64_t heads, int64_t layers, int64_t vocabulary)
      : hidden(hidden), heads(heads), layers(layers), vocabulary(vocabulary) {
    auto linear = [&](int64_t in, int64_t out) {
      return at::randn({in, out}) / std::sqrt(static_cast<double>(in));
    };
    const int64_t wide = hidden * 2;
    for (int64_t i = 0; i < layers; ++i)
      all.push_back({linear(hidden, hidden), linear(hidden, hidden), linear(hidden, hidden),
                     linear(hidden, hidden), linear(hidden, wide), linear(hidden, wide),
                     linear(wide, hidden), at::ones({hidden}), at::ones({hidden})});
    embedding = at::randn({vocabulary, hidden});
    last = at::ones({hidden});
    std::tie(cos, sin) = graft::workloads::rope_tables(4096, hidden / heads, at::kFloat);
  }

  Tensor split(const Tensor& x) const {
    return x.view({1, x.size(1), heads, hidden / heads}).transpose(1, 2);
  }
  static Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
    const auto half = x.chunk(2, -1);
    return x * cos + at::cat({-half[1], half[0]}, -1) * sin;
  }
  static Tensor norm(const Tensor& x, const Tensor& w) {
    return x * at::rsqrt(x.pow(2).mean(-1, true) + 1e-6) * w;
  }

  /// {ids (1, n), then keys and values (1, heads, before, width) of each layer} to {logits of the
  /// last token, then the longer keys and values}. `before` may be 0 for a prompt: then there are
  /// no caches among the arguments.
  Tensors operator()(const Tensors& t) const {
    const Tensor& ids = t[0];
    const int64_t now = ids.size(1), before = t.size() > 1 ? t[1].size(2) : 0;
    Tensor x = at::embedding(embedding, ids);
    const Tensor c = cos.narrow(0, before, now), s = sin.narrow(0, before, now);
    Tensors out(1);
    for (size_t i = 0; i < all.size(); ++i) {
      const Layer& l = all[i];
      const Tensor h = norm(x, l.before);
      const Tensor q = rotate(split(at::matmul(h, l.q)), c, s);
      Tensor k = rotate(split(at::matmul(h, l.k)), c, s), v = split(at::matmul(h, l.v));
      if (before > 0) k = at::cat({t[1 + 2 * i], k}, 2), v = at::cat({t[2 + 2 * i], v}, 2);
      Tensor scores =
          at::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(hidden / heads));
      if (now > 1) {
        const Tensor ahead = at::ones({now, now}, at::kBool).triu(1);
        scores = scores.masked_fill(ahead, -INFINITY);
      }
      const Tensor mixed = at::matmul(at::softmax(scores, -1), v);
      x = x + at::matmul(mixed.transpose(1, 2).reshape({1, now, hidden}), l.o);
      const Tensor g = norm(x, l.after);
      x = x + at::matmul(at::silu(at::matmul(g, l.gate)) * at::matmul(g, l.up), l.down);
      out.push_back(k), out.push_back(v);
    }
    const Tensor end = norm(x.narrow(1, now - 1, 1), last);
    out[0] = at::matmul(end, embedding.t());
    return out;
  }
};

constexpr int64_t kTokens = 256;

/// Greedy, from a prompt of 8; a token at a time to `step`, which gives the next state.
template <class Step>
void decode(const Llama& model, Step step) {
  at::manual_seed(2);
  Tensors state = model({at::randint(model.vocabulary, {1, 8}, at::kLong)});
  for (int64_t k = 0; k < kTokens; ++k) {
    state[0] = at::argmax(state[0].select(1, 0), -1, true);
    state = step(k, state);
  }
}

/// One side in a process of its own: what all tokens but the first 8 take. Those are waited for.
void decode_alone(bool eager, const std::string& name, const Llama& model) {
  const auto compiled = graft::compile([&](const Tensors& t) { return model(t); }, family(name));
  double ms = 0;
  get_machine_memory();
  decode(model, [&](int64_t k, const Tensors& state) {
    Tensors next;
    const double took =
        graft::lab::time_once_ms([&] { next = eager ? model(state) : compiled(state); });
    if (k >= 8) ms += took;
    if (!eager && k < 8) compiled.wait();
    return next;
  });
  std::printf("%.3f\n", ms);
}

/// The tokens of both.
void decode_both(const std::string& name, const Llama& model) {
  const auto compiled = graft::compile([&](const Tensors& t) { return model(t); }, family(name));
  std::vector<int64_t> theirs, mine;
  decode(model, [&](int64_t, const Tensors& state) {
    theirs.push_back(state[0].item<int64_t>());
    return model(state);
  });
  decode(model, [&](int64_t k, const Tensors& state) {
    mine.push_back(state[0].item<int64_t>());
    Tensors next = compiled(state);
    if (k < 8) compiled.wait();
    return next;
  });
  int64_t different = 0;
  for (size_t k = 0; k < mine.size(); ++k) different += mine[k] != theirs[k];
  const graft::Report report = compiled.report();
  std::printf("%-22s %ld of %ld tokens differ, %ld by families, %ld records\n", name.c_str(),
              static_cast<long>(different), static_cast<long>(kTokens),
              static_cast<long>(report.family_calls), static_cast<long>(report.records));
  for (const std::string& line : report.families) std::printf("  %.220s\n", line.c_str());
  in_processes(name);
}

/// What a size costs that was never seen: the first call of each against the fifth, which finds the
/// plan of the third (a second call makes one to keep).
template <class Make>
void look_up(const std::string& name, const Function& f, std::vector<int64_t> warm, int64_t from,
             int64_t to, Make make) {
  const auto compiled = graft::compile(f, family(name));
  for (int64_t s : warm) compiled(make(s)), compiled.wait();
  // Proofs.
  for (int64_t s = from; s < to; s += 3) compiled(make(s));
  compiled.wait();
  std::vector<double> first, again, difference;
  for (int64_t s = from; s < to; ++s) {
    if ((s - from) % 3 == 0) continue;
    const Tensors arguments = make(s);
    const int64_t before = compiled.report().family_calls;
    auto time_us = [&] {
      return 1e3 * graft::lab::time_once_ms([&] { static_cast<void>(compiled(arguments)); });
    };
    const double one = time_us();
    if (compiled.report().family_calls == before) continue;
    for (int k = 0; k < 3; ++k) time_us();
    const double five = time_us();
    first.push_back(one), again.push_back(five), difference.push_back(one - five);
  }
  using graft::lab::median;
  const double took = median(first), more = median(difference);
  std::printf(
      "%-22s a size's first call %.1f us, its fifth %.1f us, between them %.1f us (%.1f %%; "
      "medians of %zu)\n",
      name.c_str(), took, median(again), more, 100 * more / took, first.size());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string side = argc > 3 && argv[1] == std::string("--alone") ? argv[2] : "";
  const std::string filter = argc > 1 ? argv[argc - 1] : "";
  auto wanted = [&](const std::string& name) {
    return side.empty() ? name.find(filter) != std::string::npos : name == filter;
  };
  const at::NoGradGuard no_grad;
  at::manual_seed(1);
  at::set_num_threads(2);
  namespace regions = graft::workloads;
  auto lengths_of = [&](const std::string& name, const Function& f,
                        const std::function<Tensors(int64_t)>& make, int64_t most = 2048) {
    if (!wanted(name)) return;
    if (side.empty())
      over_lengths(name, f, make, most);
    else
      alone(side == "eager", name, f, make, most);
  };
  const auto rope_of = [&](const std::string& name, at::ScalarType dtype) {
    lengths_of(
        name,
        [](const Tensors& t) {
          auto [q, k] = regions::rope(t[0], t[1], t[2], t[3]);
          return Tensors{q, k};
        },
        [dtype](int64_t s) {
          auto [cos, sin] = regions::rope_tables(s, 64, dtype);
          const Tensor q = at::randn({1, 16, s, 64}, dtype);
          return Tensors{q, at::randn_like(q), cos, sin};
        });
  };
  rope_of("rope", at::kFloat);
  lengths_of(
      "rmsnorm_residual",
      [w = at::randn({2048})](const Tensors& t) {
        auto [sum, normed] = regions::rmsnorm_residual(t[0], t[1], w);
        return Tensors{sum, normed};
      },
      [](int64_t s) { return Tensors{at::randn({1, s, 2048}), at::randn({1, s, 2048})}; });
  lengths_of(
      "swiglu", [](const Tensors& t) { return Tensors{regions::swiglu(t[0], t[1])}; },
      [](int64_t s) { return Tensors{at::randn({1, s, 5632}), at::randn({1, s, 5632})}; });
  lengths_of(
      "softmax_mask", [](const Tensors& t) { return Tensors{regions::softmax_mask(t[0], t[1])}; },
      [](int64_t s) { return Tensors{at::randn({16, s, s}), at::randn({s, s})}; }, 1024);
  lengths_of(
      "attention", [](const Tensors& t) { return Tensors{regions::attention(t[0], t[1], t[2])}; },
      [](int64_t s) {
        return Tensors{at::randn({1, 8, s, 64}), at::randn({1, 8, s, 64}),
                       at::randn({1, 8, s, 64})};
      },
      1024);
  rope_of("rope_bf16", at::kBFloat16);
  lengths_of(
      "qkv_rope_bf16",
      [](const Tensors& t) {
        auto [q, k, v] = regions::qkv_rope(t[0], t[1], t[2], 16);
        return Tensors{q, k, v};
      },
      [](int64_t s) {
        auto [cos, sin] = regions::rope_tables(s, 64, at::kBFloat16);
        return Tensors{at::randn({1, s, 3072}, at::kBFloat16), cos, sin};
      });
  lengths_of(
      "swiglu_bf16", [](const Tensors& t) { return Tensors{regions::swiglu(t[0], t[1])}; },
      [](int64_t s) {
        const Tensor gate = at::randn({1, s, 5632}).to(at::kBFloat16);
        return Tensors{gate, gate.roll(1)};
      });
  lengths_of(
      "component",
      [V = at::randn({768, 1200}), U = at::randn({1200, 768}) / 768](const Tensors& t) {
        return Tensors{regions::component(t[0], V, t[1], U)};
      },
      [](int64_t s) { return Tensors{at::randn({1, s, 768}), at::rand({1, s, 1200})}; });
  lengths_of(
      "gptq_block",
      [inverse = at::eye(128) + at::randn({128, 128}).triu(1) / 100](const Tensors& t) {
        auto [quantised, errors, losses] = regions::gptq_block(t[0], inverse, t[1], t[2]);
        return Tensors{quantised, errors, losses};
      },
      [](int64_t s) {
        const Tensor weights = at::randn({s, 128});
        return Tensors{weights, weights.abs().amax(1) / 8, at::full({s}, 8.0)};
      });
  Tensors weights;
  for (auto [to, from] :
       {std::pair{256, 0}, {768, 256}, {256, 256}, {256, 0}, {1024, 256}, {256, 1024}}) {
    weights.push_back(from == 0 ? at::ones({to}) : at::randn({to, from}) / 16);
    weights.push_back(at::zeros({to}));
  }
  lengths_of(
      "block", [&](const Tensors& t) { return Tensors{regions::block(t[0], weights, 8)}; },
      [](int64_t s) { return Tensors{at::randn({1, s, 256})}; }, 1024);
  const Function twenty_four = [](const Tensors& t) {
    Tensor y = t[0];
    for (int k = 0; k < 4; ++k) {
      y = at::tanh(y * 0.5 + 1) * t[0];
      y = y - y.mean(-1, true);
    }
    return Tensors{y};
  };
  if (wanted("look_up_24"))
    look_up("look_up_24", twenty_four, {30, 60, 90}, 22, 250,
            [](int64_t s) { return Tensors{at::randn({s, 8})}; });
  if (wanted("look_up_decode")) {
    const Llama model(64, 4, 2, 256);
    look_up("look_up_decode", model, {8, 9, 10, 11}, 12, 256, [&](int64_t s) {
      Tensors state = {at::randint(256, {1, 1}, at::kLong)};
      for (int k = 0; k < 4; ++k) state.push_back(at::randn({1, 4, s, 16}));
      return state;
    });
  }
  if (wanted("llama_prompt")) {
    const Llama model(512, 8, 4, 1000);
    lengths_of(
        "llama_prompt", model,
        [](int64_t s) { return Tensors{at::randint(1000, {1, s}, at::kLong)}; }, 512);
  }
  auto decode_of = [&](const std::string& name, const Llama& model) {
    if (side.empty())
      decode_both(name, model);
    else
      decode_alone(side == "eager", name, model);
  };
  if (wanted("decode_small")) decode_of("decode_small", Llama(64, 4, 2, 256));
  if (wanted("decode_llama")) decode_of("decode_llama", Llama(1024, 16, 4, 4096));
  return 0;
}
