// Options::sizes = Family: plans for sizes that were never recorded.
#include <functional>
#include <random>
#include <thread>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

Options family(std::string name = {}) {
  Options options = at_once(std::move(name));
  options.sizes = graft::Sizes::Family;
  return options;
}

struct FamilyProgram {
  const char* name;
  std::function<Tensors(const Tensors&)> run;
  std::function<Tensors(int64_t)> make;
  double tolerance = 0;  ///< relative; 0: bits
};

Tensor random(at::IntArrayRef sizes) {
  return at::randn(sizes);
}

std::vector<FamilyProgram> family_programs() {
  const Tensor weight = random({64}), square = random({64, 48});
  auto one = [](at::IntArrayRef before, at::IntArrayRef after) {
    const std::vector<int64_t> front(before.begin(), before.end()),
        back(after.begin(), after.end());
    return [front, back](int64_t s) {
      std::vector<int64_t> sizes = front;
      sizes.push_back(s);
      sizes.insert(sizes.end(), back.begin(), back.end());
      return Tensors{random(sizes)};
    };
  };
  auto causal = [](const Tensors& t) {
    const int64_t s = t[0].size(-2);
    const Tensor mask = at::ones({s, s}, at::kBool).triu(1);
    const Tensor scores = at::matmul(t[0], t[1].transpose(-2, -1)) * 0.125;
    return Tensors{at::matmul(at::softmax(scores.masked_fill(mask, -INFINITY), -1), t[2])};
  };
  auto heads = [](int64_t s) {
    return Tensors{random({1, 4, s, 32}), random({1, 4, s, 32}), random({1, 4, s, 32})};
  };
  return {
      {"pointwise", [](const Tensors& t) { return Tensors{at::relu(t[0] * 2 + 1)}; },
       one({3}, {16})},
      {"rms norm",
       [weight](const Tensors& t) {
         return Tensors{t[0] * at::rsqrt(t[0].pow(2).mean(-1, true) + 1e-6) * weight};
       },
       one({2}, {64}), 1e-5},
      {"softmax", [](const Tensors& t) { return Tensors{at::softmax(t[0] * 0.5, -1)}; },
       [](int64_t s) { return Tensors{random({3, s, s})}; }, 1e-5},
      {"gated",
       [](const Tensors& t) {
         const auto half = t[0].chunk(2, -1);
         return Tensors{at::silu(half[0]) * half[1]};
       },
       one({}, {96}), 1e-6},
      {"rotary",
       [](const Tensors& t) {
         const int64_t s = t[0].size(2), d = t[0].size(3);
         const Tensor angle =
             at::outer(at::arange(s).to(at::kFloat),
                       at::pow(10000.0, at::arange(0, d, 2) / -static_cast<double>(d)));
         const Tensor cos = at::cat({angle, angle}, -1).cos(),
                      sin = at::cat({angle, angle}, -1).sin();
         const auto half = t[0].chunk(2, -1);
         return Tensors{t[0] * cos + at::cat({-half[1], half[0]}, -1) * sin};
       },
       one({1, 4}, {32}), 1e-5},
      {"columns",
       [](const Tensors& t) {
         return Tensors{at::layer_norm(t[0], {512}).mean(1), t[0].tanh().sum(1)};
       },
       one({2}, {512}), 1e-4},
      {"split columns",
       [](const Tensors& t) {
         return Tensors{t[0].sum(0), (t[0] * t[0]).sum(0), (t[0] * t[0]).sum(1)};
       },
       one({}, {1024}), 1e-4},
      {"linear",
       [square](const Tensors& t) {
         return Tensors{at::gelu(at::matmul(t[0], square)) + t[0].narrow(-1, 0, 48)};
       },
       one({1}, {64}), 1e-4},
      {"attention", causal, heads, 1e-4},
      {"slices",
       [](const Tensors& t) {
         const int64_t s = t[0].size(1);
         return Tensors{t[0].narrow(1, 1, s - 1) - t[0].narrow(1, 0, s - 1),
                        at::cat({t[0].narrow(1, 0, 1), t[0]}, 1)};
       },
       one({3}, {8})},
      {"in place",
       [](const Tensors& t) {
         Tensor x = t[0];
         x.mul_(2).add_(1);
         return Tensors{x.transpose(0, 1), x.cumsum(0)};
       },
       one({}, {5}), 1e-5},
      {"statistics",
       [](const Tensors& t) {
         return Tensors{(t[0] - t[0].mean(0)) / (t[0].var(0) + 1e-5).sqrt(), at::argmax(t[0], 0)};
       },
       one({}, {24}), 1e-4},
      {"growing",
       [](const Tensors& t) {
         const Tensor all = at::cat({t[0], t[1]}, 1);
         return Tensors{all, at::softmax(at::matmul(t[1], all.transpose(1, 2)) * 0.1, -1)};
       },
       [](int64_t s) { return Tensors{random({4, s, 16}), random({4, 1, 16})}; }, 1e-4},
      // As many new rows into a cache that was made before.
      {"prefill",
       [](const Tensors& t) {
         const int64_t s = t[0].size(1);
         t[1].narrow(1, 0, s).copy_(t[0] * 2);
         const Tensor keys = t[1].narrow(1, 0, s);
         return Tensors{at::softmax(at::matmul(t[0], keys.transpose(1, 2)) * 0.1, -1)};
       },
       [](int64_t s) { return Tensors{random({2, s, 16}), random({2, 640, 16})}; }, 1e-4},
      // New rows go round in a cache; older ones are masked by their age.
      {"ring",
       [](const Tensors& t) {
         const int64_t s = t[0].size(1), most = t[1].size(1);
         const Tensor places = at::remainder(t[2] + at::arange(s), most);
         t[1].index_copy_(1, places, t[0]);
         const Tensor age = at::remainder(t[2] + s - 1 - at::arange(most), most);
         const Tensor scores = at::matmul(t[0], t[1].transpose(1, 2)) * 0.1;
         return Tensors{at::softmax(scores.masked_fill(age >= 600, -INFINITY), -1), places};
       },
       [](int64_t s) {
         return Tensors{random({2, s, 16}), random({2, 640, 16}), at::full({1}, 630, at::kLong)};
       },
       1e-4},
  };
}

