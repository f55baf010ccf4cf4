// A compiled function and the plain one, called side by side: values, memory, and what autograd
// sees must be the same.
#pragma once

#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/helpers.h"

namespace graft::test {

using Tensors = std::vector<at::Tensor>;

/// Takes the arguments by reference: it may assign to them, add some, or clear them.
struct SideProgram {
  const char* name;
  std::function<Tensors(Tensors&)> run;
  bool compiled = true;  ///< a plan must come of it; otherwise a break is fine as well
};

/// Makes equal arguments for equal seeds, with the views and overlaps that they are to have.
struct SideArguments {
  const char* name;
  std::function<Tensors()> make;
};

/// The mode that a call is made in.
struct SideMode {
  const char* name;
  std::function<std::shared_ptr<void>()> guard;
};

inline const std::vector<SideMode>& side_modes() {
  static const std::vector<SideMode> all{
      {"grad", [] { return std::make_shared<at::AutoGradMode>(true); }},
      {"no grad", [] { return std::make_shared<at::AutoGradMode>(false); }},
      {"inference", [] { return std::make_shared<c10::InferenceMode>(); }},
  };
  return all;
}

inline bool share_version(const at::Tensor& a, const at::Tensor& b) {
  if (!b.defined() || b.is_inference()) return false;
  const auto before = b._version();
  a.unsafeGetTensorImpl()->bump_version();
  return b._version() != before;
}

/// What autograd and memory say of each result, in words: objects, bases, storages and counters by
/// who has them first.
inline std::vector<std::string> standing(const Tensors& results, const Tensors& arguments) {
  std::vector<std::string> all;
  auto first = [&](auto&& is) -> std::string {
    for (size_t k = 0; k < arguments.size(); ++k)
      if (arguments[k].defined() && is(arguments[k])) return "argument " + std::to_string(k);
    for (size_t k = 0; k < results.size(); ++k)
      if (results[k].defined() && is(results[k])) return "result " + std::to_string(k);
    for (size_t k = 0; k < results.size(); ++k)
      if (results[k].defined() && results[k].is_view() && is(at::Tensor(results[k]._base())))
        return "base of " + std::to_string(k);
    return "nobody";
  };
  for (const at::Tensor& r : results) {
    if (!r.defined()) {
      all.emplace_back("undefined");
      continue;
    }
    std::string text = "is " + first([&](const at::Tensor& t) { return t.is_same(r); });
    text += ", memory of " + first([&](const at::Tensor& t) { return t.is_alias_of(r); });
    text += r.is_inference() ? ", inference" : "";
    text += r.requires_grad() ? ", requires grad" : "";
    text += r.is_leaf() ? ", leaf" : "";
    if (r.is_view()) {
      const at::Tensor base(r._base());
      const auto* meta = torch::autograd::impl::get_view_autograd_meta(r);
      text += ", view of " + first([&](const at::Tensor& t) { return t.is_same(base); }) +
              ", creation " + std::to_string(static_cast<int>(meta->get_creation_meta())) +
              ", base " + c10::str(base.sizes(), base.strides(), base.scalar_type());
    }
    if (!r.is_inference())
      text += ", counter of " + first([&](const at::Tensor& t) { return share_version(r, t); });
    all.push_back(text);
  }
  return all;
}

inline std::vector<bool> raised(const Tensors& tensors, const std::vector<int64_t>& before) {
  std::vector<bool> all;
  for (size_t k = 0; k < before.size() && k < tensors.size(); ++k)
    all.push_back(tensors[k].defined() && !tensors[k].is_inference() &&
                  tensors[k]._version() != before[k]);
  return all;
}

inline std::vector<int64_t> versions_of(const Tensors& tensors) {
  std::vector<int64_t> all;
  for (const at::Tensor& t : tensors)
    all.push_back(t.defined() && !t.is_inference() ? t._version() : 0);
  return all;
}

inline void expect_same(const Tensors& came, const Tensors& expected, const std::string& where) {
  ASSERT_EQ(came.size(), expected.size()) << where;
  for (size_t k = 0; k < came.size(); ++k) {
    ASSERT_EQ(came[k].defined(), expected[k].defined()) << where << ", tensor " << k;
    if (!came[k].defined()) continue;
    const at::Tensor a = came[k].detach(), b = expected[k].detach();
    // Sums round in another order.
    EXPECT_TRUE(a.sizes() == b.sizes() && a.strides() == b.strides() &&
                a.scalar_type() == b.scalar_type() && at::allclose(a, b, 1e-5, 1e-5, true))
        << where << ", tensor " << k << '\n'
        << a << "\nagainst\n"
        << b;
  }
}

/// Four calls of each: the record, the proof, and two of the plan.
inline void expect_beside_eager(const SideProgram& program, const SideArguments& arguments,
                                const SideMode& mode) {
  const std::string where =
      std::string(program.name) + ", " + arguments.name + ", " + mode.name + ", call ";
  auto f = compile(program.run, at_once(program.name));
  auto seeded = [&](uint64_t seed) {
    at::manual_seed(seed);
    return arguments.make();
  };
  for (uint64_t call = 0; call < 4; ++call) {
    const std::string here = where + std::to_string(call);
    Tensors ours = seeded(call), theirs = seeded(call), came, expected;
    const auto ours_before = versions_of(ours), theirs_before = versions_of(theirs);
    std::string thrown, expected_thrown;
    auto attempt = [&](auto&& run, Tensors& args, Tensors& out, std::string& error) {
      auto guard = mode.guard();
      at::manual_seed(call + 100);
      try {
        out = run(args);
      } catch (const c10::Error& e) {
        error = e.what_without_backtrace();
      }
    };
    attempt(program.run, theirs, expected, expected_thrown);
    attempt(f, ours, came, thrown);
    ASSERT_EQ(thrown, expected_thrown) << here;
    expect_same(came, expected, here);
    expect_same(ours, theirs, here + ", arguments");
    EXPECT_EQ(raised(ours, ours_before), raised(theirs, theirs_before)) << here;
    EXPECT_EQ(standing(came, ours), standing(expected, theirs)) << here;
  }
  const Report report = f.report();
  if (program.compiled)
    EXPECT_EQ(report.verdict, Verdict::Faster) << where << '\n' << report;
  else
    EXPECT_TRUE(report.verdict == Verdict::Faster || report.verdict == Verdict::Break ||
                report.records == 0)
        << where << '\n'
        << report;
}

}  // namespace graft::test
