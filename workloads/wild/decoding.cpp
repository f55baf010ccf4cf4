// Decoding: what a language model's server computes around its matrix products.

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

/// The next tokens of logits (B, V): tokens that came before (B, P) lose by their count, some are
/// banned (V), each row has a temperature (B, 1), eta sampling drops the unlikely, and given
/// exponential noise (B, V) chooses. Also the choices' log-probabilities and the rows' entropies.
std::tuple<at::Tensor, at::Tensor, at::Tensor> eta_sample(const at::Tensor& logits,
                                                          const at::Tensor& previous,
                                                          const at::Tensor& temperature,
                                                          const at::Tensor& banned,
                                                          const at::Tensor& noise) {
  constexpr double kEpsilon = 3e-4;
  at::Tensor scores = wide(logits);
  const at::Tensor ones = at::ones(previous.sizes(), scores.options());
  const at::Tensor counts = at::zeros_like(scores).scatter_add_(1, previous, ones);
  scores = scores - 0.2 * counts - 0.5 * (counts > 0).to(scores.scalar_type());
  scores.masked_fill_(banned, kExcluded).div_(temperature);
  const at::Tensor log_p = at::log_softmax(scores, -1), p = log_p.exp();
  const at::Tensor entropy = -(p * log_p.clamp_min(-1e30)).sum(-1, /*keepdim=*/true);
  const at::Tensor eta = (std::sqrt(kEpsilon) * (-entropy).exp()).clamp_max(kEpsilon);
  const at::Tensor out = (p < eta).logical_and(p < p.amax(-1, /*keepdim=*/true));
  at::Tensor kept = p.masked_fill(out, 0);
  kept = kept / kept.sum(-1, /*keepdim=*/true);
  const at::Tensor token = (kept / noise).argmax(-1, /*keepdim=*/true);
  return {token.squeeze(1), kept.gather(1, token).log().squeeze(1), entropy.squeeze(1)};
}

/// A step over a cache of bytes: new keys and values (B, H, D) go to their places (B) in the codes
/// (B, H, S, D) and their scales (B, H, S, 1), in place; then queries (B, H, G, D) attend to all
/// tokens up to these places.
at::Tensor cache_step(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const at::Tensor& key_codes, const at::Tensor& key_scales,
                      const at::Tensor& value_codes, const at::Tensor& value_scales,
                      const at::Tensor& lengths) {
  const int64_t batch = key_codes.size(0), heads = key_codes.size(1), width = key_codes.size(3);
  const at::Tensor place = lengths.view({-1, 1, 1, 1});
  const auto store = [&](const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales) {
    const at::Tensor row = wide(x).unsqueeze(2);
    const at::Tensor scale = row.abs().amax(-1, /*keepdim=*/true).clamp_min(1e-8) / 127;
    const at::Tensor code = (row / scale).round().clamp(-127, 127).to(at::kChar);
    codes.scatter_(2, place.expand({batch, heads, 1, width}), code);
    scales.scatter_(2, place.expand({batch, heads, 1, 1}), scale);
  };
  store(key, key_codes, key_scales);
  store(value, value_codes, value_scales);
  const at::Tensor keys = (key_codes * key_scales).to(query.scalar_type());
  const at::Tensor values = (value_codes * value_scales).to(query.scalar_type());
  const at::Tensor scores =
      wide(at::matmul(query, keys.transpose(-1, -2))) * (1 / std::sqrt(static_cast<double>(width)));
  const at::Tensor later = at::arange(key_codes.size(2), lengths.options()) > place;
  const at::Tensor weights = at::softmax(scores.masked_fill(later, kExcluded), -1);
  return at::matmul(weights.to(query.scalar_type()), values);
}

