// Every code of every element, and every value of 16 bits, against what the formats' definitions
// say.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <graft/systems/numbers.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace graft::systems {
namespace {

/// A format by its definition: OCP's 8-bit floats, OCP's microscaling formats, two's complement.
struct Definition {
  const char* element;
  int exponent_bits, mantissa_bits, bias;
  enum { Finite, Ieee, OneNan, Integer } kind;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }

  double value(int code) const {
    if (kind == Integer) return code < (1 << mantissa_bits) ? code : code - (2 << mantissa_bits);
    const int mantissa = code % (1 << mantissa_bits);
    const int exponent = code / (1 << mantissa_bits) % (1 << exponent_bits);
    const double sign = code >> (bits() - 1) ? -1 : 1;
    const bool is_top = exponent == (1 << exponent_bits) - 1;
    if (kind == Ieee && is_top) return mantissa == 0 ? sign * INFINITY : NAN;
    if (kind == OneNan && is_top && mantissa == (1 << mantissa_bits) - 1) return NAN;
    const double part = mantissa / std::exp2(mantissa_bits);
    return exponent == 0 ? sign * std::exp2(1 - bias) * part
                         : sign * std::exp2(exponent - bias) * (1 + part);
  }
};

const Definition kDefinitions[] = {
    {"e4m3", 4, 3, 7, Definition::OneNan},  {"e5m2", 5, 2, 15, Definition::Ieee},
    {"e3m2", 3, 2, 3, Definition::Finite},  {"e2m3", 2, 3, 1, Definition::Finite},
    {"e2m1", 2, 1, 1, Definition::Finite},  {"int8", 0, 7, 0, Definition::Integer},
    {"int4", 0, 3, 0, Definition::Integer},
};

/// Finds codes by search among all magnitudes.
class Reference {
 public:
  explicit Reference(const Definition& d) : d_(d) {
    while (is_magnitude(static_cast<int>(values_.size())))
      values_.push_back(d.value(static_cast<int>(values_.size())));
  }

  /// The nearest code; of two the even one.
  int nearest(double x, bool saturate) const {
    const int half = 1 << (d_.bits() - 1), most = static_cast<int>(values_.size()) - 1;
    const bool is_special = d_.kind == Definition::Ieee || d_.kind == Definition::OneNan;
    const int sign = std::signbit(x) ? half : 0;
    if (std::isnan(x) && is_special) return sign | (half - 1);
    const double m = std::isnan(x) ? INFINITY : std::fabs(x);
    int best = most;
    if (m < values_.back()) {
      const auto above = std::upper_bound(values_.begin(), values_.end(), m);
      best = static_cast<int>(above - values_.begin());
      const double up = at(best) - m, down = m - at(best - 1);
      if (down < up || (down == up && best % 2 == 1)) --best;
    }
    // Where the codes went on, the next one would be an ulp above the max.
    const double middle = at(most) + (at(most) - at(most - 1)) / 2;
    if (!saturate && is_special && (m > middle || (m == middle && most % 2 == 1)))
      best = d_.kind == Definition::Ieee ? most + 1 : half - 1;
    if (d_.kind == Definition::Integer) return sign ? (2 * half - best) % (2 * half) : best;
    return sign | best;
  }

 private:
  double at(int code) const { return values_[static_cast<size_t>(code)]; }
  bool is_magnitude(int code) const {
    return code < 1 << (d_.bits() - 1) && std::isfinite(d_.value(code));
  }

  const Definition& d_;
  std::vector<double> values_;
};

NumberFormat plain(const Definition& d) {
  return {d.element, element_index(d.element), 0, ScaleKind::F32};
}

/// Code i of packed ones.
int code_at(const uint8_t* packed, int bits, int64_t i) {
  int out = 0;
  for (int b = 0; b < bits; ++b)
    out |= (packed[(i * bits + b) / 8] >> ((i * bits + b) % 8) & 1) << b;
  return out;
}

/// Each test runs with the kernels of each instruction set.
class Codes : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { use_instruction_set(GetParam()); }
  void TearDown() override { use_instruction_set(instruction_sets().front()); }
};

void expect_same(double expected, double came, const std::string& what) {
  if (std::isnan(expected))
    EXPECT_TRUE(std::isnan(came)) << what << " came " << came;
  else
    EXPECT_TRUE(expected == came && std::signbit(expected) == std::signbit(came))
        << what << ": expected " << expected << ", came " << came;
}

TEST_P(Codes, AreReadAsDefined) {
  for (const Definition& d : kDefinitions) {
    const int count = 1 << d.bits(), all = std::max(count, 16);
    const at::Tensor codes = at::zeros({all * d.bits() / 8}, at::kByte);
    auto* bytes = codes.mutable_data_ptr<uint8_t>();
    for (int i = 0; i < all * d.bits(); ++i)
      bytes[i / 8] |= static_cast<uint8_t>((i / d.bits() >> i % d.bits() & 1) << i % 8);
    const Quantized q{.format = plain(d), .sizes = {all}, .codes = codes};
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor values = dequantize(q, type).to(at::kDouble);
      for (int i = 0; i < count; ++i)
        expect_same(d.value(i), values.const_data_ptr<double>()[i],
                    std::string(d.element) + " code " + std::to_string(i));
    }
  }
}

