// Conversions between floating numbers and integers, and quotients of int64, in vectors of which
// all, some or no lanes are small: small ones are computed together.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "codegen/kernels.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::Op;
using ir::StatementBuilder;
using ir::Value;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// As c10 converts, by the processor's own instructions.
template <class To>
To converted(double x) {
  if constexpr (sizeof(To) == 8 || std::is_same_v<To, uint8_t>)
    return static_cast<To>(_mm_cvttsd_si64(_mm_set_sd(x)));
  return static_cast<To>(_mm_cvttsd_si32(_mm_set_sd(x)));
}

/// Rows of 16: small numbers alone, large ones alone, and one large one among small ones, at each
/// place.
at::Tensor rows_of(const std::vector<double>& large, ScalarType type) {
  const auto count = static_cast<int64_t>(large.size());
  const at::Tensor many = at::tensor(large);
  at::Tensor rows = at::zeros({1 + count, 17, 16}, at::kDouble);
  rows.copy_((at::arange(rows.numel(), at::kDouble).view(rows.sizes()) - 700) * 0.37);
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t place = 0; place < 16; ++place) rows[1 + k][place][place] = many[k];
    rows[1 + k][16] = many[k];
  }
  return rows.to(type).view({-1}).contiguous();
}

template <class Check>
void with_each_target(Check check) {
  for (const int lanes : {16, 8, 4}) {
    ir::Target target = codegen::host_target(1);
    if (lanes > target.lanes) continue;
    target.lanes = lanes;
    check(target);
  }
}

/// The compiled cast of all of x.
at::Tensor cast(const at::Tensor& x, ScalarType to, const ir::Target& target) {
  KernelMaker k;
  StatementBuilder s({x.numel()});
  const Value from = s.load(k.storage(x));
  const at::Tensor y = at::zeros({x.numel()}, to);
  nest(k, s.store(k.storage(y), from.to(to)), 0, 0);
  run_compiled(k.kernel, k.tensors, target);
  return y;
}

template <class To>
void check_integers(ScalarType from, ScalarType to) {
  const at::Tensor x = rows_of({-0.0,
                                0x1p31,
                                -0x1p31,
                                0x1p31 - 1,
                                2147483646.5,
                                -2147483648.5,
                                0x1p31 + 256,
                                0x1p32 + 512,
                                0x1p39 + 0x1p16,
                                -0x1p40 - 0x1p18,
                                1e15,
                                0x1p62 + 0x1p40,
                                0x1p63,
                                -0x1p63,
                                1e30,
                                -1e30,
                                kInf,
                                -kInf,
                                std::nan(""),
                                255.9,
                                256,
                                -1.5,
                                65535.9,
                                3e9,
                                -3e9},
                               from);
  with_each_target([&](const ir::Target& target) {
    const at::Tensor y = cast(x, to, target), wide = x.to(at::kDouble);
    const auto* given = wide.const_data_ptr<double>();
    const auto* came = static_cast<const To*>(y.const_data_ptr());
    for (int64_t k = 0; k < x.numel(); ++k)
      ASSERT_EQ(+came[k], +converted<To>(given[k]))
          << c10::toString(from) << " to " << c10::toString(to) << ", " << target.lanes
          << " lanes: " << given[k] << ", element " << k;
  });
}

TEST(Casts, OfFloatingNumbersToIntegers) {
  for (const ScalarType from : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    check_integers<uint8_t>(from, at::kByte);
    check_integers<int8_t>(from, at::kChar);
    check_integers<int16_t>(from, at::kShort);
    check_integers<int32_t>(from, at::kInt);
    check_integers<int64_t>(from, at::kLong);
  }
}

/// Rows of 16 as above, of integers.
at::Tensor longs(const std::vector<int64_t>& large) {
  at::Tensor rows = at::arange(static_cast<int64_t>(1 + large.size()) * 17 * 16) - 700;
  rows = rows.view({-1, 17, 16});
  for (size_t k = 0; k < large.size(); ++k) {
    const at::Tensor block = rows[static_cast<int64_t>(k) + 1];
    for (int64_t place = 0; place < 16; ++place) block[place][place] = large[k];
    block[16] = large[k];
  }
  return rows.view({-1});
}

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kWord = int64_t{1} << 31;

TEST(Casts, OfLongsToFloatingNumbers) {
  const at::Tensor x = longs({kWord - 1, kWord, -kWord, -kWord - 1, -kWord + 1, (1 << 24) + 1,
                              (int64_t{1} << 53) + 1, kMost, -kMost - 1, kMost - 512,
                              int64_t{1} << 32, 0x100000001, -0x100000003});
  with_each_target([&](const ir::Target& target) {
    for (const ScalarType to : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      const at::Tensor y = cast(x, to, target);
      // By way of one element at a time.
      for (int64_t k = 0; k < x.numel(); ++k)
        ASSERT_TRUE(at::equal(y[k], x[k].to(to)) ||
                    (y[k].isnan().item<bool>() && x[k].to(to).isnan().item<bool>()))
            << c10::toString(to) << ", " << target.lanes << " lanes: " << x[k].item<int64_t>();
    }
  });
}

Value quotient_of(StatementBuilder& s, Op op, Value x, Value y) {
  return {&s, s.statement.expr.node(op, ScalarType::Long, x.id, y.id)};
}

TEST(Casts, QuotientsOfLongs) {
  const std::vector<int64_t> large{kWord - 1, kWord, -kWord,     -kWord - 1,  -kWord + 1, 0, -1,
                                   1,         kMost, -kMost - 1, 0x100000001, 7,          -7};
  const at::Tensor x = longs(large);
  with_each_target([&](const ir::Target& target) {
    for (const int64_t shift : {0, 272, 289, 1000}) {
      const at::Tensor y = x.roll(shift).contiguous();
      KernelMaker k;
      StatementBuilder s({x.numel()}), r({x.numel()});
      const at::Tensor quotients = at::zeros_like(x), rests = at::zeros_like(x);
      const ir::View left = k.storage(x), right = k.storage(y);
      nest(k, s.store(k.storage(quotients), quotient_of(s, Op::IDiv, s.load(left), s.load(right))),
           0, 0);
      nest(k, r.store(k.storage(rests), quotient_of(r, Op::IRem, r.load(left), r.load(right))), 0,
           0);
      run_compiled(k.kernel, k.tensors, target);
      for (int64_t e = 0; e < x.numel(); ++e) {
        const int64_t a = x[e].item<int64_t>(), b = y[e].item<int64_t>();
        if (b == 0) continue;  // what is made of it is not used
        const bool wraps = a == -kMost - 1 && b == -1;
        ASSERT_EQ(quotients[e].item<int64_t>(), wraps ? a : a / b) << a << " / " << b;
        ASSERT_EQ(rests[e].item<int64_t>(), wraps ? 0 : a % b) << a << " % " << b;
      }
    }
  });
}

}  // namespace
}  // namespace graft::test
