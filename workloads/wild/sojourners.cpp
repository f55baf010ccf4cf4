// Sojourners: layers, routers and codes of networks, a step and a gradient, one of each.

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <utility>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

using at::Tensor;

/// DCN-v2: rows of a table (V, W) for samples' fields (B, F), numbers (B, M), three crossings of
/// low rank and a deep part beside them. Weights: each crossing's two and bias, two deep layers'
/// with biases, the last layer's with bias.
Tensor cross_network(const Tensor& fields, const Tensor& numbers, const Tensor& starts,
                     const Tensor& table, const Tensors& w) {
  const Tensor rows = at::embedding(table, fields + starts).flatten(1);
  const Tensor x0 = at::cat({(numbers.abs() + 1).log() * numbers.sign(), rows}, 1);
  Tensor x = x0;
  for (size_t layer = 0; layer < 3; ++layer)
    x = x0 * at::linear(at::linear(x, w[3 * layer]), w[3 * layer + 1], w[3 * layer + 2]) + x;
  Tensor deep = at::relu(at::linear(x0, w[9], w[10]));
  deep = at::relu(at::linear(deep, w[11], w[12]));
  return at::sigmoid(at::linear(at::cat({x, deep}, 1), w[13], w[14])).squeeze(1);
}

/// An equivariant layer (EGNN) of nodes (N, W) at places (N, 3) and edges (2, E): what edges carry,
/// by two layers and a gate; places that move along edges; nodes anew.
std::tuple<Tensor, Tensor> equivariant_layer(const Tensor& nodes, const Tensor& places,
                                             const Tensor& edges, const Tensors& w) {
  const int64_t count = nodes.size(0);
  const Tensor to = edges.select(0, 0), from = edges.select(0, 1);
  const Tensor apart = places.index_select(0, to) - places.index_select(0, from);
  const Tensor squared = apart.square().sum(1, /*keepdim=*/true);
  const Tensor pair = at::cat({nodes.index_select(0, to), nodes.index_select(0, from), squared}, 1);
  const Tensor carried = at::silu(at::linear(at::silu(at::linear(pair, w[0], w[1])), w[2], w[3]));
  const Tensor gated = carried * at::sigmoid(at::linear(carried, w[4], w[5]));
  const Tensor pull = at::linear(at::silu(at::linear(gated, w[6], w[7])), w[8]).tanh();
  const Tensor unit = apart / (squared.sqrt() + 1);
  const Tensor ones = at::ones({edges.size(1), 1}, nodes.options());
  const Tensor degree = at::zeros({count, 1}, nodes.options()).index_add_(0, to, ones);
  const Tensor moved = at::zeros_like(places).index_add_(0, to, unit * pull);
  const Tensor gathered = at::zeros({count, gated.size(1)}, nodes.options());
  gathered.index_add_(0, to, gated);
  const Tensor mixed = at::silu(at::linear(at::cat({nodes, gathered}, 1), w[9], w[10]));
  return {nodes + at::linear(mixed, w[11], w[12]), places + moved / degree.clamp_min(1)};
}

Tensor unit_rows(const Tensor& x) {
  return x * (x.square().sum(-1, /*keepdim=*/true) + 1e-6).rsqrt();
}

