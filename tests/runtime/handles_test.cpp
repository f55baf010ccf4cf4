// Arguments that a function changes as objects: other tensors, sizes, numbers. A plan changes
// memory only, so these stay eager, and the report names the argument.
#include <map>
#include <optional>
#include <span>
#include <string>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

/// Calls compiled and plain side by side, with arguments made anew by `make`, and wants the same
/// results and the same arguments afterwards; then a break that says `why`.
template <class F, class Make, class See>
void expect_break(const F& function, const Make& make, const See& see, const std::string& why) {
  auto f = compile(function, at_once());
  for (int i = 0; i < 4; ++i) {
    auto ours = make(i), theirs = make(i);
    std::apply(f, ours);
    std::apply(function, theirs);
    see(ours, theirs);
  }
  EXPECT_EQ(f.report().verdict, Verdict::Break) << f.explain();
  EXPECT_NE(f.report().reason.find(why), std::string::npos) << f.report().reason;
}

at::Tensor numbers(int from, at::IntArrayRef sizes = {2, 3}) {
  return at::arange(from, from + c10::multiply_integers(sizes), at::kFloat).view(sizes);
}

TEST(Handles, AnArgumentReassignedIsABreak) {
  auto make = [](int i) { return std::tuple(numbers(i), numbers(i + 10)); };
  auto see = [](auto& ours, auto& theirs) {
    EXPECT_TRUE(same(std::get<0>(ours), std::get<0>(theirs)));
    EXPECT_TRUE(same(std::get<1>(ours), std::get<1>(theirs)));
  };
  const std::string why = "argument 0, a tensor that the caller passes by reference";
  expect_break(
      [](at::Tensor& a, const at::Tensor& x) {
        auto y = a * 2;
        a = x;
        return y;
      },
      make, see, why);
  expect_break([](at::Tensor& a, at::Tensor& b) { std::swap(a, b); }, make, see, why);
  expect_break([](at::Tensor& a, const at::Tensor& x) { a = x + 1; }, make, see, why);
  expect_break([](at::Tensor& a, const at::Tensor& x) { a = (a + x).view(-1); }, make, see, why);
  expect_break([](at::Tensor& a, const at::Tensor&) { a = a.view(-1); }, make, see, why);
  expect_break([](at::Tensor& a, const at::Tensor& x) { a = a.detach(), a.add_(x); }, make, see,
               why);
  expect_break([](at::Tensor& a, const at::Tensor&) { a.reset(); }, make,
               [](auto& ours, auto& theirs) {
                 EXPECT_FALSE(std::get<0>(ours).defined());
                 EXPECT_FALSE(std::get<0>(theirs).defined());
               },
               why);
  expect_break([](const at::Tensor& x, at::Tensor& a) { a = x * 2; }, make, see,
               "argument 1, a tensor that the caller passes by reference");
}

TEST(Handles, ContainersThatChangeAreABreak) {
  auto make = [](int i) {
    return std::tuple(std::vector<at::Tensor>{numbers(i), numbers(i + 1)}, numbers(i + 2));
  };
  auto see = [](auto& ours, auto& theirs) {
    auto &a = std::get<0>(ours), &b = std::get<0>(theirs);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same(a[i], b[i]));
  };
  using List = std::vector<at::Tensor>;
  const std::string element = "argument 0, a tensor", size = "argument 0, a number or the size";
  expect_break([](List& all, const at::Tensor& x) { all[1] = all[0] + x; }, make, see, element);
  expect_break([](List& all, const at::Tensor&) { std::swap(all[0], all[1]); }, make, see, element);
  expect_break(
      [](List& all, const at::Tensor& x) {
        auto sum = all[0] + x;
        all.clear();
        all.shrink_to_fit();
        return sum;
      },
      make, see, size);
  expect_break([](List& all, const at::Tensor& x) { all.push_back(x * 2); }, make, see, size);
  expect_break(
      [](List& all, const at::Tensor& x) {
        for (int i = 0; i < 100; ++i) all.push_back(x);
        return all[50] + 1;
      },
      make, see, size);
  // A view of the caller's own tensors, by value.
  auto f = compile([](std::span<at::Tensor> all) { all[0] = all[1] * 2; }, at_once());
  for (int i = 0; i < 4; ++i) {
    List all{numbers(i), numbers(i + 1)};
    f(std::span<at::Tensor>(all));
    EXPECT_TRUE(same(all[0], all[1] * 2));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Break) << f.report();
}

