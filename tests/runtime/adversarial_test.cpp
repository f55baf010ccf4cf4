// Programs that look for trouble: mutation through every kind of alias, views of all makes,
// containers, exceptions and threads, on arguments that overlap in all ways.
#include <ATen/Parallel.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "runtime/beside_eager.h"

namespace graft::test {
namespace {

constexpr bool kMayBreak = false;

const std::vector<SideProgram>& mutations() {
  static const std::vector<SideProgram> all{
      {"row into row",
       [](Tensors& a) {
         a[0][0].add_(a[0][1]);
         return Tensors{a[0].t(), a[0] + a[1]};
       }},
      {"through the transpose",
       [](Tensors& a) {
         a[0].t().mul_(2);
         return Tensors{a[0] + a[1]};
       }},
      {"swapped contents",
       [](Tensors& a) {
         auto kept = a[0].clone();
         a[0].copy_(a[1]);
         a[1].copy_(kept);
         return Tensors{};
       }},
      {"one element",
       [](Tensors& a) {
         auto flat = a[0].reshape({-1});
         flat[3].fill_(7);
         return Tensors{flat, a[1] + 1};
       }},
      {"masked through a view",
       [](Tensors& a) {
         a[0].t().masked_fill_(a[1] > 0.5, 3);
         return Tensors{};
       }},
      {"indices that meet",
       [](Tensors& a) {
         auto i = at::arange(4).remainder(2);
         a[0].index_put_({i}, a[1], /*accumulate=*/true);
         return Tensors{a[0].index({i})};
       }},
      {"a fresh view changed",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         auto z = y[0];
         z.add_(1);
         return Tensors{y, z};
       }},
      {"a part of a join changed",
       [](Tensors& a) {
         auto parts = at::cat({a[0], a[1]}).split(4);
         parts[0].narrow(0, 1, 2).mul_(3);
         return parts;
       }},
      {"out is an input",
       [](Tensors& a) {
         at::add_out(a[0], a[0], a[1]);
         at::mul_out(a[1], a[0], a[1].clone());
         return Tensors{a[0]};
       }},
      {"out that grows",
       [](Tensors& a) {
         auto y = at::empty({0});
         at::add_out(y, a[0], a[1]);
         return Tensors{y};
       }},
      {"contiguous is itself",
       [](Tensors& a) {
         auto y = a[0].contiguous();
         y.add_(1);
         return Tensors{y, y * a[1]};
       }},
      {"to the same dtype",
       [](Tensors& a) {
         auto y = a[0].to(at::kFloat);
         y.sub_(a[1].to(at::kFloat));
         return Tensors{y};
       }},
      {"diagonals",
       [](Tensors& a) {
         a[0].diagonal().fill_(0);
         auto y = a[0] * a[1];
         y.diagonal(1).add_(5);
         return Tensors{y.diagonal(), y};
       }},
      {"detached and changed",
       [](Tensors& a) {
         auto d = a[0].detach();
         d.add_(a[1]);
         return Tensors{d};
       }},
      {"data changed",
       [](Tensors& a) {
         a[0].variable_data().add_(a[1]);
         return Tensors{};
       }},
      {"overlapping copies",
       [](Tensors& a) {
         auto flat = a[1].clone().view({-1});
         flat.narrow(0, 0, 8).copy_(flat.narrow(0, 8, 8));
         return Tensors{flat, a[0] + 1};
       }},
      {"where into an input",
       [](Tensors& a) {
         at::where_out(a[0], a[0] > 0.5, a[1], a[0]);
         return Tensors{};
       }},
      {"ternary in place",
       [](Tensors& a) {
         a[0].addcmul_(a[1], a[1], 0.5).lerp_(a[1], 0.25);
         return Tensors{a[0]};
       }},
      {"a list in place",
       [](Tensors& a) {
         at::_foreach_add_(a, 1);
         at::_foreach_mul_(a, a);
         return Tensors{a[0] + a[1]};
       }},
      {"filled from data",
       [](Tensors& a) {
         a[0].fill_(a[1].sum());
         return Tensors{a[0].sum()};
       }},
      {"written, read, written",
       [](Tensors& a) {
         auto y = a[0] * 2;
         a[0].zero_();
         auto z = a[0] + y;
         a[0].copy_(z).add_(y);
         y.zero_();
         return Tensors{y, z};
       }},
      {"cumulated into an input",
       [](Tensors& a) {
         at::cumsum_out(a[0], a[1], 0);
         return Tensors{a[0][3]};
       }},
      {"scatter and gather",
       [](Tensors& a) {
         auto i = (a[1] * 4).to(at::kLong).clamp(0, 3);
         a[0].scatter_(1, i, a[1].clone());
         return Tensors{a[0].gather(0, i)};
       }},
      {"rolled in place",
       [](Tensors& a) {
         a[0].copy_(a[0].roll(1, 0));
         a[0].copy_(a[0].flip(1));
         return Tensors{};
       }},
  };
  return all;
}

const std::vector<SideProgram>& view_programs() {
  static const std::vector<SideProgram> all{
      {"windows",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         return Tensors{y.view({-1}).unfold(0, 4, 2), a[0].unfold(1, 2, 1)};
       }},
      {"overlapping strides",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         return Tensors{y.as_strided({3, 3}, {2, 1}), y.as_strided({4}, {0}, 2)};
       }},
      {"complex and real",
       [](Tensors& a) {
         auto z = at::complex(a[0], a[1]);
         return Tensors{at::view_as_real(z), z, at::real(z), at::imag(z), a[0] + a[1]};
       }},
      {"a hidden complex base",
       [](Tensors& a) {
         return Tensors{at::view_as_real(at::complex(a[0], a[1]) * 2), a[0] + a[1]};
       }},
      {"transposed in place",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         y.t_();
         y.unsqueeze_(0);
         return Tensors{y, y[0]};
       }},
      {"another's memory",
       [](Tensors& a) {
         auto y = a[0] * 2, z = a[1] * 3;
         y.set_(z);
         return Tensors{y, z};
       },
       kMayBreak},
      {"smaller",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         y.resize_({2, 2});
         return Tensors{y, y.t()};
       },
       kMayBreak},
      {"a base that is gone",
       [](Tensors& a) {
         auto y = a[0] * a[1];
         auto v = y.narrow(0, 1, 2);
         y.reset();
         auto w = v.t();
         v.reset();
         return Tensors{w};
       }},
      {"aliases",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         return Tensors{at::alias(y), at::alias(a[0]), y.view_as(y), y};
       }},
      {"reshaped",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         return Tensors{y.reshape({2, 8}),      y.t().reshape({-1}), y.flatten(), y.ravel(),
                        y.unflatten(0, {2, 2}), y.movedim(0, 1),     y.squeeze()};
       }},
      {"split in many ways",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         Tensors all = y.tensor_split(3);
         for (const at::Tensor& t : y.hsplit(2)) all.push_back(t);
         for (const at::Tensor& t : a[0].split_with_sizes({1, 3})) all.push_back(t);
         for (const at::Tensor& t : at::unsafe_chunk(y, 2)) all.push_back(t);
         return all;
       }},
      {"broadcast",
       [](Tensors& a) {
         auto y = (a[0] + a[1])[0];
         Tensors all = at::broadcast_tensors({y, a[1]});
         all.push_back(y.unsqueeze(0).expand({3, 4}));
         all.push_back(y.unsqueeze(0).expand({3, 4}).sum(0));
         return all;
       }},
      {"empty parts",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         return Tensors{y.narrow(0, 4, 0), y, at::empty({0, 4}), a[0].narrow(0, 0, 0)};
       }},
      {"no dimensions",
       [](Tensors& a) {
         auto s = a[0].sum() + a[1].sum();
         return Tensors{s.view({1}), s, s.expand({2, 2})};
       }},
      {"several outputs",
       [](Tensors& a) {
         auto [values, places] = a[0].max(1);
         auto [sorted, order] = a[1].sort(0);
         return Tensors{values.unsqueeze(0), places, sorted[0], order.t()};
       }},
      {"out of several",
       [](Tensors& a) {
         auto values = at::empty({0}), places = at::empty({0}, at::kLong);
         at::max_out(values, places, a[0], 1);
         return Tensors{values.unsqueeze(0), places, a[1] + 1};
       }},
      {"normed",
       [](Tensors& a) {
         auto y = at::layer_norm(a[0], {4}, a[1][0], a[1][1]);
         return Tensors{y[0], at::softmax(y, -1).t()};
       }},
      {"permuted memory",
       [](Tensors& a) {
         auto y = (a[0] + a[1]).view({1, 2, 2, 4}).contiguous(at::MemoryFormat::ChannelsLast);
         return Tensors{y, y.permute({0, 2, 3, 1}), y.select(1, 0)};
       }},
      {"attention",
       [](Tensors& a) {
         auto q = a[0].view({1, 1, 4, 4}) * 2, k = a[1].view({1, 1, 4, 4}) * 2;
         auto y = at::scaled_dot_product_attention(q, k, k);
         return Tensors{y.transpose(1, 2), y};
       }},
      {"everything twice",
       [](Tensors& a) {
         auto y = a[0] + a[1], v = y.t();
         return Tensors{v, v, y, y, a[0], a[0], a[0].t(), a[0].t()};
       }},
      {"views where grad is off",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         at::NoGradGuard no_grad;
         return Tensors{y.t(), y, y.unbind(0)[1], a[0].t()};
       }},
      {"a copy of a view",
       [](Tensors& a) {
         return Tensors{at::t_copy(a[0]), at::unbind_copy(a[1])[0], a[0].t().clone(),
                        at::expand_copy(a[0] + a[1], {2, 4, 4})};
       }},
  };
  return all;
}

