// A plan's structure and numbers, and copies of it with other numbers.
#include "ir/numbers.h"

#include <bit>

#include "runtime/plan/folded.h"
#include "runtime/plan/plan.h"

namespace graft::runtime {

namespace {

using ir::NumberKind;
using ir::NumberVisitor;

void visit(Place& at, NumberVisitor& v) {
  v.structure(at.block);
  v.exact(at.offset);
}

void visit(ViewSpec& spec, NumberVisitor& v) {
  visit(spec.place, v);
  ir::visit(spec.view, v);
  for (int value : {spec.argument, spec.captured, spec.carrier_argument, spec.carrier_captured})
    v.structure(value);
  v.structure(spec.contiguous);
}

void visit_views(std::vector<ViewSpec>& specs, NumberVisitor& v) {
  v.structure(static_cast<int64_t>(specs.size()));
  for (ViewSpec& spec : specs) visit(spec, v);
}

void visit(Block& block, NumberVisitor& v) {
  v.structure(static_cast<int64_t>(block.kind));
  v.structure(block.source);
  v.structure(block.written * 2 + block.late);
  v.exact(block.back);
  v.number(block.ahead, NumberKind::Room);
  v.number(block.bytes, block.kind == Block::Kind::Arena ? NumberKind::Room : NumberKind::Exact);
}

/// A text that no visitor changes.
void visit_text(std::string text, NumberVisitor& v) {
  v.text(text);
}

/// A number that a visitor may change.
template <class Make>
void visit_number(c10::IValue& value, int64_t bits, NumberKind kind, NumberVisitor& v, Make make) {
  const int64_t before = bits;
  v.made(bits, kind);
  if (bits != before) value = make(bits);
}

void visit(c10::IValue& value, NumberVisitor& v) {
  visit_text(value.tagKind(), v);
  if (value.isInt()) {
    visit_number(value, value.toInt(), NumberKind::Exact, v, [](int64_t n) { return n; });
  } else if (value.isDouble()) {
    visit_number(value, std::bit_cast<int64_t>(value.toDouble()), NumberKind::Real, v,
                 [](int64_t bits) { return std::bit_cast<double>(bits); });
  } else if (value.isIntList()) {
    // Lists are shared by those who copy a value.
    std::vector<int64_t> list = value.toIntVector();
    const std::vector<int64_t> before = list;
    v.size(list);
    for (int64_t& one : list) v.made(one, NumberKind::Exact);
    if (list != before) value = c10::IValue(list);
  } else if (value.isBool()) {
    v.structure(value.toBool());
  } else if (value.isString()) {
    visit_text(value.toStringRef(), v);
  } else if (value.isNone()) {
  } else if (value.isDevice()) {
    visit_text(value.toDevice().str(), v);
  } else if (value.isDoubleList()) {
    for (double d : value.toDoubleVector()) v.structure(std::bit_cast<int64_t>(d));
  } else if (value.isBoolList()) {
    for (bool b : value.toBoolList()) v.structure(b);
  } else if (value.isGenerator()) {
    v.structure(reinterpret_cast<intptr_t>(value.toGenerator().unsafeGetGeneratorImpl()));
  } else if (value.isTensor()) {
    // A number as a tensor: the schema's default, or one that the program has as a constant.
    const at::Tensor& tensor = value.toTensor();
    v.structure(tensor.defined());
    if (!tensor.defined()) return;
    v.structure(static_cast<int64_t>(tensor.scalar_type()));
    v.structure(tensor.dim());
    v.structure(std::bit_cast<int64_t>(
        tensor.dim() == 0 && !tensor.is_complex()
            ? tensor.item<double>()
            : static_cast<double>(reinterpret_cast<intptr_t>(tensor.data_ptr()))));
  } else {
    v.structure(
        reinterpret_cast<intptr_t>(value.isPtrType() ? value.internalToPointer() : nullptr));
  }
}

void visit(KernelStep& step, NumberVisitor& v) {
  v.part(step.binding.has_room);
  v.structure(std::bit_cast<int64_t>(step.fn));
  v.structure(static_cast<int64_t>(step.pointers.size()));
  for (Place& at : step.pointers) visit(at, v);
  codegen::Binding& binding = step.binding;
  v.structure(static_cast<int64_t>(binding.in_scratch.size()));
  for (auto& part : binding.in_scratch) {
    v.structure(part.slot);
    int64_t& value = binding.integers[static_cast<size_t>(part.slot)];
    value -= part.base;
    v.number(part.base, NumberKind::Room);
    value += part.base;
    v.above(value, part.base, NumberKind::Exact);
  }
  size_t next = 0;
  v.structure(static_cast<int64_t>(binding.integers.size()));
  for (size_t k = 0; k < binding.integers.size(); ++k) {
    if (next < binding.in_scratch.size() && static_cast<size_t>(binding.in_scratch[next].slot) == k)
      ++next;
    else
      v.exact(binding.integers[k]);
  }
  v.structure(static_cast<int64_t>(binding.scalars.size()));
  for (uint64_t& scalar : binding.scalars)
    v.number(reinterpret_cast<int64_t&>(scalar), NumberKind::Real);
  v.exact(binding.range_extent);
  v.number(binding.grain, NumberKind::Free);
  v.number(binding.scratch_bytes, NumberKind::Room);
}

void visit(ExternStep& step, NumberVisitor& v) {
  visit_text(c10::toString(step.op.operator_name()), v);
  v.structure(static_cast<int64_t>(step.slots.size()));
  for (ExternStep::Slot& slot : step.slots) {
    v.structure(static_cast<int64_t>(slot.kind));
    v.structures(slot.views);
    v.structure(slot.optional);
    visit(slot.constant, v);
  }
  visit_views(step.inputs, v);
  v.structure(static_cast<int64_t>(step.outputs.size()));
  for (ExternStep::Output& output : step.outputs) {
    visit(output.view, v);
    v.structure(output.binds * 2 + output.made);
  }
}

void visit(Step& step, NumberVisitor& v) {
  v.structure(static_cast<int64_t>(step.kind));
  v.structure(step.index);
  visit(step.flag, v);
  v.structure(step.visible_before * 2 + step.visible_after);
  v.structures(step.acquire);
  v.structures(step.release);
}

void visit(ResultSpec& result, NumberVisitor& v) {
  v.structure(static_cast<int64_t>(result.kind));
  v.structure(result.index);
  visit(result.view, v);
  ir::visit(result.lineage, v);
  v.structure(result.returned);
  ir::visit(result.gradient_of, v);
}

template <class T>
void visit_all(std::vector<T>& all, NumberVisitor& v) {
  v.structure(static_cast<int64_t>(all.size()));
  for (T& one : all) visit(one, v);
}

}  // namespace

void Plan::visit(ir::NumberVisitor& v) {
  using graft::runtime::visit;
  v.part(false);
  visit_all(blocks_, v);
  v.structure(has_storages_ * 4 + sets_gradients_ * 2 + arena_shared_);
  visit_all(steps_, v);
  visit_all(kernels_, v);
  v.part(false);
  visit_all(externs_, v);
  visit_all(results_, v);
  v.structures(result_order_);
  v.structure(static_cast<int64_t>(undone_steps_));
  v.structures(undone_);
  v.structure(static_cast<int64_t>(raises_.size()));
  for (const Raise& raise : raises_) {
    v.structure(raise.index * 2 + raise.captured);
    v.structure(static_cast<int64_t>(raise.step));
  }
  visit_views(argument_views_, v);
  visit_views(captured_views_, v);
}

std::unique_ptr<Plan> Plan::with_numbers(const std::vector<int64_t>& numbers) const {
  std::unique_ptr<Plan> made(new Plan);
  made->blocks_ = blocks_;
  made->has_storages_ = has_storages_;
  made->sets_gradients_ = sets_gradients_;
  made->communicates_ = communicates_;
  made->arena_shared_ = arena_shared_;
  made->steps_ = steps_;
  made->kernels_ = kernels_;
  made->externs_ = externs_;
  made->results_ = results_;
  made->result_order_ = result_order_;
  made->raises_ = raises_;
  made->argument_views_ = argument_views_;
  made->captured_views_ = captured_views_;
  made->max_pointers_ = max_pointers_;
  made->generators_ = generators_;
  made->rewinds_ = rewinds_;
  made->undone_steps_ = undone_steps_;
  made->undone_ = undone_;
  made->set_numbers(numbers);
  return made;
}

void Plan::set_numbers(const std::vector<int64_t>& numbers) {
  ir::Replace replace(numbers);
  visit(replace);
}

}  // namespace graft::runtime