/// The gated delta rule by chunks, as Qwen3-Next has it: queries and keys (B, H, T, D), values
/// (B, H, T, V), logarithms of decays and rates (B, H, T). Gives results, and the last state
/// (B, H, D, V).
std::tuple<Tensor, Tensor> gated_delta_chunks(const Tensor& queries, const Tensor& keys,
                                              const Tensor& values, const Tensor& decays,
                                              const Tensor& rates, int64_t length) {
  const int64_t b = keys.size(0), h = keys.size(1), d = keys.size(3), v = values.size(3);
  const int64_t chunks = keys.size(2) / length;
  const auto chunked = [&](const Tensor& x) { return x.reshape({b, h, chunks, length, -1}); };
  const Tensor q = chunked(unit_rows(queries) / std::sqrt(static_cast<double>(d)));
  const Tensor normal = unit_rows(keys), rate = rates.unsqueeze(-1);
  const Tensor k = chunked(normal), rated_k = chunked(normal * rate),
               rated_v = chunked(values * rate);
  const Tensor g = decays.reshape({b, h, chunks, length}).cumsum(-1);
  const Tensor decay = (g.unsqueeze(-1) - g.unsqueeze(-2)).tril().exp().tril();
  const Tensor own = at::ones({length, length}, at::kBool).triu(0);
  const Tensor attention = -(at::matmul(rated_k, k.transpose(-1, -2)) * decay).masked_fill(own, 0);
  for (int64_t i = 1; i < length; ++i) {
    const Tensor place = attention.select(-2, i).slice(-1, 0, i);
    const Tensor row = place.clone(), before = attention.slice(-2, 0, i).slice(-1, 0, i).clone();
    place.copy_(row + (row.unsqueeze(-1) * before).sum(-2));
  }
  const Tensor inverse = attention + at::eye(length, keys.options());
  const Tensor value = at::matmul(inverse, rated_v);
  const Tensor decayed_k = at::matmul(inverse, rated_k * g.exp().unsqueeze(-1));
  const Tensor later = at::ones({length, length}, at::kBool).triu(1);
  const Tensor out = at::zeros_like(value);
  Tensor state = at::zeros({b, h, d, v}, keys.options());
  for (int64_t c = 0; c < chunks; ++c) {
    const Tensor qc = q.select(2, c), kc = k.select(2, c), gc = g.select(2, c);
    const Tensor scores =
        (at::matmul(qc, kc.transpose(-1, -2)) * decay.select(2, c)).masked_fill(later, 0);
    const Tensor fresh = value.select(2, c) - at::matmul(decayed_k.select(2, c), state);
    const Tensor kept = at::matmul(qc * gc.unsqueeze(-1).exp(), state);
    out.select(2, c).copy_(kept + at::matmul(scores, fresh));
    const Tensor last = gc.slice(-1, length - 1);
    state = state * last.unsqueeze(-1).exp() +
            at::matmul((kc * (last - gc).exp().unsqueeze(-1)).transpose(-1, -2), fresh);
  }
  return {out.reshape({b, h, chunks * length, v}), state};
}

/// Differential attention: queries and keys (B, 2 H, T, D) by pairs of heads, values
/// (B, H, T, 2 D), four vectors (D) of how much of each second head's to take off, a norm's weight.
Tensor differential_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                              const Tensors& lambdas, const Tensor& weight) {
  constexpr double kStart = 0.35550906759096927;  // 0.8 - 0.6 exp(-0.3), of the second layer
  const int64_t batch = query.size(0), pairs = value.size(1), tokens = query.size(2);
  const Tensor share =
      (lambdas[0] * lambdas[1]).sum().exp() - (lambdas[2] * lambdas[3]).sum().exp() + kStart;
  const Tensor later = at::ones({tokens, tokens}, at::kBool).triu(1);
  const Tensor scores =
      at::matmul(query / std::sqrt(static_cast<double>(query.size(3))), key.transpose(-1, -2));
  const Tensor weights =
      at::softmax(wide(scores).masked_fill(later, -std::numeric_limits<double>::infinity()), -1)
          .view({batch, pairs, 2, tokens, tokens});
  const Tensor difference = weights.select(2, 0) - share * weights.select(2, 1);
  const Tensor mixed = wide(at::matmul(difference.to(value.dtype()), value));
  const Tensor scale = (mixed.square().mean(-1, /*keepdim=*/true) + 1e-5).rsqrt();
  const Tensor normal = mixed * scale * weight * (1 - kStart);
  return normal.to(query.dtype()).transpose(1, 2).reshape({batch, tokens, -1});
}

/// DeepSeek-V3's router of tokens x (T, W): eight of the experts (E, W) of the four best of eight
/// groups, their weights; the experts' biases (E) move in place so that all have work. Also tokens
/// sorted by experts, and where each expert's begin.
std::tuple<Tensor, Tensor, Tensor> group_router(const Tensor& x, const Tensor& gate,
                                                const Tensor& bias) {
  const int64_t tokens = x.size(0), experts = gate.size(0), groups = 8, chosen = 8;
  const Tensor scores = at::sigmoid(at::mm(wide(x), wide(gate).t()));
  const Tensor wanted = scores + bias;
  const Tensor by_group =
      std::get<0>(wanted.view({tokens, groups, experts / groups}).topk(2, -1)).sum(-1);
  const Tensor best = std::get<1>(by_group.topk(4, -1, /*largest=*/true, /*sorted=*/false));
  const Tensor open = at::zeros_like(by_group).scatter_(1, best, 1).to(at::kBool);
  const Tensor every =
      open.unsqueeze(-1).expand({tokens, groups, experts / groups}).reshape({tokens, experts});
  const Tensor index =
      std::get<1>(wanted.masked_fill(every.logical_not(), -std::numeric_limits<double>::infinity())
                      .topk(chosen, -1));
  const Tensor picked = scores.gather(1, index);
  const Tensor weights = picked / (picked.sum(-1, /*keepdim=*/true) + 1e-20) * 2.5;
  const Tensor flat = index.view(-1);
  const Tensor count = at::zeros({experts}, at::kLong).scatter_add_(0, flat, at::ones_like(flat));
  const Tensor order = at::argsort(flat, /*stable=*/true, 0, /*descending=*/false);
  const Tensor mean = at::full({}, static_cast<double>(flat.size(0)) / static_cast<double>(experts),
                               bias.options());
  bias.add_((mean - count).sign(), 0.001);
  return {weights, at::div(order, chosen, "floor"), count.cumsum(0) - count};
}

