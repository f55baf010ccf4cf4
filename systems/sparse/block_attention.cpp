// Block by block: the keys that a block of queries reads are gathered, and attention over them is
// dense. One thread does a block of queries, so that its scores stay in its cache.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "systems/sparse/block_mask.h"

namespace graft::systems {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Neighbouring kept blocks of a row: keys from `begin` on.
struct Run {
  int64_t begin, count;
};
struct Row {
  std::vector<Run> runs;
  int64_t columns = 0;
  std::vector<std::pair<int64_t, int64_t>> partial;  ///< first key, and its gathered column
};

/// A mask for one call, kept for its backward.
struct Plan : torch::CustomClassHolder {
  Plan(const BlockMask& m, double factor) : mask(m), scale(factor) {
    const Tensor partial = mask.within ? mask.partial : at::zeros({1, 1, 1, 1}, at::kBool);
    batch = std::max(mask.keep.size(0), partial.size(0));
    heads = std::max(mask.keep.size(1), partial.size(1));
    blocks = mask.keep.size(2);
    const int64_t columns = mask.keep.size(3);
    const auto spread = [&](const Tensor& t) {
      return t.expand({batch, heads, blocks, columns}).contiguous();
    };
    const Tensor kept = spread(mask.keep), cut = spread(partial);
    const bool *keep = kept.const_data_ptr<bool>(), *is_cut = cut.const_data_ptr<bool>();
    rows.resize(static_cast<size_t>(batch * heads * blocks));
    for (Row& row : rows) {
      for (int64_t j = 0; j < columns; ++j, ++keep, ++is_cut)
        if (*keep) add(row, j * mask.block, *is_cut);
      widest = std::max(widest, row.columns);
    }
  }

  const Row& row(int64_t b, int64_t h, int64_t block) const {
    b = batch == 1 ? 0 : b, h = heads == 1 ? 0 : h;
    return rows[static_cast<size_t>((b * heads + h) * blocks + block)];
  }

  BlockMask mask;
  double scale;
  int64_t batch, heads, blocks, widest = 0;
  std::vector<Row> rows;

 private:
  void add(Row& row, int64_t begin, bool is_partial) const {
    const int64_t count = std::min(mask.block, mask.keys - begin);
    if (is_partial) row.partial.emplace_back(begin, row.columns);
    if (!row.runs.empty() && row.runs.back().begin + row.runs.back().count == begin)
      row.runs.back().count += count;
    else
      row.runs.push_back({begin, count});
    row.columns += count;
  }
};

at::ScalarType compute_type(const Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Does `count` items, dealt out to threads like cards: under a causal mask later blocks cost more.
/// `worker()` makes a thread's function of an item, with its scratch.
template <class Worker>
void deal(int64_t count, const Worker& worker) {
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), count);
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    // Modes belong to threads: of the caller's, none reaches ATen's workers.
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto work = worker();
    for (int64_t t = begin; t < end; ++t)
      for (int64_t item = t; item < count; item += threads) work(item);
  });
}

/// Scratch of a thread, and the steps that forward and backward share.
struct Scratch {
  Scratch(const Plan& p, const Tensor& q, const Tensor& v)
      : plan(p),
        type(compute_type(q)),
        scores_(at::empty({p.mask.block * p.widest}, type)),
        keys_(at::empty({p.widest * q.size(3)}, type)),
        values_(at::empty({p.widest * v.size(3)}, type)) {}

  Tensor keys(const Row& row, const Tensor& source) const { return gather(row, source, keys_); }
  Tensor values(const Row& row, const Tensor& source) const { return gather(row, source, values_); }

  /// The scores that count, -inf elsewhere.
  Tensor scores(const Row& row, const Tensor& q, const Tensor& k, int64_t b, int64_t h,
                int64_t first) {
    Tensor s = scores_.narrow(0, 0, q.size(0) * row.columns).view({q.size(0), row.columns});
    at::addmm_out(s, s, q, k.t(), /*beta=*/0, plan.scale);
    if (row.partial.empty()) return s;
    const Tensor at_b = at::full({1, 1, 1, 1}, b, at::kLong), at_h = at::full_like(at_b, h);
    const Tensor at_q = at::arange(first, first + q.size(0)).view({1, 1, -1, 1});
    for (const auto& [key, column] : row.partial) {
      const int64_t count = std::min(plan.mask.block, plan.mask.keys - key);
      const Tensor counts =
          plan.mask.within(at_b, at_h, at_q, at::arange(key, key + count).view({1, 1, 1, -1}));
      s.narrow(1, column, count)
          .masked_fill_(counts.expand({1, 1, q.size(0), count})[0][0].logical_not(), -INFINITY);
    }
    return s;
  }

  const Plan& plan;
  const at::ScalarType type;

 private:
  /// The rows of `source` (length, width) that `row` reads, side by side.
  Tensor gather(const Row& row, const Tensor& source, const Tensor& memory) const {
    if (row.runs.size() == 1 && source.scalar_type() == type)
      return source.narrow(0, row.runs[0].begin, row.runs[0].count);
    const int64_t width = source.size(1);
    const Tensor out = memory.narrow(0, 0, row.columns * width).view({row.columns, width});
    int64_t at = 0;
    for (const Run& run : row.runs) {
      out.narrow(0, at, run.count).copy_(source.narrow(0, run.begin, run.count));
      at += run.count;
    }
    return out;
  }

  Tensor scores_, keys_, values_;
};

