// compressed-tensors' packing against words worked out by hand and by its own code
// (read_pack_quantized.py compares whole models), and against an unpacker that goes bit by bit.
#include "quantizer/model/pack.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "quantizer/model/checksum.h"

namespace graft::quantizer {
namespace {

using at::Tensor;

// Number `index` of a row: its bits one by one.
int64_t number_at(const Tensor& packed, int64_t row, int64_t index, int bits) {
  int64_t out = 0;
  for (int bit = 0; bit < bits; ++bit) {
    const int64_t at = index * bits + bit;
    const auto word = static_cast<uint32_t>(packed[row][at / 32].item<int32_t>());
    out |= static_cast<int64_t>((word >> (at % 32)) & 1) << bit;
  }
  return out;
}

TEST(Pack, WordsAsCompressedTensorsWritesThem) {
  // pack_to_int32(torch.arange(10) % 2^bits - 2^(bits-1), bits) of compressed-tensors 0.20.
  const auto words = [](int bits) {
    const Tensor packed =
        pack_columns(at::arange(10).remainder(int64_t{1} << bits).unsqueeze(0), bits);
    return std::vector<int32_t>(packed.const_data_ptr<int32_t>(),
                                packed.const_data_ptr<int32_t>() + packed.numel());
  };
  EXPECT_EQ(words(4), (std::vector<int32_t>{0x76543210, 0x98}));
  EXPECT_EQ(words(8), (std::vector<int32_t>{0x03020100, 0x07060504, 0x0908}));
  EXPECT_EQ(words(3), (std::vector<int32_t>{0x08FAC688}));
}

TEST(Pack, EveryWidthAndLengthComesBack) {
  for (int bits = 1; bits <= 8; ++bits) {
    for (const int64_t columns : {0, 1, 7, 10, 11, 32, 33, 95, 384}) {
      const Tensor numbers = at::randint(int64_t{1} << bits, {3, columns}, at::kInt);
      const Tensor packed = pack_columns(numbers, bits);
      ASSERT_EQ(packed.sizes(), (at::IntArrayRef{3, (columns * bits + 31) / 32}));
      EXPECT_TRUE(at::equal(unpack_columns(packed, bits, columns), numbers.to(at::kByte)))
          << bits << " bits, " << columns;
      for (const int64_t column : {int64_t{0}, columns / 2, columns - 1}) {
        if (columns > 0) {
          EXPECT_EQ(number_at(packed, 2, column, bits), numbers[2][column].item<int64_t>());
        }
      }
    }
  }
}

TEST(Pack, RefusesWhatDoesNotFit) {
  EXPECT_THROW(pack_columns(at::zeros({1, 4}, at::kInt), 9), GptqError);
  EXPECT_THROW(unpack_columns(at::zeros({1, 2}, at::kInt), 4, 8), GptqError);
  EXPECT_THROW(unpack_columns(at::zeros({1, 1}, at::kLong), 4, 8), GptqError);
}

LayerResult made_result(int bits, bool symmetric, int64_t rows, int64_t columns, int64_t groups) {
  const int64_t most = int64_t{1} << bits;
  LayerResult out;
  const Tensor numbers = at::randint(most, {rows, columns}, at::kInt);
  out.codes = symmetric ? (numbers - most / 2).to(at::kChar) : numbers.to(at::kByte);
  out.scale = at::rand({rows, groups}) + 0.1;
  out.zero =
      symmetric ? at::zeros({rows, groups}, at::kInt) : at::randint(most, {rows, groups}, at::kInt);
  return out;
}

Tensor expected_weight(const LayerResult& r, const Tensor& group) {
  Tensor out = at::empty({r.codes.size(0), r.codes.size(1)});
  for (int64_t row = 0; row < out.size(0); ++row) {
    for (int64_t column = 0; column < out.size(1); ++column) {
      const int64_t g = group[column].item<int64_t>();
      const auto steps =
          static_cast<float>(r.codes[row][column].item<int64_t>() - r.zero[row][g].item<int64_t>());
      out[row][column] = steps * r.scale[row][g].item<float>();
    }
  }
  return out;
}

TEST(PackLinear, DequantizesToCodesTimesScale) {
  at::manual_seed(1);
  for (const int bits : {3, 4, 8}) {
    for (const bool symmetric : {true, false}) {
      for (const int64_t groups : {1, 3}) {
        const LayerResult result = made_result(bits, symmetric, 11, 24, groups);
        const PackedLinear packed = pack_linear(result, bits, symmetric);
        EXPECT_EQ(packed.zero_point.defined(), !symmetric);
        if (!symmetric) {
          EXPECT_EQ(packed.zero_point.sizes(), (at::IntArrayRef{(11 * bits + 31) / 32, groups}));
        }
        EXPECT_FALSE(packed.group_index.defined());
        const Tensor group = at::arange(24).floor_divide(24 / groups);
        EXPECT_TRUE(at::equal(dequantize(packed, bits, "m"), expected_weight(result, group)))
            << bits << ' ' << symmetric << ' ' << groups;
      }
    }
  }
}

TEST(PackLinear, GroupsThatAreNotRunsKeepTheirIndex) {
  LayerResult result = made_result(4, false, 5, 12, 3);
  const Tensor runs = at::arange(12).floor_divide(4);
  result.group_index = runs.to(at::kInt);
  EXPECT_FALSE(pack_linear(result, 4, false).group_index.defined());  // nothing to say
  result.group_index = runs.flip(0).to(at::kInt);
  const PackedLinear packed = pack_linear(result, 4, false);
  ASSERT_TRUE(packed.group_index.defined());
  EXPECT_TRUE(at::equal(dequantize(packed, 4, "m"), expected_weight(result, runs.flip(0))));
}

TEST(PackLinear, ReadsWhatItNames) {
  const LayerResult result = made_result(4, false, 5, 12, 3);
  const PackedLinear packed = pack_linear(result, 4, false);
  formats::Safetensors file;
  for (const auto& [name, tensor] : tensors_of(packed, "a.b")) file.tensors[name] = tensor;
  EXPECT_EQ(file.tensors.size(), 4u);
  EXPECT_TRUE(file.tensors.contains("a.b.weight_zero_point"));
  EXPECT_TRUE(at::equal(dequantize(read_packed(file, "a.b"), 4, "a.b"), dequantize(packed, 4, "")));
  EXPECT_THROW(read_packed(file, "a"), formats::SafetensorsError);
}

TEST(PackLinear, RefusesTensorsThatDoNotFitOneAnother) {
  const LayerResult result = made_result(4, true, 5, 12, 3);
  const auto expect_refused = [](const PackedLinear& packed, const std::string& part) {
    try {
      dequantize(packed, 4, "a.b");
      ADD_FAILURE() << "accepted; expected an error with: " << part;
    } catch (const GptqError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  PackedLinear packed = pack_linear(result, 4, true);
  packed.shape = at::tensor({6, 12}, at::kLong);
  expect_refused(packed, "do not fit weight_shape [6, 12]");
  packed = pack_linear(result, 4, true);
  packed.scale = at::ones({5, 5});
  expect_refused(packed, "5 groups do not divide 12 columns");
  packed = pack_linear(result, 4, true);
  packed.group_index = at::full({12}, 3, at::kInt);
  expect_refused(packed, "weight_g_idx");
}

TEST(Checksum, IsZlibs) {
  const std::string text = "123456789";
  EXPECT_EQ(crc_text(crc32(text.data(), text.size())), "cbf43926");  // the check value of CRC-32
  EXPECT_EQ(crc32(text.data() + 4, 5, crc32(text.data(), 4)), crc32(text.data(), 9));
  EXPECT_EQ(crc_text(crc32(nullptr, 0)), "00000000");
}

}  // namespace
}  // namespace graft::quantizer