TEST(Handles, OptionalsMapsAndNumbersThatChangeAreABreak) {
  using Optional = std::optional<at::Tensor>;
  auto see = [](auto& ours, auto& theirs) {
    if constexpr (std::is_same_v<std::decay_t<decltype(std::get<0>(ours))>, Optional>) {
      ASSERT_EQ(std::get<0>(ours).has_value(), std::get<0>(theirs).has_value());
    } else {
      EXPECT_EQ(std::get<0>(ours).size(), std::get<0>(theirs).size());
    }
  };
  expect_break([](Optional& slot, const at::Tensor& x) { slot = x + 1; },
               [](int i) { return std::tuple(Optional(), numbers(i)); }, see,
               "argument 0, a number or the size of a container");
  expect_break([](Optional& slot, const at::Tensor& x) { slot.reset(), x.mul(2); },
               [](int i) { return std::tuple(Optional(numbers(i)), numbers(i)); }, see,
               "argument 0, a number or the size of a container");
  using Map = std::map<std::string, at::Tensor>;
  expect_break([](Map& map, const at::Tensor& x) { map["new"] = x + 1; },
               [](int i) { return std::tuple(Map{{"a", numbers(i)}}, numbers(i)); }, see,
               "argument 0, a number or the size of a container");
  expect_break([](std::string& text, const at::Tensor& x) { text += "!", x.mul(2); },
               [](int i) { return std::tuple(std::string("text"), numbers(i)); }, see,
               "argument 0, a number or the size of a container");
  auto count = [](int64_t& n, const at::Tensor& x) {
    n = x.numel();
    return x * 2;
  };
  auto f = compile(count, at_once());
  for (int i = 0; i < 4; ++i) {
    int64_t n = 0;
    EXPECT_TRUE(same(f(n, numbers(i)), numbers(i) * 2));
    EXPECT_EQ(n, 6);
  }
  EXPECT_EQ(f.report().verdict, Verdict::Break);
  EXPECT_NE(f.report().reason.find("argument 0"), std::string::npos) << f.report();
}

TEST(Handles, WhatIsChangedOnlyLaterIsAMismatch) {
  bool replace = false;
  auto f = compile(
      [&](at::Tensor& a) {
        auto y = a * 2;
        if (replace) a = y;
        return y;
      },
      at_once());
  at::Tensor a = numbers(0);
  f(a);
  replace = true;
  f(a);
  EXPECT_TRUE(same(a, numbers(0) * 2));
  EXPECT_EQ(f.report().verdict, Verdict::Mismatch) << f.report();
  EXPECT_NE(f.report().reason.find("argument 0"), std::string::npos) << f.report();
  EXPECT_EQ(f.report().reason.find("report it"), std::string::npos) << f.report();
}

