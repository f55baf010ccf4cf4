// Reductions and scans: every operation, wherever its loops are, and how sums keep their precision.
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/kernels.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;

struct Form {
  const char* name;
  int ranges, vector;
  std::vector<int> order;
};
// Of a statement with axes (rows, columns).
const Form kForms[] = {
    {"one row per range iteration, columns as lanes", 1, 1, {0, 1}},
    {"rows as lanes, columns serial", 0, 0, {0, 1}},
    {"columns serial, rows as lanes", 0, 0, {1, 0}},
    {"rows serial, columns as lanes", 0, 1, {0, 1}},
    {"all serial", 0, -1, {0, 1}},
    {"one column per range iteration, rows as lanes", 1, 0, {1, 0}},
};

bool reduces_range(const Form& form, const std::vector<bool>& axes) {
  for (int k = 0; k < form.ranges; ++k)
    if (axes[static_cast<size_t>(form.order[static_cast<size_t>(k)])]) return true;
  return false;
}
/// A reduced loop around a kept one: only a Vector loop may be kept inside.
bool malformed(const Form& form, const std::vector<bool>& axes) {
  return !axes[static_cast<size_t>(form.order[1])] && axes[static_cast<size_t>(form.order[0])] &&
         form.vector != form.order[1];
}

void check(ReduceOp op, ScalarType from, ScalarType type, bool tame_data, double tolerance) {
  for (const Form& form : kForms)
    for (std::vector<bool> axes : {std::vector<bool>{false, true}, {true, false}, {true, true}})
      for (auto [rows, columns] :
           {std::pair<int64_t, int64_t>{5, 131}, {70, 9}, {1, 40}, {33, 1}}) {
        if (reduces_range(form, axes) || malformed(form, axes)) continue;
        KernelMaker k;
        StatementBuilder s({rows, columns});
        at::Tensor data =
            tame_data ? tame({rows, columns}, from, 5) : sample({rows, columns}, from, 5);
        Value reduced = s.reduce(op, s.load(k.storage(data)), axes, type);
        std::vector<int64_t> sizes = {axes[0] ? 1 : rows, axes[1] ? 1 : columns};
        Value value = reduced;
        if (type == ScalarType::Double && op == ReduceOp::Sum)
          value = reduced / s.constant(3, type) + s.load(k.storage(tame(sizes, at::kDouble, 8)));
        nest(k, s.store(k.storage(at::zeros(sizes, type)), value), form.ranges, form.vector,
             form.order);
        EXPECT_EQ(difference(k, tolerance), "")
            << form.name << ", op " << static_cast<int>(op) << " of " << c10::toString(from);
      }
}

TEST(Reduce, SumsAndProducts) {
  for (ScalarType from :
       {ScalarType::Float, ScalarType::BFloat16, ScalarType::Half, ScalarType::Double})
    check(ReduceOp::Sum, from, ScalarType::Double, true, from == ScalarType::Double ? 1e-12 : 1e-6);
  check(ReduceOp::Sum, ScalarType::Float, ScalarType::Float, true, 1e-4);
  check(ReduceOp::Prod, ScalarType::Float, ScalarType::Double, true, 1e-12);
  for (ScalarType from : {ScalarType::Bool, ScalarType::Char, ScalarType::Int, ScalarType::Long}) {
    check(ReduceOp::Sum, from, ScalarType::Long, false, 0);
    check(ReduceOp::Prod, from, ScalarType::Long, false, 0);
  }
}

TEST(Reduce, Extremes) {
  for (ReduceOp op : {ReduceOp::Max, ReduceOp::Min}) {
    for (ScalarType type : {ScalarType::Byte, ScalarType::Char, ScalarType::Short, ScalarType::Int,
                            ScalarType::Long, ScalarType::Bool})
      check(op, type, type, false, 0);
    for (ScalarType type :
         {ScalarType::Float, ScalarType::Double, ScalarType::BFloat16, ScalarType::Half}) {
      check(op, type, type, false, 1e-300);
      check(op, type, type, true, 0);
    }
  }
}

TEST(Reduce, Logic) {
  for (ReduceOp op : {ReduceOp::And, ReduceOp::Or})
    check(op, ScalarType::Bool, ScalarType::Bool, false, 0);
}

TEST(Reduce, Places) {
  for (ReduceOp op : {ReduceOp::ArgMax, ReduceOp::ArgMin})
    for (ScalarType type :
         {ScalarType::Float, ScalarType::Double, ScalarType::BFloat16, ScalarType::Byte,
          ScalarType::Int, ScalarType::Long, ScalarType::Bool}) {
      check(op, type, ScalarType::Long, false, 0);
      check(op, type, ScalarType::Long, true, 0);
    }
}

