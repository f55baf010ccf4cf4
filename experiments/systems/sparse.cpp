// Sparse attention and sparse weights: what is left out, how fast the rest is, and what a small
// language model loses by it.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <graft/graft.h>
#include <graft/systems/sparse_attention.h>
#include <graft/systems/sparse_weights.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "cli/frame/usage.h"
#include "experiments/systems/claim.h"
#include "lab/accuracy/compare.h"
#include "lab/words.h"
#include "workloads/decoder/tiny.h"

namespace graft::experiments {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using namespace systems;

constexpr std::array kRemoved = {0.5, 0.75, 0.9};  ///< the claim's shares of FLOPs
constexpr std::array kAllowed = {0.1, 0.5, 1.0};   ///< and its loss of accuracy, in points

std::string largest_difference(const Tensor& got, const Tensor& want) {
  return "largest difference " + lab::number(lab::relative_error({got}, {want}), 2) +
         " of the largest value";
}

// --- A small language model, whose attention and linear layers can be replaced ---

struct LmSizes {
  int64_t hidden = 128, layers = 2, heads = 4, context = 512, batch = 4, steps = 500, block = 16;
  int64_t gate_steps = 60, windows = 32;

  static LmSizes of(const Trial& trial) {
    if (trial.small()) return {32, 1, 2, 64, 2, 3, 8, 2, 2};
    if (trial.quick()) return {64, 2, 4, 256, 4, 150, 8, 8, 8};
    return {};
  }
};

using Attend =
    std::function<Tensor(size_t layer, const Tensor& q, const Tensor& k, const Tensor& v)>;
/// Sees the inputs of each linear layer, by its place among the weights.
using See = std::function<void(size_t weight, const Tensor& x)>;

struct Lm {
  static constexpr size_t kPerLayer = 4;  // weights of queries, keys and values; out; up; down

  explicit Lm(const LmSizes& s, uint64_t seed) : sizes(s) {
    const at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto draw = [&](int64_t out, int64_t in, double scale) {
      return at::randn({out, in}, generator).mul_(scale).requires_grad_();
    };
    const int64_t h = s.hidden;
    const double scale = 1 / std::sqrt(static_cast<double>(h));
    bytes = draw(256, h, scale);
    const int64_t pairs = h / s.heads / 2;
    const Tensor angles = at::arange(s.context).to(at::kFloat).unsqueeze(1) *
                          at::pow(10000, at::arange(pairs).to(at::kFloat) / -pairs);
    turn_cos = angles.cos(), turn_sin = angles.sin();
    for (int64_t layer = 0; layer < s.layers; ++layer)
      for (const auto& [out, in] : {std::pair(3 * h, h), {h, h}, {4 * h, h}, {h, 4 * h}})
        weights.push_back(draw(out, in, 0.5 / std::sqrt(static_cast<double>(in))));
  }
  Tensors parameters() const {
    Tensors out = weights;
    out.push_back(bytes);
    return out;
  }

  static Tensor norm(const Tensor& x) {
    return x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + 1e-6);
  }

  Tensor rope(const Tensor& t) const {
    const Tensors halves = t.chunk(2, -1);
    return at::cat(
        {halves[0] * turn_cos - halves[1] * turn_sin, halves[1] * turn_cos + halves[0] * turn_sin},
        -1);
  }

  /// Logits of ids (batch, context).
  Tensor forward(const Tensor& ids, const Attend& attend, const See& see = nullptr) const {
    const auto linear = [&](size_t weight, const Tensor& x) {
      if (see) see(weight, x);
      return at::linear(x, weights[weight]);
    };
    Tensor x = at::embedding(bytes, ids);
    for (size_t layer = 0; layer < static_cast<size_t>(sizes.layers); ++layer) {
      const size_t first = layer * kPerLayer;
      const auto heads = [&](const Tensor& t) {
        return t.unflatten(-1, {sizes.heads, -1}).transpose(1, 2);
      };
      const Tensors qkv = linear(first, norm(x)).chunk(3, -1);
      const Tensor y = attend(layer, rope(heads(qkv[0])), rope(heads(qkv[1])), heads(qkv[2]));
      x = x + linear(first + 1, y.transpose(1, 2).flatten(2));
      x = x + linear(first + 3, at::gelu(linear(first + 2, norm(x))));
    }
    return at::linear(norm(x), bytes);
  }
  Tensor loss(const Tensor& windows, const Attend& attend) const {
    const Tensor logits = forward(windows.slice(1, 0, -1), attend);
    return at::cross_entropy_loss(logits.flatten(0, 1), windows.slice(1, 1).flatten());
  }