TEST(Handles, WhatOnlyMemoryChangesIsCompiled) {
  auto f = compile(
      [](std::vector<at::Tensor>& all, std::optional<at::Tensor>& maybe, at::Tensor& x) {
        for (at::Tensor& t : all) t.add_(x);
        maybe->mul_(2);
        auto copy = x;
        copy = copy + 1;
        x.copy_(copy);
      },
      at_once());
  std::vector<at::Tensor> all{numbers(0), numbers(1)};
  std::optional<at::Tensor> maybe = numbers(1);
  at::Tensor x = numbers(0);
  for (int i = 0; i < 4; ++i) f(all, maybe, x);
  EXPECT_TRUE(same(x, numbers(4)));
  EXPECT_TRUE(same(all[0], numbers(0) * 5 + 6));
  EXPECT_TRUE(same(*maybe, numbers(1) * 16));
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

TEST(Handles, WhatTheFunctionKeepsIsABreak) {
  at::Tensor state = numbers(0), last;
  auto sums = compile(
      [&](const at::Tensor& x) {
        state = state + x;
        return state * 2;
      },
      at_once());
  auto keeps = compile(
      [&](const at::Tensor& x) {
        last = x;
        return x * 2;
      },
      at_once());
  at::Tensor expected = state.clone();
  for (int i = 0; i < 5; ++i) {
    at::Tensor x = numbers(i);
    expected = expected + x;
    EXPECT_TRUE(same(sums(x), expected * 2)) << i;
    keeps(x);
    EXPECT_TRUE(last.is_same(x)) << i;
  }
  EXPECT_EQ(sums.report().verdict, Verdict::Break) << sums.report();
  EXPECT_EQ(keeps.report().verdict, Verdict::Break) << keeps.report();
  EXPECT_NE(keeps.report().reason.find("keeps argument 0"), std::string::npos) << keeps.report();
}

/// A view or an alias of an argument, and the base of a result that is a view.
TEST(Handles, WhatTheFunctionKeepsInAnotherFormIsABreak) {
  at::Tensor last;
  const std::pair<const char*, std::function<at::Tensor(const at::Tensor&)>> programs[] = {
      {"detach", [&](const at::Tensor& x) { return last = x.detach(), x * 2; }},
      {"variable_data", [&](const at::Tensor& x) { return last = x.variable_data(), x * 2; }},
      {"slice", [&](const at::Tensor& x) { return last = x.slice(0, 1), x * 2; }},
      {"argument and its view", [&](const at::Tensor& x) { return last = x, x.t(); }},
      {"alias and the argument's view",
       [&](const at::Tensor& x) { return last = x.detach(), x.t(); }},
      {"base of a view",
       [&](const at::Tensor& x) {
         at::Tensor y = x * 2;
         last = y;
         return y.t();
       }},
  };
  for (const auto& [name, program] : programs) {
    auto f = compile(program, at_once());
    for (int i = 0; i < 5; ++i) {
      at::Tensor x = numbers(i, {3, 3});
      at::Tensor y = f(x);
      const at::Tensor kept = last;
      EXPECT_TRUE(same(y, program(x))) << name;
      EXPECT_TRUE(same(kept, last)) << name << " " << i;
    }
    EXPECT_EQ(f.report().verdict, Verdict::Break) << name << " " << f.report();
    last.reset();
  }
  // Nothing is kept: views of arguments and of what was made are results as any.
  auto views = compile(
      [](const at::Tensor& x) {
        at::Tensor y = x * 2;
        return std::vector<at::Tensor>{x.t(), y.t(), y, x.slice(0, 1), x.detach()};
      },
      at_once());
  for (int i = 0; i < 5; ++i) views(numbers(i, {3, 3}));
  EXPECT_NE(views.report().verdict, Verdict::Break) << views.report();
}

TEST(Handles, MetadataChangedInPlaceIsABreak) {
  auto check = [](const char* what, auto change) {
    auto f = compile(change, at_once());
    for (int i = 0; i < 4; ++i) {
      at::Tensor ours = numbers(i, {3, 3}), theirs = numbers(i, {3, 3});
      f(ours);
      change(theirs);
      EXPECT_TRUE(same(ours, theirs)) << what;
      EXPECT_EQ(ours.requires_grad(), theirs.requires_grad()) << what;
    }
    EXPECT_EQ(f.report().verdict, Verdict::Break) << what << f.report();
  };
  check("t_", [](at::Tensor& a) { a.add_(1), a.t_(); });
  check("unsqueeze_", [](at::Tensor& a) { a.add_(1), a.unsqueeze_(0); });
  check("resize_", [](at::Tensor& a) { a.add_(1), a.resize_({2, 2}); });
  check("set_", [](at::Tensor& a) { a.set_(a.clone()), a.add_(1); });
  check("set_data", [](at::Tensor& a) { a.set_data(a * 2); });
  check("requires_grad_", [](at::Tensor& a) { a.add_(1), a.requires_grad_(); });
  check("swapdims_", [](at::Tensor& a) { a.swapdims_(0, 1), a.add_(1); });
}

/// Each argument comes with a gradient of its own.
TEST(Handles, GradientsOfArgumentsAreRead) {
  auto step = [](at::Tensor& p) {
    at::NoGradGuard no_grad;
    p.sub_(p.grad() * 0.5);
  };
  auto f = compile(step, at_once());
  std::vector<at::Tensor> ours, theirs;
  for (int i = 0; i < 3; ++i)
    for (auto* list : {&ours, &theirs}) {
      list->push_back(numbers(i).requires_grad_());
      list->back().mutable_grad() = numbers(10 * i);
    }
  for (int i : {0, 0, 0, 1, 2, 1}) {
    f(ours[static_cast<size_t>(i)]);
    step(theirs[static_cast<size_t>(i)]);
  }
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(same(ours[i].detach(), theirs[i].detach())) << i;
  EXPECT_TRUE(was_compiled(f.report())) << f.report();

  auto zero =
      compile([](at::Tensor& p) { p.detach().mul_(2), p.mutable_grad().reset(); }, at_once());
  for (int i = 0; i < 4; ++i) {
    at::Tensor p = numbers(i).requires_grad_();
    p.mutable_grad() = numbers(0);
    zero(p);
    EXPECT_FALSE(p.grad().defined()) << i;
  }
  EXPECT_TRUE(was_compiled(zero.report())) << zero.report();
}

TEST(Handles, ReferencesReturnedBecomeTensors) {
  auto f = compile([](at::Tensor& values, at::Tensor& places,
                      const at::Tensor& x) { return at::max_out(values, places, x, 1); },
                   at_once());
  auto tied = compile(
      [](at::Tensor& a, at::Tensor& b) {
        a.add_(1);
        return std::tie(a, b);
      },
      at_once());
  for (int i = 0; i < 4; ++i) {
    at::Tensor x = numbers(i), values = at::empty({2}), places = at::empty({2}, at::kLong);
    auto [v, p] = f(values, places, x);
    EXPECT_TRUE(v.is_same(values) && p.is_same(places));
    EXPECT_TRUE(same(values, std::get<0>(x.max(1))));
    at::Tensor a = numbers(i), b = numbers(i);
    auto [first, second] = tied(a, b);
    EXPECT_TRUE(a.defined() && first.is_same(a) && second.is_same(b));
    EXPECT_TRUE(same(a, numbers(i + 1)));
  }
  EXPECT_EQ(tied.report().verdict, Verdict::Faster) << tied.report();
}

// A plan returns the first call's numbers and strings: they must not point into that call.
static_assert(!detail::Flatten<std::span<at::Tensor>>::owns);
static_assert(!detail::Flatten<at::IntArrayRef>::owns);
static_assert(!detail::Flatten<std::vector<std::string_view>>::owns);
static_assert(detail::Flatten<std::array<at::Tensor, 2>>::owns);
static_assert(detail::Flatten<std::array<double, 2>>::owns);
static_assert(detail::Flatten<std::optional<std::vector<std::string>>>::owns);

}  // namespace
}  // namespace graft::test
