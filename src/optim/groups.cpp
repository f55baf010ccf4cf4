#include "optim/groups.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <tuple>
#include <typeindex>

namespace graft::optim {

namespace {

/// Reads a group of one kind.
class Reader {
 public:
  Reader(torch::optim::Optimizer& optimizer, torch::optim::OptimizerParamGroup& from, Kind kind,
         const Group* recorded, int64_t ahead, bool under_way = false)
      : optimizer_(optimizer),
        from_(from),
        recorded_(recorded),
        ahead_(ahead),
        under_way_(under_way) {
    group_.constants.kind = kind;
  }

  Group read();
  const std::optional<std::string>& why() const { return why_; }

  void sgd() {
    const auto& o = static_cast<torch::optim::SGDOptions&>(from_.options());
    Constants& c = group_.constants;
    c.weight_decay = o.weight_decay(), c.momentum = o.momentum(), c.dampening = o.dampening();
    c.nesterov = o.nesterov();
    each<torch::optim::SGDParamState>(c.momentum != 0, [&](torch::optim::SGDParamState* state) {
      if (c.momentum != 0) keep(0, state->momentum_buffer());
    });
    group_.numbers = {-1 * o.lr()};
  }

  template <class OptionsOf, class StateOf>
  void adam() {
    const auto& o = static_cast<OptionsOf&>(from_.options());
    Constants& c = group_.constants;
    c.weight_decay = o.weight_decay(), c.eps = o.eps(), c.amsgrad = o.amsgrad();
    std::tie(c.beta1, c.beta2) = o.betas();
    each<StateOf>(true, [&](StateOf* state) {
      count(state);
      keep(0, state->exp_avg());
      keep(1, state->exp_avg_sq());
      if (c.amsgrad) keep(2, state->max_exp_avg_sq());
    });
    const auto n = static_cast<double>(steps_ + ahead_ + 1);
    group_.numbers = {1 - o.lr() * c.weight_decay, std::sqrt(1 - std::pow(c.beta2, n)),
                      -(o.lr() / (1 - std::pow(c.beta1, n)))};
  }

  void rmsprop() {
    const auto& o = static_cast<torch::optim::RMSpropOptions&>(from_.options());
    Constants& c = group_.constants;
    c.weight_decay = o.weight_decay(), c.momentum = o.momentum(), c.centered = o.centered();
    c.beta1 = o.alpha(), c.eps = o.eps();
    each<torch::optim::RMSpropParamState>(true, [&](torch::optim::RMSpropParamState* state) {
      count_alone(state);
      keep(0, state->square_avg());
      if (c.momentum > 0) keep(1, state->momentum_buffer());
      if (c.centered) keep(2, state->grad_avg());
    });
    group_.numbers = {-o.lr()};
  }

  void adagrad() {
    const auto& o = static_cast<torch::optim::AdagradOptions&>(from_.options());
    Constants& c = group_.constants;
    c.weight_decay = o.weight_decay(), c.eps = o.eps();
    each<torch::optim::AdagradParamState>(true, [&](torch::optim::AdagradParamState* state) {
      count(state);
      keep(0, state->sum());
    });
    const auto before = static_cast<double>(steps_ + ahead_);
    group_.numbers = {-(o.lr() / (1 + before * o.lr_decay()))};
  }

 private:
  void give_up(const char* why) {
    if (!why_) why_ = why;
  }

  /// Has the parameter a gradient, or did it have one when it was recorded?
  bool takes_step(const at::Tensor& p) {
    const bool has_gradient = p.grad().defined();
    if (recorded_ == nullptr) return has_gradient;
    const size_t k = group_.steps.size();
    const bool took = k < recorded_->steps.size() && recorded_->steps[k];
    if (has_gradient && !took) give_up("a parameter has a gradient that had none");
    return took;
  }

  /// Calls fn(state) for each parameter with a gradient.
  template <class StateOf, class Fn>
  void each(bool needs_state, Fn fn) {
    for (at::Tensor& p : from_.params()) {
      group_.steps.push_back(takes_step(p));
      if (!group_.steps.back()) continue;
      group_.objects.push_back(p.unsafeGetTensorImpl());
      if (p.is_sparse() || (p.grad().defined() && p.grad().is_sparse()))
        return give_up("a gradient is sparse");
      auto found = optimizer_.state().find(p.unsafeGetTensorImpl());
      // A step that threw may have left an empty one.
      const bool has = found != optimizer_.state().end() && found->second != nullptr;
      if (needs_state && !has) return give_up("a parameter has no state yet");
      const bool through_data = group_.constants.kind == Kind::SGD;
      group_.parameters.push_back(through_data ? p.variable_data() : p);
      if (through_data) group_.gradients.push_back(p.grad());
      fn(has ? static_cast<StateOf*>(found->second.get()) : nullptr);
    }
  }

