// Programs over rows of few elements, small matrices, and transposed operands: what does a number
// take, eager with the pool and compiled?
//
//     build/bench/short_rows [NAME]    ns a number of the first operand, one thread; the least of
//                                      15 calls, sides taking turns
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "graft/graft.h"
#include "graft/pool.h"

namespace {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

template <class Fn>
double nanoseconds(Fn fn) {
  const auto start = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

void compare(const std::string& name, const Function& f, const Tensors& inputs) {
  graft::Options options;
  options.cache = false;
  options.race = false;
  const auto compiled = graft::compile(f, options);
  for (int call = 0; call < 8; ++call) {
    compiled(inputs);
    compiled.wait();
  }
  const graft::PoolGuard pool;
  double eager = 1e30, ours = 1e30;
  for (int call = 0; call < 15; ++call) {
    eager = std::min(eager, nanoseconds([&] { f(inputs); }));
    ours = std::min(ours, nanoseconds([&] { compiled(inputs); }));
  }
  const auto numbers = static_cast<double>(inputs[0].numel());
  std::printf("%-28s eager %8.3f ns   compiled %8.3f ns   %6.2fx  %s\n", name.c_str(),
              eager / numbers, ours / numbers, eager / ours,
              graft::to_string(compiled.report().verdict));
}

struct Case {
  const char* name;
  Function f;
  std::function<Tensors(int64_t)> inputs;
  std::vector<int64_t> widths;
};

constexpr int64_t kNumbers = 1 << 18;

Tensors rows_of(int64_t width) {
  return {at::randn({kNumbers / width, width}), at::randn({kNumbers / width, width})};
}
Tensors matrices_of(int64_t n) {
  return {at::randn({kNumbers / n / n, n, n}), at::randn({kNumbers / n / n, n, n})};
}
Tensors squares_of(int64_t n) {
  return {at::randn({n, n}), at::randn({n, n})};
}

std::vector<Case> cases() {
  const std::vector<int64_t> widths{5, 10, 16, 32, 64}, small{3, 4, 6}, large{512, 1024, 2048};
  return {
      {"sum of squares", [](const Tensors& t) { return Tensors{(t[0] * t[0] + 1).sum(-1)}; },
       rows_of, widths},
      {"largest", [](const Tensors& t) { return Tensors{t[0].amax(-1)}; }, rows_of, widths},
      {"dot", [](const Tensors& t) { return Tensors{(t[0] * t[1]).sum(-1)}; }, rows_of, widths},
      {"softmax", [](const Tensors& t) { return Tensors{t[0].softmax(-1)}; }, rows_of, widths},
      {"normalised",
       [](const Tensors& t) {
         const at::Tensor d = t[0] - t[0].mean(-1, true);
         return Tensors{d * (d.square().mean(-1, true) + 1e-5).rsqrt()};
       },
       rows_of, widths},
      {"running sum",
       [](const Tensors& t) { return Tensors{(t[0] * 2).cumsum(-1)}; },
       rows_of,
       {5, 10, 16, 64, 256, 1000, 4000}},
      {"products of matrices", [](const Tensors& t) { return Tensors{at::bmm(t[0], t[1])}; },
       matrices_of, small},
      {"matrix times vector",
       [](const Tensors& t) {
         return Tensors{at::bmm(t[0], t[1].slice(2, 0, 1)).squeeze(2) + t[1].select(2, 1)};
       },
       matrices_of, small},
      {"transposed plus", [](const Tensors& t) { return Tensors{t[0].t() + t[1]}; }, squares_of,
       large},
      {"symmetric", [](const Tensors& t) { return Tensors{(t[0] + t[0].t()) * 0.5}; }, squares_of,
       large},
      {"relu of transposed",
       [](const Tensors& t) { return Tensors{t[0].t().contiguous().relu() * 2}; }, squares_of,
       large},
  };
}

}  // namespace

int main(int argc, char** argv) {
  const std::string filter = argc > 1 ? argv[1] : "";
  const at::NoGradGuard no_grad;
  at::manual_seed(1);
  at::set_num_threads(1);
  for (const Case& c : cases())
    for (int64_t width : c.widths) {
      const std::string name = c.name + (" " + std::to_string(width));
      if (name.find(filter) != std::string::npos) compare(name, c.f, c.inputs(width));
    }
  return 0;
}
