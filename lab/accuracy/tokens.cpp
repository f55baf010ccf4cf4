// Greedy tokens compared.
#include "lab/accuracy/tokens.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lab/accuracy/accuracy.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& came,
                         const std::string& expected) {
  throw std::invalid_argument(where + ": came " + came + ", expected " + expected + '.');
}

bool integers(const at::Tensor& t) {
  return t.defined() && at::isIntegralType(t.scalar_type(), /*includeBool=*/false);
}

/// Both int64, on the CPU, of equal sizes. The first divergence is the first in the order of the
/// last dimension, then of the others.
TokenAgreement compare_tokens(const at::Tensor& a, const at::Tensor& b) {
  TokenAgreement out;
  out.positions = a.numel();
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  const int64_t *p = x.const_data_ptr<int64_t>(), *q = y.const_data_ptr<int64_t>();
  const int64_t steps = a.dim() > 0 ? a.size(-1) : 1;
  int64_t first = -1;
  for (int64_t i = 0; i < out.positions; ++i) {
    if (p[i] == q[i]) {
      ++out.matches;
    } else if (first < 0 || i % steps < first % steps) {
      first = i;
    }
  }
  if (first < 0) return out;
  out.token_a = p[first];
  out.token_b = q[first];
  out.first_divergence.resize(static_cast<size_t>(a.dim()));
  for (int64_t d = a.dim() - 1, rest = first; d >= 0; rest /= a.size(d), --d)
    out.first_divergence[static_cast<size_t>(d)] = rest % a.size(d);
  return out;
}

at::Tensor greedy(const at::Tensor& logits) {
  return at::argmax(logits.detach(), -1).cpu();
}

/// Logits of each sequence's last position.
at::Tensor last_logits(const at::Tensor& logits, const at::Tensor& ids) {
  const bool fits = logits.defined() && (logits.dim() == 2 || logits.dim() == 3) &&
                    logits.size(0) == ids.size(0) && logits.size(-1) > 0 &&
                    (logits.dim() == 2 || logits.size(1) == ids.size(1));
  if (!fits) {
    refuse("greedy_decode", "logits " + form_text(logits) + " for ids " + form_text(ids),
           "[batch, length, V] or [batch, V] of the last position");
  }
  return logits.dim() == 2 ? logits : logits.select(1, -1);
}

}  // namespace

double TokenAgreement::match_rate() const {
  return positions == 0 ? 1 : static_cast<double>(matches) / static_cast<double>(positions);
}

std::string TokenAgreement::text() const {
  char rate[40];
  std::snprintf(rate, sizeof rate, "%.4g", 100 * match_rate());
  // Rounding must not turn almost all into all.
  const char* shown = !identical() && std::string(rate) == "100" ? ">99.99" : rate;
  std::string text =
      "tokens " + std::to_string(matches) + '/' + std::to_string(positions) + " (" + shown + " %)";
  if (!identical()) {
    text += ", first divergence at [";
    for (size_t i = 0; i < first_divergence.size(); ++i)
      text += (i > 0 ? ", " : "") + std::to_string(first_divergence[i]);
    text += "]: " + std::to_string(token_a) + " against " + std::to_string(token_b);
  }
  if (max_logit_diff)
    text += "; logits max " + number(*max_logit_diff) + ", mean " + number(*mean_logit_diff);
  return text;
}

TokenAgreement token_agreement(const at::Tensor& logits_a, const at::Tensor& logits_b) {
  const auto fits = [](const at::Tensor& t) {
    return t.defined() && t.dim() > 0 && t.size(-1) > 0 && !t.is_complex();
  };
  if (!fits(logits_a) || !fits(logits_b) || logits_a.sizes() != logits_b.sizes()) {
    refuse("token_agreement", form_text(logits_a) + " against " + form_text(logits_b),
           "logits of equal sizes with the vocabulary last");
  }
  TokenAgreement out = compare_tokens(greedy(logits_a), greedy(logits_b));
  const bool alike = logits_a.scalar_type() == logits_b.scalar_type();
  const Accuracy difference =
      alike ? accuracy({logits_a}, {logits_b})
            : accuracy({logits_a.to(at::kDouble)}, {logits_b.to(at::kDouble)});
  out.max_logit_diff = difference.all.max_abs.value;
  out.mean_logit_diff = difference.all.mean_abs;
  return out;
}

GreedyRun greedy_decode(const LanguageModel& model, const at::Tensor& prompt, int64_t steps) {
  if (!integers(prompt) || prompt.dim() < 1 || prompt.dim() > 2 || prompt.size(-1) == 0)
    refuse("greedy_decode", form_text(prompt) + " as a prompt",
           "integers of [length] or [batch, length], at least one token");
  if (steps < 0) refuse("greedy_decode", std::to_string(steps) + " steps", "0 or more");
  const c10::NoGradGuard no_grad;
  at::Tensor ids = prompt.to(at::kLong);
  if (ids.dim() == 1) ids = ids.unsqueeze(0);
  const int64_t length = ids.size(1);
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor token = at::argmax(last_logits(model(ids), ids), -1, /*keepdim=*/true);
    ids = at::cat({ids, token.to(ids.device())}, 1);
  }
  return {ids.narrow(1, length, steps).cpu().contiguous()};
}

TokenAgreement token_agreement(const GreedyRun& a, const GreedyRun& b) {
  if (!integers(a.tokens) || !integers(b.tokens) || a.tokens.sizes() != b.tokens.sizes())
    refuse("token_agreement", "decodes " + form_text(a.tokens) + " and " + form_text(b.tokens),
           "tokens of equal sizes: the same prompt and as many steps");
  return compare_tokens(a.tokens.to(at::kLong).cpu(), b.tokens.to(at::kLong).cpu());
}

nlohmann::json to_json(const TokenAgreement& agreement) {
  nlohmann::json json = {{"positions", agreement.positions},
                         {"matches", agreement.matches},
                         {"match_rate", agreement.match_rate()},
                         {"first_divergence", nullptr},
                         {"max_logit_diff", nullptr},
                         {"mean_logit_diff", nullptr}};
  if (!agreement.identical()) {
    json["first_divergence"] = {
        {"index", agreement.first_divergence}, {"a", agreement.token_a}, {"b", agreement.token_b}};
  }
  if (agreement.max_logit_diff) {
    json["max_logit_diff"] = *agreement.max_logit_diff;
    json["mean_logit_diff"] = *agreement.mean_logit_diff;
  }
  return json;
}

}  // namespace graft::lab
