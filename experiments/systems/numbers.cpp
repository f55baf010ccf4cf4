// Small numbers: what formats of 4, 6 and 8 bits take and leave, how fast codes are made and
// read, products with them, and training in FP8.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros_like.h>
#include <emmintrin.h>
#include <graft/graft.h>
#include <graft/systems/fp8_training.h>
#include <graft/systems/numbers.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "experiments/systems/claim.h"
#include "lab/memory/memory.h"
#include "lab/stats.h"
#include "lab/thread_count.h"
#include "lab/words.h"
#include "workloads/decoder/tiny.h"

namespace graft::experiments {
namespace {

using at::Tensor;
using systems::kNumberFormats;
using systems::NumberFormat;
using systems::Quantized;

constexpr int64_t kLine = 64;  // bytes of a cache line

// ---- The bound: loops that move bytes and compute nothing

/// A cache line in registers. Written out, since callers are compiled without unrolling.
struct Line {
  __m128i a, b, c, d;

  void mix(const char* from) {
    const auto* p = reinterpret_cast<const __m128i*>(from);
    a = _mm_xor_si128(a, _mm_load_si128(p)), b = _mm_xor_si128(b, _mm_load_si128(p + 1));
    c = _mm_xor_si128(c, _mm_load_si128(p + 2)), d = _mm_xor_si128(d, _mm_load_si128(p + 3));
  }
  void store(char* to) const {
    auto* p = reinterpret_cast<__m128i*>(to);
    _mm_store_si128(p, a), _mm_store_si128(p + 1, b);
    _mm_store_si128(p + 2, c), _mm_store_si128(p + 3, d);
  }
  void stream(char* to) const {
    auto* p = reinterpret_cast<__m128i*>(to);
    _mm_stream_si128(p, a), _mm_stream_si128(p + 1, b);
    _mm_stream_si128(p + 2, c), _mm_stream_si128(p + 3, d);
  }
  int sum() const {
    return _mm_cvtsi128_si32(_mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d)));
  }
};

/// Reads and writes so many bytes for each of `units`, past the caches or through them.
void move_bytes(const Tensor& from, Tensor& to, int64_t units, int64_t read, int64_t written,
                bool past_caches) {
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  at::parallel_for(0, units, 1, [&](int64_t begin, int64_t end) {
    Line line{};
    for (int64_t unit = begin; unit < end; ++unit) {
      const char* p = source + unit * read;
      char* q = target + unit * written;
      for (int64_t i = 0; i < read; i += kLine) line.mix(p + i);
      if (past_caches)
        for (int64_t i = 0; i < written; i += kLine) line.stream(q + i);
      else
        for (int64_t i = 0; i < written; i += kLine) line.store(q + i);
    }
    _mm_sfence();
    volatile int seen = line.sum();
    (void)seen;
  });
}

constexpr int64_t kUnit = 4096;  // values

int64_t whole_lines(double bytes) {
  return static_cast<int64_t>(bytes) / kLine * kLine;
}

lab::MeasureOptions samples_of(const Trial& trial) {
  return {.min_time = trial.small()   ? 0.001
                      : trial.quick() ? 0.05
                                      : 0.7,
          .min_samples = trial.settings.trial_count(),
          .warmup = 1};
}

/// Shares of bandwidth are of the fastest samples, as STREAM's are: what else runs only slows.
double fastest(const lab::Samples& samples) {
  return *std::min_element(samples.ms.begin(), samples.ms.end());
}

