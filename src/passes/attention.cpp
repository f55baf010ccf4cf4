#include "passes/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ir/builder.h"
#include "ir/product.h"
#include "passes/products.h"
#include "tensor/dtype.h"

namespace graft::passes {

using ir::Access;
using ir::Extern;
using ir::Statement;
using ir::StatementBuilder;
using ir::Value;
using ir::View;

namespace {

constexpr const char* kName = "aten::_scaled_dot_product_flash_attention_for_cpu";
constexpr int64_t kFewestQueries = 16, kFewestKeys = 16;
/// Of a block's rows of scores, in the second cache, beside keys and values.
constexpr int64_t kRows = 8;

/// (B, H, S or N, D) each.
struct Attention {
  View query, key, value, out;
  bool causal = false;
  double scale = 0;
  int64_t batch() const { return query.sizes[0]; }
  int64_t heads() const { return query.sizes[1]; }
  int64_t queries() const { return query.sizes[2]; }
  int64_t keys() const { return key.sizes[2]; }
  int64_t width() const { return query.sizes[3]; }
};

const ir::Constant* constant(const Extern& call, size_t k) {
  const Extern::Slot& slot = call.slots[k];
  return slot.kind == OperandKind::Constant ? &slot.constant : nullptr;
}

/// query, key, value, dropout_p, is_causal, attn_mask, scale → output, logsumexp
std::optional<Attention> read(const Extern& call) {
  if (call.op.name != kName || call.slots.size() != 7 || call.outputs.size() != 2) return {};
  Attention made;
  View* const views[] = {&made.query, &made.key, &made.value};
  for (size_t k = 0; k < 3; ++k) {
    const Extern::Slot& slot = call.slots[k];
    if (slot.kind != OperandKind::Tensor || slot.views.size() != 1 || slot.views[0] < 0) return {};
    *views[k] = call.inputs[static_cast<size_t>(slot.views[0])];
  }
  made.out = call.outputs[0];
  for (const View* view : {&made.query, &made.key, &made.value, &made.out})
    if (view->storage < 0 || view->sizes.size() != 4 || view->dtype != made.out.dtype ||
        ir::numel(view->sizes) == 0)
      return {};
  const ir::Constant *dropout = constant(call, 3), *causal = constant(call, 4),
                     *scale = constant(call, 6);
  const Extern::Slot& mask = call.slots[5];
  const bool has_mask = mask.kind == OperandKind::Constant
                            ? !std::holds_alternative<std::monostate>(mask.constant.value)
                            : mask.views.size() != 1 || mask.views[0] >= 0;
  if (dropout == nullptr || causal == nullptr || scale == nullptr || has_mask) return {};
  const auto* probability = std::get_if<double>(&dropout->value);
  const auto* is_causal = std::get_if<bool>(&causal->value);
  if (probability == nullptr || *probability != 0 || is_causal == nullptr) return {};
  made.causal = *is_causal;
  if (const auto* given = std::get_if<double>(&scale->value))
    made.scale = *given;
  else if (std::holds_alternative<std::monostate>(scale->value))
    made.scale = 1 / std::sqrt(static_cast<double>(made.width()));
  else
    return {};
  // ATen makes heads that keys and values share as many as queries have, before it comes here.
  if (made.key.sizes[0] != made.batch() || made.key.sizes[1] != made.heads()) return {};
  return made;
}

View temporary(ir::Program& program, std::vector<int64_t> sizes, c10::ScalarType dtype) {
  const int storage = static_cast<int>(program.storages.size());
  program.storages.push_back(
      {ir::Role::Temporary, ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(dtype))});
  std::vector<int64_t> strides = ir::contiguous_strides(sizes);
  return {storage, dtype, 0, std::move(sizes), std::move(strides)};
}

/// Does nobody read the storage but the call that makes it?
bool is_unread(const ir::Program& program, int storage) {
  for (const ir::Result& result : program.signature.results)
    if (result.view.storage == storage) return false;
  for (const ir::Item& item : program.items) {
    if (const auto* statement = std::get_if<Statement>(&item)) {
      for (const Access& load : statement->loads)
        if (load.storage == storage) return false;
    } else if (const auto* call = std::get_if<Extern>(&item)) {
      for (const View& input : call->inputs)
        if (input.storage == storage) return false;
    } else if (std::holds_alternative<ir::Repeat>(item)) {
      return false;  // which may read anything
    }
  }
  return true;
}

}  // namespace

bool is_attention(const Extern& call) {
  return call.op.name == kName;
}