Tensors copies(const Tensors& of) {
  Tensors made;
  for (const Tensor& tensor : of) made.push_back(tensor.clone());
  return made;
}

void expect_like(const Tensors& eager, const Tensors& compiled, double tolerance,
                 const std::string& where) {
  ASSERT_EQ(eager.size(), compiled.size());
  for (size_t i = 0; i < eager.size(); ++i) {
    ASSERT_EQ(eager[i].sizes(), compiled[i].sizes()) << where;
    ASSERT_EQ(eager[i].strides(), compiled[i].strides()) << where;
    const bool same = tolerance == 0
                          ? at::equal(eager[i], compiled[i])
                          : at::allclose(eager[i], compiled[i], tolerance, tolerance * 10,
                                         /*equal_nan=*/true);
    ASSERT_TRUE(same) << where << ", result " << i;
  }
}

/// The last of all numbers up to 40, then of every kind of remainder.
std::vector<int64_t> lengths() {
  std::vector<int64_t> all;
  for (int64_t s = 1; s <= 40; ++s) all.push_back(s);
  std::mt19937 draw(3);
  for (int64_t s : {63,  64,  65,  66,  127, 128, 129, 130, 192, 193, 256,
                    257, 320, 321, 385, 449, 512, 513, 514, 577, 600})
    all.push_back(s);
  for (int k = 0; k < 40; ++k) all.push_back(41 + static_cast<int64_t>(draw() % 560));
  std::shuffle(all.begin(), all.end(), draw);
  return all;
}

class FamilyPrograms : public testing::TestWithParam<size_t> {};

TEST_P(FamilyPrograms, EveryLengthOnceIsAsEager) {
  const at::NoGradGuard no_grad;
  const FamilyProgram program = family_programs()[GetParam()];
  auto plain = [&](const Tensors& t) { return program.run(t); };
  auto compiled = compile(plain, family(program.name));
  for (int64_t s : {45, 330, 100}) compiled(program.make(s));
  for (int64_t s : lengths()) {
    const Tensors arguments = program.make(s), mine = copies(arguments);
    const Tensors eager = program.run(arguments), got = compiled(mine);
    expect_like(eager, got, program.tolerance, "at " + std::to_string(s));
    expect_like(arguments, mine, program.tolerance, "arguments at " + std::to_string(s));
  }
  const Report report = compiled.report();
  EXPECT_GE(report.family_calls, 30) << report.text();
}