/// Stores the result; `lse` (batch, heads, queries): log of each row's sum, inf for empty rows.
void forward_blocks(const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& out, const Tensor& lse) {
  const int64_t heads = q.size(1), each = heads / k.size(1), block = plan.mask.block;
  deal(q.size(0) * heads * plan.blocks, [&] {
    return [&, scratch = Scratch(plan, q, v)](int64_t item) mutable {
      const int64_t i = item % plan.blocks, h = item / plan.blocks % heads,
                    b = item / plan.blocks / heads;
      const int64_t first = i * block, count = std::min(block, q.size(2) - first);
      const auto part = [&](const Tensor& t) { return t[b][h].narrow(0, first, count); };
      const Row& row = plan.row(b, h, i);
      if (row.columns == 0) {
        part(out).zero_(), part(lse).fill_(INFINITY);
        return;
      }
      const Tensor keys = scratch.keys(row, k[b][h / each]);
      const Tensor s = scratch.scores(row, part(q).to(scratch.type), keys, b, h, first);
      // A row without a key has -inf everywhere: less 0, its weights are 0.
      Tensor top = s.amax(1, /*keepdim=*/true);
      if (!row.partial.empty()) top.masked_fill_(top == -INFINITY, 0);
      const Tensor sum = s.sub_(top).exp_().sum(1, /*keepdim=*/true), empty = sum == 0;
      part(lse).copy_((top + sum.log()).masked_fill_(empty, INFINITY).squeeze(1));
      const Tensor values = scratch.values(row, v[b][h / each]);
      part(out).copy_(at::mm(s, values).div_(sum.masked_fill_(empty, 1)));
    };
  });
}

struct Gradients {
  Tensor q, k, v;
};

/// Weights are computed again from `lse`. A thread has all heads that share keys, whose gradients
/// it adds up.
void backward_blocks(const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& lse, const Tensor& delta, const Tensor& go,
                     const Gradients& to) {
  const int64_t of_keys = k.size(1), each = q.size(1) / of_keys, block = plan.mask.block;
  deal(q.size(0) * of_keys, [&] {
    return [&, scratch = Scratch(plan, q, v)](int64_t item) mutable {
      const int64_t g = item % of_keys, b = item / of_keys;
      const Tensor k_to = to.k[b][g], v_to = to.v[b][g];
      for (int64_t h = g * each; h < (g + 1) * each; ++h)
        for (int64_t i = 0; i < plan.blocks; ++i) {
          const Row& row = plan.row(b, h, i);
          if (row.columns == 0) continue;
          const int64_t first = i * block, count = std::min(block, q.size(2) - first);
          const auto part = [&](const Tensor& t) { return t[b][h].narrow(0, first, count); };
          const Tensor queries = part(q).to(scratch.type), grad = part(go).to(scratch.type);
          const Tensor keys = scratch.keys(row, k[b][g]);
          const Tensor weights =
              scratch.scores(row, queries, keys, b, h, first).sub_(part(lse).unsqueeze(1)).exp_();
          const Tensor of = scratch.values(row, v[b][g]);
          const Tensor v_part = at::mm(weights.t(), grad);
          const Tensor s =
              at::mm(grad, of.t()).sub_(part(delta).unsqueeze(1)).mul_(weights).mul_(plan.scale);
          part(to.q).copy_(at::mm(s, keys));
          const Tensor k_part = at::mm(s.t(), queries);
          int64_t at = 0;
          for (const Run& run : row.runs) {
            k_to.narrow(0, run.begin, run.count).add_(k_part.narrow(0, at, run.count));
            v_to.narrow(0, run.begin, run.count).add_(v_part.narrow(0, at, run.count));
            at += run.count;
          }
        }
    };
  });
}

struct BlockAttention : torch::autograd::Function<BlockAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const c10::intrusive_ptr<Plan>& plan) {
    const Tensor out = at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
    const Tensor lse =
        at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(compute_type(q)));
    forward_blocks(*plan, q, k, v, out, lse);
    context->save_for_backward({q, k, v, out, lse});
    context->saved_data["plan"] = c10::IValue::make_capsule(plan);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
    // Not by what the incoming gradient requires: with a constant one the second derivative would
    // be zero without a word.
    TORCH_CHECK_NOT_IMPLEMENTED(
        !c10::GradMode::is_enabled(),
        "block_sparse_attention: it is differentiable once; for create_graph use "
        "graft::flex_attention with the mask's mask_mod()");
    const auto plan =
        c10::static_intrusive_pointer_cast<Plan>(context->saved_data["plan"].toCapsule());
    const auto type = compute_type(q);
    const Tensor go = gradients[0];
    const Tensor delta = at::mul(go.to(type), out.to(type)).sum(-1);
    const Gradients to{at::zeros(q.sizes(), q.options()),
                       at::zeros(k.sizes(), k.options().dtype(type)),
                       at::zeros(v.sizes(), v.options().dtype(type))};
    backward_blocks(*plan, q, k, v, lse, delta, go, to);
    return {to.q, to.k.to(k.scalar_type()), to.v.to(v.scalar_type()), Tensor()};
  }
};

}  // namespace

Tensor block_sparse_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                              const BlockMask& mask, std::optional<double> scale) {
  check_attention("block_sparse_attention", query, key, value, mask);
  TORCH_CHECK_VALUE(value.defined(),
                    "block_sparse_attention: value is undefined; expected (batch, "
                    "heads of keys, keys, width of values)");
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  return BlockAttention::apply(query, key, value, c10::make_intrusive<Plan>(mask, factor));
}

}  // namespace graft::systems
