// Samplers: diffusion steps, tokens.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// A DDIM step with classifier-free guidance: x (B, C, H, W), the noise predicted without and with
/// the condition (2 B, C, H, W), cumulated alphas (S), and each image's step and next step (B).
at::Tensor ddim_step(const at::Tensor& x, const at::Tensor& predicted, const at::Tensor& alphas,
                     const at::Tensor& now, const at::Tensor& next) {
  const auto halves = predicted.chunk(2, 0);
  const at::Tensor noise = halves[0] + 7.5 * (halves[1] - halves[0]);
  const at::Tensor alpha = alphas.index_select(0, now).view({-1, 1, 1, 1});
  const at::Tensor beyond = alphas.index_select(0, next).view({-1, 1, 1, 1});
  const at::Tensor image = ((x - (1 - alpha).sqrt() * noise) / alpha.sqrt()).clamp(-3, 3);
  return beyond.sqrt() * image + (1 - beyond).sqrt() * noise;
}

/// An ancestral Euler step (Karras et al.) from noise level `step` to the next; the levels (S) are
/// data.
at::Tensor euler_ancestral(const at::Tensor& x, const at::Tensor& denoised, const at::Tensor& noise,
                           const at::Tensor& levels, int64_t step) {
  const at::Tensor sigma = levels.select(0, step), next = levels.select(0, step + 1);
  const at::Tensor share = (sigma.square() - next.square()) / sigma.square();
  const at::Tensor up = at::minimum(next, (next.square() * share).sqrt());
  const at::Tensor down = (next.square() - up.square()).sqrt();
  const at::Tensor slope = (x - denoised) / sigma;
  return x + slope * (down - sigma) + noise * up;
}

/// A token of each row of logits (B, V) among its `count` likeliest, by given uniforms (B), and its
/// probability among these.
std::tuple<at::Tensor, at::Tensor> top_k_sample(const at::Tensor& logits,
                                                const at::Tensor& uniforms, int64_t count) {
  const auto [best, tokens] = (logits / 0.8).topk(count, -1);
  const at::Tensor share = at::softmax(best, -1);
  const at::Tensor below = share.cumsum(-1) < uniforms.unsqueeze(1);
  const at::Tensor choice = below.sum(-1, /*keepdim=*/true).clamp_max(count - 1);
  return {tokens.gather(1, choice).squeeze(1), share.gather(1, choice).squeeze(1)};
}

/// The distribution of the next token (B, V) with a penalty on previous ones (B, P), without those
/// less likely than a twentieth of the likeliest (min-p).
at::Tensor penalised_distribution(const at::Tensor& logits, const at::Tensor& previous) {
  const at::Tensor score = logits.gather(1, previous);
  const at::Tensor penalised = at::where(score < 0, score * 1.3, score / 1.3);
  const at::Tensor p = at::softmax(logits.scatter(1, previous, penalised), -1);
  const at::Tensor kept = at::where(p < 0.05 * p.amax(-1, /*keepdim=*/true), 0, p);
  return kept / kept.sum(-1, /*keepdim=*/true);
}

/// Speculative decoding's check: the probabilities of draft and target (B, G, V), the drafted
/// tokens and uniforms (B, G). How many tokens of each row stand, and what the next is drawn from.
std::tuple<at::Tensor, at::Tensor> speculative_check(const at::Tensor& draft,
                                                     const at::Tensor& target,
                                                     const at::Tensor& tokens,
                                                     const at::Tensor& uniforms) {
  const at::Tensor index = tokens.unsqueeze(-1);
  const at::Tensor ratio = (target.gather(2, index) / draft.gather(2, index)).squeeze(-1);
  const at::Tensor stands = (uniforms < ratio).to(at::kLong).cumprod(1).sum(1);
  const at::Tensor rest = (target - draft).clamp_min(0);
  return {stands, rest / rest.sum(-1, /*keepdim=*/true)};
}