std::vector<int> attention_as_loops(const ir::Program& program, const ir::Target& target) {
  std::vector<int> records;
  for (const ir::Item& item : program.items) {
    const auto* call = std::get_if<Extern>(&item);
    if (call == nullptr) continue;
    const std::optional<Attention> a = read(*call);
    const bool narrow = a && (a->out.dtype == c10::ScalarType::Float || is_half(a->out.dtype));
    if (!narrow || !target.loops(a->out.dtype) || a->queries() < kFewestQueries ||
        a->keys() < kFewestKeys || kRows * a->keys() * 4 > target.second_cache_bytes / 2)
      continue;
    const int sums = call->outputs[1].storage;
    if (sums >= 0 && !is_unread(program, sums)) continue;
    records.push_back(call->record);
  }
  return records;
}

void expand_attention(const Extern& call, ir::Program& program, std::vector<ir::Item>& items) {
  using c10::ScalarType;
  const Attention a = *read(call);
  const int64_t batch = a.batch(), heads = a.heads(), queries = a.queries(), keys = a.keys(),
                width = a.width(), values = a.value.sizes[3];
  const ScalarType dtype = a.out.dtype;
  for (const View& made : call.outputs)
    if (made.storage >= 0)
      program.storages[static_cast<size_t>(made.storage)].made_by_extern = false;
  const auto add = [&](Statement statement) {
    statement.record = call.record;
    items.emplace_back(std::move(statement));
  };
  // Keys with their columns side by side, in panels.
  const int64_t panel = keys % ir::kMostProductColumns == 0 ? ir::kMostProductColumns : keys;
  const View packed = temporary(program, {batch, heads, keys / panel, width, panel}, dtype);
  {
    StatementBuilder s(packed.sizes);
    const auto& k = a.key.strides;
    add(s.store(packed, s.load(access(a.key, {k[0], k[1], k[2] * panel, k[3], k[2]}))));
  }
  const std::vector<int64_t> rows{batch, heads, queries, 1}, square{batch, heads, queries, keys};
  const View scores = temporary(program, square, ScalarType::Float);
  const auto &q = a.query.strides, &p = packed.strides, &c = scores.strides;
  add(sum_of_products({batch, heads, queries, keys / panel, panel, width},
                      access(a.query, {q[0], q[1], q[2], 0, 0, q[3]}),
                      access(packed, {p[0], p[1], 0, p[2], p[4], p[3]}), dtype,
                      access(scores, {c[0], c[1], c[2], panel, 1, 0})));
  const View masked = temporary(program, square, ScalarType::Float);
  {
    StatementBuilder s(square);
    Value x = s.load(scores) * s.constant(a.scale, ScalarType::Float);
    if (a.causal)
      x = select(gt(s.axis(3), s.axis(2)),
                 s.constant(-std::numeric_limits<double>::infinity(), ScalarType::Float), x);
    add(s.store(masked, x));
  }
  const std::vector<bool> along{false, false, false, true};
  const View most = temporary(program, rows, ScalarType::Float);
  {
    // As in ATen's kernel, a row of -inf alone has powers of 0, and gives zeros.
    StatementBuilder s(square);
    const Value largest = s.reduce(ir::ReduceOp::Max, s.load(masked), along, ScalarType::Float);
    const Value none =
        eq(largest, s.constant(-std::numeric_limits<double>::infinity(), ScalarType::Float));
    add(s.store(most, select(none, s.constant(0, ScalarType::Float), largest)));
  }
  const View powers = temporary(program, square, ScalarType::Float);
  {
    StatementBuilder s(square);
    add(s.store(powers, ir::call(ir::Routine::NearExp, s.load(masked) - s.load(most))));
  }
  const View sums = temporary(program, rows, ScalarType::Float);
  {
    StatementBuilder s(square);
    const Value total = s.reduce(ir::ReduceOp::Sum, s.load(powers), along, ScalarType::Double);
    const Value empty = eq(total, s.constant(0, ScalarType::Double));
    add(s.store(sums, select(empty, s.constant(1, ScalarType::Double), 1.0 / total)));
  }
  const View made = temporary(program, {batch, heads, queries, values}, ScalarType::Float);
  const auto &e = powers.strides, &v = a.value.strides, &m = made.strides;
  add(sum_of_products(
      {batch, heads, queries, values, keys}, access(powers, {e[0], e[1], e[2], 0, 1}),
      access(a.value, {v[0], v[1], 0, v[3], v[2]}), dtype, access(made, {m[0], m[1], m[2], 1, 0})));
  StatementBuilder s(made.sizes);
  add(s.store(a.out, (s.load(made) * s.load(sums)).to(dtype)));
}

}  // namespace graft::passes
