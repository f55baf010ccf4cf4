#include <ATen/ATen.h>

#include <map>

#include "cli/frame/usage.h"
#include "experiments/frame/tables.h"
#include "experiments/llama/parts.h"
#include "lab/stats.h"
#include "lab/timer.h"
#include "lab/words.h"
#include "workloads/regions.h"
#include "workloads/systems/llama.h"

namespace graft::experiments::llama {
namespace {

using at::Tensor;
using workloads::Instance;
using workloads::instance_of;
using workloads::llama::Regions;
using workloads::llama::Shape;
using workloads::llama::System;

struct Operation {
  std::string name;
  Instance instance;
  std::vector<std::string> made_of = {};  ///< of which operations; empty: one of them
};

/// The operations of a layer, and the regions that they make, on its sizes.
std::vector<Operation> operations_of(const System& s, int64_t batch, int64_t length) {
  const Shape& shape = s.shape;
  const at::ScalarType dtype = shape.dtype();
  const auto drawn = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(dtype); };
  const Tensor qkv = drawn({batch, length, shape.qkv_width()}),
               x = drawn({batch, length, shape.hidden}), branch = drawn(x.sizes()),
               weight = at::ones({shape.hidden}, dtype),
               gate_up = drawn({batch, length, 2 * shape.intermediate}),
               gate = drawn({batch, length, shape.intermediate}), up = drawn(gate.sizes());
  const Regions regions = Regions::eager(shape);
  const int64_t width = shape.head_dim();
  const auto heads = [&](int64_t count) {
    return drawn({batch, length, count, width}).transpose(1, 2);
  };
  const Tensor q = heads(shape.heads), k = heads(shape.kv_heads),
               context = drawn({batch, shape.heads, length, width});
  const auto split = [shape](const Tensor& fused) {
    const auto parts = fused.view({fused.size(0), fused.size(1), -1, shape.head_dim()})
                           .transpose(1, 2)
                           .split_with_sizes({shape.heads, shape.kv_heads, shape.kv_heads}, 1);
    return std::tuple(parts[0].contiguous(), parts[1].contiguous(), parts[2].contiguous());
  };
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  const auto silu = [](const Tensor& a) { return at::silu(a); };
  const auto multiply = [](const Tensor& a, const Tensor& b) { return a * b; };
  const auto split_rope_contiguous = [split](const Tensor& fused, const Tensor& cos,
                                             const Tensor& sin) {
    const auto [a, b, c] = split(fused);
    const auto [turned_a, turned_b] = workloads::rope(a, b, cos, sin);
    return std::tuple(turned_a, turned_b, c);
  };
  return {
      {"split", instance_of(split, qkv)},
      {"rope", instance_of(workloads::rope, q, k, s.cos, s.sin)},
      {"split and rope", instance_of(split_rope_contiguous, qkv, s.cos, s.sin), {"split", "rope"}},
      {"combine heads", instance_of(regions.combine, context)},
      {"add", instance_of(add, x, branch)},
      {"RMS norm", instance_of(workloads::rmsnorm, x, weight)},
      {"add and norm", instance_of(regions.add_norm, x, branch, weight), {"add", "RMS norm"}},
      {"silu", instance_of(silu, gate)},
      {"multiply", instance_of(multiply, gate, up)},
      {"silu and multiply", instance_of(workloads::swiglu, gate, up), {"silu", "multiply"}},
      {"SwiGLU of halves", instance_of(regions.swiglu, gate_up)}};
}

}  // namespace

lab::Section operations(const workloads::Options& options, const Settings& settings,
                        const Say& say) {
  workloads::Options one = options;
  one.config["layers"] = "1";
  const System system = System::of(one);
  const int64_t batch = options.integer("batch"), length = options.integer("sequence");
  lab::Section out{"operations", "Single operations, and what boundaries cost",
                   "Each by itself, on the sizes of a layer. Apart: the operations of a region "
                   "compiled one by one, after one another; the boundary is what that takes longer "
                   "than the region as one."};
  out.table = lab::Table(columns({"operation"}, {"eager ms", "compiled ms", "speed-up", "apart ms",
                                                 "boundary ms", "compiling ms"}));
  lab::Figure figure{"Milliseconds, eager and compiled", {}, {}, "", "ms"};
  figure.series = {{"eager"}, {"compiled"}};
  std::map<std::string, double> compiled_ms;
  at::manual_seed(settings.seed);
  const std::vector<Operation> all = operations_of(system, batch, length);
  for (size_t i = 0; i < all.size(); ++i) {
    const Operation& operation = all[i];
    say(static_cast<double>(i) / static_cast<double>(all.size()), operation.name);
    Options compile;
    compile.name = operation.name;
    compile.cache = false;
    const workloads::CompiledCall compiled = operation.instance.compile(compile);
    cli::settle(compiled);
    const std::vector<lab::Samples> samples =
        lab::measure({{"eager", operation.instance.eager.run}, {"graft", compiled.run}},
                     {.min_time = settings.quick || settings.small ? 0.05 : 0.5});
    const double eager = lab::median(samples[0].ms), own = lab::median(samples[1].ms);
    compiled_ms[operation.name] = own;
    double apart = 0;
    for (const std::string& part : operation.made_of) apart += compiled_ms.at(part);
    const bool region = !operation.made_of.empty();
    const Report report = compiled.report();
    out.table.row({operation.name, lab::number(eager), lab::number(own), times_cell(eager / own),
                   region ? lab::number(apart) : "", region ? lab::number(apart - own) : "",
                   lab::number(report.compile_ms + report.record_ms)});
    if (report.verdict != Verdict::Faster && !report.reason.empty())
      out.notes.push_back(operation.name + " stays eager: " + report.reason);
    figure.labels.push_back(operation.name);
    figure.series[0].values.push_back(eager);
    figure.series[1].values.push_back(own);
  }
  out.figures.push_back(std::move(figure));
  return out;
}

}  // namespace graft::experiments::llama
