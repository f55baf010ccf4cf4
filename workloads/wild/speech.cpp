// Speech: features, a transducer's loss, a vocoder's layer.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// A recogniser's features of utterances of different lengths (B): power spectra (B, T, F) by mel
/// filters (F, M), logarithms with first and second differences over time, standardised over each
/// utterance; frames beyond its end are 0. (B, T, 3 M)
at::Tensor delta_features(const at::Tensor& power, const at::Tensor& filters,
                          const at::Tensor& lengths) {
  const at::Tensor level = at::matmul(power, filters).clamp_min(1e-10).log();
  const auto difference = [](const at::Tensor& x) {
    const at::Tensor p = at::replication_pad1d(x.transpose(1, 2), {2, 2});
    const at::Tensor near = p.slice(2, 3, -1) - p.slice(2, 1, -3);
    return ((near + 2 * (p.slice(2, 4) - p.slice(2, 0, -4))) / 10).transpose(1, 2);
  };
  const at::Tensor first = difference(level), second = difference(first);
  const at::Tensor features = at::cat({level, first, second}, 2);
  const at::Tensor within =
      (at::arange(power.size(1), lengths.options()) < lengths.unsqueeze(1)).unsqueeze(2);
  const at::Tensor count = lengths.view({-1, 1, 1});
  const at::Tensor mean = (features * within).sum(1, /*keepdim=*/true) / count;
  const at::Tensor centred = (features - mean).masked_fill(~within, 0);
  const at::Tensor variance = centred.square().sum(1, /*keepdim=*/true) / (count - 1);
  return centred / (variance.sqrt() + 1e-5);
}

/// The loss of a recurrent transducer: logits (B, T, U + 1, V), labels (B, U) without the blank 0,
/// and how many frames and labels (B) count. Frame by frame; along the labels a cumulative sum.
at::Tensor transducer_loss(const at::Tensor& logits, const at::Tensor& labels,
                           const at::Tensor& frames, const at::Tensor& lengths) {
  const int64_t batch = logits.size(0), steps = logits.size(1), states = logits.size(2);
  const at::Tensor scores = at::log_softmax(logits, -1), blank = scores.select(3, 0);
  const at::Tensor index =
      labels.view({batch, 1, states - 1, 1}).expand({batch, steps, states - 1, 1});
  const at::Tensor emitted = scores.slice(2, 0, -1).gather(3, index).squeeze(3);
  const at::Tensor along = at::constant_pad_nd(emitted.cumsum(2), {1, 0});
  at::Tensor alpha = along.select(1, 0);
  std::vector<at::Tensor> rows{alpha};
  for (int64_t t = 1; t < steps; ++t) {
    const at::Tensor base = along.select(1, t);
    alpha = base + at::logcumsumexp(alpha + blank.select(1, t - 1) - base, 1);
    rows.push_back(alpha);
  }
  const at::Tensor ended = (at::stack(rows, 1) + blank).flatten(1);
  return -ended.gather(1, ((frames - 1) * states + lengths).unsqueeze(1)).squeeze(1);
}

/// A WaveNet layer with weight norm: x (B, C, T) through causal dilated convolutions of each
/// channel alone, of a filter and of a gate; directions (2 C, K), lengths (2 C, 1) and biases (2 C)
/// of their weights. What goes to the skips is added there in place; gives x with it.
at::Tensor gated_layer(const at::Tensor& x, const at::Tensor& direction, const at::Tensor& length,
                       const at::Tensor& bias, const at::Tensor& skips, int64_t dilation) {
  const at::Tensor weight = direction * (length / direction.norm(2, 1, /*keepdim=*/true));
  const auto convolved = [&](const at::Tensor& w, const at::Tensor& b) {
    const int64_t taps = w.size(1);
    at::Tensor sum = x * w.select(1, taps - 1).unsqueeze(1) + b.unsqueeze(1);
    for (int64_t k = 1; k < taps; ++k) {
      sum.slice(2, k * dilation) +=
          x.slice(2, 0, -k * dilation) * w.select(1, taps - 1 - k).unsqueeze(1);
    }
    return sum;
  };
  const auto w = weight.chunk(2), b = bias.chunk(2);
  const at::Tensor out = at::tanh(convolved(w[0], b[0])) * at::sigmoid(convolved(w[1], b[1]));
  skips.add_(out);
  return x + out;
}

