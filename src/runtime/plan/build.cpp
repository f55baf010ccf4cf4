#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <set>

#include "ir/overlap.h"
#include "ir/touch.h"
#include "ir/visit.h"
#include "ops/constant.h"
#include "runtime/plan/folded.h"
#include "runtime/plan/plan.h"
#include "tensor/communication.h"

namespace graft::runtime {

namespace {

using ir::Role;

bool is_contiguous(const View& view) {
  int64_t expected = 1;
  for (size_t d = view.sizes.size(); d-- > 0;) {
    // Unit dimensions too: TensorImpl::set_sizes_contiguous gives them the stride they would have
    // if longer.
    if (view.strides[d] != expected) return false;
    expected *= std::max<int64_t>(view.sizes[d], 1);
  }
  return true;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::logic_error("plan: " + what);
}

}  // namespace

class PlanBuilder {
 public:
  PlanBuilder(Plan& plan, const ir::Schedule& schedule)
      : plan_(plan),
        schedule_(schedule),
        signature_(schedule.signature),
        block_of_(schedule.storages.size(), -1) {}

  void run(std::vector<ReadyKernel> kernels) {
    make_blocks();
    for (const View& view : signature_.arguments)
      plan_.argument_views_.push_back(callers_spec(view));
    for (const View& view : signature_.captured)
      plan_.captured_views_.push_back(callers_spec(view));
    find_undone();
    size_t next = 0;
    for (const ir::Step& step : schedule_.steps) {
      Step made;
      made.visible_before = is_visible();
      ir::match(
          step,
          [&](const ir::Kernel& kernel) {
            if (next >= kernels.size()) fail("fewer kernels than steps");
            made.kind = Step::Kind::Kernel;
            made.folded = std::any_of(kernel.placed.begin(), kernel.placed.end(),
                                      [&](const ir::Placed& placed) {
                                        return storage(placed.statement.store.storage).folded;
                                      });
            made.index = add_kernel(kernel, std::move(kernels[next++]));
          },
          [&](const ir::Extern& call) {
            made.kind = Step::Kind::Extern;
            made.index = add_extern(call);
          },
          [&](const ir::Abort& check) {
            made.kind = Step::Kind::Abort;
            made.flag = place(check.flag, 0);
            plan_.rewinds_ = plan_.rewinds_ || !plan_.generators_.empty();
          });
      made.visible_after = is_visible();
      plan_.steps_.push_back(std::move(made));
    }
    add_results();
    set_lifetimes();
    plan_.has_storages_ =
        !plan_.externs_.empty() ||
        std::any_of(plan_.blocks_.begin(), plan_.blocks_.end(), [](const Block& block) {
          return block.kind == Block::Kind::Output || block.kind == Block::Kind::Temporary ||
                 block.kind == Block::Kind::Folded;
        });
    find_folded();
    add_raises(signature_.bumped, plan_.argument_views_, false);
    add_raises(signature_.bumped_captured, plan_.captured_views_, true);
    std::stable_sort(plan_.raises_.begin(), plan_.raises_.end(),
                     [](const Raise& a, const Raise& b) { return a.step < b.step; });
  }

 private:
  const ir::Storage& storage(int id) const {
    if (id < 0 || static_cast<size_t>(id) >= schedule_.storages.size())
      fail("no storage " + std::to_string(id));
    return schedule_.storages[static_cast<size_t>(id)];
  }

  /// What checks have to put back: the caller's memory that is written before the last of them.
  void find_undone() {
    std::set<int> written, undone;
    for (size_t k = 0; k < schedule_.steps.size(); ++k) {
      const ir::Step& step = schedule_.steps[k];
      if (std::holds_alternative<ir::Abort>(step) && !written.empty())
        plan_.undone_steps_ = k + 1, undone = written;
      ir::each_touch(step, [&](int storage, bool writes) {
        const int b = block_of_[static_cast<size_t>(storage)];
        if (writes && b >= 0 && plan_.blocks_[static_cast<size_t>(b)].is_callers())
          written.insert(b);
      });
    }
    plan_.undone_.assign(undone.begin(), undone.end());
  }

  bool is_visible() const {
    return plan_.steps_.size() >= plan_.undone_steps_ && (visible_ || !plan_.generators_.empty());
  }