/// HQQ's codes of 4 bits, two to a byte, of weights in groups (G, 64): zeros that make the error
/// sparse, by half-quadratic steps. Also scales and zeros (G, 1).
std::tuple<Tensor, Tensor, Tensor> half_quadratic(const Tensor& weights, int64_t steps) {
  constexpr double kNorm = 0.7;
  const Tensor low = weights.amin(1, /*keepdim=*/true), high = weights.amax(1, /*keepdim=*/true);
  const Tensor scale = (15 / (high - low)).clamp_max(2e4);
  Tensor zero = (-low * scale).round();
  double beta = 10;
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor codes = (weights * scale + zero).round().clamp(0, 15);
    const Tensor error = weights - (codes - zero) / scale, size = error.abs();
    const Tensor sparse = error.sign() * at::relu(size - (1 / beta) * (size + 1e-8).pow(kNorm - 1));
    zero = (codes - (weights - sparse) * scale).mean(1, /*keepdim=*/true);
    beta *= 1.01;
  }
  const Tensor codes = (weights * scale + zero).round().clamp(0, 15).to(at::kByte);
  const auto halves = codes.chunk(2, 0);
  return {halves[0].bitwise_left_shift(4).bitwise_or(halves[1]), scale.reciprocal(), zero};
}

/// QuaRot's activations x (T, W): turned by a Hadamard matrix with random signs (W), in codes of 4
/// bits with a scale for each token.
std::tuple<Tensor, Tensor> hadamard_quantise(const Tensor& x, const Tensor& signs) {
  const int64_t rows = x.size(0), width = x.size(1);
  Tensor y = wide(x) * signs;
  for (int64_t half = 1; half < width; half *= 2) {
    const auto pair = y.view({rows, width / (2 * half), 2, half}).unbind(2);
    y = at::stack({pair[0] + pair[1], pair[0] - pair[1]}, 2).view({rows, width});
  }
  y = y * (1 / std::sqrt(static_cast<double>(width)));
  const Tensor scale = (0.9 * y.abs().amax(-1, /*keepdim=*/true) / 7).clamp_min(1e-8);
  return {(y / scale).round().clamp(-8, 7).to(at::kChar), scale.to(x.dtype())};
}

/// Sophia's step of many parameters, in place, by gradients within a common norm: momenta, and
/// curvatures by the squares of sampled gradients.
void sophia_step(const Tensors& p, const Tensors& gradients, const Tensors& sampled,
                 const Tensors& momenta, const Tensors& curvatures) {
  constexpr double kRate = 3e-4, kBatch = 32, kRho = 0.04;
  Tensors norms;
  for (const Tensor& g : gradients) norms.push_back(g.norm());
  const Tensor factor = (1 / (at::stack(norms).norm() + 1e-6)).clamp_max(1);
  for (size_t i = 0; i < p.size(); ++i) {
    momenta[i].mul_(0.965).add_(gradients[i] * factor, 0.035);
    curvatures[i].mul_(0.99).addcmul_(sampled[i], sampled[i], 0.01);
    const Tensor ratio = (momenta[i].abs() / (kRho * kBatch * curvatures[i] + 1e-15)).clamp_max(1);
    if (p[i].dim() > 1) p[i].mul_(1 - kRate * 0.1);
    p[i].addcmul_(momenta[i].sign(), ratio, -kRate);
  }
}