const std::vector<SideProgram>& handle_programs() {
  static const std::vector<SideProgram> all{
      {"an element replaced",
       [](Tensors& a) {
         a[0] = a[0] + a[1];
         return Tensors{a[0] * 2};
       },
       kMayBreak},
      {"elements swapped",
       [](Tensors& a) {
         std::swap(a[0], a[1]);
         return Tensors{a[0] * 2 + a[1]};
       },
       kMayBreak},
      {"one more",
       [](Tensors& a) {
         a.push_back(a[0] * 2);
         return Tensors{a[0] + a[1]};
       },
       kMayBreak},
      {"all gone",
       [](Tensors& a) {
         auto y = a[0] + a[1];
         a.clear();
         return Tensors{y};
       },
       kMayBreak},
      {"all moved away",
       [](Tensors& a) {
         Tensors mine = std::move(a);
         return Tensors{mine[0] + mine[1]};
       },
       kMayBreak},
      {"moved into the result",
       [](Tensors& a) {
         Tensors mine = std::move(a);
         mine.push_back(mine[0] + mine[1]);
         return mine;
       },
       kMayBreak},
      {"a view in its place",
       [](Tensors& a) {
         a[0] = a[0].t();
         return Tensors{a[0] + a[1]};
       },
       kMayBreak},
      {"replaced and put back",
       [](Tensors& a) {
         auto kept = a[0];
         a[0] = a[1] * 2;
         auto y = a[0] + a[1];
         a[0] = kept;
         return Tensors{y};
       }},
      {"changed, then replaced",
       [](Tensors& a) {
         a[0].add_(1);
         a[0] = a[0].clone();
         a[0].add_(1);
         return Tensors{a[0] + a[1]};
       },
       kMayBreak},
  };
  return all;
}

