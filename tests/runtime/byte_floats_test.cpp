// Floating dtypes of 8 bits beside eager: every code, roundings of every kind of number, layouts,
// and what people do with them.
#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::ScalarType;
using at::Tensor;
using Tensors = std::vector<Tensor>;

class ByteFloats : public testing::TestWithParam<ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Codes, ByteFloats,
                         testing::Values(ScalarType::Float8_e4m3fn, ScalarType::Float8_e5m2),
                         [](const auto& t) { return std::string(c10::toString(t.param)); });

/// What compares by value: codes as bytes, numbers with NaN equal to NaN.
void expect_equal(const Tensor& eager, const Tensor& ours, const std::string& what) {
  ASSERT_EQ(eager.scalar_type(), ours.scalar_type()) << what;
  ASSERT_EQ(eager.strides(), ours.strides()) << what;
  const bool codes = eager.element_size() == 1 && eager.is_floating_point();
  const Tensor a = codes ? eager.contiguous().view(at::kByte) : eager;
  const Tensor b = codes ? ours.contiguous().view(at::kByte) : ours;
  EXPECT_TRUE(at::allclose(a, b, 0, 0, true)) << what;
}

template <class F>
void beside_eager(F run, const Tensors& arguments, const std::string& what) {
  at::NoGradGuard no_grad;
  auto f = compile(run, at_once(what));
  for (int call = 0; call < 4; ++call) f(arguments);
  ASSERT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  for (const OperatorReport& op : f.report().operators)
    EXPECT_NE(op.fate, "extern") << what << ": " << op.name << ": " << op.why;
  const Tensors eager = run(arguments), ours = f(arguments);
  ASSERT_EQ(eager.size(), ours.size());
  for (size_t k = 0; k < eager.size(); ++k)
    expect_equal(eager[k], ours[k], what + ", result " + std::to_string(k));
}

Tensor every_code(ScalarType type) {
  return at::arange(256, at::kInt).to(at::kByte).repeat({37}).view(type);
}

TEST_P(ByteFloats, EveryCodeIsRead) {
  beside_eager(
      [](const Tensors& a) {
        Tensors read;
        for (ScalarType to : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kBool})
          read.push_back(a[0].to(to));
        read.push_back(a[0].to(at::kFloat) * 2 + 1);
        return read;
      },
      {every_code(GetParam())}, "codes");
  // What an integer cannot hold is undefined.
  const Tensor all = every_code(GetParam());
  const Tensor some = all.index({all.to(at::kFloat).abs() <= 120}).contiguous();
  beside_eager(
      [](const Tensors& a) {
        return Tensors{a[0].to(at::kLong), a[0].to(at::kInt), a[0].to(at::kShort),
                       a[0].to(at::kChar)};
      },
      {some}, "codes to integers");
}

/// Every pattern of the upper 16 bits of a float with what lies beside ties, and all around each
/// border.
TEST_P(ByteFloats, NumbersAreRoundedAsEager) {
  std::vector<int32_t> bits;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0xffffu})
      bits.push_back(std::bit_cast<int32_t>(upper << 16 | lower));
  const Tensor numbers = at::tensor(bits).view(at::kFloat);
  const ScalarType type = GetParam();
  beside_eager([type](const Tensors& a) { return Tensors{a[0].to(type)}; }, {numbers}, "floats");
  beside_eager(
      [type](const Tensors& a) {
        return Tensors{a[0].to(type).to(at::kFloat), a[0].to(type).to(at::kBFloat16) * 2,
                       a[0].to(type).to(at::kFloat).to(type)};
      },
      {numbers}, "there and back");
  beside_eager([type](const Tensors& a) { return Tensors{a[0].to(type)}; },
               {numbers.to(at::kDouble) * (1 + 1e-9)}, "doubles");
  const Tensor halves = at::arange(65536, at::kInt).to(at::kShort);
  for (ScalarType from : {at::kHalf, at::kBFloat16})
    beside_eager([type](const Tensors& a) { return Tensors{a[0].to(type)}; },
                 {halves.view(from).clone()}, "16 bits");
  for (ScalarType from : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte})
    beside_eager([type](const Tensors& a) { return Tensors{a[0].to(type)}; },
                 {at::arange(-70000, 70000, at::kLong).to(from)}, "integers");
  beside_eager([type](const Tensors& a) { return Tensors{a[0].gt(0).to(type)}; }, {numbers},
               "truth");
}

TEST_P(ByteFloats, Layouts) {
  const ScalarType type = GetParam();
  const Tensor base = at::randn({67, 129});
  const Tensor codes = base.to(type);
  for (int k = 0; k < 4; ++k) {
    auto lie = [k](const Tensor& t) {
      return k == 0   ? t
             : k == 1 ? t.t()
             : k == 2 ? t.slice(1, 3, 120, 2)
                      : t.select(0, 5).expand({40, 129});
    };
    beside_eager(
        [type](const Tensors& a) {
          return Tensors{a[0].to(at::kFloat).mul(0.5).add(a[1]), (a[1] * 3).to(type), a[0].clone(),
                         at::cat({a[0], a[0]}, 0)};
        },
        {lie(codes), lie(base)}, "layout " + std::to_string(k));
  }
}

/// As models are quantised: a scale for each row, codes, numbers again; codes stored in place.
TEST_P(ByteFloats, ScaledRows) {
  const ScalarType type = GetParam();
  const double largest = type == ScalarType::Float8_e4m3fn ? 448 : 57344;
  auto quantise = [type, largest](const Tensors& a) {
    const Tensor scale = a[0].abs().amax(1, true).clamp_min(1e-12) / largest;
    const Tensor codes = (a[0] / scale).clamp(-largest, largest).to(type);
    a[1].copy_(codes);
    return Tensors{codes, scale, codes.to(at::kFloat) * scale};
  };
  beside_eager(quantise, {at::randn({64, 333}), at::zeros({64, 333}).to(type)}, "rows");
  // A rounding that is there to be seen is not computed around, fast or not.
  at::NoGradGuard no_grad;
  Options fast = at_once("fast");
  fast.numerics = Numerics::Fast;
  auto run = [type](const Tensor& x) { return x.to(type).to(at::kFloat) + 1; };
  auto f = compile(run, fast);
  const Tensor x = at::randn({64, 333});
  for (int call = 0; call < 4; ++call) f(x);
  EXPECT_TRUE(at::equal(run(x), f(x))) << f.report();
}

/// Weights of 8 bits in a matrix product, for one row and for many.
TEST_P(ByteFloats, Weights) {
  at::NoGradGuard no_grad;
  const Tensor w = at::randn({96, 256}).to(GetParam());
  auto run = [](const Tensor& x, const Tensor& w, const Tensor& scale) {
    return at::gelu(at::matmul(x, w.to(at::kFloat).t()) * scale);
  };
  for (int64_t rows : {1, 3, 64}) {
    auto f = compile(run, at_once("weights"));
    const Tensor x = at::randn({rows, 256}), scale = at::rand({96});
    for (int call = 0; call < 4; ++call) f(x, w, scale);
    EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
    EXPECT_TRUE(at::allclose(run(x, w, scale), f(x, w, scale), 1e-4, 1e-4)) << rows;
  }
}

}  // namespace
}  // namespace graft::test
