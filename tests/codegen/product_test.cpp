// Matrix products as routines: every border of a tile, panels of columns, operands of any strides.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/kernels.h"
#include "ir/product.h"

namespace graft::test {
namespace {

ir::Access over(const ir::View& view, std::vector<int64_t> strides) {
  const auto element = static_cast<int64_t>(c10::elementSize(view.dtype));
  return {view.storage, view.dtype, view.byte_offset / element, std::move(strides), {}};
}

/// batch * rows of `left` times `right`, whose columns are in panels of `panel` (0: in none).
/// `rounded`: factors are rounded to bf16. `pairs`: terms of the panels lie in pairs.
KernelMaker product(const at::Tensor& left, const at::Tensor& right, int64_t panel = 0,
                    bool rounded = false, bool pairs = false) {
  const int64_t batch = left.size(0), rows = left.size(1), terms = left.size(2),
                columns = right.size(2);
  KernelMaker k;
  const ir::View a = k.storage(left), out = k.storage(at::zeros({batch, rows, columns}));
  at::Tensor operand = right;
  if (panel > 0)
    operand = right.reshape({batch, terms, columns / panel, panel}).transpose(1, 2).contiguous();
  if (pairs)
    operand =
        operand.reshape({batch, columns / panel, terms / 2, 2, panel}).transpose(3, 4).contiguous();
  const ir::View b = k.storage(operand);
  std::vector<int64_t> axes{batch, rows}, l{a.strides[0], a.strides[1]}, r{b.strides[0], 0},
      o{out.strides[0], out.strides[1]};
  std::vector<int> vars{k.range(batch), k.serial(rows)};
  if (panel > 0) {
    axes.push_back(columns / panel), vars.push_back(k.serial(columns / panel));
    l.push_back(0), r.push_back(b.strides[1]), o.push_back(panel);
  }
  const int64_t wide = panel > 0 ? panel : columns;
  axes.push_back(wide), vars.push_back(k.serial(wide));
  l.push_back(0), r.push_back(pairs ? 2 : 1), o.push_back(1);
  const size_t first_reduced = axes.size();
  const int64_t steps = pairs ? terms / 2 : terms;
  axes.push_back(steps), vars.push_back(k.serial(steps));
  l.push_back(a.strides[2] * (terms / steps)), r.push_back(b.strides[panel > 0 ? 2 : 1]);
  o.push_back(0);
  if (pairs) {
    axes.push_back(2), vars.push_back(k.serial(2));
    l.push_back(a.strides[2]), r.push_back(1), o.push_back(0);
  }
  std::vector<bool> reduced(axes.size(), false);
  std::fill(reduced.begin() + static_cast<std::ptrdiff_t>(first_reduced), reduced.end(), true);
  ir::StatementBuilder s(axes);
  const auto factor = [&](ir::Access access) {
    const ir::Value value = s.load(std::move(access));
    return (rounded ? value.to(c10::kBFloat16) : value).to(c10::kFloat);
  };
  const ir::Value x = factor(over(a, l)), y = factor(over(b, r));
  const ir::Value sum = s.reduce(ir::ReduceOp::Sum, x * y, reduced, c10::ScalarType::Float);
  ir::Statement statement = s.store(over(out, o), sum);
  statement.product = true;
  EXPECT_TRUE(ir::is_product(statement));
  ir::TreeNode node = k.place(std::move(statement), vars);
  for (size_t v = vars.size(); v-- > 1;) node = KernelMaker::loop(vars[v], std::move(node));
  k.body(std::move(node));
  k.kernel.placed.back().product = true;
  return k;
}

TEST(Product, AtEveryBorderOfATile) {
  for (int64_t rows : {1, 7, 8, 9, 16, 23})
    for (int64_t columns : {1, 15, 16, 17, 31, 32, 33, 64, 70})
      for (int64_t terms : {1, 5, 128, 129, 300}) {
        const at::Tensor a = tame({2, rows, terms}, at::kFloat, 3),
                         b = tame({2, terms, columns}, at::kFloat, 5);
        EXPECT_EQ(difference(product(a, b), 1e-4), "")
            << rows << " rows, " << columns << " columns, " << terms << " terms";
      }
}

TEST(Product, OfColumnsInPanels) {
  for (int64_t panel : {4, 32, 40})
    for (int64_t panels : {1, 2, 3}) {
      const at::Tensor a = tame({3, 12, 37}, at::kFloat),
                       b = tame({3, 37, panel * panels}, at::kFloat, 4);
      EXPECT_EQ(difference(product(a, b, panel), 1e-4), "") << panels << " panels of " << panel;
    }
}

TEST(Product, OfTransposedSlicedAndBroadcastOperands) {
  const at::Tensor wide = tame({2, 80, 90}, at::kFloat), b = tame({2, 40, 50}, at::kFloat, 2);
  EXPECT_EQ(difference(product(wide.narrow(1, 3, 20).narrow(2, 7, 40), b), 1e-4), "");
  EXPECT_EQ(difference(product(wide.transpose(1, 2).narrow(2, 1, 40), b), 1e-4), "");
  EXPECT_EQ(difference(product(tame({1, 9, 40}, at::kFloat).expand({2, 9, 40}), b), 1e-4), "");
  EXPECT_EQ(difference(product(wide.narrow(2, 0, 40), b.narrow(2, 5, 33)), 1e-4), "");
}

constexpr std::pair<int64_t, int64_t> kRowsAndTerms[] = {{9, 2}, {9, 129}, {17, 287}, {70, 64}};

/// By tiles, where the machine has them, and without.
std::string short_difference(const KernelMaker& made) {
  const ir::Target own = codegen::host_target(1);
  ir::Target plain = own;
  plain.matrix_tiles = false;
  const std::string by_tiles = difference(made, 1e-4, own);
  return own.matrix_tiles ? by_tiles + difference(made, 1e-4, plain) : by_tiles;
}

/// Operands of 16 bits are widened, where they lie or as they are copied.
TEST(Product, OfShortNumbers) {
  for (auto [left, right] : {std::pair(at::kBFloat16, at::kBFloat16),
                             {at::kHalf, at::kHalf},
                             {at::kFloat, at::kBFloat16},
                             {at::kBFloat16, at::kFloat}})
    for (auto [rows, terms] : kRowsAndTerms)
      for (int64_t columns : {70, 160}) {
        const at::Tensor a = tame({2, rows, terms}, left, 3),
                         b = tame({2, terms, columns}, right, 5),
                         down = tame({2, terms, rows}, left, 3).transpose(1, 2);
        EXPECT_EQ(short_difference(product(a, b)), "")
            << rows << " rows, " << columns << " columns, " << terms << " terms";
        EXPECT_EQ(short_difference(product(down, b)), "");
        if (columns % 32 == 0) {
          EXPECT_EQ(short_difference(product(a, b, 32)), "");
        }
      }
}

/// fp32 numbers that are rounded to bf16 first.
TEST(Product, OfRoundedFactors) {
  for (auto [rows, terms] : kRowsAndTerms)
    for (int64_t columns : {70, 160}) {
      const at::Tensor a = tame({2, rows, terms}, at::kFloat, 3),
                       b = tame({2, terms, columns}, at::kFloat, 5),
                       down = tame({2, terms, rows}, at::kFloat, 3).transpose(1, 2);
      EXPECT_EQ(short_difference(product(a, b, 0, true)), "")
          << rows << " rows, " << columns << " columns, " << terms << " terms";
      EXPECT_EQ(short_difference(product(down, b, 0, true)), "");
      EXPECT_EQ(short_difference(product(a, b.to(at::kBFloat16), 0, true)), "");
    }
}

/// Right operands whose terms lie in pairs, as passes/panels.h copies them.
TEST(Product, OfPairsOfTerms) {
  if (!codegen::host_target(1).pairs(at::kBFloat16)) GTEST_SKIP() << "no instruction takes pairs";
  for (int64_t rows : {1, 16, 17, 48, 64, 70})
    for (int64_t terms : {32, 160, 544})
      for (auto [panel, columns] : {std::pair<int64_t, int64_t>{32, 96}, {64, 64}}) {
        const at::Tensor a = tame({2, rows, terms}, at::kFloat, 3), short_a = a.to(at::kBFloat16),
                         b = tame({2, terms, columns}, at::kBFloat16, 5),
                         down = a.transpose(1, 2).contiguous().transpose(1, 2),
                         odd = at::constant_pad_nd(short_a, {1, 0}).slice(2, 1);
        for (const at::Tensor& left :
             {short_a, down, odd, at::cat({short_a, short_a}, 2).slice(2, 0, terms)})
          EXPECT_EQ(short_difference(product(left, b, panel, true, true)), "")
              << rows << " rows, " << columns << " columns, " << terms << " terms";
      }
}

/// What is not finite stays in its row and column.
TEST(Product, OfNaNAndInfinity) {
  at::Tensor a = tame({1, 9, 20}, at::kFloat), b = tame({1, 20, 35}, at::kFloat, 6);
  a[0][2][3] = NAN;
  a[0][8][0] = INFINITY;
  b[0][4][34] = -INFINITY;
  EXPECT_EQ(difference(product(a, b), 1e-4), "");
  EXPECT_EQ(short_difference(product(a.to(at::kBFloat16), b.to(at::kBFloat16))), "");
}

}  // namespace
}  // namespace graft::test
