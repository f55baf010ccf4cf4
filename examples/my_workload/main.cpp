// A workload of one's own in the laboratory: this program is the graft command, and knows it too.
#include <ATen/ATen.h>
#include <graft/workload.h>

using namespace graft::workloads;

static at::Tensor gated(const at::Tensor& x, const at::Tensor& gate) {
  return at::tanh(x) * at::sigmoid(gate);
}

int main(int argc, char** argv) {
  add({.name = "gated",
       .summary = "tanh(x) * sigmoid(gate)",
       .axes = {{"rows", "1024", "7", "rows of x"}, {"columns", "1024", "33", "columns of x"}},
       .build = [](const Options& o) {
         const auto sizes = {o.integer("rows"), o.integer("columns")};
         return instance_of(gated, at::randn(sizes), at::randn(sizes));
       }});
  return graft::run_command(argc, argv);
}