  LmSizes sizes;
  Tensor bytes, turn_cos, turn_sin;
  Tensors weights;
};

Tensor dense_attention(size_t, const Tensor& q, const Tensor& k, const Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v, {}, 0, /*is_causal=*/true);
}

/// AdamW, with a rate that falls to nothing.
void minimise(const Tensors& parameters, int64_t steps, double rate,
              const std::function<Tensor()>& loss) {
  const c10::AutoGradMode with_grad(true);
  Tensors first, second, counts;
  for (const Tensor& p : parameters) {
    first.push_back(at::zeros_like(p)), second.push_back(at::zeros_like(p));
    counts.push_back(at::zeros({}, at::kFloat));
  }
  for (int64_t step = 0; step < steps; ++step) {
    const Tensors gradients = torch::autograd::grad({loss()}, parameters);
    const c10::AutoGradMode no_grad(false);
    for (const Tensor& count : counts) count.add_(1);
    const double part = static_cast<double>(step) / static_cast<double>(steps),
                 warm = std::min(1.0, static_cast<double>(step + 1) / 20);
    at::_fused_adamw_(parameters, gradients, first, second, {}, counts, rate * warm * (1 - part),
                      0.9, 0.99, 0.01, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
  }
}

/// The model, trained once per process for each size, and the text that it has and has not seen.
struct Trained {
  std::shared_ptr<const Lm> model;
  Tensor train, held_out;  ///< ids; of the latter, windows
};
Tensor random_windows(const Tensor& ids, int64_t count, int64_t length, at::Generator generator) {
  const Tensor from = at::randint(ids.size(0) - length, {count, 1}, generator, at::kLong);
  return ids.index_select(0, (from + at::arange(length)).flatten()).view({count, length});
}
const Trained& trained(const Trial& trial) {
  static std::map<std::pair<int64_t, uint64_t>, Trained> made;
  const LmSizes sizes = LmSizes::of(trial);
  Trained& out = made[{sizes.hidden, trial.settings.seed}];
  if (out.model != nullptr) return out;
  const auto text = workloads::decoder::tiny_text({});
  out.train = workloads::decoder::byte_ids(text.train);
  const Tensor rest = workloads::decoder::byte_ids(text.held_out);
  const int64_t length = sizes.context + 1, count = std::min(sizes.windows, rest.size(0) / length);
  out.held_out = rest.narrow(0, 0, count * length).view({count, length});
  const auto model = std::make_shared<Lm>(sizes, trial.settings.seed);
  const at::Generator generator = at::detail::createCPUGenerator(trial.settings.seed + 1);
  int64_t step = 0;
  minimise(model->parameters(), sizes.steps, 5e-3, [&] {
    trial.at(static_cast<double>(step++) / static_cast<double>(sizes.steps), "training a model");
    return model->loss(random_windows(out.train, sizes.batch, length, generator), dense_attention);
  });
  for (const Tensor& p : model->parameters()) p.requires_grad_(false);
  out.model = model;
  return out;
}

struct Score {
  double perplexity = 0, accuracy = 0;  ///< accuracy: share of next bytes that are the likeliest

  std::string text() const {
    return "perplexity " + lab::number(perplexity, 4) + ", accuracy " +
           lab::percent_text(accuracy, 2);
  }
  std::string text(const Score& dense) const {
    return text() + " (" + lab::number(100 * (accuracy - dense.accuracy), 2) + " points)";
  }
};
Score score(const Lm& model, const Tensor& windows, const Attend& attend) {
  const c10::AutoGradMode no_grad(false);
  const Tensor logits = model.forward(windows.slice(1, 0, -1), attend).flatten(0, 1),
               next = windows.slice(1, 1).flatten();
  return {std::exp(at::cross_entropy_loss(logits, next).item<double>()),
          (logits.argmax(-1) == next).to(at::kDouble).mean().item<double>()};
}

// --- Attention ---

struct AttentionSizes {
  int64_t heads = 8, length = 4096, width = 64, block = 64;
  static AttentionSizes of(const Trial& trial) {
    if (trial.small()) return {2, 256, 16, 16};
    return trial.quick() ? AttentionSizes{4, 1024, 64, 64} : AttentionSizes{};
  }
  std::string text() const {
    return std::to_string(heads) + " heads x " + std::to_string(length) + " x " +
           std::to_string(width);
  }
  /// Queries, keys and values.
  std::array<Tensor, 3> draw(uint64_t seed) const {
    const at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto one = [&] { return at::randn({1, heads, length, width}, generator); };
    return {one(), one(), one()};
  }
};

double removed(const BlockMask& mask, const BlockMask& base) {
  return 1 - mask.computed_share() / base.computed_share();
}
std::string removed_text(double share) {
  return lab::percent_text(share, 1) + " of causal's FLOPs removed";
}

/// The pattern with as many local blocks as the share leaves, beside one global and a stride.
BlockMask pattern_of(const BlockMask& base, double keep) {
  const int64_t blocks = base.keep.size(2);
  BlockMask best = pattern_mask(base, {1, 0});
  for (const int64_t stride : {int64_t{0}, int64_t{4}})
    for (int64_t local = 1; local <= blocks; ++local) {
      const BlockMask mask = pattern_mask(base, {local, 1, stride});
      if (mask.computed_share() <= keep * base.computed_share() &&
          mask.computed_share() > best.computed_share())
        best = mask;
    }
  return best;
}

/// A gate per layer, trained on the frozen model's loss and hardened.
std::vector<BlockMask> learned_masks(const Trained& lm, const BlockMask& base, double keep,
                                     uint64_t seed) {
  const LmSizes& sizes = lm.model->sizes;
  std::vector<BlockGate> gates;
  Tensors logits;
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    gates.emplace_back(base, sizes.heads);
    logits.push_back(gates.back().logits());
  }
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  minimise(logits, sizes.gate_steps, 0.2, [&] {
    const Tensor windows = random_windows(lm.train, sizes.batch, sizes.context + 1, generator);
    Tensor loss =
        lm.model->loss(windows, [&](size_t layer, const Tensor& q, const Tensor& k,
                                    const Tensor& v) { return gates[layer].attention(q, k, v); });
    for (const BlockGate& gate : gates) loss = loss + gate.penalty(keep);
    return loss;
  });
  std::vector<BlockMask> out;
  for (const BlockGate& gate : gates) out.push_back(gate.harden(keep));
  return out;
}

