// The set `attention`: scores that a function changes and masks leave out, forward and backward,
// over lengths and widths (graft bench --set attention --axis sequence=… --axis head_size=…).
#include <ATen/ATen.h>
#include <graft/graft.h>

#include <algorithm>
#include <cmath>

#include "workloads/draw.h"
#include "workloads/region_cases.h"
#include "workloads/training/region.h"

namespace graft::workloads {
namespace {

using at::Tensor;

constexpr int64_t kWindow = 256, kDocument = 384;
constexpr double kCap = 20;

struct Kind {
  const char* name;
  const char* what;
  ScoreMod score;
  MaskMod mask;
  /// Of `length` squared scores those that count.
  double (*scores)(double length);
  bool fused = false;  ///< ATen's fused attention computes it
};

Tensor causal(const Tensor&, const Tensor&, const Tensor& q, const Tensor& kv) {
  return q >= kv;
}
Tensor window(const Tensor&, const Tensor&, const Tensor& q, const Tensor& kv) {
  return (q >= kv).logical_and(q - kv < kWindow);
}
/// Documents of equal length, one behind the other.
Tensor document(const Tensor& b, const Tensor& h, const Tensor& q, const Tensor& kv) {
  const auto of = [](const Tensor& at) { return at.floor_divide(kDocument); };
  return causal(b, h, q, kv).logical_and(of(q) == of(kv));
}
/// ALiBi: the further away, the less it counts, by a slope for each head.
Tensor slope(const Tensor& score, const Tensor&, const Tensor& h, const Tensor& q,
             const Tensor& kv) {
  const Tensor slopes = at::exp2((h + 1) * (-8.0 / static_cast<double>(h.numel())));
  return score - slopes.to(score.scalar_type()) * (q - kv);
}
Tensor cap(const Tensor& score, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  return at::tanh(score / kCap) * kCap;
}

double half(double n) {
  return n * n / 2;
}
double in_window(double n) {
  return n * std::min<double>(n, kWindow) - std::pow(std::min<double>(n, kWindow), 2) / 2;
}
double in_documents(double n) {
  return n * std::min<double>(n, kDocument) / 2;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"causal", "causal attention", nullptr, causal, half, true},
      {"window", "attention to the last 256 positions", nullptr, window, in_window},
      {"alibi", "causal attention with ALiBi's slopes", slope, causal, half},
      {"document", "causal attention within documents of 384 positions", nullptr, document,
       in_documents},
      {"softcap", "causal attention with capped scores", cap, causal, half},
  };
  return all;
}

struct Sizes {
  int64_t batch, heads, sequence, width;
  explicit Sizes(const Options& o)
      : batch(o.integer("batch")),
        heads(o.integer("heads")),
        sequence(o.integer("sequence")),
        width(o.integer("head_size")) {}
  Tensor draw(Draw& from) const { return from.normal({batch, heads, sequence, width}); }
  double flops(const Kind& kind) const {
    return 4 * static_cast<double>(batch * heads * width) *
           kind.scores(static_cast<double>(sequence));
  }
  double scores() const { return static_cast<double>(batch * heads * sequence * sequence); }
};

Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v, {}, 0, /*is_causal=*/true);
}

Instance forward(const Kind& kind, const Options& o) {
  const Sizes sizes(o);
  Draw draw(o);
  const Tensor q = sizes.draw(draw), k = sizes.draw(draw), v = sizes.draw(draw);
  Instance out = instance_of(
      [kind](const Tensor& a, const Tensor& b, const Tensor& c) {
        return flex_attention(a, b, c, kind.score, kind.mask);
      },
      q, k, v);
  if (kind.fused) out.others.emplace_back("aten_sdpa", call_of(fused, q, k, v));
  out.tokens = static_cast<double>(sizes.batch * sizes.sequence);
  out.bytes = 4 * static_cast<double>(q.nbytes());  // q, k, v and the result
  out.flops = sizes.flops(kind);
  return out;
}

Instance training(const Kind& kind, const Options& o) {
  const Sizes sizes(o);
  Draw draw(o);
  const Tensors inputs{sizes.draw(draw), sizes.draw(draw), sizes.draw(draw)};
  const Tensor direction = sizes.draw(draw);
  Instance out = region_of(
      [kind](const Tensors& t) { return flex_attention(t[0], t[1], t[2], kind.score, kind.mask); },
      inputs, 3, direction, 0);
  if (kind.fused)
    out.others.emplace_back("aten_sdpa",
                            call_of(
                                [](const Tensors& given, const Tensor& along) {
                                  return forward_backward(
                                      [](const Tensors& t) { return fused(t[0], t[1], t[2]); },
                                      given, 3, along);
                                },
                                inputs, direction));
  out.tokens = static_cast<double>(sizes.batch * sizes.sequence);
  out.flops = 3.5 * sizes.flops(kind);  // two products forward, five backward
  return out;
}

}  // namespace

std::vector<Workload> attention_cases() {
  const std::vector<Axis> axes{{"batch", "1", "2", "sequences"},
                               {"heads", "8", "3", "heads"},
                               {"sequence", "2048", "37", "positions"},
                               {"head_size", "64", "22", "columns of a head"}};
  std::vector<Workload> all;
  for (const bool trains : {false, true})
    for (const Kind& kind : kinds())
      all.push_back(
          {std::string(kind.name) + (trains ? "_attention_train_f32" : "_attention_f32"),
           kind.what + std::string(trains ? ", forward and backward" : ""), axes,
           [kind, trains](const Options& o) {
             return trains ? training(kind, o) : forward(kind, o);
           },
           kSums, "attention",
           // Eager's scores, and what softmax and masks make of them, in fp64.
           [trains](const Options& o) { return Sizes(o).scores() * 8 * (trains ? 6 : 4); }});
  return all;
}

}  // namespace graft::workloads
