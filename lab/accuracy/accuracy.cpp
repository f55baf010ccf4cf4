// Tensors set beside a reference's and fp64's. tally.cpp passes over their elements, text.cpp shows
// what came of it.
#include "lab/accuracy/accuracy.h"

#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <stdexcept>

#include "lab/accuracy/tally.h"

namespace graft::lab {
namespace {

/// In rows and on the CPU; complex numbers as pairs.
at::Tensor plain(const at::Tensor& t) {
  if (t.layout() != at::kStrided) {
    throw std::invalid_argument(
        "accuracy: came a sparse tensor, expected a strided one; convert it with .to_dense().");
  }
  const at::Tensor resolved = t.detach().cpu().resolve_conj().resolve_neg().contiguous();
  return resolved.is_complex() ? at::view_as_real(resolved) : resolved;
}

Extreme extreme(const Peak& peak, const ElementKind& kind, const at::Tensor& c,
                const at::Tensor& r) {
  Extreme out;
  if (peak.at < 0) return out;
  out.value = peak.value;
  out.tensor = 0;
  out.index.resize(static_cast<size_t>(c.dim()));
  int64_t rest = peak.at;
  for (int64_t d = c.dim() - 1; d >= 0; rest /= c.size(d), --d)
    out.index[static_cast<size_t>(d)] = rest % c.size(d);
  out.candidate = kind.value(c.const_data_ptr(), peak.at);
  out.reference = kind.value(r.const_data_ptr(), peak.at);
  return out;
}

double mean_of(double sum, int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

Fp64Error error_of(const ErrorSum& sum, double largest, int64_t elements) {
  const double scale = largest > 0 ? largest : 1;
  return {sum.max / scale, mean_of(sum.sum, elements - sum.non_finite) / scale, sum.non_finite};
}

TensorAccuracy compare_one(const at::Tensor& candidate, const at::Tensor& reference,
                           const at::Tensor* fp64) {
  TensorAccuracy out;
  if (!candidate.defined()) return out;
  const at::Tensor c = plain(candidate), r = plain(reference);
  const ElementKind kind = element_kind(c.scalar_type());
  at::Tensor exact;
  if (fp64 != nullptr) exact = plain(*fp64).to(at::kDouble);
  const Tally tally =
      kind.compare(c.const_data_ptr(), r.const_data_ptr(),
                   exact.defined() ? exact.const_data_ptr<double>() : nullptr, c.numel());
  out.dtype = at::toString(candidate.scalar_type());
  out.sizes = candidate.sizes().vec();
  out.elements = c.numel();
  out.different = tally.different;
  out.floating = kind.floating;
  out.epsilon = kind.epsilon;
  out.ulps = tally.ulps;
  out.max_ulp = extreme(tally.ulp, kind, c, r);
  out.max_abs = extreme(tally.abs, kind, c, r);
  out.max_rel = extreme(tally.rel, kind, c, r);
  out.mismatch = extreme({1, tally.mismatch}, kind, c, r);
  const int64_t compared = out.elements - tally.ulps.nan_mismatches - tally.ulps.inf_mismatches;
  out.mean_abs = mean_of(tally.sum_abs, compared);
  out.mean_rel = mean_of(tally.sum_rel, compared - tally.without_relative);
  if (exact.defined()) {
    out.fp64 = Fp64Comparison{error_of(tally.candidate, tally.largest, out.elements),
                              error_of(tally.reference, tally.largest, out.elements),
                              tally.candidate_nearer, tally.reference_nearer};
  }
  return out;
}

/// Why two tensors cannot be compared.
std::string form_problem(const at::Tensor& a, const at::Tensor& b) {
  const bool same =
      a.defined() == b.defined() &&
      (!a.defined() || (a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes()));
  return same ? "" : form_text(a) + " against " + form_text(b);
}

void keep_larger(Extreme& to, const Extreme& from, size_t tensor) {
  if (from.tensor < 0 || (to.tensor >= 0 && from.value <= to.value)) return;
  to = from;
  to.tensor = static_cast<int64_t>(tensor);
}

/// Means by elements; maxima as they are, each relative to its own tensor's largest magnitude.
void add_error(Fp64Error& to, const Fp64Error& from, double share) {
  to.max = std::max(to.max, from.max);
  to.mean += from.mean * share;
  to.non_finite += from.non_finite;
}

TensorAccuracy together(const std::vector<TensorAccuracy>& tensors) {
  TensorAccuracy all;
  for (const TensorAccuracy& t : tensors) all.elements += t.elements;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorAccuracy& t = tensors[i];
    const double share = mean_of(static_cast<double>(t.elements), all.elements);
    all.dtype = i == 0 || all.dtype == t.dtype ? t.dtype : "";
    all.different += t.different;
    all.floating |= t.floating;
    all.epsilon = std::max(all.epsilon, t.epsilon);
    all.ulps.add(t.ulps);
    keep_larger(all.max_ulp, t.max_ulp, i);
    keep_larger(all.max_abs, t.max_abs, i);
    keep_larger(all.max_rel, t.max_rel, i);
    keep_larger(all.mismatch, t.mismatch, i);
    all.mean_abs += t.mean_abs * share;
    all.mean_rel += t.mean_rel * share;
    if (!t.fp64) continue;
    if (!all.fp64) all.fp64.emplace();
    add_error(all.fp64->candidate, t.fp64->candidate, share);
    add_error(all.fp64->reference, t.fp64->reference, share);
    all.fp64->candidate_nearer += t.fp64->candidate_nearer;
    all.fp64->reference_nearer += t.fp64->reference_nearer;
  }
  return all;
}

}  // namespace

Accuracy accuracy(const std::vector<at::Tensor>& candidate,
                  const std::vector<at::Tensor>& reference,
                  const std::optional<std::vector<at::Tensor>>& fp64) {
  Accuracy out;
  if (candidate.size() != reference.size()) {
    out.problem =
        std::to_string(candidate.size()) + " tensors against " + std::to_string(reference.size());
    return out;
  }
  for (size_t i = 0; i < candidate.size() && out.problem.empty(); ++i) {
    const std::string problem = form_problem(candidate[i], reference[i]);
    if (!problem.empty()) out.problem = "tensor " + std::to_string(i) + ": " + problem;
  }
  if (!out.problem.empty()) return out;
  const auto fp64_fits = [](const at::Tensor& r, const at::Tensor& f) {
    return r.defined() == f.defined() &&
           (!r.defined() || (r.sizes() == f.sizes() && r.is_complex() == f.is_complex()));
  };
  if (fp64 &&
      !std::equal(reference.begin(), reference.end(), fp64->begin(), fp64->end(), fp64_fits)) {
    throw std::invalid_argument(
        "accuracy: the fp64 tensors have another form than the reference's; expected as many, of "
        "the same sizes: compute them by the same function on inputs in double.");
  }
  for (size_t i = 0; i < candidate.size(); ++i) {
    out.tensors.push_back(compare_one(candidate[i], reference[i], fp64 ? &(*fp64)[i] : nullptr));
    for (Extreme* extreme : {&out.tensors[i].max_ulp, &out.tensors[i].max_abs,
                             &out.tensors[i].max_rel, &out.tensors[i].mismatch}) {
      if (extreme->tensor == 0) extreme->tensor = static_cast<int64_t>(i);
    }
  }
  out.all = together(out.tensors);
  return out;
}

}  // namespace graft::lab
