#include "graft/systems/optimizer_states.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/variable.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <utility>

#include "systems/states/pipeline.h"
#include "systems/states/state_file.h"

namespace graft::systems {
namespace {

using namespace states;
using at::Tensor;

constexpr int kBuffers = 3;  // one is read, one updated, one written

void check_options(const OffloadOptions& o) {
  TORCH_CHECK_VALUE(!o.file.empty(), "OffloadOptions::file is empty; name the state file");
  TORCH_CHECK_VALUE(o.lr >= 0 && o.eps >= 0 && o.weight_decay >= 0, "lr = ", o.lr,
                    ", eps = ", o.eps, " and weight_decay = ", o.weight_decay,
                    " must be at least 0");
  TORCH_CHECK_VALUE(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1, "beta1 = ", o.beta1,
                    " and beta2 = ", o.beta2, " must be in [0, 1)");
  TORCH_CHECK_VALUE(o.backwards_per_step > 0, "backwards_per_step = ", o.backwards_per_step,
                    " must be at least 1");
}

void check_parameters(const std::vector<Tensor>& parameters) {
  TORCH_CHECK_VALUE(!parameters.empty(), "no parameters were given to OffloadedAdamW");
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    TORCH_CHECK_VALUE(p.defined() && p.device().is_cpu() && p.layout() == at::kStrided &&
                          p.is_contiguous() && p.is_leaf(),
                      "parameter ", i, " must be a contiguous CPU tensor and a leaf, but is ",
                      p.defined() ? p.toString() : "undefined",
                      "; give the optimizer a contiguous one");
    TORCH_CHECK_VALUE(p.scalar_type() == at::kFloat || p.scalar_type() == at::kBFloat16 ||
                          p.scalar_type() == at::kHalf,
                      "parameter ", i, " is of ", p.scalar_type(),
                      "; float, bfloat16 and half are taken");
    for (size_t j = 0; j < i; ++j)
      TORCH_CHECK_VALUE(!p.is_same(parameters[j]), "parameters ", j, " and ", i,
                        " are the same tensor; give each once");
  }
}

// Calls on the autograd thread when a parameter's gradient of one backward pass is complete.
class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientHook(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const torch::autograd::Variable&) override { call_(); }

 private:
  std::function<void()> call_;
};

Tensor section(const Group& group, std::byte* slot, int index, const Piece& piece) {
  auto* data = reinterpret_cast<float*>(slot + group.section_offset(index)) + piece.offset;
  return at::from_blob(data, {piece.count}, at::kFloat);
}

Tensor part(const Tensor& tensor, const Piece& piece) {
  return tensor.view(-1).narrow(0, piece.begin, piece.count);
}

}  // namespace

struct OffloadedAdamW::Impl {
  Impl(std::vector<Tensor> given, OffloadOptions o)
      : options(std::move(o)), parameters(std::move(given)) {
    check_options(options);
    check_parameters(parameters);
    check_hooks();
    all_float = std::ranges::all_of(parameters,
                                    [](const Tensor& p) { return p.scalar_type() == at::kFloat; });
    sections = options.keep_parameters || !all_float ? kMaxSections : kMaxSections - 1;
    for (const Tensor& p : parameters)
      kinds.push_back({p.numel(), static_cast<int64_t>(p.scalar_type())});
    open_file();
    make_groups();
    add_hooks();
  }

  ~Impl() { remove_hooks(); }

