// Every node of expressions, on vectors and on scalars, at extents around the vector's width.
#include <gtest/gtest.h>

#include <functional>

#include "codegen/kernels.h"
#include "support/compare.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::Op;
using ir::StatementBuilder;
using ir::Value;

constexpr ScalarType kIntegers[] = {ScalarType::Byte, ScalarType::Char, ScalarType::Short,
                                    ScalarType::Int, ScalarType::Long};
constexpr ScalarType kAll[] = {ScalarType::Bool,  ScalarType::Byte,     ScalarType::Char,
                               ScalarType::Short, ScalarType::Int,      ScalarType::Long,
                               ScalarType::Half,  ScalarType::BFloat16, ScalarType::Float,
                               ScalarType::Double};

/// out[i] = op(x[i], y[i], z[i]) over 203 elements, as lanes and then as scalars.
void check_node(Op op, ScalarType type) {
  for (bool vector : {true, false}) {
    KernelMaker k;
    StatementBuilder s({203});
    std::vector<Value> in;
    for (int a = 0; a < ir::info(op).arity; ++a)
      in.push_back(s.load(k.storage(sample({203}, type, static_cast<uint64_t>(a + 3)))));
    ir::NodeId id[3] = {-1, -1, -1};
    for (size_t a = 0; a < in.size(); ++a) id[a] = in[a].id;
    ScalarType result = ir::is_compared(op) ? ScalarType::Bool : type;
    Value value{&s, s.statement.expr.node(op, result, id[0], id[1], id[2])};
    nest(k, s.store(k.storage(at::zeros({203}, result)), value), 0, vector ? 0 : -1);
    EXPECT_EQ(difference(k), "") << ir::info(op).name << " " << c10::toString(type) << " vector "
                                 << vector;
  }
}

TEST(Pointwise, RealNodes) {
  for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Neg, Op::Abs, Op::Fma, Op::Sqrt, Op::Floor,
                Op::Ceil, Op::Trunc, Op::RoundEven, Op::CopySign, Op::Eq, Op::Ne, Op::Lt, Op::Le,
                Op::Gt, Op::Ge})
    for (ScalarType type : {ScalarType::Float, ScalarType::Double}) check_node(op, type);
}

TEST(Pointwise, IntegerNodes) {
  for (Op op : {Op::Add,  Op::Sub,  Op::Mul, Op::Neg, Op::Abs, Op::Max, Op::Min,
                Op::IDiv, Op::IRem, Op::Shl, Op::Shr, Op::And, Op::Or,  Op::Xor,
                Op::Not,  Op::Eq,   Op::Ne,  Op::Lt,  Op::Le,  Op::Gt,  Op::Ge})
    for (ScalarType type : kIntegers) check_node(op, type);
}

TEST(Pointwise, LogicNodes) {
  for (Op op : {Op::And, Op::Or, Op::Xor, Op::Not, Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge})
    check_node(op, ScalarType::Bool);
}

TEST(Pointwise, MaxAndMinLetNaNWin) {
  // Which zero of the two signs wins is ATen's choice for vectors: the second.
  for (ScalarType type : {ScalarType::Float, ScalarType::Double})
    for (Op op : {Op::Max, Op::Min}) {
      KernelMaker k;
      StatementBuilder s({203});
      Value x = s.load(k.storage(sample({203}, type, 4))),
            y = s.load(k.storage(sample({203}, type, 5)));
      Value value = op == Op::Max ? ir::max(x, y) : ir::min(x, y);
      nest(k, s.store(k.storage(at::zeros({203}, type)), value + 0.0), 0, 0);
      EXPECT_EQ(difference(k), "");
    }
}

TEST(Pointwise, Casts) {
  for (ScalarType from : kAll)
    for (ScalarType to : kAll)
      for (bool vector : {true, false}) {
        if (from == to) continue;
        KernelMaker k;
        StatementBuilder s({203});
        Value x = s.load(k.storage(sample({203}, from, 7)));
        nest(k, s.store(k.storage(at::zeros({203}, to)), x.to(to)), 0, vector ? 0 : -1);
        EXPECT_EQ(difference(k), "")
            << c10::toString(from) << " to " << c10::toString(to) << " vector " << vector;
      }
}

TEST(Pointwise, CastsAsEager) {
  for (ScalarType from : kAll)
    for (ScalarType to : kAll) {
      if (from == to) continue;
      at::Tensor x = sample({203}, from, 9), y = at::zeros({203}, to);
      KernelMaker k;
      StatementBuilder s({203});
      Value value = s.load(k.storage(x)).to(to);
      nest(k, s.store(k.storage(y), value), 0, 0);
      run_compiled(k.kernel, k.tensors);
      at::Tensor eager = x.to(to);
      EXPECT_TRUE(same(y, eager)) << c10::toString(from) << " to " << c10::toString(to);
    }
}