  void make_blocks() {
    int arena = -1;
    for (size_t s = 0; s < schedule_.storages.size(); ++s) {
      const ir::Storage& from = schedule_.storages[s];
      Block block{.kind = Block::Kind::Output, .source = from.source, .bytes = from.bytes};
      if (from.role == Role::Argument) {
        block.kind = Block::Kind::Argument;
        block.back = source(signature_.arguments, from).byte_offset;
      } else if (from.role == Role::Captured) {
        block.kind = Block::Kind::Captured;
        block.back = source(signature_.captured, from).byte_offset;
      } else if (from.made_by_extern) {
        block.kind = Block::Kind::Extern;
      } else if (from.folded) {
        block.kind = Block::Kind::Folded;
      } else if (from.role == Role::Temporary) {
        const int64_t offset = schedule_.arena_offset.at(s);
        if (offset < 0 && offset != ir::kOwnBlock) continue;  // in a kernel's scratch
        if (offset == ir::kOwnBlock) {
          if (schedule_.predecessor(s) >= 0) continue;
          block_of_[s] = static_cast<int>(plan_.blocks_.size());
          plan_.blocks_.push_back(
              {.kind = Block::Kind::Temporary, .bytes = from.bytes, .written = true});
          continue;
        }
        if (arena < 0) {
          arena = static_cast<int>(plan_.blocks_.size());
          plan_.blocks_.push_back(
              {.kind = Block::Kind::Arena, .bytes = schedule_.arena_bytes, .written = true});
        }
        block = {.kind = Block::Kind::Part,
                 .source = arena,
                 .ahead = offset,
                 .bytes = from.bytes,
                 .written = true};
      }
      block_of_[s] = static_cast<int>(plan_.blocks_.size());
      plan_.blocks_.push_back(block);
    }
    for (size_t s = 0; s < block_of_.size(); ++s)
      if (schedule_.predecessor(s) >= 0 && schedule_.arena_offset[s] == ir::kOwnBlock)
        block_of_[s] = place_taken(s);
    first_write_.resize(plan_.blocks_.size());
  }

  /// The block of the first in a row of storages that take over each other's memory.
  int place_taken(size_t s) const {
    while (schedule_.predecessor(s) >= 0) s = static_cast<size_t>(schedule_.predecessor(s));
    return block_of_[s];
  }

  /// The caller's tensor whose data pointer gives a storage's address.
  static const View& source(const std::vector<View>& tensors, const ir::Storage& storage) {
    if (storage.source < 0 || static_cast<size_t>(storage.source) >= tensors.size())
      fail("a storage of the caller's has no tensor " + std::to_string(storage.source));
    return tensors[static_cast<size_t>(storage.source)];
  }

  Place place(int id, int64_t offset) const {
    storage(id);
    int block = block_of_[static_cast<size_t>(id)];
    if (block < 0)
      fail("storage " + std::to_string(id) + " is used outside of its kernel but has no memory");
    return {block, offset};
  }

  ViewSpec spec(const View& view) const {
    ViewSpec made;
    made.place = place(view.storage, view.byte_offset);
    made.view = view;
    made.contiguous = is_contiguous(view);
    carry(signature_.arguments, view, made.argument, made.carrier_argument);
    carry(signature_.captured, view, made.captured, made.carrier_captured);
    return made;
  }