  void open_file() {
    std::vector<int64_t> sizes;
    for (const ParameterKind& kind : kinds) sizes.push_back(kind.size);
    const int64_t scratch = all_float ? 0 : sizeof(float);
    if (::access(options.file.c_str(), F_OK) != 0) {
      const int64_t elements =
          elements_for(options.budget_bytes, kBuffers, sections, scratch, sizes);
      TORCH_CHECK_VALUE(elements > 0, "budget_bytes = ", options.budget_bytes,
                        " is too little: ", kBuffers, " groups of ", kPieceAlign, " elements take ",
                        kBuffers * (sections + 1) * kPage + kPieceAlign * scratch);
      TORCH_CHECK_VALUE(options.at_step <= 0, "optimizer state file ", options.file,
                        " does not exist, and at_step = ", options.at_step, " asks for one");
      const std::vector<Group> groups = plan_groups(sizes, elements);
      StateFile::create(options.file, kinds, elements, sections, options.access,
                        [&](int64_t group, std::byte* slot) {
                          if (sections < kMaxSections) return;
                          for (const Piece& piece : groups[group].pieces)
                            keep_parameter(groups[group], slot, piece);
                        });
    }
    file =
        std::make_unique<StateFile>(options.file, kinds, sections, options.access, options.at_step);
  }

  void make_groups() {
    const std::vector<Group>& groups = file->groups();
    int64_t slot = kPage, elements = 0;
    for (const Group& group : groups) {
      slot = std::max(slot, group.slot_bytes(sections));
      elements = std::max(elements, group.section_bytes / int64_t{sizeof(float)});
      state_bytes += group.slot_bytes(sections);
    }
    const int64_t scratch = all_float ? 0 : elements * int64_t{sizeof(float)};
    resident_bytes = kBuffers * slot + scratch;
    TORCH_CHECK_VALUE(resident_bytes <= options.budget_bytes, "optimizer state file ", options.file,
                      " was made with groups for which ", resident_bytes,
                      " bytes are needed, and budget_bytes is ", options.budget_bytes,
                      "; raise it, or name another file");
    if (scratch > 0) gradient = at::empty({elements}, at::kFloat);
    std::vector<PageBuffer> buffers;
    for (int i = 0; i < kBuffers; ++i) buffers.emplace_back(slot);
    load_parameters(buffers.front().data());
    groups_of.resize(parameters.size());
    arrivals = std::vector<Arrivals>(groups.size());
    for (size_t g = 0; g < groups.size(); ++g)
      for (const Piece& piece : groups[g].pieces) {
        groups_of[piece.parameter].push_back(static_cast<int64_t>(g));
        if (parameters[piece.parameter].requires_grad())
          arrivals[g].expected += options.backwards_per_step;
      }
    std::vector<int64_t> order(groups.size());  // gradients of the last layers come first
    std::iota(order.rbegin(), order.rend(), 0);
    pipeline = std::make_unique<Pipeline>(
        GroupWork{[this](int64_t g, std::byte* slot) { read(g, slot); },
                  [this](int64_t g, std::byte* slot) { update(g, slot); },
                  [this](int64_t g, std::byte* slot, int64_t step) {
                    file->write(g, slot, step);
                    written += file->groups()[g].slot_bytes(sections);
                  },
                  [this](int64_t step) { file->commit(step, options.sync); }},
        std::move(buffers), static_cast<int64_t>(groups.size()), file->committed(),
        std::move(order));
  }

  int read_sections() const { return all_float ? kMaxSections - 1 : kMaxSections; }

  void read(int64_t g, std::byte* slot) {
    file->read(g, slot, read_sections());
    read_bytes += file->groups()[g].slot_bytes(read_sections());
  }

  void keep_parameter(const Group& group, std::byte* slot, const Piece& piece) const {
    section(group, slot, 2, piece).copy_(part(parameters[piece.parameter].detach(), piece));
  }

  void load_parameters(std::byte* slot) {
    if (sections < kMaxSections) return;
    const c10::NoGradGuard no_grad;
    for (size_t g = 0; g < file->groups().size(); ++g) {
      const Group& group = file->groups()[g];
      file->read(static_cast<int64_t>(g), slot, sections);
      for (const Piece& piece : group.pieces)
        part(parameters[piece.parameter], piece).copy_(section(group, slot, 2, piece));
    }
  }