TEST(Reduce, PlacesOfEqualExtremesAreTheFirst) {
  for (double fill : {1.0, -std::numeric_limits<double>::infinity(), std::nan("")})
    for (int64_t n : {1, 16, 100, 300}) {
      KernelMaker k;
      StatementBuilder s({n});
      Value place = s.reduce(ReduceOp::ArgMax, s.load(k.storage(at::full({n}, fill, at::kFloat))),
                             {true}, at::kLong);
      nest(k, s.store(k.storage(at::full({1}, -1, at::kLong)), place), 0, 0);
      EXPECT_EQ(difference(k), "") << fill << " " << n;
    }
}

TEST(Reduce, NaNWinsWhereverItIs) {
  for (int64_t at_ : {0, 1, 15, 16, 63, 64, 100, 130})
    for (ReduceOp op : {ReduceOp::Max, ReduceOp::Min, ReduceOp::ArgMax}) {
      at::Tensor x = tame({131}, at::kFloat);
      x.data_ptr<float>()[at_] = std::numeric_limits<float>::quiet_NaN();
      ScalarType type = op == ReduceOp::ArgMax ? at::kLong : at::kFloat;
      KernelMaker k;
      StatementBuilder s({131});
      Value value = s.reduce(op, s.load(k.storage(x)), {true}, type);
      nest(k, s.store(k.storage(at::zeros({1}, type)), value), 0, 0);
      EXPECT_EQ(difference(k), "") << at_;
    }
}

TEST(Reduce, ThreeAxes) {
  for (std::vector<bool> axes :
       {std::vector<bool>{false, true, true}, {false, false, true}, {false, true, false}})
    for (int vector : {1, 2}) {
      if (!axes[static_cast<size_t>(vector)] && vector == 2 && !axes[1]) continue;
      std::vector<int> order = {0, 1, 2};
      if (!axes[2]) order = {0, 2, 1};
      for (ReduceOp op : {ReduceOp::Sum, ReduceOp::ArgMax}) {
        KernelMaker k;
        StatementBuilder s({4, 6, 37});
        Value value = s.reduce(op, s.load(k.storage(tame({4, 6, 37}, at::kFloat))), axes,
                               op == ReduceOp::Sum ? at::kDouble : at::kLong);
        std::vector<int64_t> sizes = {4, axes[1] ? 1 : 6, axes[2] ? 1 : 37};
        nest(k,
             s.store(k.storage(at::zeros(sizes, op == ReduceOp::Sum ? at::kDouble : at::kLong)),
                     value),
             1, vector, order);
        EXPECT_EQ(difference(k, 1e-6), "");
      }
    }
}

TEST(Reduce, SeveralInOneLoop) {
  // Mean and variance's sums and the maximum, and a store, in one pass over a row; then a pass that
  // uses them.
  for (int64_t n : {3, 64, 200}) {
    KernelMaker k;
    ir::View x = k.storage(tame({5, n}, at::kFloat)), y = k.storage(at::zeros({5, n})),
             z = k.storage(at::zeros({5, n}));
    ir::View sum = k.scratch({1, 1}, at::kDouble), squares = k.scratch({1, 1}, at::kDouble),
             top = k.scratch({1, 1}, at::kFloat);
    int r = k.range(5), v = k.vector(n), w = k.vector(n);
    auto reduce = [&](ReduceOp op, const ir::View& to, ScalarType type, auto input) {
      StatementBuilder s({5, n});
      Value value = s.reduce(op, input(s.load(x)), {false, true}, type);
      return k.place(s.store(ir::Access{to.storage, type, 0, {0, 0}, {}}, value), {r, v});
    };
    ir::TreeNode a = reduce(ReduceOp::Sum, sum, at::kDouble, [](Value q) { return q; });
    ir::TreeNode b = reduce(ReduceOp::Sum, squares, at::kDouble, [](Value q) { return q * q; });
    ir::TreeNode c = reduce(ReduceOp::Max, top, at::kFloat, [](Value q) { return q; });
    StatementBuilder copy({5, n});
    ir::TreeNode d = k.place(copy.store(y, copy.load(x) + 1.0), {r, v});
    k.body(KernelMaker::loop(v, std::move(a), std::move(b), std::move(c), std::move(d)));
    StatementBuilder use({5, n});
    auto scalar = [&](const ir::View& from, ScalarType type) {
      return use.load(ir::Access{from.storage, type, 0, {0, 0}, {}});
    };
    Value mixed =
        (scalar(sum, at::kDouble) * scalar(squares, at::kDouble)).to(at::kFloat) * use.load(y) -
        scalar(top, at::kFloat);
    k.body(KernelMaker::loop(w, k.place(use.store(z, mixed), {r, w})));
    // The product of two sums, of which a like number is taken.
    EXPECT_EQ(difference(k, 1e-4), "") << n;
  }
}