/// GShard's gating of tokens (T, D) by logits (T, E): two experts each while these have room for
/// `capacity`. The weights to combine by (T, E, C), the experts' tokens (E, C, D), and the loss
/// that balances experts.
std::tuple<at::Tensor, at::Tensor, at::Tensor> top2_gating(const at::Tensor& x,
                                                           const at::Tensor& logits,
                                                           int64_t capacity) {
  const int64_t tokens = logits.size(0), experts = logits.size(1);
  const at::Tensor p = at::softmax(logits, 1);
  at::Tensor first = at::one_hot(p.argmax(1), experts);
  at::Tensor second = at::one_hot(p.masked_fill(first.to(at::kBool), 0).argmax(1), experts);
  const at::Tensor places1 = first.cumsum(0) - 1;
  const at::Tensor places2 = second.cumsum(0) - 1 + first.sum(0, /*keepdim=*/true);
  const at::Tensor balance = (p.mean(0) * first.to(p.scalar_type()).mean(0)).sum() * experts;
  first = first * (places1 < capacity);
  second = second * (places2 < capacity);
  const at::Tensor gate1 = (p * first).sum(1), gate2 = (p * second).sum(1);
  const at::Tensor total = (gate1 + gate2).clamp_min(1e-9);
  const auto spread = [&](const at::Tensor& gate, const at::Tensor& mask,
                          const at::Tensor& places) {
    const at::Tensor slot = at::one_hot((places * mask).sum(1), capacity).to(p.scalar_type());
    return ((gate / total).unsqueeze(1) * mask).unsqueeze(2) * slot.unsqueeze(1);
  };
  const at::Tensor combine = spread(gate1, first, places1) + spread(gate2, second, places2);
  const at::Tensor dispatch = (combine > 0).to(x.scalar_type());
  const at::Tensor gathered = at::mm(dispatch.view({tokens, -1}).t(), x);
  return {combine, gathered.view({experts, capacity, -1}), balance};
}

/// Contrastive search's choice among the likeliest tokens of logits (B, V): their hidden states
/// (B, K, D) should be unlike those so far (B, L, D). The tokens, the states with the chosen ones
/// behind, and the choices' scores.
std::tuple<at::Tensor, at::Tensor, at::Tensor> contrastive_search(const at::Tensor& logits,
                                                                  const at::Tensor& context,
                                                                  const at::Tensor& candidates) {
  const int64_t batch = candidates.size(0), count = candidates.size(1);
  const auto [probability, tokens] = at::softmax(logits, -1).topk(count, -1);
  const at::Tensor repeated = context.repeat_interleave(count, 0);
  const at::Tensor following = candidates.view({batch * count, 1, -1});
  const at::Tensor unit = repeated / repeated.norm(2, {-1}, /*keepdim=*/true);
  const at::Tensor next_unit = following / following.norm(2, {-1}, /*keepdim=*/true);
  const at::Tensor cosine = at::matmul(unit, next_unit.transpose(1, 2)).squeeze(-1);
  const at::Tensor penalty = cosine.amax(-1).view({batch, count});
  const auto [score, choice] = (0.4 * probability - 0.6 * penalty).max(-1, /*keepdim=*/true);
  const at::Tensor index = choice.unsqueeze(2).expand({batch, 1, candidates.size(2)});
  const at::Tensor hidden = at::cat({context, candidates.gather(1, index)}, 1);
  return {tokens.gather(1, choice).squeeze(1), hidden, score.squeeze(1)};
}

Instance eta_sample_case(const Options& o) {
  const int64_t batch = o.integer("batch"), vocabulary = o.integer("vocabulary"),
                previous = o.integer("previous");
  Draw draw(o);
  const at::Tensor logits = (draw.normal({batch, vocabulary}) * 3).to(at::kBFloat16);
  const at::Tensor before = draw.integers({batch, previous}, vocabulary);
  const at::Tensor temperature = draw.uniform({batch, 1}, 0.5, 1.2),
                   banned = draw.uniform({vocabulary}) < 0.01;
  const at::Tensor noise = (-at::log1p(-draw.uniform({batch, vocabulary}))).clamp_min(1e-10);
  return bounded(instance_of(eta_sample, logits, before, temperature, banned, noise),
                 (2 + 4) * batch * vocabulary + vocabulary + 8 * batch * previous + 20 * batch,
                 (2 * kFunction + 15) * batch * vocabulary);
}

