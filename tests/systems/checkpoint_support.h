// Layers with dropout, run with and without checkpointing from one state of the generator.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <graft/systems/checkpointing.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "lab/memory/memory.h"

namespace graft::systems::test {

inline void seed(uint64_t value) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_current_seed(value);
}

inline at::Tensor random(at::IntArrayRef sizes, uint64_t value, at::ScalarType dtype = at::kFloat) {
  return at::randn(sizes, at::detail::createCPUGenerator(value), at::TensorOptions(at::kFloat))
      .to(dtype);
}

inline at::Tensor parameter(at::IntArrayRef sizes, uint64_t value,
                            at::ScalarType dtype = at::kFloat) {
  return (random(sizes, value) * 0.1).to(dtype).requires_grad_();
}

/// A transformer's layer, with dropout.
struct Block {
  explicit Block(int64_t width, uint64_t value, at::ScalarType dtype = at::kFloat)
      : parameters{parameter({3 * width, width}, value, dtype),
                   parameter({width, width}, value + 1, dtype),
                   parameter({4 * width, width}, value + 2, dtype),
                   parameter({4 * width}, value + 3, dtype),
                   parameter({width, 4 * width}, value + 4, dtype)} {}
  at::Tensor operator()(const at::Tensor& x) const {
    const int64_t width = x.size(-1);
    const at::Tensor qkv = at::linear(at::layer_norm(x, {width}), parameters[0])
                               .view({x.size(0), x.size(1), 3, 4, width / 4})
                               .permute({2, 0, 3, 1, 4});
    const at::Tensor attended =
        at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, true)
            .transpose(1, 2)
            .reshape(x.sizes());
    const at::Tensor h = x + at::dropout(at::linear(attended, parameters[1]), 0.1, true);
    const at::Tensor up =
        at::gelu(at::linear(at::layer_norm(h, {width}), parameters[2], parameters[3]));
    return h + at::dropout(at::linear(up, parameters[4]), 0.1, true);
  }
  std::vector<at::Tensor> parameters;
};

/// What a run of forward and backward left.
struct Outcome {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;
  at::Tensor generator;  // its state at the end
};

/// Forward and backward of `f`, from a set state of the generator, and the gradients of `leaves`.
inline Outcome run(const std::function<at::Tensor()>& f, const std::vector<at::Tensor>& leaves) {
  for (const at::Tensor& leaf : leaves) leaf.mutable_grad().reset();
  seed(3);
  Outcome out;
  out.loss = f().to(at::kFloat).square().mean();
  out.loss.backward();
  for (const at::Tensor& leaf : leaves) {
    out.gradients.push_back(leaf.grad());
    leaf.mutable_grad().reset();
  }
  out.generator = at::detail::getDefaultCPUGenerator().get_state();
  return out;
}

/// Empty where all bits are equal.
inline std::string difference(const Outcome& a, const Outcome& b) {
  if (!a.loss.equal(b.loss)) return "the loss differs";
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    if (a.gradients[i].defined() != b.gradients[i].defined())
      return "gradient " + std::to_string(i) + " is there in one only";
    if (a.gradients[i].defined() && !a.gradients[i].equal(b.gradients[i]))
      return "gradient " + std::to_string(i) + " differs";
  }
  return a.generator.equal(b.generator) ? "" : "the generator differs";
}

/// The most bytes of this thread's tensors at once while `f` runs.
inline int64_t peak_bytes(const std::function<void()>& f) {
  const lab::MemoryTracker tracker;
  f();
  return tracker.report().peak_bytes;
}

inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

}  // namespace graft::systems::test