/// Attention by a mask that is made for each layer; counts what it removes and how far its results
/// are from dense attention's.
struct Masked {
  std::function<BlockMask(size_t layer, const Tensor& q, const Tensor& k)> make;
  const BlockMask& base;
  double removed_sum = 0, error_sum = 0;
  int count = 0;

  Tensor operator()(size_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
    const BlockMask mask = make(layer, q, k);
    const Tensor y = block_sparse_attention(q, k, v, mask), dense = dense_attention(layer, q, k, v);
    removed_sum += removed(mask, base), ++count;
    error_sum += ((y - dense).norm() / dense.norm()).item<double>();
    return y;
  }
};

/// What the kind of mask that loses least loses of accuracy, in points; by share removed.
struct Loss {
  double points = INFINITY;
  std::string kind;
};
std::array<Loss, kRemoved.size()> accuracy_rows(Trial& trial) {
  const Trained& lm = trained(trial);
  const LmSizes& sizes = lm.model->sizes;
  const BlockMask base = causal_mask(sizes.context, sizes.block);
  const Score dense = score(*lm.model, lm.held_out, dense_attention);
  std::array<Loss, kRemoved.size()> least;
  for (size_t i = 0; i < kRemoved.size(); ++i) {
    const double keep = 1 - kRemoved[i];
    const BlockMask pattern = pattern_of(base, keep);
    const std::vector<BlockMask> learned = learned_masks(lm, base, keep, trial.settings.seed + 2);
    // The threshold that removes the share is looked for; how much it removes follows from data.
    const auto threshold = [&](size_t, const Tensor& q, const Tensor& k) {
      double low = 0, high = 1;
      for (int step = 0; step < 12; ++step) {
        const double middle = (low + high) / 2;
        (removed(threshold_mask(q, k, base, middle), base) > kRemoved[i] ? low : high) = middle;
      }
      return threshold_mask(q, k, base, std::max(low, 1e-3));
    };
    const std::vector<std::pair<std::string, decltype(Masked::make)>> kinds = {
        {"block-sparse pattern", [&](size_t, const Tensor&, const Tensor&) { return pattern; }},
        {"dynamic threshold", threshold},
        {"dynamic, top blocks", [&](size_t, const Tensor& q,
                                    const Tensor& k) { return top_blocks_mask(q, k, base, keep); }},
        {"learned", [&](size_t layer, const Tensor&, const Tensor&) { return learned[layer]; }}};
    for (const auto& [name, make] : kinds) {
      Masked masked{make, base};
      const Score got = score(*lm.model, lm.held_out, std::ref(masked));
      const double points = 100 * (dense.accuracy - got.accuracy),
                   share = masked.removed_sum / masked.count;
      constexpr double kNear = 0.02;  // a mask that removes less is no answer
      if (share > kRemoved[i] - kNear && points < least[i].points) least[i] = {points, name};
      trial.row("language model, " + removed_text(share), "dense: " + dense.text(), name,
                {.accuracy = got.text(dense) + ", attention's results differ by " +
                             lab::percent_text(masked.error_sum / masked.count, 1)});
    }
  }
  return least;
}

