// The set `systems`: training GPT-2's layers, in three cuts of a step and three precisions.
#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <optional>

#include "workloads/draw.h"
#include "workloads/region_cases.h"
#include "workloads/systems/parts.h"
#include "workloads/training/autocast.h"
#include "workloads/training/parameters.h"
#include "workloads/training/steps.h"

namespace graft::workloads {
namespace {

using at::Tensor;

enum class MatmulPrecision { F32, Medium, Bf16 };

MatmulPrecision matmul_precision_of(const std::string& name) {
  if (name == "f32") return MatmulPrecision::F32;
  if (name == "medium") return MatmulPrecision::Medium;
  if (name == "bf16") return MatmulPrecision::Bf16;
  throw Error("axis precision: came '" + name +
              "', expected f32, medium (products of fp32 may round factors to bf16) or bf16 "
              "(autocast)");
}

/// While it lives, products of fp32 may round their factors to bf16.
class Medium {
 public:
  Medium() { at::globalContext().setFloat32MatmulPrecision("medium"); }
  ~Medium() { at::globalContext().setFloat32MatmulPrecision("highest"); }
  Medium(const Medium&) = delete;
  Medium& operator=(const Medium&) = delete;
};

/// Calls under the process's setting, which no function that is compiled may change.
Call under(MatmulPrecision precision, Call call) {
  if (precision != MatmulPrecision::Medium) return call;
  const auto guarded = [](const auto& f) {
    return [f] {
      const Medium medium;
      return f();
    };
  };
  Call out{guarded(call.run), guarded(call.outputs)};
  if (call.steps)
    out.steps = [steps = call.steps, guarded] {
      Steps made = steps();
      made.next = guarded(made.next);
      return made;
    };
  return out;
}

Instance under(MatmulPrecision precision, Instance instance) {
  instance.eager = under(precision, instance.eager);
  const auto compiled = [precision](const auto& compile) {
    return [precision, compile](const graft::Options& options) {
      CompiledCall out = compile(options);
      static_cast<Call&>(out) = under(precision, out);
      return out;
    };
  };
  instance.compile = compiled(instance.compile);
  for (auto& [name, compile] : instance.cuts) compile = compiled(compile);
  return instance;
}

/// The model's layers and loss, each a function that takes part in autograd.
struct Functions {
  std::function<Tensor(const Tensor& x, const Tensors& weights)> layer;
  std::function<Tensor(const Tensor& x, const Tensors& weights, const Tensor& next)> head;
};

/// What is trained: tensors, and how a loss is made of them.
struct Training {
  Gpt model;
  MatmulPrecision precision = MatmulPrecision::F32;
  Tensors parameters;
  Tensor tokens, next;

  static Training of(const Options& o) {
    const int64_t width = o.integer("width"), heads = o.integer("heads");
    if (width % heads != 0)
      throw Error("axis width: came " + std::to_string(width) + ", expected a multiple of the " +
                  std::to_string(heads) + " heads");
    Draw draw(o);
    Training out;
    out.model = {heads};
    out.precision = matmul_precision_of(o.text("precision"));
    out.parameters = gpt_parameters(o, draw, kInitial);
    const int64_t batch = o.integer("batch"), context = o.integer("context");
    out.tokens = draw.integers({batch, context}, o.integer("vocabulary"));
    out.next = draw.integers({batch, context}, o.integer("vocabulary"));
    return out;
  }

