#include "ir/numbers.h"

#include <array>
#include <bit>
#include <stdexcept>

#include "ir/visit.h"

namespace graft::ir {

namespace {

// Walks of statements, kernels and their parts name all fields, so that one that is added is not
// forgotten: a plan that is read back would lack it.

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
  auto& [role, bytes, source, made_by_extern, folded] = storage;
  v.structure(role);
  v.structure(source);
  v.structure(made_by_extern);
  v.structure(folded);
  v.exact(bytes);
}

void visit(Access& access, NumberVisitor& v) {
  auto& [storage, dtype, offset, strides, indirect] = access;
  v.structure(storage);
  v.structure(dtype);
  v.exact(offset);
  v.exact(strides);
  v.size(indirect);
  for (auto& [index, stride, extent] : indirect) {
    v.structure(index);
    v.exact(stride);
    v.exact(extent);
  }
}

NumberKind kind_of(ScalarType type) {
  return is_float(type) ? NumberKind::Real : NumberKind::Exact;
}

void visit(std::optional<Reduction>& reduction, NumberVisitor& v) {
  if (!v.there(reduction)) return;
  auto& [op, type, input, axes, scan] = *reduction;
  v.structure(op);
  v.structure(type);
  v.structure(input);
  v.structure(scan);
  v.structures(axes);
}

void visit(Statement& s, NumberVisitor& v) {
  auto& [axes, store, loads, scalars, expr, value, reduction, record, product, rest, after,
         growth] = s;
  v.exact(axes);
  v.exact(growth);
  visit(store, v);
  v.size(loads);
  for (Access& load : loads) visit(load, v);
  v.size(scalars);
  v.size(expr.nodes);
  std::vector<NumberKind> kinds(scalars.size(), NumberKind::Exact);
  for (Node& node : expr.nodes) {
    v.structure(node.op);
    v.structure(node.type);
    for (NodeId& in : node.in) v.structure(in);
    if (node.op == Op::Const)
      v.number(node.payload, kind_of(node.type));
    else
      v.structure(node.payload);
    if (node.op == Op::Scalar) kinds.at(static_cast<size_t>(node.payload)) = kind_of(node.type);
  }
  for (size_t k = 0; k < scalars.size(); ++k) {
    auto bits = static_cast<int64_t>(scalars[k]);
    v.number(bits, kinds[k]);
    scalars[k] = static_cast<uint64_t>(bits);
  }
  for (int* id : {&value, &record, &after}) v.structure(*id);
  v.structure(rest);
  v.structure(product);
  visit(reduction, v);
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
  auto& [statement, axis_var, streamed, transposed, columns, product, adds, needed, quiet, ahead] =
      placed;
  visit(statement, v);
  v.structures(axis_var);
  for (bool* is : {&streamed, &transposed, &product, &adds}) v.structure(*is);
  v.structure(columns);
  v.structure(needed);
  if (v.there(quiet)) {
    auto& [first, last, value, finite] = *quiet;
    v.structure(first);
    v.structure(last);
    v.real(value);
    v.structures(finite);
  }
  v.size(ahead);
  for (auto& [load, var, iterations] : ahead)
    for (int* value : {&load, &var, &iterations}) v.structure(*value);
}

void visit(Kernel& kernel, NumberVisitor& v) {
  auto& [vars, range, body, placed, scratch, scratch_bytes, name, grain, own, any_size, is_rest,
         rows] = kernel;
  v.size(vars);
  for (auto& [extent, kind, growth, step] : vars) {
    v.exact(extent);
    v.structure(kind);
    v.exact(growth);
    v.structure(step);
  }
  v.structures(range);
  visit(body, v);
  v.size(placed);
  for (Placed& statement : placed) visit(statement, v);
  v.size(scratch);
  for (auto& [storage, offset, bytes, vectors] : scratch) {
    v.structure(storage);
    v.number(offset, NumberKind::Room);
    v.exact(bytes);
    v.structure(vectors);
  }
  v.number(scratch_bytes, NumberKind::Room);
  v.text(name);
  v.number(grain, NumberKind::Free);
  v.structures(own);
  v.structure(any_size);
  v.structure(is_rest);
  v.exact(rows);
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