void speed_rows(Trial& trial) {
  const AttentionSizes sizes = AttentionSizes::of(trial);
  const c10::AutoGradMode no_grad(false);
  const auto [q, k, v] = sizes.draw(trial.settings.seed);
  const BlockMask base = causal_mask(sizes.length, sizes.block);
  const lab::TimedVariant dense{"ATen's fused, causal", [&] { dense_attention(0, q, k, v); }};
  for (const double share : kRemoved) {
    const BlockMask mask = top_blocks_mask(q, k, base, 1 - share);
    const auto flex = compile([mask](const Tensor& a, const Tensor& b, const Tensor& c) {
      return flex_attention(a, b, c, nullptr, mask.mask_mod());
    });
    const auto by_flex = [&] { flex(q, k, v); };
    cli::settle(by_flex, [&] { flex.wait(); }, [&] { return flex.report().verdict; });
    const Tensor got = block_sparse_attention(q, k, v, mask);
    const Facts facts{.accuracy = "of the same mask by flex_attention: " +
                                  largest_difference(got, flex(q, k, v))};
    const std::string what = sizes.text() + ", " + removed_text(removed(mask, base));
    trial.compare(
        what, dense,
        {"blocks by block_sparse_attention", [&] { block_sparse_attention(q, k, v, mask); }},
        facts);
    if (!trial.quick() || share == kRemoved.back())
      trial.compare(what, dense, {"blocks by compiled flex_attention", by_flex}, facts);
  }
  const double keep = 1 - kRemoved.back();
  trial.compare(sizes.text() + ", " + removed_text(kRemoved.back()), dense,
                {"the same, blocks chosen at each call",
                 [&] { block_sparse_attention(q, k, v, top_blocks_mask(q, k, base, keep)); }});
  if (trial.quick()) return;
  const c10::AutoGradMode with_grad(true);
  const BlockMask mask = top_blocks_mask(q, k, base, 0.25);
  const Tensor a = q.clone().requires_grad_(), b = k.clone().requires_grad_(),
               c = v.clone().requires_grad_(), ones = at::ones_like(q);
  const auto step = [&](const std::function<Tensor()>& attend) {
    return [&, attend] { torch::autograd::grad({attend()}, {a, b, c}, {ones}); };
  };
  trial.compare(sizes.text() + ", forward and backward, " + removed_text(removed(mask, base)),
                {"ATen's fused, causal", step([&] { return dense_attention(0, a, b, c); })},
                {"blocks by block_sparse_attention",
                 step([&] { return block_sparse_attention(a, b, c, mask); })});
}