  Functions eager() const {
    return {[model = model](const Tensor& x, const Tensors& w) { return model.layer(x, w); },
            [](const Tensor& x, const Tensors& w, const Tensor& next) {
              return Gpt::head_loss(x, w, next);
            }};
  }
  auto loss(const Functions& functions) const {
    return [model = model, precision = precision, functions](const Tensors& p, const Tensor& tokens,
                                                             const Tensor& next) {
      const std::optional<Autocast> autocast = precision == MatmulPrecision::Bf16
                                                   ? std::make_optional<Autocast>(at::kBFloat16)
                                                   : std::nullopt;
      return model.loss(p, tokens, next, functions.layer, functions.head);
    };
  }
};

/// A forward's bounds; `times` more products, and parameters read or written so often.
void add_work(const Options& o, const Training& t, double times, double passes, Instance& out) {
  out.tokens = static_cast<double>(t.tokens.numel());
  const auto pairs =
      static_cast<double>(o.integer("layers") * o.integer("context") * o.integer("width"));
  // As each parameter of a matmul does, so does each pair of positions.
  out.flops = times * 2 * out.tokens * (elements_of(t.parameters) + 2 * pairs);
  out.bytes = 4 * passes * elements_of(t.parameters);
}

/// `program(functions)` on the same inputs with layers and loss compiled one by one.
template <class Program, class CallOf>
void add_regions(const Training& t, const Program& program, const CallOf& call, Instance& out) {
  out.cuts.emplace_back("graft_regions", [=](const graft::Options& options) {
    Parts parts(options);
    Functions functions = t.eager();
    parts.compile("layer", functions.layer);
    parts.compile("head", functions.head);
    return parts.in(call(program(functions)));
  });
}

/// `program(functions)` on the model, with its cut; work as add_work() takes it.
template <class Program>
Instance of_program(const Options& o, const Training& t, const Program& program, double times,
                    double passes) {
  Instance out = instance_of(program(t.eager()), t.parameters, t.tokens, t.next);
  add_regions(
      t, program, [t](const auto& f) { return call_of(f, t.parameters, t.tokens, t.next); }, out);
  add_work(o, t, times, passes, out);
  return under(t.precision, out);
}

Instance lm_forward(const Options& o) {
  const Training t = Training::of(o);
  return of_program(o, t, [t](const Functions& f) { return t.loss(f); }, 1, 1);
}

Instance lm_backward(const Options& o) {
  const Training t = Training::of(o);
  for (const Tensor& p : t.parameters) p.requires_grad_();
  const auto program = [t](const Functions& f) {
    return [loss = t.loss(f)](const Tensors& p, const Tensor& tokens, const Tensor& next) {
      return loss_and_gradients([&] { return loss(p, tokens, next); }, p);
    };
  };
  return of_program(o, t, program, 3, 2);
}

Instance lm_step(const Options& o) {
  const Training t = Training::of(o);
  Draw draw({.seed = o.seed + 1});
  const auto plain = [](const Tensors& p, const Tensors& g, const Tensors& m, const Tensors& v,
                        const Tensor& steps) { AdamW().update(p, g, m, v, steps); };
  Instance out = adamw_training(t.loss(t.eager()), t.parameters, t.tokens, t.next, plain, &draw);
  const auto parts = [t, plain, seed = o.seed](const graft::Options& options) {
    Parts made(options);
    Functions functions = t.eager();
    made.compile("layer", functions.layer);
    made.compile("head", functions.head);
    using Update =
        void(const Tensors&, const Tensors&, const Tensors&, const Tensors&, const Tensor&);
    std::function<Update> update = [](const Tensors& p, const Tensors& g, const Tensors& m,
                                      const Tensors& v,
                                      const Tensor& steps) { AdamW().update(p, g, m, v, steps); };
    made.compile("adamw", update);
    Draw draw({.seed = seed + 1});
    const Instance step =
        adamw_training(t.loss(functions), t.parameters, t.tokens, t.next, update, &draw);
    return made.in(step.eager);
  };
  out.cuts.emplace_back("graft_regions", parts);
  add_work(o, t, 3, 6, out);
  return under(t.precision, out);
}

/// Parameters so often in fp32, again that often in fp64 where it is asked for, and activations.
double lm_peak(const Options& o, double copies) {
  const auto integer = [&](const char* axis) { return static_cast<double>(o.integer(axis)); };
  const double width = integer("width"), layers = integer("layers"),
               tokens = integer("batch") * integer("context");
  const double parameters =
      width * (integer("vocabulary") + integer("context") + layers * (12 * width + 13));
  const double activations =
      tokens * (layers * (20 * width + 5 * integer("heads") * integer("context")) +
                3 * integer("vocabulary"));
  return (4 + (o.fp64 ? 8 : 0)) * (copies * parameters + activations);
}

}  // namespace

std::vector<Workload> language_model_cases() {
  const std::vector<Axis> axes{{"layers", "4", "1", "layers"},
                               {"batch", "4", "2", "sequences"},
                               {"context", "256", "9", "tokens of a sequence"},
                               {"width", "768", "24", "columns"},
                               {"heads", "12", "3", "heads"},
                               {"vocabulary", "10000", "53", "tokens known"},
                               {"precision", "f32", "f32", "f32, medium or bf16 (autocast)"}};
  return {{"lm_forward", "GPT-2's layers: the loss", axes, lm_forward, kSums, "systems"},
          {"lm_backward", "the loss and its gradients", axes, lm_backward, kSums, "systems",
           [](const Options& o) { return lm_peak(o, 2); }},
          {"lm_step", "forward, backward and AdamW", axes, lm_step, kSteps, "systems",
           [](const Options& o) { return lm_peak(o, 12); }}};
}

}  // namespace graft::workloads
