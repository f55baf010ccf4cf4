#include "optim/host_steps.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "optim/caller.h"
#include "optim/groups.h"
#include "optim/host_modes.h"
#include "record/participants.h"
#include "record/symbol.h"

namespace graft::optim {

namespace {

using record::Participant;
using Inputs = c10::ArrayRef<const c10::IValue>;

thread_local const KnownStep* t_known = nullptr;

constexpr const char* kNextStep =
    "; make it a graft::Optimizer (graft::compile(optimizer), graft/optim.h) and call its step()";

std::string name_of(const torch::optim::Optimizer& optimizer) {
  return std::string("torch::optim::") + name_of(kind_of(optimizer));
}

/// One step inside a compiled function.
class Step final : public Participant {
 public:
  /// `owner`: null where nothing tells whether the optimizer is still there but itself.
  Step(torch::optim::Optimizer& optimizer, std::optional<std::weak_ptr<void>> owner,
       std::vector<Group> groups, int64_t ahead)
      : optimizer_(optimizer),
        kind_(kind_of(optimizer)),
        owner_(std::move(owner)),
        ahead_(ahead),
        rates_(rates()),
        recorded_(std::move(groups)) {
    for (size_t g = 0; g < recorded_.size(); ++g) {
      for (const at::Tensor& p : recorded_[g].parameters) parameters_.emplace(p.data_ptr(), g);
      for (const Tensors& states : recorded_[g].states)
        for (const at::Tensor& state : states) states_.emplace(state.data_ptr(), g);
      numbers_.emplace_back(recorded_[g].numbers.size());
    }
    // A plan keeps no model alive.
    if (!owner_) look();
    for (Group& group : recorded_) {
      group.parameters.clear(), group.gradients.clear(), group.numbers.clear();
      group.states = {};
      group.count.clear();
    }
  }

  const torch::optim::Optimizer* optimizer() const { return &optimizer_; }
  bool owns(const void* data) const { return parameters_.count(data) + states_.count(data) > 0; }
  /// Has the operator been called on what lies there? No step does that twice.
  bool is_done(const void* data, const std::string& op) const {
    return called_.count({data, op}) > 0;
  }

  /// The number among the operator's inputs that is the optimizer's becomes a tensor's.
  std::string replace(const std::string& op, Inputs inputs, std::vector<c10::IValue>& replaced) {
    const void* self = inputs[0].toTensor().data_ptr();
    called_.emplace(self, op);
    const auto parameter = parameters_.find(self);
    if (const auto state = states_.find(self); state != states_.end()) group_ = state->second;
    if (parameter != parameters_.end()) group_ = parameter->second;
    const bool decays = op == "aten::mul_";
    const bool divides = op == "aten::div";
    const bool updates = op == "aten::add_" || op == "aten::addcdiv_";
    if (is_adam()) {
      if (decays && parameter != parameters_.end()) return put(inputs, 1, 0, replaced);
      if (divides) return put(inputs, 1, 1, replaced);
    }
    if (!updates || parameter == parameters_.end()) return {};
    done_.insert(self);
    return put(inputs, inputs.size() - 1, is_adam() ? 2 : 0, replaced);
  }

  /// After the run: were the numbers those of the formulas? `later`: steps of the optimizer after
  /// this one.
  std::string check(int64_t later) const {
    if (is_gone())
      return "the function makes an optimizer for itself, or moves one; make it before, and keep "
             "it";
    if (rates() != rates_)
      return "the function changes the learning rate of " + name_of(optimizer_) +
             " (a scheduler's step?), which a plan does not repeat; change it outside the "
             "compiled function";
    std::optional<std::string> why;
    const std::vector<Group> groups = groups_to_come(optimizer_, kind_, recorded_, -1 - later, why);
    if (why) return name_of(optimizer_) + ": " + *why;
    size_t made = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      made += groups[g].parameters.size();
      for (size_t k = 0; k < groups[g].numbers.size(); ++k) {
        const std::optional<double>& value = numbers_[g][k].recorded;
        if (value && !same(*value, groups[g].numbers[k].value()))
          return name_of(optimizer_) + ": this libtorch computes other numbers than Graft expects";
        const bool decay = k == 0 && is_adam();
        const bool used = !decay || (kind_ == Kind::AdamW && groups[g].constants.weight_decay != 0);
        if (value.has_value() != (used && !groups[g].parameters.empty()))
          return name_of(optimizer_) + ": this libtorch calls other operators than Graft expects";
      }
    }
    return made == done_.size() ? ""
                                : name_of(optimizer_) +
                                      ": some of its parameters lie in one place of memory, or "
                                      "have no elements";
  }

