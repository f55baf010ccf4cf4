#include "ir/numbers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

#include "ir/visit.h"

namespace graft::ir {

namespace {

// Walks name all fields, so that one that is added is not forgotten: a plan that is read back would
// lack it.

void visit(Signature& signature, NumberVisitor& v) {
  auto& [arguments, captured, bumped, bumped_captured, results] = signature;
  for (auto* views : {&arguments, &captured}) {
    v.size(*views);
    for (View& view : *views) graft::ir::visit(view, v);
  }
  v.structures(bumped);
  v.structures(bumped_captured);
  v.size(results);
  for (Result& result : results) {  // (its fields are two classes', which cannot be named so)
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

/// All but the payload. Operation, type and number of operands share a word, and operands missing
/// at the end have none: plans are looked for by these bytes, and programs are mostly nodes.
void visit_form(Node& node, NumberVisitor& v) {
  constexpr int64_t kByte = 256;
  auto& [op, type, in, payload] = node;
  static_assert(sizeof(op) == 1 && sizeof(type) == 1);
  size_t operands = in.size();
  while (operands > 0 && in[operands - 1] < 0) --operands;
  int64_t form = static_cast<int64_t>(op) + kByte * static_cast<int64_t>(type) +
                 kByte * kByte * static_cast<int64_t>(operands);
  v.word(form);
  if (form < 0 || form / (kByte * kByte) > static_cast<int64_t>(in.size()))
    throw std::runtime_error("a node in it has no such form");
  op = static_cast<Op>(form % kByte);
  type = static_cast<ScalarType>(form / kByte % kByte);
  operands = static_cast<size_t>(form / (kByte * kByte));
  for (size_t k = 0; k < operands; ++k) v.structure(in[k]);
  std::fill(in.begin() + static_cast<std::ptrdiff_t>(operands), in.end(), -1);
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
    visit_form(node, v);
    if (node.op == Op::Const)
      v.number(node.payload, kind_of(node.type));
    else
      v.structure(node.payload);
    if (node.op == Op::Scalar) kinds.at(static_cast<size_t>(node.payload)) = kind_of(node.type);
  }
  for (size_t k = 0; k < scalars.size(); ++k)
    v.number(reinterpret_cast<int64_t&>(scalars[k]), kinds[k]);
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
  auto& [op, slots, inputs, outputs, written, record, may_be_loops, may_be_alone, short_factors,
         undefined] = call;
  v.text(op.name);
  v.text(op.overload);
  v.size(slots);
  for (auto& [kind, constant, indices] : slots) {
    v.structure(kind);
    visit(constant, v);
    v.structures(indices);
  }
  for (auto* views : {&inputs, &outputs}) {
    v.size(*views);
    for (View& view : *views) graft::ir::visit(view, v);
  }
  v.structures(written);
  v.structure(record);
  for (bool* may : {&may_be_loops, &may_be_alone, &short_factors}) v.structure(*may);
  v.structure(undefined);
}

void visit(Abort& check, NumberVisitor& v) {
  auto& [flag, record] = check;
  v.structure(flag);
  v.structure(record);
}

void visit(Repeat& loop, NumberVisitor& v) {
  auto& [count, body, origin] = loop;
  v.exact(count);
  if (v.there(origin)) v.structure(*origin);
  v.size(body);
  for (Statement& s : body) visit(s, v);
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
  auto& [statement, axis_var, streamed, transposed, columns, product, adds, needed, quiet, outside,
         ahead] = placed;
  visit(statement, v);
  v.structures(axis_var);
  for (bool* is : {&streamed, &transposed, &product, &adds}) v.structure(*is);
  v.structure(columns);
  v.structure(needed);
  if (v.there(quiet)) {
    auto& [first, last, value, finite, deferred] = *quiet;
    v.structure(first);
    v.structure(last);
    v.real(value);
    v.structures(finite);
    v.structure(deferred);
  }
  if (v.there(outside)) {
    auto& [first, last, finite] = *outside;
    for (int* load : {&first, &last, &finite}) v.structure(*load);
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
  made(bits, NumberKind::Real);
  value = std::bit_cast<double>(bits);
}

void visit(View& view, NumberVisitor& v) {
  auto& [storage, dtype, byte_offset, sizes, strides] = view;
  v.structure(storage);
  v.structure(dtype);
  v.exact(byte_offset);
  v.exact(sizes);
  v.exact(strides);
}

void visit(std::optional<CallersTensor>& tensor, NumberVisitor& v) {
  if (!v.there(tensor)) return;
  auto& [captured, index] = *tensor;
  v.structure(captured);
  v.structure(index);
}

void visit(Lineage& lineage, NumberVisitor& v) {
  auto& [root, index, view, creation, inference] = lineage;
  v.structure(root);
  v.structure(index);
  v.structure(view);
  v.structure(creation);
  v.structure(inference);
}

void visit(Program& program, NumberVisitor& v) {
  auto& [signature, storages, items] = program;
  visit(signature, v);
  visit(storages, v);
  v.size(items);
  for (Item& item : items) visit(item, v);
}

void visit(Schedule& schedule, NumberVisitor& v) {
  auto& [signature, storages, steps, arena_offset, arena_bytes, in_place_of] = schedule;
  visit(signature, v);
  visit(storages, v);
  v.size(steps);
  for (Step& step : steps) visit(step, v);
  v.size(arena_offset);
  for (int64_t& offset : arena_offset) v.number(offset, NumberKind::Room);
  v.number(arena_bytes, NumberKind::Room);
  v.structures(in_place_of);
}

}  // namespace graft::ir
