#include "workloads/decoder/sampling.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace graft::workloads::decoder {
namespace {

template <class T>
void expect(bool good, const char* what, T came, const char* expected) {
  if (good) return;
  std::ostringstream said;
  said << "Sampler: " << what << " is " << came << "; expected " << expected;
  throw std::invalid_argument(said.str());
}

}  // namespace

Sampler::Sampler(const Sampling& s)
    : sampling_(s), generator_(at::detail::createCPUGenerator(s.seed)) {
  expect(std::isfinite(s.temperature) && s.temperature >= 0, "temperature", s.temperature,
         "0 (the most likely token) or a number above it");
  expect(s.top_k >= 0, "top_k", s.top_k, "0 (all tokens) or how many are left to choose from");
  expect(s.top_p > 0 && s.top_p <= 1, "top_p", s.top_p, "a number above 0 and up to 1");
}

at::Tensor Sampler::next(const at::Tensor& logits) {
  if (sampling_.temperature == 0) return logits.argmax(-1, /*keepdim=*/true);
  const int64_t all = logits.size(0);
  const int64_t kept = sampling_.top_k == 0 ? all : std::min(sampling_.top_k, all);
  // In descending order, so that top_p cuts off an end.
  auto [values, ids] = at::topk(logits.to(at::kDouble), kept);
  // The largest is taken off first: a small temperature overflows nothing.
  at::Tensor shares = at::softmax((values - values[0]) / sampling_.temperature, 0);
  if (!at::isfinite(shares).all().item<bool>())
    throw std::invalid_argument(
        "Sampler: the logits have a NaN or an infinity, or none above -infinity; expected numbers "
        "to draw from (are the weights damaged, or too large for this type?)");
  if (sampling_.top_p < 1)
    shares = shares.masked_fill(at::cumsum(shares, 0) - shares >= sampling_.top_p, 0);
  return ids.index_select(0, at::multinomial(shares, 1, /*replacement=*/true, generator_));
}

}  // namespace graft::workloads::decoder
