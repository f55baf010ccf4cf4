// libtorch's own modules in training, as regions and as parts of whole steps, beside eager.
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <array>
#include <cstdint>
#include <functional>
#include <typeinfo>

#include "optim/caller.h"
#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;
namespace nn = torch::nn;

/// A module that is made alike each time.
struct Model {
  std::shared_ptr<nn::Module> module;
  std::function<Tensor(const Tensor&)> forward;
};

template <class Holder>
Model model_of(Holder holder) {
  return {holder.ptr(), [holder](const Tensor& x) mutable { return holder->forward(x); }};
}

Model recurrent() {
  nn::GRU gru(nn::GRUOptions(8, 12).num_layers(2).dropout(0.2));
  return {gru.ptr(), [gru](const Tensor& x) mutable { return std::get<0>(gru->forward(x)); }};
}
Model cells() {
  nn::GRUCell cell(8, 12);
  return {cell.ptr(), [cell](const Tensor& x) mutable {
            Tensor state;
            for (int64_t t = 0; t < x.size(0); ++t)
              state = state.defined() ? cell->forward(x[t], state) : cell->forward(x[t]);
            return state;
          }};
}
Model encoder() {
  nn::TransformerEncoderLayer layer(
      nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.1));
  return model_of(nn::TransformerEncoder(layer, 2));
}
Model normalized() {
  return model_of(nn::Sequential(nn::Dropout(0.3), nn::Flatten(), nn::Linear(24, 10),
                                 nn::BatchNorm1d(10), nn::ReLU(), nn::Dropout(0.3),
                                 nn::Linear(10, 4)));
}
Model convolved() {
  return model_of(nn::Sequential(nn::Unflatten(nn::UnflattenOptions(1, {1, 3})),
                                 nn::Conv2d(nn::Conv2dOptions(1, 4, 3).padding(1)),
                                 nn::BatchNorm2d(4), nn::GELU(), nn::Flatten()));
}

void expect_same_gradients(const Model& eager, const Model& ours, const std::string& what) {
  const auto a = eager.module->parameters(), b = ours.module->parameters();
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(a[k].grad().defined(), b[k].grad().defined()) << what << ", parameter " << k;
    if (!a[k].grad().defined()) continue;
    EXPECT_TRUE(at::allclose(a[k].grad(), b[k].grad(), 1e-3, 1e-4)) << what << ", parameter " << k;
    a[k].mutable_grad().reset(), b[k].mutable_grad().reset();
  }
}

void expect_trains(Model (*make)(), const std::string& name) {
  for (bool whole : {false, true}) {
    const auto made = [&] {
      at::manual_seed(1);
      return make();
    };
    const Model eager = made(), ours = made();
    const auto run = [&](const Model& model, const Tensor& x) {
      if (!whole) return model.forward(x);
      const Tensor loss = model.forward(x).square().sum();
      loss.backward();
      return loss.detach();
    };
    auto compiled = compile([&](const Tensor& x) { return run(ours, x); }, at_once(name));
    for (int call = 0; call < 8; ++call) {
      const std::string what = name + (whole ? ", step " : ", region ") + std::to_string(call);
      at::manual_seed(static_cast<uint64_t>(call) + 7);
      const Tensor x = at::randn({4, 3, 8});
      at::manual_seed(static_cast<uint64_t>(call));
      const Tensor expected = run(eager, x);
      if (!whole) expected.square().sum().backward();
      at::manual_seed(static_cast<uint64_t>(call));
      const Tensor came = compiled(x);
      if (!whole) came.square().sum().backward();
      EXPECT_TRUE(at::allclose(expected, came, 1e-4, 1e-5)) << what;
      expect_same_gradients(eager, ours, what);
    }
    const Report report = compiled.report();
    EXPECT_EQ(report.verdict, Verdict::Faster) << name << report;
    EXPECT_GT(report.plan_hits, 3) << name << report;
  }
}

TEST(Modules, GatedRecurrentUnits) {
  expect_trains(recurrent, "GRU");
}
TEST(Modules, Cells) {
  expect_trains(cells, "GRUCell");
}
TEST(Modules, TransformersWithDropout) {
  expect_trains(encoder, "TransformerEncoder");
}
/// The gradient of a bias before a norm is what rounding leaves of a sum that cancels.
TEST(Modules, BiasesBeforeNorms) {
  expect_trains(normalized, "Linear, BatchNorm1d");
  expect_trains(convolved, "Conv2d, BatchNorm2d");
}

