// A small model that is trained with its states in a file, and the same in memory.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <graft/systems/optimizer_states.h>
#include <unistd.h>

#include <ATen/CPUGeneratorImpl.h>
#include <filesystem>
#include <string>
#include <vector>

namespace graft::systems::test {

/// A file's name that goes with the object, and the file with it.
class StateFileName {
 public:
  StateFileName() {
    static int count = 0;
    name_ = (std::filesystem::temp_directory_path() /
             ("graft_states_" + std::to_string(getpid()) + "_" + std::to_string(count++)))
                .string();
  }
  ~StateFileName() { std::filesystem::remove(name_); }
  const std::string& operator()() const { return name_; }

 private:
  std::string name_;
};

inline at::Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kFloat));
}

/// Layers of odd sizes, so that groups end inside of vectors.
inline std::vector<at::Tensor> small_model(at::ScalarType dtype = at::kFloat, int layers = 6) {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < layers; ++i) {
    parameters.push_back((random({61, 61}, 100 + i) * 0.1).to(dtype).requires_grad_());
    parameters.push_back((random({61}, 200 + i) * 0.1).to(dtype).requires_grad_());
  }
  return parameters;
}

inline at::Tensor loss_at(const std::vector<at::Tensor>& parameters, int64_t step) {
  at::Tensor x = random({8, 61}, 1000 + step).to(parameters.front().scalar_type());
  for (size_t i = 0; i < parameters.size(); i += 2)
    x = (at::mm(x, parameters[i]) + parameters[i + 1]).tanh() + x;
  return x.square().mean();
}

inline void train_step(std::vector<at::Tensor>& parameters, OffloadedAdamW& adamw) {
  adamw.zero_grad();
  loss_at(parameters, adamw.steps()).backward();
  adamw.step();
}

/// The same with all states in memory, by at::_fused_adamw_.
struct InMemory {
  std::vector<at::Tensor> parameters = small_model();
  std::vector<at::Tensor> exp_avg = zeros(), exp_avg_sq = zeros();
  std::vector<int64_t> steps = std::vector<int64_t>(parameters.size(), 0);
  OffloadOptions options = {};

  std::vector<at::Tensor> zeros() const {
    std::vector<at::Tensor> out;
    for (const at::Tensor& p : parameters) out.push_back(at::zeros(p.sizes(), at::kFloat));
    return out;
  }
  void update() {
    const c10::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].grad().defined()) continue;
      at::_fused_adamw_(parameters[i], parameters[i].grad(), exp_avg[i], exp_avg_sq[i], {},
                        at::full({}, static_cast<double>(++steps[i]), at::kFloat), options.lr,
                        options.beta1, options.beta2, options.weight_decay, options.eps, false,
                        false);
      parameters[i].mutable_grad().reset();
    }
  }
  void train_step(int64_t step) {
    loss_at(parameters, step).backward();
    update();
  }
};

/// Empty, or what differs.
inline std::string difference(InMemory& memory, const std::vector<at::Tensor>& parameters,
                              OffloadedAdamW& adamw) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string of = " of parameter " + std::to_string(i) + " differs";
    if (!parameters[i].equal(memory.parameters[i])) return "value" + of;
    const auto state = adamw.state(static_cast<int64_t>(i));
    if (!state[0].equal(memory.exp_avg[i])) return "exp_avg" + of;
    if (!state[1].equal(memory.exp_avg_sq[i])) return "exp_avg_sq" + of;
  }
  return "";
}

}  // namespace graft::systems::test
