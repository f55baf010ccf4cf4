#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <bit>
#include <string>

#include "systems/sequence/exchange.h"

namespace graft::systems {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What a call has beside tensors, for the time until its backward.
struct Call : torch::CustomClassHolder {
  Call(const Exchange& exchange, Group& group, const SequenceOptions& options)
      : exchange(exchange), group(group), options(options) {}
  const Exchange& exchange;
  Group& group;
  SequenceOptions options;
};

struct Function : torch::autograd::Function<Function> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const c10::intrusive_ptr<Call>& call) {
    PartialAttention sums(q, call->options);
    call->exchange.for_each_block(k, v, call->group, [&](int owner, const at::Tensor& block) {
      sums.add(block, piece_of(call->group.rank(), owner, q.size(2), call->options));
    });
    const at::Tensor out = sums.out();
    context->save_for_backward({q, k, v, out, sums.logsumexp()});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto call =
        c10::static_intrusive_pointer_cast<Call>(context->saved_data["call"].toCapsule());
    TORCH_CHECK(!at::GradMode::is_enabled(), call->exchange.name,
                ": came a backward with create_graph; it can be differentiated once only");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const Gradients out = call->exchange.backward({q, saved[3], saved[4], grads[0].contiguous()}, k,
                                                  v, call->group, call->options);
    return {out.q.to(q.scalar_type()), out.k.to(k.scalar_type()), out.v.to(v.scalar_type()), {}};
  }
};

std::string form(const at::Tensor& x) {
  return x.defined() ? c10::str(x.sizes(), ' ', x.scalar_type(), " on ", x.device()) : "undefined";
}

/// What is wrong with this process's own arguments, or nothing.
std::string problem_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const Group& group, const SequenceOptions& options) {
  for (const at::Tensor* x : {&q, &k, &v})
    if (!x->defined() || x->dim() != 4 || !x->device().is_cpu() || x->layout() != at::kStrided ||
        x->numel() == 0)
      return "dense tensors (batch, heads, local length, width) of the CPU that are not empty";
  const at::ScalarType type = q.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16 && type != at::kHalf)
    return "fp32, fp64, bf16 or fp16; convert with .to()";
  if (k.scalar_type() != type || v.scalar_type() != type)
    return "one dtype; convert with .to(q.dtype())";
  if (k.sizes() != v.sizes()) return "keys and values of one size";
  if (k.size(0) != q.size(0) || k.size(2) != q.size(2) || k.size(3) != q.size(3))
    return "queries and keys of one batch, local length and width";
  if (q.size(1) % k.size(1) != 0) return "heads of keys that divide the heads of queries";
  if (options.causal && options.split == Split::ZigZag && group.size() > 1 && q.size(2) % 2 != 0)
    return "an even local length, two chunks of a zig-zag split: pad the sequence to a multiple of "
           "two chunks per process, or split it contiguously";
  return "";
}

/// Tells every process what the others came with, so that all of them throw where one does not fit.
void agree(const Exchange& exchange, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
           Group& group, const SequenceOptions& options) {
  const std::string problem = problem_of(q, k, v, group, options);
  constexpr int64_t kCount = 11;
  std::array<int64_t, kCount> own{};
  if (problem.empty())
    own = {
        1,
        q.size(0),
        q.size(1),
        k.size(1),
        q.size(2),
        q.size(3),
        static_cast<int64_t>(q.scalar_type()),
        at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad()),
        std::bit_cast<int64_t>(options.scale.value_or(0)),
        options.causal + 2 * static_cast<int>(options.split),
        &exchange == &kRing};
  const at::Tensor all = group.all_gather(at::tensor(own, at::kLong));
  TORCH_CHECK_VALUE(problem.empty(), exchange.name, ": came q ", form(q), ", k ", form(k), ", v ",
                    form(v), "; expected ", problem);
  const auto values = all.accessor<int64_t, 2>();
  const auto text = [&](int rank) {
    const auto x = values[rank];
    return c10::str("q of (", x[1], ", ", x[2], ", ", x[4], ", ", x[5], ") ",
                    static_cast<at::ScalarType>(x[6]), ", ", x[3], " heads of keys",
                    x[7] ? ", requires grad" : "", x[9] % 2 ? ", causal" : "",
                    x[9] / 2 ? ", contiguous" : ", zig-zag",
                    x[8] ? c10::str(", scale ", std::bit_cast<double>(x[8])) : "",
                    x[10] ? ", ring_attention" : ", gathered_attention");
  };
  for (int rank = 0; rank < group.size(); ++rank) {
    TORCH_CHECK_VALUE(values[rank][0] == 1, exchange.name, ": process ", rank,
                      " refused its arguments; its own error says why");
    TORCH_CHECK_VALUE(all[rank].equal(all[group.rank()]), exchange.name, ": process ", group.rank(),
                      " came with ", text(group.rank()), " and process ", rank, " with ",
                      text(rank), "; expected the same on all. Was every sequence split evenly?");
  }
}

at::Tensor attend(const Exchange& exchange, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v, Group& group, const SequenceOptions& options) {
  agree(exchange, q, k, v, group, options);
  // The kernels read rows of whole vectors; keys and values are copied into a block anyway.
  return Function::apply(q.stride(3) == 1 ? q : q.contiguous(), k, v,
                         c10::make_intrusive<Call>(exchange, group, options));
}

}  // namespace

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          Group& group, const SequenceOptions& options) {
  return attend(kRing, q, k, v, group, options);
}

at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              Group& group, const SequenceOptions& options) {
  return attend(kGathered, q, k, v, group, options);
}

}  // namespace graft::systems