Instance delta_features_case(const Options& o) {
  const int64_t batch = o.integer("batch"), frames = o.integer("frames"),
                frequencies = o.integer("frequencies"), mels = o.integer("mels"),
                rows = batch * frames;
  Draw draw(o);
  const at::Tensor power = draw.normal({batch, frames, frequencies}).square();
  const at::Tensor filters = draw.uniform({frequencies, mels}).pow(4);
  const at::Tensor lengths = frames - draw.integers({batch}, frames / 2);
  // Of the spectra those within an utterance and the two that its last differences see.
  const int64_t within = lengths.sum().item<int64_t>();
  return bounded(instance_of(delta_features, power, filters, lengths),
                 4 * (within * frequencies + frequencies * mels + 3 * rows * mels) + 8 * batch,
                 within * mels * (2 * frequencies + kFunction + 2 * 5 + 3 * 6));
}

Instance transducer_loss_case(const Options& o) {
  const int64_t batch = o.integer("batch"), frames = o.integer("frames"),
                labels = o.integer("labels"), vocabulary = o.integer("vocabulary"),
                states = labels + 1;
  Draw draw(o);
  const at::Tensor logits = draw.normal({batch, frames, states, vocabulary});
  const at::Tensor text = 1 + draw.integers({batch, labels}, vocabulary - 1);
  const at::Tensor ends = frames - draw.integers({batch}, frames / 2),
                   lengths = labels - draw.integers({batch}, labels / 2);
  const int64_t nodes = (ends * (lengths + 1)).sum().item<int64_t>();
  return bounded(instance_of(transducer_loss, logits, text, ends, lengths),
                 4 * (nodes * vocabulary + batch) + 8 * (lengths.sum().item<int64_t>() + 2 * batch),
                 nodes * (vocabulary * (kFunction + 2) + 2 * kFunction + 6));
}

Instance gated_layer_case(const Options& o) {
  const int64_t batch = o.integer("batch"), channels = o.integer("channels"),
                samples = o.integer("samples"), taps = 3, count = batch * channels * samples;
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, channels, samples}),
                   skips = draw.normal({batch, channels, samples});
  return bounded(updating_instance_of(gated_layer, x, draw.normal({2 * channels, taps}),
                                      draw.uniform({2 * channels, 1}, 0.5, 2),
                                      draw.normal({2 * channels}), skips, o.integer("dilation")),
                 4 * (4 * count + 2 * channels * (taps + 2)),
                 count * (4 * taps + 2 * kFunction + 5));
}

}  // namespace

std::vector<Workload> speech_cases() {
  return {
      {"delta_features_f32",
       "log-mel features with their differences, standardised",
       {{"batch", "8", "3", "utterances"},
        {"frames", "400", "37", "frames of the longest"},
        {"frequencies", "201", "21", "of a spectrum"},
        {"mels", "40", "7", "mel filters"}},
       delta_features_case,
       10 * kSums},
      {"transducer_loss_f32",
       "a recurrent transducer's loss, frame by frame",
       {{"batch", "4", "3", "utterances"},
        {"frames", "24", "7", "frames of the longest"},
        {"labels", "7", "4", "labels of the longest"},
        {"vocabulary", "32", "13", "labels that there are"}},
       transducer_loss_case,
       kSums},
      {"gated_layer_f32",
       "a WaveNet layer of shifted sums with weight norm",
       {{"batch", "4", "2", "waves"},
        {"channels", "96", "5", "features"},
        {"samples", "8192", "67", "of a wave"},
        {"dilation", "16", "4", "samples between two taps"}},
       gated_layer_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
