// Vector loops whose extent is part of the kernel's structure, against those of any size, bit for
// bit: written out or not, with masks or without, they do the same.
#include <gtest/gtest.h>

#include "codegen/kernels.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::TreeNode;
using ir::Value;

/// Memory that the kernel left, as bytes.
std::vector<std::string> memory_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> all;
  for (const at::Tensor& t : tensors)
    all.emplace_back(static_cast<const char*>(t.data_ptr()), t.nbytes());
  return all;
}

constexpr int64_t kGroups = 5, kSteps = 7;

/// `make`: of (maker, group variable, lanes, extent of lanes), the same whenever it is called.
template <class Make>
void check(const char* what, Make make) {
  for (int64_t size : {16, 32, 64, 128, 256})
    for (int lanes : {16, 8, 4}) {
      ir::Target target = codegen::host_target(1);
      if (lanes > target.lanes) continue;
      target.lanes = lanes;
      std::vector<std::string> left[2];
      for (bool any : {false, true}) {
        KernelMaker k;
        const int group = k.serial(kGroups), lane = k.vector(size);
        k.body(KernelMaker::loop(group, make(k, group, lane, size)));
        k.kernel.any_size = any;
        if (!any) {
          EXPECT_EQ(difference(k, 1e-5, target), "") << what << size << " " << lanes;
        }
        run_compiled(k.kernel, k.tensors, target);
        left[any ? 1 : 0] = memory_of(k.tensors);
      }
      EXPECT_EQ(left[0], left[1]) << what << ", " << size << ", " << lanes << " lanes";
    }
}

/// Sums and products of groups, and a map beside them, of extents that are part of the structure.
TEST(ShortLoops, SumsAndMapsOfGroups) {
  for (int64_t groups : {2, 19})
    for (int64_t size : {8, 16, 32, 48, 64, 128, 256, 512})
      for (ScalarType type : {at::kFloat, at::kBFloat16, at::kByte, at::kDouble})
        for (bool whole : {false, true}) {
          KernelMaker k;
          const ir::View x = k.storage(tame({groups, size}, type, 3)),
                         scale = k.storage(tame({groups, 1}, at::kFloat, 4));
          const std::vector<int64_t> sizes = {whole ? 1 : groups, 1};
          StatementBuilder s({groups, size}), map({groups, size});
          ir::Statement sum =
              s.store(k.storage(at::zeros(sizes)),
                      s.reduce(ReduceOp::Sum, s.load(x).to(at::kFloat) * s.load(scale),
                               {whole, true}, at::kFloat));
          ir::Statement also = map.store(k.storage(at::zeros({groups, size})),
                                         map.load(x).to(at::kFloat) - map.load(scale));
          const int serial = k.variable(groups, ir::LoopKind::Serial), lanes = k.vector(size);
          k.body(KernelMaker::loop(
              serial, KernelMaker::loop(lanes, k.place(std::move(sum), {serial, lanes}),
                                        k.place(std::move(also), {serial, lanes}))));
          EXPECT_EQ(difference(k, 1e-5), "") << groups << " " << size << c10::toString(type);
        }
}

TEST(ShortLoops, LoopsInside) {
  check("a sum in each lane", [](KernelMaker& k, int group, int lane, int64_t size) {
    const int step = k.serial(kSteps);
    StatementBuilder s({kGroups, size, kSteps});
    const Value x = s.load(k.storage(tame({kGroups, size, kSteps}, at::kFloat, 1)));
    ir::Statement sum =
        s.store(k.storage(at::zeros({kGroups, size, 1})),
                s.reduce(ReduceOp::Sum, x, {false, false, true}, ScalarType::Float));
    return KernelMaker::loop(lane,
                             KernelMaker::loop(step, k.place(std::move(sum), {group, lane, step})));
  });
  check("places in an array", [](KernelMaker& k, int group, int lane, int64_t size) {
    const int step = k.serial(kSteps);
    StatementBuilder s({kGroups, kSteps, size});
    const Value x = s.load(k.storage(tame({kGroups, kSteps, size}, at::kFloat, 2)));
    ir::Statement place =
        s.store(k.storage(at::zeros({kGroups, 1, size}, at::kLong)),
                s.reduce(ReduceOp::ArgMax, x, {false, true, false}, ScalarType::Long));
    return KernelMaker::loop(
        step, KernelMaker::loop(lane, k.place(std::move(place), {group, step, lane})));
  });
}

TEST(ShortLoops, Accesses) {
  check("stores side by side, reversed loads", [](KernelMaker& k, int group, int lane,
                                                  int64_t size) {
    const ir::View out = k.storage(at::zeros({kGroups, size, 2})),
                   in = k.storage(tame({kGroups, size}, at::kFloat, 3));
    TreeNode nodes[2];
    for (int64_t part : {0, 1}) {
      StatementBuilder s({kGroups, size});
      const Value x =
          part == 0 ? s.load(in)
                    : s.load(ir::Access{in.storage, ScalarType::Float, size - 1, {size, -1}, {}});
      nodes[part] = k.place(
          s.store(ir::Access{out.storage, ScalarType::Float, part, {2 * size, 2}, {}}, x * 3.0),
          {group, lane});
    }
    return KernelMaker::loop(lane, std::move(nodes[0]), std::move(nodes[1]));
  });
}

TEST(ShortLoops, NarrowNumbers) {
  for (bool is_near : {false, true})
    check("bf16", [&](KernelMaker& k, int group, int lane, int64_t size) {
      StatementBuilder s({kGroups, size});
      const Value x =
          s.load(k.storage(tame({kGroups, size}, at::kBFloat16, 4))).to(ScalarType::Float);
      const Value y = is_near ? ir::call(ir::Routine::VectorTanh, x) : x + x * 0.3;
      return KernelMaker::loop(
          lane,
          k.place(s.store(k.storage(at::zeros({kGroups, size}, at::kBFloat16)), y), {group, lane}));
    });
}

TEST(ShortLoops, CallsOfArrayRoutines) {
  check("a logarithm of arrays", [](KernelMaker& k, int group, int lane, int64_t size) {
    StatementBuilder s({kGroups, size});
    const Value x = s.load(k.storage(tame({kGroups, size}, at::kFloat, 5)));
    const Value y = ir::call(ir::Routine::ArrayLog, x * x + 1.0) - x;
    return KernelMaker::loop(
        lane, k.place(s.store(k.storage(at::zeros({kGroups, size})), y), {group, lane}));
  });
}

}  // namespace
}  // namespace graft::test
