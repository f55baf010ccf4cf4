// Scales, products, histories and errors, against what the header says, computed one by one.
#include "graft/systems/numbers.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <c10/util/Float8_e4m3fn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace graft::systems {
namespace {

/// Values of many magnitudes, with blocks of zeros, of subnormals and of the largest numbers.
at::Tensor wild_values(int64_t rows, int64_t columns) {
  at::Tensor x = at::randn({rows, columns}).mul(at::randn({rows, columns}).mul(4).exp());
  auto* p = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < 128; ++i) p[i] = i % 2 == 0 ? 0.f : -0.f;
  for (int64_t i = 128; i < 256; ++i) p[i] = std::ldexp(static_cast<float>(i), -148);
  for (int64_t i = 256; i < 384; ++i) p[i] = std::ldexp(p[i], 100);
  for (int64_t i = 384; i < 512; ++i) p[i] = i % 3 == 0 ? 3e38f : -1e38f;
  return x;
}

float e4m3(float x) {
  return static_cast<float>(static_cast<c10::Float8_e4m3fn>(x));
}

struct BlockScale {
  float scale, factor;
};

/// Of a block with this largest magnitude, as the header has it.
BlockScale block_scale(float amax, const NumberFormat& format, float tensor_scale) {
  const float max = format.coding().max;
  if (!std::isfinite(amax)) return {NAN, NAN};
  if (format.scale == ScaleKind::E8M0) {
    int exponent = -126, max_exponent = 0;
    if (amax > 0) exponent = static_cast<int>(std::floor(std::log2(static_cast<double>(amax))));
    std::frexp(max, &max_exponent);
    exponent = std::max(exponent - (max_exponent - 1), -126);
    return {std::ldexp(1.f, exponent), std::ldexp(1.f, -exponent)};
  }
  if (format.scale == ScaleKind::E4M3) {
    const float code = std::max(e4m3(std::min(amax / (max * tensor_scale), 448.f)), 1 / 512.f);
    return {code * tensor_scale, 1 / (code * tensor_scale)};
  }
  const float scale = std::max(amax / max, std::ldexp(1.f, -126));
  return {scale, 1 / scale};
}

/// Each test runs with the kernels of each instruction set, on one thread unless it says otherwise.
class Numbers : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    use_instruction_set(GetParam());
    at::set_num_threads(1);
  }
  void TearDown() override {
    use_instruction_set(instruction_sets().front());
    at::set_num_threads(threads_);
  }
  const int threads_ = at::get_num_threads();
};

TEST_P(Numbers, BlocksHaveTheScalesOfTheHeader) {
  const at::Tensor x = wild_values(37, 768);
  const float* values = x.const_data_ptr<float>();
  for (const NumberFormat& format : kNumberFormats) {
    const Quantized q = quantize(x, format);
    const at::Tensor came = dequantize(q);
    const int64_t block = format.block == 0 ? x.numel() : format.block;
    const NumberFormat plain{"plain", format.element, 0, ScaleKind::F32};
    for (int64_t b = 0; b < x.numel() / block; ++b) {
      float amax = 0;
      for (int64_t i = 0; i < block; ++i) amax = std::max(amax, std::fabs(values[b * block + i]));
      BlockScale s = block_scale(amax, format, q.tensor_scale);
      // Elements without scales are tested by themselves: here only what they are multiplied by.
      at::Tensor scaled = at::empty({block}, at::kFloat);
      for (int64_t i = 0; i < block; ++i)
        scaled.mutable_data_ptr<float>()[i] = values[b * block + i] * s.factor;
      const at::Tensor expected = dequantize(quantize(scaled, plain, {.tensor_scale = 1}));
      int wrong = 0;
      for (int64_t i = 0; i < block; ++i) {
        const float e = expected.const_data_ptr<float>()[i] * s.scale;
        wrong += e != came.const_data_ptr<float>()[b * block + i];
      }
      ASSERT_EQ(wrong, 0) << format.name << ", block " << b << " of amax " << amax;
    }
    const double bits = static_cast<double>(q.bytes()) * 8 / static_cast<double>(x.numel());
    EXPECT_NEAR(bits, format.bits_per_value(), 0.01) << format.name;
  }
}