  std::string prepare() override {
    if (is_gone()) return "the optimizer of the recorded step is gone, or lies elsewhere";
    std::optional<std::string> why;
    const std::vector<Group> groups = groups_to_come(optimizer_, kind_, recorded_, ahead_, why);
    if (why) return name_of(optimizer_) + " has changed since it was recorded: " + *why;
    counts_.clear();
    for (size_t g = 0; g < groups.size(); ++g) {
      for (size_t k = 0; k < groups[g].numbers.size(); ++k)
        numbers_[g][k].value = groups[g].numbers[k].value();
      counts_.insert(counts_.end(), groups[g].count.begin(), groups[g].count.end());
    }
    return {};
  }

  void commit() override {
    for (const auto& count : counts_) count();
  }

 private:
  struct Place {
    double value = 0;  ///< of the call's step; `tensor` lies over it
    at::Tensor tensor;
    std::optional<double> recorded;
  };

  static bool same(double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  }

  std::vector<double> rates() const {
    std::vector<double> all;
    for (const auto& group : optimizer_.param_groups()) all.push_back(group.options().get_lr());
    return all;
  }

  /// Of an optimizer that nothing else tells of: the words that its destructor, or whoever gets its
  /// memory, would have changed.
  void look() {
    const auto see = [&](const void* object, size_t words) {
      for (size_t k = 0; k < words; ++k) {
        const uintptr_t address = reinterpret_cast<uintptr_t>(object) + k * sizeof(uintptr_t);
        words_.emplace_back(address, *reinterpret_cast<const uintptr_t*>(address));
      }
    };
    see(&optimizer_, 1);
    see(&optimizer_.param_groups(), 2);  // a vector: where it begins and ends
    for (torch::optim::OptimizerParamGroup& group : optimizer_.param_groups()) {
      see(&group.params(), 2);
      see(&group.options(), 1);
    }
  }

  /// Or lies elsewhere.
  bool is_gone() const {
    if (owner_) return owner_->expired();
    return !std::all_of(words_.begin(), words_.end(), [](const auto& word) {
      uintptr_t now = 0;
      return read_word(word.first, now) && now == word.second;
    });
  }

  bool is_adam() const { return kind_ == Kind::Adam || kind_ == Kind::AdamW; }

  std::string put(Inputs inputs, size_t input, size_t number, std::vector<c10::IValue>& replaced) {
    if (input >= inputs.size() || !inputs[input].isScalar() || !inputs[input].isDouble())
      return name_of(optimizer_) + ": this libtorch calls other operators than Graft expects";
    Place& place = numbers_[group_][number];
    const double value = inputs[input].toDouble();
    if (place.recorded && !same(*place.recorded, value))
      return name_of(optimizer_) + ": parameters of one group have made different numbers of steps";
    place.recorded = value;
    if (!place.tensor.defined()) {
      place.value = value;
      place.tensor = at::from_blob(&place.value, {}, at::kDouble);
    }
    replaced.assign(inputs.begin(), inputs.end());
    replaced[input] = c10::IValue(record::symbol_of(place.tensor));
    return {};
  }

