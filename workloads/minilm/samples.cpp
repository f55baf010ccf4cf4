#include "workloads/minilm/samples.h"

#include <ATen/ops/linear.h>

#include <algorithm>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace graft::workloads::minilm {
namespace {

using at::Tensor;

// What one region was given, and how often it was called.
template <class Signature>
struct Seen;
template <class R, class... Args>
struct Seen<R(Args...)> {
  struct Form {
    std::tuple<std::decay_t<Args>...> args;  // of the first call
    int64_t calls = 0;
  };
  std::vector<Form> forms;  // one for each size of the first argument

  void watch(std::function<R(Args...)>& function) {
    function = [this, inner = function](Args... given) {
      const std::tuple<std::decay_t<Args>...> args(given...);
      auto form = std::find_if(forms.begin(), forms.end(), [&](const Form& known) {
        return std::get<0>(known.args).sizes() == std::get<0>(args).sizes();
      });
      if (form == forms.end()) form = forms.insert(form, {args, 0});
      ++form->calls;
      return inner(given...);
    };
  }
};

// The region on those arguments. A number at their end stays inside: it is no input.
template <class F, class... Args>
Instance instance(F function, const std::tuple<Args...>& args) {
  constexpr size_t kLast = sizeof...(Args) - 1;
  if constexpr (std::is_same_v<std::tuple_element_t<kLast, std::tuple<Args...>>, double>) {
    const auto inner = [function, number = std::get<kLast>(args)](const auto&... tensors) {
      return function(tensors..., number);
    };
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return instance_of(inner, std::get<I>(args)...);
    }(std::make_index_sequence<kLast>());
  } else {
    return std::apply([&](const Args&... arg) { return instance_of(function, arg...); }, args);
  }
}

}  // namespace

std::vector<RegionSample> region_samples(const MiniLM& model, const Tensor& ids, const Tensor& mask,
                                         Cut cut, Attention attention) {
  Regions regions = Regions::eager(attention);
  Seen<decltype(minilm::embed_norm)> embed;
  Seen<decltype(minilm::linear_qkv)> qkv;
  Seen<decltype(minilm::masked_softmax)> softmax;
  Seen<decltype(minilm::linear_residual_norm)> norm;
  Seen<decltype(minilm::linear_gelu)> wide;
  Seen<decltype(minilm::pool_normalize)> pool;
  embed.watch(regions.embed_norm);
  qkv.watch(regions.linear_qkv);
  softmax.watch(regions.masked_softmax);
  norm.watch(regions.linear_residual_norm);
  wide.watch(regions.linear_gelu);
  pool.watch(regions.pool_normalize);
  model.encode(ids, mask, regions);

  std::vector<RegionSample> out;
  const auto add = [&](const char* name, auto* function, const auto& seen) {
    for (const auto& form : seen.forms) {
      // Two forms differ in how wide the input is.
      const auto width = std::get<0>(form.args).size(-1);
      const std::string suffix = seen.forms.size() > 1 ? ' ' + std::to_string(width) : "";
      out.push_back({name + suffix, form.calls, instance(function, form.args)});
    }
  };
  add("embed_norm", minilm::embed_norm, embed);
  if (cut == Cut::Blocks) add("linear_qkv", minilm::linear_qkv, qkv);
  add("masked_softmax", minilm::masked_softmax, softmax);
  if (cut == Cut::Blocks) {
    add("linear_residual_norm", minilm::linear_residual_norm, norm);
    add("linear_gelu", minilm::linear_gelu, wide);
  } else {
    const auto& [x, weight, bias, residual, gamma, beta, eps] = norm.forms[0].args;
    int64_t calls = 0;
    for (const auto& form : norm.forms) calls += form.calls;
    out.push_back({"residual_norm", calls,
                   instance(minilm::residual_norm,
                            std::tuple(at::linear(x, weight, bias), residual, gamma, beta, eps))});
    const auto& [wide_x, wide_weight, wide_bias] = wide.forms[0].args;
    out.push_back({"gelu", wide.forms[0].calls,
                   instance(minilm::gelu, std::tuple(at::linear(wide_x, wide_weight, wide_bias)))});
  }
  add("pool_normalize", minilm::pool_normalize, pool);
  return out;
}

}  // namespace graft::workloads::minilm
