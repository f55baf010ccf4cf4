#include "passes/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ir/builder.h"
#include "ir/product.h"
#include "passes/panels.h"
#include "tensor/dtype.h"

namespace graft::passes {

using ir::Access;
using ir::Extern;
using ir::Statement;
using ir::StatementBuilder;
using ir::Value;
using ir::View;

namespace {

constexpr const char *kName = "aten::_scaled_dot_product_flash_attention_for_cpu",
                     *kBackward = "aten::_scaled_dot_product_flash_attention_for_cpu_backward";
constexpr int64_t kFewestQueries = 16, kFewestKeys = 16;
/// Of a block's rows of scores, in the second cache, beside keys and values.
constexpr int64_t kRows = 8;
/// At most so many columns stay one panel.
constexpr int64_t kFewColumns = 128;

/// (B, H, S or N, D) each, and (B, H, S) the logarithms of the sums.
struct Attention {
  View query, key, value, out, log_sums;
  View mask;  ///< what is added to the scores, over their sizes; none has no storage
  bool causal = false;
  double scale = 0;
  int64_t batch() const { return query.sizes[0]; }
  int64_t heads() const { return query.sizes[1]; }
  int64_t queries() const { return query.sizes[2]; }
  int64_t keys() const { return key.sizes[2]; }
  int64_t width() const { return query.sizes[3]; }
  std::vector<int64_t> rows() const { return {batch(), heads(), queries(), 1}; }
  std::vector<int64_t> square() const { return {batch(), heads(), queries(), keys()}; }
};
/// Gradients that nobody reads have no storage.
struct Backward : Attention {
  View gradient, of_query, of_key, of_value;
};

const ir::Constant* constant(const Extern& call, size_t k) {
  const Extern::Slot& slot = call.slots[k];
  return slot.kind == OperandKind::Constant ? &slot.constant : nullptr;
}

/// The tensors of the first slots, into `views`.
bool read_tensors(const Extern& call, std::initializer_list<View*> views) {
  auto slot = call.slots.begin();
  for (View* view : views) {
    if (slot->kind != OperandKind::Tensor || slot->views.size() != 1 || slot->views[0] < 0)
      return false;
    *view = call.inputs[static_cast<size_t>((slot++)->views[0])];
  }
  return true;
}

/// (N or 1, S or 1), or with (B or 1, H or 1) in front; false: there is one that cannot be read.
bool read_mask(const Extern& call, const Extern::Slot& slot, Attention& made) {
  if (slot.kind == OperandKind::Constant)
    return std::holds_alternative<std::monostate>(slot.constant.value);
  if (slot.kind != OperandKind::Tensor || slot.views.size() != 1) return false;
  if (slot.views[0] < 0) return true;
  const View& given = call.inputs[static_cast<size_t>(slot.views[0])];
  const size_t rank = given.sizes.size();
  if ((rank != 2 && rank != 4) || made.causal ||
      (given.dtype != c10::ScalarType::Float && given.dtype != made.query.dtype))
    return false;
  View mask = given;
  mask.sizes = made.square();
  mask.strides.assign(mask.sizes.size(), 0);
  for (size_t d = 0; d < rank; ++d) {
    const size_t at = mask.sizes.size() - rank + d;
    if (given.sizes[d] == mask.sizes[at])
      mask.strides[at] = given.strides[d];
    else if (given.sizes[d] != 1)
      return false;
  }
  made.mask = std::move(mask);
  return true;
}

/// dropout_p, is_causal, attn_mask, scale, from slot `k` on.
bool read_numbers(const Extern& call, size_t k, Attention& made) {
  const ir::Constant *dropout = constant(call, k), *causal = constant(call, k + 1),
                     *scale = constant(call, k + 3);
  if (dropout == nullptr || causal == nullptr || scale == nullptr) return false;
  const auto* probability = std::get_if<double>(&dropout->value);
  const auto* is_causal = std::get_if<bool>(&causal->value);
  if (probability == nullptr || *probability != 0 || is_causal == nullptr) return false;
  made.causal = *is_causal;
  if (!read_mask(call, call.slots[k + 2], made)) return false;
  if (const auto* given = std::get_if<double>(&scale->value))
    made.scale = *given;
  else if (std::holds_alternative<std::monostate>(scale->value))
    made.scale = 1 / std::sqrt(static_cast<double>(made.width()));
  else
    return false;
  return true;
}

bool are_of_one_kind(std::initializer_list<const View*> views) {
  return std::all_of(views.begin(), views.end(), [&](const View* view) {
    return view->storage >= 0 && view->sizes.size() == 4 &&
           view->dtype == (*views.begin())->dtype && ir::numel(view->sizes) > 0;
  });
}

/// ATen makes heads that keys and values share as many as queries have, before it comes here.
bool has_all_heads(const Attention& a) {
  return a.key.sizes[0] == a.batch() && a.key.sizes[1] == a.heads();
}

/// query, key, value, … → output, logsumexp
std::optional<Attention> read(const Extern& call) {
  Attention made;
  if (call.op.name != kName || call.slots.size() != 7 || call.outputs.size() != 2 ||
      !read_tensors(call, {&made.query, &made.key, &made.value}))
    return {};
  made.out = call.outputs[0], made.log_sums = call.outputs[1];
  if (!are_of_one_kind({&made.out, &made.query, &made.key, &made.value}) || !has_all_heads(made) ||
      !read_numbers(call, 3, made))
    return {};
  return made;
}

/// grad_out, query, key, value, out, logsumexp, … → grad_query, grad_key, grad_value
std::optional<Backward> read_backward(const Extern& call) {
  Backward made;
  if (call.op.name != kBackward || call.slots.size() != 10 || call.outputs.size() != 3 ||
      !read_tensors(
          call, {&made.gradient, &made.query, &made.key, &made.value, &made.out, &made.log_sums}))
    return {};
  made.of_query = call.outputs[0], made.of_key = call.outputs[1], made.of_value = call.outputs[2];
  if (!are_of_one_kind({&made.out, &made.gradient, &made.query, &made.key, &made.value}) ||
      made.log_sums.dtype != c10::ScalarType::Float || made.log_sums.sizes.size() != 3 ||
      made.value.sizes[3] != made.width() || !has_all_heads(made) || !read_numbers(call, 6, made))
    return {};
  return made;
}

/// Appends the statements of one call.
class Expansion {
 public:
  Expansion(const Attention& attention, int record, const ir::Target& target, ir::Program& program,
            std::vector<ir::Item>& items)
      : a_(attention), record_(record), target_(target), program_(program), items_(items) {}

