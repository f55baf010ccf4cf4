// How far sums are from fp64, compiled and in eager: the root of the mean square over 400 draws.
#include <ATen/ATen.h>
#include <graft/graft.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Tensors&)>;

constexpr int kDraws = 400;

double square_error(const at::Tensor& result, const at::Tensor& exact) {
  return (result.to(at::kDouble) - exact).square().mean().item<double>();
}

void measure(const std::string& name, const Function& f, const std::function<Tensors()>& drawn) {
  auto compiled = graft::compile(f, {.name = name, .race = false});
  for (int k = 0; k < 4; ++k) compiled(drawn()), compiled.wait();
  double ours = 0, eagers = 0;
  int further = 0;
  for (int k = 0; k < kDraws; ++k) {
    const Tensors given = drawn();
    Tensors wide;
    for (const at::Tensor& t : given) wide.push_back(t.to(at::kDouble));
    const at::Tensor exact = f(wide);
    const double our = square_error(compiled(given), exact), eager = square_error(f(given), exact);
    ours += our;
    eagers += eager;
    further += our > 1.21 * eager;
  }
  std::printf("%-24s %6.2f times eager's error, more than 1.1 times in %d of %d draws\n",
              name.c_str(), std::sqrt(ours / eagers), further, kDraws);
}

}  // namespace

int main() {
  at::manual_seed(1);
  for (int64_t n : {20, 100, 1000, 10000}) {
    auto named = [&](const char* name) { return name + (" " + std::to_string(n)); };
    auto normal = [n] { return Tensors{at::randn({100, n})}; };
    auto pair = [n] { return Tensors{at::randn({100, n}), at::randn({n})}; };
    measure(named("all"), [](const Tensors& t) { return t[0].sum(); }, normal);
    measure(named("rows"), [](const Tensors& t) { return t[0].sum(-1); }, normal);
    measure(
        named("columns"), [](const Tensors& t) { return t[0].sum(0); },
        [n] { return Tensors{at::randn({n, 100})}; });
    measure(
        named("positive columns"), [](const Tensors& t) { return t[0].sum(0); },
        [n] { return Tensors{at::rand({n, 100})}; });
    measure(named("products"), [](const Tensors& t) { return (t[0] * t[1]).sum(-1); }, pair);
    measure(named("matrix and vector"), [](const Tensors& t) { return at::mv(t[0], t[1]); }, pair);
    measure(named("norms"), [](const Tensors& t) { return t[0].norm(2, -1); }, normal);
    measure(named("softmax"), [](const Tensors& t) { return t[0].softmax(-1); }, normal);
    measure(
        named("layer norm"), [n](const Tensors& t) { return at::layer_norm(t[0] + 1, {n}); },
        normal);
  }
}
