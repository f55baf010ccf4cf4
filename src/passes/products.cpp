#include "passes/products.h"

#include <algorithm>
#include <utility>

#include "ir/builder.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Extern;
using ir::Statement;
using ir::StatementBuilder;
using ir::Value;
using ir::View;

namespace {

/// What memory saves at least, of a product's own time.
constexpr double kWorth = 0.15;
/// Fewer rows are no block.
constexpr int64_t kFewestRows = 16;
constexpr int64_t kFewestColumns = 16;

/// out[b, m, n] = sum over k of left[b, m, k] * right[b, k, n]
struct Call {
  View left, right, out;
  int64_t batch() const { return out.sizes[0]; }
  int64_t rows() const { return out.sizes[1]; }
  int64_t columns() const { return out.sizes[2]; }
  int64_t terms() const { return left.sizes[2]; }
};

std::optional<Call> read(const Extern& call) {
  if ((call.op.name != "aten::mm" && call.op.name != "aten::bmm") || !call.op.overload.empty() ||
      call.slots.size() != 2 || call.outputs.size() != 1)
    return {};
  std::vector<View> views;
  for (const Extern::Slot& slot : call.slots) {
    if (slot.kind != OperandKind::Tensor || slot.views.size() != 1 || slot.views[0] < 0) return {};
    views.push_back(call.inputs[static_cast<size_t>(slot.views[0])]);
  }
  views.push_back(call.outputs[0]);
  for (View& view : views) {
    if (view.storage < 0 || view.dtype != ScalarType::Float || ir::numel(view.sizes) == 0)
      return {};
    if (view.sizes.size() == 2) {
      view.sizes.insert(view.sizes.begin(), 1);
      view.strides.insert(view.strides.begin(), 0);
    }
    if (view.sizes.size() != 3) return {};
  }
  return Call{views[0], views[1], views[2]};
}

/// With the call's own strides over axes of the statement.
Access access(const View& view, std::vector<int64_t> strides) {
  return {view.storage, view.dtype, view.byte_offset / 4, std::move(strides), {}};
}

/// The right operand of columns side by side: the copy that makes it, and where the product's
/// columns, in panels, and terms are in it.
struct Packed {
  Statement copy;
  View view;  ///< [batch, panels, terms, columns of a panel]
};
Packed pack(const Call& call, int storage, int64_t wide) {
  const View& right = call.right;
  const int64_t panels = call.columns() / wide;
  View out{storage, ScalarType::Float, 0, {right.sizes[0], panels, call.terms(), wide}, {}};
  out.strides = ir::contiguous_strides(out.sizes);
  StatementBuilder s(out.sizes);
  const auto& r = right.strides;
  const Value x = s.load(access(right, {r[0], r[2] * wide, r[1], r[2]}));
  return {s.store(out, x), out};
}

Statement product(const Call& call, const View* packed, int64_t wide) {
  const auto &l = call.left.strides, &r = call.right.strides, &o = call.out.strides;
  const bool panels = packed != nullptr;
  std::vector<int64_t> axes{call.batch(), call.rows()}, left{l[0], l[1]}, right{r[0], 0},
      out{o[0], o[1]};
  if (panels) {
    axes.push_back(call.columns() / wide), left.push_back(0);
    right = {packed->strides[0], 0, packed->strides[1]}, out.push_back(o[2] * wide);
  }
  axes.push_back(panels ? wide : call.columns()), left.push_back(0);
  right.push_back(panels ? packed->strides[3] : r[2]), out.push_back(o[2]);
  axes.push_back(call.terms()), left.push_back(l[2]);
  right.push_back(panels ? packed->strides[2] : r[1]), out.push_back(0);
  StatementBuilder s(axes);
  const Value a = s.load(access(call.left, std::move(left))),
              b = s.load(access(panels ? *packed : call.right, std::move(right)));
  std::vector<bool> reduced(axes.size(), false);
  reduced.back() = true;
  const Value sum = s.reduce(ir::ReduceOp::Sum, a * b, reduced, ScalarType::Float);
  return s.store(access(call.out, std::move(out)), sum);
}

}  // namespace

std::vector<int> worth_loops(const ir::Program& program, const ir::Target& target) {
  std::vector<int> records;
  for (const ir::Item& item : program.items) {
    const auto* call = std::get_if<Extern>(&item);
    if (call == nullptr) continue;
    const std::optional<Call> p = read(*call);
    if (!p || p->rows() < kFewestRows || p->columns() < kFewestColumns) continue;
    const auto rows = static_cast<double>(p->batch() * p->rows()),
               columns = static_cast<double>(p->columns()), terms = static_cast<double>(p->terms());
    const double across = static_cast<double>(p->right.strides[0] == 0 ? 1 : p->batch());
    const double bytes = 4 * std::max({rows * columns, rows * terms, across * columns * terms}),
                 memory = 2 * bytes * target.times.memory_byte,  // stored and loaded once
        arithmetic = 2 * rows * columns * terms * target.times.product_flop;
    if (bytes > static_cast<double>(target.second_cache_bytes) && memory >= kWorth * arithmetic)
      records.push_back(call->record);
  }
  return records;
}

ir::Program products_as_loops(ir::Program program, const std::set<int>& refused) {
  const int64_t wide = ir::kMostProductColumns;
  std::vector<ir::Item> items;
  items.reserve(program.items.size());
  for (ir::Item& item : program.items) {
    const auto* extern_call = std::get_if<Extern>(&item);
    std::optional<Call> call;
    if (extern_call != nullptr && extern_call->may_be_loops &&
        !refused.contains(extern_call->record))
      call = read(*extern_call);
    if (!call) {
      items.push_back(std::move(item));
      continue;
    }
    const int record = extern_call->record;
    program.storages[static_cast<size_t>(call->out.storage)].made_by_extern = false;
    std::optional<View> packed;
    if (call->right.strides[2] != 1) {
      const int64_t panel = call->columns() % wide == 0 ? wide : call->columns();
      Packed made = pack(*call, static_cast<int>(program.storages.size()), panel);
      program.storages.push_back({ir::Role::Temporary, ir::numel(made.view.sizes) * 4});
      made.copy.record = record;
      items.emplace_back(std::move(made.copy));
      packed = std::move(made.view);
    }
    const int64_t panel = packed ? packed->sizes[3] : wide;
    Statement s = product(*call, packed ? &*packed : nullptr, panel);
    s.record = record;
    items.emplace_back(std::move(s));
  }
  program.items = std::move(items);
  return program;
}

}  // namespace graft::passes