  void forward();
  void backward(const Backward& b);

 private:
  using ScalarType = c10::ScalarType;

  void add(Statement statement) {
    statement.record = record_;
    items_.emplace_back(std::move(statement));
  }
  View fp32(std::vector<int64_t> sizes) {
    return temporary(program_, std::move(sizes), ScalarType::Float);
  }

  /// left (.., rows, terms) times right (.., terms, columns), of which panels are copied if they
  /// lie otherwise than the product takes them.
  View times(const View& left, const View& right) {
    const bool in_pairs = takes_pairs(left, right, right.dtype, false, target_);
    const View made = fp32({a_.batch(), a_.heads(), left.sizes[2], right.sizes[3]});
    if (!in_pairs && right.strides[3] == 1) {
      add(product(left, right, made, right.dtype));
      return made;
    }
    // A few columns stay together, as what comes after the product walks them.
    const int64_t columns = right.sizes[3];
    const bool cuts = columns % ir::kMostProductColumns == 0 && columns > kFewColumns;
    const Panels panels =
        pack(program_, right, right.dtype, cuts ? ir::kMostProductColumns : columns, in_pairs);
    add(panels.copy);
    add(product(left, panels, made, right.dtype));
    return made;
  }
  /// The transposed square times right (.., queries, columns), added up over blocks of queries.
  View transposed_times(const View& square, const View& right) {
    const View made = fp32({a_.batch(), a_.heads(), a_.keys(), right.sizes[3]});
    add(product(transposed(square), right, made, right.dtype));
    return made;
  }
  static View transposed(View x) {
    std::swap(x.sizes[2], x.sizes[3]), std::swap(x.strides[2], x.strides[3]);
    return x;
  }

  Value is_masked(StatementBuilder& s) const { return gt(s.axis(3), s.axis(2)); }
  static Value infinite(StatementBuilder& s) {
    return s.constant(-std::numeric_limits<double>::infinity(), ScalarType::Float);
  }
  View log_sums_by_row() const {
    View rows = a_.log_sums;
    rows.sizes.push_back(1), rows.strides.push_back(0);
    return rows;
  }
  /// The scaled products of queries and keys, with the mask's numbers, or -inf.
  View scores() {
    const View products = times(a_.query, transposed(a_.key)), made = fp32(a_.square());
    StatementBuilder s(made.sizes);
    Value x = s.load(products) * s.constant(a_.scale, ScalarType::Float);
    if (a_.causal) x = select(is_masked(s), infinite(s), x);
    if (a_.mask.storage >= 0) x = x + s.load(a_.mask).to(ScalarType::Float);
    add(s.store(made, x));
    return made;
  }

