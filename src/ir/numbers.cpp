#include "ir/numbers.h"

#include <array>
#include <bit>
#include <stdexcept>

#include "ir/visit.h"

namespace graft::ir {

namespace {

void visit(Signature& signature, NumberVisitor& v) {
  for (auto* views : {&signature.arguments, &signature.captured}) {
    v.size(*views);
    for (View& view : *views) graft::ir::visit(view, v);
  }
  v.structures(signature.bumped);
  v.structures(signature.bumped_captured);
  v.size(signature.results);
  for (Result& result : signature.results) {
    for (int* value : {&result.argument, &result.captured, &result.same_as}) v.structure(*value);
    v.structure(result.defined);
    v.structure(result.returned);
    graft::ir::visit(result.gradient_of, v);
    graft::ir::visit(result.lineage, v);
    graft::ir::visit(result.view, v);
  }
}

void visit(Storage& storage, NumberVisitor& v) {
  v.structure(storage.role);
  v.structure(storage.source);
  v.structure(storage.made_by_extern);
  v.structure(storage.folded);
  v.exact(storage.bytes);
}

void visit(Access& access, NumberVisitor& v) {
  v.structure(access.storage);
  v.structure(access.dtype);
  v.exact(access.offset);
  v.exact(access.strides);
  v.size(access.indirect);
  for (Indirect& part : access.indirect) {
    v.structure(part.index);
    v.exact(part.stride);
    v.exact(part.extent);
  }
}

NumberKind kind_of(ScalarType type) {
  return is_float(type) ? NumberKind::Real : NumberKind::Exact;
}

void visit(std::optional<Reduction>& reduction, NumberVisitor& v) {
  if (!v.there(reduction)) return;
  v.structure(reduction->op);
  v.structure(reduction->type);
  v.structure(reduction->input);
  v.structure(reduction->scan);
  v.structures(reduction->axes);
}

void visit(Statement& s, NumberVisitor& v) {
  v.exact(s.axes);
  v.exact(s.growth);
  visit(s.store, v);
  v.size(s.loads);
  for (Access& load : s.loads) visit(load, v);
  v.size(s.scalars);
  v.size(s.expr.nodes);
  std::vector<NumberKind> scalars(s.scalars.size(), NumberKind::Exact);
  for (Node& node : s.expr.nodes) {
    v.structure(node.op);
    v.structure(node.type);
    for (NodeId& in : node.in) v.structure(in);
    if (node.op == Op::Const)
      v.number(node.payload, kind_of(node.type));
    else
      v.structure(node.payload);
    if (node.op == Op::Scalar) scalars.at(static_cast<size_t>(node.payload)) = kind_of(node.type);
  }
  for (size_t k = 0; k < s.scalars.size(); ++k) {
    auto bits = static_cast<int64_t>(s.scalars[k]);
    v.number(bits, scalars[k]);
    s.scalars[k] = static_cast<uint64_t>(bits);
  }
  for (int* value : {&s.value, &s.record, &s.after}) v.structure(*value);
  v.structure(s.rest);
  v.structure(s.product);
  visit(s.reduction, v);
}

/// Which alternative it is. A visitor that fills makes that one.
template <class... T>
void visit_index(std::variant<T...>& value, NumberVisitor& v) {
  const auto before = static_cast<int64_t>(value.index());
  int64_t index = before;
  v.count(index);
  if (index == before) return;
  using Make = void (*)(std::variant<T...>&);
  constexpr std::array<Make, sizeof...(T)> make{
      [](std::variant<T...>& filled) { filled = T(); }...};
  make.at(static_cast<size_t>(index))(value);
}

void visit(Constant& constant, NumberVisitor& v) {
  visit_index(constant.value, v);
  match(
      constant.value, [](std::monostate) {}, [&](bool& value) { v.structure(value); },
      [&](int64_t& value) { v.exact(value); }, [&](double& value) { v.real(value); },
      [&](std::string& text) { v.text(text); },
      [&](Constant::List& list) {
        v.size(list);
        for (Constant& element : list) visit(element, v);
      },
      [&](NumberTensor& number) {
        v.structure(number.dtype);
        v.structure(number.wrapped);
        v.number(number.bits, kind_of(number.dtype));
      },
      [&](Opaque& opaque) { v.opaque(opaque); });
}

void visit(Extern& call, NumberVisitor& v) {
  v.text(call.op.name);
  v.text(call.op.overload);
  v.size(call.slots);
  for (Extern::Slot& slot : call.slots) {
    v.structure(slot.kind);
    visit(slot.constant, v);
    v.structures(slot.views);
  }
  for (auto* views : {&call.inputs, &call.outputs}) {
    v.size(*views);
    for (View& view : *views) graft::ir::visit(view, v);
  }
  v.structures(call.written);
  v.structure(call.record);
  for (bool* may : {&call.may_be_loops, &call.may_be_alone, &call.short_factors}) v.structure(*may);
  v.structure(call.undefined);
}

void visit(Abort& check, NumberVisitor& v) {
  v.structure(check.flag);
  v.structure(check.record);
}

void visit(Repeat& loop, NumberVisitor& v) {
  v.exact(loop.count);
  if (v.there(loop.origin)) v.structure(*loop.origin);
  v.size(loop.body);
  for (Statement& s : loop.body) visit(s, v);
}

void visit(std::vector<TreeNode>& body, NumberVisitor& v) {
  v.size(body);
  for (TreeNode& node : body) {
    v.structure(node.placed);
    bool is_loop = node.loop != nullptr;
    v.structure(is_loop);
    if (!is_loop) continue;
    if (node.loop == nullptr) node.loop = std::make_unique<Loop>();
    v.structure(node.loop->var);
    visit(node.loop->body, v);
  }
}

void visit(Placed& placed, NumberVisitor& v) {
  visit(placed.statement, v);
  v.structures(placed.axis_var);
  for (bool* is : {&placed.streamed, &placed.transposed, &placed.product, &placed.adds})
    v.structure(*is);
  v.structure(placed.columns);
  v.structure(placed.needed);
  if (v.there(placed.quiet)) {
    v.structure(placed.quiet->first);
    v.structure(placed.quiet->last);
    v.real(placed.quiet->value);
    v.structures(placed.quiet->finite);
  }
  v.size(placed.ahead);
  for (Placed::Ahead& ahead : placed.ahead)
    for (int* value : {&ahead.load, &ahead.var, &ahead.iterations}) v.structure(*value);
}

void visit(Kernel& kernel, NumberVisitor& v) {
  v.size(kernel.vars);
  for (Variable& var : kernel.vars) {
    v.exact(var.extent);
    v.structure(var.kind);
    v.exact(var.growth);
    v.structure(var.step);
  }
  v.structures(kernel.range);
  visit(kernel.body, v);
  v.size(kernel.placed);
  for (Placed& placed : kernel.placed) visit(placed, v);
  v.size(kernel.scratch);
  for (Scratch& scratch : kernel.scratch) {
    v.structure(scratch.storage);
    v.number(scratch.offset, NumberKind::Room);
    v.exact(scratch.bytes);
    v.structure(scratch.vectors);
  }
  v.number(kernel.scratch_bytes, NumberKind::Room);
  v.text(kernel.name);
  v.number(kernel.grain, NumberKind::Free);
  v.structures(kernel.own);
  v.structure(kernel.any_size);
  v.structure(kernel.is_rest);
}

template <class... T>
void visit(std::variant<T...>& item, NumberVisitor& v) {
  visit_index(item, v);
  std::visit([&](auto& alternative) { visit(alternative, v); }, item);
}

void visit(std::vector<Storage>& storages, NumberVisitor& v) {
  v.size(storages);
  for (Storage& storage : storages) visit(storage, v);
}

}  // namespace

void NumberVisitor::text(std::string& text) {
  structure(text.size());
  for (char c : text) structure(std::as_const(c));
}

void NumberVisitor::opaque(Opaque& value) {
  text(value.what);
  structure(reinterpret_cast<intptr_t>(value.value.get()));
}

void NumberVisitor::real(double& value) {
  auto bits = std::bit_cast<int64_t>(value);
  number(bits, NumberKind::Real);
  value = std::bit_cast<double>(bits);
}

void visit(View& view, NumberVisitor& v) {
  v.structure(view.storage);
  v.structure(view.dtype);
  v.exact(view.byte_offset);
  v.exact(view.sizes);
  v.exact(view.strides);
}

void visit(std::optional<CallersTensor>& tensor, NumberVisitor& v) {
  if (!v.there(tensor)) return;
  v.structure(tensor->captured);
  v.structure(tensor->index);
}

void visit(Lineage& lineage, NumberVisitor& v) {
  v.structure(lineage.root);
  v.structure(lineage.index);
  v.structure(lineage.view);
  v.structure(lineage.inference);
  v.structure(lineage.creation);
}

void visit(Program& program, NumberVisitor& v) {
  visit(program.signature, v);
  visit(program.storages, v);
  v.size(program.items);
  for (Item& item : program.items) visit(item, v);
}

void visit(Schedule& schedule, NumberVisitor& v) {
  visit(schedule.signature, v);
  visit(schedule.storages, v);
  v.size(schedule.steps);
  for (Step& step : schedule.steps) visit(step, v);
  v.size(schedule.arena_offset);
  for (int64_t& offset : schedule.arena_offset) v.number(offset, NumberKind::Room);
  v.number(schedule.arena_bytes, NumberKind::Room);
  v.structures(schedule.in_place_of);
}

}  // namespace graft::ir
