// graft::compile(torch::optim::…): bits, states and learning rates against the optimizer's own
// step.
#include <torch/optim.h>

#include "graft/optim.h"
#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

/// 16-bit ones are whole vectors: what is left of one eager rounds more often (docs/numerics.md).
Tensors parameters(at::ScalarType dtype = at::kFloat) {
  at::manual_seed(3);
  Tensors made;
  const std::vector<std::vector<int64_t>> odd = {{7, 33}, {33}, {7, 33}, {}, {5, 1}},
                                          whole = {{8, 64}, {64}, {8, 64}, {32}, {64, 1}};
  for (at::IntArrayRef sizes : at::isReducedFloatingType(dtype) ? whole : odd)
    made.push_back(at::randn(sizes, at::TensorOptions(dtype)).requires_grad_());
  return made;
}

void set_gradients(const Tensors& parameters, int step) {
  at::manual_seed(static_cast<uint64_t>(step) + 10);
  for (const Tensor& p : parameters)
    p.mutable_grad() = at::randn(p.sizes(), p.options().requires_grad(false));
}

/// 16 steps of both; the learning rate changes with each.
template <class Make>
void expect_same_steps(Make make, at::ScalarType dtype = at::kFloat, int64_t records = 1) {
  const Tensors ours = parameters(dtype), theirs = parameters(dtype);
  auto our = make(ours), their = make(theirs);
  Optimizer compiled = compile(*our, at_once());
  for (int step = 0; step < 16; ++step) {
    for (auto* optimizer : {our.get(), their.get()})
      for (auto& group : optimizer->param_groups()) group.options().set_lr(0.1 / (1 + step));
    set_gradients(ours, step), set_gradients(theirs, step);
    compiled.step();
    their->step();
    for (size_t k = 0; k < ours.size(); ++k)
      ASSERT_TRUE(same(ours[k], theirs[k])) << "step " << step << ", parameter " << k;
  }
  EXPECT_EQ(compiled.reason(), "") << compiled.explain();
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  EXPECT_EQ(compiled.report().records, records) << "a learning rate needs no record";
  EXPECT_TRUE(compiled.report().bitwise);
  // The state is the optimizer's own: it goes on from there by itself.
  for (int step = 16; step < 18; ++step) {
    set_gradients(ours, step), set_gradients(theirs, step);
    our->step(), their->step();
    for (size_t k = 0; k < ours.size(); ++k) ASSERT_TRUE(same(ours[k], theirs[k])) << step;
  }
}

template <class Kind, class KindOptions>
void expect_same_steps_with(const KindOptions& options, at::ScalarType dtype = at::kFloat) {
  expect_same_steps([&](const Tensors& p) { return std::make_unique<Kind>(p, options); }, dtype);
}

TEST(Optimizers, SGD) {
  using torch::optim::SGDOptions;
  expect_same_steps_with<torch::optim::SGD>(SGDOptions(0.1));
  expect_same_steps_with<torch::optim::SGD>(SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
  expect_same_steps_with<torch::optim::SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true));
  expect_same_steps_with<torch::optim::SGD>(SGDOptions(0.1).momentum(0.9).dampening(0.3));
  expect_same_steps_with<torch::optim::SGD>(SGDOptions(0.1).momentum(0.9), at::kDouble);
}

TEST(Optimizers, AdamAndAdamW) {
  using torch::optim::AdamOptions;
  using torch::optim::AdamWOptions;
  expect_same_steps_with<torch::optim::Adam>(AdamOptions(0.1));
  expect_same_steps_with<torch::optim::Adam>(AdamOptions(0.1).weight_decay(0.1).amsgrad(true));
  expect_same_steps_with<torch::optim::AdamW>(AdamWOptions(0.1));
  expect_same_steps_with<torch::optim::AdamW>(AdamWOptions(0.1).amsgrad(true).weight_decay(0));
  expect_same_steps_with<torch::optim::AdamW>(AdamWOptions(0.1), at::kDouble);
}

TEST(Optimizers, RMSpropAndAdagrad) {
  using torch::optim::AdagradOptions;
  using torch::optim::RMSpropOptions;
  expect_same_steps_with<torch::optim::RMSprop>(RMSpropOptions(0.1));
  expect_same_steps_with<torch::optim::RMSprop>(
      RMSpropOptions(0.1).momentum(0.9).centered(true).weight_decay(0.1));
  expect_same_steps_with<torch::optim::Adagrad>(
      AdagradOptions(0.1).lr_decay(0.1).weight_decay(0.1));
}