  const Attention& a_;
  int record_;
  const ir::Target& target_;
  ir::Program& program_;
  std::vector<ir::Item>& items_;
};

void Expansion::forward() {
  const View masked = scores();
  const std::vector<bool> along{false, false, false, true};
  const View most = fp32(a_.rows());
  {
    // As in ATen's kernel, a row of -inf alone has powers of 0, and gives zeros.
    StatementBuilder s(masked.sizes);
    const Value largest = s.reduce(ir::ReduceOp::Max, s.load(masked), along, ScalarType::Float);
    add(s.store(most, select(eq(largest, infinite(s)), s.constant(0, ScalarType::Float), largest)));
  }
  const View powers = fp32(a_.square());
  {
    StatementBuilder s(powers.sizes);
    add(s.store(powers, ir::call(ir::Routine::NearExp, s.load(masked) - s.load(most))));
  }
  const View sums = temporary(program_, a_.rows(), ScalarType::Double);
  {
    StatementBuilder s(powers.sizes);
    const Value total = s.reduce(ir::ReduceOp::Sum, s.load(powers), along, ScalarType::Double),
                none = s.constant(0, ScalarType::Double), one = s.constant(1, ScalarType::Double);
    add(s.store(sums, select(eq(total, none), one, total)));
  }
  if (a_.log_sums.storage >= 0) {
    const View rows = log_sums_by_row();
    StatementBuilder s(rows.sizes);
    const Value log = ir::call(ir::Routine::VectorLog, s.load(sums).to(ScalarType::Float));
    add(s.store(rows, log + s.load(most)));
  }
  const View factors = fp32(a_.rows());
  {
    StatementBuilder s(factors.sizes);
    add(s.store(factors, (1.0 / s.load(sums)).to(ScalarType::Float)));
  }
  const View made = times(powers, a_.value);
  StatementBuilder s(made.sizes);
  add(s.store(a_.out, (s.load(made) * s.load(factors)).to(a_.out.dtype)));
}

void Expansion::backward(const Backward& b) {
  const ScalarType dtype = b.out.dtype;
  const View masked = scores(), powers = temporary(program_, a_.square(), dtype);
  {
    const View rows = log_sums_by_row();
    StatementBuilder s(powers.sizes);
    const Value x = ir::call(ir::Routine::NearExp, s.load(masked) - s.load(rows));
    add(s.store(powers, x.to(dtype)));
  }
  const View dots = fp32(a_.rows());
  {
    StatementBuilder s(b.out.sizes);
    const Value x = s.load(b.gradient).to(ScalarType::Float) * s.load(b.out).to(ScalarType::Float);
    add(s.store(dots,
                s.reduce(ir::ReduceOp::Sum, x, {false, false, false, true}, ScalarType::Float)));
  }
  const View of_powers = times(b.gradient, transposed(b.value)),
             of_scores = temporary(program_, a_.square(), dtype);
  {
    StatementBuilder s(of_scores.sizes);
    Value x = s.load(powers).to(ScalarType::Float) * (s.load(of_powers) - s.load(dots));
    if (a_.causal) x = select(is_masked(s), s.constant(0, ScalarType::Float), x);
    add(s.store(of_scores, x.to(dtype)));
  }
  const auto finish = [&](const View& sums, double factor, const View& out) {
    StatementBuilder s(out.sizes);
    add(s.store(out, (s.load(sums) * s.constant(factor, ScalarType::Float)).to(dtype)));
  };
  if (b.of_query.storage >= 0) finish(times(of_scores, b.key), a_.scale, b.of_query);
  if (b.of_key.storage >= 0) finish(transposed_times(of_scores, b.query), a_.scale, b.of_key);
  if (b.of_value.storage >= 0) finish(transposed_times(powers, b.gradient), 1, b.of_value);
}

bool may_be_loops(const Attention& a, const ir::Target& target) {
  return (a.out.dtype == c10::ScalarType::Float || is_half(a.out.dtype)) &&
         target.loops(a.out.dtype) && a.queries() >= kFewestQueries && a.keys() >= kFewestKeys &&
         kRows * a.keys() * 4 <= target.second_cache_bytes / 2;
}

}  // namespace

bool is_attention(const Extern& call) {
  return call.op.name == kName || call.op.name == kBackward;
}

std::vector<int> attention_as_loops(const ir::Program& program, const ir::Target& target) {
  std::vector<int> records;
  for (const ir::Item& item : program.items) {
    const auto* call = std::get_if<Extern>(&item);
    if (call == nullptr) continue;
    const std::optional<Attention> forward = read(*call);
    const std::optional<Backward> backward = read_backward(*call);
    if ((forward && may_be_loops(*forward, target)) ||
        (backward && may_be_loops(*backward, target)))
      records.push_back(call->record);
  }
  return records;
}

bool expand_attention(const Extern& call, const ir::Target& target, ir::Program& program,
                      std::vector<ir::Item>& items) {
  const std::optional<Attention> a = read(call);
  const std::optional<Backward> b = read_backward(call);
  if (!a && !b) return false;
  for (const View& made : call.outputs)
    if (made.storage >= 0)
      program.storages[static_cast<size_t>(made.storage)].made_by_extern = false;
  if (a)
    Expansion(*a, call.record, target, program, items).forward();
  else
    Expansion(*b, call.record, target, program, items).backward(*b);
  return true;
}

}  // namespace graft::passes
