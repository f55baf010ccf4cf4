// Compiles a function with graft::compile, and compares it with eager: arguments, a captured tensor
// that changes, an argument layout that changes, and the report.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <graft/graft.h>

#include <cstdlib>
#include <iostream>

// Adds the residual and normalises each row by its root mean square.
static at::Tensor residual_norm(const at::Tensor& x, const at::Tensor& residual,
                                const at::Tensor& weight) {
  const at::Tensor sum = x + residual;
  return sum * at::rsqrt(sum.pow(2).mean(-1, /*keepdim=*/true) + 1e-6) * weight;
}

static void expect_equal(const at::Tensor& compiled, const at::Tensor& eager) {
  // Sums are added in another order than eager's, so the last bits may differ.
  if (at::allclose(compiled, eager, 1e-5, 1e-5)) return;
  std::cerr << "the compiled function gives other results than eager\n";
  std::exit(1);
}

int main() {
  // A function whose results require grad stays eager: nobody calls backward() inside this one.
  const at::NoGradGuard no_grad;

  // `weight` is captured, as a module's parameter is: it is read at each call.
  at::Tensor weight = at::rand({512});
  const auto norm = graft::compile(
      [weight](const at::Tensor& x, const at::Tensor& residual) {
        return residual_norm(x, residual, weight);
      },
      {.name = "residual_norm"});

  const auto call = [&](at::IntArrayRef sizes) {
    const at::Tensor x = at::randn(sizes), residual = at::randn(sizes);
    expect_equal(norm(x, residual), residual_norm(x, residual, weight));
  };

  // The first call runs eagerly and is recorded. A background thread compiles; calls meanwhile run
  // eagerly too. Then one call runs both and compares, and a few calls time one against the other.
  call({256, 512});
  norm.wait();  // only so that this short program sees compiled calls
  for (int i = 0; i < 40; ++i) call({256, 512});

  weight.mul_(2);  // the next call sees the new values
  call({256, 512});

  for (int i = 0; i < 40; ++i) call({8, 300, 512});  // other sizes: the function is recorded again

  std::cout << norm.report();
  return 0;
}
