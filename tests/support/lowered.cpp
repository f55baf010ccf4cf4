#include "support/lowered.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "codegen/backend.h"
#include "ir/builder.h"
#include "support/compare.h"
#include "support/interpreter.h"
#include "support/round_trip.h"

namespace graft::test {

namespace {

bool is_floating(const at::Tensor& tensor) {
  return at::isFloatingType(tensor.scalar_type());
}

Tensors in_double(const Tensors& tensors) {
  Tensors wide;
  for (const at::Tensor& tensor : tensors)
    wide.push_back(tensor.defined() && is_floating(tensor) ? tensor.to(at::kDouble)
                                                           : tensor.clone());
  return wide;
}

/// Half a unit in the last place of `value` in the type: what any correctly rounded result may be
/// off.
double half_unit(double value, c10::ScalarType type) {
  int digits = type == at::kBFloat16 ? 8 : type == at::kHalf ? 11 : type == at::kFloat ? 24 : 53;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, exponent - digits - 1);
}

std::string text(const Tensors& tensors) {
  std::ostringstream out;
  for (const at::Tensor& t : tensors)
    out << (t.defined() ? c10::toString(t.scalar_type()) : "undefined")
        << (t.defined() ? t.sizes() : at::IntArrayRef())
        << (t.defined() ? t.strides() : at::IntArrayRef()) << " ";
  return out.str();
}

/// Largest error that rounding the reference once would make.
double rounding_of(const at::Tensor& reference, c10::ScalarType type) {
  double most = 0;
  at::Tensor flat = reference.to(at::kDouble).contiguous();
  for (int64_t i = 0; i < flat.numel(); ++i)
    if (double x = flat.const_data_ptr<double>()[i]; std::isfinite(x))
      most = std::max(most, half_unit(x, type));
  return most;
}

void expect_near_as_eager(const at::Tensor& actual, const at::Tensor& eager,
                          const at::Tensor& reference, const std::string& what) {
  ASSERT_EQ(actual.scalar_type(), eager.scalar_type()) << what;
  ASSERT_EQ(actual.sizes(), eager.sizes()) << what;
  const Deviation ours = deviation_of(actual, reference), theirs = deviation_of(eager, reference);
  EXPECT_FALSE(ours.odd && !theirs.odd)
      << what << ": not finite where the reference is, or the other way round";
  double rounding = rounding_of(reference, eager.scalar_type());
  if (reference.scalar_type() != at::kDouble || eager.scalar_type() == at::kDouble) {
    // No wider reference: double itself, or a function that names its result's type.
    EXPECT_LE(ours.most, eager.scalar_type() == at::kDouble ? 1e-10 : 64 * rounding) << what;
    return;
  }
  EXPECT_LE(ours.most, std::max(1.5 * theirs.most, 1.02 * rounding)) << what;
  // The largest error is a matter of luck where both err by a few roundings; the sum over many is
  // not.
  if (actual.numel() >= 100) {
    EXPECT_LE(ours.sum, 1.05 * theirs.sum) << what;
  }
}

}  // namespace

at::Tensor grid(const std::vector<int64_t>& sizes, at::ScalarType type) {
  int64_t count = ir::numel(sizes);
  return at::arange(count).sub(count / 2).to(type).reshape(sizes);
}

Tensors clone_all(const Tensors& tensors) {
  std::map<const void*, c10::Storage> copies;
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      result.emplace_back();
      continue;
    }
    c10::Storage& copy = copies[tensor.storage().unsafeGetStorageImpl()];
    if (!copy) {
      size_t bytes = tensor.storage().nbytes();
      at::Tensor fresh = at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte));
      if (bytes > 0) std::memcpy(fresh.mutable_data_ptr(), tensor.storage().data(), bytes);
      copy = fresh.storage();
    }
    at::Tensor view = at::empty({0}, tensor.options().requires_grad(false));
    view.set_(copy, tensor.storage_offset(), tensor.sizes(), tensor.strides());
    result.push_back(view.set_requires_grad(tensor.requires_grad()));
  }
  return result;
}

LoweredRun lower_run(const Function& fn, const Tensors& args, ops::LowerSettings settings) {
  Tensors copies = clone_all(args), results;
  LoweredRun run;
  run.trace = record::record(copies, [&] { results = fn(copies); }, [&] { return results; });
  settings.target = codegen::host_target(1);
  run.lowered = ops::lower(run.trace, settings);
  EXPECT_EQ(round_trip(run.lowered.program), "");
  return run;
}

std::string fate(const ops::Lowered& lowered, const std::string& name) {
  for (const OperatorReport& op : lowered.operators)
    if (op.name == name) return op.why.empty() ? op.fate : op.fate + ": " + op.why;
  return {};
}

Deviation deviation_of(const at::Tensor& actual, const at::Tensor& reference) {
  Deviation error;
  at::Tensor a = actual.detach().to(at::kDouble).contiguous(),
             r = reference.detach().to(at::kDouble).contiguous();
  for (int64_t i = 0; i < a.numel(); ++i) {
    double x = a.const_data_ptr<double>()[i], y = r.const_data_ptr<double>()[i];
    if (!std::isfinite(x) || !std::isfinite(y)) {
      error.odd = error.odd || (std::isnan(x) != std::isnan(y)) || (!std::isnan(x) && x != y);
      continue;
    }
    error.most = std::max(error.most, std::fabs(x - y));
    error.sum += std::fabs(x - y);
  }
  return error;
}

void expect_as_eager(const Function& fn, const Tensors& args, Fates fates) {
  LoweredRun run = lower_run(fn, args);
  const ops::Lowered& lowered = run.lowered;
  std::string program = text(args) + "\n" + print(run.trace) + ir::print(lowered.program);
  SCOPED_TRACE(program);
  // A function of one extern alone has nothing to compile.
  if (fates == Fates::AnyExtern &&
      lowered.broken == "no operator of this function is one Graft fuses")
    return;
  ASSERT_FALSE(lowered.broken) << *lowered.broken;
  if (fates == Fates::AllFused)
    for (const OperatorReport& op : lowered.operators) {
      EXPECT_NE(op.fate, "extern") << op.name << ": " << op.why;
    }
  Tensors eager_args = clone_all(args), our_args = clone_all(args), wide_args = in_double(args);
  Tensors eager = fn(eager_args), ours;
  ASSERT_NO_THROW(ours = interpret(lowered.program, our_args, run.trace.captured));
  ASSERT_EQ(ours.size(), eager.size());
  // Then the arguments, for what the function changed in them.
  auto join = [](Tensors a, const Tensors& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  Tensors all_ours = join(ours, our_args), all_eager = join(eager, eager_args), all_wide;
  if (!lowered.exact) {
    try {
      all_wide = join(fn(wide_args), wide_args);
    } catch (const c10::Error&) {
      all_wide = all_eager;  // the function names a type that double does not convert to
    }
  }
  for (size_t k = 0; k < all_eager.size(); ++k) {
    std::string what = (k < eager.size() ? "result " : "result or argument ") + std::to_string(k);
    if (!lowered.exact && all_eager[k].defined() && is_floating(all_eager[k]))
      expect_near_as_eager(all_ours[k], all_eager[k], all_wide[k], what);
    else
      EXPECT_EQ(content_difference(all_eager[k], all_ours[k]), "") << what;
  }
}

}  // namespace graft::test
