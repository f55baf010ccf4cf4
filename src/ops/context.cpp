#include "ops/context.h"

#include <c10/core/DynamicCast.h>

#include <algorithm>
#include <optional>

#include "ir/overlap.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

/// Parts of a storage that are remembered until they fill it.
constexpr size_t kMostParts = 8;

const record::TensorInfo& first(const record::Trace& trace, const record::Operand& operand) {
  static const record::TensorInfo undefined;
  if (operand.tensors.empty() || operand.tensors[0] < 0) return undefined;
  return trace.tensors[static_cast<size_t>(operand.tensors[0])];
}

/// Of a reduction.
int64_t results(const ir::Statement& s) {
  int64_t count = 1;
  for (size_t a = 0; a < s.axes.size(); ++a)
    if (!s.reduction->axes[a]) count *= s.axes[a];
  return count;
}

}  // namespace

const record::TensorInfo& Context::tensor(const record::OperatorRecord& op, size_t k) const {
  return part_taken(first(trace, op.inputs.at(k)));
}

const record::TensorInfo& Context::output(const record::OperatorRecord& op, size_t k) const {
  return part_taken(first(trace, op.outputs.at(k)));
}

void Context::take_part(int which) {
  part_ = which;
  parts_.clear();
}

const record::TensorInfo& Context::part_taken(const record::TensorInfo& tensor) const {
  if (part_ < 0 || !c10::isComplexType(tensor.dtype)) return tensor;
  const auto [found, is_new] = parts_.try_emplace(&tensor, tensor);
  if (is_new) static_cast<ir::View&>(found->second) = part(tensor, part_);
  return found->second;
}

bool Context::is_read_later(int storage) const {
  if (trace.storages[static_cast<size_t>(storage)].escapes) return true;
  auto reads = [&](const record::Operand& operand) {
    return std::any_of(operand.tensors.begin(), operand.tensors.end(), [&](int t) {
      return t >= 0 && trace.tensors[static_cast<size_t>(t)].storage == storage;
    });
  };
  return std::any_of(trace.ops.begin() + record + 1, trace.ops.end(),
                     [&](const record::OperatorRecord& op) {
                       return std::any_of(op.inputs.begin(), op.inputs.end(), reads);
                     });
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
  if (auto& r = statement.reduction;
      r && widens(*r, statement.expr.type(r->input)) && are_exact(results(statement)))
    r->input = statement.expr.add({ir::Op::Cast, c10::ScalarType::Double, {r->input, -1, -1}, 0});
  std::optional<Held> held = held_after(statement);
  stored(statement.store.storage);
  if (held) held_[statement.store.storage] = *held;
  program.items.emplace_back(std::move(statement));
}

void Context::emit_in_order(ir::Statement statement) {
  if (std::find(statement.axes.begin(), statement.axes.end(), 0) != statement.axes.end()) return;
  statement.record = record;
  statement.growth.assign(statement.axes.size(), 0);
  stored(statement.store.storage);
  ir::Repeat steps;
  steps.count = statement.axes[0];
  steps.body.push_back(std::move(statement));
  program.items.emplace_back(std::move(steps));
}

void Context::copy(const ir::View& from, const ir::View& to) {
  if (c10::isComplexType(from.dtype) && c10::isComplexType(to.dtype)) {
    for (int which : {0, 1}) copy(part(from, which), part(to, which));
    return;
  }
  ir::View source = from;
  // A point may not read what another point of the same statement stores: overlapping copies go
  // through fresh memory.
  if (ir::clash(to, from)) {
    source = temporary(from.sizes, from.dtype);
    copy(from, source);
  }
  ir::StatementBuilder s(to.sizes);
  emit(s.store(to, convert(s.load(source), to.dtype)));
}

void Context::fill(const ir::View& to, const c10::Scalar& value) {
  if (c10::isComplexType(to.dtype)) {
    const auto parts = value.toComplexDouble();
    fill(part(to, 0), parts.real()), fill(part(to, 1), parts.imag());
    return;
  }
  ir::StatementBuilder s(to.sizes);
  c10::ScalarType held = opmath(to.dtype);  // a scalar slot holds no reduced dtype
  emit(s.store(to, s.scalar(converted(value, held), held)));
}

void Context::write_numbers(const ir::View& to, const std::vector<char>& bytes) {
  const ScalarType held = opmath(to.dtype);
  ir::StatementBuilder s(to.sizes);
  std::optional<ir::Value> all;
  for (int64_t i = to.sizes.at(0) - 1; i >= 0; --i) {
    const char* at = bytes.data() + i * static_cast<int64_t>(c10::elementSize(to.dtype));
    const c10::Scalar number = is_float(to.dtype)
                                   ? c10::Scalar(c10::fetch_and_cast<double>(to.dtype, at))
                                   : c10::Scalar(c10::fetch_and_cast<int64_t>(to.dtype, at));
    const ir::Value here = s.scalar(converted(number, held), held);
    all = all ? select(eq(s.axis(0), s.integer(i, ScalarType::Long)), here, *all) : here;
  }
  if (all) emit(s.store(to, *all));
}

