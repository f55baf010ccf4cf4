// Where a family ends: bounds of computed indices, and what ATen does otherwise at other sizes.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

Options of_any_size() {
  Options options = at_once();
  options.sizes = graft::Sizes::Family;
  return options;
}

struct Limited {
  const char* name;
  std::function<Tensors(const Tensor&)> run;
};

/// Calls with (n, 6) tensors, of these n in turn; both sides give equal tensors or equal errors.
void expect_equal(const Limited& program, const std::vector<int64_t>& sizes) {
  auto compiled = compile(program.run, of_any_size());
  for (int64_t n : sizes) {
    const Tensor x = at::randn({n, 6});
    Tensors ours, eager;
    std::string our_error, eagers_error;
    auto call = [&](auto&& function, Tensors& to, std::string& error) {
      try {
        to = function(x);
      } catch (const c10::Error& e) {
        error = e.what_without_backtrace();
      }
    };
    call(program.run, eager, eagers_error);
    call(compiled, ours, our_error);
    compiled.wait();
    EXPECT_EQ(our_error, eagers_error) << program.name << " at " << n;
    ASSERT_EQ(ours.size(), eager.size()) << program.name << " at " << n;
    for (size_t k = 0; k < ours.size(); ++k)
      EXPECT_TRUE(same(ours[k], eager[k])) << program.name << " at " << n << ", result " << k;
  }
}

/// Calls with make(n) for these n in turn; results are eager's, but for `tolerance` (0: bits), and
/// three layouts are recorded.
Report expect_three_records(const std::function<Tensors(const Tensor&)>& run,
                            const std::vector<int64_t>& sizes,
                            const std::function<Tensor(int64_t)>& make, double tolerance = 0) {
  auto compiled = compile(run, of_any_size());
  for (int64_t n : sizes) {
    const Tensor x = make(n);
    const Tensors ours = compiled(x), eager = run(x);
    compiled.wait();
    EXPECT_TRUE(tolerance == 0 ? same(ours[0], eager[0])
                               : at::allclose(ours[0], eager[0], tolerance, tolerance / 10))
        << n;
  }
  EXPECT_EQ(compiled.report().records, 3) << compiled.report().text();
  return compiled.report();
}

/// Results that are larger than the last cache go past it: what decides only that has no border.
TEST(FamilyLimits, WaysToStoreNeedNoRecord) {
  const Tensor row = at::randn({5632});  // 32 MiB are 1489 rows
  const auto run = [row](const Tensor& x) -> Tensors { return {at::relu(x) * row}; };
  expect_three_records(run, {1100, 1300, 1700, 1474, 1482, 1488, 1489, 1490, 1501, 1521, 1530},
                       [](int64_t n) { return at::randn({n, 1}); });
}

/// Ranges whose schedules differ are divided until each size has a plan.
TEST(FamilyLimits, SizesAroundBordersNeedNoRecord) {
  const auto run = [](const Tensor& q) -> Tensors {
    const Tensor scores = at::matmul(q, q.transpose(-2, -1)) / 8;
    return {at::matmul(at::softmax(scores, -1), q)};
  };
  expect_three_records(
      run, {370, 77,  390, 512, 432, 433, 447, 448,  449, 511,
            513, 183, 184, 19,  33,  39,  129, 1025, 3,   16},
      [](int64_t n) { return at::randn({1, 2, n, 64}); }, 1e-4);
}

/// While the first records are compiled, others would only make the family wait.
TEST(FamilyLimits, ThreeRecordsAreEnough) {
  const auto run = [](const Tensor& x) -> Tensors { return {at::softmax(x * 2, -1) + x}; };
  Options options = of_any_size();
  options.async = true;
  auto compiled = compile(std::function<Tensors(const Tensor&)>(run), options);
  for (int64_t n = 200; n < 240; ++n) {
    const Tensor x = at::randn({n, n});
    EXPECT_TRUE(at::allclose(compiled(x)[0], run(x)[0], 1e-5, 1e-6)) << n;
  }
  compiled.wait();
  for (int64_t n = 140; n < 180; ++n) {
    const Tensor x = at::randn({n, n});
    EXPECT_TRUE(at::allclose(compiled(x)[0], run(x)[0], 1e-5, 1e-6)) << n;
  }
  EXPECT_EQ(compiled.report().records, 3) << compiled.report().text();
  EXPECT_GT(compiled.report().family_calls, 30) << compiled.report().text();
}

