#include "oracle/harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <string_view>
#include <typeinfo>

#include "codegen/backend.h"
#include "ops/lower.h"
#include "passes/products.h"
#include "record/trace.h"
#include "tensor/dtype.h"

namespace graft::test {

Tensors clone_arguments(const Tensors& arguments) {
  std::map<const c10::StorageImpl*, c10::Storage> copies;
  Tensors out;
  for (const at::Tensor& t : arguments) {
    if (!t.defined()) {
      out.emplace_back();
      continue;
    }
    auto [at, is_new] = copies.try_emplace(t.storage().unsafeGetStorageImpl());
    if (is_new) {
      auto bytes = static_cast<int64_t>(t.storage().nbytes());
      at::Tensor copy = at::empty({bytes}, at::kByte);
      if (bytes != 0)
        std::memcpy(copy.mutable_data_ptr(), t.storage().data(), static_cast<size_t>(bytes));
      at->second = copy.storage();
    }
    at::Tensor view = at::empty({0}, t.options());
    view.set_(at->second, t.storage_offset(), t.sizes(), t.strides());
    out.push_back(view);
  }
  return out;
}

Attempt attempt(const std::function<Tensors()>& call) {
  Attempt result;
  try {
    result.results = call();
  } catch (const c10::Error& error) {
    result.error = std::string(typeid(error).name()) + ": " + error.what_without_backtrace();
  } catch (const std::exception& error) {
    result.error = std::string(typeid(error).name()) + ": " + error.what();
  }
  return result;
}

std::optional<Promise> promise_of(const Function& f, const Tensors& arguments, Numerics numerics) {
  Tensors results;
  auto trace = record::record(arguments, [&] { results = f(arguments); }, [&] { return results; });
  const ir::Target target = codegen::host_target(1);
  ops::Lowered lowered = ops::lower(trace, {.fast = numerics == Numerics::Fast, .target = target});
  const bool products = !passes::worth_loops(lowered.program, target).empty();
  if (lowered.broken && !products) return std::nullopt;
  return Promise{lowered.exact && !products, lowered.either_zero};
}

namespace {

constexpr int kCalls = 4;  // the record, the shadow, and the plan twice

bool refusal_is_known(const Check& check, const OperatorReport& op) {
  for (std::string_view why : check.may_refuse)
    if (op.why.find(why) != std::string::npos) return true;
  return false;
}

/// Empty when everything that should run as loops does.
std::string unfused(const Check& check, const Report& report) {
  bool fused = false, refused = false;
  for (const OperatorReport& op : report.operators) {
    if (op.fate == "fused") fused = true;
    if (op.fate != "extern") continue;
    if (!refusal_is_known(check, op)) return op.name + " stayed extern: " + op.why;
    refused = true;
  }
  if (fused || refused) return {};
  return "nothing was fused (" + std::string(to_string(report.verdict)) + ": " + report.reason +
         ")";
}

/// The largest number of the narrowest floating dtype among the results.
double largest_of(const Tensors& results) {
  double largest = std::numeric_limits<double>::max();
  for (const at::Tensor& t : results)
    if (t.defined())
      if (const DtypeInfo* row = find_dtype(t.scalar_type()); row != nullptr && is_float(row->type))
        largest = std::min(largest, row->largest);
  return largest;
}

/// Did the shadow run differ where eager has left the finite numbers, and the other has or is about
/// to? A tail that rounds twice may overflow where the vector loop, rounding once, does not.
bool overflowed_apart(const Check& check, const Report& report) {
  if (report.verdict != Verdict::Mismatch) return false;
  auto number_after = [&](std::string_view word) {
    size_t at = report.reason.find(word);
    return at == std::string::npos ? 0 : std::atof(report.reason.c_str() + at + word.size());
  };
  double eager = number_after(": eager "), compiled = number_after(", compiled ");
  if (std::isfinite(eager)) return false;
  if (check.eager_may_lose_numbers) return true;
  double largest = largest_of(check.f(check.arguments(0)));
  return !(std::abs(compiled) < largest / 4);
}

/// Eager's results, with the other's where it has no number.
Tensors with_lost_numbers(const Tensors& eager, const Tensors& came) {
  Tensors out = eager;
  for (size_t i = 0; i < out.size() && i < came.size(); ++i)
    if (out[i].defined() && layout_difference(out[i], came[i]).empty())
      out[i] = at::empty_strided(out[i].sizes(), out[i].strides(), out[i].options())
                   .copy_(at::where(out[i].isfinite(), out[i], came[i]));
  return out;
}

bool is_wider(const at::Tensor& t, at::ScalarType computed) {
  return t.defined() && at::isFloatingType(t.scalar_type()) &&
         c10::elementSize(t.scalar_type()) > c10::elementSize(computed);
}

struct Closeness {
  double ulps = 0;
  at::ScalarType computed = at::kDouble;
};

std::string compare_all(const Tensors& eager, const Tensors& came, Closeness close,
                        const char* what) {
  if (eager.size() != came.size()) return std::string("another number of ") + what + "s";
  for (size_t i = 0; i < eager.size(); ++i) {
    std::string d = layout_difference(eager[i], came[i]);
    bool narrow = d.empty() && close.ulps > 0 && is_wider(eager[i], close.computed);
    auto seen = [&](const at::Tensor& t) { return narrow ? t.to(close.computed) : t; };
    if (d.empty()) d = value_difference(seen(eager[i]), seen(came[i]), close.ulps);
    if (!d.empty()) return std::string(what) + " " + std::to_string(i) + " " + d;
  }
  return {};
}

/// An argument that is a result too is judged as that.
Tensors without_results(const Tensors& arguments, const Tensors& results) {
  Tensors others;
  for (const at::Tensor& t : arguments)
    if (std::none_of(results.begin(), results.end(),
                     [&](const at::Tensor& r) { return r.defined() && r.is_same(t); }))
      others.push_back(t);
  return others;
}

/// The first elements of each result of the padded call, compared with what came: where it has
/// numbers, if it `may_lose_numbers`.
std::string compare_body(const Tensors& body, const Tensors& came, bool may_lose_numbers) {
  for (size_t i = 0; i < came.size() && i < body.size(); ++i) {
    if (body[i].scalar_type() != came[i].scalar_type())
      continue;  // spreading a 0-dim operand changed the promotion
    at::Tensor expected = body[i].flatten().slice(0, 0, came[i].numel()).reshape(came[i].sizes());
    if (may_lose_numbers) expected = at::where(expected.isfinite(), expected, came[i]);
    if (std::string d = value_difference(expected, came[i]); !d.empty())
      return "result " + std::to_string(i) + " against the vector body, " + d;
  }
  return {};
}

/// Does an output share the caller's memory just where eager's does?
std::string compare_aliases(const Tensors& eager_args, const Tensors& eager, const Tensors& args,
                            const Tensors& came) {
  for (size_t i = 0; i < came.size(); ++i)
    for (size_t j = 0; j < args.size(); ++j) {
      if (!came[i].defined() || !args[j].defined()) continue;
      bool expected = eager[i].is_alias_of(eager_args[j]), is = came[i].is_alias_of(args[j]);
      if (expected != is)
        return "result " + std::to_string(i) + (expected ? " should" : " should not") +
               " share memory with argument " + std::to_string(j);
    }
  return {};
}

std::string run_call(const Check& check, const Compiled<Function>& compiled, Promise promise,
                     int call) {
  Tensors made = check.arguments(call);
  Tensors eager_args = clone_arguments(made), args = clone_arguments(made);
  at::manual_seed(static_cast<uint64_t>(call));
  Attempt eager = attempt([&] { return check.f(eager_args); });
  at::manual_seed(static_cast<uint64_t>(call));
  Attempt came = attempt([&] { return compiled(args); });
  if (eager.error != came.error)
    return "eager error \"" + eager.error + "\", compiled error \"" + came.error + "\"";
  if (!eager.error.empty()) {
    // What was written before the error is eager's too.
    for (size_t i = 0; i < args.size(); ++i)
      if (std::string d = value_difference(eager_args[i], args[i]); !d.empty())
        return "after the error, argument " + std::to_string(i) + " " + d;
    return {};
  }
  // The caller of the first two calls gets eager's own results: those of the record and of the
  // shadow run.
  bool exact = promise.exact || call < 2;
  auto numbers_of = [&](const Tensors& results) {
    return check.eager_may_lose_numbers ? with_lost_numbers(results, came.results) : results;
  };
  bool approximate = !exact && (check.body || check.judge);
  Closeness close{approximate ? check.ulps : promise.either_zero ? kZeroSigns : 0, check.computed};
  if (!exact && check.judge) {
    if (std::string why = check.judge(made, eager.results, came.results); !why.empty()) return why;
  } else if (std::string why =
                 compare_all(numbers_of(eager.results), came.results, close, "result");
             !why.empty()) {
    return why;
  }
  if (!exact && check.body) {
    Tensors padded = clone_arguments(made);
    if (std::string why =
            compare_body(check.body(padded), came.results, check.eager_may_lose_numbers);
        !why.empty())
      return why;
  }
  if (std::string why = compare_all(without_results(eager_args, eager.results),
                                    without_results(args, came.results), close, "argument");
      !why.empty())
    return why;
  return compare_aliases(eager_args, eager.results, args, came.results);
}

}  // namespace

std::string run(const Check& check) {
  Options options = in_order(check.label);
  options.numerics = check.numerics;
  Compiled<Function> compiled(check.f, options);
  Promise promise;
  bool throws = false;
  {
    Tensors probe = clone_arguments(check.arguments(0));
    Attempt tried = attempt([&] {
      promise = promise_of(check.f, probe, check.numerics).value_or(Promise{});
      return Tensors{};
    });
    throws = !tried.error.empty();
  }
  Report report;
  for (int call = 0; call < kCalls; ++call) {
    std::string why = run_call(check, compiled, promise, call);
    report = compiled.report();
    if (!why.empty())
      return check.label + ", call " + std::to_string(call + 1) + ": " + why + " [" +
             to_string(report.verdict) + "]";
    if (!promise.exact && overflowed_apart(check, report)) return {};
    if (report.verdict == Verdict::Mismatch || report.verdict == Verdict::Failed)
      return check.label + ": " + to_string(report.verdict) + ": " + report.reason;
  }
  if (throws) return {};
  if (!check.must_fuse) return {};
  if (std::string why = unfused(check, report); !why.empty()) return check.label + ": " + why;
  bool any_fused = false;
  for (const OperatorReport& op : report.operators) any_fused = any_fused || op.fate == "fused";
  if (any_fused && report.plan_hits == 0)
    return check.label + ": no call ran the plan (" + to_string(report.verdict) + ": " +
           report.reason + ")";
  return {};
}

Reporter::~Reporter() {
  if (failed_ > kReported)
    ADD_FAILURE() << group_ << ": " << failed_ << " of " << cases_ << " cases failed";
}

void Reporter::operator()(const Check& check) {
  ++cases_;
  if (std::string why = run(check); !why.empty()) fail(why);
}

void Reporter::fail(const std::string& what) {
  if (++failed_ <= kReported) ADD_FAILURE() << group_ << ": " << what;
}

bool Reporter::skipped(std::string_view name) {
  static const char* only = std::getenv("GRAFT_ORACLE_ONLY");
  if (only == nullptr) return false;
  bool except = only[0] == '!';
  return (name.find(only + except) == std::string_view::npos) != except;
}

}  // namespace graft::test