/// Ours beside the loop that moves the same bytes, the faster of its two kinds. Gives our share
/// of it.
double beside_bound(Trial& trial, const std::string& configuration, int64_t values, double read,
                    double written, const std::string& name, const std::function<void()>& ours) {
  const int64_t in = whole_lines(read * kUnit), out = whole_lines(written * kUnit);
  // Not ones, of which two add up to zeros: these some processors write twice as fast as others.
  // Each loop has memory of its own, as ours has, so that none finds in a cache what another left.
  const auto loop = [&](bool past) {
    return [=, from = at::randint(1, 256, {values / kUnit * in + kLine}, at::kByte),
            to = at::ones({values / kUnit * out + kLine}, at::kByte)]() mutable {
      move_bytes(from, to, values / kUnit, in, out, past);
    };
  };
  const auto samples = lab::measure(
      {{"through the caches", loop(false)}, {"past the caches", loop(true)}, {name, ours}},
      samples_of(trial));
  const size_t best = fastest(samples[0]) <= fastest(samples[1]) ? 0 : 1;
  const double bytes = static_cast<double>(values) * (read + written);
  const double share = fastest(samples[best]) / fastest(samples[2]);
  trial.compare(configuration, "same bytes, " + samples[best].name, samples[best].ms, name,
                samples[2].ms,
                {.accuracy = lab::number(bytes / fastest(samples[2]) / 1e6) + " GB/s of " +
                             lab::number(bytes / fastest(samples[best]) / 1e6),
                 .share = share,
                 .share_of = "of memory bandwidth"});
  return share;
}

float tensor_scale_for(const NumberFormat& format) {
  return format.block == 0 || format.scale == systems::ScaleKind::E4M3 ? 1 / 64.f : 0;
}

/// What ATen does for FP8, with a scale given beforehand: the casts of a plain LibTorch program.
Tensor aten_fp8(const Tensor& x) {
  return x.mul(64).clamp(-448, 448).to(at::kFloat8_e4m3fn);
}

void test_bandwidth(Trial& trial) {
  const int64_t values = trial.small()   ? 16 * kUnit
                         : trial.quick() ? int64_t{1} << 24
                                         : int64_t{1} << 25;
  const Tensor x = at::randn({values / kUnit, kUnit});
  const PoolGuard warm;  // results in memory that is there already
  std::vector<std::string> missed;
  const auto note = [&](const std::string& what, double share) {
    if (share < 0.8) missed.push_back(what + ' ' + lab::percent_text(share, 0));
  };
  size_t done = 0;
  for (const NumberFormat& format : kNumberFormats) {
    trial.at(static_cast<double>(done++) / kNumberFormats.size(), std::string(format.name));
    const double bytes = format.bits_per_value() / 8;
    const std::string name(format.name);
    const systems::QuantizeOptions given{.tensor_scale = tensor_scale_for(format)};
    note(name + " from fp32",
         beside_bound(trial, name + ", from fp32", values, 4, bytes, "quantize",
                      [&] { (void)systems::quantize(x, format, given); }));
    const Quantized q = systems::quantize(x, format, given);
    note(name + " to fp32", beside_bound(trial, name + ", to fp32", values, bytes, 4, "dequantize",
                                         [&] { (void)systems::dequantize(q); }));
  }
  const auto compiled = graft::compile(aten_fp8, {.name = "aten_fp8", .cache = false});
  for (int i = 0; i < 12; ++i) {
    (void)compiled(x);
    compiled.wait();
  }
  const NumberFormat& fp8 = systems::number_format("fp8_e4m3");
  const lab::TimedVariant ours{
      "quantize", [&] { (void)systems::quantize(x, fp8, {.tensor_scale = 1 / 64.f}); }};
  const bool same = aten_fp8(x).view(at::kByte).equal(
      systems::quantize(x, fp8, {.tensor_scale = 1 / 64.f}).codes);
  const std::string accuracy = same ? "equal codes" : "codes differ";
  trial.compare("fp8_e4m3 beside ATen", {"ATen's cast, eager", [&] { (void)aten_fp8(x); }}, ours,
                {.accuracy = accuracy});
  trial.compare("fp8_e4m3 beside Graft",
                {"the same, compiled by Graft", [&] { (void)compiled(x); }}, ours,
                {.accuracy = accuracy});
  trial.verdict(missed.empty() ? "80 % of memory bandwidth in every format, both ways"
                               : "below 80 % of memory bandwidth: " + lab::joined(missed, ", "));
  trial.note(
      "Formats with a scale of the whole tensor are given it, as delayed scaling does: finding "
      "it first is one more pass over the values. The bound counts bytes that are read and "
      "bytes that are written, with stores past the caches where those are faster; shares are of "
      "the fastest samples.");
}

// ---- One row times a matrix of codes

