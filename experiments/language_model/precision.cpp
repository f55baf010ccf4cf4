// What precision does: sums, and the dtypes of autocast.
#include <ATen/ATen.h>

#include <functional>
#include <utility>

#include "experiments/frame/tables.h"
#include "experiments/language_model/parts.h"
#include "lab/words.h"
#include "workloads/training/autocast.h"

namespace graft::experiments::language_model {
namespace {

using at::Tensor;

/// `value` added a thousand times to a sum of that dtype.
double added(at::ScalarType sum_type, at::ScalarType value_type, bool widen) {
  Tensor sum = at::zeros({}, sum_type);
  const Tensor value = at::full({}, 0.01, value_type);
  for (int i = 0; i < 1000; ++i) sum += widen ? value.to(at::kFloat) : value;
  return sum.item<double>();
}

std::string name_of(const Tensor& t) {
  return c10::toString(t.scalar_type());
}

}  // namespace

lab::Section accumulation() {
  lab::Section out{"accumulation", "Adding 0.01 a thousand times",
                   "10 would be right. A narrow sum loses what a narrow value does not."};
  out.table = lab::Table(columns({"sum", "value"}, {"result", "off by"}));
  const auto row = [&](const char* sum, const char* value, double result) {
    out.table.row({sum, value, lab::number(result, 6), lab::number(std::abs(result - 10), 2)});
  };
  row("fp32", "fp32", added(at::kFloat, at::kFloat, false));
  row("fp16", "fp16", added(at::kHalf, at::kHalf, false));
  row("fp32", "fp16", added(at::kFloat, at::kHalf, false));
  row("fp32", "fp16, converted first", added(at::kFloat, at::kHalf, true));
  row("bf16", "bf16", added(at::kBFloat16, at::kBFloat16, false));
  row("fp32", "bf16", added(at::kFloat, at::kBFloat16, false));
  return out;
}

lab::Section autocast_dtypes() {
  lab::Section out{"autocast", "The dtypes that autocast gives each part",
                   "A layer of fp32 parameters under autocast on this processor, forward and "
                   "backward."};
  const std::vector<std::pair<std::string, at::ScalarType>> kinds{
      {"none", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}};
  std::vector<std::string> headers;
  for (const auto& [name, dtype] : kinds)
    headers.push_back(dtype == at::kFloat ? "without" : name + " autocast");
  out.table = lab::Table(columns({"part"}, headers));
  std::vector<std::pair<std::string, std::vector<lab::Cell>>> rows;
  for (const auto& [name, dtype] : kinds) {
    const at::AutoGradMode grad(true);
    const auto parameter = [](at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); };
    const Tensor x = at::randn({4, 8}), weight = parameter({8, 8}), gamma = parameter({8}),
                 classes = at::zeros({4}, at::kLong);
    std::vector<std::pair<std::string, std::string>> seen{{"parameters", name_of(weight)},
                                                          {"input", name_of(x)}};
    const auto see = [&](const char* part, const Tensor& t) {
      seen.emplace_back(part, name_of(t));
    };
    Tensor loss;
    {
      std::unique_ptr<workloads::Autocast> autocast;
      if (dtype != at::kFloat) autocast = std::make_unique<workloads::Autocast>(dtype);
      const Tensor linear = at::linear(x, weight);
      see("linear layer", linear);
      const Tensor normed = at::layer_norm(linear, {8}, gamma);
      see("layer norm", normed);
      see("GELU of a linear layer", at::gelu(linear, "tanh"));
      const Tensor scores = at::matmul(normed, normed.transpose(0, 1));
      see("attention's scores", scores);
      const Tensor weights = at::softmax(scores, -1);
      see("softmax", weights);
      const Tensor mixed = at::matmul(weights, normed);
      see("softmax times values", mixed);
      see("residual (with the fp32 input)", x + mixed);
      const Tensor logits = at::linear(x + mixed, weight);
      see("logits", logits);
      loss = at::cross_entropy_loss(logits, classes);
      see("loss", loss);
    }
    loss.backward();
    see("gradient of the weight", weight.grad());
    see("gradient of the norm's weight", gamma.grad());
    for (size_t i = 0; i < seen.size(); ++i) {
      if (rows.size() <= i) rows.push_back({seen[i].first, {seen[i].first}});
      rows[i].second.emplace_back(seen[i].second);
    }
  }
  for (auto& [part, cells] : rows) out.table.row(std::move(cells));
  return out;
}

}  // namespace graft::experiments::language_model
