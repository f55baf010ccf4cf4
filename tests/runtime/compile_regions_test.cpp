// Submodules compiled in place.
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "graft/nn.h"
#include "runtime/helpers.h"

namespace graft {
namespace {

namespace nn = torch::nn;

struct BlockImpl : nn::Module {
  BlockImpl() {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({24})));
    up = register_module("up", nn::Linear(24, 48));
    down = register_module("down", nn::Linear(48, 24));
  }
  at::Tensor forward(const at::Tensor& x) {
    return x + down(at::gelu(up(norm(x)))) * (is_training() ? 1.0 : 0.5);
  }
  nn::LayerNorm norm{nullptr};
  nn::Linear up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct ModelImpl : nn::Module {
  explicit ModelImpl(int count) {
    layers = register_module("layers", nn::Sequential());
    for (int k = 0; k < count; ++k) layers->push_back(Block());
    head = register_module("head", nn::Sequential(nn::Linear(24, 5), nn::Tanh()));
  }
  at::Tensor forward(const at::Tensor& x) { return head->forward(layers->forward(x)); }
  nn::Sequential layers{nullptr}, head{nullptr};
};
TORCH_MODULE(Model);

TEST(CompileRegions, Patterns) {
  for (const char* pattern : {"a.b", "a.*", "*.b", "*.*", "**", "a.b*", "**b", "a**"})
    EXPECT_TRUE(detail::fits("a.b", pattern)) << pattern;
  for (const char* pattern : {"a", "*", "b.*", "a.b.*", "", "a.c", "*b.b"})
    EXPECT_FALSE(detail::fits("a.b", pattern)) << pattern;
}

TEST(CompileRegions, LayersAreCompiledAndTheModelIsAsBefore) {
  const c10::NoGradGuard no_grad;
  Model model(4), plain(4);
  for (const auto& item : plain->named_parameters())
    item.value().copy_(model->named_parameters()[item.key()]);
  Options options = test::at_once("model");
  const std::vector<Region> regions = compile_regions(*model, {"layers.*"}, options);
  ASSERT_EQ(regions.size(), 4u);
  EXPECT_EQ(regions[2].name(), "layers.2");
  EXPECT_EQ(regions[2].report().name, "model.layers.2");
  ASSERT_EQ(model->named_parameters().size(), plain->named_parameters().size());
  const at::Tensor x = at::randn({7, 24});
  for (int call = 0; call < 4; ++call) EXPECT_TRUE(at::allclose(model(x), plain(x), 1e-4, 1e-5));
  for (size_t k = 0; k < regions.size(); ++k) {
    EXPECT_EQ(regions[k].report().verdict, Verdict::Faster) << regions[k].report();
    EXPECT_EQ(regions[k].report().found, k > 0) << "equal layers are compiled once";
  }
  // Weights that change are seen.
  for (const auto& item : model->named_parameters())
    if (item.key() == "layers.1.up.weight") item.value().mul_(2);
  for (const auto& item : plain->named_parameters())
    if (item.key() == "layers.1.up.weight") item.value().mul_(2);
  EXPECT_TRUE(at::allclose(model(x), plain(x), 1e-4, 1e-5));
  // The mode, which the blocks' code depends on.
  for (bool training : {false, true, false}) {
    model->train(training);
    plain->train(training);
    for (int call = 0; call < 3; ++call)
      EXPECT_TRUE(at::allclose(model(x), plain(x), 1e-4, 1e-5)) << training;
  }
  EXPECT_THROW(model->layers->clone(), Error);
}

TEST(CompileRegions, OfASequentialThatNobodyShares) {
  const c10::NoGradGuard no_grad;
  nn::SequentialImpl model(nn::Linear(24, 24), nn::Tanh());
  const at::Tensor x = at::randn({3, 24}), expected = model.forward(x);
  EXPECT_EQ(compile_regions(model, {"0"}, test::at_once()).size(), 1u);
  for (int call = 0; call < 4; ++call)
    EXPECT_TRUE(at::allclose(model.forward(x), expected, 1e-4, 1e-5));
}

TEST(CompileRegions, Train) {
  Model model(2), plain(2);
  {
    const c10::NoGradGuard no_grad;
    for (const auto& item : plain->named_parameters())
      item.value().copy_(model->named_parameters()[item.key()]);
  }
  const std::vector<Region> regions =
      compile_regions(*model, {"layers.*", "head.*"}, test::at_once());
  EXPECT_EQ(regions.size(), 4u);
  const at::Tensor x = at::randn({9, 24});
  for (int step = 0; step < 5; ++step) {
    for (auto* one : {&model, &plain}) {
      (*one)->zero_grad();
      (*one)->forward(x).pow(2).sum().backward();
      const c10::NoGradGuard no_grad;
      for (at::Tensor& p : (*one)->parameters()) p.sub_(p.grad(), 0.01);
    }
    for (const auto& item : plain->named_parameters())
      EXPECT_TRUE(at::allclose(item.value(), model->named_parameters()[item.key()], 1e-4, 1e-5))
          << item.key();
  }
  EXPECT_EQ(regions[0].report().verdict, Verdict::Faster) << regions[0].report();
  EXPECT_GT(regions[0].report().backward_kernels, 0);
}

TEST(CompileRegions, WhatCannotBeWrappedIsSaid) {
  Model model(2);
  try {
    compile_regions(*model, {"blocks.*"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layers.0, layers.1, head.0"), std::string::npos)
        << error.what();
  }
  Block block;
  EXPECT_THROW(compile_regions(*block, {"**"}), Error);
  // What is within a wrapped one is not wrapped again.
  EXPECT_EQ(compile_regions(*model, {"**"}).size(), 4u);
}

}  // namespace
}  // namespace graft