TEST_P(Numbers, ErrorsAreWithinHalfAnUlp) {
  const at::Tensor x = at::randn({16, 512});
  for (const NumberFormat& format : kNumberFormats) {
    const Element& e = format.coding();
    const at::Tensor error = dequantize(quantize(x, format)).sub(x).abs();
    // Relative to the value, or to the block's largest one; E8M0 cuts the top of a block off.
    const double cut =
        format.scale == ScaleKind::E8M0 ? 1 - e.max / std::exp2(std::ceil(std::log2(e.max))) : 0;
    const double relative = std::max(std::exp2(-e.mantissa_bits - 1), cut);
    const double steps = e.max / std::exp2(1 - e.bias - e.mantissa_bits);
    const double absolute = 5.5 / steps;
    EXPECT_LE(error.sub(x.abs().mul(relative * 1.07)).max().item<double>(), absolute)
        << format.name;
    EXPECT_GT(error.max().item<double>(), 0) << format.name;
  }
}

TEST_P(Numbers, BlocksWithWhatIsNotFiniteAreNan) {
  for (const NumberFormat& format : kNumberFormats)
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      at::Tensor x = at::full({2, 256}, 1.5f);
      x.mutable_data_ptr<float>()[300] = bad;
      const at::Tensor came = dequantize(quantize(x, format)).isnan();
      const bool has_tensor_scale = format.block == 0 || format.scale == ScaleKind::E4M3;
      const int64_t block = has_tensor_scale ? 512 : format.block, begin = 300 / block * block;
      for (int64_t i = 0; i < 512; ++i)
        EXPECT_EQ(came.const_data_ptr<bool>()[i], i >= begin && i < begin + block)
            << format.name << " value " << i;
    }
}

TEST_P(Numbers, ProductsAreThoseOfTheValues) {
  for (const NumberFormat& format : kNumberFormats)
    for (const auto& [columns, rows] : {std::pair<int64_t, int64_t>{512, 39}, {384, 8}, {128, 1}})
      for (const int64_t count : {1, 3, 7}) {
        if (count > 1 && rows < 39) continue;
        const at::Tensor w = at::randn({rows, columns});
        const at::Tensor x = at::randn({count, columns});
        const Quantized q = quantize(w, format);
        const at::Tensor wide = dequantize(q).to(at::kDouble);
        const at::Tensor expected = at::mm(x.to(at::kDouble), wide.t());
        const double allowed =
            1e-6 * at::mm(x.to(at::kDouble).abs(), wide.abs().t()).max().item<double>();
        EXPECT_LE(matmul(x, q).sub(expected).abs().max().item<double>(), allowed)
            << format.name << ' ' << count << " x " << columns << " x " << rows;
        const Quantized small_x = quantize(x, format);
        EXPECT_TRUE(matmul(small_x, q).equal(matmul(dequantize(small_x), q)));
      }
}

TEST_P(Numbers, OtherBlocksAreFormatsToo) {
  for (const int64_t block : {16, 48, 64, 96, 256}) {
    NumberFormat format = number_format("int4");
    format.block = block;
    const at::Tensor w = at::randn({5, block * 4}), x = at::randn({1, block * 4});
    const Quantized q = quantize(w, format);
    EXPECT_EQ(q.scales.size(1), 4);
    const at::Tensor expected = at::mm(x, dequantize(q).t());
    EXPECT_LE(matmul(x, q).sub(expected).abs().max().item<double>(), 1e-4) << block;
  }
}

TEST_P(Numbers, ResultsDoNotDependOnThreadsOrTheInstructionSet) {
  const at::Tensor x = wild_values(300, 768);
  const at::Tensor w = at::randn({300, 768}), row = at::randn({1, 768});
  for (const NumberFormat& format : kNumberFormats) {
    use_instruction_set("baseline");
    const Quantized one = quantize(x, format);
    const at::Tensor values = dequantize(one);
    use_instruction_set(GetParam());
    const Quantized weight = quantize(w, format);
    const at::Tensor product = matmul(row, weight);
    at::set_num_threads(2);
    const Quantized q = quantize(x, format);
    EXPECT_TRUE(one.codes.equal(q.codes)) << format.name;
    EXPECT_TRUE(!q.scales.defined() || one.scales.equal(q.scales)) << format.name;
    EXPECT_EQ(one.amax, q.amax) << format.name;
    EXPECT_TRUE(dequantize(q).equal(values)) << format.name;
    EXPECT_TRUE(matmul(row, weight).equal(product)) << format.name;
    at::set_num_threads(1);
  }
}

