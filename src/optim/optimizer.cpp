#include "graft/optim.h"

#include <ATen/core/grad_mode.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "optim/groups.h"
#include "optim/host_steps.h"
#include "record/trace.h"

namespace graft::detail {

/// So that constants are arguments of a compiled function.
template <>
struct Flatten<optim::Constants> {
  static constexpr bool known = true, owns = true;
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    auto all = std::tie(x.kind, x.weight_decay, x.momentum, x.dampening, x.beta1, x.beta2, x.eps,
                        x.nesterov, x.amsgrad, x.centered);
    Flatten<decltype(all)>::visit(all, leaf);
  }
};

}  // namespace graft::detail

namespace graft {

using optim::Constants;
using optim::Group;
using optim::Kind;
using optim::States;
using optim::Tensors;

namespace {

constexpr size_t kCompared = size_t{64} << 20;  // bytes of parameters

/// The first parameters of a group, by their bytes.
size_t compared_of(const Group& group) {
  size_t count = 0, bytes = 0;
  while (count < group.parameters.size() && (count == 0 || bytes < kCompared))
    bytes += group.parameters[count++].nbytes();
  return count;
}

/// The part of a group that is compared, on memory of its own.
Group copy_of(const Group& group) {
  const at::NoGradGuard no_grad;
  Group copy;
  copy.constants = group.constants;
  copy.numbers = group.numbers;
  const size_t count = compared_of(group);
  for (size_t k = 0; k < count; ++k) {
    copy.parameters.push_back(group.parameters[k].detach().clone());
    if (k < group.gradients.size())
      copy.gradients.push_back(group.gradients[k].clone());
    else
      copy.parameters.back().mutable_grad() = group.parameters[k].grad().clone();
  }
  for (size_t s = 0; s < group.states.size(); ++s)
    for (size_t k = 0; k < std::min(count, group.states[s].size()); ++k)
      copy.states[s].push_back(group.states[s][k].clone());
  return copy;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == y.nbytes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

bool same_bits(const Group& copy, const Group& group) {
  const at::NoGradGuard no_grad;
  for (size_t k = 0; k < copy.parameters.size(); ++k)
    if (!same_bits(copy.parameters[k], group.parameters[k])) return false;
  for (size_t s = 0; s < copy.states.size(); ++s)
    for (size_t k = 0; k < copy.states[s].size(); ++k)
      if (!same_bits(copy.states[s][k], group.states[s][k])) return false;
  return true;
}

constexpr const char* kUnknown = "not one of SGD, Adam, AdamW, RMSprop and Adagrad";
constexpr const char* kDiffers = "this libtorch computes other bits than Graft's formula";

Options named(Options options, Kind kind) {
  if (options.name.empty()) options.name = optim::name_of(kind);
  return options;
}

}  // namespace

struct Optimizer::Impl : std::enable_shared_from_this<Impl> {
  Impl(torch::optim::Optimizer& optimizer, Options options)
      : optimizer(optimizer),
        kind(optim::kind_of(optimizer)),
        update(compile(&optim::update, named(std::move(options), kind))) {}

  /// Compares the formula with the optimizer's own step, which is made.
  void prove(const std::vector<Group>& groups) {
    std::vector<Group> copies;
    for (const Group& group : groups) copies.push_back(copy_of(group));
    optimizer.step();
    agrees = true;
    for (size_t g = 0; g < groups.size(); ++g) {
      optim::update(copies[g].constants, copies[g].parameters, copies[g].gradients,
                    copies[g].states, copies[g].numbers);
      agrees = *agrees && same_bits(copies[g], groups[g]);
    }
    why = *agrees ? "compared with Graft's formula: the same bits" : kDiffers;
  }

  void step() {
    why.reset();
    if (agrees && !*agrees) why = kDiffers;
    if (record::recording()) {  // the optimizer's own step is seen
      const optim::KnownStep known(optimizer, weak_from_this());
      optimizer.step();
      return;
    }
    std::vector<Group> groups;
    if (!why) groups = optim::groups_of(optimizer, kind, why);
    if (why) {
      optimizer.step();
      return;
    }
    if (!agrees) return prove(groups);
    for (const Group& group : groups) {
      if (group.parameters.empty()) continue;
      update(group.constants, group.parameters, group.gradients, group.states, group.numbers);
      for (const auto& count : group.count) count();
    }
  }

  torch::optim::Optimizer& optimizer;
  const Kind kind;
  const Compiled<decltype(&optim::update)> update;
  std::optional<bool> agrees;  ///< once compared
  std::optional<std::string> why;
};

Optimizer::Optimizer(torch::optim::Optimizer& optimizer, Options options)
    : impl_(std::make_shared<Impl>(optimizer, std::move(options))) {}
Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&& other) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&& other) noexcept = default;

at::Tensor Optimizer::step(const std::function<at::Tensor()>& closure) {
  // One that evaluates the loss several times does it itself.
  if (impl_->kind == Kind::Unknown) {
    impl_->why = kUnknown;
    return impl_->optimizer.step(closure);
  }
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode differentiable(true);
    loss = closure();
  }
  impl_->step();
  return loss;
}

std::string Optimizer::reason() const {
  return impl_->why.value_or("");
}
Report Optimizer::report() const {
  return impl_->update.report();
}
std::string Optimizer::explain() const {
  return impl_->update.explain();
}
void Optimizer::wait() const {
  impl_->update.wait();
}

}  // namespace graft
