// Random programs over a free length, each at lengths of every kind, against eager.
//
//     GRAFT_FAMILY_SEEDS=1000-1200 build/tests/test_runtime --gtest_filter='RandomFamilies*'
#include <cstdlib>
#include <functional>
#include <random>
#include <sstream>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

using Random = std::mt19937;
int64_t below(Random& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

/// A step from a tensor (b, s, d) to another one (b, s', d'); s' follows s.
struct FreeStep {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& first)> run;
};

FreeStep random_step(Random& random, int64_t width) {
  const int64_t one = below(random, 3), few = 1 + below(random, 3);
  const Tensor row = at::randn({width}), square = at::randn({width, width}) * 0.2;
  switch (below(random, 22)) {
    case 0:
      return {"tanh", [](auto& x, auto&) { return x.tanh() * 1.5; }};
    case 1:
      return {"row", [row](auto& x, auto&) { return x * row + 0.5; }};
    case 2:
      return {"softmax", [](auto& x, auto&) { return at::softmax(x, -1); }};
    case 3:
      return {"softmax along s", [](auto& x, auto&) { return at::softmax(x * 2, 1) * 10; }};
    case 4:
      return {"centred", [one](auto& x, auto&) { return x - x.mean(one, true); }};
    case 5:
      return {"largest", [one](auto& x, auto&) { return x - x.amax(one, true) * 0.5; }};
    case 6:
      return {"cumsum", [](auto& x, auto&) { return x.cumsum(1) * 0.1; }};
    case 7:
      return {"shifted", [few](auto& x, auto&) {
                return at::cat({x.narrow(1, few, x.size(1) - few), x.narrow(1, 0, few)}, 1);
              }};
    case 8:
      return {"differences", [](auto& x, auto&) {
                return x.narrow(1, 1, x.size(1) - 1) - x.narrow(1, 0, x.size(1) - 1);
              }};
    case 9:
      return {"doubled", [](auto& x, auto& first) { return at::cat({x, first.tanh()}, 1); }};
    case 10:
      return {"linear", [square](auto& x, auto&) { return at::matmul(x, square); }};
    case 11:
      return {"mixed", [](auto& x, auto&) {
                const Tensor scores = at::matmul(x, x.transpose(1, 2)) * 0.1;
                return at::matmul(at::softmax(scores, -1), x);
              }};
    case 12:
      return {"causal", [](auto& x, auto&) {
                const int64_t s = x.size(1);
                const Tensor i = at::arange(s);
                const Tensor scores = at::matmul(x, x.transpose(1, 2)) * 0.1;
                return at::matmul(
                    at::softmax(scores.masked_fill(i.unsqueeze(0) > i.unsqueeze(1), -INFINITY), -1),
                    x);
              }};
    case 13:
      return {"positions", [](auto& x, auto&) {
                const int64_t s = x.size(1);
                return x + at::arange(s).to(at::kFloat).div(static_cast<double>(s)).view({1, s, 1});
              }};
    case 14:
      return {"reversed", [](auto& x, auto&) { return x.flip(1); }};
    case 15:
      return {"gathered", [](auto& x, auto&) {
                const int64_t s = x.size(1);
                return x.index_select(1, (at::arange(s) * 7 + 3).remainder(s));
              }};
    case 16:
      return {"transposed",
              [](auto& x, auto&) { return (x.transpose(0, 1).contiguous() + 1).transpose(0, 1); }};
    case 17:
      return {"filled in place", [few](auto& x, auto&) {
                Tensor y = x * 2;
                y.narrow(1, few, x.size(1) - few).add_(1);
                y.narrow(1, 0, few).mul_(0.5);
                return y;
              }};
    case 18:
      return {"every second", [](auto& x, auto&) { return x.slice(1, 0, x.size(1) - 1) * 2; }};
    case 19:
      return {"norm", [width](auto& x, auto&) { return at::layer_norm(x, {width}); }};
    case 20:
      return {"bf16", [](auto& x, auto&) { return (x.to(at::kBFloat16) * 1.25).to(at::kFloat); }};
    default:
      return {"relu", [](auto& x, auto&) { return at::relu(x) + x * 0.1; }};
  }
}

struct FreeProgram {
  int64_t batch, width;
  std::vector<FreeStep> steps;
  bool sums;
  Tensor operator()(const Tensor& first) const {
    Tensor x = first;
    for (const FreeStep& step : steps) x = step.run(x, first);
    return sums ? x.sum(1) : x;
  }
  std::string text() const {
    std::ostringstream out;
    out << "(" << batch << ", s, " << width << ")";
    for (const FreeStep& step : steps) out << ", " << step.name;
    return out.str() + (sums ? ", sum" : "");
  }
};

FreeProgram random_program(Random& random) {
  FreeProgram made{1 + below(random, 4), 8 * (1 + below(random, 6)), {}, below(random, 4) == 0};
  const int64_t count = 1 + below(random, 5);
  int64_t grown = 0;
  for (int64_t k = 0; k < count; ++k) {
    FreeStep step = random_step(random, made.width);
    grown += std::string(step.name) == "doubled";
    if (grown < 2 || std::string(step.name) != "doubled") made.steps.push_back(std::move(step));
  }
  return made;
}

std::vector<int64_t> lengths_of(Random& random) {
  std::vector<int64_t> all = {5,  6,   8,   16,  17,  32,  33,  64,  65,  66,  96,
                              97, 127, 128, 129, 160, 161, 192, 193, 194, 256, 257};
  for (int k = 0; k < 12; ++k) all.push_back(5 + below(random, 280));
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

/// Returns how many calls plans of families served.
int64_t check(int64_t seed) {
  Random random(static_cast<uint32_t>(seed));
  at::manual_seed(static_cast<uint64_t>(seed));
  const FreeProgram program = random_program(random);
  Options options = at_once("family" + std::to_string(seed));
  options.sizes = graft::Sizes::Family;
  const auto compiled = compile(program, options);
  const at::NoGradGuard no_grad;
  for (int64_t s : {45, 210, 90}) compiled(at::randn({program.batch, s, program.width}));
  for (int64_t s : lengths_of(random)) {
    const Tensor x = at::randn({program.batch, s, program.width});
    const Tensor eager = program(x), came = compiled(x);
    const bool like = eager.sizes() == came.sizes() && eager.strides() == came.strides() &&
                      at::allclose(eager, came, 2e-2, 2e-3, /*equal_nan=*/true);
    if (!like) {
      ADD_FAILURE() << "seed " << seed << " at " << s << ": " << program.text() << ", by "
                    << at::max((eager - came).abs()).item<double>();
      return 0;
    }
  }
  return compiled.report().family_calls;
}

TEST(RandomFamilies, AreAsEager) {
  int64_t first = 0, last = 10, served = 0;
  if (const char* seeds = std::getenv("GRAFT_FAMILY_SEEDS"))
    if (std::sscanf(seeds, "%ld-%ld", &first, &last) != 2) FAIL() << "two seeds: 0-10";
  for (int64_t seed = first; seed < last; ++seed) served += check(seed);
  EXPECT_GT(served, (last - first) * 8);
}

}  // namespace
}  // namespace graft::test