const std::vector<SideArguments>& overlaps() {
  static const std::vector<SideArguments> all{
      {"apart", [] { return Tensors{at::rand({4, 4}), at::rand({4, 4})}; }},
      {"one and the same",
       [] {
         auto x = at::rand({4, 4});
         return Tensors{x, x};
       }},
      {"one transposed",
       [] {
         auto x = at::rand({4, 4});
         return Tensors{x, x.t()};
       }},
      {"rows that overlap",
       [] {
         auto x = at::rand({6, 4});
         return Tensors{x.narrow(0, 0, 4), x.narrow(0, 2, 4)};
       }},
      {"detached",
       [] {
         auto x = at::rand({4, 4});
         return Tensors{x.detach(), x};
       }},
      {"strided",
       [] { return Tensors{at::rand({4, 8}).slice(1, 0, 8, 2), at::rand({4, 1}).expand({4, 4})}; }},
  };
  return all;
}

void run_all(const std::vector<SideProgram>& programs) {
  const SideMode &grad = side_modes()[0], &inference = side_modes()[2];
  for (const SideProgram& program : programs) {
    expect_beside_eager(program, overlaps()[0], grad);
    expect_beside_eager(program, overlaps()[0], inference);
    // Where arguments overlap, operators refuse to write to some of them, each in its own way: a
    // break or an exception is as good then.
    SideProgram relaxed = program;
    relaxed.compiled = kMayBreak;
    for (size_t k = 1; k < overlaps().size(); ++k)
      expect_beside_eager(relaxed, overlaps()[k], grad);
  }
}