/// eval() and train() change what a recorded forward did; both ways have plans.
TEST(Modules, ModesTakeTurns) {
  for (int mode = 0; mode < 3; ++mode) {
    const Model model = normalized();
    Options options = at_once();
    if (mode == 1) options.mode = Mode::ReduceOverhead;
    if (mode == 2) options.sizes = Sizes::Family;
    auto f = [&](const Tensor& x) {
      const at::NoGradGuard no_grad;
      return model.forward(x);
    };
    auto compiled = compile(f, options);
    for (int call = 0; call < 90; ++call) {
      model.module->train(call / 15 % 2 == 0);
      const Tensor x = at::randn({4 + (mode == 2 ? call % 5 : 0), 3, 8});
      at::manual_seed(static_cast<uint64_t>(call));
      const Tensor expected = f(x);
      at::manual_seed(static_cast<uint64_t>(call));
      ASSERT_TRUE(at::allclose(expected, compiled(x), 1e-3, 1e-4)) << mode << ", call " << call;
    }
    if (mode < 2) {
      EXPECT_GT(compiled.report().plan_hits, 70) << compiled.report();
    }
  }
}

/// A module that no std::shared_ptr owns, whose own code asks for its mode.
struct Net : nn::Module {
  Net() { first = register_module("first", nn::Linear(8, 8)); }
  Tensor forward(const Tensor& x) {
    return at::dropout(torch::relu(first->forward(x)), 0.5, is_training());
  }
  nn::Linear first{nullptr};
};

TEST(Modules, ModesOfModulesInVariables) {
  Net net;
  auto compiled = compile([&](const Tensor& x) { return net.forward(x); }, at_once());
  for (int call = 0; call < 60; ++call) {
    net.train(call / 20 != 1);
    const Tensor x = at::randn({4, 8});
    at::manual_seed(1);
    const Tensor expected = net.forward(x).detach();
    at::manual_seed(1);
    ASSERT_TRUE(at::allclose(expected, compiled(x).detach(), 1e-4, 1e-5)) << call;
  }
}

/// Modules that ask for their own mode, with and without random numbers, deep in a model.
struct Branches : nn::Module {
  explicit Branches(bool draws) : draws(draws) {}
  Tensor forward(const Tensor& x) {
    if (!is_training()) return x * 3;
    return draws ? x * (at::rand({x.size(0), 1}) < 0.5) : x * 2;
  }
  bool draws;
};
struct Deep : nn::Module {
  explicit Deep(bool draws) {
    for (int k = 0; k < 12; ++k)
      layers.push_back(register_module("layer" + std::to_string(k), nn::Linear(8, 8)));
    branches = register_module("branches", std::make_shared<Branches>(draws));
  }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) x = torch::tanh(layer->forward(x));
    return branches->forward(x);
  }
  std::vector<nn::Linear> layers;
  std::shared_ptr<Branches> branches;
};

TEST(Modules, ModesThatUsersModulesAskFor) {
  for (const bool draws : {false, true})
    for (const bool begins : {false, true}) {
      const auto model = std::make_shared<Deep>(draws);
      const auto f = [&](const Tensor& x) {
        const at::NoGradGuard no_grad;
        return model->forward(x);
      };
      auto compiled = compile(f, at_once());
      for (int call = 0; call < 60; ++call) {
        model->train((call / 15 % 2 == 0) == begins);
        const Tensor x = at::randn({16, 8});
        at::manual_seed(static_cast<uint64_t>(call));
        const Tensor expected = f(x);
        at::manual_seed(static_cast<uint64_t>(call));
        ASSERT_TRUE(at::allclose(expected, compiled(x), 1e-4, 1e-5)) << draws << begins << call;
      }
      EXPECT_GT(compiled.report().plan_hits, 40) << compiled.report();
    }
}

/// Memory that outlives what lies in it.
template <class T>
struct Kept {
  using value_type = T;
  explicit Kept(std::byte* memory) : memory(memory) {}
  template <class Other>
  Kept(const Kept<Other>& other) : memory(other.memory) {}
  T* allocate(size_t) { return reinterpret_cast<T*>(memory); }
  void deallocate(T*, size_t) {}
  bool operator==(const Kept&) const = default;
  std::byte* memory;
};

/// What is left of a module, to which a word of the stack leads, is no part of what a call does.
TEST(Modules, ModesOfTheDead) {
  alignas(64) static std::array<std::byte, 1024> memory;
  static_assert(sizeof(Branches) + 64 <= sizeof(memory));
  auto module = std::allocate_shared<Branches>(Kept<Branches>(memory.data()), false);
  Branches* const left = module.get();
  module->train();
  const auto trains = memory;
  module->eval();
  const auto byte = static_cast<size_t>(
      std::mismatch(trains.begin(), trains.end(), memory.begin()).first - trains.begin());
  ASSERT_LT(byte, memory.size());
  module.reset();
  const auto live = std::make_shared<Branches>(false);
  const auto f = [live, left](const Tensor& x) {
    Branches* const volatile dead = left;
    const Tensor y = live->forward(x.tanh());
    return dead == nullptr ? x : y;
  };
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 20; ++call) {
    memory[byte] = std::byte(call % 2);
    const Tensor x = at::randn({16, 8});
    ASSERT_TRUE(at::allclose(f(x), compiled(x), 1e-5, 1e-6));
  }
  EXPECT_EQ(compiled.report().plan_hits, 18) << compiled.report();
}

