// What the tests of quantising a whole model share: a folder, small settings, and what is checked
// of each result.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "formats/safetensors.h"
#include "quantizer/model/checksum.h"
#include "quantizer/model/quantize_model.h"
#include "support/tiny_checkpoints.h"

namespace graft::quantizer {

inline std::string content(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Every file in a folder, by its path in it.
inline std::map<std::string, std::string> contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      out[entry.path().lexically_relative(folder).string()] = content(entry.path());
  }
  return out;
}

// Bit by bit, and with loops: shares nothing with the packer.
inline at::Tensor unpacked_weight(const formats::Safetensors& file, const std::string& module,
                                  int bits) {
  const at::Tensor packed = file.get(module + ".weight_packed"),
                   scale = file.get(module + ".weight_scale"),
                   shape = file.get(module + ".weight_shape");
  const auto if_there = [&](const std::string& name) {
    const auto found = file.tensors.find(module + name);
    return found == file.tensors.end() ? at::Tensor() : found->second;
  };
  const at::Tensor zeros = if_there(".weight_zero_point"), index = if_there(".weight_g_idx");
  const int64_t rows = shape[0].item<int64_t>(), columns = shape[1].item<int64_t>(),
                groups = scale.size(1);
  const auto number = [bits](const int32_t* words, int64_t stride, int64_t i) {
    int64_t out = 0;
    for (int bit = 0; bit < bits; ++bit) {
      const int64_t at = i * bits + bit;
      out |= static_cast<int64_t>((static_cast<uint32_t>(words[at / 32 * stride]) >> (at % 32)) & 1)
             << bit;
    }
    return out;
  };
  at::Tensor out = at::empty({rows, columns});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t group =
          index.defined() ? index.const_data_ptr<int32_t>()[column] : column / (columns / groups);
      const int64_t zero = zeros.defined()
                               ? number(zeros.const_data_ptr<int32_t>() + group, groups, row)
                               : int64_t{1} << (bits - 1);
      const int64_t code =
          number(packed.const_data_ptr<int32_t>() + row * packed.size(1), 1, column);
      out.mutable_data_ptr<float>()[row * columns + column] =
          static_cast<float>(code - zero) * scale.const_data_ptr<float>()[row * groups + group];
    }
  }
  return out;
}

class QuantizeModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("graft_quantize_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    at::set_num_threads(1);  // threads cost such small models more than they gain
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    at::set_num_threads(threads_);
  }

  std::filesystem::path model() const { return folder_ / "model"; }
  std::filesystem::path out(const std::string& name = "out") const { return folder_ / name; }

  QuantizeOptions options(const std::string& name = "out") const {
    QuantizeOptions o;
    o.model = model();
    o.out = out(name);
    o.settings.group = 16;
    o.settings.block = 16;
    o.calibration.samples = 12;
    o.calibration.sequence = 24;
    o.compiled = false;
    return o;
  }

  // That quantising fails saying `part`, and gives no file its final name.
  void expect_refused(const QuantizeOptions& o, const std::string& part) const {
    try {
      quantize_model(o);
      ADD_FAILURE() << "accepted; expected an error with: " << part;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    if (!std::filesystem::exists(o.out) || !std::filesystem::is_directory(o.out)) return;
    for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(o.out))
      EXPECT_EQ(entry.path().filename(), ".graft-quantize");
  }
  void expect_refused(const test::TinyCheckpoint& tiny, const std::string& part,
                      int shards = 1) const {
    std::filesystem::remove_all(model());
    tiny.write(model(), shards);
    expect_refused(options(), part);
    EXPECT_FALSE(std::filesystem::exists(out()));  // no layer was done, so nothing is kept
  }

  // The recorded checksums are those of the weights that are on the disk, all linear layers are
  // there, and no weight is far from the original's.
  void expect_whole(const QuantizeReport& report, const test::TinyCheckpoint& tiny,
                    const std::filesystem::path& folder, int bits) const {
    const formats::Safetensors file = formats::read_checkpoint(folder);
    size_t replaced = 0;
    for (const LayerReport& layer : report.layers) {
      for (const LinearReport& linear : layer.linears) {
        ++replaced;
        EXPECT_FALSE(file.tensors.contains(linear.module + ".weight"));
        const at::Tensor weight = unpacked_weight(file, linear.module, bits);
        EXPECT_EQ(crc_text(crc32(weight)), linear.weight_crc32) << linear.module;
        const at::Tensor before = tiny.tensors.at(linear.module + ".weight").to(at::kFloat);
        const double relative =
            (weight - before).norm().item<double>() / before.norm().item<double>();
        EXPECT_LT(relative, bits == 8 ? 0.02 : bits == 4 ? 0.3 : 0.6) << linear.module;
        EXPECT_GT(relative, 0) << linear.module;
      }
    }
    for (const auto& [name, tensor] : tiny.tensors) {
      if (file.tensors.contains(name)) {
        EXPECT_TRUE(at::equal(file.get(name), tensor)) << name;
      } else {
        --replaced;
      }
    }
    EXPECT_EQ(replaced, 0u);
    EXPECT_FALSE(std::filesystem::exists(folder / ".graft-quantize"));
  }

  std::filesystem::path folder_;
  const int threads_ = at::get_num_threads();
};

}  // namespace graft::quantizer