/// An LSTM layer's gradients, written by hand, back in time: of results (T, B, H) by inputs
/// (T, B, I), gates as they were opened (T, B, 4 H), cells and results from the start on
/// (T + 1, B, H). By inputs, both matrices and bias, and the first result and cell.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> lstm_backward(
    const Tensor& gradient, const Tensor& inputs, const Tensor& gates, const Tensor& cells,
    const Tensor& results, const Tensor& in, const Tensor& again) {
  const int64_t steps = gradient.size(0);
  const Tensor by_gates = at::empty_like(gates);
  Tensor by_result = at::zeros_like(gradient.select(0, 0)), by_cell = at::zeros_like(by_result);
  for (int64_t t = steps - 1; t >= 0; --t) {
    const auto gate = gates.select(0, t).chunk(4, -1);
    const Tensor &i = gate[0], &f = gate[1], &g = gate[2], &o = gate[3];
    const Tensor bent = cells.select(0, t + 1).tanh();
    const Tensor all = gradient.select(0, t) + by_result;
    by_cell = by_cell + all * o * (1 - bent * bent);
    const Tensor by_i = by_cell * g * i * (1 - i),
                 by_f = by_cell * cells.select(0, t) * f * (1 - f),
                 by_g = by_cell * i * (1 - g * g), by_o = all * bent * o * (1 - o);
    const Tensor now = at::cat({by_i, by_f, by_g, by_o}, -1);
    by_gates.select(0, t).copy_(now);
    by_result = at::mm(now, again);
    by_cell = by_cell * f;
  }
  const Tensor flat = by_gates.flatten(0, 1);
  const Tensor by_in = at::mm(flat.t(), inputs.flatten(0, 1)),
               by_again = at::mm(flat.t(), results.slice(0, 0, -1).flatten(0, 1));
  return {at::matmul(by_gates, in), by_in, by_again, flat.sum(0), by_result, by_cell};
}

Tensors parameters_of_block(Draw& draw, int64_t width, double scale) {
  Tensors out;
  const std::vector<std::vector<int64_t>> shapes{
      {width}, {width}, {3 * width, width}, {3 * width}, {width, width},     {width},
      {width}, {width}, {4 * width, width}, {4 * width}, {width, 4 * width}, {width}};
  for (const std::vector<int64_t>& sizes : shapes) out.push_back(draw.normal(sizes) * scale);
  return out;
}

Instance cross_network_case(const Options& o) {
  const int64_t batch = o.integer("batch"), fields = o.integer("fields"),
                width = o.integer("width"), rank = o.integer("rank"), values = o.integer("values"),
                numbers = 13, all = numbers + fields * width, deep = 4 * rank;
  Draw draw(o);
  const auto matrix = [&](int64_t out, int64_t of) {
    return draw.normal({out, of}) / std::sqrt(static_cast<double>(of));
  };
  const auto vector = [&](int64_t size) { return 0.1 * draw.normal({size}); };
  Tensors w;
  for (int layer = 0; layer < 3; ++layer) {
    w.push_back(matrix(rank, all));
    w.push_back(matrix(all, rank));
    w.push_back(vector(all));
  }
  for (const auto& [out, of] :
       {std::pair{deep, all}, std::pair{deep / 2, deep}, std::pair{int64_t{1}, all + deep / 2}}) {
    w.push_back(matrix(out, of));
    w.push_back(vector(out));
  }
  const Tensor chosen = draw.integers({batch, fields}, values),
               starts = at::arange(fields, at::kLong) * values;
  const Tensor table = draw.normal({fields * values, width});
  const int64_t weights = 6 * rank * all + deep * all + deep * deep / 2 + all + deep / 2;
  return bounded(
      instance_of(cross_network, chosen, 3 * draw.normal({batch, numbers}), starts, table, w),
      8 * (chosen.numel() + fields) +
          4 * (batch * (numbers + 1) + distinct(chosen + starts) * width + weights + 3 * all +
               3 * deep / 2 + 1),
      batch * (2 * weights + 9 * all + numbers * kFunction + kFunction));
}

Instance equivariant_layer_case(const Options& o) {
  const int64_t nodes = o.integer("nodes"), edges = o.integer("edges"), c = o.integer("width");
  Draw draw(o);
  const auto matrix = [&](int64_t out, int64_t of) {
    return draw.normal({out, of}) / std::sqrt(static_cast<double>(of));
  };
  const auto vector = [&](int64_t size) { return 0.1 * draw.normal({size}); };
  const Tensors w{matrix(c, 2 * c + 1),
                  vector(c),
                  matrix(c, c),
                  vector(c),
                  matrix(1, c),
                  vector(1),
                  matrix(c, c),
                  vector(c),
                  0.1 * matrix(1, c),
                  matrix(c, 2 * c),
                  vector(c),
                  matrix(c, c),
                  vector(c)};
  const int64_t of_edge = (2 * c + 1) * c + 2 * c * c + 2 * c, of_node = 3 * c * c;
  return bounded(instance_of(equivariant_layer, draw.normal({nodes, c}), draw.normal({nodes, 3}),
                             draw.integers({2, edges}, nodes), w),
                 4 * (2 * nodes * (c + 3) + of_edge + of_node + 5 * c + 1) + 16 * edges,
                 edges * (2 * of_edge + 3 * c * (kFunction + 2) + 4 * c + 24 + 2 * kFunction) +
                     nodes * (2 * of_node + c * (kFunction + 4)));
}

