#include "passes/products.h"

#include <algorithm>
#include <utility>

#include "ir/builder.h"
#include "passes/attention.h"
#include "passes/fold.h"
#include "passes/panels.h"
#include "passes/product_tiles.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Extern;
using ir::Statement;
using ir::StatementBuilder;
using ir::Value;
using ir::View;

namespace {

/// What is saved at least, of a product's own time. The routine is slower with 16 vector registers
/// than with 32.
constexpr double kWorth = 0.02, kWorthOfFewRegisters = 0.15;
/// Fewer rows are no block.
constexpr int64_t kFewestRows = 16;
constexpr int64_t kFewestRowsAlone = 2;
constexpr int64_t kFewestRowsOfRounded = 32;
/// So many rows come to a right operand that putting its columns side by side costs little.
constexpr int64_t kManyRows = 512;

/// out[b, m, n] = added[b, m, n] + sum over k of left[b, m, k] * right[b, k, n]
struct Call {
  View left, right, out;
  View added = {};     ///< broadcast; storage -1: nothing
  bool folds = false;  ///< the right operand is constant: its copy is made once
  bool short_factors = false;
  int64_t batch() const { return out.sizes[0]; }
  int64_t rows() const { return out.sizes[1]; }
  int64_t columns() const { return out.sizes[2]; }
  int64_t terms() const { return left.sizes[2]; }
  ScalarType dtype() const { return out.dtype; }
  ScalarType factors() const { return short_factors ? ScalarType::BFloat16 : dtype(); }
  int64_t element() const { return static_cast<int64_t>(c10::elementSize(dtype())); }
  /// Bytes of the right operand.
  int64_t right_bytes() const {
    return element() * (right.strides[0] == 0 ? 1 : batch()) * columns() * terms();
  }
  /// Is the right operand copied in front of the product, into panels of columns?
  bool packs(const ir::Target& target) const {
    return folds || right.strides[2] != 1 ||
           (batch() == 1 && rows() >= kManyRows && columns() % ir::kMostProductColumns == 0 &&
            right_bytes() > target.second_cache_bytes);
  }
};

bool is_one(const ir::Constant& constant) {
  if (const auto* k = std::get_if<int64_t>(&constant.value)) return *k == 1;
  const auto* x = std::get_if<double>(&constant.value);
  return x != nullptr && *x == 1;
}

/// With so many dimensions; the new ones, in front, are of 1.
void raise_rank(View& view, size_t rank) {
  const size_t missing = rank - std::min(rank, view.sizes.size());
  view.sizes.insert(view.sizes.begin(), missing, 1);
  view.strides.insert(view.strides.begin(), missing, 0);
}

std::optional<Call> read(const Extern& call, const ir::Target& target) {
  const std::string& name = call.op.name;
  const bool adds = name == "aten::addmm" || name == "aten::baddbmm";
  if ((!adds && name != "aten::mm" && name != "aten::bmm") || !call.op.overload.empty() ||
      call.slots.size() != (adds ? 5 : 2) || call.outputs.size() != 1)
    return {};
  std::vector<View> views;
  for (const Extern::Slot& slot : call.slots) {
    if (adds && views.size() == 3) {  // beta and alpha
      if (slot.kind != OperandKind::Constant || !is_one(slot.constant)) return {};
      continue;
    }
    if (slot.kind != OperandKind::Tensor || slot.views.size() != 1 || slot.views[0] < 0) return {};
    views.push_back(call.inputs[static_cast<size_t>(slot.views[0])]);
  }
  views.push_back(call.outputs[0]);
  const ScalarType dtype = views.back().dtype;
  if ((dtype != ScalarType::Float && !is_half(dtype)) || !target.loops(dtype)) return {};
  for (View& view : views) {
    const bool fits = view.storage >= 0 && view.dtype == dtype && ir::numel(view.sizes) > 0 &&
                      view.sizes.size() <= 3;
    if (!fits) return {};
    raise_rank(view, 3);
  }
  Call made{views.rbegin()[2], views.rbegin()[1], views.back()};
  made.short_factors = call.short_factors;
  if (!adds) return made;
  made.added = views[0];
  for (size_t d = 0; d < 3; ++d)
    if (made.added.sizes[d] == 1) made.added.strides[d] = 0;
  made.added.sizes = made.out.sizes;
  return made;
}

}  // namespace

bool is_product_call(const Extern& call, const ir::Target& target) {
  return read(call, target).has_value();
}

void mark_short_factors(ir::Program& program, const ir::Target& target, const std::set<int>& held) {
  if (!target.pairs(ScalarType::BFloat16)) return;
  for (ir::Item& item : program.items) {
    auto* call = std::get_if<Extern>(&item);
    const std::optional<Call> p = call == nullptr ? std::nullopt : read(*call, target);
    if (!p || p->dtype() != ScalarType::Float) continue;
    call->short_factors = p->rows() >= kFewestRowsOfRounded || held.contains(call->record);
  }
}