  /// Of a kind whose numbers depend on the step.
  template <class StateOf>
  void count(StateOf* state) {
    if (!group_.count.empty() && state->step() != steps_ && !under_way_)
      give_up("parameters of one group have made different numbers of steps");
    steps_ = state->step();
    count_alone(state);
  }
  template <class StateOf>
  void count_alone(StateOf* state) {
    group_.count.emplace_back([state] { state->step(state->step() + 1); });
  }

  /// A state tensor, which must be there.
  void keep(size_t which, const at::Tensor& tensor) {
    if (!tensor.defined()) return give_up("a parameter's state is not complete");
    group_.objects.push_back(tensor.unsafeGetTensorImpl());
    group_.states[which].push_back(tensor);
  }

  torch::optim::Optimizer& optimizer_;
  torch::optim::OptimizerParamGroup& from_;
  const Group* const recorded_;  ///< null: none
  const int64_t ahead_;          ///< steps until this one
  const bool under_way_;         ///< some parameters have made it
  Group group_;
  int64_t steps_ = 0;  ///< before this one
  std::optional<std::string> why_;
};

struct Row {
  Kind kind;
  const char* name;
  std::type_index type;  ///< exactly: a class derived from it may do something else
  void (Reader::*read)();
};

const std::vector<Row>& rows() {
  using namespace torch::optim;
  static const auto* all = new std::vector<Row>{
      {Kind::SGD, "SGD", typeid(SGD), &Reader::sgd},
      {Kind::Adam, "Adam", typeid(Adam), &Reader::adam<AdamOptions, AdamParamState>},
      {Kind::AdamW, "AdamW", typeid(AdamW), &Reader::adam<AdamWOptions, AdamWParamState>},
      {Kind::RMSprop, "RMSprop", typeid(RMSprop), &Reader::rmsprop},
      {Kind::Adagrad, "Adagrad", typeid(Adagrad), &Reader::adagrad},
  };
  return *all;
}

Group Reader::read() {
  for (const Row& row : rows())
    if (row.kind == group_.constants.kind) (this->*row.read)();
  return std::move(group_);
}

}  // namespace

Kind kind_of(const torch::optim::Optimizer& optimizer) {
  for (const Row& row : rows())
    if (row.type == typeid(optimizer)) return row.kind;
  return Kind::Unknown;
}

const char* name_of(Kind kind) {
  for (const Row& row : rows())
    if (row.kind == kind) return row.name;
  return "optimizer";
}

Kind kind_of_step(std::string_view name) {
  for (const Row& row : rows()) {
    const std::string of = row.name;
    if (name.starts_with(kMangled + std::to_string(of.size()) + of + "4step")) return row.kind;
  }
  return Kind::Unknown;
}

std::vector<Group> groups_of(torch::optim::Optimizer& optimizer, Kind kind,
                             std::optional<std::string>& why, bool under_way) {
  std::vector<Group> all;
  for (torch::optim::OptimizerParamGroup& from : optimizer.param_groups()) {
    Reader reader(optimizer, from, kind, nullptr, 0, under_way);
    all.push_back(reader.read());
    if (reader.why() && !why) why = reader.why();
  }
  return all;
}

std::vector<Group> groups_to_come(torch::optim::Optimizer& optimizer, Kind kind,
                                  const std::vector<Group>& recorded, int64_t ahead,
                                  std::optional<std::string>& why) {
  std::vector<Group> all;
  if (optimizer.param_groups().size() != recorded.size()) {
    why = "groups of parameters were added";
    return all;
  }
  for (torch::optim::OptimizerParamGroup& from : optimizer.param_groups()) {
    const Group& before = recorded[all.size()];
    Reader reader(optimizer, from, kind, &before, ahead);
    all.push_back(reader.read());
    const Group& now = all.back();
    if (reader.why() && !why) why = reader.why();
    if (now.constants != before.constants && !why) why = "its options are others";
    if ((now.steps != before.steps || now.objects != before.objects) && !why)
      why = "its parameters or their states are others";
  }
  return all;
}

}  // namespace graft::optim