  // Before a file is made, parameters are loaded or any hook is set.
  void check_hooks() const {
    if (!options.interleave) return;
    for (size_t i = 0; i < parameters.size(); ++i)
      TORCH_CHECK_VALUE(!parameters[i].requires_grad() ||
                            torch::autograd::impl::post_acc_grad_hooks(parameters[i]) == nullptr,
                        "parameter ", i,
                        " has a post-accumulate-gradient hook already, as of another optimizer; "
                        "remove it, or set interleave = false");
  }

  void add_hooks() {
    if (!options.interleave) return;
    try {
      for (size_t i = 0; i < parameters.size(); ++i) {
        const Tensor& p = parameters[i];
        if (!p.requires_grad()) continue;
        hooked.push_back(p);
        torch::autograd::impl::set_post_acc_grad_hooks(
            p, std::make_unique<GradientHook>([this, i] { arrived(i); }));
      }
    } catch (...) {
      remove_hooks();  // they hold `this`, and no destructor runs
      throw;
    }
  }

  void remove_hooks() {
    for (const Tensor& p : hooked) torch::autograd::impl::set_post_acc_grad_hooks(p, nullptr);
  }

  void arrived(size_t parameter) {
    for (const int64_t g : groups_of[parameter]) {
      Arrivals& group = arrivals[g];
      ++group.count;
      if (group.count == group.expected) pipeline->ready(g);
      if (group.count > group.expected) surplus = static_cast<int64_t>(parameter);
    }
  }

  void update(int64_t g, std::byte* slot) {
    const c10::NoGradGuard no_grad;
    const Group& group = file->groups()[g];
    const auto steps = StateFile::piece_steps(slot, static_cast<int64_t>(group.pieces.size()));
    for (size_t i = 0; i < group.pieces.size(); ++i) {
      const Piece& piece = group.pieces[i];
      const Tensor& parameter = parameters[piece.parameter];
      const bool is_float = parameter.scalar_type() == at::kFloat;
      Tensor grad = parameter.grad();
      if (!grad.defined()) {
        if (is_float && sections == kMaxSections) keep_parameter(group, slot, piece);
        continue;
      }
      TORCH_CHECK(grad.layout() == at::kStrided, "the gradient of parameter ", piece.parameter,
                  " is sparse; OffloadedAdamW takes dense ones");
      grad = part(grad.contiguous(), piece);
      const Tensor own = part(parameter, piece);
      Tensor value = own;
      if (!is_float) {
        value = section(group, slot, 2, piece);
        grad = gradient.narrow(0, 0, piece.count).copy_(grad);
      }
      const Tensor step = at::empty({}, at::kFloat).fill_(static_cast<double>(++steps[i]));
      at::_fused_adamw_(value, grad, section(group, slot, 0, piece), section(group, slot, 1, piece),
                        {}, step, options.lr, options.beta1, options.beta2, options.weight_decay,
                        options.eps, false, false);
      if (!is_float) {
        own.copy_(value);
      } else if (sections == kMaxSections) {
        keep_parameter(group, slot, piece);
      }
      updated += piece.count;
    }
  }

  void step() {
    pipeline->check();
    std::vector<int64_t> others;
    for (size_t g = 0; g < arrivals.size(); ++g) {
      const bool begun = options.interleave && arrivals[g].expected > 0 &&
                         arrivals[g].count >= arrivals[g].expected;
      const auto has_gradient = [&](const Piece& piece) {
        return parameters[piece.parameter].grad().defined();
      };
      if (!begun && std::ranges::any_of(file->groups()[g].pieces, has_gradient))
        others.push_back(static_cast<int64_t>(g));
    }
    const int64_t late = std::exchange(surplus, -1);
    TORCH_CHECK(late < 0, "parameter ", late, " got more gradients in this step than the ",
                options.backwards_per_step,
                " that backwards_per_step announces, after its update had begun; set it to the "
                "number of backward passes per step, those that fail included, and restore()");
    pipeline->finish_step(others);
    for (Arrivals& group : arrivals) group.count = 0;
  }