  torch::optim::Optimizer& optimizer_;
  const Kind kind_;
  const std::optional<std::weak_ptr<void>> owner_;
  const int64_t ahead_;  ///< earlier steps of the same optimizer in the function
  const std::vector<double> rates_;
  std::vector<Group> recorded_;  ///< without tensors
  std::vector<std::deque<Place>> numbers_;
  std::vector<std::function<void()>> counts_;
  std::vector<std::pair<uintptr_t, uintptr_t>> words_;  ///< addresses and what was there
  // While it is recorded: groups by where parameters and states lie.
  std::unordered_map<const void*, size_t> parameters_, states_;
  std::set<std::pair<const void*, std::string>> called_;
  std::unordered_set<const void*> done_;  ///< parameters
  size_t group_ = 0;
};

/// Does one of its parameters, or their states, lie there?
bool has(torch::optim::Optimizer& optimizer, Kind kind, const void* data) {
  std::optional<std::string> why;
  for (const Group& group : groups_of(optimizer, kind, why, /*under_way=*/true)) {
    const auto lies = [&](const at::Tensor& t) { return t.data_ptr() == data; };
    if (std::any_of(group.parameters.begin(), group.parameters.end(), lies)) return true;
    for (const Tensors& states : group.states)
      if (std::any_of(states.begin(), states.end(), lies)) return true;
  }
  return false;
}

/// Where a vector's elements lie; false: no such vector can be there.
template <class T>
bool reads_as(const std::vector<T>& vector, uintptr_t& begin, uintptr_t& end) {
  constexpr uintptr_t kMost = uintptr_t{1} << 20;
  const auto at = reinterpret_cast<uintptr_t>(&vector);
  uintptr_t word = 0;
  return read_word(at, begin) && read_word(at + sizeof begin, end) && begin <= end &&
         (end - begin) % sizeof(T) == 0 && (end - begin) / sizeof(T) <= kMost &&
         (begin == end || (read_word(begin, word) && read_word(end - sizeof word, word)));
}

/// The stack has words of old: is what the address has left an optimizer, as far as its lists of
/// parameters tell?
bool is_whole(torch::optim::Optimizer& optimizer) {
  uintptr_t begin = 0, end = 0, word = 0;
  if (!reads_as(optimizer.param_groups(), begin, end)) return false;
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    uintptr_t first = 0, last = 0;
    if (!reads_as(group.params(), first, last)) return false;
    for (; first < last; first += sizeof(at::Tensor))
      if (!read_word(first, begin) || !read_word(begin, word)) return false;
  }
  return true;
}

/// The one that makes the step. Null where that is of an unknown class, or others that the step's
/// part of the stack tells of have the same parameters.
torch::optim::Optimizer* find_optimizer(const Caller& caller, const void* data) {
  const Kind kind = kind_of_step(caller.name);
  if (kind == Kind::Unknown) return nullptr;
  torch::optim::Optimizer* found = nullptr;
  std::unordered_set<uintptr_t> seen;
  for (const uintptr_t word : caller.words) {
    uintptr_t table = 0;
    if (!seen.insert(word).second || !read_word(word, table) ||
        !is_table_of(table, typeid(torch::optim::Optimizer)))
      continue;
    auto* optimizer = reinterpret_cast<torch::optim::Optimizer*>(word);
    // A base alone is what a destructor leaves.
    if (typeid(*optimizer) == typeid(torch::optim::Optimizer) || !is_whole(*optimizer)) continue;
    const Kind own = kind_of(*optimizer);  // of a derived class: what its base has is looked at
    if (!has(*optimizer, own == Kind::Unknown ? kind : own, data)) continue;
    if (found != nullptr || own != kind) return nullptr;
    found = optimizer;
  }
  return found;
}

class HostObjects final : public record::Bystander {
 public:
  std::string before(const std::string& op, Inputs inputs,
                     std::vector<c10::IValue>& replaced) override {
    if (inputs.empty() || !inputs[0].isTensor() || !inputs[0].toTensor().defined()) return {};
    const bool begins = may_begin(op, inputs);
    if (step_ == nullptr && !begins) return {};
    const record::Unseen unseen;
    Caller caller;
    if (t_known == nullptr) caller = find_caller(kMangled, /*with_words=*/false);
    // Steps that follow one another have other frames, or are other functions, or are told apart by
    // what they are about.
    const Frame frame{t_known == nullptr ? 0 : t_known->number, caller.top, caller.name};
    if (frame != frame_) step_ = nullptr;
    frame_ = frame;
    if (frame == Frame{0, 0, ""} || (step_ == nullptr && !begins)) return {};
    const void* data = inputs[0].toTensor().data_ptr();
    if (begins && (step_ == nullptr || !step_->owns(data) || step_->is_done(data, op)))
      if (std::string why = begin(data); !why.empty()) return why;
    return step_ == nullptr ? "" : step_->replace(op, inputs, replaced);
  }

