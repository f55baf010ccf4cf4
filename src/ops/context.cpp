#include "ops/context.h"

#include <algorithm>

#include "ops/overlap.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

const record::TensorInfo& first(const record::Trace& trace, const record::Operand& operand) {
  static const record::TensorInfo undefined;
  if (operand.tensors.empty() || operand.tensors[0] < 0) return undefined;
  return trace.tensors[static_cast<size_t>(operand.tensors[0])];
}

}  // namespace

const record::TensorInfo& Context::tensor(const record::OperatorRecord& op, size_t k) const {
  return first(trace, op.inputs.at(k));
}

const record::TensorInfo& Context::output(const record::OperatorRecord& op, size_t k) const {
  return first(trace, op.outputs.at(k));
}

ir::View Context::view(const record::TensorInfo& tensor) {
  return {tensor.storage, tensor.dtype, tensor.byte_offset, tensor.sizes, tensor.strides};
}

ir::View Context::temporary(const std::vector<int64_t>& sizes, c10::ScalarType dtype) {
  ir::Storage storage;
  storage.bytes = ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(dtype));
  program.storages.push_back(storage);
  return {static_cast<int>(program.storages.size()) - 1, dtype, 0, sizes,
          ir::contiguous_strides(sizes)};
}

void Context::emit(ir::Statement statement) {
  if (std::find(statement.axes.begin(), statement.axes.end(), 0) != statement.axes.end()) return;
  statement.record = record;
  forget(statement.store.storage);
  program.items.emplace_back(std::move(statement));
}

void Context::copy(const ir::View& from, const ir::View& to) {
  ir::View source = from;
  // A point may not read what another point of the same statement stores: overlapping copies go
  // through fresh memory.
  if (clash(to, from)) {
    source = temporary(from.sizes, from.dtype);
    copy(from, source);
  }
  ir::StatementBuilder s(to.sizes);
  emit(s.store(to, convert(s.load(source), to.dtype)));
}

void Context::fill(const ir::View& to, const c10::Scalar& value) {
  ir::StatementBuilder s(to.sizes);
  c10::ScalarType held = opmath(to.dtype);  // a scalar slot holds no Half or BFloat16
  emit(s.store(to, s.scalar(converted(value, held), held)));
}

bool Context::check(const std::vector<int64_t>& axes,
                    const std::function<ir::Value(ir::StatementBuilder&)>& bad) {
  if (visible_written()) return false;
  if (std::find(axes.begin(), axes.end(), 0) != axes.end()) return true;
  ir::View flag = temporary({}, c10::ScalarType::Bool);
  ir::StatementBuilder s(axes);
  ir::Value any = bad(s);
  if (axes.empty()) {
    emit(s.store(flag, any));
  } else {
    any = s.reduce(ir::ReduceOp::Or, any, std::vector<bool>(axes.size(), true),
                   c10::ScalarType::Bool);
    emit(s.store(flag, any));
  }
  program.items.emplace_back(ir::Abort{flag.storage, record});
  return true;
}

void Context::bound(const ir::View& view, int64_t count) {
  const record::StorageInfo& made = trace.storages.at(static_cast<size_t>(view.storage));
  if (made.origin == record::StorageInfo::Origin::Made && made.maker == record)
    bounds_[view.storage] = count;
}

bool Context::is_bounded(const ir::View& view, int64_t count) const {
  auto known = bounds_.find(view.storage);
  return known != bounds_.end() && known->second <= count && view.dtype == c10::ScalarType::Long;
}

bool Context::visible_written() const {
  auto visible = [&](int storage) {
    ir::Role role = program.storages[static_cast<size_t>(storage)].role;
    return role == ir::Role::Argument || role == ir::Role::Captured;
  };
  for (const ir::Item& item : program.items) {
    if (const auto* statement = std::get_if<ir::Statement>(&item)) {
      if (visible(statement->store.storage)) return true;
    } else if (const auto* call = std::get_if<ir::Extern>(&item)) {
      // The random generator's state is as visible as memory: a run given up after it would draw
      // again.
      if (call->op.hasTag(at::Tag::nondeterministic_seeded)) return true;
      for (int storage : call->written)
        if (visible(storage)) return true;
    }
  }
  return false;
}

}  // namespace graft::ops
