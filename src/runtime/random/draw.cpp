#include "runtime/random/draw.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include "runtime/random/fill.h"

namespace graft::runtime {
namespace {

using at::Tensor;
using torch::jit::Stack;

/// Words at a time: they stay in the first cache.
constexpr int64_t kChunk = 2048;

bool has_avx2() {
  return __builtin_cpu_supports("avx2") > 0 && __builtin_cpu_supports("fma") > 0;
}

/// A generator's words, until it goes. The generator is locked meanwhile.
class Words {
 public:
  explicit Words(const std::optional<at::Generator>& from)
      : generator_(*at::get_generator_or_default<at::CPUGeneratorImpl>(
            from, at::detail::getDefaultCPUGenerator())),
        lock_(generator_.mutex_),
        state_(generator_.engine().data()) {}
  ~Words() {
    at::mt19937 engine;
    engine.set_data(state_);
    generator_.set_engine(engine);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  void take(uint32_t* to, int64_t count) {
    while (count > 0) {
      // As the engine counts: a word is left less than it says, and with none a block is made.
      int left = state_.left_ - 1;
      if (left == 0) {
        random::next_block(state_.state_.data());
        state_.next_ = 0;
        left = random::kStateWords;
      }
      const int64_t taken = std::min<int64_t>(left, count);
      random::temper(state_.state_.data() + state_.next_, to, taken);
      state_.next_ += static_cast<uint32_t>(taken);
      state_.left_ = left - static_cast<int>(taken) + 1;
      to += taken;
      count -= taken;
    }
  }

 private:
  at::CPUGeneratorImpl& generator_;
  std::lock_guard<std::mutex> lock_;
  at::mt19937_data_pod state_;
};

std::optional<at::Generator> generator(const c10::IValue& value) {
  if (value.isNone()) return std::nullopt;
  return value.toGenerator();
}

bool is_plain(const Tensor& self, c10::ScalarType dtype) {
  return self.scalar_type() == dtype && self.is_contiguous();
}

/// Fills `to` part by part: make(pairs of words, one for each element; to; count).
template <class T, class Make>
void of_pairs(Words& words, T* to, int64_t count, const Make& make) {
  std::array<uint32_t, kChunk> chunk;
  for (int64_t part = 0; count > 0; count -= part, to += part) {
    part = std::min(count, kChunk / 2);
    words.take(chunk.data(), 2 * part);
    make(chunk.data(), to, part);
  }
}

/// bernoulli_.float(self, p, generator), of truth values: two words make a number in [0, 1).
bool bernoulli(const Stack& arguments) {
  const Tensor& self = arguments[0].toTensor();
  const double p = arguments[1].toDouble();
  if (!is_plain(self, at::kBool) || !(p >= 0 && p <= 1)) return false;
  const auto threshold = static_cast<uint64_t>(std::ceil(std::ldexp(p, 53)));
  Words words(generator(arguments[2]));
  of_pairs(words, self.mutable_data_ptr<bool>(), self.numel(),
           [&](const uint32_t* pairs, bool* to, int64_t count) {
             random::below(pairs, threshold, to, count);
           });
  return true;
}

void fill_uniform(Words& words, float from, float range, bool fused, float* to, int64_t count) {
  std::array<uint32_t, kChunk> chunk;
  for (int64_t part = 0; count > 0; count -= part, to += part) {
    part = std::min(count, kChunk);
    words.take(chunk.data(), part);
    random::uniform(chunk.data(), from, range, fused, to, part);
  }
}

/// uniform_(self, from, to, generator)
template <bool kFused>
bool uniform(const Stack& arguments) {
  const Tensor& self = arguments[0].toTensor();
  const double from = arguments[1].toDouble(), to = arguments[2].toDouble();
  const auto low = static_cast<float>(from), high = static_cast<float>(to);
  if (!is_plain(self, at::kFloat) || !(from <= to) || !std::isfinite(high - low)) return false;
  Words words(generator(arguments[3]));
  fill_uniform(words, low, high - low, kFused, self.mutable_data_ptr<float>(), self.numel());
  return true;
}

/// normal_(self, mean, std, generator)
bool normal(const Stack& arguments) {
  constexpr int64_t kBlock = 16;
  const Tensor& self = arguments[0].toTensor();
  const int64_t count = self.numel();
  const double mean = arguments[1].toDouble(), deviation = arguments[2].toDouble();
  if (!is_plain(self, at::kFloat) || count < kBlock || !(deviation >= 0)) return false;
  Words words(generator(arguments[3]));
  auto* data = self.mutable_data_ptr<float>();
  auto turn = [&](float* from, int64_t blocks) {
    random::normal(from, static_cast<float>(mean), static_cast<float>(deviation), blocks);
  };
  fill_uniform(words, 0, 1, false, data, count);
  at::parallel_for(0, count / kBlock, 2048,
                   [&](int64_t begin, int64_t end) { turn(data + begin * kBlock, end - begin); });
  if (count % kBlock != 0) {  // the last block anew, partly over the one before
    float* last = data + count - kBlock;
    fill_uniform(words, 0, 1, false, last, kBlock);
    turn(last, 1);
  }
  return true;
}

/// exponential_(self, lambd, generator): two words make a number in [0, 1).
bool exponential(const Stack& arguments) {
  const Tensor& self = arguments[0].toTensor();
  const double rate = arguments[1].toDouble();
  if (!is_plain(self, at::kFloat) || !(rate > 0) || !std::isfinite(rate)) return false;
  Words words(generator(arguments[2]));
  of_pairs(words, self.mutable_data_ptr<float>(), self.numel(),
           [&](const uint32_t* pairs, float* to, int64_t count) {
             random::exponential(pairs, -1.0 / rate, to, count);
           });
  return true;
}

/// An operator in place returns what it fills.
template <bool (*fill)(const Stack&)>
bool in_place(Stack& stack) {
  if (!fill(stack)) return false;
  stack.resize(1);
  return true;
}

/// multinomial(self, num_samples, replacement, generator), of one place per row: that of the
/// largest weight over a number of the exponential distribution. ATen tells what is wrong with
/// weights.
bool multinomial(Stack& stack) {
  const Tensor self = stack[0].toTensor();
  if (!is_plain(self, at::kFloat) || self.dim() < 1 || self.dim() > 2 || self.numel() == 0 ||
      stack[1].toInt() != 1)
    return false;
  const int64_t columns = self.size(-1);
  for (int64_t first = 0; first < self.numel(); first += columns)
    if (!random::are_weights(self.const_data_ptr<float>() + first, columns)) return false;
  Tensor drawn = at::empty_like(self);
  if (!exponential({drawn, 1.0, stack[3]})) return false;
  Tensor place = at::argmax(at::div_out(drawn, self, drawn), -1, /*keepdim=*/true);
  stack.clear();
  stack.emplace_back(std::move(place));
  return true;
}

/// Does the routine what the operator does, to the tensor and to the generator?
bool is_atens(const c10::OperatorHandle& op, Draw draw, const Tensor& self, const Stack& rest) {
  c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
  std::array<Tensor, 2> drawn;
  std::array<at::Generator, 2> generators;
  for (size_t k = 0; k < 2; ++k) {
    generators[k] = at::detail::createCPUGenerator(20);
    Stack stack{self.clone()};
    for (const c10::IValue& value : rest) stack.push_back(value);
    stack.emplace_back(generators[k]);
    if (k == 1) {
      if (!draw(stack)) return false;
    } else {
      op.callBoxed(stack);
    }
    drawn[k] = stack[0].toTensor();
  }
  auto state = [&](size_t k) {
    return at::check_generator<at::CPUGeneratorImpl>(generators[k])->engine().data();
  };
  const at::mt19937_data_pod a = state(0), b = state(1);
  return a.left_ == b.left_ && a.next_ == b.next_ && a.state_ == b.state_ &&
         std::memcmp(drawn[0].const_data_ptr(), drawn[1].const_data_ptr(), drawn[0].nbytes()) == 0;
}

/// Tried on `self`: elements in no multiple of a vector or of a block of words.
Draw first_of(const c10::OperatorHandle& op, std::initializer_list<Draw> candidates,
              const Tensor& self, const Stack& rest) {
  for (Draw draw : candidates)
    if (is_atens(op, draw, self, rest)) return draw;
  return nullptr;
}

Tensor memory_to_try(c10::ScalarType dtype) {
  return at::empty({4001}, at::TensorOptions().dtype(dtype).device(at::kCPU));
}

}  // namespace

Draw draw_of(const c10::OperatorHandle& op) {
  if (!has_avx2()) return nullptr;
  const std::string& name = op.operator_name().name;
  if (name == "aten::bernoulli_" && op.operator_name().overload_name == "float") {
    static const Draw found = first_of(op, {in_place<bernoulli>}, memory_to_try(at::kBool), {0.3});
    return found;
  }
  if (name == "aten::uniform_") {
    static const Draw found = first_of(op, {in_place<uniform<true>>, in_place<uniform<false>>},
                                       memory_to_try(at::kFloat), {-0.3, 0.9});
    return found;
  }
  if (name == "aten::exponential_") {
    static const Draw found =
        first_of(op, {in_place<exponential>}, memory_to_try(at::kFloat), {0.7});
    return found;
  }
  if (name == "aten::normal_" && random::has_normal()) {
    static const Draw found =
        first_of(op, {in_place<normal>}, memory_to_try(at::kFloat), {0.3, 1.7});
    return found;
  }
  if (name == "aten::multinomial") {
    static const Draw found =
        first_of(op, {multinomial}, at::ones({37, 109}, at::kFloat), {int64_t{1}, false});
    return found;
  }
  return nullptr;
}

}  // namespace graft::runtime
