// Audio: spectra, codes, filters.

#include <ATen/ATen.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// Whisper's features: spectra (B, T, F, 2), real and imaginary, by mel filters (F, M) to scaled
/// logarithms (B, T, M).
at::Tensor log_mel(const at::Tensor& spectra, const at::Tensor& filters) {
  const at::Tensor power = spectra.square().sum(-1);
  const at::Tensor level = at::matmul(power, filters).clamp_min(1e-10).log10();
  const at::Tensor top = level.amax({1, 2}, /*keepdim=*/true);
  return (at::maximum(level, top - 8) + 4) / 4;
}

/// The mu-law codes of samples from -1 to 1, and what they decode to.
std::tuple<at::Tensor, at::Tensor> mu_law(const at::Tensor& x) {
  const at::Tensor y = x.sign() * at::log1p(x.abs() * 255) / std::log1p(255.0);
  const at::Tensor codes = ((y + 1) / 2 * 255 + 0.5).to(at::kByte);
  const at::Tensor z = codes.to(x.scalar_type()) / 255 * 2 - 1;
  const at::Tensor decoded = z.sign() * (at::exp(z.abs() * std::log1p(255.0)) - 1) / 255;
  return {codes, decoded};
}

/// A filter of second order in each channel, direct form I: x (T, C), coefficients b0 b1 b2 a1 a2
/// (5, C).
at::Tensor biquad(const at::Tensor& x, const at::Tensor& coefficients) {
  const auto c = coefficients.unbind(0);
  at::Tensor out = at::empty_like(x), x1 = at::zeros_like(x.select(0, 0)), x2 = x1, y1 = x1,
             y2 = x1;
  for (int64_t t = 0; t < x.size(0); ++t) {
    const at::Tensor now = x.select(0, t);
    const at::Tensor y = c[0] * now + c[1] * x1 + c[2] * x2 - c[3] * y1 - c[4] * y2;
    out.select(0, t).copy_(y);
    x2 = x1, x1 = now, y2 = y1, y1 = y;
  }
  return out;
}

/// Frames (B, T, N), half overlapping, times a window (N), added up and divided by the window's
/// power: (B, (T + 1) N / 2).
at::Tensor overlap_add(const at::Tensor& frames, const at::Tensor& window) {
  const int64_t batch = frames.size(0), count = frames.size(1), half = frames.size(2) / 2;
  const at::Tensor windowed = frames * window, power = window.square();
  at::Tensor sum = at::zeros({batch, count + 1, half}, frames.options());
  sum.slice(1, 0, count) += windowed.slice(2, 0, half);
  sum.slice(1, 1) += windowed.slice(2, half);
  return (sum / (power.slice(0, 0, half) + power.slice(0, half))).view({batch, -1});
}

/// A long reverberation: spectra of the last P blocks (P, C, F, 2) times those of the response's
/// parts, summed over P.
at::Tensor partitioned_convolution(const at::Tensor& blocks, const at::Tensor& response) {
  const at::Tensor a = blocks.select(-1, 0), b = blocks.select(-1, 1);
  const at::Tensor c = response.select(-1, 0), d = response.select(-1, 1);
  return at::stack({(a * c - b * d).sum(0), (a * d + b * c).sum(0)}, -1);
}

Instance log_mel_case(const Options& o) {
  const int64_t frames = o.integer("batch") * o.integer("frames"),
                frequencies = o.integer("frequencies"), mels = o.integer("mels");
  Draw draw(o);
  const at::Tensor spectra = draw.normal({o.integer("batch"), o.integer("frames"), frequencies, 2});
  const at::Tensor filters = draw.uniform({frequencies, mels}) / frequencies;
  return bounded(instance_of(log_mel, spectra, filters),
                 4 * (2 * frames * frequencies + frequencies * mels + frames * mels),
                 frames * (3 * frequencies + 2 * frequencies * mels + (kFunction + 5) * mels));
}

Instance mu_law_case(const Options& o) {
  const int64_t samples = o.integer("samples");
  return bounded(instance_of(mu_law, Draw(o).uniform({samples}, -1, 1)), (4 + 1 + 4) * samples,
                 (2 * kFunction + 14) * samples);
}

Instance biquad_case(const Options& o) {
  const int64_t steps = o.integer("steps"), channels = o.integer("channels");
  Draw draw(o);
  const at::Tensor x = draw.normal({steps, channels});
  const at::Tensor zeros = draw.normal({3, channels}),
                   first = draw.uniform({1, channels}, -0.9, 0.9),
                   second = draw.uniform({1, channels}, 0, 0.6);
  return bounded(instance_of(biquad, x, at::cat({zeros, first, second})),
                 4 * (2 * steps * channels + 5 * channels), 9 * steps * channels);
}

Instance overlap_add_case(const Options& o) {
  const int64_t batch = o.integer("batch"), frames = o.integer("frames"), half = o.integer("half");
  const at::Tensor window = at::hann_window(2 * half + 1, at::kFloat).slice(0, 0, 2 * half) + 0.01;
  return bounded(
      instance_of(overlap_add, Draw(o).normal({batch, frames, 2 * half}), window.contiguous()),
      4 * (batch * frames * 2 * half + 2 * half + batch * (frames + 1) * half),
      batch * frames * half * 4);
}

Instance partitioned_convolution_case(const Options& o) {
  const int64_t parts = o.integer("parts"), channels = o.integer("channels"),
                frequencies = o.integer("frequencies"), values = channels * frequencies;
  Draw draw(o);
  const at::Tensor blocks = draw.normal({parts, channels, frequencies, 2}),
                   response = draw.normal({parts, channels, frequencies, 2});
  return bounded(instance_of(partitioned_convolution, blocks, response),
                 4 * 2 * (2 * parts * values + values), 8 * parts * values);
}

}  // namespace

std::vector<Workload> audio_cases() {
  return {
      {"log_mel_f32",
       "Whisper's features: power, mel filters, scaled logarithm",
       {{"batch", "4", "2", "clips"},
        {"frames", "3000", "37", "of a clip"},
        {"frequencies", "201", "41", "of a spectrum"},
        {"mels", "80", "11", "filters"}},
       log_mel_case,
       kSums},
      {"mu_law_f32",
       "mu-law codes of samples, and what they decode to",
       {{"samples", "4194304", "4099", "samples"}},
       mu_law_case},
      {"biquad_f32",
       "a filter of second order in each channel, step by step",
       {{"steps", "64", "9", "samples of a channel"}, {"channels", "1024", "83", "channels"}},
       biquad_case},
      {"overlap_add_f32",
       "half-overlapping frames windowed and added up",
       {{"batch", "8", "2", "signals"},
        {"frames", "1024", "13", "of a signal"},
        {"half", "256", "19", "half a frame"}},
       overlap_add_case},
      {"partitioned_convolution_f32",
       "spectra times a response's, summed over its parts",
       {{"parts", "16", "5", "of the response"},
        {"channels", "128", "3", "channels"},
        {"frequencies", "1025", "33", "of a spectrum"}},
       partitioned_convolution_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