  void restore() {
    pipeline->reset([this](std::byte* slot) {
      file->roll_back();
      load_parameters(slot);
      for (Arrivals& group : arrivals) group.count = 0;
      surplus = -1;
      return file->committed();
    });
  }

  struct Arrivals {
    int64_t expected = 0, count = 0;  // gradients of its pieces, in this step
  };

  OffloadOptions options;
  std::vector<Tensor> parameters, hooked;
  std::vector<ParameterKind> kinds;
  bool all_float = true;
  int sections = 0;
  int64_t state_bytes = 0, resident_bytes = 0;
  std::unique_ptr<StateFile> file;
  Tensor gradient;                              // of one piece, in fp32
  std::vector<std::vector<int64_t>> groups_of;  // per parameter
  std::vector<Arrivals> arrivals;               // per group
  int64_t surplus = -1;                         // a parameter with more gradients than expected
  std::atomic<int64_t> read_bytes = 0, written = 0, updated = 0;
  std::unique_ptr<Pipeline> pipeline;  // last: its threads use all of the above
};

OffloadedAdamW::OffloadedAdamW(std::vector<Tensor> parameters, OffloadOptions options)
    : impl_(std::make_unique<Impl>(std::move(parameters), std::move(options))) {}
OffloadedAdamW::~OffloadedAdamW() = default;
OffloadedAdamW::OffloadedAdamW(OffloadedAdamW&&) noexcept = default;
OffloadedAdamW& OffloadedAdamW::operator=(OffloadedAdamW&&) noexcept = default;

void OffloadedAdamW::step() {
  impl_->step();
}
void OffloadedAdamW::wait() {
  impl_->pipeline->wait();
}
void OffloadedAdamW::restore() {
  impl_->restore();
}
void OffloadedAdamW::zero_grad() {
  for (const Tensor& p : impl_->parameters) p.mutable_grad().reset();
}
void OffloadedAdamW::set_lr(double lr) {
  TORCH_CHECK_VALUE(lr >= 0, "lr = ", lr, " must be at least 0");
  impl_->options.lr = lr;
}
int64_t OffloadedAdamW::steps() const {
  return impl_->pipeline->step();
}
int64_t OffloadedAdamW::committed() const {
  return impl_->file->committed();
}
int64_t OffloadedAdamW::group_count() const {
  return static_cast<int64_t>(impl_->file->groups().size());
}
int64_t OffloadedAdamW::resident_bytes() const {
  return impl_->resident_bytes;
}
int64_t OffloadedAdamW::state_bytes() const {
  return impl_->state_bytes;
}
bool OffloadedAdamW::direct() const {
  return impl_->file->direct();
}

OffloadStats OffloadedAdamW::stats() const {
  const PipelineTimes times = impl_->pipeline->times();
  return {impl_->read_bytes, impl_->written, impl_->updated, times.read,
          times.update,      times.write,    times.waited,   times.early};
}

std::vector<Tensor> OffloadedAdamW::state(int64_t parameter) {
  TORCH_CHECK_VALUE(parameter >= 0 && parameter < static_cast<int64_t>(impl_->parameters.size()),
                    "parameter ", parameter, " of ", impl_->parameters.size());
  wait();
  std::vector<Tensor> out;
  for (int i = 0; i < 2; ++i)
    out.push_back(at::empty(impl_->parameters[parameter].sizes(), at::kFloat));
  for (const int64_t g : impl_->groups_of[parameter]) {
    const Group& group = impl_->file->groups()[g];
    const PageBuffer slot(group.slot_bytes(2));
    impl_->file->read(g, slot.data(), 2);
    for (const Piece& piece : group.pieces)
      for (int i = 0; i < 2; ++i)
        if (piece.parameter == parameter)
          part(out[i], piece).copy_(section(group, slot.data(), i, piece));
  }
  return out;
}

}  // namespace graft::systems