TEST_P(Codes, OfAllValuesOf16BitsAreTheNearest) {
  const at::Tensor values = at::empty({65536}, at::kBFloat16);
  auto* x = values.mutable_data_ptr<at::BFloat16>();
  for (int i = 0; i < 65536; ++i) x[i] = at::BFloat16(static_cast<uint16_t>(i), {});
  for (const Definition& d : kDefinitions) {
    const Reference reference(d);
    for (const Overflow overflow : {Overflow::Saturate, Overflow::Special})
      for (const bool as_float : {false, true}) {
        const Quantized q = quantize(as_float ? values.to(at::kFloat) : values, plain(d),
                                     {.overflow = overflow, .tensor_scale = 1});
        const auto* packed = q.codes.const_data_ptr<uint8_t>();
        int wrong = 0;
        for (int i = 0; i < 65536 && wrong < 5; ++i) {
          const int expected = reference.nearest(x[i], overflow == Overflow::Saturate);
          const int came = code_at(packed, d.bits(), i);
          EXPECT_EQ(expected, came) << d.element << " of " << x[i] << ", bits " << i;
          wrong += expected != came;
        }
      }
  }
}

TEST_P(Codes, RoundAtTheMiddle) {
  for (const Definition& d : kDefinitions) {
    const Reference reference(d);
    std::vector<float> values;
    for (int code = 0; code + 1 < 1 << (d.bits() - 1); ++code) {
      const double middle = (d.value(code) + d.value(code + 1)) / 2;
      if (!std::isfinite(middle)) continue;
      const auto m = static_cast<float>(middle);
      for (const float x : {m, std::nextafter(m, 0.f), std::nextafter(m, INFINITY)})
        values.insert(values.end(), {x, -x});
    }
    while (values.size() % 16 != 0) values.push_back(0);
    const Quantized q = quantize(at::tensor(values), plain(d), {.tensor_scale = 1});
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(reference.nearest(values[i], true),
                code_at(q.codes.const_data_ptr<uint8_t>(), d.bits(), static_cast<int64_t>(i)))
          << d.element << " of " << values[i];
  }
}

TEST_P(Codes, UnderSpecialOverflowAreAtensCasts) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0xff000000; bits += 0x3fff1)
    if (!std::isnan(std::bit_cast<float>(bits))) values.push_back(std::bit_cast<float>(bits));
  const at::Tensor x = at::tensor(values);
  for (const auto& [name, type] :
       {std::pair("fp8_e4m3", at::kFloat8_e4m3fn), std::pair("fp8_e5m2", at::kFloat8_e5m2)}) {
    const Quantized q =
        quantize(x, number_format(name), {.overflow = Overflow::Special, .tensor_scale = 1});
    EXPECT_TRUE(q.codes.equal(x.to(type).view(at::kByte))) << name;
  }
}

TEST_P(Codes, RoundStochasticallyToTheNeighboursInProportion) {
  constexpr int kDraws = 20000;
  for (const Definition& d : kDefinitions)
    for (const double part : {0.03, 0.5, 0.8})
      for (const int code : {0, 3, 5, 6}) {
        const double low = d.value(code), high = d.value(code + 1);
        const auto x = static_cast<float>(low + part * (high - low));
        const Quantized q =
            quantize(at::full({kDraws}, x), plain(d),
                     {.rounding = Rounding::Stochastic, .seed = 7, .tensor_scale = 1});
        int up = 0;
        for (int i = 0; i < kDraws; ++i) {
          const int came = code_at(q.codes.const_data_ptr<uint8_t>(), d.bits(), i);
          ASSERT_TRUE(came == code || came == code + 1) << d.element << " of " << x;
          up += came == code + 1;
        }
        const double chance = (x - low) / (high - low);
        EXPECT_NEAR(up, kDraws * chance, 5 * std::sqrt(kDraws * chance * (1 - chance)))
            << d.element << " of " << x;
      }
}

TEST_P(Codes, RoundStochasticallyByTheSeedAlone) {
  const at::Tensor x = at::randn({4096}).mul(10);
  const auto draw = [&](uint64_t seed) {
    return quantize(x, number_format("fp8_e4m3"), {.rounding = Rounding::Stochastic, .seed = seed})
        .codes;
  };
  const at::Tensor once = draw(1);
  EXPECT_TRUE(once.equal(draw(1)));
  EXPECT_FALSE(once.equal(draw(2)));
  use_instruction_set("baseline");
  EXPECT_TRUE(once.equal(draw(1)));
  // What is a code already stays.
  const Quantized q = quantize(x, number_format("fp8_e4m3"));
  EXPECT_TRUE(q.codes.equal(
      quantize(dequantize(q), q.format,
               {.rounding = Rounding::Stochastic, .seed = 3, .tensor_scale = q.tensor_scale})
          .codes));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Codes, testing::ValuesIn(instruction_sets()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace graft::systems
