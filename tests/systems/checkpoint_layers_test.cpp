// Chains of layers under each policy, and what a budget of memory makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/systems/checkpoint_support.h"

namespace graft::systems::test {
namespace {

using at::Tensor;
using testing::HasSubstr;

struct Chain {
  explicit Chain(int count, int64_t width = 32) {
    for (int i = 0; i < count; ++i) {
      blocks.emplace_back(width, static_cast<uint64_t>(10 * i));
      const auto& own = blocks.back().parameters;
      leaves.insert(leaves.end(), own.begin(), own.end());
    }
  }
  std::vector<CheckpointedLayers::Layer> layers() const { return {blocks.begin(), blocks.end()}; }
  std::vector<Block> blocks;
  std::vector<Tensor> leaves;
};

TEST(CheckpointedLayers, HaveTheBitsUnderEachPolicy) {
  const Chain chain(5);
  const Tensor x = random({2, 16, 32}, 1);
  CheckpointedLayers plain(chain.layers(), Policy::none());
  const Outcome expected = run([&] { return plain(x); }, chain.leaves);
  int64_t all = 0;
  for (const LayerCost& cost : [&] {
         CheckpointedLayers measured(chain.layers(), Policy::budget(1 << 30));
         measured(x);
         return measured.costs();
       }())
    all += cost.bytes;
  for (const Policy& policy :
       {Policy::every(), Policy::every(2), Policy::every(9), Policy::selective(),
        Policy::budget(all * 2 / 3), Policy::budget(all / 2), Policy::budget(all * 2)}) {
    CheckpointedLayers layers(chain.layers(), policy);
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(difference(expected, run([&] { return layers(x); }, chain.leaves)), "")
          << static_cast<int>(policy.kind) << " " << policy.segment << " " << policy.bytes;
  }
}

TEST(CheckpointedLayers, TakeLessMemory) {
  const Chain chain(8, 64);
  const Tensor x = random({4, 64, 64}, 1);
  const auto peak = [&](CheckpointedLayers& layers) {
    run([&] { return layers(x); }, chain.leaves);  // a budget is measured here
    return peak_bytes([&] { run([&] { return layers(x); }, chain.leaves); });
  };
  const auto of = [&](const Policy& policy) {
    CheckpointedLayers layers(chain.layers(), policy);
    return peak(layers);
  };
  const int64_t none = of(Policy::none()), selective = of(Policy::selective()),
                each = of(Policy::every());
  EXPECT_LT(selective, none * 3 / 4);
  EXPECT_LT(each, selective);

  CheckpointedLayers measured(chain.layers(), Policy::budget(int64_t{1} << 40));
  measured(x);
  const auto choice = [&](Recompute what) {
    return activation_peak(measured.costs(), std::vector<Recompute>(8, what));
  };
  const int64_t budget = (choice(Recompute::Nothing) + choice(Recompute::Everything)) / 2;
  CheckpointedLayers within(chain.layers(), Policy::budget(budget));
  // Gradients of parameters, and what backward of one layer takes beside its activations.
  const int64_t rest = each - choice(Recompute::Everything);
  EXPECT_LE(peak(within), budget + rest + (none - each) / 20);
  EXPECT_THAT(within.choice(), testing::Contains(Recompute::Nothing));
  EXPECT_THAT(within.choice(), testing::Contains(testing::Ne(Recompute::Nothing)));
}

TEST(CheckpointedLayers, MeasureBytesThatAreKept) {
  const Tensor w = parameter({64, 64}, 1), x = random({128, 64}, 2);
  constexpr int64_t kBytes = 128 * 64 * 4;
  CheckpointedLayers layers({[=](const Tensor& in) { return at::linear(in, w).tanh().sigmoid(); }},
                            Policy::budget(1 << 30));
  const Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  layers(x);
  ASSERT_EQ(layers.costs().size(), 1u);
  const LayerCost& cost = layers.costs()[0];
  EXPECT_EQ(cost.output_bytes, kBytes);
  EXPECT_EQ(cost.bytes, 2 * kBytes);        // of tanh and sigmoid: both need their results
  EXPECT_EQ(cost.cheap_bytes, 2 * kBytes);  // the product and the output
  EXPECT_GT(cost.everything_ms, 0);
  EXPECT_TRUE(state.equal(at::detail::getDefaultCPUGenerator().get_state()));
}

TEST(CheckpointedLayers, CountTemporariesOfTheLayerThatRuns) {
  constexpr int64_t kBytes = 1000 * 4;
  int runs = 0;
  const auto layer = [&](const Tensor& in) {
    ++runs;
    const Tensor wide = in.detach().repeat({8});  // gone when the layer ends
    return (in * 2).tanh() + wide.sum().item<float>() * 0;
  };
  CheckpointedLayers layers({layer, layer}, Policy::budget(1 << 30));
  layers(parameter({1000}, 1));
  EXPECT_EQ(runs, 2 * 7);  // six more times each
  const LayerCost& cost = layers.costs()[0];
  EXPECT_LE(cost.bytes, 3 * kBytes);
  EXPECT_GE(cost.running_bytes, 9 * kBytes);
  EXPECT_GE(activation_peak(layers.costs(), {Recompute::Everything, Recompute::Everything}),
            10 * kBytes);
  CheckpointedLayers little({layer, layer}, Policy::budget(8 * kBytes));
  EXPECT_THAT(message_of([&] { little(parameter({1000}, 1)); }), HasSubstr("is too little"));
}

TEST(CheckpointedLayers, SayWhatIsWrong) {
  const auto layer = [](const Tensor& in) { return in.tanh(); };
  EXPECT_THAT(message_of([&] { CheckpointedLayers({}, Policy::none()); }), HasSubstr("no layers"));
  EXPECT_THAT(message_of([&] { CheckpointedLayers({layer, nullptr}, Policy::none()); }),
              HasSubstr("layer 1"));
  EXPECT_THAT(message_of([&] { CheckpointedLayers({layer}, Policy::every(0)); }),
              HasSubstr("Policy::every(0)"));
  CheckpointedLayers little({layer, layer, layer}, Policy::budget(1000));
  // Two layers' inputs of 4000 bytes and the last one's activations.
  EXPECT_THAT(message_of([&] { little(parameter({1000}, 1)); }),
              HasSubstr("a budget of 1000 bytes of activations is too little: with everything "
                        "computed again they still take 12000"));
}

TEST(ChooseRecompute, FindsTheLeastTimeThatFits) {
  std::mt19937 random(5);
  const auto number = [&](int most) { return static_cast<int64_t>(1 + random() % most); };
  for (int round = 0; round < 40; ++round) {
    std::vector<LayerCost> costs(5);
    for (LayerCost& cost : costs) {
      cost = {.everything_ms = static_cast<double>(number(100)), .bytes = 4000 + number(40000)};
      cost.cheap_ms = cost.everything_ms / static_cast<double>(1 + number(5));
      cost.output_bytes = cost.bytes / (2 + number(5));
      cost.cheap_bytes = cost.output_bytes + (cost.bytes - cost.output_bytes) / number(4);
    }
    const auto ms = [&](const std::vector<Recompute>& choice) {
      double sum = 0;
      for (size_t i = 0; i < costs.size(); ++i) sum += costs[i].recompute_ms(choice[i]);
      return sum;
    };
    const auto all = [&](Recompute what) {
      return activation_peak(costs, std::vector<Recompute>(costs.size(), what));
    };
    const int64_t least = all(Recompute::Everything), most = all(Recompute::Nothing);
    const int64_t budget = least + (most - least) * (round % 10) / 10;
    double best = std::numeric_limits<double>::infinity();
    for (int code = 0; code < 243; ++code) {
      std::vector<Recompute> choice;
      for (int digits = code, i = 0; i < 5; ++i, digits /= 3)
        choice.push_back(static_cast<Recompute>(digits % 3));
      // Rounding to the budget's 4096th may leave out what fits by less than five of them.
      if (activation_peak(costs, choice) <= budget - 5 * budget / 4096)
        best = std::min(best, ms(choice));
    }
    const std::vector<Recompute> found = choose_recompute(costs, budget);
    EXPECT_LE(activation_peak(costs, found), budget);
    EXPECT_LE(ms(found), best) << round;
  }
}

TEST(CheckpointOfACompiledFunction, HasTheBitsAndKeepsNothing) {
  const Tensor w = parameter({64, 64}, 1), x = parameter({256, 64}, 2);
  const auto layer = [w](const Tensor& in) {
    // Graft's backward keeps the products and computes the rest again by itself.
    const Tensor hidden = at::linear(at::linear(in, w).sigmoid() * in, w);
    return at::linear(hidden.tanh() + hidden, w).sin();
  };
  graft::Options options;  // the same plan in each call: eager adds w's gradients in another order
  options.async = options.race = false;
  const auto compiled = graft::compile(layer, options);
  const auto with = [&](Recompute what, auto&& f) {
    return run(
        [&] {
          Tensor y = x;
          for (int i = 0; i < 4; ++i) y = checkpoint(what, f, y);
          return y;
        },
        {w, x});
  };
  for (int i = 0; i < 4; ++i) {  // recorded, compiled, proven, and then compiled
    with(Recompute::Everything, compiled);
    compiled.wait();
  }
  const Outcome kept = with(Recompute::Nothing, compiled);
  EXPECT_EQ(difference(kept, with(Recompute::Everything, compiled)), "") << compiled.report();
  const auto peak = [&](Recompute what) { return peak_bytes([&] { with(what, compiled); }); };
  EXPECT_LT(peak(Recompute::Everything), peak(Recompute::Nothing)) << compiled.report();
}

}  // namespace
}  // namespace graft::systems::test
