#include "workloads/decoder/session.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "workloads/decoder/parts.h"

namespace graft::workloads::decoder {

namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// Keys are read up to the next multiple of so many positions, so that few layouts occur.
constexpr int64_t kKeysStep = 256;
/// Tokens of a prompt that are run at a time.
constexpr int64_t kPromptPart = 256;

/// Every tensor of a layer, there or not.
template <class LayerLike, class Fn>
void each_tensor(LayerLike& layer, Fn fn) {
  for (auto* w : layer.weights())
    fn(w->values), fn(w->scale), fn(w->zero), fn(w->order), fn(w->bias);
  fn(layer.input_norm), fn(layer.post_norm);
}

/// Which tensors a layer has, and of what type: what layer_step() branches on.
std::string form_of(const Layer& layer) {
  std::string form;
  each_tensor(layer, [&](const Tensor& t) {
    form += t.defined() ? static_cast<char>('A' + static_cast<int>(t.scalar_type())) : '-';
  });
  return form;
}

[[noreturn]] void refuse_tokens(const std::string& what) {
  throw std::invalid_argument("Session: " + what);
}

void check_new_ids(const Tensor& ids, int64_t vocabulary, int64_t room) {
  std::ostringstream came;
  came << "ids are " << ids.toString() << ' ' << ids.sizes();
  if (ids.dim() != 1 || ids.scalar_type() != at::kLong || ids.numel() == 0)
    refuse_tokens(came.str() + "; expected int64 [length] of at least one");
  if (ids.numel() > room)
    refuse_tokens(came.str() + "; there is room for " + std::to_string(room) +
                  " more (Session's capacity, which the model's positions bound)");
  check_in_vocabulary("Session: " + came.str(), ids, vocabulary);
}

}  // namespace

Tensors Layer::tensors() const {
  Tensors all;
  each_tensor(*this, [&](const Tensor& t) {
    if (t.defined()) all.push_back(t);
  });
  return all;
}

Layer Layer::with(const Tensors& tensors) const {
  Layer made = *this;
  size_t next = 0;
  each_tensor(made, [&](Tensor& t) {
    if (t.defined()) t = tensors.at(next++);
  });
  return made;
}

int64_t Layer::bytes() const {
  int64_t sum = 0;
  for (const Tensor& t : tensors()) sum += static_cast<int64_t>(t.nbytes());
  return sum;
}

Layer layer_of(const LayerWeights& w) {
  return {dense_weight(w.q, w.q_bias),
          dense_weight(w.k, w.k_bias),
          dense_weight(w.v, w.v_bias),
          dense_weight(w.o),
          dense_weight(w.gate),
          dense_weight(w.up),
          dense_weight(w.down),
          w.input_norm,
          w.post_norm};
}

int64_t Generator::bytes_per_token() const {
  int64_t sum = static_cast<int64_t>(norm.nbytes()) + head.bytes();
  for (const Layer& layer : layers) sum += layer.bytes();
  return sum;
}

Tensor layer_step(const Config& c, const Layer& w, const Tensor& hidden, const Tensor& positions,
                  const Tensor& cos, const Tensor& sin, const Tensor& keys, const Tensor& values) {
  const int64_t tokens = hidden.size(0), times = c.heads / c.kv_heads, length = keys.size(1);
  const auto heads = [&](const Tensor& x) {
    return x.view({tokens, -1, c.head_dim}).transpose(0, 1);
  };
  const Tensor turn_cos = cos.index_select(0, positions), turn_sin = sin.index_select(0, positions);
  const auto turned = [&](const Tensor& x) { return rotate(heads(x), turn_cos, turn_sin); };

  const Tensor x = rms_norm(hidden, w.input_norm, c.eps);
  const Tensor q = turned(linear(x, w.q));
  keys.index_copy_(1, positions, turned(linear(x, w.k)));
  values.index_copy_(1, positions, heads(linear(x, w.v)));

  // Query heads that read the same keys stand side by side.
  const Tensor queries = q.reshape({c.kv_heads, times * tokens, c.head_dim});
  const double scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  const Tensor scores = at::matmul(queries, keys.transpose(1, 2)) * scale;
  const Tensor sees = at::arange(length, positions.options()) <= positions.unsqueeze(1);
  const Tensor seen = at::where(sees, scores.view({c.kv_heads, times, tokens, length}),
                                -std::numeric_limits<double>::infinity());
  const Tensor shares = at::softmax(seen, -1).view({c.kv_heads, times * tokens, length});
  const Tensor context = at::matmul(shares, values)
                             .view({c.heads, tokens, c.head_dim})
                             .transpose(0, 1)
                             .reshape({tokens, c.heads * c.head_dim});
  const Tensor attended = hidden + linear(context, w.o);

  const Tensor y = rms_norm(attended, w.post_norm, c.eps);
  return attended + linear(at::silu(linear(y, w.gate)) * linear(y, w.up), w.down);
}