Instance gated_delta_chunks_case(const Options& o) {
  const int64_t batch = o.integer("batch"), heads = o.integer("heads"),
                length = o.integer("length"), tokens = o.integer("chunks") * length,
                width = o.integer("width"), value = o.integer("value");
  Draw draw(o);
  const auto made = [&](int64_t columns) { return draw.normal({batch, heads, tokens, columns}); };
  const Tensor queries = made(width), keys = made(width), values = made(value);
  const Tensor decays = draw.uniform({batch, heads, tokens}, -0.2, 0),
               rates = draw.uniform({batch, heads, tokens});
  const int64_t rows = batch * heads * tokens;
  return bounded(instance_of(gated_delta_chunks, queries, keys, values, decays, rates, length),
                 4 * (rows * (2 * width + 2 * value + 2) + batch * heads * width * value),
                 rows * (length * (6 * width + 4 * value + kFunction + 3) +
                         2 * length * length / 3 + 6 * width * value + 10 * width + 3 * kFunction));
}

Instance differential_attention_case(const Options& o) {
  const int64_t batch = o.integer("batch"), pairs = o.integer("pairs"),
                tokens = o.integer("tokens"), width = o.integer("width"),
                all = batch * pairs * tokens * 2 * width;
  Draw draw(o);
  const auto heads = [&] { return draw.normal({batch, 2 * pairs, tokens, width}, at::kBFloat16); };
  const Tensor query = heads(), key = heads(),
               value = draw.normal({batch, pairs, tokens, 2 * width}, at::kBFloat16);
  Tensors lambdas;
  for (int i = 0; i < 4; ++i) lambdas.push_back(0.1 * draw.normal({width}));
  return bounded(
      instance_of(differential_attention, query, key, value, lambdas,
                  draw.uniform({2 * width}, 0.5, 1.5)),
      2 * 4 * all + 4 * 6 * width,
      // of the scores, only those of tokens before
      batch * pairs * tokens * (tokens + 1) / 2 * (4 * width + 2 * kFunction + 2 + 4 * width) +
          6 * all);
}

Instance group_router_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), width = o.integer("width"),
                experts = 8 * o.integer("of_group");
  Draw draw(o);
  const Tensor x = draw.normal({tokens, width}, at::kBFloat16);
  const Tensor gate =
      (draw.normal({experts, width}) / std::sqrt(static_cast<double>(width))).to(at::kBFloat16);
  return bounded(updating_instance_of(group_router, x, gate, 0.01 * draw.normal({experts})),
                 2 * (x.numel() + gate.numel()) + 8 * experts + tokens * 8 * (4 + 8) + 8 * experts,
                 tokens * experts * (2 * width + kFunction + 4));
}

Instance half_quadratic_case(const Options& o) {
  const int64_t groups = 2 * o.integer("pairs"), steps = o.integer("steps"), all = 64 * groups;
  Draw draw(o);
  return bounded(instance_of(half_quadratic, 0.02 * draw.normal({groups, 64}), steps),
                 4 * all + all / 2 + 8 * groups, all * (8 + steps * (2 * kFunction + 16)));
}

Instance hadamard_quantise_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), log_width = o.integer("log_width"),
                width = int64_t{1} << log_width;
  Draw draw(o);
  const Tensor signs = draw.integers({width}, 2).to(at::kFloat) * 2 - 1;
  return bounded(instance_of(hadamard_quantise, draw.normal({tokens, width}, at::kBFloat16), signs),
                 tokens * (3 * width + 2) + 4 * width, tokens * width * (log_width + 6));
}