TEST(Adversarial, Mutations) {
  run_all(mutations());
}

TEST(Adversarial, Views) {
  run_all(view_programs());
}

TEST(Adversarial, Handles) {
  run_all(handle_programs());
}

TEST(Adversarial, AnExceptionCaughtInside) {
  auto f = compile(
      [](const at::Tensor& x, const at::Tensor& y) {
        try {
          return at::mm(x, y) + 1;
        } catch (const c10::Error&) {
          return x * 2;
        }
      },
      at_once());
  for (int i = 0; i < 4; ++i) {
    at::Tensor x = at::rand({3, 40}), y = at::rand({40, 3});
    EXPECT_TRUE(same(f(x, y), at::mm(x, y) + 1));
    EXPECT_TRUE(same(f(x, x), x * 2));
  }
}

TEST(Adversarial, ExceptionsOfTheUsersOwn) {
  std::atomic<int> armed{0};
  auto f = compile(
      [&](at::Tensor& x) {
        x.add_(1);
        if (armed == 1) throw std::runtime_error("mine");
        if (armed == 2) throw 5;
        return x * 2;
      },
      at_once());
  at::Tensor x = at::zeros({4});
  float expected = 0;
  for (int a : {1, 2, 0, 1, 0, 0}) {
    armed = a;
    ++expected;
    if (f.report().verdict == Verdict::Faster) armed = 0;  // the plan runs, the function does not
    try {
      EXPECT_EQ(f(x)[0].item<float>(), expected * 2);
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "mine");
    } catch (int thrown) {
      EXPECT_EQ(thrown, 5);
    }
    EXPECT_EQ(x[0].item<float>(), expected);
  }
}

TEST(Adversarial, ThreadsThatShareArguments) {
  // Eight threads hold and use the tensors all the time: nobody may take that for a function that
  // keeps its arguments.
  at::Tensor w = at::rand({64, 64});
  auto body = [](const at::Tensor& x, const at::Tensor& w) {
    auto y = (x * w + 1).relu();
    return Tensors{y, y.t(), x.t()};
  };
  auto f = compile(body, at_once());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      at::Tensor x = at::rand({64, 64});
      for (int i = 0; i < 50; ++i) {
        at::Tensor kept = w, mine = x;
        Tensors came = f(mine, kept), expected = body(x, w);
        for (size_t k = 0; k < came.size(); ++k)
          wrong += !at::equal(came[k], expected[k]) || came[k].is_view() != expected[k].is_view();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

TEST(Adversarial, ALazyCloneIsNotWrittenThrough) {
  auto f = compile([](at::Tensor& x) { return Tensors{x.add_(1), x.t()}; }, at_once());
  for (int i = 0; i < 4; ++i) {
    at::Tensor x = at::rand({4, 4}), before = x.clone();
    at::Tensor lazy = at::_lazy_clone(x);
    Tensors came = f(lazy);
    EXPECT_TRUE(same(x, before)) << i;
    EXPECT_TRUE(same(lazy, before + 1)) << i;
    EXPECT_TRUE(came[1].is_alias_of(lazy)) << i;
  }
}

}  // namespace
}  // namespace graft::test