TEST(Pointwise, SelectAndBitcast) {
  for (ScalarType type : kAll) {
    KernelMaker k;
    StatementBuilder s({203});
    Value c = s.load(k.storage(sample({203}, ScalarType::Bool, 1)));
    Value x = s.load(k.storage(sample({203}, type, 2))),
          y = s.load(k.storage(sample({203}, type, 3)));
    nest(k, s.store(k.storage(at::zeros({203}, type)), ir::select(c, x, y)), 0, 0);
    EXPECT_EQ(difference(k), "") << c10::toString(type);
  }
  std::pair<ScalarType, ScalarType> same[] = {{ScalarType::Float, ScalarType::Int},
                                              {ScalarType::Double, ScalarType::Long},
                                              {ScalarType::BFloat16, ScalarType::Short},
                                              {ScalarType::Half, ScalarType::Short}};
  for (auto [a, b] : same)
    for (auto [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      KernelMaker k;
      StatementBuilder s({203});
      Value x = s.load(k.storage(sample({203}, from, 2)));
      Value cast{&s, s.statement.expr.node(Op::Bitcast, to, x.id)};
      nest(k, s.store(k.storage(at::zeros({203}, to)), cast), 0, 0);
      EXPECT_EQ(difference(k), "");
    }
}

TEST(Pointwise, BoolMemoryIsTrueWhereNotZero) {
  at::Tensor x = at::arange(203, at::kByte).view(at::kByte);
  at::Tensor as_bool = at::from_blob(x.data_ptr(), {203}, at::kBool);
  KernelMaker k;
  StatementBuilder s({203});
  Value value = s.load(k.storage(as_bool)).to(ScalarType::Int);
  at::Tensor y = at::zeros({203}, at::kInt);
  nest(k, s.store(k.storage(y), value), 0, 0);
  run_compiled(k.kernel, k.tensors);
  EXPECT_EQ(y.sum().item<int64_t>(), 202);
}

TEST(Pointwise, ConstantsScalarsAndAxes) {
  for (ScalarType type : kAll) {
    KernelMaker k;
    StatementBuilder s({3, 77});
    Value x = s.load(k.storage(sample({3, 77}, type, 2)));
    Value constant = type == ScalarType::Bool ? s.integer(1, type) : s.constant(-3, type);
    Value scalar = s.scalar(type == ScalarType::Bool ? c10::Scalar(false) : c10::Scalar(5), type);
    Value odd = ir::ne((s.axis(1) + s.axis(0)) & s.integer(1, ScalarType::Long),
                       s.integer(0, ScalarType::Long));
    Value third = ir::eq(s.axis(1) - s.integer(3, ScalarType::Long), s.axis(0));
    nest(k,
         s.store(k.storage(at::zeros({3, 77}, type)),
                 ir::select(odd, x, ir::select(third, constant, scalar))),
         1, 1);
    EXPECT_EQ(difference(k), "") << c10::toString(type);
  }
}

TEST(Pointwise, Extents) {
  for (ScalarType type : {ScalarType::Float, ScalarType::BFloat16, ScalarType::Char,
                          ScalarType::Double, ScalarType::Bool})
    for (int64_t n :
         {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 1000}) {
      KernelMaker k;
      StatementBuilder s({n});
      Value x = s.load(k.storage(sample({n}, type, 2)));
      nest(k, s.store(k.storage(at::zeros({n}, type)), x), 0, 0);
      EXPECT_EQ(difference(k), "") << n;
    }
}

/// Codes of four bits and what they mean: all of it is a table in a register, whatever the code
/// comes of and whatever else is in the expression.
TEST(Pointwise, FunctionsOfFourBits) {
  using Digit = std::function<Value(StatementBuilder&, Value)>;
  auto number = [](StatementBuilder& s, int64_t n, Value like) {
    return s.integer(n, like.type());
  };
  auto given = [](StatementBuilder& s, int64_t n, Value like) { return s.scalar(n, like.type()); };
  const std::vector<Digit> digits = {
      [&](auto& s, Value x) { return x & given(s, 15, x); },
      [&](auto& s, Value x) { return number(s, 15, x) & x; },
      [&](auto& s, Value x) { return x & given(s, 13, x); },  // not all of the low bits
      [&](auto& s, Value x) { return x.op(Op::Shr, number(s, 4, x)) & number(s, 15, x); },
      [&](auto& s, Value x) { return (x & number(s, 127, x)).op(Op::Shr, number(s, 3, x)); },
      [&](auto& s, Value x) { return (x & number(s, 63, x)).op(Op::Shr, given(s, 2, x)); },
      [&](auto& s, Value x) { return (x & number(s, 64, x)).op(Op::IRem, number(s, 11, x)); },
      [&](auto& s, Value x) { return x & given(s, 31, x); },  // too many values
  };
  for (ScalarType type : kIntegers)
    for (size_t d = 0; d < digits.size(); ++d)
      for (int64_t n : {5, 64, 131})
        for (bool shift : {false, true}) {
          if (shift && type != ScalarType::Byte) continue;  // its own top four bits
          KernelMaker k;
          StatementBuilder s({7, n});
          Value x = s.load(k.storage(at::randint(0, 256, {7, n}, at::kLong).to(type)));
          Value digit = shift ? x.op(Op::Shr, number(s, 4, x)) : digits[d](s, x);
          Value scale = s.load([&] {
            ir::View v = k.storage(sample({7, 1}, at::kFloat));
            v.sizes = {7, 1};
            v.strides = {1, 0};
            return v;
          }());
          Value plain = digit.to(at::kFloat) - 8.0;
          Value bent = ir::select(ir::gt(digit, s.integer(6, type)), plain * scale, scale - 1.0);
          Value whole = (digit * digit + s.integer(3, type)).to(at::kInt);
          Value term = s.load(k.storage(sample({7, n}, at::kFloat)));
          nest(k,
               s.store(k.storage(at::zeros({7, n})),
                       bent * term + whole.to(at::kFloat) + digit.to(at::kFloat)),
               1, 1);
          EXPECT_EQ(difference(k), "") << c10::toString(type) << " digit " << d << " of " << n;
        }
}

}  // namespace
}  // namespace graft::test