Instance cache_step_case(const Options& o) {
  const int64_t batch = o.integer("batch"), heads = o.integer("heads"), group = o.integer("group"),
                positions = o.integer("positions"), width = o.integer("width");
  Draw draw(o);
  const at::Tensor query = draw.normal({batch, heads, group, width}, at::kBFloat16);
  const at::Tensor key = draw.normal({batch, heads, width}, at::kBFloat16),
                   value = draw.normal({batch, heads, width}, at::kBFloat16);
  const auto codes = [&] {
    return (draw.integers({batch, heads, positions, width}, 255) - 127).to(at::kChar);
  };
  const auto scales = [&] { return draw.uniform({batch, heads, positions, 1}, 0.01, 0.03); };
  const at::Tensor key_codes = codes(), key_scales = scales(), value_codes = codes(),
                   value_scales = scales();
  const at::Tensor lengths = positions / 2 + draw.integers({batch}, positions - positions / 2);
  // Keys that a query sees; of these the newest is written, not read.
  const int64_t seen = heads * (lengths.sum().item<int64_t>() + batch);
  return bounded(updating_instance_of(cache_step, query, key, value, key_codes, key_scales,
                                      value_codes, value_scales, lengths),
                 2 * (width + 4) * seen + 2 * 2 * batch * heads * (group + 1) * width + 8 * batch,
                 seen * (2 * width + group * (4 * width + kFunction + 4)));
}

Instance top2_gating_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), experts = o.integer("experts"),
                capacity = o.integer("capacity"), width = o.integer("width"),
                slots = experts * capacity;
  Draw draw(o);
  const at::Tensor x = draw.normal({tokens, width}), logits = draw.normal({tokens, experts});
  // Of the product with the mask each token's two rows are needed.
  return bounded(instance_of(top2_gating, x, logits, capacity),
                 4 * (tokens * width + tokens * experts + tokens * slots + slots * width + 1),
                 tokens * experts * (kFunction + 12) + 2 * tokens * slots + 2 * tokens * width);
}

Instance contrastive_search_case(const Options& o) {
  const int64_t batch = o.integer("batch"), count = o.integer("candidates"),
                length = o.integer("length"), width = o.integer("width"),
                vocabulary = o.integer("vocabulary");
  Draw draw(o);
  const at::Tensor context = draw.normal({batch, length, width}),
                   following = draw.normal({batch, count, width});
  const at::Tensor logits = draw.normal({batch, vocabulary}) * 3;
  return bounded(instance_of(contrastive_search, logits, context, following),
                 4 * batch * (vocabulary + (2 * length + 1 + count) * width) + 12 * batch,
                 batch * ((kFunction + 3) * vocabulary + length * width * (3 + 2 * count)));
}

}  // namespace

std::vector<Workload> decoding_cases() {
  return {
      {"eta_sample_bf16",
       "tokens by eta sampling, with penalties for those before",
       {{"batch", "64", "3", "sequences"},
        {"vocabulary", "32000", "211", "tokens there are"},
        {"previous", "256", "7", "tokens before"}},
       eta_sample_case,
       kSums},
      {"cache_step_bf16",
       "one token's attention over a cache of bytes, filled in place",
       {{"batch", "4", "3", "sequences"},
        {"heads", "8", "3", "heads of keys"},
        {"group", "4", "2", "queries of a head"},
        {"positions", "512", "37", "places of the cache"},
        {"width", "128", "18", "features of a head"}},
       cache_step_case,
       kRounded},
      {"top2_gating_f32",
       "experts of limited capacity: dense dispatch and weights",
       {{"tokens", "128", "37", "tokens"},
        {"experts", "8", "5", "experts"},
        {"capacity", "32", "9", "tokens of an expert"},
        {"width", "128", "18", "features"}},
       top2_gating_case,
       kSums},
      {"contrastive_search_f32",
       "a token unlike its context among the likeliest",
       {{"batch", "8", "3", "sequences"},
        {"candidates", "4", "3", "likeliest tokens"},
        {"length", "384", "19", "tokens before"},
        {"width", "768", "18", "features of a state"},
        {"vocabulary", "32000", "211", "tokens there are"}},
       contrastive_search_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