  /// The tensors whose c10::Storage holds the view. An argument or capture that is the view itself
  /// serves as it is.
  static void carry(const std::vector<View>& tensors, const View& view, int& exact, int& carrier) {
    auto [low, high] = ir::byte_span(view);
    bool covered = false;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].storage != view.storage) continue;
      auto [first, last] = ir::byte_span(tensors[i]);
      bool covers = first <= low && high <= last;
      if (carrier < 0 || (covers && !covered)) carrier = static_cast<int>(i), covered = covers;
      if (exact < 0 && tensors[i] == view) exact = static_cast<int>(i);
    }
  }

  /// Of an argument or captured tensor; no block where it is undefined.
  ViewSpec callers_spec(const View& view) const {
    if (view.storage < 0) return {};
    storage(view.storage);
    return block_of_[static_cast<size_t>(view.storage)] < 0 ? ViewSpec{} : spec(view);
  }

  void write(int id) {
    int block = block_of_[static_cast<size_t>(id)];
    if (block < 0) return;
    Block& b = plan_.blocks_[static_cast<size_t>(block)];
    if (!b.written) first_write_[static_cast<size_t>(block)] = plan_.steps_.size();
    b.written = true;
    visible_ = visible_ || b.kind == Block::Kind::Argument || b.kind == Block::Kind::Captured;
  }

  void add_raises(const std::vector<int>& bumped, const std::vector<ViewSpec>& views,
                  bool captured) {
    for (int i : bumped) {
      int block = views[static_cast<size_t>(i)].place.block;
      bool stored = block >= 0 && plan_.blocks_[static_cast<size_t>(block)].written;
      plan_.raises_.push_back(
          {captured, i, stored ? first_write_[static_cast<size_t>(block)] : plan_.steps_.size()});
    }
  }

  int add_kernel(const ir::Kernel& kernel, ReadyKernel ready) {
    KernelStep step{ready.code.fn,
                    {},
                    std::move(ready.binding),
                    std::move(ready.code.keep_alive),
                    "graft::kernel-" + std::to_string(plan_.kernels_.size()) + "-" + kernel.name};
    if (step.fn == nullptr) fail("kernel " + kernel.name + " has no code");
    for (const auto& pointer : step.binding.pointers)
      step.pointers.push_back(place(pointer.storage, pointer.byte_offset));
    step.binding.structure = {};
    step.binding.pointers = {};
    plan_.max_pointers_ = std::max(plan_.max_pointers_, step.pointers.size());
    for (const ir::Placed& placed : kernel.placed) write(placed.statement.store.storage);
    plan_.kernels_.push_back(std::move(step));
    return static_cast<int>(plan_.kernels_.size()) - 1;
  }

  int add_extern(const ir::Extern& call) {
    auto op = c10::Dispatcher::singleton().findSchema({call.op.name, call.op.overload});
    if (!op) fail("this libtorch has no operator " + call.op.name + "." + call.op.overload);
    ExternStep step{*op, {}, {}, {}};
    const auto& schema = op->schema().arguments();
    if (call.slots.size() != schema.size())
      fail(call.op.name + " takes " + std::to_string(schema.size()) + " arguments, not " +
           std::to_string(call.slots.size()));
    for (size_t k = 0; k < call.slots.size(); ++k) {
      const auto& slot = call.slots[k];
      bool optional = schema[k].type()->kind() == c10::TypeKind::OptionalType;
      c10::IValue constant;
      if (slot.kind == OperandKind::Constant)
        constant = ops::value_of(slot.constant, schema[k].type());
      step.slots.push_back({slot.kind, std::move(constant), slot.views, optional});
    }
    for (const View& view : call.inputs) {
      step.inputs.push_back(spec(view));
      touches_arena(step.inputs.back());
    }
    for (const View& view : call.outputs) {
      ExternStep::Output output;
      output.view = spec(view);
      auto block = static_cast<size_t>(output.view.place.block);
      output.made =
          plan_.blocks_[block].kind == Block::Kind::Extern &&
          std::find(call.written.begin(), call.written.end(), view.storage) != call.written.end() &&
          !is_input(call, view.storage);
      output.binds = output.made && bound_.insert_new(block);
      step.outputs.push_back(std::move(output));
    }
    step.undefined = call.undefined;
    for (int id : call.written) write(id);
    if (op->hasTag(at::Tag::nondeterministic_seeded)) {
      note_generator(step);
      step.draw = draw_of(*op);
    }
    step.starts = call.op.name == kStartsCollective;
    step.awaits = call.op.name == kAwaitsCollective;
    if (communicates(call.op.name)) {
      if (plan_.steps_.size() < plan_.undone_steps_)
        fail("a check comes after other processes heard");
      visible_ = plan_.communicates_ = true;
    }
    plan_.externs_.push_back(std::move(step));
    return static_cast<int>(plan_.externs_.size()) - 1;
  }

  /// A generator's state is as visible as memory, except to checks, which put it back.
  void note_generator(const ExternStep& step) {
    at::Generator from = at::detail::getDefaultCPUGenerator();
    for (const auto& slot : step.slots)
      if (slot.constant.isGenerator()) from = slot.constant.toGenerator();
    auto& all = plan_.generators_;
    if (std::find(all.begin(), all.end(), from) == all.end()) all.push_back(from);
  }

  static bool is_input(const ir::Extern& call, int storage) {
    return std::any_of(call.inputs.begin(), call.inputs.end(),
                       [&](const View& v) { return v.storage == storage; });
  }

  bool is_part(const Place& at) const {
    return plan_.blocks_[static_cast<size_t>(at.block)].kind == Block::Kind::Part;
  }

  void touches_arena(const ViewSpec& view) {
    plan_.arena_shared_ = plan_.arena_shared_ || is_part(view.place);
  }

  void add_results() {
    for (const ir::Result& from : signature_.results) {
      ResultSpec made{
          ResultSpec::Kind::Undefined, -1, {}, from.lineage, from.returned, from.gradient_of};
      if (!from.defined) {
      } else if (from.same_as >= 0) {
        made.kind = ResultSpec::Kind::Same, made.index = from.same_as;
      } else if (from.argument >= 0) {
        made.kind = ResultSpec::Kind::Argument, made.index = from.argument;
      } else if (from.captured >= 0) {
        made.kind = ResultSpec::Kind::Captured, made.index = from.captured;
      } else {
        made.kind = ResultSpec::Kind::View;
        made.view = spec(from.view);
        if (is_part(made.view.place)) fail("a result lies in temporary memory");
      }
      plan_.sets_gradients_ = plan_.sets_gradients_ || made.gradient_of.has_value();
      plan_.results_.push_back(std::move(made));
    }
    order_results();
  }

  void order_results() {
    for (bool last : {false, true})
      for (size_t i = 0; i < plan_.results_.size(); ++i) {
        const ResultSpec& spec = plan_.results_[i];
        bool view = spec.kind == ResultSpec::Kind::View && spec.lineage.view;
        if ((view || spec.kind == ResultSpec::Kind::Same) == last)
          plan_.result_order_.push_back(static_cast<int>(i));
      }
  }

  /// The kernels that store in folded blocks, and the captured tensors whose memory they read.
  void find_folded() {
    Folded::Parts found;
    for (size_t b = 0; b < plan_.blocks_.size(); ++b)
      if (plan_.blocks_[b].kind == Block::Kind::Folded)
        found.blocks.push_back({b, plan_.blocks_[b].bytes});
    if (found.blocks.empty()) return;
    std::set<int> sources;
    for (const Step& step : plan_.steps_) {
      if (!step.folded) continue;
      const KernelStep& kernel = plan_.kernels_[static_cast<size_t>(step.index)];
      found.kernels.push_back(&kernel);
      for (const Place& at : kernel.pointers) sources.insert(at.block);
    }
    for (size_t i = 0; i < plan_.captured_views_.size(); ++i) {
      const ViewSpec& spec = plan_.captured_views_[i];
      if (!sources.contains(spec.place.block)) continue;
      const auto [low, high] = ir::byte_span(spec.view);
      const int64_t data = spec.view.byte_offset;
      found.sources.push_back({i, spec.place.offset, low - data, high - data});
    }
    plan_.folded_ = std::make_unique<Folded>(std::move(found));
  }

  /// Large memory comes when it is first needed, and goes as soon as nobody needs it, as in eager:
  /// the peak must not grow with the program's length.
  void set_lifetimes() {
    std::vector<int> first(plan_.blocks_.size(), -1), last = first;
    auto use = [&](const Place& at, size_t step) {
      if (at.block < 0) return;
      const auto b = static_cast<size_t>(at.block);
      if (first[b] < 0) first[b] = static_cast<int>(step);
      last[b] = static_cast<int>(step);
    };
    for (size_t k = 0; k < plan_.steps_.size(); ++k) {
      const Step& step = plan_.steps_[k];
      if (step.kind == Step::Kind::Abort) use(step.flag, k);
      if (step.kind == Step::Kind::Kernel)
        for (const Place& at : plan_.kernels_[static_cast<size_t>(step.index)].pointers) use(at, k);
      if (step.kind != Step::Kind::Extern) continue;
      for (const ViewSpec& view : plan_.externs_[static_cast<size_t>(step.index)].inputs)
        use(view.place, k);
      for (const auto& output : plan_.externs_[static_cast<size_t>(step.index)].outputs)
        use(output.view.place, k);
    }
    for (const ResultSpec& result : plan_.results_) use(result.view.place, plan_.steps_.size());
    for (size_t b = 0; b < last.size(); ++b) {
      Block& block = plan_.blocks_[b];
      auto is_step = [&](int k) { return k >= 0 && static_cast<size_t>(k) < plan_.steps_.size(); };
      const bool output = block.kind == Block::Kind::Output,
                 temporary = block.kind == Block::Kind::Temporary;
      block.late = is_step(first[b]) && (temporary || (output && block.bytes >= ir::kLarge));
      if (block.late)
        plan_.steps_[static_cast<size_t>(first[b])].acquire.push_back(static_cast<int>(b));
      if ((temporary || block.kind == Block::Kind::Extern) && is_step(last[b]))
        plan_.steps_[static_cast<size_t>(last[b])].release.push_back(static_cast<int>(b));
    }
  }

  struct BlockSet {
    std::vector<size_t> blocks;
    bool insert_new(size_t block) {
      if (std::find(blocks.begin(), blocks.end(), block) != blocks.end()) return false;
      blocks.push_back(block);
      return true;
    }
  };

  Plan& plan_;
  const ir::Schedule& schedule_;
  const ir::Signature& signature_;
  std::vector<int> block_of_;        ///< by storage; -1: none
  std::vector<size_t> first_write_;  ///< by block that is written: the step
  BlockSet bound_;
  bool visible_ = false;
};

size_t Plan::returned_count() const {
  return static_cast<size_t>(std::count_if(results_.begin(), results_.end(),
                                           [](const ResultSpec& spec) { return spec.returned; }));
}

Plan::Plan(const ir::Schedule& schedule, std::vector<ReadyKernel> kernels) {
  PlanBuilder(*this, schedule).run(std::move(kernels));
}
Plan::Plan() = default;
Plan::~Plan() = default;

int64_t Plan::folded_bytes() const {
  return folded_ ? folded_->bytes() : 0;
}

}  // namespace graft::runtime