bool Context::is_callers(int storage) const {
  ir::Role role = program.storages[static_cast<size_t>(storage)].role;
  return ir::is_callers(role);
}

void Context::stored(int storage) {
  held_.erase(storage);
  stored_.resize(program.storages.size());
  stored_[static_cast<size_t>(storage)] = true;
  visible_written_ = visible_written_ || is_callers(storage);
}

bool Context::was_checked(const ir::Statement& check) const {
  return std::any_of(early.begin(), early.end(), [&](const ir::Item& item) {
    const auto* known = std::get_if<ir::Statement>(&item);
    return known && known->axes == check.axes && known->loads == check.loads &&
           known->scalars == check.scalars && known->expr.nodes == check.expr.nodes &&
           known->value == check.value &&
           (!check.reduction || known->reduction->input == check.reduction->input);
  });
}

bool Context::check(const std::vector<int64_t>& axes,
                    const std::function<ir::Value(ir::StatementBuilder&)>& bad, bool puts_back) {
  if (std::find(axes.begin(), axes.end(), 0) != axes.end()) return true;
  ir::StatementBuilder s(axes);
  ir::Value any = bad(s);
  if (!axes.empty())
    any = s.reduce(ir::ReduceOp::Or, any, std::vector<bool>(axes.size(), true),
                   c10::ScalarType::Bool);
  ir::Statement check = s.store(ir::View{-1, c10::ScalarType::Bool, 0, {}, {}}, any);
  bool given = std::all_of(check.loads.begin(), check.loads.end(), [&](const ir::Access& load) {
    const auto storage = static_cast<size_t>(load.storage);
    return is_callers(load.storage) && (storage >= stored_.size() || !stored_[storage]);
  });
  if (given && was_checked(check)) return true;
  if (!given && (puts_back ? communicated_ : visible_written_)) return false;
  check.store.storage = temporary({}, c10::ScalarType::Bool).storage;
  check.record = record;
  ir::Abort abort{check.store.storage, record};
  std::vector<ir::Item>& to = given ? early : program.items;
  to.emplace_back(std::move(check));
  to.emplace_back(abort);
  return true;
}

std::optional<Context::Held> Context::held_after(const ir::Statement& s) const {
  if (is_float(s.store.dtype) || !s.store.indirect.empty()) return std::nullopt;
  auto bytes = static_cast<int64_t>(c10::elementSize(s.store.dtype));
  for (size_t a = 0; a < s.axes.size(); ++a)
    if (!s.reduction || !s.reduction->axes[a] || s.reduction->scan) bytes *= s.axes[a];
  const auto range =
      ir::range_of(s, s.value, [&](const ir::Access& load) { return range_of(load); });
  // Each point stores a place of its own, and what fills the rest may come before or behind.
  Held held{s.store.dtype, range, bytes, {{s.store, s.axes}}};
  const auto before = held_.find(s.store.storage);
  if (before == held_.end() || before->second.dtype != held.dtype) return held;
  const auto& parts = before->second.parts;
  const bool apart = parts.size() < kMostParts &&
                     std::all_of(
                         parts.begin(), parts.end(),
                         [&](const auto& part) {
                           return relate(part.first, part.second, s.store, s.axes).relation ==
                                  ir::Relation::Disjoint;
                         });
  if (!apart) return held;
  held.range = {std::min(range.low, before->second.range.low),
                std::max(range.high, before->second.range.high)};
  held.bytes += before->second.bytes;
  held.parts.insert(held.parts.end(), parts.begin(), parts.end());
  return held;
}

ir::Range Context::range_of(const ir::Access& load) const {
  auto known = held_.find(load.storage);
  bool same = known != held_.end() && known->second.dtype == load.dtype &&
              known->second.bytes == program.storages[static_cast<size_t>(load.storage)].bytes;
  return same ? known->second.range : ir::range_of(load.dtype);
}

void Context::lies_within(const ir::View& view, int64_t low, int64_t high) {
  const int64_t bytes = ir::numel(view.sizes) * static_cast<int64_t>(c10::elementSize(view.dtype));
  if (view.storage < 0 || is_float(view.dtype) || is_callers(view.storage) ||
      !ir::is_non_overlapping(view) ||
      bytes != program.storages[static_cast<size_t>(view.storage)].bytes)
    return;
  const ir::Range now = range_of({view.storage, view.dtype, 0, {}, {}});
  checked_.push_back(view.storage);
  held_[view.storage] = {view.dtype, {std::max(low, now.low), std::min(high, now.high)}, bytes, {}};
}

void Context::begin(int operator_at) {
  record = operator_at;
  checked_.clear();
}

void Context::dropped() {
  for (int storage : checked_) held_.erase(storage);
  checked_.clear();
}

bool Context::is_within(const ir::View& view, int64_t low, int64_t high) const {
  if (settings.any_size) return false;  // of other sizes other numbers come, and other bounds
  ir::Range range = range_of({view.storage, view.dtype, 0, {}, {}});
  return range.low >= low && range.high <= high;
}

}  // namespace graft::ops