Instance ddim_step_case(const Options& o) {
  const int64_t batch = o.integer("batch"), channels = o.integer("channels"),
                side = o.integer("side"), steps = 1000;
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, channels, side, side});
  const at::Tensor alphas = (1 - at::linspace(1e-4, 0.02, steps, at::kFloat)).cumprod(0);
  const at::Tensor next = draw.integers({batch}, steps - 20);
  return bounded(instance_of(ddim_step, x, draw.normal({2 * batch, channels, side, side}), alphas,
                             next + 20, next),
                 4 * 4 * x.numel() + (16 + 8) * batch, 11 * x.numel());
}

Instance euler_ancestral_case(const Options& o) {
  const int64_t batch = o.integer("batch"), channels = o.integer("channels"),
                side = o.integer("side");
  Draw draw(o);
  const auto image = [&] { return draw.normal({batch, channels, side, side}); };
  const at::Tensor x = image() * 10, denoised = image(), noise = image();
  const at::Tensor levels = std::get<0>(draw.uniform({21}, 0.1, 14.6).sort(0, /*descending=*/true));
  return bounded(instance_of(euler_ancestral, x, denoised, noise, levels, int64_t{3}),
                 4 * 4 * x.numel() + 8, 6 * x.numel());
}

Instance top_k_sample_case(const Options& o) {
  const int64_t batch = o.integer("batch"), vocabulary = o.integer("vocabulary"),
                count = o.integer("count");
  Draw draw(o);
  const at::Tensor logits = draw.normal({batch, vocabulary}) * 3;
  return bounded(instance_of(top_k_sample, logits, draw.uniform({batch}), count),
                 4 * batch * vocabulary + (4 + 8 + 4) * batch, 2 * batch * vocabulary);
}

Instance penalised_distribution_case(const Options& o) {
  const int64_t batch = o.integer("batch"), vocabulary = o.integer("vocabulary"),
                previous = o.integer("previous");
  Draw draw(o);
  const at::Tensor logits = draw.normal({batch, vocabulary}) * 3;
  return bounded(
      instance_of(penalised_distribution, logits, draw.integers({batch, previous}, vocabulary)),
      8 * batch * vocabulary + 8 * batch * previous, (kFunction + 7) * batch * vocabulary);
}

Instance speculative_check_case(const Options& o) {
  const int64_t batch = o.integer("batch"), drafted = o.integer("drafted"),
                vocabulary = o.integer("vocabulary"), rows = batch * drafted;
  Draw draw(o);
  const auto distribution = [&] {
    return at::softmax(draw.normal({batch, drafted, vocabulary}) * 2, -1);
  };
  const at::Tensor draft = distribution(), target = distribution();
  return bounded(
      instance_of(speculative_check, draft, target, draw.integers({batch, drafted}, vocabulary),
                  draw.uniform({batch, drafted})),
      4 * 3 * rows * vocabulary + (8 + 4) * rows + 8 * batch, 4 * rows * vocabulary);
}

std::vector<Axis> latent_axes(const char* batch, const char* side) {
  return {{"batch", batch, "3", "images"},
          {"channels", "4", "2", "of a latent image"},
          {"side", side, "13", "rows and columns"}};
}

std::vector<Axis> token_axes(const char* batch, const char* count, const char* what,
                             const char* name) {
  return {{"batch", batch, "5", "sequences"},
          {name, count, "7", what},
          {"vocabulary", "32000", "211", "tokens"}};
}

}  // namespace

std::vector<Workload> sampler_cases() {
  return {
      {"ddim_step_f32", "a DDIM step with guidance", latent_axes("4", "64"), ddim_step_case},
      {"euler_ancestral_f32", "an ancestral Euler step", latent_axes("16", "256"),
       euler_ancestral_case},
      {"top_k_sample_f32", "a token among the likeliest, by given uniforms",
       token_axes("16", "50", "likeliest tokens", "count"), top_k_sample_case, kSums},
      {"penalised_distribution_f32", "token probabilities with a repetition penalty and min-p",
       token_axes("8", "256", "tokens before", "previous"), penalised_distribution_case, kSums},
      {"speculative_check_f32", "speculative decoding's check and residual distribution",
       token_axes("32", "4", "tokens of the draft", "drafted"), speculative_check_case, kSums},
  };
}

}  // namespace graft::workloads::wild