Instance sophia_step_case(const Options& o) {
  const int64_t width = o.integer("width");
  Draw draw(o);
  const Tensors p = parameters_of_block(draw, width, 0.1),
                gradients = parameters_of_block(draw, width, 0.01),
                sampled = parameters_of_block(draw, width, 0.01),
                momenta = parameters_of_block(draw, width, 0.001);
  Tensors curvatures = parameters_of_block(draw, width, 0.01);
  for (Tensor& h : curvatures) h = h.square();
  const int64_t all = 12 * width * width + 13 * width;
  return bounded(updating_instance_of(sophia_step, p, gradients, sampled, momenta, curvatures),
                 4 * 8 * all, 19 * all);
}

Instance lstm_backward_case(const Options& o) {
  const int64_t steps = o.integer("steps"), batch = o.integer("batch"),
                inputs = o.integer("inputs"), hidden = o.integer("hidden");
  Draw draw(o);
  const Tensor gates = at::sigmoid(draw.normal({steps, batch, 4 * hidden}));
  gates.slice(2, 2 * hidden, 3 * hidden).mul_(2).sub_(1);
  const auto from_start = [&] { return draw.normal({steps + 1, batch, hidden}); };
  const Tensor cells = from_start(), results = from_start().tanh();
  const auto matrix = [&](int64_t of) {
    return draw.normal({4 * hidden, of}) / std::sqrt(static_cast<double>(of));
  };
  const int64_t rows = steps * batch;
  return bounded(instance_of(lstm_backward, draw.normal({steps, batch, hidden}),
                             draw.normal({steps, batch, inputs}), gates, cells, results,
                             matrix(inputs), matrix(hidden)),
                 4 * (rows * (7 * hidden + 2 * inputs) + 4 * batch * hidden +
                      8 * hidden * (inputs + hidden) + 4 * hidden),
                 rows * hidden * (16 * (inputs + hidden) + kFunction + 30));
}

}  // namespace

std::vector<Workload> sojourner_cases() {
  return {
      {"cross_network_f32",
       "DCN-v2's crossings of low rank beside a deep part",
       {{"batch", "512", "37", "samples"},
        {"fields", "26", "5", "of a sample"},
        {"width", "16", "3", "of a field's row"},
        {"rank", "64", "6", "of a crossing"},
        {"values", "16384", "53", "of a field"}},
       cross_network_case,
       kSums},
      {"equivariant_layer_f32",
       "an equivariant layer over edges of points in space",
       {{"nodes", "512", "37", "points"},
        {"edges", "6144", "203", "edges"},
        {"width", "64", "11", "features"}},
       equivariant_layer_case,
       kSums},
      {"gated_delta_chunks_f32",
       "the gated delta rule, by chunks",
       {{"batch", "1", "2", "sequences"},
        {"heads", "8", "3", "heads"},
        {"chunks", "4", "3", "of a sequence"},
        {"length", "64", "7", "of a chunk"},
        {"width", "64", "11", "of a head's keys"},
        {"value", "64", "5", "of a head's values"}},
       gated_delta_chunks_case,
       10 * kSums},
      {"differential_attention_bf16",
       "attention by differences of two heads' weights",
       {{"batch", "1", "2", "sequences"},
        {"pairs", "4", "3", "pairs of heads"},
        {"tokens", "256", "19", "of a sequence"},
        {"width", "64", "11", "of a head"}},
       differential_attention_case,
       2 * kRounded},
      {"group_router_bf16",
       "DeepSeek-V3's router of tokens to experts by groups, with biases in place",
       {{"tokens", "64", "13", "tokens"},
        {"width", "256", "21", "of a token"},
        {"of_group", "8", "3", "experts of a group"}},
       group_router_case,
       kSums},
      {"half_quadratic_f32",
       "HQQ's codes of weights, two to a byte",
       {{"pairs", "4096", "19", "pairs of groups of 64"}, {"steps", "10", "3", "steps"}},
       half_quadratic_case,
       // a code that is rounded otherwise, in a byte's upper half
       1.01 / 15},
      {"hadamard_quantise_bf16",
       "activations turned by a Hadamard matrix, in codes of 4 bits",
       {{"tokens", "256", "13", "tokens"},
        {"log_width", "12", "5", "logarithm of a token's width"}},
       hadamard_quantise_case},
      {"sophia_step_f32",
       "Sophia's step of a small block's parameters, in place",
       {{"width", "48", "13", "of a token"}},
       sophia_step_case,
       kSums},
      {"lstm_backward_f32",
       "an LSTM layer's gradients, back in time",
       {{"steps", "24", "5", "steps"},
        {"batch", "16", "7", "sequences"},
        {"inputs", "64", "11", "features"},
        {"hidden", "96", "13", "hidden"}},
       lstm_backward_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