/// A module in a variable that some std::shared_ptr knew for a while.
TEST(Modules, ModesOfOneThatWasLent) {
  Branches module(/*draws=*/false);
  {
    const std::shared_ptr<Branches> lent(&module, [](Branches*) {});
  }
  const auto f = [&](const Tensor& x) { return module.forward(x.tanh()); };
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 40; ++call) {
    module.train(call / 10 % 2 == 0);
    const Tensor x = at::randn({16, 8});
    ASSERT_TRUE(at::allclose(f(x), compiled(x), 1e-5, 1e-6)) << call;
  }
}

/// Monte-Carlo dropout: a part of a model is switched alone, which no caller holds a reference to.
TEST(Modules, ModesOfParts) {
  struct Holder {
    nn::Sequential net{nn::Linear(8, 8), nn::GELU(), nn::Dropout(0.5), nn::Linear(8, 8),
                       nn::InstanceNorm1d(nn::InstanceNorm1dOptions(4).track_running_stats(true))};
  };
  const auto held = std::make_shared<Holder>();
  const auto switch_part = [](Holder& holder, bool trains) {
    holder.net[2]->train(trains);
    holder.net[4]->train(trains);
  };
  const auto f = [held](const Tensor& x) {
    const at::NoGradGuard no_grad;
    return held->net->forward(x);
  };
  auto compiled = compile(f, at_once());
  held->net->eval();
  for (int call = 0; call < 60; ++call) {
    if (call % 15 == 0) switch_part(*held, call / 15 % 2 == 1);
    const Tensor x = at::randn({2, 4, 8});
    at::manual_seed(static_cast<uint64_t>(call));
    const Tensor expected = f(x);
    at::manual_seed(static_cast<uint64_t>(call));
    ASSERT_TRUE(at::allclose(expected, compiled(x), 1e-4, 1e-5)) << call;
  }
}

TEST(Modules, ModesThatTheFunctionSets) {
  const Model model = normalized();
  const auto f = [&](const Tensor& x) {
    const at::NoGradGuard no_grad;
    model.module->eval();
    const Tensor y = model.forward(x);
    model.module->train();
    return y;
  };
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 6; ++call) {
    const Tensor x = at::randn({4, 3, 8});
    EXPECT_TRUE(at::allclose(f(x), compiled(x), 1e-4, 1e-5)) << call;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Break) << compiled.report();
}

/// A step and its evaluation in one function, compiled while calls go on.
TEST(Modules, StepsAndModesTakeTurns) {
  for (bool async : {false, true}) {
    const auto made = [] {
      at::manual_seed(2);
      return normalized();
    };
    const Model eager = made(), ours = made();
    torch::optim::SGD theirs(eager.module->parameters(), torch::optim::SGDOptions(0.01)),
        mine(ours.module->parameters(), torch::optim::SGDOptions(0.01));
    const auto run = [](const Model& model, torch::optim::SGD& sgd, const Tensor& x) {
      const Tensor loss = model.forward(x).square().mean();
      loss.backward();
      sgd.step();
      sgd.zero_grad();
      return loss.detach();
    };
    Options options = at_once();
    options.async = async;
    auto compiled = compile([&](const Tensor& x) { return run(ours, mine, x); }, options);
    for (int call = 0; call < 120; ++call) {
      for (const Model& model : {eager, ours}) model.module->train(call / 30 % 2 == 0);
      const Tensor x = at::randn({4, 3, 8});
      at::manual_seed(static_cast<uint64_t>(call));
      const Tensor expected = run(eager, theirs, x);
      at::manual_seed(static_cast<uint64_t>(call));
      ASSERT_TRUE(at::allclose(expected, compiled(x), 1e-2, 1e-4)) << call;
      if (call % 30 == 20) compiled.wait();
    }
    EXPECT_GT(compiled.report().plan_hits, async ? 20 : 90) << compiled.report();
  }
}

/// The stack may hold a zero and a type, side by side.
TEST(Modules, WordsOnTheStackAreNoTable) {
  const nn::DropoutImpl module;
  const auto& real = *reinterpret_cast<const uintptr_t*>(&module);
  const std::array<uintptr_t, 3> words = {0, reinterpret_cast<uintptr_t>(&typeid(nn::DropoutImpl)),
                                          0};
  EXPECT_TRUE(graft::optim::is_table_of(real, typeid(nn::Module)));
  EXPECT_FALSE(
      graft::optim::is_table_of(reinterpret_cast<uintptr_t>(&words[2]), typeid(nn::Module)));
}

}  // namespace
}  // namespace graft::test