void test_decode(Trial& trial) {
  const int64_t columns = trial.small() ? 256 : 4096;
  const int64_t rows = trial.small() ? 64 : trial.quick() ? 8192 : 16384;
  const Tensor x = at::randn({1, columns}), w = at::randn({rows, columns});
  const Tensor w_bf16 = w.to(at::kBFloat16), x_bf16 = x.to(at::kBFloat16);
  const PoolGuard warm;
  const std::string sizes = std::to_string(rows) + " x " + std::to_string(columns);
  std::vector<std::string> shares;
  double least = 1;
  for (const char* name : {"int4", "mxfp4", "nvfp4", "int8", "mxfp8_e4m3"}) {
    const NumberFormat& format = systems::number_format(name);
    const Quantized q = systems::quantize(w, format);
    const Tensor wide = systems::dequantize(q);
    const double error = systems::matmul(x, q).sub(at::linear(x, wide)).abs().max().item<double>();
    const auto bytes = static_cast<double>(q.bytes());
    const int64_t units = q.codes.numel() / kUnit;
    Tensor nowhere = at::empty({kLine}, at::kByte);
    // Codes and bound each follow a product that leaves none of the codes in the caches.
    const auto samples =
        lab::measure({{"fp32", [&] { (void)at::linear(x, w); }},
                      {"codes", [&] { (void)systems::matmul(x, q); }},
                      {"bf16", [&] { (void)at::linear(x_bf16, w_bf16); }},
                      {"bound", [&] { move_bytes(q.codes, nowhere, units, kUnit, 0, false); }}},
                     samples_of(trial));
    // The loop reads the codes; the scales that ours reads, too, are counted at the same rate.
    const double bound = fastest(samples[3]) * bytes / static_cast<double>(units * kUnit);
    const double share = bound / fastest(samples[1]);
    const Facts facts{.accuracy = "differs from fp32 of the same values by " + lab::number(error),
                      .share = share,
                      .share_of = "of read bandwidth"};
    for (const size_t baseline : {0, 2}) {
      Facts with = facts;
      with.baseline_bytes = static_cast<double>(w.numel()) * (baseline == 0 ? 4 : 2);
      with.bytes = bytes;
      trial.compare(std::string(name) + ", " + sizes, "ATen, " + samples[baseline].name,
                    samples[baseline].ms, "codes in registers", samples[1].ms, with);
    }
    shares.push_back(std::string(name) + ' ' + lab::percent_text(share, 0));
    if (format.coding().bits == 4) least = std::min(least, share);
  }
  trial.verdict(std::string(least >= 0.6 ? "codes of 4 bits are above 60 % of the bound: "
                                         : "codes of 4 bits are below 60 % of the bound: ") +
                lab::joined(shares, ", "));
  trial.note(
      "The bound is a loop that reads the codes once and does nothing else, with as many threads; "
      "both find them in memory, not in a cache. Shares are of the fastest samples.");
}

// ---- A small model of bytes, whose linear layers are given

using QuantizedLinear =
    std::function<Tensor(const std::string& name, const Tensor& x, const Tensor& weight)>;

struct TinySizes {
  int64_t layers = 2, width = 128, heads = 4, context = 64, batch = 8, steps = 1200;
};

class TinyModel {
 public:
  TinyModel(const TinySizes& sizes, uint64_t seed) : sizes_(sizes) {
    const at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto add = [&](const std::string& name, int64_t rows, int64_t columns, double scale) {
      all_[name] = at::randn({rows, columns}, generator).mul(scale).requires_grad_();
    };
    const int64_t w = sizes.width;
    add("bytes", 256, w, 0.1), add("positions", sizes.context, w, 0.1);
    const double in = 1 / std::sqrt(static_cast<double>(w));
    for (int64_t i = 0; i < sizes.layers; ++i) {
      const std::string at = std::to_string(i) + ".";
      add(at + "qkv", 3 * w, w, in), add(at + "out", w, w, in / 2);
      add(at + "up", 4 * w, w, in), add(at + "down", w, 4 * w, in / 4);
    }
    add("head", 256, w, in);
  }

