// Compiles a function with an installed Graft, and checks it against eager.
#include <ATen/ATen.h>
#include <graft/graft.h>

#include <iostream>

int main() {
  auto eager = [](const at::Tensor& a) { return a * 2 + 1; };
  auto compiled = graft::compile(eager);

  const at::Tensor x = at::arange(6, at::kFloat).reshape({2, 3});
  for (int call = 0; call < 3; ++call) {
    if (!at::equal(compiled(x), eager(x))) {
      std::cerr << "call " << call << " differs from eager\n";
      return 1;
    }
  }
  std::cout << compiled(x) << '\n';
  return 0;
}
