// Seeds and states that the function itself gives to random generators.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>

#include <mutex>
#include <thread>

#include "recording.h"

namespace graft::record {
namespace {

class Seeds : public ::testing::Test {
 protected:
  at::NoGradGuard no_grad;
  at::Tensor x = at::ones({3});
  at::Generator standard = at::detail::getDefaultCPUGenerator();

  static void seed(at::Generator generator, uint64_t number) {
    std::lock_guard lock(generator.mutex());
    generator.set_current_seed(number);
  }
  static at::Tensor state(const at::Generator& generator) { return generator.get_state(); }
};

TEST_F(Seeds, SetInsideTheFunction) {
  const auto seeded = [&] {
    at::manual_seed(7);
    return Tensors{at::rand({3}) * x};
  };
  expect_broken(trace_of({x}, seeded),
                {"aten::uniform_", "default random generator", "seed it before"});
  // As the caller does just before: nothing looks changed.
  at::manual_seed(7);
  expect_broken(trace_of({x}, seeded), {"seed it before"});
  expect_broken(trace_of({x},
                         [&] {
                           const at::Tensor noise = at::rand({3});
                           at::manual_seed(7);
                           return Tensors{noise + at::rand({3})};
                         }),
                {"seed it before"});
}

TEST_F(Seeds, SetAndNothingDrawn) {
  const auto seeds_only = [&] {
    at::manual_seed(7);
    return Tensors{x * 2};
  };
  at::rand({1});
  expect_broken(trace_of({x}, seeds_only), {"default random generator"});
  at::manual_seed(7);
  expect_broken(trace_of({x}, seeds_only), {"default random generator"});
  expect_broken(trace_of({x},
                         [&] {
                           const at::Tensor noise = at::rand({3});
                           at::manual_seed(7);
                           return Tensors{noise * x};
                         }),
                {"default random generator"});
}

TEST_F(Seeds, AStateThatIsPutBack) {
  expect_broken(trace_of({x},
                         [&] {
                           const at::Tensor before = state(standard);
                           const at::Tensor noise = at::rand({3});
                           standard.set_state(before);
                           return Tensors{noise + at::rand({3})};
                         }),
                {"a state inside the function"});
  expect_broken(trace_of({x},
                         [&] {
                           const at::Tensor before = state(standard);
                           const at::Tensor noise = at::rand({3});
                           standard.set_state(before);
                           return Tensors{noise * x};
                         }),
                {"a state inside the function"});
}

TEST_F(Seeds, SetByTheCaller) {
  at::manual_seed(7);
  const at::Tensor expected = at::rand({3}), after = at::rand({3});
  at::manual_seed(7);
  const at::Tensor drawn = at::empty({3});
  expect_whole(trace_of({x}, [&] { return Tensors{drawn.copy_(at::rand({3}))}; }));
  EXPECT_TRUE(drawn.equal(expected));
  EXPECT_TRUE(at::rand({3}).equal(after));
  at::manual_seed(7);
  const at::Tensor before = state(standard);
  expect_whole(trace_of({x}, [&] { return Tensors{x * 2}; }));
  EXPECT_TRUE(state(standard).equal(before)) << "a record leaves no trace in the generator";
  EXPECT_TRUE(at::rand({3}).equal(expected));
}

TEST_F(Seeds, NumbersThatAnotherThreadDraws) {
  expect_whole(trace_of({x}, [&] {
    const at::Tensor noise = at::rand({3});
    std::thread([] { at::rand({5000}); }).join();
    return Tensors{noise + at::rand({3})};
  }));
  expect_whole(trace_of({x}, [&] {
    std::thread([] { at::rand({7}); }).join();
    return Tensors{x * 2};
  }));
}

TEST_F(Seeds, AGeneratorOfTheCallers) {
  at::Generator own = at::detail::createCPUGenerator(7);
  const auto draw = [&] { return Tensors{at::rand({3}, own) * x}; };
  // Who seeded it is not known yet; at the next record it is.
  expect_broken(trace_of({x}, draw), {"aten::uniform_", "made or seeded inside"});
  expect_whole(trace_of({x}, draw));
  seed(own, 7);
  expect_whole(trace_of({x}, draw));
  const auto seeded = [&] {
    seed(own, 7);
    return draw();
  };
  for (int i = 0; i < 2; ++i) {
    expect_broken(trace_of({x}, seeded), {"seed it before"});
    seed(own, 7);
  }
}

TEST_F(Seeds, AGeneratorMadeInside) {
  const auto made = [&] {
    const at::Generator own = at::detail::createCPUGenerator(7);
    return Tensors{at::rand({3}, own) * x};
  };
  for (int i = 0; i < 3; ++i) expect_broken(trace_of({x}, made), {"made or seeded inside"});
  expect_broken(trace_of({x},
                         [&] {
                           at::rand({1});
                           const at::Generator copy = standard.clone();
                           return Tensors{at::rand({3}, copy) * x};
                         }),
                {"gone after the call"});
}

TEST_F(Seeds, AGeneratorThatTheCallerHasLocked) {
  std::unique_lock lock(standard.mutex());
  expect_whole(trace_of({x}, [&] { return Tensors{x * 2}; }));
}

}  // namespace
}  // namespace graft::record