TEST(Reduce, LongSumsKeepTheirPrecision) {
  // 0.1 is not exact: a running sum of a million would be off by 1e-11 relative and more.
  int64_t n = 1 << 20;
  for (ScalarType type : {ScalarType::Double, ScalarType::Float})
    for (int vector : {0, -1}) {
      KernelMaker k;
      StatementBuilder s({n});
      at::Tensor out = at::zeros({1}, type);
      Value sum =
          s.reduce(ReduceOp::Sum, s.load(k.storage(at::full({n}, 0.1, type))), {true}, type);
      nest(k, s.store(k.storage(out), sum), 0, vector);
      run_compiled(k.kernel, k.tensors, codegen::host_target(1), 1);
      double exact =
          (type == ScalarType::Float ? static_cast<double>(0.1f) : 0.1) * static_cast<double>(n);
      double error = std::abs(out.item<double>() - exact) / exact;
      EXPECT_LT(error, type == ScalarType::Double ? 2e-15 : 1e-6) << c10::toString(type) << vector;
    }
}

TEST(Reduce, SumsThatWidenTheirTermsLoseLittle) {
  // Random terms of one sign: the sum may be off by a tenth of what rounding it to Float costs.
  for (int64_t n : {40, 768, 10000, 1 << 20})
    for (int vector : {0, -1})
      for (bool products : {false, true}) {
        at::manual_seed(static_cast<uint64_t>(n));
        const at::Tensor x = at::rand({n}) + 1, out = at::zeros({1}, at::kDouble);
        KernelMaker k;
        StatementBuilder s({n});
        const Value term = s.load(k.storage(x));
        nest(k,
             s.store(k.storage(out), s.reduce(ReduceOp::Sum, products ? term * term : term, {true},
                                              ScalarType::Double)),
             0, vector);
        run_compiled(k.kernel, k.tensors, codegen::host_target(1), 1);
        const at::Tensor exact = x.to(at::kDouble);
        const double sum = (products ? exact * exact : exact).sum().item<double>();
        EXPECT_LT(std::abs(out.item<double>() - sum) / sum, 0x1p-25) << n << vector << products;
      }
}

TEST(Reduce, ShortLoopsInsideAnotherWidenToo) {
  // Rows of less than a step of the vector loop, many of them: what is left of each row counts.
  for (int64_t columns : {3, 20, 60, 70, 130})
    for (int vector : {1, 0}) {
      at::manual_seed(static_cast<uint64_t>(columns));
      const at::Tensor x = at::rand({20000, columns}) + 1, out = at::zeros({1, 1}, at::kDouble);
      KernelMaker k;
      StatementBuilder s(x.sizes().vec());
      nest(k,
           s.store(k.storage(out),
                   s.reduce(ReduceOp::Sum, s.load(k.storage(x)), {true, true}, ScalarType::Double)),
           0, vector);
      run_compiled(k.kernel, k.tensors, codegen::host_target(1), 1);
      const double sum = x.to(at::kDouble).sum().item<double>();
      EXPECT_LT(std::abs(out.item<double>() - sum) / sum, 0x1p-26) << columns << " " << vector;
    }
}

TEST(Scan, AlongAndAcrossLanes) {
  for (ScalarType type : {ScalarType::Long, ScalarType::Double})
    for (const Form& form : kForms)
      for (int axis : {0, 1}) {
        std::vector<bool> axes = {axis == 0, axis == 1};
        if (reduces_range(form, axes) || malformed(form, axes)) continue;
        KernelMaker k;
        StatementBuilder s({37, 50});
        Value sum =
            s.reduce(ReduceOp::Sum, s.load(k.storage(tame({37, 50}, type))), axes, type, true);
        nest(k, s.store(k.storage(at::zeros({37, 50}, type)), sum), form.ranges, form.vector,
             form.order);
        EXPECT_EQ(difference(k, type == ScalarType::Long ? 0 : 1e-12), "") << form.name;
      }
}

TEST(Scan, CumulativeMaximum) {
  KernelMaker k;
  StatementBuilder s({37, 50});
  Value most = s.reduce(ReduceOp::Max, s.load(k.storage(tame({37, 50}, at::kFloat))), {true, false},
                        at::kFloat, true);
  nest(k, s.store(k.storage(at::zeros({37, 50})), most), 0, 1);
  EXPECT_EQ(difference(k), "");
}

}  // namespace
}  // namespace graft::test
