// Diffusion models: a sampler's step, conditioning, transformers' blocks.

#include <ATen/ATen.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// A step of DDIM as Imagen takes it: images (B, C, H, W), predicted velocities without and with
/// the prompt (2 B, C, H, W), guided and brought back to the latter's deviation; the image is
/// thresholded at a quantile of its own.
at::Tensor thresholded_step(const at::Tensor& x, const at::Tensor& predicted,
                            const at::Tensor& alphas, const at::Tensor& now,
                            const at::Tensor& next) {
  const auto halves = predicted.chunk(2);
  const at::Tensor guided = halves[0] + 6 * (halves[1] - halves[0]);
  const auto deviation = [](const at::Tensor& t) {
    return t.std({1, 2, 3}, /*unbiased=*/true, /*keepdim=*/true);
  };
  const at::Tensor velocity = guided * (0.7 * deviation(halves[1]) / deviation(guided) + 0.3);
  const at::Tensor alpha = alphas.index_select(0, now).view({-1, 1, 1, 1}),
                   beyond = alphas.index_select(0, next).view({-1, 1, 1, 1});
  const at::Tensor signal = alpha.sqrt(), noise = (1 - alpha).sqrt();
  at::Tensor image = signal * x - noise * velocity;
  const at::Tensor limit =
      at::quantile(image.abs().flatten(1), 0.995, 1).clamp_min(1).view({-1, 1, 1, 1});
  image = at::clamp(image, -limit, limit).div_(limit);
  return beyond.sqrt() * image + (1 - beyond).sqrt() * ((x - signal * image) / noise);
}

/// What conditions a diffusion transformer: times (B) as waves through two layers, and the
/// embedding of a class (B), or the last row of the table where it is dropped.
at::Tensor time_embedding(const at::Tensor& times, const at::Tensor& classes,
                          const at::Tensor& dropped, const at::Tensor& table, const at::Tensor& w1,
                          const at::Tensor& b1, const at::Tensor& w2, const at::Tensor& b2) {
  const int64_t half = w1.size(1) / 2;
  const double rate = -std::log(10000.0) / static_cast<double>(half);
  const at::Tensor frequencies = at::exp(at::arange(half, times.options()) * rate);
  const at::Tensor angles = times.unsqueeze(1) * frequencies;
  const at::Tensor waves = at::cat({angles.cos(), angles.sin()}, 1);
  const at::Tensor embedded = at::linear(at::silu(at::linear(waves, w1, b1)), w2, b2);
  const at::Tensor row = at::where(dropped, table.size(0) - 1, classes);
  return at::silu(embedded + at::embedding(table, row));
}

/// The gradients of a block with adaptive norm, y = x + gate * branch(h) with h = norm(x) * (1 +
/// scale) + shift: from those of y and h (B, T, W), by x, the branch's result, gate, scale and
/// shift (B, W).
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> modulation_backward(
    const at::Tensor& by_y, const at::Tensor& by_h, const at::Tensor& x, const at::Tensor& branch,
    const at::Tensor& gate, const at::Tensor& scale) {
  const at::Tensor g = wide(by_h), residual = wide(by_y);
  const auto [variance, mean] = at::var_mean(wide(x), {-1}, /*unbiased=*/false, /*keepdim=*/true);
  const at::Tensor inverse = at::rsqrt(variance + 1e-6), normal = (wide(x) - mean) * inverse;
  const at::Tensor inner = g * (1 + wide(scale)).unsqueeze(1);
  const at::Tensor along = (inner * normal).mean(-1, /*keepdim=*/true);
  const at::Tensor by_x = inverse * (inner - inner.mean(-1, /*keepdim=*/true) - normal * along);
  return {(by_x + residual).to(x.scalar_type()), by_y * gate.unsqueeze(1),
          (residual * wide(branch)).sum(1), (g * normal).sum(1), g.sum(1)};
}

/// Attention of an image's tokens (B, N, W) and a text's (B, M, W) together, as in Stable Diffusion
/// 3: each with its own projections, queries and keys with RMS norms (2, D), gated residuals.
std::tuple<at::Tensor, at::Tensor> joint_attention(
    const at::Tensor& image, const at::Tensor& text, const at::Tensor& image_in,
    const at::Tensor& text_in, const at::Tensor& image_norms, const at::Tensor& text_norms,
    const at::Tensor& image_out, const at::Tensor& text_out, const at::Tensor& gates) {
  const int64_t width = image.size(2), size = image_norms.size(1), heads = width / size;
  const auto normal = [](const at::Tensor& x, const at::Tensor& weight) {
    const at::Tensor f = wide(x);
    return (f * at::rsqrt(f.square().mean(-1, /*keepdim=*/true) + 1e-6)).to(x.scalar_type()) *
           weight;
  };
  const auto projected = [&](const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& norms) {
    auto parts = at::linear(x, weight)
                     .view({x.size(0), x.size(1), 3, heads, size})
                     .permute({2, 0, 3, 1, 4})
                     .unbind(0);
    for (int64_t i = 0; i < 2; ++i) parts[i] = normal(parts[i], norms.select(0, i));
    return parts;
  };
  const auto a = projected(text, text_in, text_norms), b = projected(image, image_in, image_norms);
  const at::Tensor attended =
      at::scaled_dot_product_attention(at::cat({a[0], b[0]}, 2), at::cat({a[1], b[1]}, 2),
                                       at::cat({a[2], b[2]}, 2))
          .transpose(1, 2)
          .flatten(2);
  const auto out = attended.split_with_sizes({text.size(1), image.size(1)}, 1);
  return {image + gates.select(1, 0).unsqueeze(1) * at::linear(out[1], image_out),
          text + gates.select(1, 1).unsqueeze(1) * at::linear(out[0], text_out)};
}

