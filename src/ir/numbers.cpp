#include "ir/numbers.h"

#include "ir/visit.h"

namespace graft::ir {

namespace {

void visit(Signature& signature, NumberVisitor& v) {
  for (auto* views : {&signature.arguments, &signature.captured}) {
    v.structure(static_cast<int64_t>(views->size()));
    for (View& view : *views) graft::ir::visit(view, v);
  }
  v.structures(signature.bumped);
  v.structures(signature.bumped_captured);
  v.structure(static_cast<int64_t>(signature.results.size()));
  for (Result& result : signature.results) {
    for (int value : {result.argument, result.captured, result.same_as}) v.structure(value);
    v.structure(result.defined * 2 + result.returned);
    graft::ir::visit(result.gradient_of, v);
    graft::ir::visit(result.lineage, v);
    graft::ir::visit(result.view, v);
  }
}

void visit(Storage& storage, NumberVisitor& v) {
  v.structure(static_cast<int64_t>(storage.role));
  v.structure(storage.source);
  v.structure(storage.made_by_extern * 2 + storage.folded);
  v.exact(storage.bytes);
}

void visit(Access& access, NumberVisitor& v) {
  v.structure(access.storage);
  v.structure(static_cast<int64_t>(access.dtype));
  v.exact(access.offset);
  v.exact(access.strides);
  v.structure(static_cast<int64_t>(access.indirect.size()));
  for (Indirect& part : access.indirect) {
    v.structure(part.index);
    v.exact(part.stride);
    v.exact(part.extent);
  }
}

NumberKind kind_of(ScalarType type) {
  return is_float(type) ? NumberKind::Real : NumberKind::Exact;
}

void visit(Statement& s, NumberVisitor& v) {
  v.exact(s.axes);
  v.exact(s.growth);
  visit(s.store, v);
  v.structure(static_cast<int64_t>(s.loads.size()));
  for (Access& load : s.loads) visit(load, v);
  v.structure(static_cast<int64_t>(s.expr.nodes.size()));
  std::vector<NumberKind> scalars(s.scalars.size(), NumberKind::Exact);
  for (Node& node : s.expr.nodes) {
    v.structure(static_cast<int64_t>(node.op));
    v.structure(static_cast<int64_t>(node.type));
    for (NodeId in : node.in) v.structure(in);
    if (node.op == Op::Const)
      v.number(node.payload, kind_of(node.type));
    else
      v.structure(node.payload);
    if (node.op == Op::Scalar) scalars[static_cast<size_t>(node.payload)] = kind_of(node.type);
  }
  v.structure(static_cast<int64_t>(s.scalars.size()));
  for (size_t k = 0; k < s.scalars.size(); ++k) {
    auto bits = static_cast<int64_t>(s.scalars[k]);
    v.number(bits, scalars[k]);
    s.scalars[k] = static_cast<uint64_t>(bits);
  }
  for (int value : {s.value, s.record, s.after}) v.structure(value);
  v.structure(s.reduction.has_value() * 4 + s.rest * 2 + s.product);
  if (!s.reduction) return;
  v.structure(static_cast<int64_t>(s.reduction->op));
  v.structure(static_cast<int64_t>(s.reduction->type));
  v.structure(s.reduction->input);
  v.structure(s.reduction->scan);
  for (bool reduced : s.reduction->axes) v.structure(reduced);
}

void visit(Extern& call, NumberVisitor& v) {
  v.structure(call.op.name);
  v.structure(call.op.overload);
  v.structure(static_cast<int64_t>(call.slots.size()));
  for (Extern::Slot& slot : call.slots) {
    v.structure(static_cast<int64_t>(slot.kind));
    graft::ir::visit(slot.constant, v);
    v.structures(slot.views);
  }
  for (auto* views : {&call.inputs, &call.outputs}) {
    v.structure(static_cast<int64_t>(views->size()));
    for (View& view : *views) graft::ir::visit(view, v);
  }
  v.structures(call.written);
  v.structure(call.record);
  v.structure(call.may_be_loops * 4 + call.may_be_alone * 2 + call.short_factors);
}

void visit(Item& item, NumberVisitor& v) {
  v.structure(static_cast<int64_t>(item.index()));
  match(
      item, [&](Statement& s) { visit(s, v); }, [&](Extern& call) { visit(call, v); },
      [&](Abort& check) {
        v.structure(check.flag);
        v.structure(check.record);
      },
      [&](Repeat& loop) {
        v.exact(loop.count);
        v.structure(loop.origin ? static_cast<int64_t>(*loop.origin) : -1);
        v.structure(static_cast<int64_t>(loop.body.size()));
        for (Statement& s : loop.body) visit(s, v);
      });
}

}  // namespace

void NumberVisitor::structure(std::string_view text) {
  structure(static_cast<int64_t>(text.size()));
  for (char c : text) structure(static_cast<int64_t>(c));
}

void visit(View& view, NumberVisitor& v) {
  v.structure(view.storage);
  v.structure(static_cast<int64_t>(view.dtype));
  v.exact(view.byte_offset);
  v.exact(view.sizes);
  v.exact(view.strides);
}

void visit(const std::optional<CallersTensor>& tensor, NumberVisitor& v) {
  v.structure(tensor ? tensor->index * 2 + tensor->captured : -1);
}

void visit(const Lineage& lineage, NumberVisitor& v) {
  v.structure(static_cast<int64_t>(lineage.root));
  v.structure(lineage.index);
  v.structure(lineage.view * 2 + lineage.inference);
  v.structure(lineage.creation);
}

void visit(Constant& constant, NumberVisitor& v) {
  v.structure(static_cast<int64_t>(constant.value.index()));
  match(
      constant.value, [](std::monostate) {}, [&](bool value) { v.structure(value); },
      [&](int64_t& value) { v.exact(value); },
      [&](double& value) {
        auto bits = std::bit_cast<int64_t>(value);
        v.number(bits, NumberKind::Real);
        value = std::bit_cast<double>(bits);
      },
      [&](const std::string& text) { v.structure(text); },
      [&](Constant::List& list) {
        v.structure(static_cast<int64_t>(list.size()));
        for (Constant& element : list) visit(element, v);
      },
      [&](NumberTensor& number) {
        v.structure(static_cast<int64_t>(number.dtype));
        v.structure(number.wrapped);
        v.number(number.bits, kind_of(number.dtype));
      },
      [&](const Opaque& opaque) {
        v.structure(opaque.what);
        v.structure(static_cast<int64_t>(reinterpret_cast<intptr_t>(opaque.value.get())));
      });
}

void visit(Program& program, NumberVisitor& v) {
  visit(program.signature, v);
  v.structure(static_cast<int64_t>(program.storages.size()));
  for (Storage& storage : program.storages) visit(storage, v);
  v.structure(static_cast<int64_t>(program.items.size()));
  for (Item& item : program.items) visit(item, v);
}

}  // namespace graft::ir