  /// Nats a byte. The layers' linear maps are `linear`'s; embeddings and the head stay in fp32.
  Tensor loss(const Tensor& tokens, const Tensor& next, const QuantizedLinear& linear) const {
    const int64_t batch = tokens.size(0), length = tokens.size(1), w = sizes_.width;
    const auto norm = [&](const Tensor& x) { return at::layer_norm(x, {w}); };
    Tensor x =
        at::embedding(all_.at("bytes"), tokens).add(all_.at("positions").narrow(0, 0, length));
    for (int64_t i = 0; i < sizes_.layers; ++i) {
      const auto layer = [&, at = std::to_string(i) + "."](const char* name, const Tensor& in) {
        return linear(at + name, in, all_.at(at + name));
      };
      const std::vector<Tensor> parts = layer("qkv", norm(x))
                                            .view({batch, length, 3, sizes_.heads, -1})
                                            .permute({2, 0, 3, 1, 4})
                                            .unbind(0);
      const Tensor mixed =
          at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
      x = x.add(layer("out", mixed.transpose(1, 2).reshape({batch, length, w})));
      x = x.add(layer("down", at::gelu(layer("up", norm(x)))));
    }
    const Tensor logits = at::linear(norm(x), all_.at("head"));
    return at::cross_entropy_loss(logits.view({-1, 256}), next.reshape({-1}));
  }

  std::map<std::string, Tensor>& parameters() { return all_; }
  static bool is_layers(const std::string& name) { return name.find('.') != std::string::npos; }

 private:
  TinySizes sizes_;
  std::map<std::string, Tensor> all_;
};

struct TinyData {
  Tensor train, held_out;
  TinySizes sizes;
  uint64_t seed;

  std::pair<Tensor, Tensor> windows(const Tensor& text, int64_t number, int64_t count) const {
    const at::Generator generator =
        at::detail::createCPUGenerator(seed * 1000003 + static_cast<uint64_t>(number));
    const Tensor starts =
        at::randint(text.size(0) - sizes.context - 1, {count, 1}, generator, at::kLong);
    const Tensor all = text.take(starts.add(at::arange(sizes.context + 1, at::kLong)));
    return {all.narrow(1, 0, sizes.context).contiguous(), all.narrow(1, 1, sizes.context)};
  }
  double held_out_loss(const TinyModel& model, const QuantizedLinear& linear) const {
    const at::NoGradGuard no_grad;
    const auto [tokens, next] = windows(held_out, 0, 64);
    return model.loss(tokens, next, linear).item<double>();
  }
};

TinySizes tiny_sizes(const Trial& trial) {
  if (trial.small()) return {.width = 32, .heads = 2, .context = 16, .batch = 2, .steps = 4};
  return trial.quick() ? TinySizes{.width = 64, .steps = 60} : TinySizes{};
}

TinyData tiny_data(const TinySizes& sizes, uint64_t seed) {
  const workloads::decoder::TinyText text = workloads::decoder::tiny_text({});
  return {workloads::decoder::byte_ids(text.train), workloads::decoder::byte_ids(text.held_out),
          sizes, seed};
}

Tensor fp32_linear(const std::string&, const Tensor& x, const Tensor& w) {
  return at::linear(x, w);
}
Tensor bf16_linear(const std::string&, const Tensor& x, const Tensor& w) {
  return at::linear(x.to(at::kBFloat16), w.to(at::kBFloat16)).to(at::kFloat);
}

/// A model in training, by Adam.
class TinyTraining {
 public:
  TinyTraining(std::string name, const TinyData& data, uint64_t seed, QuantizedLinear linear)
      : name(std::move(name)), linear(std::move(linear)), model(data.sizes, seed), data_(data) {
    for (const auto& [key, p] : model.parameters())
      first_[key] = at::zeros_like(p.detach()), second_[key] = at::zeros_like(p.detach());
  }

  void step() {
    const auto [tokens, next] = data_.windows(data_.train, steps_, data_.sizes.batch);
    const double ms = lab::time_once_ms([&] {
      const Tensor loss = model.loss(tokens, next, linear);
      loss.backward();
      update();
      losses.push_back(loss.item<double>());
    });
    step_ms.push_back(ms);
  }

  /// Bytes of tensors that live between forward and backward, beyond those before.
  double kept_bytes() const {
    const auto [tokens, next] = data_.windows(data_.train, 0, data_.sizes.batch);
    lab::MemoryTracker tracker;
    const auto before = tracker.live_bytes();
    const Tensor loss = model.loss(tokens, next, linear);
    return static_cast<double>(tracker.live_bytes() - before);
  }

