// Do two language models agree? Compares the greedy tokens of their logits, or of their decodes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace graft::lab {

/// Positions are those of all dimensions but the last for logits, and sequences times steps for
/// decodes.
struct TokenAgreement {
  int64_t positions = 0;
  int64_t matches = 0;  ///< positions whose greedy tokens are equal
  /// Index of the first position that differs: least in the last dimension (the position in a
  /// sequence), then least in the others. Empty: none differs, or logits of one position.
  std::vector<int64_t> first_divergence;
  int64_t token_a = -1, token_b = -1;  ///< the tokens at first_divergence
  /// Differences of logits, over values that are finite on both sides; empty for decodes.
  std::optional<double> max_logit_diff, mean_logit_diff;

  bool identical() const { return matches == positions; }
  double match_rate() const;  ///< 0 to 1; 1 where there are no positions
  /// "tokens 682/1000 (68.2 %), first divergence at [0, 17]: 5 against 9; logits max 5.1, mean
  /// 0.02".
  std::string text() const;
};

/// The greedy token is the argmax over the last dimension, the vocabulary: the first of equal
/// logits, and NaN counts as the largest. Throws std::invalid_argument unless both are real,
/// non-empty in the last dimension and of equal sizes; dtypes may differ.
TokenAgreement token_agreement(const at::Tensor& logits_a, const at::Tensor& logits_b);

/// Token ids [batch, length] in; logits [batch, length, V] out, or [batch, V] of the last position.
using LanguageModel = std::function<at::Tensor(const at::Tensor& ids)>;

struct GreedyRun {
  at::Tensor tokens;  ///< int64 [batch, steps], without the prompt
};

/// Appends the greedy token `steps` times, without gradients; each step calls the model on the
/// whole sequence. `prompt`: integers, [length] or [batch, length]. Throws std::invalid_argument
/// for other shapes and types of prompt or logits.
GreedyRun greedy_decode(const LanguageModel& model, const at::Tensor& prompt, int64_t steps);

/// Compares two decodes of one prompt. After its first divergence, a sequence's two continuations
/// have different contexts, so `first_divergence` (the earliest step of any sequence) says more
/// than `matches`.
TokenAgreement token_agreement(const GreedyRun& a, const GreedyRun& b);

nlohmann::json to_json(const TokenAgreement& agreement);

}  // namespace graft::lab
