// Results, what outlives the run, and version counters.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <map>

#include "recording.h"

namespace graft::record {
namespace {

class Results : public ::testing::Test {
 protected:
  at::NoGradGuard no_grad;
  at::Tensor x = at::randn({4, 8});
  at::Tensor weight = at::randn({8});
};

TEST_F(Results, ArgumentsAndCapturesAreThemselves) {
  const Trace trace = trace_of({x}, [&] {
    const at::Tensor y = x * weight;
    return Tensors{x, weight, y, y, y.t(), x.slice(0, 1), at::Tensor()};
  });
  expect_whole(trace);
  ASSERT_EQ(trace.results.size(), 7U);
  EXPECT_EQ(trace.results[0].argument, 0);
  EXPECT_EQ(trace.results[1].captured, 0);
  EXPECT_EQ(trace.results[2].argument, -1);
  EXPECT_EQ(trace.results[2].captured, -1);
  EXPECT_EQ(trace.results[2].same_as, -1);
  EXPECT_EQ(trace.results[3].same_as, 2);
  EXPECT_EQ(trace.results[4].same_as, -1);
  EXPECT_EQ(trace.tensors[trace.results[4].tensor].storage,
            trace.tensors[trace.results[2].tensor].storage);
  EXPECT_EQ(trace.results[5].argument, -1);
  EXPECT_EQ(trace.tensors[trace.results[5].tensor].storage, 0);
  EXPECT_EQ(trace.tensors[trace.results[5].tensor].byte_offset, 8 * 4);
  EXPECT_FALSE(trace.results[6].defined);
}

TEST_F(Results, OnlyWhatTheResultReachesEscapes) {
  const Trace trace = trace_of({x}, [&] {
    const at::Tensor inner = x + 1;
    const at::Tensor outer = inner * 2;
    return Tensors{outer.view({8, 4})};
  });
  expect_whole(trace);
  ASSERT_EQ(trace.storages.size(), 3U);
  EXPECT_FALSE(trace.storages[1].escapes);
  EXPECT_TRUE(trace.storages[2].escapes);
}

TEST_F(Results, AKeptTensorIsASideEffect) {
  at::Tensor state;
  Trace trace = trace_of({x}, [&] {
    state = x + 1;
    return Tensors{x * 2};
  });
  expect_broken(trace, {"aten::add.Scalar", "side effect", "copy_"});
  trace = trace_of({x}, [&] {
    state = x + 1;
    return Tensors{state};  // the very tensor that is kept
  });
  expect_broken(trace, {"aten::add.Scalar", "side effect"});
  std::map<int, at::Tensor> cache;
  trace = trace_of({x}, [&] {
    const at::Tensor y = x.neg();
    cache[1] = y.slice(0, 1);
    return Tensors{y};
  });
  expect_broken(trace, {"aten::neg", "side effect"});
}

TEST_F(Results, AViewKeepsItsBaseAndThatIsFine) {
  const Trace trace = trace_of({x}, [&] { return Tensors{(x + 1).t(), x.exp().slice(0, 1).t()}; });
  expect_whole(trace);
}

TEST_F(Results, VersionBumpsAreOnePerCounter) {
  const at::Tensor y = at::randn({4, 8});
  const at::Tensor view = y.slice(0, 1);
  const at::Tensor untouched = at::randn({2});
  const Trace trace = trace_of({untouched, y, view, x}, [&] {
    view.add_(untouched.sum());
    x.mul_(2);
    return Tensors{};
  });
  expect_whole(trace);
  EXPECT_EQ(trace.bumped, (std::vector<int>{1, 3}));
}

TEST_F(Results, InferenceTensorsHaveNoVersion) {
  const c10::InferenceMode mode;
  const at::Tensor y = at::randn({3});
  const Trace trace = trace_of({x, y}, [&] {
    y.add_(1);
    x.add_(1);  // a normal tensor has one in inference mode as well
    return Tensors{y};
  });
  expect_whole(trace);
  EXPECT_EQ(trace.bumped, std::vector<int>{0});
  EXPECT_EQ(trace.results[0].argument, 1);
}

TEST_F(Results, TheRunIsARealRun) {
  at::Tensor result;
  const Trace trace =
      record({x}, [&] { result = x * 3 + weight; }, [&] { return Tensors{result}; });
  expect_whole(trace);
  EXPECT_TRUE(result.equal(x * 3 + weight));
}

TEST_F(Results, UndefinedArgumentsKeepTheirPlace) {
  const Trace trace = trace_of({at::Tensor(), x}, [&] { return Tensors{x + 1}; });
  expect_whole(trace);
  ASSERT_EQ(trace.arguments.size(), 2U);
  EXPECT_EQ(trace.tensors[trace.arguments[0]].storage, -1);
  EXPECT_EQ(trace.tensors[trace.arguments[1]].storage, 0);
  EXPECT_EQ(trace.storages[0].first, 1);
}

}  // namespace
}  // namespace graft::record
