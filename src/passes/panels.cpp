#include "passes/panels.h"

#include <algorithm>
#include <utility>

#include "ir/builder.h"
#include "tensor/dtype.h"

namespace graft::passes {

using c10::ScalarType;
using ir::Access;
using ir::Statement;
using ir::StatementBuilder;
using ir::Value;
using ir::View;

namespace {

/// Fewer rows do not pay for making pairs: memory is what they wait for.
constexpr int64_t kFewestRowsOfPairs = 16;

int64_t from_last(const std::vector<int64_t>& list, size_t k) {
  return list[list.size() - k];
}
std::vector<int64_t> batch_of(const std::vector<int64_t>& list) {
  return {list.begin(), list.end() - 2};
}
std::vector<int64_t> with(std::vector<int64_t> list, const std::vector<int64_t>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

/// The sum over the axes from `terms` on.
Statement sum_of_products(std::vector<int64_t> axes, size_t terms, const Access& left,
                          const Access& right, ScalarType factors, const Access& out) {
  std::vector<bool> reduced(axes.size(), false);
  std::fill(reduced.begin() + static_cast<std::ptrdiff_t>(terms), reduced.end(), true);
  StatementBuilder s(std::move(axes));
  const auto factor = [&](const Access& from) {
    return s.load(from).to(factors).to(ScalarType::Float);
  };
  const Value a = factor(left), b = factor(right);
  Statement made = s.store(out, s.reduce(ir::ReduceOp::Sum, a * b, reduced, ScalarType::Float));
  made.product = true;
  return made;
}

/// Are two terms one word, wherever they begin?
bool holds_words(const View& right) {
  const auto is_even = [](int64_t stride) { return stride % 2 == 0; };
  const auto& strides = right.strides;
  return from_last(strides, 2) == 1 && right.byte_offset % 4 == 0 &&
         std::all_of(strides.begin(), strides.end() - 2, is_even) && is_even(strides.back());
}

/// The words of two terms each.
Value words(StatementBuilder& s, const View& right, int64_t wide) {
  const int64_t down = from_last(right.strides, 2), side = right.strides.back();
  std::vector<int64_t> strides = with(batch_of(right.strides), {side * wide, down * 2, side});
  View bits = right;
  if (holds_words(right)) {
    bits.dtype = ScalarType::Int;
    for (int64_t& stride : strides) stride /= 2;
    return s.load(access(bits, std::move(strides)));
  }
  bits.dtype = ScalarType::Short;
  Access first = access(bits, std::move(strides)), second = first;
  second.offset += down;
  const auto word = [&](Access from) { return s.load(std::move(from)).to(ScalarType::Int); };
  const Value low = word(std::move(first)), high = word(std::move(second));
  return (low & s.integer(0xffff, ScalarType::Int)) |
         high.op(ir::Op::Shl, s.integer(16, ScalarType::Int));
}

}  // namespace

Access access(const View& view, std::vector<int64_t> strides) {
  const auto element = static_cast<int64_t>(c10::elementSize(view.dtype));
  return {view.storage, view.dtype, view.byte_offset / element, std::move(strides), {}};
}

bool takes_pairs(const View& left, const View& right, ScalarType factors, bool folds,
                 const ir::Target& target) {
  return target.pairs(ScalarType::BFloat16) && factors == ScalarType::BFloat16 &&
         (right.dtype == ScalarType::BFloat16 || folds) && left.strides.back() == 1 &&
         (folds || from_last(left.sizes, 2) >= kFewestRowsOfPairs) &&
         left.sizes.back() % ir::kTileTerms == 0 &&
         right.sizes.back() % ir::kMostProductColumns == 0;
}

View temporary(ir::Program& program, std::vector<int64_t> sizes, ScalarType dtype) {
  const int storage = static_cast<int>(program.storages.size());
  program.storages.push_back(
      {ir::Role::Temporary, ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(dtype))});
  std::vector<int64_t> strides = ir::contiguous_strides(sizes);
  return {storage, dtype, 0, std::move(sizes), std::move(strides)};
}

Panels pack(ir::Program& program, const View& right, ScalarType dtype, int64_t wide,
            bool in_pairs) {
  const int64_t terms = from_last(right.sizes, 2), down = from_last(right.strides, 2),
                side = right.strides.back(), panels = right.sizes.back() / wide;
  const std::vector<int64_t> batch = batch_of(right.sizes), across = batch_of(right.strides);
  const auto copied = [&](View view, std::vector<int64_t> strides) -> Panels {
    StatementBuilder s(view.sizes);
    const Value x = s.load(access(right, with(across, strides)));
    return {s.store(view, x.to(dtype)), std::move(view), in_pairs};
  };
  if (!in_pairs)
    return copied(temporary(program, with(batch, {panels, terms, wide}), dtype),
                  {side * wide, down, side});
  const std::vector<int64_t> axes = with(batch, {panels, terms / 2, wide});
  View view = temporary(program, with(axes, {2}), dtype);
  if (right.dtype != dtype) return copied(std::move(view), {side * wide, down * 2, side, down});
  StatementBuilder s(axes);
  const Value x = words(s, right, wide);
  return {s.store(Access{view.storage, ScalarType::Int, 0, ir::contiguous_strides(axes), {}}, x),
          std::move(view), true};
}

Statement product(const View& left, const View& right, const View& out, ScalarType factors) {
  const std::vector<int64_t> axes =
      with(batch_of(out.sizes), {from_last(out.sizes, 2), out.sizes.back(), left.sizes.back()});
  const auto row = [](const View& x) { return from_last(x.strides, 2); };
  return sum_of_products(
      axes, axes.size() - 1,
      access(left, with(batch_of(left.strides), {row(left), 0, left.strides.back()})),
      access(right, with(batch_of(right.strides), {0, right.strides.back(), row(right)})), factors,
      access(out, with(batch_of(out.strides), {row(out), out.strides.back(), 0})));
}

Statement product(const View& left, const Panels& right, const View& out, ScalarType factors) {
  const size_t batch = out.sizes.size() - 2;
  const View& view = right.view;
  const int64_t wide = view.sizes[batch + 2], along = left.strides.back(),
                row = from_last(left.strides, 2);
  std::vector<int64_t> axes = with(batch_of(out.sizes), {from_last(out.sizes, 2), view.sizes[batch],
                                                         wide, view.sizes[batch + 1]}),
                       from = batch_of(left.strides),
                       across(view.strides.begin(),
                              view.strides.begin() + static_cast<std::ptrdiff_t>(batch)),
                       to = with(batch_of(out.strides),
                                 {from_last(out.strides, 2), out.strides.back() * wide,
                                  out.strides.back(), 0});
  const size_t terms = axes.size() - 1;
  across = with(across, {0, view.strides[batch], view.strides[batch + 2], view.strides[batch + 1]});
  if (right.in_pairs) {
    axes.push_back(2), to.push_back(0), across.push_back(1);
    from = with(from, {row, 0, 0, along * 2, along});
  } else {
    from = with(from, {row, 0, 0, along});
  }
  return sum_of_products(std::move(axes), terms, access(left, std::move(from)),
                         access(view, std::move(across)), factors, access(out, std::move(to)));
}

}  // namespace graft::passes