  void mode_is_told(const void* outermost) override {
    const record::Unseen unseen;
    modes_.look(outermost);
  }

  std::string finish(std::vector<std::shared_ptr<Participant>>& participants) override {
    const record::Unseen unseen;
    for (size_t k = 0; k < steps_.size(); ++k) {
      const auto after = steps_.begin() + static_cast<int64_t>(k) + 1;
      const int64_t later = steps_of(steps_[k]->optimizer(), after, steps_.end());
      if (std::string why = steps_[k]->check(later); !why.empty()) return why;
      participants.push_back(steps_[k]);
    }
    if (std::string why = modes_.why_not(); !why.empty()) return why;
    const auto modes = modes_.participants();
    participants.insert(participants.end(), modes.begin(), modes.end());
    return {};
  }

 private:
  /// Operators by which a step begins; the others of a step are looked at once it has.
  static bool may_begin(std::string_view op, Inputs inputs) {
    if (op == "aten::mul_") return inputs[1].isScalar();
    if (op == "aten::add_") return inputs.size() == 3 && inputs[2].isDouble();
    return op == "aten::addcmul_" || op == "aten::addcdiv_";
  }

  using Steps = std::vector<std::shared_ptr<Step>>;
  /// Addresses alone are compared: an optimizer may be gone.
  static int64_t steps_of(const torch::optim::Optimizer* optimizer, Steps::const_iterator from,
                          Steps::const_iterator to) {
    return std::count_if(from, to,
                         [&](const auto& step) { return step->optimizer() == optimizer; });
  }

  std::string begin(const void* data) {
    torch::optim::Optimizer* optimizer = nullptr;
    std::optional<std::weak_ptr<void>> owner;
    if (t_known != nullptr) {
      optimizer = &t_known->optimizer;
      owner = t_known->owner;
    } else {
      optimizer = find_optimizer(find_caller(kMangled, /*with_words=*/true), data);
    }
    if (optimizer == nullptr)
      return "a step of torch::optim inside the function computes with numbers on the host, and "
             "its optimizer cannot be told" +
             std::string(kNextStep);
    std::optional<std::string> why;
    std::vector<Group> groups = groups_of(*optimizer, kind_of(*optimizer), why, /*under_way=*/true);
    if (why) return "the step of " + name_of(*optimizer) + " inside the function: " + *why;
    const int64_t ahead = steps_of(optimizer, steps_.begin(), steps_.end());
    step_ = std::make_shared<Step>(*optimizer, owner, std::move(groups), ahead);
    steps_.push_back(step_);
    return {};
  }

  /// The known step's number, else where the step's part of the stack ends, and its name.
  using Frame = std::tuple<uint64_t, uintptr_t, std::string_view>;

  HostModes modes_;
  Frame frame_;
  std::shared_ptr<Step> step_;  ///< under way
  Steps steps_;
};

const bool g_watches = [] {
  record::set_bystander(
      []() -> std::unique_ptr<record::Bystander> { return std::make_unique<HostObjects>(); });
  return true;
}();

}  // namespace

KnownStep::KnownStep(torch::optim::Optimizer& optimizer, std::weak_ptr<void> owner)
    : optimizer(optimizer),
      owner(std::move(owner)),
      number([] {
        thread_local uint64_t count = 0;
        return ++count;
      }()),
      before_(t_known) {
  t_known = this;
}
KnownStep::~KnownStep() {
  t_known = before_;
}

}  // namespace graft::optim
