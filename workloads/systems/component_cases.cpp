// The set `systems`: linear layers in masked components, ((x V) mask) U, alone and in a whole
// Llama, forward and backward.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/region_cases.h"
#include "workloads/regions.h"
#include "workloads/training/parameters.h"
#include "workloads/training/region.h"
#include "workloads/training/steps.h"

namespace graft::workloads {
namespace {

using at::Tensor;

Tensors in(at::ScalarType dtype, const Tensors& all) {
  Tensors out;
  for (const Tensor& t : all) out.push_back(t.to(dtype));
  return out;
}

Instance component_model(const Options& o) {
  const int64_t batch = o.integer("batch"), s = o.integer("sequence"), width = o.integer("width"),
                heads = o.integer("heads");
  if (width % (2 * heads) != 0)
    throw Error("axis width: came " + std::to_string(width) +
                ", expected a multiple of twice the " + std::to_string(heads) + " heads");
  const at::ScalarType dtype = o.dtype();
  Draw draw(o);
  const auto made = component_parameters(o, draw);
  const Tensors parameters = in(dtype, made.parameters), masks = in(dtype, made.masks);
  for (const Tensor& p : parameters) p.requires_grad_();
  const auto [cos, sin] = rope_tables(s, width / heads, dtype);
  const auto hidden = [&] { return draw.normal({batch, s, width}, dtype); };
  const ComponentLlama llama{heads};
  Instance out = instance_of(
      [llama](const Tensors& p, const Tensor& x, const Tensors& m, const Tensor& target,
              const Tensor& c, const Tensor& n) {
        return loss_and_gradients([&] { return llama.loss(p, x, m, target, c, n); }, p);
      },
      parameters, hidden(), masks, hidden(), cos, sin);
  out.tokens = static_cast<double>(batch * s);
  out.bytes = static_cast<double>(c10::elementSize(dtype)) *
              (2 * elements_of(parameters) + elements_of(masks));
  out.flops = kMultiplyAdds * out.tokens * elements_of(parameters);
  return out;
}

/// The layer as a module that owns its weights.
struct ComponentLayer {
  Tensor V, U;
  Tensor operator()(const Tensor& x, const Tensor& mask) const { return component(x, V, mask, U); }
};

Instance component_layer_alone(const Options& o) {
  const int64_t batch = o.integer("batch"), s = o.integer("sequence"), in = o.integer("d_in"),
                to = o.integer("d_out"), parts = o.integer("parts");
  const at::ScalarType dtype = o.dtype();
  Draw draw(o);
  const auto weight = [&](int64_t rows, int64_t columns) {
    return (draw.normal({rows, columns}) / std::sqrt(static_cast<double>(rows))).to(dtype);
  };
  const Tensor x = draw.normal({batch, s, in}, dtype), V = weight(in, parts), U = weight(parts, to),
               mask = draw.uniform({batch, s, parts}).to(dtype),
               along = draw.normal({batch, s, to}, dtype);
  const double flops = 3 * 2 * static_cast<double>(parts) * static_cast<double>(in + to);
  Instance out;
  if (const std::string& form = o.text("form"); form == "pure") {
    out = region_of([](const Tensors& t) { return component(t[0], t[1], t[3], t[2]); },
                    {x, V, U, mask}, 3, along, flops / static_cast<double>(in));
  } else if (form == "module") {
    // Weights are captured: their gradients come by the module's own leaves.
    const ComponentLayer module{V.requires_grad_(), U.requires_grad_()};
    const auto both = [](const auto& f) {
      return [f](const Tensor& x, const Tensor& mask, const Tensor& along, const Tensor& V,
                 const Tensor& U) {
        const at::AutoGradMode grad(true);
        const Tensor leaf = x.detach().requires_grad_();
        const Tensor result = f(leaf, mask);
        Tensors all = torch::autograd::grad({result}, {leaf, V, U}, {along});
        all.insert(all.begin(), result.detach());
        return all;
      };
    };
    using Args = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;
    const auto args = std::make_shared<Args>(x, mask, along, V, U);
    out = detail::instance_with(
        module, args, [=](const auto& g) { return detail::call_of(both(g), args); },
        [=](const Args& given) {
          const ComponentLayer wide{std::get<3>(given), std::get<4>(given)};
          return detail::outputs_of(both(wide), given);
        });
    out.bytes = static_cast<double>(out.input_bytes);
    out.flops = flops * static_cast<double>(batch * s);
  } else {
    throw Error("axis form: came '" + form + "', expected pure or module");
  }
  out.tokens = static_cast<double>(batch * s);
  return out;
}

/// Weights and gradients, masks, and a dozen values of each part and token.
double component_peak(const Options& o) {
  const auto integer = [&](const char* axis) { return static_cast<double>(o.integer(axis)); };
  const double tokens = integer("batch") * integer("sequence"), parts = integer("parts"),
               width = integer("width"), hidden = integer("hidden"), layers = integer("layers");
  const double parameters = layers * parts * (11 * width + 3 * hidden),
               activations = layers * tokens * (28 * parts + 30 * width + 8 * hidden);
  const auto size = static_cast<double>(c10::elementSize(o.dtype()));
  return (3 * parameters + activations) * (size + (o.fp64 ? 8 : 0));
}

}  // namespace

std::vector<Workload> component_cases() {
  const Axis dtype{"dtype", "f32", "f32", "f32, f16 or bf16"};
  return {{"spd_model",
           "a Llama whose linear layers are masked components: loss and gradients",
           {{"layers", "4", "2", "layers"},
            {"batch", "16", "3", "sequences"},
            {"sequence", "128", "9", "tokens of a sequence"},
            {"width", "512", "24", "columns"},
            {"hidden", "1376", "40", "columns between gate and down"},
            {"heads", "8", "3", "heads"},
            {"parts", "1200", "51", "components"},
            dtype},
           component_model,
           kSums,
           "systems",
           component_peak},
          {"spd_component",
           "a masked component layer ((x V) mask) U: its result and gradients",
           {{"batch", "2", "3", "sequences"},
            {"sequence", "512", "9", "tokens of a sequence"},
            {"d_in", "768", "20", "columns of x"},
            {"d_out", "768", "24", "columns of the result"},
            {"parts", "1200", "51", "components"},
            dtype,
            {"form", "pure", "pure", "pure function, or module that owns V and U"}},
           component_layer_alone,
           kSums,
           "systems"}};
}

}  // namespace graft::workloads
