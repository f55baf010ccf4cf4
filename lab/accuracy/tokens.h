// Whether two language models say the same: greedy tokens of their logits, and of their decodes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace graft::lab {

/// Of logits, positions are all but the last dimension; of decodes, sequences times steps.
struct TokenAgreement {
  int64_t positions = 0;
  int64_t matches = 0;  ///< positions whose greedy tokens are equal
  /// Index of the first that are not: the least in the last dimension (a sequence's position), of
  /// those the least in the others. Empty: none, or logits of one position.
  std::vector<int64_t> first_divergence;
  int64_t token_a = -1, token_b = -1;  ///< there
  /// Logits' differences, over values finite on both sides; not known of decodes.
  std::optional<double> max_logit_diff, mean_logit_diff;

  bool identical() const { return matches == positions; }
  double match_rate() const;  ///< 0 to 1; 1 where there are no positions
  /// "tokens 682/1000 (68.2 %), first divergence at [0, 17]: 5 against 9; logits max 5.1, mean
  /// 0.02".
  std::string text() const;
};

/// Greedy tokens are argmax over the last dimension, the vocabulary; the lower of equal logits; a
/// NaN is larger than all. Throws std::invalid_argument unless both are real, non-empty in the last
/// dimension and of equal sizes; dtypes may differ.
TokenAgreement token_agreement(const at::Tensor& logits_a, const at::Tensor& logits_b);

/// Token ids [batch, length] in, logits [batch, length, V] or, of the last position only, [batch,
/// V] out.
using LanguageModel = std::function<at::Tensor(const at::Tensor& ids)>;

struct GreedyRun {
  at::Tensor tokens;  ///< int64 [batch, steps], without the prompt
};

/// Appends the greedy token `steps` times, calling the model on the whole sequence each time,
/// without gradients. `prompt` is [length] or [batch, length] of integers. Throws
/// std::invalid_argument for another form of prompt or logits.
GreedyRun greedy_decode(const LanguageModel& model, const at::Tensor& prompt, int64_t steps);

/// Two decodes of one prompt. After a sequence's first divergence its two continuations have
/// different contexts: `matches` says little there, `first_divergence` (the earliest step of any
/// sequence) more.
TokenAgreement token_agreement(const GreedyRun& a, const GreedyRun& b);

nlohmann::json to_json(const TokenAgreement& agreement);

}  // namespace graft::lab
