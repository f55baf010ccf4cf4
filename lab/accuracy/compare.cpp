#include "lab/accuracy/compare.h"

#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace graft::lab {
namespace {

at::ScalarType bits_type(const at::Tensor& t) {
  switch (t.element_size()) {
    case 1:
      return at::kByte;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    default:
      return at::kLong;
  }
}

bool same_form(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  return !a.defined() || (a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes());
}

/// Numbers by value, in double; complex ones as pairs.
at::Tensor as_double(const at::Tensor& t) {
  return (t.is_complex() ? at::view_as_real(t.resolve_conj()) : t).to(at::kDouble);
}

void compare_one(const at::Tensor& a, const at::Tensor& b, Comparison& out) {
  if (!a.defined() || a.numel() == 0) return;
  const at::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  const bool nan_possible = x.is_floating_point() || x.is_complex();
  at::Tensor equal = x.is_complex()
                         ? at::view_as_real(x)
                               .view(bits_type(at::view_as_real(x)))
                               .eq(at::view_as_real(y).view(bits_type(at::view_as_real(y))))
                         : x.view(bits_type(x)).eq(y.view(bits_type(y)));
  if (equal.all().item<bool>()) return;
  const at::Tensor p = as_double(x), q = as_double(y);
  if (nan_possible) equal = equal.logical_or(p.isnan().logical_and(q.isnan()));
  if (equal.all().item<bool>()) return;
  out.bitwise = false;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const at::Tensor difference =
      p.sub(q).abs().masked_fill(p.eq(q).logical_or(equal), 0).nan_to_num(kInf, kInf, kInf);
  out.max_abs_diff = std::max(out.max_abs_diff, difference.max().item<double>());
}

}  // namespace

std::string Comparison::text() const {
  if (!same_form) return "different form";
  if (bitwise) return "bitwise";
  char text[40];
  std::snprintf(text, sizeof text, "max %.1e", max_abs_diff);
  return text;
}

Comparison compare(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  Comparison out;
  out.same_form = std::equal(a.begin(), a.end(), b.begin(), b.end(), same_form);
  if (!out.same_form) {
    out.bitwise = false;
    out.max_abs_diff = std::numeric_limits<double>::infinity();
    return out;
  }
  for (size_t i = 0; i < a.size(); ++i) compare_one(a[i], b[i], out);
  return out;
}

double relative_error(const std::vector<at::Tensor>& values,
                      const std::vector<at::Tensor>& reference) {
  if (values.size() != reference.size()) return std::numeric_limits<double>::quiet_NaN();
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].sizes() != reference[i].sizes()) return std::numeric_limits<double>::quiet_NaN();
    if (values[i].numel() == 0) continue;
    const at::Tensor wanted = as_double(reference[i]), came = as_double(values[i]);
    const at::Tensor same = came.eq(wanted).logical_or(came.isnan().logical_and(wanted.isnan()));
    constexpr double kInf = std::numeric_limits<double>::infinity();
    // Where only one of them is finite, or a NaN, the error has no bound.
    const double error =
        came.sub(wanted).abs().masked_fill(same, 0).nan_to_num(kInf, kInf).max().item<double>();
    const double scale =
        wanted.masked_fill(wanted.isfinite().logical_not(), 0).abs().max().item<double>();
    worst = std::max(worst, scale > 0 ? error / scale : error);
  }
  return worst;
}

}  // namespace graft::lab