Instance thresholded_step_case(const Options& o) {
  const int64_t batch = o.integer("batch"), side = o.integer("side"), steps = 1000;
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, 3, side, side});
  const at::Tensor alphas = (1 - at::linspace(1e-4, 0.02, steps, at::kFloat)).cumprod(0);
  const at::Tensor next = 20 + draw.integers({batch}, steps - 40);
  return bounded(instance_of(thresholded_step, x, draw.normal({2 * batch, 3, side, side}), alphas,
                             next + 20, next),
                 4 * 4 * x.numel() + 24 * batch, 22 * x.numel());
}

Instance time_embedding_case(const Options& o) {
  const int64_t batch = o.integer("batch"), waves = 2 * o.integer("half"),
                width = o.integer("width"), classes = o.integer("classes");
  Draw draw(o);
  const at::Tensor w1 = draw.normal({width, waves}) * 0.05, w2 = draw.normal({width, width}) * 0.05;
  const at::Tensor chosen = draw.integers({batch}, classes), dropped = draw.uniform({batch}) < 0.1;
  const int64_t rows = distinct(at::where(dropped, classes, chosen));
  return bounded(
      instance_of(time_embedding, draw.uniform({batch}, 0, 1000), chosen, dropped,
                  draw.normal({classes + 1, width}), w1, draw.normal({width}), w2,
                  draw.normal({width})),
      4 * (width * (waves + width + 2 + rows + batch) + batch) + 9 * batch,
      batch * (waves * kFunction + 2 * width * (waves + width) + width * (2 * kFunction + 6)));
}

Instance modulation_backward_case(const Options& o) {
  const int64_t batch = o.integer("batch"), tokens = o.integer("tokens"),
                width = o.integer("width"), count = batch * tokens * width;
  Draw draw(o);
  const auto normal = [&] { return draw.normal({batch, tokens, width}, at::kBFloat16); };
  const at::Tensor by_y = normal(), by_h = normal(), x = normal(), branch = normal();
  const at::Tensor gate = draw.normal({batch, width}, at::kBFloat16),
                   scale = (draw.normal({batch, width}) * 0.3).to(at::kBFloat16);
  return bounded(instance_of(modulation_backward, by_y, by_h, x, branch, gate, scale),
                 2 * (6 * count + 2 * batch * width) + 4 * 3 * batch * width, 19 * count);
}

Instance joint_attention_case(const Options& o) {
  const int64_t batch = o.integer("batch"), image = o.integer("image"), text = o.integer("text"),
                heads = o.integer("heads"), size = o.integer("size"), width = heads * size,
                tokens = image + text;
  Draw draw(o);
  const auto normal = [&](at::IntArrayRef sizes, double scale) {
    return (draw.normal(sizes) * scale).to(at::kBFloat16);
  };
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const at::Tensor pixels = normal({batch, image, width}, 1),
                   words = normal({batch, text, width}, 1);
  const at::Tensor image_in = normal({3 * width, width}, scale),
                   text_in = normal({3 * width, width}, scale);
  const at::Tensor image_norms = normal({2, size}, 1), text_norms = normal({2, size}, 1);
  return bounded(
      instance_of(joint_attention, pixels, words, image_in, text_in, image_norms, text_norms,
                  normal({width, width}, scale), normal({width, width}, scale),
                  normal({batch, 2, width}, 1)),
      2 * (2 * batch * tokens * width + 8 * width * width + 4 * size + 2 * batch * width),
      batch * tokens * (8 * width * width + 4 * tokens * width + heads * tokens * kFunction));
}

}  // namespace

std::vector<Workload> diffusion_cases() {
  return {
      {"thresholded_step_f32",
       "a guided DDIM step with dynamic thresholds",
       {{"batch", "4", "3", "images"}, {"side", "64", "13", "rows and columns"}},
       thresholded_step_case,
       10 * kSums},
      {"time_embedding_f32",
       "a diffusion transformer's time and class, embedded",
       {{"batch", "8", "3", "images"},
        {"half", "64", "5", "frequencies"},
        {"width", "256", "37", "features"},
        {"classes", "1000", "11", "classes"}},
       time_embedding_case,
       kSums},
      {"modulation_backward_bf16",
       "the gradients of a block with adaptive norm and gate",
       {{"batch", "12", "3", "images"},
        {"tokens", "256", "13", "of an image"},
        {"width", "768", "37", "features"}},
       modulation_backward_case,
       kRounded},
      {"joint_attention_bf16",
       "attention of an image and a text together",
       {{"batch", "1", "2", "pairs"},
        {"image", "36", "13", "tokens of an image"},
        {"text", "12", "5", "tokens of a text"},
        {"heads", "4", "3", "heads"},
        {"size", "32", "7", "features of a head"}},
       joint_attention_case,
       kRounded},
  };
}

}  // namespace graft::workloads::wild