void test_attention(Trial& trial) {
  speed_rows(trial);
  const auto least = accuracy_rows(trial);
  std::vector<std::string> words;
  for (size_t i = 0; i < kRemoved.size(); ++i) {
    const auto& [points, kind] = least[i];
    const std::string found = kind.empty()           ? "no mask removes so much here"
                              : points < kAllowed[i] ? "holds"
                                                     : "does not hold";
    words.push_back(lab::percent_text(kRemoved[i], 0) + " removed: " + found +
                    (kind.empty() ? "" : ", " + kind + ", " + lab::number(-points, 2) + " points"));
  }
  trial.verdict(lab::joined(words, "; "));
  trial.note(
      "Removed FLOPs are counted by blocks, of those that the causal mask has; each row's "
      "last block is always kept. The model is not trained further with its mask; learned "
      "gates are trained with the model frozen.");
  trial.note(
      "The model is tiny and its text has short dependencies: what a long context loses "
      "needs a model that uses one.");
}

void test_flex(Trial& trial) {
  const AttentionSizes sizes = AttentionSizes::of(trial);
  const c10::AutoGradMode no_grad(false);
  const auto [q, k, v] = sizes.draw(trial.settings.seed);
  const int64_t window = sizes.length / 8;
  const std::vector<std::pair<std::string, BlockMask>> masks = {
      {"causal", causal_mask(sizes.length, sizes.block)},
      {"sliding window of " + std::to_string(window),
       sliding_window_mask(sizes.length, window, sizes.block)},
      {"pattern: local, global, strided",
       pattern_mask(causal_mask(sizes.length, sizes.block), {2, 1, 8})}};
  double least = INFINITY;
  for (const auto& [name, mask] : masks) {
    const Tensor bias = mask.dense();
    const auto flex = compile([mask = mask](const Tensor& a, const Tensor& b, const Tensor& c) {
      return flex_attention(a, b, c, nullptr, mask.mask_mod());
    });
    const auto by_flex = [&] { flex(q, k, v); };
    cli::settle(by_flex, [&] { flex.wait(); }, [&] { return flex.report().verdict; });
    const auto fused = [&] { return at::scaled_dot_product_attention(q, k, v, bias); };
    const auto ratio =
        trial.compare(sizes.text() + ", " + name + ", " +
                          lab::percent_text(mask.computed_share(), 0) + " of the blocks",
                      {"ATen's fused with the mask", fused}, {"compiled flex_attention", by_flex},
                      {.accuracy = largest_difference(flex(q, k, v), fused())});
    least = std::min(least, ratio.lo);
  }
  trial.verdict(least > 1 ? "works: each mask as a function, and faster than ATen's fused attention"
                          : "works: each mask as a function; not each faster than ATen's fused "
                            "attention");
}

// --- Weights ---

/// A pruned weight of random numbers; rows repeat, as sorting all of them takes long.
Tensor random_24(int64_t out, int64_t in, at::ScalarType type, const at::Generator& generator) {
  const int64_t some = std::min<int64_t>(out, 64);
  return prune_24(at::randn({some, in}, generator).to(type)).repeat({out / some, 1});
}

void test_24(Trial& trial) {
  const c10::AutoGradMode no_grad(false);
  const at::Generator generator = at::detail::createCPUGenerator(trial.settings.seed);
  const int64_t out = trial.small() ? 128 : 8192, in = trial.small() ? 128 : 4096;
  const Tensor much = at::ones({trial.small() ? 1 << 16 : 1 << 26});
  const double rate =
      static_cast<double>(much.nbytes()) / trial.time("reading memory", [&] { much.sum(); });
  const std::vector<int64_t> all_rows =
      trial.quick() ? std::vector<int64_t>{1, 64} : std::vector<int64_t>{1, 2, 4, 16, 64, 512};
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensor w = random_24(out, in, type, generator);
    const Sparse24 packed = pack_24(w);
    for (const int64_t rows : all_rows) {
      const Tensor x = at::randn({rows, in}, generator).to(type);
      const auto run = [&] { sparse_linear(x, packed); };
      Facts facts{.accuracy = largest_difference(sparse_linear(x, packed), at::linear(x, w)),
                  .baseline_bytes = static_cast<double>(w.nbytes()),
                  .bytes = static_cast<double>(packed.bytes())};
      if (rows == 1) {
        facts.share = facts.bytes / trial.time("packed", run) / rate;
        facts.share_of = "of the rate at which memory is read";
      }
      trial.compare(std::to_string(out) + " x " + std::to_string(in) + ", " +
                        (type == at::kFloat ? "fp32, " : "bf16, ") + lab::count_text(rows, "row"),
                    {"at::linear", [&] { at::linear(x, w); }}, {"sparse_linear", run}, facts);
    }
  }
  trial.note(
      "Memory: 2 bits say where each kept value stands, so that a packed weight takes 53 % "
      "(fp32) or 56 % (bf16) of the dense one's bytes.");
}