Session::Session(std::shared_ptr<const Generator> model, int64_t capacity, bool compiled)
    : model_(std::move(model)), capacity_(capacity) {
  const Config& c = model_->config;
  if (capacity < 1 || capacity > c.positions)
    refuse_tokens("a capacity of " + std::to_string(capacity) + "; expected 1 to the model's " +
                  std::to_string(c.positions) + " positions");
  const at::ScalarType type = model_->embedding.scalar_type();
  std::tie(cos_, sin_) = rotations(c, capacity, type);
  std::map<std::string, size_t> known;
  for (const Layer& layer : model_->layers) {
    keys_.push_back(at::zeros({c.kv_heads, capacity, c.head_dim}, type));
    values_.push_back(at::zeros({c.kv_heads, capacity, c.head_dim}, type));
    if (!compiled) continue;
    const auto [found, is_new] = known.emplace(form_of(layer), steps_.size());
    step_of_.push_back(found->second);
    if (!is_new) continue;
    graft::Options options;
    options.name = "layer";
    steps_.emplace_back(
        [config = c, form = layer](const Tensor& hidden, const Tensor& positions, const Tensor& cos,
                                   const Tensor& sin, const Tensor& keys, const Tensor& values,
                                   const Tensors& weights) {
          return layer_step(config, form.with(weights), hidden, positions, cos, sin, keys, values);
        },
        options);
  }
  if (!compiled) return;
  graft::Options options;
  options.name = "head";
  head_.emplace(
      [model = model_](const Tensor& hidden) {
        return linear(rms_norm(hidden, model->norm, model->config.eps), model->head);
      },
      options);
}

Tensor Session::run(const Tensor& ids) {
  const Config& c = model_->config;
  const int64_t tokens = ids.size(0), end = length_ + tokens;
  const int64_t seen = std::min(capacity_, (end + kKeysStep - 1) / kKeysStep * kKeysStep);
  const bool compiled = head_ && tokens == 1;
  const Tensor positions = at::arange(length_, end, ids.options());
  Tensor hidden = at::embedding(model_->embedding, ids);
  for (size_t k = 0; k < model_->layers.size(); ++k) {
    const Layer& layer = model_->layers[k];
    const Tensor keys = keys_[k].slice(1, 0, seen), values = values_[k].slice(1, 0, seen);
    hidden = compiled
                 ? steps_[step_of_[k]](hidden, positions, cos_, sin_, keys, values, layer.tensors())
                 : layer_step(c, layer, hidden, positions, cos_, sin_, keys, values);
  }
  length_ = end;
  const Tensor last = hidden.slice(0, tokens - 1);
  return compiled ? (*head_)(last) : linear(rms_norm(last, model_->norm, c.eps), model_->head);
}

Tensor Session::feed(const Tensor& ids) {
  check_new_ids(ids, model_->config.vocabulary, capacity_ - length_);
  const at::NoGradGuard no_grad;
  Tensor logits;
  for (int64_t at = 0; at < ids.size(0); at += kPromptPart)
    logits = run(ids.slice(0, at, std::min(at + kPromptPart, ids.size(0))));
  return logits[0];
}

void Session::clear() {
  length_ = 0;
  // What is not finite would show through the mask: zero times it is NaN.
  for (const Tensor& t : keys_) t.zero_();
  for (const Tensor& t : values_) t.zero_();
}

void Session::wait() const {
  for (const Step& step : steps_) step.wait();
  if (head_) head_->wait();
}

std::map<std::string, Report> Session::reports() const {
  std::map<std::string, Report> out;
  for (size_t k = 0; k < steps_.size(); ++k)
    out.emplace(steps_.size() == 1 ? "layer" : "layer form " + std::to_string(k + 1),
                steps_[k].report());
  if (head_) out.emplace("head", head_->report());
  return out;
}

}  // namespace graft::workloads::decoder