/// 16-bit parameters and states, rounded where eager's routines round.
TEST(Optimizers, NarrowParameters) {
  using namespace torch::optim;
  for (at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    expect_same_steps_with<SGD>(SGDOptions(0.1).weight_decay(0.01), dtype);
    expect_same_steps_with<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true), dtype);
    expect_same_steps_with<Adam>(AdamOptions(0.1).eps(1e-4).weight_decay(0.1), dtype);
    expect_same_steps_with<AdamW>(AdamWOptions(0.1).eps(1e-4).amsgrad(true), dtype);
    expect_same_steps_with<RMSprop>(RMSpropOptions(0.1).eps(1e-4), dtype);
    expect_same_steps_with<RMSprop>(RMSpropOptions(0.1).eps(1e-4).momentum(0.9), dtype);
    expect_same_steps_with<Adagrad>(AdagradOptions(0.1).weight_decay(0.1), dtype);
  }
}

TEST(Optimizers, GroupsHaveTheirOwnOptions) {
  auto make = [](const Tensors& p) {
    using torch::optim::AdamWOptions;
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(Tensors{p[0], p[2]},
                        std::make_unique<AdamWOptions>(AdamWOptions(0.1).weight_decay(0.1)));
    groups.emplace_back(Tensors{p[1], p[3], p[4]},
                        std::make_unique<AdamWOptions>(AdamWOptions(0.2).weight_decay(0)));
    return std::make_unique<torch::optim::AdamW>(groups, AdamWOptions(0.1));
  };
  expect_same_steps(make, at::kFloat, /*records=*/2);
}

TEST(Optimizers, ParametersWithoutGradients) {
  const Tensors ours = parameters(), theirs = parameters();
  torch::optim::Adam our(ours, 0.1), their(theirs, 0.1);
  Optimizer compiled = compile(our, at_once());
  for (int step = 0; step < 24; ++step) {
    set_gradients(ours, step), set_gradients(theirs, step);
    if (step % 3 == 2) ours[1].mutable_grad().reset(), theirs[1].mutable_grad().reset();
    compiled.step();
    their.step();
    for (size_t k = 0; k < ours.size(); ++k) ASSERT_TRUE(same(ours[k], theirs[k])) << step;
  }
}

/// SGD writes through data(): a graph that holds a parameter is none the wiser, as in eager.
TEST(Optimizers, VersionsAreCountedAsTheOptimizerDoes) {
  auto versions = [](bool adam) {
    const Tensors p = parameters();
    const int64_t before = p[0]._version();
    std::unique_ptr<torch::optim::Optimizer> optimizer;
    if (adam)
      optimizer = std::make_unique<torch::optim::Adam>(p, 0.1);
    else
      optimizer = std::make_unique<torch::optim::SGD>(p, 0.1);
    Optimizer compiled = compile(*optimizer, at_once());
    for (int step = 0; step < 6; ++step) set_gradients(p, step), compiled.step();
    EXPECT_TRUE(was_compiled(compiled.report()));
    return p[0]._version() - before;
  };
  EXPECT_EQ(versions(/*adam=*/false), 0);
  EXPECT_GT(versions(/*adam=*/true), 0);
}

/// Eager's Adagrad asserts that a parameter has a state, and leaves an empty one behind.
TEST(Optimizers, AddedParametersWithoutStateAreEagersError) {
  const Tensors p = parameters();
  torch::optim::Adagrad adagrad(Tensors{p[0]}, 0.1);
  Optimizer compiled = compile(adagrad, at_once());
  set_gradients(p, 0), compiled.step();
  adagrad.add_param_group(Tensors{p[1]});
  for (int step = 0; step < 3; ++step) EXPECT_THROW(compiled.step(), c10::Error);
}

TEST(Optimizers, ClosuresAndOthers) {
  const Tensors p = parameters();
  torch::optim::LBFGS lbfgs(p, torch::optim::LBFGSOptions(0.1).max_iter(2));
  Optimizer other = compile(lbfgs);
  auto loss = [&] {
    lbfgs.zero_grad();
    Tensor sum = at::zeros({});
    for (const Tensor& each : p) sum = sum + each.pow(2).sum();
    sum.backward();
    return sum;
  };
  const double first = other.step(loss).item<double>();
  EXPECT_LT(other.step(loss).item<double>(), first);
  EXPECT_NE(other.reason().find("not one of"), std::string::npos);

  torch::optim::SGD sgd(p, 0.01);
  Optimizer compiled = compile(sgd, at_once());
  double last = 1e9;
  for (int step = 0; step < 6; ++step) {
    const double now = compiled.step(loss).item<double>();
    EXPECT_LT(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace graft::test
