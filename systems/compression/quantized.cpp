#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "graft/systems/gradient_compression.h"
#include "systems/compression/codec.h"
#include "systems/compression/remainders.h"

namespace graft::systems {
namespace {

class EightBit final : public Compressor {
 public:
  explicit EightBit(const EightBitOptions& options) : options_(options) {
    TORCH_CHECK_VALUE(options.block >= 1, "eight_bit: the block came as ", options.block,
                      "; expected the number of values that share a scale, as 256");
  }
  std::string name() const override { return "eight_bit"; }

 protected:
  void average(Group& group, const at::Tensor& gradient, size_t bucket, const Shapes&) override {
    const int64_t call = ++calls_[bucket];
    const auto rounding = [&](int rank, int phase, int part) {
      return rounding_of(bucket, call, rank, phase, part);
    };
    const int size = group.size(), own = group.rank();
    const int64_t count = gradient.numel(), blocks = (count + options_.block - 1) / options_.block;
    // Whole blocks to each process; the last may have fewer, or none.
    const int64_t share = (blocks + size - 1) / size * options_.block;
    const int64_t row = Layout{share, options_.block}.bytes();
    const auto layout_of = [&](int rank) {
      return Layout{std::clamp<int64_t>(count - rank * share, 0, share), options_.block};
    };
    float* values = gradient.mutable_data_ptr<float>();
    const at::Tensor out = at::empty({size, row}, at::kByte), in = at::empty_like(out);
    std::vector<Pending> pending;
    for (int rank = 0; rank < size; ++rank)
      if (rank != own) pending.push_back(group.start_receive(in[rank], rank));
    // The neighbour's part first, so that not all processes send to one.
    for (int step = 1; step <= size; ++step) {
      const int rank = (own + step) % size;
      encode_bytes(values + rank * share, layout_of(rank), rounding(own, 0, rank),
                   out[rank].mutable_data_ptr<uint8_t>());
      if (rank == own) continue;
      pending.push_back(group.start_send(out[rank], rank));
      count_sent(row);
    }
    for (Pending& one : pending) one.wait();
    const Layout layout = layout_of(own);
    const at::Tensor sums = at::zeros({share}, at::kFloat);
    for (int rank = 0; rank < size; ++rank)
      add_bytes((rank == own ? out : in)[rank].const_data_ptr<uint8_t>(), layout,
                sums.mutable_data_ptr<float>());
    sums.div_(size);
    const at::Tensor average = at::empty({row}, at::kByte);
    encode_bytes(sums.const_data_ptr<float>(), layout, rounding(own, 1, own),
                 average.mutable_data_ptr<uint8_t>());
    const at::Tensor all = all_gather(group, average);
    gradient.zero_();
    for (int rank = 0; rank < size; ++rank)
      add_bytes(all[rank].const_data_ptr<uint8_t>(), layout_of(rank), values + rank * share);
  }
  void forget(size_t bucket) override { calls_.erase(bucket); }
  std::vector<double> options() const override {
    return {double(options_.block), double(options_.stochastic), double(options_.seed)};
  }

 private:
  /// Other chance in each bucket, call, process, phase and part.
  CodeRounding rounding_of(size_t bucket, int64_t call, int rank, int phase, int part) const {
    uint64_t seed = options_.seed;
    for (const int64_t x :
         {static_cast<int64_t>(bucket), call, int64_t{rank}, int64_t{phase}, int64_t{part}})
      seed = (seed + static_cast<uint64_t>(x) + 1) * 0x9e3779b97f4a7c15u;
    return {options_.stochastic, static_cast<uint32_t>(seed >> 32)};
  }

  EightBitOptions options_;
  std::unordered_map<size_t, int64_t> calls_;  ///< per bucket
};

class OneBit final : public Compressor {
 public:
  explicit OneBit(const OneBitOptions& options) : options_(options) {
    TORCH_CHECK_VALUE(options.block >= 8 && options.block % 8 == 0, "one_bit: the block came as ",
                      options.block, "; expected a multiple of 8 values, as 1024");
  }
  std::string name() const override { return "one_bit"; }

 protected:
  void average(Group& group, const at::Tensor& gradient, size_t bucket, const Shapes&) override {
    const at::Tensor source =
        options_.error_feedback ? remainders_.added_to(gradient, bucket) : gradient;
    const Layout layout{gradient.numel(), options_.block, true};
    const at::Tensor message = at::empty({layout.bytes()}, at::kByte);
    encode_bits(source.mutable_data_ptr<float>(), layout, options_.error_feedback,
                message.mutable_data_ptr<uint8_t>());
    float* values = gradient.mutable_data_ptr<float>();
    const at::Tensor messages = all_gather(group, message);
    gradient.zero_();
    for (int rank = 0; rank < group.size(); ++rank)
      add_bits(messages[rank].const_data_ptr<uint8_t>(), layout, values);
    gradient.div_(group.size());
  }
  void forget(size_t bucket) override { remainders_.forget(bucket); }
  std::vector<double> options() const override {
    return {double(options_.block), double(options_.error_feedback)};
  }

 private:
  OneBitOptions options_;
  Remainders remainders_;
};

}  // namespace

std::shared_ptr<Compressor> eight_bit(const EightBitOptions& options) {
  return std::make_shared<EightBit>(options);
}

std::shared_ptr<Compressor> one_bit(const OneBitOptions& options) {
  return std::make_shared<OneBit>(options);
}

}  // namespace graft::systems