std::set<int> with_folded_operand(const ir::Program& program, const ir::Target& target) {
  const std::vector<bool> constant = constant_storages(program.items, program.storages);
  std::set<int> records;
  for (const ir::Item& item : program.items) {
    const auto* call = std::get_if<Extern>(&item);
    if (call == nullptr) continue;
    const std::optional<Call> p = read(*call, target);
    if (p && constant[static_cast<size_t>(p->right.storage)] && p->batch() == 1 &&
        p->rows() >= ir::kFewestHeldRows && p->columns() >= ir::kFewestProductColumns)
      records.insert(call->record);
  }
  return records;
}

std::vector<WorthLoops> worth_loops(const ir::Program& program, const ir::Target& target) {
  std::vector<WorthLoops> records;
  for (const ir::Item& item : program.items) {
    const auto* call = std::get_if<Extern>(&item);
    if (call == nullptr) continue;
    const std::optional<Call> p = read(*call, target);
    if (!p || p->columns() < ir::kFewestProductColumns) continue;
    // ATen's own loops are so much slower that nothing else matters.
    const bool alone = !target.one_dnn(p->dtype());
    if (p->rows() < (alone ? kFewestRowsAlone : kFewestRows)) continue;
    const auto rows = static_cast<double>(p->batch() * p->rows()),
               columns = static_cast<double>(p->columns()), terms = static_cast<double>(p->terms());
    const auto right = static_cast<double>(p->right_bytes());
    // Stored and loaded once; and the right operand where it is put side by side.
    double bytes = 2 * static_cast<double>(p->element()) * std::max(rows * columns, rows * terms);
    if (p->batch() > 1) bytes = std::max(bytes, 2 * right);
    // (From the cache they would come anyway; few rows wait for a right operand from memory.)
    const bool small = bytes <= 2 * static_cast<double>(target.second_cache_bytes);
    if (small) bytes = 0;
    if (small && !alone && rows < ir::kProductBlock && !is_near(p->right_bytes(), target)) continue;
    if ((small || p->batch() == 1) && p->packs(target)) bytes -= 2 * right;
    const double worth = target.avx512() ? kWorth : kWorthOfFewRegisters,
                 flops = 2 * rows * columns * terms, by_call = flops * target.call_flop(p->dtype()),
                 saved = by_call - flops * target.product_flop(p->factors()) +
                         bytes * target.times.memory_byte;
    if (alone || saved >= worth * by_call) records.push_back({call->record, alone});
  }
  return records;
}

ir::Program products_as_loops(ir::Program program, const std::set<int>& refused,
                              const ir::Target& target, bool folds) {
  std::vector<bool> constant;
  if (folds) constant = constant_storages(program.items, program.storages);
  const int64_t wide = ir::kMostProductColumns;
  std::vector<ir::Item> items;
  items.reserve(program.items.size());
  int last_called = -1;  ///< what the call before wrote
  for (ir::Item& item : program.items) {
    const auto* extern_call = std::get_if<Extern>(&item);
    std::optional<Call> call;
    const bool may_be = extern_call != nullptr && extern_call->may_be_loops &&
                        !refused.contains(extern_call->record);
    if (may_be && is_attention(*extern_call) &&
        expand_attention(*extern_call, target, program, items))
      continue;
    if (may_be) call = read(*extern_call, target);
    if (!call) {
      if (extern_call != nullptr && !extern_call->written.empty())
        last_called = extern_call->written.back();
      items.push_back(std::move(item));
      continue;
    }
    const int record = extern_call->record;
    call->folds = folds && call->batch() == 1 && constant[static_cast<size_t>(call->right.storage)];
    program.storages[static_cast<size_t>(call->out.storage)].made_by_extern = false;
    std::optional<Panels> packed;
    if (call->packs(target)) {
      const int64_t panel = call->columns() % wide == 0 ? wide : call->columns();
      Panels made =
          pack(program, call->right, call->factors(), panel,
               takes_pairs(call->left, call->right, call->factors(), call->folds, target));
      program.storages.back().folded = call->folds;
      made.copy.record = record;
      // A backward's panels beside a forward's would lie in memory all the time between.
      if (!call->folds) made.copy.after = last_called;
      items.push_back(made.copy);
      packed = std::move(made);
    }
    const View out = call->out;
    const bool finishes = call->added.storage >= 0 || call->dtype() != ScalarType::Float;
    if (finishes) call->out = temporary(program, out.sizes, ScalarType::Float);
    Statement s = packed ? product(call->left, *packed, call->out, call->factors())
                         : product(call->left, call->right, call->out, call->factors());
    s.record = record;
    items.emplace_back(std::move(s));
    if (!finishes) continue;
    StatementBuilder last(out.sizes);
    Value sum = last.load(call->out);
    if (call->added.storage >= 0) sum = sum + last.load(call->added).to(ScalarType::Float);
    items.emplace_back(last.store(out, sum.to(out.dtype)));
    std::get<Statement>(items.back()).record = record;
  }
  program.items = std::move(items);
  return program;
}

}  // namespace graft::passes