/// Many codes are stored past the caches; a NaN among them has values coded again.
TEST_P(Numbers, ManyValuesHaveTheCodesOfFew) {
  constexpr int64_t kRows = 2050, kColumns = 4608, kPart = 50;
  at::Tensor x = at::randn({kRows, kColumns});
  x[700][33] = NAN;
  x[2049][4607] = std::numeric_limits<float>::infinity();
  for (const char* name : {"fp8_e4m3", "fp8_e5m2_block", "mxfp6_e3m2", "nvfp4", "int8", "int4"}) {
    const NumberFormat& format = number_format(name);
    const float scale = format.block == 0 || format.scale == ScaleKind::E4M3 ? 0.25f : 0;
    const Quantized all = quantize(x, format, {.tensor_scale = scale});
    for (int64_t row = 0; row < kRows; row += kPart) {
      const Quantized few = quantize(x.narrow(0, row, kPart), format, {.tensor_scale = scale});
      ASSERT_TRUE(all.codes.narrow(0, row, kPart).equal(few.codes)) << name << " from " << row;
    }
  }
}

/// Blocks whose codes begin where nothing can be stored past the caches.
TEST_P(Numbers, ManyValuesInOtherBlocks) {
  constexpr int64_t kRows = 40000, kColumns = 480;
  const at::Tensor x = at::randn({kRows, kColumns});
  for (const char* name : {"int8", "mxfp6_e3m2", "int4"})
    for (const int64_t block : {80, 96, 240}) {
      NumberFormat format = number_format(name);
      format.block = block, format.scale = ScaleKind::F32;
      const Quantized all = quantize(x, format);
      const Quantized few = quantize(x.narrow(0, 39990, 10), format);
      EXPECT_TRUE(all.codes.narrow(0, 39990, 10).equal(few.codes)) << name << ' ' << block;
    }
}