void test_24_accuracy(Trial& trial) {
  const c10::AutoGradMode no_grad(false);
  const Trained& lm = trained(trial);
  const LmSizes& sizes = lm.model->sizes;
  const Score dense = score(*lm.model, lm.held_out, dense_attention);
  Tensors hessians(lm.model->weights.size());
  Tensors inputs(lm.model->weights.size());
  const at::Generator generator = at::detail::createCPUGenerator(trial.settings.seed + 3);
  const Tensor seen = random_windows(lm.train, 4 * sizes.batch, sizes.context, generator);
  lm.model->forward(seen, dense_attention,
                    [&](size_t weight, const Tensor& x) { hessians[weight] = input_hessian(x); });
  lm.model->forward(lm.held_out.slice(1, 0, -1), dense_attention,
                    [&](size_t weight, const Tensor& x) { inputs[weight] = x.flatten(0, 1); });
  std::array<double, 2> perplexities{}, errors{};
  for (size_t kind = 0; kind < 2; ++kind) {
    Lm pruned = *lm.model;
    double bytes = 0, dense_bytes = 0;
    for (size_t i = 0; i < pruned.weights.size(); ++i) {
      const Tensor& w = lm.model->weights[i];
      pruned.weights[i] = kind == 0 ? prune_24(w) : prune_24(w, hessians[i]);
      const Tensor want = at::linear(inputs[i], w);
      const Sparse24 packed = pack_24(pruned.weights[i]);
      errors[kind] +=
          ((sparse_linear(inputs[i], packed) - want).norm() / want.norm()).item<double>() /
          static_cast<double>(pruned.weights.size());
      bytes += static_cast<double>(packed.bytes());
      dense_bytes += static_cast<double>(w.nbytes());
    }
    const Score got = score(pruned, lm.held_out, dense_attention);
    perplexities[kind] = got.perplexity;
    trial.row("language model, linear layers 2:4", "dense: " + dense.text(),
              kind == 0 ? "pruned by magnitude" : "pruned by GPTQ's Hessian",
              {.accuracy = got.text(dense) + ", layers' results differ by " +
                           lab::percent_text(errors[kind], 1),
               .baseline_bytes = dense_bytes,
               .bytes = bytes});
  }
  trial.verdict("perplexity " + lab::number(dense.perplexity, 4) + " dense, " +
                lab::number(perplexities[0], 4) + " by magnitude, " +
                lab::number(perplexities[1], 4) + " by the Hessian");
  trial.note("One pass over calibration text, no training after it.");
}

}  // namespace

std::vector<Claim> sparse_claims() {
  const std::string system = "sparse";
  return {
      {"flex_attention", system,
       "FlexAttention: attention whose mask is a function, compiled to one kernel that skips what "
       "the mask leaves out",
       0, test_flex},
      {"sparse_attention", system,
       "Sparse attention (dynamic threshold, block sparse, learned): 50, 75, 90 % of the FLOPs "
       "removed at < 0.1, 0.5, 1.0 % loss of accuracy",
       0, test_attention},
      {"sparse_24", system, "Structured 2:4 sparsity: 1.16x, 12.5 % memory", 1.16, test_24},
      {"sparse_24_accuracy", system,
       "2:4 pruning by GPTQ's Hessian keeps the model's accuracy better than by magnitude", 0,
       test_24_accuracy},
  };
}

}  // namespace graft::experiments
