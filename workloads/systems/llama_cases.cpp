// The set `systems`: a Llama whole, with the cuts at which it can be compiled in parts.
#include <ATen/ATen.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/region_cases.h"
#include "workloads/regions.h"
#include "workloads/systems/llama.h"
#include "workloads/systems/parts.h"
#include "workloads/training/steps.h"

namespace graft::workloads {
namespace llama {

using at::Tensor;

namespace {

Precision precision_of(const std::string& name) {
  if (name == "f32") return Precision::F32;
  if (name == "bf16") return Precision::Bf16;
  if (name == "fp8") return Precision::Fp8;
  throw Error("axis dtype: came '" + name + "', expected one of f32, bf16, fp8");
}

Head head_of(const std::string& name) {
  if (name == "none") return Head::None;
  if (name == "tied") return Head::Tied;
  if (name == "untied") return Head::Untied;
  throw Error("axis head: came '" + name + "', expected one of none, tied, untied");
}

}  // namespace

Shape System::shape_of(const Options& o) {
  Shape out;
  out.layers = o.integer("layers");
  out.hidden = o.integer("hidden");
  out.heads = o.integer("heads");
  out.kv_heads = o.integer("kv_heads");
  out.intermediate = o.integer("intermediate");
  out.vocabulary = o.integer("vocabulary");
  out.head = head_of(o.text("head"));
  out.precision = precision_of(o.text("dtype"));
  out.check();
  return out;
}

System System::of(const Options& o) {
  System out;
  out.shape = shape_of(o);
  const at::ScalarType dtype = out.shape.dtype();
  Draw draw(o);
  for (const std::vector<int64_t>& sizes : parameter_sizes(out.shape))
    out.parameters.push_back(
        sizes.size() == 1
            ? at::ones(sizes, dtype)
            : draw.normal(sizes).div_(std::sqrt(static_cast<double>(sizes[1]))).to(dtype));
  const int64_t batch = o.integer("batch"), sequence = o.integer("sequence");
  const auto data = [&] {
    return out.shape.head == Head::None ? draw.normal({batch, sequence, out.shape.hidden}, dtype)
                                        : draw.integers({batch, sequence}, out.shape.vocabulary);
  };
  out.x = data();
  out.target = data();
  std::tie(out.cos, out.sin) = rope_tables(sequence, out.shape.head_dim(), dtype);
  return out;
}

System System::in_double() const {
  System out = *this;
  out.shape.precision = Precision::F32;
  const auto wide = [](Tensor& t) {
    if (t.is_floating_point()) t = t.to(at::kDouble);
  };
  for (Tensor& p : out.parameters) wide(p);
  wide(out.x), wide(out.target), wide(out.cos), wide(out.sin);
  return out;
}

Tensor loss_of(const Tensor& result, const Tensor& target) {
  const auto wide = at::promote_types(result.scalar_type(), at::kFloat);
  if (target.is_floating_point()) return at::mse_loss(result.to(wide), target.to(wide));
  return at::cross_entropy_loss(result.flatten(0, 1).to(wide), target.flatten());
}

}  // namespace llama

namespace {

using at::Tensor;
using llama::Head;
using llama::Model;
using llama::Regions;
using llama::Shape;
using llama::System;

/// Which functions are compiled, and under which name.
struct LlamaCut {
  const char* name;
  std::vector<std::string> regions;
  Regions (*of)(const Shape& shape) = Regions::eager;
};
const std::vector<LlamaCut>& llama_cuts() {
  static const std::vector<LlamaCut> all{
      {"graft_rope", {"split_rope"}},
      {"graft_surgical", {"norm", "add_norm", "split_rope", "swiglu"}},
      {"graft_surgical_attention", {"norm", "add_norm", "mix", "swiglu"}, Regions::with_attention},
  };
  return all;
}

/// `call(regions)`: the program with these.
template <class MakeCall>
void add_cuts(const Shape& shape, const MakeCall& call, Instance& out) {
  for (const LlamaCut& cut : llama_cuts())
    out.cuts.emplace_back(cut.name, [&cut, shape, call](const graft::Options& options) {
      Parts parts(options);
      Regions regions = cut.of(shape);
      regions.each([&](const std::string& name, auto& function) {
        if (std::find(cut.regions.begin(), cut.regions.end(), name) != cut.regions.end())
          parts.compile(name, function);
      });
      return parts.in(call(regions));
    });
}

Instance llama_forward(const Options& o) {
  const System system = System::of(o);
  const auto model = std::make_shared<const Model>(system.model());
  const auto with = [model](const Regions& regions) {
    return [model, regions](const Tensor& x, const Tensor& cos, const Tensor& sin) {
      return model->forward(x, cos, sin, regions);
    };
  };
  const auto eager = Regions::eager(system.shape);
  Instance out = instance_of(with(eager), system.x, system.cos, system.sin);
  out.fp64 = [system, eager] {
    const System wide = system.in_double();
    return Tensors{wide.model().forward(wide.x, wide.cos, wide.sin, eager)};
  };
  add_cuts(
      system.shape,
      [with, x = system.x, cos = system.cos, sin = system.sin](const Regions& regions) {
        return call_of(with(regions), x, cos, sin);
      },
      out);
  const int64_t sequence = o.integer("sequence"), tokens = o.integer("batch") * sequence;
  out.tokens = static_cast<double>(tokens);
  out.flops = system.shape.flops(tokens, sequence);
  double weights = 0;
  for (const Tensor& p : system.parameters) weights += static_cast<double>(p.nbytes());
  out.bytes = (system.shape.precision == llama::Precision::Fp8 ? 0.5 : 1) * weights;
  out.input_bytes += static_cast<int64_t>(out.bytes);  // it captures them
  return out;
}

/// Weights of the model's type as `copies`, in fp64 as often again, and a layer's activations.
double peak_of(const Options& o, double copies) {
  const Shape shape = System::shape_of(o);
  const auto tokens = static_cast<double>(o.integer("batch") * o.integer("sequence"));
  const auto wide = static_cast<double>(2 * shape.intermediate + shape.qkv_width() + shape.hidden);
  const auto size = static_cast<double>(c10::elementSize(shape.dtype()));
  const double each = size + (o.fp64 ? 8 : 0);
  // They are drawn one by one, in fp32.
  return (copies * each + 0.5) * shape.parameters() + 4 * tokens * wide * each;
}
double forward_peak(const Options& o) {
  return peak_of(o, 1);
}
double step_peak(const Options& o) {
  const auto tokens = static_cast<double>(o.integer("batch") * o.integer("sequence"));
  const Shape shape = System::shape_of(o);
  return peak_of(o, 4) + 20 * static_cast<double>(shape.layers * shape.hidden) * tokens * 12;
}

constexpr double kRate = 0.01;  ///< tools/peers/systems.py's too

Instance llama_step(const Options& o) {
  const System system = System::of(o);
  const Shape shape = system.shape;
  if (shape.precision == llama::Precision::Fp8)
    throw Error(
        "axis dtype: came 'fp8', whose products have no gradient in ATen; expected f32 or "
        "bf16 for a training step");
  for (const Tensor& p : system.parameters) p.requires_grad_();
  const auto with = [shape](const Regions& regions) {
    return [shape, regions](const Tensors& parameters, const Tensor& x, const Tensor& target,
                            const Tensor& cos, const Tensor& sin) {
      const auto loss = [&] {
        return llama::loss_of(Model::of(shape, parameters).forward(x, cos, sin, regions), target);
      };
      return training_step(loss, [&] { descend(parameters, kRate); });
    };
  };
  Instance out = updating_instance_of(with(Regions::eager(shape)), system.parameters, system.x,
                                      system.target, system.cos, system.sin);
  add_cuts(
      shape,
      [with, system](const Regions& regions) {
        return updating_call_of(with(regions), system.parameters, system.x, system.target,
                                system.cos, system.sin);
      },
      out);
  const int64_t sequence = o.integer("sequence"), tokens = o.integer("batch") * sequence;
  out.tokens = static_cast<double>(tokens);
  out.flops = 3 * shape.flops(tokens, sequence);
  for (const Tensor& p : system.parameters) out.bytes += 2 * static_cast<double>(p.nbytes());
  return out;
}

/// Of a bf16 model: one value that rounds the other way changes those that follow.
constexpr double kRounding = 2e-2;

}  // namespace

std::vector<Workload> llama_cases() {
  const std::vector<Axis> axes{{"layers", "4", "2", "layers"},
                               {"batch", "1", "2", "sequences"},
                               {"sequence", "512", "9", "tokens of each"},
                               {"hidden", "1024", "32", "columns"},
                               {"heads", "8", "4", "heads of queries"},
                               {"kv_heads", "8", "2", "heads of keys and values"},
                               {"intermediate", "2816", "40", "columns between gate and down"},
                               {"vocabulary", "32000", "53", "tokens known"},
                               {"head", "none", "tied", "none, tied or untied"},
                               {"dtype", "bf16", "f32", "f32, bf16 or fp8"}};
  return {{"llama_forward", "a Llama of fused layers: hidden states or logits", axes, llama_forward,
           kRounding, "systems", forward_peak},
          {"llama_step", "a training step of it: forward, backward, gradient descent", axes,
           llama_step, kRounding, "systems", step_peak}};
}

}  // namespace graft::workloads