TEST_P(Numbers, AnyNumberOfValuesHasAnAmax) {
  for (const int64_t count : {0, 1, 3, 15, 17, 63, 65, 5000}) {
    at::Tensor x = at::randn({count});
    const double expected = count == 0 ? 0 : x.abs().max().item<double>();
    EXPECT_EQ(largest_magnitude(x), expected);
    const Quantized q = quantize(x, number_format("fp8_e4m3"));
    EXPECT_EQ(q.amax, expected);
    EXPECT_EQ(dequantize(q).sizes(), x.sizes());
    if (count == 0) continue;
    EXPECT_LE(dequantize(q).sub(x).abs().max().item<double>(), expected / 16);
    x.mutable_data_ptr<float>()[count - 1] = NAN;
    EXPECT_TRUE(std::isnan(largest_magnitude(x)));
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Numbers, testing::ValuesIn(instruction_sets()),
                         [](const auto& info) { return info.param; });

TEST(NumbersDelayed, ScaleFollowsTheLastTensors) {
  DelayedScaling scaling(number_format("fp8_e4m3"), 2, 1);
  const auto step = [&](float amax) { return scaling.quantize(at::full({32}, amax)).tensor_scale; };
  EXPECT_EQ(scaling.next_scale(), 0);
  EXPECT_EQ(step(448), 1);       // its own, without a margin
  EXPECT_EQ(step(896), 2);       // of 448
  EXPECT_EQ(step(44.8f), 4);     // of 448 and 896
  EXPECT_EQ(step(INFINITY), 4);  // of 896 and 44.8; the infinity is not kept
  EXPECT_EQ(step(1), 4);
  EXPECT_FLOAT_EQ(step(1), 0.2f);  // of 44.8 and 1
  EXPECT_EQ(dequantize(scaling.quantize(at::full({16}, 1e6f))).max().item<float>(), 2.f);
}

TEST(NumbersProducts, OfNoColumnsAreZeros) {
  for (const char* name : {"fp8_e4m3", "mxfp4", "int8"}) {
    const Quantized weight = quantize(at::zeros({5, 0}), number_format(name));
    EXPECT_TRUE(matmul(at::zeros({2, 3, 0}), weight).equal(at::zeros({2, 3, 5})));
    EXPECT_TRUE(matmul(at::zeros({0}), weight).equal(at::zeros({5})));
    EXPECT_EQ(matmul(at::zeros({0, 0}), weight).sizes(), (std::vector<int64_t>{0, 5}));
  }
}

TEST(NumbersErrors, TensorsThatQuantizeDidNotMake) {
  const Quantized good = quantize(at::randn({4, 64}), number_format("mxfp4"));
  const auto is_refused = [](const Quantized& q) {
    EXPECT_THROW(dequantize(q), c10::ValueError);
    EXPECT_THROW(matmul(at::zeros({1, 64}), q), c10::ValueError);
    EXPECT_THROW(matmul(q, q), c10::ValueError);
  };
  const auto changed = [&](const auto& change) {
    Quantized q = good;
    change(q);
    is_refused(q);
  };
  changed([](Quantized& q) { q.codes = at::Tensor(); });
  changed([](Quantized& q) { q.scales = at::Tensor(); });
  changed([](Quantized& q) { q.codes = q.codes.narrow(0, 0, 3); });
  changed([](Quantized& q) { q.codes = q.codes.to(at::kInt); });
  changed([](Quantized& q) { q.codes = q.codes.t().contiguous().t(); });
  changed([](Quantized& q) { q.scales = q.scales.to(at::kFloat); });
  changed([](Quantized& q) { q.scales = q.scales.narrow(1, 0, 1).contiguous(); });
  changed([](Quantized& q) { q.sizes = {8, 64}; });
  changed([](Quantized& q) { q.sizes = {-4, -64}; });
  changed([](Quantized& q) { q.format.element = 7; });
  changed([](Quantized& q) { q.format.block = 24; });
  changed([](Quantized& q) { q.format.block = 128; });
  EXPECT_NO_THROW(matmul(good, good));
}

TEST(NumbersErrors, ProductsHaveNoGradient) {
  const Quantized weight = quantize(at::randn({4, 64}), number_format("mxfp4"));
  const at::Tensor x = at::randn({2, 64}).requires_grad_();
  EXPECT_THROW(matmul(x, weight), c10::ValueError);
  const at::NoGradGuard no_grad;
  EXPECT_NO_THROW(matmul(x, weight));
}

TEST(NumbersErrors, SayWhatCameAndWhatToDo) {
  const auto message = [](const auto& f) {
    try {
      f();
    } catch (const c10::ValueError& e) {
      return std::string(e.what_without_backtrace());
    }
    return std::string("nothing was thrown");
  };
  const at::Tensor x = at::zeros({4, 40});
  EXPECT_NE(message([] { number_format("fp4"); }).find("mxfp4, nvfp4"), std::string::npos);
  EXPECT_EQ(message([&] { quantize(x, number_format("mxfp4")); }),
            "quantize to mxfp4: came sizes [4, 40], expected a last one that is a multiple of 32; "
            "pad it.");
  EXPECT_NE(message([&] {
              quantize(x.to(at::kDouble), number_format("int8"));
            }).find("expected fp32 or bf16"),
            std::string::npos);
  EXPECT_NE(message([&] {
              quantize(x, number_format("mxfp8_e4m3"), {.tensor_scale = 1});
            }).find("expected a last one"),
            std::string::npos);
  EXPECT_NE(message([&] {
              quantize(x, number_format("fp8_e4m3"), {.tensor_scale = -1});
            }).find("came a tensor scale of -1"),
            std::string::npos);
  EXPECT_NE(message([&] {
              matmul(x, quantize(at::zeros({2, 32}), number_format("mxfp4")));
            }).find("expected a last one of 32"),
            std::string::npos);
  EXPECT_NE(message([&] {
              quantize(x, {"odd", element_index("e2m1"), 24, ScaleKind::F32});
            }).find("came blocks of 24"),
            std::string::npos);
  EXPECT_NE(message([] { DelayedScaling(number_format("mxfp4")); }).find("single scale"),
            std::string::npos);
  EXPECT_NE(message([] { use_instruction_set("neon"); }).find("baseline"), std::string::npos);
}

}  // namespace
}  // namespace graft::systems