  std::string name;
  QuantizedLinear linear;
  TinyModel model;
  std::vector<double> losses, step_ms;

 private:
  void update() {
    const at::NoGradGuard no_grad;
    ++steps_;
    constexpr double kFirst = 0.9, kSecond = 0.95, kRate = 2e-3;
    const auto n = static_cast<double>(steps_);
    const double warm = std::min(1.0, n / 50) * kRate / (1 - std::pow(kFirst, n));
    for (auto& [key, p] : model.parameters()) {
      Tensor& m = first_[key];
      Tensor& v = second_[key];
      m.mul_(kFirst).add_(p.grad(), 1 - kFirst);
      v.mul_(kSecond).addcmul_(p.grad(), p.grad(), 1 - kSecond);
      p.addcdiv_(m, v.div(1 - std::pow(kSecond, n)).sqrt_().add_(1e-8), -warm);
      p.mutable_grad() = Tensor();
    }
  }

  const TinyData& data_;
  int64_t steps_ = 0;
  std::map<std::string, Tensor> first_, second_;
};

/// Mean of the last tenth.
double last_loss(const std::vector<double>& losses) {
  const size_t count = std::max<size_t>(1, losses.size() / 10);
  return lab::mean(std::span(losses).last(count));
}

lab::Figure::Series smoothed(const TinyTraining& run) {
  lab::Figure::Series out{run.name};
  const size_t window = std::max<size_t>(1, run.losses.size() / 60);
  for (size_t i = 0; i < run.losses.size(); i += window) {
    const size_t count = std::min(window, run.losses.size() - i);
    out.points.emplace_back(static_cast<double>(i + count),
                            lab::mean(std::span(run.losses).subspan(i, count)));
  }
  return out;
}

void test_training(Trial& trial) {
  const lab::ThreadCount one(1);  // operators are too small to share
  const TinySizes sizes = tiny_sizes(trial);
  const TinyData data = tiny_data(sizes, trial.settings.seed);
  std::map<std::string, systems::Fp8Linear> layers;
  const QuantizedLinear fp8 = [&](const std::string& name, const Tensor& x, const Tensor& w) {
    return layers[name](x, w);
  };
  std::vector<TinyTraining> runs;
  for (const auto& [name, linear] : {std::pair<const char*, QuantizedLinear>{"fp32", fp32_linear},
                                     {"bf16", bf16_linear},
                                     {"fp8 (emulated)", fp8}})
    runs.emplace_back(name, data, trial.settings.seed, linear);
  for (int64_t step = 0; step < sizes.steps; ++step) {
    for (TinyTraining& run : runs) run.step();  // in turns: equal conditions
    trial.at(static_cast<double>(step + 1) / static_cast<double>(sizes.steps),
             "loss " + lab::number(runs.back().losses.back()));
  }
  lab::Figure curves{"Training loss by step, nats a byte", {}, {}, "step", ""};
  std::vector<double> held_out, last, kept;
  for (TinyTraining& run : runs) {
    curves.series.push_back(smoothed(run));
    held_out.push_back(data.held_out_loss(run.model, run.linear));
    last.push_back(last_loss(run.losses));
    kept.push_back(run.kept_bytes());
  }
  trial.figure(std::move(curves));
  for (const size_t baseline : {0, 1})
    trial.compare(
        std::to_string(sizes.steps) + " steps, width " + std::to_string(sizes.width),
        runs[baseline].name, runs[baseline].step_ms, runs[2].name, runs[2].step_ms,
        {.accuracy = "loss " + lab::number(last[baseline], 4) + " and " + lab::number(last[2], 4) +
                     "; held out " + lab::number(held_out[baseline], 4) + " and " +
                     lab::number(held_out[2], 4),
         .baseline_bytes = kept[baseline],
         .bytes = kept[2]});
  const double gap = last[2] - last[1];
  const auto with_sign = [](double x) { return (x < 0 ? "-" : "") + lab::number(std::abs(x), 2); };
  trial.verdict(std::string(std::abs(gap) <= 0.007 ? "losses are within 0.007"
                                                   : "losses are further apart than 0.007") +
                " after " + std::to_string(sizes.steps) + " steps (fp8 minus bf16 " +
                with_sign(gap) + ", bf16 minus fp32 " + with_sign(last[1] - last[0]) +
                "); what a step keeps is " + lab::number(kept[2] / kept[1], 2) +
                "x of bf16's; speed cannot be had here: emulated");
  trial.note(
      "FP8 is emulated: values are rounded to codes, products are fp32's of what the codes "
      "stand for. Its times say nothing about FP8 hardware; they are what emulating costs.");
  trial.note(
      "Memory: tensors that a step keeps between forward and backward. The layers' linear "
      "maps are in the precision named; embeddings, norms, attention and head are in fp32, "
      "and so are the weights that Adam changes.");
}

