#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "graft/workload.h"
#include "lab/accuracy/compare.h"
#include "support/report.h"
#include "workloads/hand/hand.h"

namespace graft::workloads {
namespace {

const Options kSmall{.seed = 1, .small = true};

/// How close hand-written results come to eager's; 0 is bitwise. Relative, for each output in turn.
const std::map<std::string, std::vector<double>> kHandTolerance{
    {"rope_f32", {0, 0}},
    {"rope_bf16", {0, 0}},
    {"rmsnorm_bf16", {0, 1.0 / 128}},  // a sum in another order can move a rounding to bf16
    {"swiglu_bf16", {1.0 / 128}},      // so can an exp that differs by 1 ulp of fp32
    {"swiglu_f32", {1e-6}},
    {"softmax_f32", {2e-6}},
    {"gptq_block", {0, 0, 0}},
};

/// Graph breaks: the sizes of what they make depend on data, or their code reads fractions.
const std::set<std::string> kBreaks = {
    "greedy_boxes_f32", "label_regions_i64", "dynamic_pillars_f32",    "landmark_update_f64",
    "auction_f64",      "loop_experts_bf16", "implied_volatility_f64", "prodigy_step_f32"};
/// Make fp32 results whatever their inputs: of bytes, of bits, of filled masks.
const std::set<std::string> kFloatAlways = {"letterbox_f32",        "stochastic_average_bf16",
                                            "shifted_windows_bf16", "cloud_composite_f32",
                                            "bloom_filter_i64",     "stochastic_rounding_f32"};

/// One value near a tie that goes the other way changes the rest of its row, or a code by 1;
/// AdamW's first step is the sign of a gradient, which bf16 may turn.
const std::set<std::string> kDecides{"gptq_block", "codebook_f32", "int8_rows_bf16",
                                     "mlp_bf16_autocast", "stochastic_rounding_f32"};

class Region : public testing::TestWithParam<std::string> {
 protected:
  const Workload& workload() const { return *find_workload(GetParam()); }
  Instance instance(const Options& options = kSmall) const { return workload().make(options); }
};

TEST_P(Region, EagerRunsAndIsRepeatable) {
  const Instance a = instance(), b = instance();
  a.eager.run();
  const Tensors outputs = a.eager.outputs();
  ASSERT_FALSE(outputs.empty());
  // the region changes none of its inputs
  EXPECT_TRUE(lab::compare(outputs, a.eager.outputs()).bitwise);
  // one seed, one set of inputs
  EXPECT_TRUE(lab::compare(outputs, b.eager.outputs()).bitwise);
  EXPECT_FALSE(lab::compare(outputs, instance({.seed = 2, .small = true}).eager.outputs()).bitwise);
  for (const at::Tensor& t : outputs) EXPECT_TRUE(t.isfinite().all().item<bool>());
}

TEST_P(Region, MakingInputsLeavesTheGlobalGeneratorAlone) {
  at::manual_seed(5);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(5);
  (void)instance();
  EXPECT_TRUE(at::rand({4}).equal(expected));
}

TEST_P(Region, DoubleIsNearEager) {
  const Instance region = instance();
  const Tensors eager = region.eager.outputs(), reference = region.fp64();
  ASSERT_EQ(eager.size(), reference.size());
  for (size_t i = 0; i < eager.size(); ++i) {
    if (eager[i].is_floating_point() && !kFloatAlways.contains(GetParam())) {
      EXPECT_EQ(reference[i].scalar_type(), at::kDouble) << "output " << i;
    }
  }
  if (kDecides.contains(GetParam())) return;
  const double sums = std::max(1e-5, workload().tolerance);
  EXPECT_LT(lab::relative_error(eager, reference), GetParam().ends_with("_bf16") ? 0.02 : sums);
}

TEST_P(Region, CompiledAgrees) {
  const Instance region = instance();
  // The first functions of a process that two threads call in MKL at once have other bits now and
  // then (1 process in 100), so eager warms up.
  (void)region.eager.outputs();
  const Tensors expected = region.eager.outputs();
  const CompiledCall compiled = region.compile({});
  for (int call = 0; call < 20; ++call) {
    const Tensors outputs = compiled.outputs();
    const lab::Comparison c = lab::compare(expected, outputs);
    ASSERT_TRUE(c.same_form) << "call " << call;
    // A sum may add in another order; everything else has eager's bits.
    const double error = c.bitwise ? 0 : lab::relative_error(outputs, expected);
    const double tolerance = workload().tolerance;
    ASSERT_TRUE(tolerance > 0 ? error <= tolerance : c.bitwise)
        << "call " << call << ": " << c.text() << ", relative to the largest " << error << '\n'
        << compiled.report();
    compiled.wait();
  }
  if (kBreaks.contains(GetParam()))
    EXPECT_EQ(compiled.report().verdict, Verdict::Break);
  else
    EXPECT_TRUE(test::was_compiled(compiled.report()));
}

TEST_P(Region, TheLowerBoundIsAtMostAllInputsAndOutputs) {
  const Instance region = instance();
  int64_t all = region.input_bytes;
  for (const at::Tensor& t : region.eager.outputs()) all += static_cast<int64_t>(t.nbytes());
  EXPECT_LE(region.bytes, static_cast<double>(all));
  if (workload().set != kDefaultSet) {
    EXPECT_GT(region.bytes, 0);
    EXPECT_GT(region.flops, 0);
  }
}

TEST_P(Region, OtherImplementationsAgree) {
  const Instance region = instance();
  const Tensors expected = region.eager.outputs();
  for (const auto& [name, call] : region.others) {
    call.run();
    const bool is_short = expected[0].defined() && expected[0].element_size() == 2;
    EXPECT_LT(lab::relative_error(call.outputs(), expected), is_short ? 1.0 / 128 : 1e-5) << name;
    EXPECT_TRUE(lab::compare(call.outputs(), call.outputs()).bitwise)
        << name << " changes its inputs";
  }
}

TEST_P(Region, HandAgrees) {
  const Instance region = instance();
  const auto tolerance = kHandTolerance.find(GetParam());
  ASSERT_EQ(static_cast<bool>(region.hand), tolerance != kHandTolerance.end());
  if (!region.hand) return;
  const Tensors expected = region.eager.outputs();
  const int threads = at::get_num_threads();
  for (int count : {threads, 1}) {
    at::set_num_threads(count);
    const Tensors results = region.hand.outputs();
    ASSERT_EQ(results.size(), tolerance->second.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const double relative = tolerance->second[i];
      if (relative == 0) {
        EXPECT_EQ(lab::compare({expected[i]}, {results[i]}).text(), "bitwise") << "output " << i;
      } else {
        EXPECT_TRUE(at::allclose(results[i], expected[i], relative, /*atol=*/1e-7))
            << "output " << i;
      }
    }
  }
  at::set_num_threads(threads);
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Workload& workload : workloads()) out.push_back(workload.name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, Region, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST(Regions, NamesAreDistinctAndFound) {
  const std::vector<std::string> all = names();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(find_workload("rope_f32"), &workloads().front());
  EXPECT_EQ(find_workload("rope"), nullptr);
}

TEST(Regions, ThePeersScriptHasTheSameCases) {
  const std::filesystem::path peers = std::string(GRAFT_SOURCE_DIR) + "/tools/peers";
  std::vector<std::filesystem::path> scripts{peers / "inductor.py",  peers / "training.py",
                                             peers / "attention.py", peers / "decode.py",
                                             peers / "models.py",    peers / "systems.py"};
  for (const auto& entry : std::filesystem::directory_iterator(peers / "wild"))
    if (entry.is_regular_file()) scripts.push_back(entry.path());
  std::stringstream text;
  for (const std::filesystem::path& script : scripts) text << std::ifstream(script).rdbuf();
  for (const std::string& name : names()) {
    EXPECT_NE(text.str().find("    \"" + name + "\": "), std::string::npos) << name;
  }
}

void halve(const at::Tensor& x, const Tensors& more) {
  x.mul_(0.5);
  for (const at::Tensor& t : more) t.mul_(0.5);
}

TEST(Workloads, UpdatesStartFromInputsThatStay) {
  const at::Tensor x = at::ones({3}), y = at::ones({2});
  const Instance updating = updating_instance_of(halve, x, Tensors{y});
  const CompiledCall compiled = updating.compile({});
  for (int call = 0; call < 3; ++call) updating.eager.run(), compiled.run();
  EXPECT_TRUE(x.equal(at::ones({3})) && y.equal(at::ones({2})));
  for (const Tensors& outputs : {updating.eager.outputs(), compiled.outputs()}) {
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_TRUE(outputs[0].equal(at::full({3}, 0.5)) && outputs[1].equal(at::full({2}, 0.5)));
  }
  EXPECT_EQ(updating.fp64().at(1).scalar_type(), at::kDouble);
}

/// A first call with other tensors is compared with eager, and has eager's results.
TEST(Workloads, OutputsOfCompiledCallsAreThePlans) {
  const Instance updating = updating_instance_of(halve, at::ones({3}), Tensors{at::ones({2})});
  graft::Options options;
  options.race = false;
  const CompiledCall compiled = updating.compile(options);
  for (int call = 0; call < 4; ++call) compiled.run(), compiled.wait();
  const int64_t before = compiled.report().plan_hits;
  ASSERT_GT(before, 0) << compiled.explain();
  (void)compiled.outputs();
  EXPECT_GT(compiled.report().plan_hits, before);
}

TEST(Workloads, StepsGoOnFromWhatTheLastOneLeft) {
  const at::Tensor x = at::ones({2});
  const Instance updating =
      updating_instance_of([](const at::Tensor& t) { return t.mul_(0.5).sum(); }, x);
  const CompiledCall compiled = updating.compile({});
  for (const Call& call : {updating.eager, static_cast<const Call&>(compiled)}) {
    const Steps run = call.steps(), other = call.steps();
    EXPECT_EQ(run.next().at(0).item<float>(), 1);
    EXPECT_EQ(run.next().at(0).item<float>(), 0.5F);
    EXPECT_EQ(run.state.at(0).sum().item<float>(), 0.5F);
    other.state.at(0).add_(1);  // each run starts from the inputs
    EXPECT_EQ(other.next().at(0).item<float>(), 2);
  }
  EXPECT_TRUE(x.equal(at::ones({2})));
  EXPECT_FALSE(instance_of([](const at::Tensor& t) { return t * 2; }, x).eager.steps);
}

TEST(Workloads, TheWildSetIsApart) {
  int64_t count = 0;
  for (const Workload& workload : workloads()) count += workload.set == "wild";
  EXPECT_GE(count, 40);
  EXPECT_EQ(find_workload("rope_f32")->set, kDefaultSet);
  EXPECT_EQ(find_workload("heat_f32")->set, "wild");
}

// NaN and infinity pass through the hand-written exp and the rounding to bf16 as through eager's.
TEST(Regions, HandKeepsSpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const at::Tensor gate =
      at::tensor({NAN, kInf, -kInf, 0.0f, -0.0f, 100.0f, -100.0f, -88.5f, 3.4e38f, -3.4e38f});
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor g = gate.to(dtype).repeat({20}), u = at::full_like(g, 2);
    const at::Tensor expected = at::silu(g) * u, got = hand::swiglu(g, u).outputs()[0];
    EXPECT_TRUE(at::allclose(got, expected, 0.01, 1e-7, /*equal_nan=*/true))
        << at::stack({expected, got});
  }
  const at::Tensor mask =
      at::zeros({40, 40}).masked_fill(at::ones({40, 40}, at::kBool).triu(1), -kInf);
  const at::Tensor scores = at::zeros({2, 40, 40});
  const at::Tensor got = hand::softmax_mask(scores, mask).outputs()[0];
  EXPECT_TRUE(at::allclose(got, at::softmax(scores * 0.125 + mask, -1)));
  EXPECT_EQ(got.triu(1).abs().max().item<float>(), 0);  // masked places are exactly zero
}

TEST(Regions, HandSaysWhatItExpects) {
  const at::Tensor a = at::zeros({2, 3, 4, 8}), table = at::zeros({4, 8});
  EXPECT_THROW(hand::rope(a.transpose(1, 2), a.transpose(1, 2), table, table), c10::Error);
  EXPECT_THROW(hand::rope(a, at::zeros({2, 3, 4, 6}), table, table), c10::Error);
  EXPECT_THROW(hand::swiglu(a.to(at::kDouble), a.to(at::kDouble)), c10::Error);
}

}  // namespace
}  // namespace graft::workloads
