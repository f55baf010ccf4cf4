// The inputs of the programs that loop.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "workloads/loops.h"
#include "workloads/region_cases.h"

namespace graft::workloads {
namespace {

at::Tensor normal(const at::Generator& generator, at::IntArrayRef sizes) {
  return at::randn(sizes, generator, at::kFloat);
}

Instance recurrence_case(const Options& o) {
  const at::Generator generator = at::detail::createCPUGenerator(o.seed);
  const int64_t width = o.integer("width");
  const at::Tensor x = normal(generator, {o.integer("batch"), o.integer("steps"), width});
  const at::Tensor a = at::rand({width}, generator, at::kFloat) * 0.9, b = 1 - a;
  return instance_of(recurrence, x, a, b);
}

Instance cholesky_case(const Options& o) {
  const at::Generator generator = at::detail::createCPUGenerator(o.seed);
  const int64_t batch = o.integer("batch"), side = o.integer("side");
  const at::Tensor x = normal(generator, {batch, side, 2 * side});
  return instance_of(cholesky,
                     at::matmul(x, x.transpose(1, 2)) / (2 * side) + 0.01 * at::eye(side));
}

Instance codebook_case(const Options& o) {
  const at::Generator generator = at::detail::createCPUGenerator(o.seed);
  const int64_t columns = o.integer("columns");
  const at::Tensor W = normal(generator, {o.integer("rows"), columns});
  const at::Tensor codes = std::get<0>(normal(generator, {columns, o.integer("codes")}).sort(1));
  return instance_of(codebook, W, codes.contiguous(), 0.5);
}

}  // namespace

std::vector<Workload> loop_cases() {
  return {
      {"recurrence_f32",
       "a linear recurrence, step by step",
       {{"batch", "16", "3", "sequences"},
        {"steps", "128", "9", "of a sequence"},
        {"width", "512", "19", "features of a state"}},
       recurrence_case},
      {"cholesky_f32",
       "Cholesky factors of a batch, column by column in place",
       {{"batch", "64", "5", "matrices"}, {"side", "64", "9", "rows and columns"}},
       cholesky_case},
      {"codebook_f32",
       "columns quantised to the nearest of a codebook each",
       {{"rows", "2048", "37", "of the weight"},
        {"columns", "128", "9", "of the weight"},
        {"codes", "16", "5", "of a column"}},
       codebook_case},
  };
}

}  // namespace graft::workloads