// ---- Weights in each format

void test_formats(Trial& trial) {
  const lab::ThreadCount one(1);
  const TinySizes sizes = tiny_sizes(trial);
  const TinyData data = tiny_data(sizes, trial.settings.seed);
  TinyTraining run("fp32", data, trial.settings.seed, fp32_linear);
  const int64_t steps = trial.quick() ? sizes.steps : sizes.steps / 2;
  for (int64_t step = 0; step < steps; ++step) {
    run.step();
    trial.at(static_cast<double>(step) / static_cast<double>(steps), "training in fp32");
  }
  const double exact = data.held_out_loss(run.model, fp32_linear);
  double weights = 0;
  for (const auto& [name, p] : run.model.parameters())
    if (TinyModel::is_layers(name)) weights += static_cast<double>(p.numel());
  lab::Figure bars{
      "Held-out loss above fp32's, nats a byte", {}, {{"weights in this format"}}, "", ""};
  for (NumberFormat format : kNumberFormats) {
    if (format.block > sizes.width) format.block = sizes.width;
    std::map<std::string, Quantized> codes;
    double bytes = 0, error = 0, power = 0;
    for (const auto& [name, p] : run.model.parameters()) {
      if (!TinyModel::is_layers(name)) continue;
      const Quantized& q = codes[name] = systems::quantize(p, format);
      bytes += static_cast<double>(q.bytes());
      error += systems::dequantize(q).sub(p.detach()).pow(2).sum().item<double>();
      power += p.detach().pow(2).sum().item<double>();
    }
    const double loss =
        data.held_out_loss(run.model, [&](const std::string& name, const Tensor& x, const Tensor&) {
          return systems::matmul(x, codes.at(name));
        });
    trial.row(std::string(format.name) + ", " + lab::number(format.bits_per_value()) + " bits",
              "bf16 weights", "codes and scales",
              {.accuracy = "held-out loss " + lab::number(loss, 4) + " of fp32's " +
                           lab::number(exact, 4) + "; error of weights " +
                           lab::percent_text(std::sqrt(error / power)),
               .baseline_bytes = 2 * weights,
               .bytes = bytes});
    bars.labels.emplace_back(format.name);
    bars.series[0].values.push_back(loss - exact);
  }
  trial.figure(std::move(bars));
  const auto share = [](const char* name) {
    return lab::percent_text(systems::number_format(name).bits_per_value() / 16, 0);
  };
  trial.verdict("holds for memory: of bf16's, mxfp4 takes " + share("mxfp4") + ", nvfp4 " +
                share("nvfp4") + ", mxfp6 " + share("mxfp6_e3m2") + ", mxfp8 " +
                share("mxfp8_e4m3"));
  trial.note("Weight-only inference: the layers' weights are codes, activations stay fp32.");
}

}  // namespace

std::vector<Claim> number_claims() {
  const std::string system = "small numbers";
  return {
      {"number_formats", system, "ultra precision (FP4, MXFP): about 40 % of the memory", 0,
       test_formats},
      {"number_bandwidth", system,
       "quantising and dequantising run at 80 % of memory bandwidth (a target, not a claim)", 0,
       test_bandwidth},
      {"number_decode", system,
       "int4 and MXFP4 products of one row at 60 % of the bandwidth bound (a target, not a claim)",
       0, test_decode},
      {"fp8_training", system,
       "FP8 training (E4M3 forward, E5M2 gradients): 1.93x to 1.98x and about half the memory at "
       "125M to 6.7B on an H100; losses within 0.007 of fp16's after 10,000 steps",
       1.93, test_training},
  };
}

}  // namespace graft::experiments