/// A child whose compile thread was lost while records waited for it.
TEST(FamilyLimits, AForkedChildGoesOn) {
  const auto run = [](const Tensor& x) -> Tensors { return {at::tanh(x * 2) + x.sum(0)}; };
  Options options = of_any_size();
  options.async = true;
  auto compiled = compile(std::function<Tensors(const Tensor&)>(run), options);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // libgomp's teams do not outlive a fork
  for (int64_t n : {30, 50, 70}) compiled(at::randn({n, n}));
  const pid_t child = fork();
  if (child == 0) {
    for (int64_t n = 80;; n = n == 99 ? 80 : n + 1) {
      compiled(at::randn({n, n}));
      if (compiled.report().family_calls > 0) _exit(0);
      usleep(10'000);
    }
  }
  int status = -1;
  for (int k = 0; k < 600 && waitpid(child, &status, WNOHANG) == 0; ++k) usleep(50'000);
  if (status == -1) kill(child, SIGKILL), waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  at::set_num_threads(threads);
}

/// Sizes that a call of ATen's takes: other numbers get into a plan by a walk through all of it.
TEST(FamilyLimits, SizesThatCallsTakeAsLists) {
  const auto run = [](const Tensor& x) -> Tensors {
    const int64_t n = x.size(2);
    return {at::_upsample_bicubic2d_aa(x + 1, {2 * n, 3 * n}, false) * 2};
  };
  const Report report =
      expect_three_records(run, {20, 30, 25, 41, 22, 33, 37, 29, 31, 43, 57, 38, 45, 23},
                           [](int64_t n) { return at::randn({1, 3, n, n}); });
  EXPECT_GT(report.family_calls, 4) << report.text();
}

/// Indices that lie within at the sizes that were recorded, and beyond at others.
TEST(FamilyLimits, ComputedIndicesAreChecked) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // with more, which index eager's error names varies
  const Tensor table = at::randn({20, 6});
  auto places = [](const Tensor& x) { return at::arange(x.size(0)); };
  const std::vector<Limited> all = {
      {"index_select",
       [=](const Tensor& x) -> Tensors { return {table.index_select(0, places(x)) + x}; }},
      {"embedding",
       [=](const Tensor& x) -> Tensors { return {at::embedding(table, places(x)) * x}; }},
      {"index", [=](const Tensor& x) -> Tensors { return {table.index({places(x)}) - x}; }},
      {"gather",
       [=](const Tensor& x) -> Tensors {
         return {table.gather(0, places(x).unsqueeze(1).expand_as(x)) + x};
       }},
      {"take",
       [=](const Tensor& x) -> Tensors { return {table.take(places(x) * 6) + x.select(1, 0)}; }},
      {"scatter",
       [=](const Tensor& x) -> Tensors {
         return {at::zeros({20, 6}).scatter(0, places(x).unsqueeze(1).expand_as(x), x) + 1};
       }},
      {"index_add",
       [=](const Tensor& x) -> Tensors {
         return {at::zeros({20, 6}).index_add(0, places(x), x) + 1};
       }},
      {"index_copy",
       [=](const Tensor& x) -> Tensors {
         return {at::ones({20, 6}).index_copy(0, places(x), x) + 1};
       }},
      {"index_put",
       [=](const Tensor& x) -> Tensors {
         return {at::ones({20, 6}).index_put({places(x)}, x) + 1};
       }},
      {"argmax",
       [=](const Tensor& x) -> Tensors {
         const Tensor last =
             (at::arange(x.size(0)).unsqueeze(1) + at::zeros({6}, at::kLong)).argmax(0);
         return {table.index_select(0, last) + x.select(0, 0)};
       }},
      {"where",
       [=](const Tensor& x) -> Tensors {
         return {table.index_select(0, at::where(x.select(1, 0) > -9, places(x), 0)) + x};
       }},
      {"behind the start",
       [=](const Tensor& x) -> Tensors { return {table.index_select(0, 19 - places(x)) + x}; }},
  };
  for (const Limited& program : all)
    expect_equal(program, {9, 12, 14, 15, 16, 13, 20, 19, 21, 24, 33, 18, 40});
  at::set_num_threads(threads);
}

TEST(FamilyLimits, ShiftsAndDiagonalsOfTheOtherKind) {
  expect_equal(
      {"roll by a size", [](const Tensor& x) -> Tensors { return {x.roll(x.size(0), 1) * 2}; }},
      {12, 18, 24, 30, 20, 21, 22, 23, 4, 5, 3, 2});
  expect_equal(
      {"roll back", [](const Tensor& x) -> Tensors { return {x.roll(1 - x.size(0), 1) * 2}; }},
      {2, 3, 4, 5, 6, 7, 8, 13, 20});
  expect_equal(
      {"roll by one", [](const Tensor& x) -> Tensors { return {x.roll(1, 0) * 2, x.roll(-1, 0)}; }},
      {7, 8, 10, 13, 14, 2, 1, 3, 9});
  expect_equal({"diagonal", [](const Tensor& x) -> Tensors { return {x.diagonal(-20) * 2}; }},
               {15, 16, 18, 19, 22, 24, 25, 23, 30, 17});
  expect_equal({"diagonal above",
                [](const Tensor& x) -> Tensors { return {x.diagonal(x.size(0) - 9) * 2}; }},
               {16, 17, 18, 20, 12, 11, 9, 8, 7});
}

TEST(FamilyLimits, DistancesOfFewRowsAreNoProducts) {
  expect_equal({"distances", [](const Tensor& x) -> Tensors { return {at::cdist(x, x), x * 2}; }},
               {40, 41, 50, 60, 70, 33, 20, 19, 25, 26});
}

/// The compiling thread has the flag of whoever starts it, and compiles for others too.
TEST(FamilyLimits, SubnormalNumbersAreTheCallersOwn) {
  if (!at::globalContext().setFlushDenormal(true)) GTEST_SKIP() << "cannot be set here";
  at::globalContext().setFlushDenormal(false);
  for (int draw = 0; draw < 8; ++draw) {
    const double small = 1e-38 * (1 + draw * 1e-3);
    auto flushed = compile([=](const Tensor& x) { return x * (1 + small) + 2; }, at_once());
    auto plain = compile([=](const Tensor& x) { return at::where(x > 50, small, x); }, at_once());
    at::globalContext().setFlushDenormal(true);
    flushed(at::randn({17}));
    at::globalContext().setFlushDenormal(false);
    Tensor x = at::randn({17});
    for (int call = 0; call < 6; ++call) {
      if (call > 3) x[3] = 60;
      EXPECT_TRUE(same(plain(x), at::where(x > 50, small, x))) << draw << " " << call;
      plain.wait();
    }
  }
}

}  // namespace
}  // namespace graft::test
