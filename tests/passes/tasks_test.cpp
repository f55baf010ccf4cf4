// Tasks: small kernels stay on one thread, large ones are cut by what their iterations cost.
#include "passes/tasks.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

using ir::Value;

ir::Kernel kernel_of(int64_t count, int divisions) {
  ProgramBuilder b;
  auto x = b.argument({count});
  b.map(
      b.output({count}),
      [&](Value v) {
        for (int k = 0; k < divisions; ++k) v = 1.0 / (v + 2.0);
        return v;
      },
      x);
  ir::Schedule schedule = run(b.program, {});
  return std::move(std::get<ir::Kernel>(schedule.steps.front()));
}

TEST(Tasks, ASmallKernelIsOneTask) {
  EXPECT_GE(kernel_of(1000, 1).grain, 1000);
}

TEST(Tasks, DearIterationsComeInSmallerTasks) {
  int64_t cheap = kernel_of(1 << 22, 1).grain, dear = kernel_of(1 << 22, 20).grain;
  EXPECT_LT(cheap, 1 << 22);
  EXPECT_LT(dear * 8, cheap);
}

TEST(Tasks, AKernelIsNamedAfterWhatItDoes) {
  EXPECT_EQ(kernel_of(64, 1).name, "map");
}

}  // namespace
}  // namespace graft::passes
