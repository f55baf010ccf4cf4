// Matrix products that kernels compute with what stands around them: attention written out, in all
// its forms, and products with epilogues. Sizes are such that scores leave the second cache.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>

#include "codegen/backend.h"
#include "helpers.h"

namespace graft {
namespace {

using test::Tensors;
using Many = std::function<Tensors(const Tensors&)>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor normal(at::IntArrayRef sizes, int call) {
  at::manual_seed(static_cast<uint64_t>(11 * call + sizes.back()));
  return at::randn(sizes);
}

/// Is there a kernel with a product in it?
bool has_product(const std::string& explained) {
  return explained.find("  product") != std::string::npos;
}

/// Calls on other data give eager's results, but for the order of sums; NaN where eager has NaN.
/// `sure`: a kernel computes the products on every machine. `relative`: what the order may change.
void expect_products(const Many& f, const std::function<Tensors(int)>& arguments, bool sure = true,
                     double relative = 1e-4) {
  auto compiled = compile(f, test::at_once());
  for (int call = 0; call < 4; ++call) {
    Tensors plain = arguments(call), given;
    for (const at::Tensor& t : plain)
      given.push_back(at::empty_strided(t.sizes(), t.strides(), t.options()).copy_(t));
    const Tensors expected = f(plain), came = compiled(given);
    plain.insert(plain.end(), expected.begin(), expected.end());
    given.insert(given.end(), came.begin(), came.end());
    for (size_t k = 0; k < plain.size(); ++k)
      EXPECT_EQ(test::far_from(plain[k], given[k], relative, relative / 10), "")
          << "call " << call << ", tensor " << k;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
  if (sure) {
    EXPECT_TRUE(has_product(compiled.explain())) << compiled.explain();
  }
}

/// q, k, v
Tensors heads(at::IntArrayRef batch, int64_t queries, int64_t keys, int64_t size, int call) {
  auto sizes = [&](int64_t length) {
    std::vector<int64_t> all = batch.vec();
    all.insert(all.end(), {length, size});
    return all;
  };
  return {normal(sizes(queries), call), normal(sizes(keys), call + 20),
          normal(sizes(keys), call + 40)};
}

at::Tensor scores(const Tensors& t) {
  return at::matmul(t[0], t[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(t[0].size(-1)));
}

TEST(Products, AttentionAtManySizes) {
  const Many attention = [](const Tensors& t) {
    return Tensors{at::matmul(at::softmax(scores(t), -1), t[2])};
  };
  for (auto [queries, keys, size] : {std::array<int64_t, 3>{300, 301, 40},
                                     {256, 640, 64},
                                     {1000, 333, 17},
                                     {97, 1100, 33},
                                     {24, 2500, 8}})
    expect_products(attention, [&](int call) { return heads({2, 5}, queries, keys, size, call); });
}

/// In 16 bits, rounded where eager rounds: 1 ulp apart where a sum lies near the middle of two.
TEST(Products, AttentionInShortNumbers) {
  const Many causal = [](const Tensors& t) {
    const int64_t queries = t[0].size(-2), keys = t[1].size(-2);
    const at::Tensor later = at::ones({queries, keys}, at::kBool).triu(1);
    return Tensors{at::matmul(at::softmax(scores(t).masked_fill(later, -kInfinity), -1), t[2])};
  };
  for (c10::ScalarType type : {at::kBFloat16, at::kHalf})
    for (auto [queries, keys, size] : {std::array<int64_t, 3>{600, 600, 64}, {700, 333, 17}}) {
      const auto arguments = [&](int call) {
        Tensors all = heads({2, 5}, queries, keys, size, call);
        for (at::Tensor& t : all) t = t.to(type);
        return all;
      };
      expect_products(causal, arguments, true, 0.05);
      auto compiled = compile(causal, test::at_once());
      for (int call = 0; call < 4; ++call) {
        const Tensors given = arguments(call);
        Tensors exact;
        for (const at::Tensor& t : given) exact.push_back(t.to(at::kDouble));
        const auto error = [&](const at::Tensor& came) {
          return (came.to(at::kDouble) - causal(exact)[0]).square().mean().sqrt().item<double>();
        };
        EXPECT_LT(error(compiled(given)[0]), 1.02 * error(causal(given)[0]));
      }
    }
}

TEST(Products, AttentionWithMasks) {
  // Causal, as data; its first rows see one key, the rest more.
  expect_products(
      [](const Tensors& t) {
        const at::Tensor later = at::ones({400, 400}, at::kBool).triu(1);
        return Tensors{at::matmul(at::softmax(scores(t).masked_fill(later, -kInfinity), -1), t[2])};
      },
      [](int call) { return heads({2, 3}, 400, 400, 32, call); });
  // A window by arithmetic of indices, and a distance bias.
  expect_products(
      [](const Tensors& t) {
        const at::Tensor place = at::arange(400), apart = place.unsqueeze(1) - place;
        const at::Tensor biased = scores(t) - apart.abs() * 0.01;
        const at::Tensor seen = at::where(apart.abs() < 50, biased, at::full({}, -kInfinity));
        return Tensors{at::matmul(at::softmax(seen, -1), t[2])};
      },
      [](int call) { return heads({6}, 400, 400, 32, call); });
  // A bias that is given; a row of it is all -infinity: eager's NaN.
  expect_products(
      [](const Tensors& t) { return Tensors{at::matmul(at::softmax(scores(t) + t[3], -1), t[2])}; },
      [](int call) {
        Tensors all = heads({2, 2}, 350, 400, 24, call);
        all.push_back(normal({350, 400}, call));
        all.back()[7].fill_(-kInfinity);
        return all;
      });
}

/// Columns of scores that a mask leaves out are not computed, nor are blocks of probabilities that
/// are zero. What is not finite there is eager's all the same: behind a mask it is not seen, and
/// zero times it is NaN.
TEST(Products, WhatMasksLeaveOut) {
  const int64_t length = 700;
  const at::Tensor place = at::arange(length), apart = place.unsqueeze(1) - place,
                   part = place.div(150, "floor");
  const std::vector<std::pair<const char*, at::Tensor>> masks{
      {"causal", apart >= 0},
      {"window", at::logical_and(apart >= 0, apart < 90)},
      {"documents", at::eq(part.unsqueeze(1), part)},
      {"documents, causal", at::logical_and(at::eq(part.unsqueeze(1), part), apart >= 0)},
      {"none in some rows", at::logical_and(apart >= 200, apart < 230)},
      {"none", apart > length},
      {"by head", at::stack({apart >= 0, apart.abs() < 40, part.unsqueeze(1) == part})}};
  const std::vector<std::pair<const char*, Many>> programs{
      {"masked_fill",
       [](const Tensors& t) {
         const at::Tensor seen = scores(t).masked_fill(t[3].logical_not(), -kInfinity);
         return Tensors{at::matmul(at::softmax(seen, -1), t[2])};
       }},
      {"where",
       [](const Tensors& t) {
         const at::Tensor seen = at::where(t[3], at::tanh(scores(t)), at::full({}, -1e30));
         return Tensors{at::matmul(at::softmax(seen, -1), t[2])};
       }},
      {"columns in another order",
       [](const Tensors& t) {
         const int64_t batch = t[0].size(0), length = t[0].size(1);
         const at::Tensor seen = scores(t).masked_fill(t[3].logical_not(), -kInfinity);
         const at::Tensor turned =
             seen.view({batch, length, 20, length / 20}).transpose(2, 3).reshape(seen.sizes());
         return Tensors{at::matmul(at::softmax(turned, -1), t[2])};
       }},
      {"a sum that is never zero",
       [](const Tensors& t) {
         const at::Tensor seen = scores(t).masked_fill(t[3].logical_not(), -kInfinity);
         const at::Tensor each = at::exp(seen - seen.amax(-1, true)), sum = each.sum(-1, true);
         const at::Tensor safe = at::where(at::logical_or(sum.isnan(), sum == 0), 1, sum);
         return Tensors{at::matmul(each * safe.reciprocal(), t[2])};
       }},
      {"a column by itself",  // of what the mask leaves out, perhaps
       [](const Tensors& t) {
         const at::Tensor kept = at::where(t[3], scores(t) * 0.02, 0.);
         const at::Tensor less = at::where(t[3], kept - kept.narrow(-1, 0, 1), 0.);
         return Tensors{at::matmul(less, t[2])};
       }},
      {"backwards",
       [](const Tensors& t) {
         const at::Tensor kept = at::where(t[3], scores(t) * 0.02, 0.);
         const at::Tensor both = at::where(t[3], kept * kept.flip(-1), 0.);
         return Tensors{at::matmul(both, t[2])};
       }},
      {"two masks",
       [](const Tensors& t) {
         const at::Tensor one = scores(t).masked_fill(t[3].logical_not(), -kInfinity);
         const at::Tensor shares = at::softmax(one, -1), other = t[3].roll(31, -1);
         const at::Tensor second =
             at::where(other, at::matmul(t[1], t[0].transpose(-2, -1)) * 0.01, 0.);
         return Tensors{at::matmul(at::where(other, shares, 0.) + second, t[2])};
       }},
      {"scores are kept",
       [](const Tensors& t) {
         const at::Tensor all = scores(t);
         const at::Tensor seen = all.masked_fill(t[3].logical_not(), -kInfinity);
         return Tensors{at::matmul(at::softmax(seen, -1), t[2]), all.amax(-1)};
       }},
      {"in place", [](const Tensors& t) {
         at::Tensor seen = at::matmul(t[0], t[1].transpose(-2, -1));
         seen.mul_(0.2).masked_fill_(t[3].logical_not(), -kInfinity);
         return Tensors{at::matmul(at::softmax(seen, -1), t[2])};
       }}};

  for (const auto& [mask_name, mask] : masks)
    for (const auto& [name, program] : programs)
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        if (type != at::kFloat && name != programs.front().first) continue;
        SCOPED_TRACE(std::string(mask_name) + ", " + name);
        expect_products(
            program,
            [&, mask = mask](int call) {
              // oneDNN's tiles (AMX) read past rows whose bytes are no multiple of 64, and what is
              // infinite there is NaN in eager: key 20's number in key 19's products.
              const int64_t rows = type == at::kFloat ? length : 640;
              Tensors all = heads({3}, rows, rows, type == at::kFloat ? 24 : 32, call);
              for (at::Tensor& t : all) t = t.to(type);
              all.push_back(mask.slice(-2, 0, rows).slice(-1, 0, rows));
              if (call == 1) all[1][1][600].fill_(NAN);  // a key
              if (call == 2) {
                all[2][0][630][3] = kInfinity;                     // a value
                all[0][1][333].fill_(NAN), all[0][0][7][2] = NAN;  // queries
              }
              if (call == 3) all[2][2][300][0] = NAN, all[1][0][20][0] = -kInfinity;
              return all;
            },
            type == at::kFloat, type == at::kFloat ? 1e-4 : 0.05);
      }
}

/// The bytes that say which columns are needed, where the mask is a formula.
TEST(Products, ComputeTheColumnsThatMasksLeave) {
  const Many causal = [](const Tensors& t) {
    const at::Tensor later = at::ones({640, 640}, at::kBool).triu(1);
    return Tensors{at::matmul(at::softmax(scores(t).masked_fill(later, -kInfinity), -1), t[2])};
  };
  auto compiled = compile(causal, test::at_once());
  test::warm_up(compiled, heads({4}, 640, 640, 32, 1));
  const std::string explained = compiled.explain();
  EXPECT_NE(explained.find("product where %"), std::string::npos) << explained;
  // Three loops over the row: the largest, exp and its sum, the shares.
  size_t quiet = 0;
  for (size_t at = explained.find("quiet outside %"); at != std::string::npos;
       at = explained.find("quiet outside %", at + 1))
    ++quiet;
  EXPECT_GE(quiet, 3U) << explained;
  // The one of exp, which asks whether the largest is finite, is among them.
  std::istringstream lines(explained);
  bool exp_is_quiet = false;
  for (std::string line; std::getline(lines, line);)
    exp_is_quiet = exp_is_quiet || (line.find("NearExp(") != std::string::npos &&
                                    line.find("quiet outside %") != std::string::npos);
  EXPECT_TRUE(exp_is_quiet) << explained;
  // What lies outside is stored late, and left out of the second product; the mask, the same for
  // all heads, is looked at in front.
  EXPECT_NE(explained.find(", deferred"), std::string::npos) << explained;
  EXPECT_NE(explained.find("product zero outside %"), std::string::npos) << explained;
  EXPECT_NE(explained.find("or_min_max"), std::string::npos) << explained;
}

TEST(Products, HeadsThatShareKeys) {
  expect_products(
      [](const Tensors& t) {
        const Tensors shared{t[0], t[1].unsqueeze(2).expand({2, 2, 4, 300, 32}),
                             t[2].unsqueeze(2).expand({2, 2, 4, 300, 32})};
        return Tensors{at::matmul(at::softmax(scores(shared), -1), shared[2])};
      },
      [](int call) {
        return Tensors{normal({2, 2, 4, 300, 32}, call), normal({2, 2, 300, 32}, call + 20),
                       normal({2, 2, 300, 32}, call + 40)};
      });
}

/// Heads as slices of one projection: rows lie apart.
TEST(Products, AttentionOverViewsOfOneTensor) {
  expect_products(
      [](const Tensors& t) {
        const at::Tensor parts = t[0].view({2, 320, 3, 4, 32}).permute({2, 0, 3, 1, 4});
        const Tensors all{parts[0], parts[1], parts[2]};
        const at::Tensor mixed = at::matmul(at::softmax(scores(all), -1), all[2]);
        return Tensors{mixed.transpose(1, 2).reshape({2, 320, 128})};
      },
      [](int call) { return Tensors{normal({2, 320, 384}, call)}; });
}

TEST(Products, EpiloguesOfOneProduct) {
  const auto arguments = [](int call) {
    return Tensors{normal({900, 24}, call), normal({24, 700}, call + 20), normal({900}, call + 40)};
  };
  expect_products(
      [](const Tensors& t) { return Tensors{at::gelu(at::mm(t[0], t[1])) * t[2].unsqueeze(1)}; },
      arguments);
  expect_products(
      [](const Tensors& t) {  // the product itself is a result, too
        const at::Tensor product = at::mm(t[0], t[1]);
        return Tensors{product, at::tanh(product).sum(1)};
      },
      arguments);
  expect_products(
      [](const Tensors& t) {  // its operand is changed afterwards
        const at::Tensor kept = at::sigmoid(at::mm(t[0], t[1])).amax(1);
        t[0].mul_(2);
        return Tensors{kept + t[0].select(1, 0)};
      },
      arguments);
}

/// Linear layers with what stands around them: biases, weights whose rows lie along the terms, long
/// rows in tiles of columns, chains of layers, and sizes beside every border. Whether a kernel is
/// worth it depends on the machine; with AVX-512 it is.
TEST(Products, LinearLayers) {
  const auto layer = [](int64_t rows, int64_t terms, int64_t columns) {
    return [=](int call) {
      return Tensors{normal({rows, terms}, call), normal({columns, terms}, call + 20),
                     normal({columns}, call + 40), normal({rows, columns}, call + 60)};
    };
  };
  const Many gelu = [](const Tensors& t) {
    return Tensors{at::gelu(at::linear(t[0], t[1], t[2])) + t[3]};
  };
  const Many normed = [](const Tensors& t) {
    const at::Tensor sum = at::linear(t[0], t[1], t[2]) + t[3];
    return Tensors{at::layer_norm(sum, {sum.size(1)}), sum};
  };
  for (auto [rows, terms, columns] : {std::array<int64_t, 3>{4000, 48, 640},
                                      {3001, 40, 1030},
                                      {4096, 129, 1536},
                                      {2500, 16, 31 * 32}}) {
    expect_products(gelu, layer(rows, terms, columns), /*sure=*/false);
    expect_products(normed, layer(rows, terms, columns), /*sure=*/false);
  }
  // The gradients' products: rows that lie side by side, columns that do.
  expect_products(
      [](const Tensors& t) {
        return Tensors{at::relu(at::mm(t[0].t(), t[1])) * 0.5, at::mm(t[1], t[2]) + t[0]};
      },
      [](int call) {
        return Tensors{normal({1500, 1100}, call), normal({1500, 900}, call + 20) * 0.02,
                       normal({900, 1100}, call + 40)};
      },
      /*sure=*/false);
  // Two layers and what is between them; a bias for each element; one that is given as a row.
  expect_products(
      [](const Tensors& t) {
        const at::Tensor h = at::silu(at::addmm(t[3].narrow(1, 0, 64), t[0], t[1].t()));
        return Tensors{at::addmm(t[2], h, t[4]).tanh() * t[3]};
      },
      [=](int call) {
        return Tensors{normal({4500, 32}, call), normal({64, 32}, call + 20),
                       normal({1, 200}, call + 40), normal({4500, 200}, call + 60),
                       normal({64, 200}, call + 80)};
      },
      /*sure=*/false);
}

/// Products among what changes them, reads them twice, reduces them along either axis, or writes
/// their operands. Whether a kernel takes a product is left open.
Tensors random_chain(const Tensors& t, uint64_t seed) {
  std::mt19937_64 draw(seed);
  auto one_of = [&](uint64_t count) { return draw() % count; };
  at::Tensor x = at::matmul(t[0], one_of(2) ? t[1].transpose(-2, -1) : t[2]);
  Tensors out;
  const uint64_t steps = 1 + one_of(4);
  for (uint64_t step = 0; step < steps; ++step) switch (one_of(14)) {
      case 0:
        x = at::softmax(x * 0.3, -1);
        break;
      case 1:
        x = at::softmax(x * 0.2, -2);
        break;
      case 2:
        x = at::tanh(x) + x;
        break;
      case 3:
        x.mul_(0.5);
        break;
      case 4:
        out.push_back(x.sum(-2));
        break;
      case 5:
        x = x - x.mean(-1, true);
        break;
      case 6:
        out.push_back(x.amax(-1));
        break;
      case 7:
        t[0].mul_(0.5);  // an operand
        break;
      case 8:
        x.select(-2, static_cast<int64_t>(one_of(8))).fill_(1);
        break;
      case 9:
        x = x.masked_fill(x > 2, -1);
        break;
      case 11:
        x = x.masked_fill(at::ones(x.sizes().slice(1), at::kBool).triu(7), -kInfinity);
        break;
      case 12:
        x = at::where(at::arange(x.size(-1)) % 150 < 60, x, at::zeros({}));
        break;
      case 10:
        out.push_back(x);
        x = at::sigmoid(x);
        break;
      default:
        x = x.transpose(-2, -1).contiguous().transpose(-2, -1) * 2;
    }
  if (one_of(3) > 0) x = at::matmul(one_of(2) ? x : x.clone(), t[3]) * 0.1;
  if (one_of(3) == 0) t[3].add_(0.25);
  if (one_of(4) == 0) x = x.sum(-1, true) + x;
  out.push_back(x);
  return out;
}

TEST(Products, InRandomPrograms) {
  int with_product = 0;
  const char* const many = std::getenv("GRAFT_PRODUCTS");
  for (uint64_t seed = 1; seed <= (many ? std::strtoull(many, nullptr, 10) : 30); ++seed) {
    std::mt19937_64 draw(seed * 77);
    auto between = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(draw() % static_cast<uint64_t>(high - low));
    };
    const int64_t batch = between(1, 7), rows = between(16, 500), columns = between(200, 700),
                  terms = between(9, 70);
    auto arguments = [&](int call) {
      return Tensors{normal({batch, rows, terms}, call), normal({batch, columns, terms}, call + 20),
                     normal({batch, terms, columns}, call + 40),
                     normal({batch, columns, between(16, 17)}, call + 60)};
    };
    auto compiled =
        compile([seed](const Tensors& t) { return random_chain(t, seed); }, test::at_once());
    for (int call = 0; call < 3; ++call) {
      Tensors plain = arguments(call), given;
      for (const at::Tensor& tensor : plain) given.push_back(tensor.clone());
      const Tensors expected = random_chain(plain, seed), came = compiled(given);
      plain.insert(plain.end(), expected.begin(), expected.end());
      given.insert(given.end(), came.begin(), came.end());
      for (size_t k = 0; k < plain.size(); ++k)
        EXPECT_TRUE(at::allclose(plain[k], given[k], 1e-3, 1e-3, true))
            << "seed " << seed << ", call " << call << ", tensor " << k;
    }
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << seed << compiled.explain();
    with_product += has_product(compiled.explain());
  }
  EXPECT_GE(with_product, 5);
}

TEST(Products, HaveTheSameBitsForAnyNumberOfThreads) {
  const Many attention = [](const Tensors& t) {
    return Tensors{at::matmul(at::softmax(scores(t), -1), t[2])};
  };
  const Tensors t = heads({7}, 333, 500, 40, 1);
  const int before = at::get_num_threads();
  at::Tensor first;
  for (int threads : {1, 2, 7}) {
    at::set_num_threads(threads);
    auto compiled = compile(attention, test::at_once());
    test::warm_up(compiled, t);
    const at::Tensor came = compiled(t)[0];
    if (first.defined())
      EXPECT_EQ(test::difference(first, came), "") << threads << " threads";
    else
      first = came;
  }
  at::set_num_threads(before);
}

/// One to four rows, or columns, beside a large operand: sums, with what makes the operand in them.
TEST(Products, OfFewRows) {
  for (int64_t rows : {1, 2, 3, 4}) {
    const auto expect = [&](const Many& f, const std::function<Tensors(int)>& arguments) {
      expect_products(f, arguments, /*sure=*/false);
      auto compiled = compile(f, test::at_once());
      compiled(arguments(0));
      const std::string explained = compiled.explain();
      EXPECT_TRUE(explained.find("sum.f32") != std::string::npos) << explained;
      EXPECT_FALSE(has_product(explained)) << explained;
    };
    const auto arguments = [&](int64_t terms, int64_t columns) {
      return [=](int call) {
        return Tensors{normal({rows, terms}, call), normal({columns, terms}, call + 20),
                       normal({columns}, call + 40)};
      };
    };
    expect([](const Tensors& t) { return Tensors{at::linear(t[0], t[1], t[2])}; },
           arguments(301, 200));
    expect([](const Tensors& t) { return Tensors{at::mm(t[0], t[1].t().contiguous())}; },
           arguments(130, 303));
    expect([](const Tensors& t) { return Tensors{at::mm(t[1], t[0].t()).relu()}; },
           arguments(513, 100));
    expect(
        [](const Tensors& t) {
          return Tensors{at::gelu(at::linear(at::tanh(t[0]), t[1] * t[2].unsqueeze(1)))};
        },
        arguments(257, 150));
    expect(  // codes of four bits in groups of 64, each with its scale
        [rows](const Tensors& t) {
          const at::Tensor codes = t[1].mul(40).to(at::kByte).view({120, 10, 32});
          const at::Tensor both =
              at::cat({codes.bitwise_and(15), codes.bitwise_right_shift(4)}, -1).to(at::kFloat);
          const at::Tensor scale = t[2].view({120, 10, 1});
          const at::Tensor x = at::cat({t[0], t[0] * 2}, 1);
          return Tensors{at::linear(x, ((both - 7) * scale).view({120, 640})).view({rows, 120})};
        },
        [&](int call) {
          return Tensors{normal({rows, 320}, call), normal({120, 320}, call + 20).abs(),
                         normal({1200}, call + 40)};
        });
  }
}

/// An operand that is one matrix for a whole batch: the batch's rows are no block of rows.
TEST(Products, OfFewRowsInABatchThatSharesAnOperand) {
  const auto arguments = [](int call) {
    return Tensors{normal({32, 1, 256}, call), normal({256, 200}, call + 20),
                   normal({32, 256, 1}, call + 40), normal({200, 256}, call + 60)};
  };
  expect_products(
      [](const Tensors& t) { return Tensors{at::bmm(t[0], t[1].expand({32, 256, 200}))}; },
      arguments, false);
  expect_products(
      [](const Tensors& t) { return Tensors{at::bmm(t[0], t[1].expand({32, 256, 200})).relu()}; },
      arguments, false);
  expect_products(
      [](const Tensors& t) { return Tensors{at::bmm(t[3].expand({32, 200, 256}), t[2])}; },
      arguments, false);
  expect_products(  // one token, many heads, one key head
      [](const Tensors& t) {
        const at::Tensor q = t[0].view({1, 32, 1, 256}), k = t[3].view({1, 1, 200, 256});
        return Tensors{at::softmax(at::matmul(q, k.transpose(-2, -1)), -1)};
      },
      arguments, false);
}

/// ATen's loops for fp16, which no library takes, are far slower: these are kernels, also
/// with nothing beside them. One rounding, as eager's.
TEST(Products, InHalfPrecisionAlone) {
  if (codegen::host_target(1).half_instructions) GTEST_SKIP() << "oneDNN multiplies them here";
  const std::vector<std::array<int64_t, 3>> shapes{{64, 64, 64},   {2, 300, 40}, {9, 130, 33},
                                                   {200, 70, 257}, {33, 1, 64},  {1, 200, 90}};
  for (const auto& [rows, terms, columns] : shapes)
    for (const bool turned : {false, true}) {
      auto f = compile(
          [turned](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
            return Tensors{at::mm(x, turned ? w.t() : w), at::addmm(b, x, turned ? w.t() : w)};
          },
          test::at_once());
      for (int call = 0; call < 3; ++call) {
        const auto made = [&](at::IntArrayRef sizes) { return normal(sizes, call).to(at::kHalf); };
        const at::Tensor x = made({rows, terms}), b = made({columns}),
                         w = turned ? made({columns, terms}) : made({terms, columns});
        const Tensors came = f(x, w, b);
        const at::Tensor product = at::mm(x.to(at::kDouble), (turned ? w.t() : w).to(at::kDouble));
        const Tensors exact{product, product + b.to(at::kDouble)};
        for (size_t k = 0; k < came.size(); ++k) {
          const at::Tensor error = (came[k].to(at::kDouble) - exact[k]).abs();
          // Half a unit of fp16, and what fp32 loses of sums that cancel.
          EXPECT_TRUE((error <= 0x1p-11 * exact[k].abs() * 1.01 + 1e-5 * std::sqrt(terms))
                          .all()
                          .item<bool>())
              << rows << " x " << terms << " x " << columns << (turned ? " turned" : "");
        }
      }
      EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
    }
}

TEST(Products, WithEagersBitsWhereAskedFor) {
  Options options = test::at_once();
  options.matmul = Matmul::EagerBits;
  const Many attention = [](const Tensors& t) {
    return Tensors{at::matmul(at::mul(scores(t), 0.5), t[2])};
  };
  auto compiled = compile(attention, options);
  for (int call = 0; call < 4; ++call) {
    const Tensors t = heads({2, 5}, 300, 300, 40, call);
    EXPECT_EQ(test::difference(attention(t)[0], compiled(t)[0]), "");
  }
  EXPECT_FALSE(has_product(compiled.explain()));

  const Many row = [](const Tensors& t) { return Tensors{at::linear(t[0], t[1]).tanh()}; };
  auto compiled_row = compile(row, options);
  for (int call = 0; call < 4; ++call) {
    const Tensors t{normal({1, 300}, call), normal({200, 300}, call)};
    EXPECT_EQ(test::difference(row(t)[0], compiled_row(t)[0]), "");
  }
}

}  // namespace
}  // namespace graft