/// A decoder whose caller made room before: each call sees one row more of it, and writes that.
TEST(Families, ViewsOfACacheGrow) {
  const at::NoGradGuard no_grad;
  const auto step = [](const Tensors& t) {
    Tensor keys = t[1];
    keys.index_copy_(1, t[2], t[0]);
    return Tensors{at::matmul(at::softmax(at::matmul(t[0], keys.transpose(1, 2)), -1), keys)};
  };
  auto compiled = compile(std::function<Tensors(const Tensors&)>(step), family());
  Tensor theirs = random({4, 300, 16}), mine = theirs.clone();
  for (int64_t s = 20; s < 300; ++s) {
    const Tensor row = random({4, 1, 16}), place = at::full({1}, s, at::kLong);
    const Tensors eager = step({row, theirs.narrow(1, 0, s + 1), place}),
                  got = compiled(Tensors{row, mine.narrow(1, 0, s + 1), place});
    expect_like(eager, got, 1e-4, "at " + std::to_string(s));
    ASSERT_TRUE(at::equal(theirs, mine)) << s;
  }
  EXPECT_EQ(compiled.report().records, 3) << compiled.report().text();
  EXPECT_GE(compiled.report().family_calls, 250) << compiled.report().text();
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyPrograms,
                         testing::Range(size_t{0}, family_programs().size()), [](const auto& info) {
                           std::string name = family_programs()[info.param].name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

Tensor doubled(const Tensor& x) {
  return x * 2 + 1;
}

TEST(Families, ThreeLayoutsMakeOne) {
  auto f = compile(doubled, family("doubled"));
  for (int64_t s : {50, 60, 75}) f(random({s, 8}));
  EXPECT_EQ(f.report().records, 3);
  for (int64_t s : {51, 52, 53, 54}) {
    const Tensor x = random({s, 8});
    EXPECT_TRUE(at::equal(f(x), doubled(x)));
  }
  const Report report = f.report();
  EXPECT_EQ(report.records, 3);
  EXPECT_EQ(report.family_calls, 3) << report.text();  // the first one proves
  EXPECT_NE(report.text().find("s is argument 0: size 0"), std::string::npos) << report.text();
}

TEST(Families, PerLayoutIsTheDefault) {
  auto f = compile(doubled, at_once());
  for (int64_t s = 50; s < 60; ++s) f(random({s, 8}));
  EXPECT_EQ(f.report().records, 10);
  EXPECT_EQ(f.report().family_calls, 0);
}

TEST(Families, TwoFreeSizes) {
  auto run = [](const Tensor& x) { return at::softmax(x * 2, -1).sum(1); };
  auto f = compile(run, family());
  for (auto [b, s] : {std::pair{4, 50}, {6, 61}, {4, 70}, {9, 81}}) f(random({b, s, 16}));
  for (auto [b, s] : {std::pair{5, 51}, {5, 53}, {7, 90}, {21, 33}, {30, 100}, {22, 64}, {4, 66}})
    for (int k = 0; k < 2; ++k) {
      const Tensor x = random({b, s, 16});
      EXPECT_TRUE(at::allclose(f(x), run(x), 1e-4, 1e-5)) << b << " " << s;
    }
  EXPECT_GT(f.report().family_calls, 0) << f.report().text();
}

/// Recorded, its products are ATen's, with eager's bits; of more columns a kernel's.
TEST(Families, ProductsThatBecomeLoops) {
  auto run = [](const Tensor& x, const Tensor& w) { return at::relu(at::mm(x, w)); };
  auto f = compile(run, family());
  const Tensor x = random({64, 300}).to(at::kHalf);
  for (int64_t s : {9, 9, 11, 11, 13, 13, 50, 50, 60, 70, 90, 90, 12}) {
    const Tensor w = random({300, s}).to(at::kHalf),
                 exact = run(x.to(at::kDouble), w.to(at::kDouble));
    const Tensor error = (f(x, w).to(at::kDouble) - exact).abs();
    EXPECT_TRUE((error <= 0x1p-11 * exact.abs() * 1.01 + 1e-4).all().item<bool>()) << s;
  }
  const Report report = f.report();
  EXPECT_GT(report.family_calls, 0) << report.text();
  EXPECT_EQ(report.text().find("given up"), std::string::npos) << report.text();
}

TEST(Families, WholeNumbersAmongArguments) {
  auto run = [](const Tensor& cache, const Tensor& row, int64_t at) {
    cache.narrow(1, at, 1).copy_(row);
    return cache.narrow(1, 0, at + 1).mean(1) * 2;
  };
  const at::NoGradGuard no_grad;
  Tensor mine = at::zeros({2, 64, 8}), theirs = at::zeros({2, 64, 8});
  auto f = compile(run, family());
  for (int64_t at = 2; at < 60; ++at) {
    const Tensor row = random({2, 1, 8});
    ASSERT_TRUE(at::allclose(f(mine, row, at), run(theirs, row, at), 1e-5, 1e-6)) << at;
    ASSERT_TRUE(at::equal(mine, theirs)) << at;
  }
  EXPECT_GT(f.report().family_calls, 20) << f.report().text();
}

TEST(Families, ACacheThatGrows) {
  const at::NoGradGuard no_grad;
  auto step = [](const Tensor& cache, const Tensor& x) {
    Tensor all = at::cat({cache, x}, 1);
    Tensor mixed = at::matmul(at::softmax(at::matmul(x, all.transpose(1, 2)) * 0.2, -1), all);
    return std::vector<Tensor>{mixed, all};
  };
  auto f = compile(step, family("cache"));
  Tensor mine = random({2, 1, 16}), theirs = mine.clone();
  for (int k = 0; k < 150; ++k) {
    const Tensor x = random({2, 1, 16});
    auto a = f(mine, x), b = step(theirs, x);
    ASSERT_TRUE(at::allclose(a[0], b[0], 1e-4, 1e-5)) << k;
    ASSERT_TRUE(at::equal(a[1], b[1])) << k;
    mine = a[1], theirs = b[1];
  }
  EXPECT_GT(f.report().family_calls, 100) << f.report().text();
  EXPECT_LE(f.report().plans, 64);
}

TEST(Families, LoopsOverALengthStayPerLayout) {
  auto run = [](const Tensor& x) {
    Tensor sum = x[0];
    for (int64_t i = 1; i < x.size(0); ++i) sum = sum * 0.5 + x[i];
    return sum;
  };
  auto f = compile(run, family("loop"));
  for (int64_t s = 3; s < 9; ++s) {
    const Tensor x = random({s, 4});
    EXPECT_TRUE(at::allclose(f(x), run(x)));
  }
  EXPECT_EQ(f.report().family_calls, 0);
  EXPECT_NE(f.report().text().find("did something else at other sizes"), std::string::npos)
      << f.report().text();
}

TEST(Families, ABranchOnASizeIsFoundByTheProof) {
  auto run = [](const Tensor& x) { return x.size(0) > 100 ? x * 3 : x * 2; };
  auto f = compile(run, family("branch"));
  for (int64_t s : {50, 60, 75, 80, 81, 82}) f(random({s, 4}));
  EXPECT_GT(f.report().family_calls, 0);
  for (int64_t s : {200, 201, 210, 83, 300}) {
    const Tensor x = random({s, 4});
    EXPECT_TRUE(at::equal(f(x), run(x))) << s;
  }
  EXPECT_NE(f.report().text().find("given up"), std::string::npos) << f.report().text();
}

/// ATen clamps slices to their tensors, and searches in steps: what it compares sizes with bounds
/// a family.
TEST(Families, EndWhereATenWorksOtherwise) {
  const std::vector<std::function<Tensor(const Tensor&)>> functions{
      [](const Tensor& x) { return x.slice(0, 0, 100) * 2; },
      [](const Tensor& x) { return x.slice(0, -100) * 2; },
      [](const Tensor& x) { return x.slice(0, 80).sum(0); },
      [](const Tensor& x) { return x.clone().slice(0, 0, 100).mul_(2); },
      [](const Tensor& x) { return x.split(100).back() + 1; },
      [](const Tensor& x) { return x.var({0}, c10::Scalar(90)); },
      [](const Tensor& x) { return x.roll(100, 0) * 2; },
      [](const Tensor& x) { return x.t().diagonal(3) * 2 + x.narrow(0, 0, 1).sum(); },
      [](const Tensor& x) {
        return at::cdist(x.narrow(1, 0, 3), x.narrow(0, 0, 20).narrow(1, 0, 3));
      },
      [](const Tensor& x) {
        return at::bucketize(at::arange(0, 3, 0.1), std::get<0>(x.reshape({-1}).sort()));
      },
  };
  for (size_t k = 0; k < functions.size(); ++k) {
    const auto& run = functions[k];
    auto f = compile(run, family("bounded"));
    for (int64_t s = 66; s < 128; ++s) {
      const Tensor x = random({s, 110});
      EXPECT_TRUE(at::allclose(f(x), run(x), 1e-4, 1e-4, true)) << k << " at " << s;
    }
  }
}

/// ATen sorts few elements in another way than many: the order of equal ones shows it.
TEST(Families, EndWhereATenSortsOtherwise) {
  auto run = [](const Tensor& x) { return std::get<1>(x.sort(0)); };
  auto f = compile(run, family("sorted"));
  for (int64_t s : {5, 9, 12, 13, 14, 18, 20, 25, 30}) {
    const Tensor x = at::randint(3, {s, 4}, at::kFloat);
    EXPECT_TRUE(at::equal(f(x), run(x))) << s;
  }
}

/// Numbers that follow the sizes are formulas only where their values are exact.
TEST(Families, RoundedNumbersStayPerLayout) {
  const std::vector<std::function<Tensor(const Tensor&)>> functions{
      [](const Tensor& x) { return x + x.size(0); },
      [](const Tensor& x) { return x + (static_cast<double>(x.size(0)) + 0.5); },
      [](const Tensor& x) { return x.clamp_max(x.size(0)); },
      [](const Tensor& x) { return x.clamp(c10::nullopt, x.size(0) - 512); },
  };
  for (at::ScalarType type : {at::kBFloat16, at::kHalf, at::kByte})
    for (size_t k = 0; k < functions.size(); ++k) {
      if (type == at::kByte && k > 0) continue;  // eager refuses
      const auto& run = functions[k];
      auto f = compile(run, family("rounded"));
      for (int64_t s = 519; s < 560; s += s < 530 ? 1 : 7) {
        const Tensor x = (random({s, 2}) * 100).to(type);
        EXPECT_TRUE(at::equal(f(x), run(x))) << k << ' ' << type << " at " << s;
      }
      EXPECT_EQ(f.report().family_calls, 0) << k << ' ' << type;
    }
}

/// Halves of a size, and comparisons with one, are formulas like others.
TEST(Families, HalvesAndComparisonsAreServed) {
  const std::vector<std::function<Tensor(const Tensor&)>> functions{
      [](const Tensor& x) {
        const auto parts = x.chunk(2, 0);
        return parts[0] * parts[1];
      },
      [](const Tensor& x) { return x.roll(x.size(0) / 2, 0) + x; },
      [](const Tensor& x) {
        return x.masked_fill(at::arange(x.size(0)).lt(x.size(0) - 3).unsqueeze(1), 0);
      },
  };
  for (size_t k = 0; k < functions.size(); ++k) {
    const auto& run = functions[k];
    auto f = compile(run, family("halves"));
    for (int64_t s = 160; s < 480; s += 16) {
      const Tensor x = random({s, 8});
      EXPECT_TRUE(at::equal(f(x), run(x))) << k << " at " << s;
    }
    EXPECT_GT(f.report().family_calls, 0) << k << f.report().text();
  }
}

TEST(Families, ReplacedParametersAreSeen) {
  struct Model {
    Tensor weight = random({8});
  };
  auto model = std::make_shared<Model>();
  auto run = [model](const Tensor& x) { return x * model->weight; };
  auto f = compile(run, family());
  for (int64_t s : {50, 60, 75, 80, 81}) f(random({s, 8}));
  EXPECT_GT(f.report().family_calls, 0);
  model->weight = random({8});
  for (int64_t s = 82; s < 100; ++s) {
    const Tensor x = random({s, 8});
    EXPECT_TRUE(at::equal(f(x), run(x))) << s;
  }
}

TEST(Families, OverlapsAreAnotherKind) {
  auto run = [](const Tensor& a, const Tensor& b) {
    Tensor x = a;
    x.add_(1);
    return a * b;
  };
  auto f = compile(run, family());
  const at::NoGradGuard no_grad;
  for (int64_t s : {50, 60, 75, 80, 81, 82}) f(random({s}), random({s}));
  for (int64_t s : {51, 61, 76, 85, 86, 87, 88}) {
    const Tensor base = random({2 * s}), other = base.clone();
    EXPECT_TRUE(at::equal(f(base.narrow(0, 0, s), base.narrow(0, 5, s)),
                          run(other.narrow(0, 0, s), other.narrow(0, 5, s))));
    EXPECT_TRUE(at::equal(base, other));
  }
}

TEST(Families, ManyThreads) {
  Options options;
  options.sizes = graft::Sizes::Family;
  auto f = compile(doubled, options);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t k = 0; k < 150; ++k) {
        const Tensor x = at::full({20 + (k * 7 + t * 31) % 400, 8}, static_cast<double>(k));
        if (!at::equal(f(x), doubled(x))) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace graft::test
