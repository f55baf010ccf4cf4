#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "graft/attention.h"
#include "graft/options.h"

namespace graft {

namespace {

std::string shape(const char* name, const at::Tensor& t) {
  std::ostringstream text;
  text << name << ' ' << t.scalar_type() << ' ' << t.sizes();
  return text.str();
}

void check(bool holds, const std::string& expected, const at::Tensor& q, const at::Tensor& k,
           const at::Tensor& v) {
  if (holds) return;
  throw Error("flex_attention: came " + shape("query", q) + ", " + shape("key", k) + " and " +
              shape("value", v) + "; expected " + expected);
}

void check_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  for (const auto& [name, t] : {std::pair("query", &q), {"key", &k}, {"value", &v}})
    if (!t->defined())
      throw Error(std::string("flex_attention: ") + name +
                  " is undefined; expected a tensor (batch, heads, length, width)");
  check(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "(batch, heads, length, width) of each", q, k,
        v);
  check(q.is_floating_point() && k.scalar_type() == q.scalar_type() &&
            v.scalar_type() == q.scalar_type(),
        "one floating dtype; convert with .to(query.dtype())", q, k, v);
  check(k.size(0) == q.size(0) && v.size(0) == q.size(0), "one size of batch", q, k, v);
  check(k.size(3) == q.size(3), "one width of query and key", q, k, v);
  check(k.size(1) == v.size(1) && k.size(2) == v.size(2), "as many heads and keys as values", q, k,
        v);
  check(k.size(1) > 0 && q.size(1) % k.size(1) == 0,
        "heads of keys that divide the heads of queries", q, k, v);
}

/// 0, 1, … along dimension `d` of four.
at::Tensor indices(int64_t count, int64_t d, const at::Tensor& like) {
  std::vector<int64_t> sizes(4, 1);
  sizes[static_cast<size_t>(d)] = count;
  return at::arange(count, like.options().dtype(at::kLong)).view(sizes);
}

}  // namespace

at::Tensor flex_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const ScoreMod& score_mod, const MaskMod& mask_mod,
                          std::optional<double> scale) {
  check_shapes(query, key, value);
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2),
                keys = key.size(2), groups = key.size(1);
  at::Tensor q = query, k = key, v = value;
  const bool grouped = groups != heads;
  if (grouped) {
    q = q.unflatten(1, {groups, heads / groups});
    k = k.unsqueeze(2), v = v.unsqueeze(2);
  }
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * factor;
  if (grouped) scores = scores.flatten(1, 2);
  const at::Tensor b = indices(batch, 0, query), h = indices(heads, 1, query),
                   at_q = indices(queries, 2, query), at_kv = indices(keys, 3, query);
  if (score_mod) scores = score_mod(scores, b, h, at_q, at_kv);
  at::Tensor weights;
  if (mask_mod) {
    const at::Tensor mask = mask_mod(b, h, at_q, at_kv);
    if (!mask.defined() || mask.scalar_type() != at::kBool)
      throw Error("flex_attention: mask_mod gave " +
                  (mask.defined() ? shape("a tensor", mask) : std::string("no tensor")) +
                  "; expected Bool that broadcasts to (batch, heads, queries, keys)");
    constexpr double kLeftOut = -std::numeric_limits<double>::infinity();
    weights = at::softmax(at::where(mask, scores, at::full({}, kLeftOut, scores.options())), -1);
    weights =
        at::where(mask.any(-1, /*keepdim=*/true), weights, at::full({}, 0, weights.options()));
  } else {
    weights = at::softmax(scores, -1);
  }
  if (!grouped) return at::matmul(weights, v);
  return at::matmul(weights.unflatten(1, {groups, heads / groups}), v).flatten(1, 2);
}

}  // namespace graft
