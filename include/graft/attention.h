// Attention whose scores a function changes and a mask leaves out, as PyTorch's flex_attention.
//
//     auto window = [](auto&, auto&, const at::Tensor& q, const at::Tensor& kv) {
//       return (q >= kv).logical_and(q - kv < 256);
//     };
//     auto f = graft::compile([=](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
//       return graft::flex_attention(q, k, v, nullptr, window);
//     });
//
// It is plain ATen code, differentiable, that runs eagerly as it stands. Compiled, the fp32 form is
// one kernel over blocks of queries: scores never leave the cache, and blocks of keys that a mask
// leaves out are not computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "graft/export.h"

namespace graft {

/// Gives the score to use. `score`: (batch, heads, queries, keys), of the query's dtype; the
/// indices are int64 tensors that broadcast to its shape.
using ScoreMod =
    std::function<at::Tensor(const at::Tensor& score, const at::Tensor& batch,
                             const at::Tensor& head, const at::Tensor& q, const at::Tensor& kv)>;
/// Gives a Bool tensor that broadcasts to (batch, heads, queries, keys): which scores count.
using MaskMod = std::function<at::Tensor(const at::Tensor& batch, const at::Tensor& head,
                                         const at::Tensor& q, const at::Tensor& kv)>;

/// softmax(score_mod(query key^T * scale) where mask_mod, else -inf) value.
///
/// `query`: (batch, heads, queries, width); `key`: (batch, heads of keys, keys, width); `value`:
/// (batch, heads of keys, keys, width of values), all of one floating dtype. Where there are fewer
/// heads of keys, as many neighbouring heads of queries share one (grouped queries); their number
/// must divide that of heads. `scale`: 1 / sqrt(width) when absent. A query whose every key is left
/// out gets zeros. Result: (batch, heads, queries, width of values).
///
/// Throws graft::Error for shapes and dtypes that do not fit. Thread-safe if the functions are.
GRAFT_API at::Tensor flex_attention(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const ScoreMod& score_mod = nullptr,
                                    const MaskMod& mask_mod = nullptr,
                                    std::optional<double> scale = std::nullopt);

}  // namespace graft
