// Groups of steps that schedules are chosen for: sums along the slow axis, numbers computed from
// tensors, interleaved parts, picked values, stores in the order of indices, parts that overlap.
#include "fuzz/generate.h"

namespace graft::fuzz {

namespace {

bool is_floating(const at::Tensor& t) {
  return at::isFloatingType(t.scalar_type());
}

Operand boolean(bool value) {
  return constant_of(value);
}

int matrix(Generator& g) {
  return g.pick([](const at::Tensor& t) { return t.dim() == 2 && t.numel() > 0; });
}

/// An input of indices into a dimension of `bound`; -1 where no input can be made any more.
int places(Generator& g, std::vector<int64_t> sizes, int64_t bound) {
  const int at = g.index_source(sizes, bound);
  return at >= 0 && g.tensor(at).sizes() == sizes ? at : -1;
}

/// sum(x * y) over the rows, and what is left of a row without its mean.
void column_sums(Generator& g) {
  const int x = matrix(g);
  if (x < 0) return;
  const int product = g.add("aten::mul.Tensor", {value_of(x), value_of(g.pick_beside(x))});
  if (product < 0) return;
  g.add("aten::sum.dim_IntList", {value_of(product), integers({0}), boolean(g.random.chance(0.5))});
  if (g.random.chance(0.5)) g.add("aten::amax", {value_of(product), integers({0}), boolean(false)});
}

/// x scaled by a number that is computed from some tensor.
void computed_scalar(Generator& g) {
  const int from = g.pick_any(), x = g.pick_any();
  if (from < 0 || x < 0) return;
  int number = g.random.chance(0.5) ? g.add("aten::max", {value_of(from)})
                                    : g.add("aten::sum", {value_of(from)});
  if (number >= 0) number = g.add("aten::add.Scalar", {value_of(number), integer(2), integer(1)});
  if (number < 0) return;
  g.add(g.random.chance(0.5) ? "aten::mul.Tensor" : "aten::sub.Tensor",
        {value_of(x), value_of(number)});
}

/// Parts along a new last axis, and one of them again.
void interleaved(Generator& g) {
  const int x = g.pick_of_rank(1);
  if (x < 0) return;
  std::vector<int> parts;
  for (int64_t k = g.random.between(2, 5); k > 0; --k) {
    int part = g.random.chance(0.6) ? g.add("aten::neg", {value_of(x)}) : -1;
    if (part < 0) part = g.pick_like(g.tensor(x).sizes(), g.tensor(x).scalar_type());
    parts.push_back(part);
  }
  const int joined = g.add("aten::stack", {values_of(parts), integer(-1)});
  if (joined < 0) return;
  if (g.random.chance(0.5))
    g.add("aten::select.int", {value_of(joined), integer(-1), integer(g.random.below(2))});
  if (g.random.chance(0.5)) g.add("aten::mul.Tensor", {value_of(joined), value_of(joined)});
}

/// What indices pick of computed values.
void picked(Generator& g) {
  const int x = matrix(g);
  if (x < 0) return;
  const int64_t rows = g.tensor(x).size(0), columns = g.tensor(x).size(1);
  const int at = places(g, {rows, g.random.between(1, 3)}, columns);
  if (at < 0) return;
  const int made = g.add("aten::abs", {value_of(x)});
  if (made >= 0) g.add("aten::gather", {value_of(made), integer(1), value_of(at)});
}

/// Rows of one matrix by two lists of indices, side by side, as the ends of a graph's edges.
void rows_by_index(Generator& g) {
  const int x = matrix(g);
  if (x < 0) return;
  const std::vector<int64_t> count{g.random.pick<int64_t>({1, 3, 20})};
  const int64_t rows = g.tensor(x).size(0);
  const int from = places(g, count, rows), to = places(g, count, rows);
  if (from < 0 || to < 0) return;
  const int first = g.add("aten::index_select", {value_of(x), integer(0), value_of(from)}),
            second = g.add("aten::index_select", {value_of(x), integer(0), value_of(to)});
  if (first >= 0 && second >= 0) g.add("aten::mul.Tensor", {value_of(first), value_of(second)});
}

/// One element per row, or several in the order of their indices, stored into rows that were made
/// just before, or into any.
void ordered(Generator& g) {
  const int x = matrix(g);
  if (x < 0) return;
  const int64_t dim = g.random.below(2), bound = g.tensor(x).size(dim);
  const int64_t count = g.random.pick<int64_t>({1, 1, 2, 7});
  std::vector<int64_t> sizes = g.tensor(x).sizes().vec();
  sizes[static_cast<size_t>(dim)] = count;
  const bool slices = g.random.chance(0.5);
  // Before the first step: an input of indices may have to be made.
  const int at = places(g, slices ? std::vector<int64_t>{count} : sizes, bound);
  if (at < 0) return;
  int into = g.random.chance(0.6) ? g.add("aten::mul.Tensor", {value_of(x), value_of(x)}) : x;
  if (g.random.chance(0.2)) into = g.add("aten::zeros_like", {value_of(x)});
  const int source = g.add(slices ? "aten::index_select" : "aten::gather",
                           {value_of(x), integer(dim), value_of(at)});
  if (into < 0 || source < 0) return;
  if (!slices && g.random.chance(0.3))
    g.add("aten::scatter_.value", {value_of(into), integer(dim), value_of(at), integer(3)});
  else
    g.add(slices ? "aten::index_add_" : "aten::scatter_add_",
          {value_of(into), integer(dim), value_of(at), value_of(source)});
  if (g.random.chance(0.6)) g.add("aten::add.Scalar", {value_of(into), integer(1), integer(1)});
}

/// Zeros, to which the same rows are added at two places.
void overlapping_parts(Generator& g) {
  const int x = g.pick_of_rank(1);
  if (x < 0 || g.tensor(x).dim() == 0) return;
  const int64_t rows = g.tensor(x).size(0), shift = g.random.between(1, 3);
  if (rows <= shift) return;
  const int sum = g.add("aten::zeros_like", {value_of(x)});
  if (sum < 0) return;
  for (const int64_t first : {int64_t{0}, shift}) {
    const int part = g.add("aten::slice.Tensor", {value_of(sum), integer(0), integer(first),
                                                  integer(first + rows - shift), integer(1)}),
              of_x = g.add("aten::slice.Tensor", {value_of(x), integer(0), integer(shift - first),
                                                  integer(rows - first), integer(1)});
    if (part < 0 || of_x < 0) return;
    g.add("aten::add_.Tensor", {value_of(part), value_of(of_x), integer(1)});
  }
  g.add("aten::mul.Tensor", {value_of(sum), value_of(sum)});
}

void resampled(Generator& g) {
  int x =
      g.pick([](const at::Tensor& t) { return t.dim() == 2 && t.numel() > 0 && is_floating(t); });
  if (x < 0) return;
  if (g.random.chance(0.5)) {
    const int row = g.add("aten::select.int", {value_of(x), integer(0), integer(0)});
    if (row >= 0)
      g.add("aten::bucketize.Tensor", {value_of(x), value_of(row), boolean(g.random.chance(0.5)),
                                       boolean(g.random.chance(0.5))});
    return;
  }
  const int64_t height = g.tensor(x).size(0), width = g.tensor(x).size(1);
  for (int k = 0; k < 2 && x >= 0; ++k) x = g.add("aten::unsqueeze", {value_of(x), integer(0)});
  if (x < 0) return;
  const Operand size = integers({height * g.random.between(1, 3), width * 2 + g.random.below(2)});
  x = g.random.chance(0.5)
          ? g.add("aten::upsample_nearest2d", {value_of(x), size})
          : g.add("aten::upsample_bilinear2d", {value_of(x), size, boolean(g.random.chance(0.5))});
  if (x >= 0) g.add("aten::add.Scalar", {value_of(x), integer(1), integer(1)});
}

/// Numbers read as integers of their size, changed in the last bits, and read back. (Not NaN, whose
/// bits nobody promises.)
void bits(Generator& g) {
  int x = g.pick([](const at::Tensor& t) { return is_floating(t); });
  if (x >= 0) x = g.add("aten::nan_to_num", {value_of(x)});
  if (x < 0) return;
  const at::ScalarType type = g.tensor(x).scalar_type();
  const size_t size = c10::elementSize(type);
  const at::ScalarType whole = size == 8 ? at::kLong : size == 4 ? at::kInt : at::kShort;
  auto as = [](at::ScalarType read) { return integer(static_cast<int64_t>(read)); };
  int coded = g.add("aten::view.dtype", {value_of(x), as(whole)});
  if (coded < 0) return;
  coded = g.random.chance(0.5)
              ? g.add("aten::bitwise_and.Scalar", {value_of(coded), integer(-8)})
              : g.add("aten::add.Scalar", {value_of(coded), integer(1), integer(1)});
  if (coded >= 0) g.add("aten::view.dtype", {value_of(coded), as(type)});
}

/// Maxima, with their places or without, or means of windows, some cut off by the border.
void pooled(Generator& g) {
  int x = g.pick([](const at::Tensor& t) {
    return t.dim() == 2 && is_floating(t) && t.size(0) >= 3 && t.size(1) >= 3;
  });
  if (x >= 0) x = g.add("aten::unsqueeze", {value_of(x), integer(0)});
  if (x < 0) return;
  const int64_t size = g.random.between(1, 5), step = g.random.between(1, 3),
                padding = g.random.below(size / 2 + 1);
  const bool ceil = g.random.chance(0.3);
  if (g.random.chance(0.5)) {
    g.add("aten::max_pool2d_with_indices",
          {value_of(x), integers({size, size}), integers({step, step}),
           integers({padding, padding}), integers({1, 1}), boolean(ceil)});
  } else {
    g.add("aten::avg_pool2d", {value_of(x), integers({size, size}), integers({step, step}),
                               integers({padding, padding}), boolean(ceil),
                               boolean(g.random.chance(0.5)), constant_of(c10::IValue())});
  }
}

/// Running maxima and minima, alone and of what was computed.
void running(Generator& g) {
  int x = matrix(g);
  if (x >= 0 && g.random.chance(0.5)) x = g.add("aten::abs", {value_of(x)});
  if (x < 0) return;
  const int most = g.add(g.random.chance(0.5) ? "aten::cummax" : "aten::cummin",
                         {value_of(x), integer(g.random.below(2))});
  if (most >= 0 && g.random.chance(0.5))
    g.add("aten::sub.Tensor", {value_of(x), value_of(most), integer(1)});
}

/// Rows with a border of their own elements.
void bordered(Generator& g) {
  int x = g.pick([](const at::Tensor& t) {
    return t.dim() == 2 && is_floating(t) && t.size(0) >= 2 && t.size(1) >= 5;
  });
  if (x < 0) return;
  const Operand border = integers({g.random.below(4), g.random.below(6) - 1});
  x = g.add(g.random.chance(0.5) ? "aten::reflection_pad1d" : "aten::replication_pad1d",
            {value_of(x), border});
  if (x >= 0) g.add("aten::mul.Tensor", {value_of(x), value_of(x)});
}

/// A matrix times a few of its own columns, or a vector.
void few_terms(Generator& g) {
  const int x =
      g.pick([](const at::Tensor& t) { return t.dim() == 2 && is_floating(t) && t.numel() > 0; });
  if (x < 0) return;
  const int64_t rows = g.tensor(x).size(0), columns = g.tensor(x).size(1),
                terms = std::min(g.random.between(1, 9), std::min(rows, columns));
  const int left = g.add("aten::slice.Tensor",
                         {value_of(x), integer(1), integer(0), integer(terms), integer(1)}),
            right = g.add("aten::slice.Tensor", {value_of(x), integer(0), integer(rows - terms),
                                                 integer(rows), integer(1)});
  if (left < 0 || right < 0) return;
  if (g.random.chance(0.3)) {
    const int row = g.add("aten::select.int", {value_of(x), integer(0), integer(0)});
    if (row >= 0) g.add("aten::mv", {value_of(x), value_of(row)});
    return;
  }
  const int product = g.add("aten::mm", {value_of(left), value_of(right)});
  if (product >= 0) g.add("aten::add.Tensor", {value_of(product), value_of(x), integer(1)});
}

/// Codes of a few bits, and what they stand for.
void coded(Generator& g) {
  const int x = matrix(g);
  if (x < 0) return;
  const int codes = places(g, g.tensor(x).sizes().vec(), g.random.pick<int64_t>({16, 256, 4096}));
  if (codes < 0) return;
  int digit = codes;
  if (g.random.chance(0.4))
    digit = g.add("aten::bitwise_right_shift.Tensor_Scalar",
                  {value_of(codes), integer(g.random.pick<int64_t>({4, 4, 8}))});
  if (digit >= 0 && g.random.chance(0.7))
    digit = g.add("aten::bitwise_and.Scalar",
                  {value_of(digit), integer(g.random.pick<int64_t>({15, 15, 7, 31}))});
  else if (digit >= 0)
    digit = g.add("aten::remainder.Scalar", {value_of(digit), integer(g.random.between(2, 17))});
  if (digit < 0) return;
  const int centred = g.add("aten::sub.Scalar", {value_of(digit), integer(8), integer(1)}),
            scale = g.add("aten::select.int", {value_of(x), integer(1), integer(0)});
  if (centred < 0 || scale < 0) return;
  const int column = g.add("aten::unsqueeze", {value_of(scale), integer(1)});
  if (column < 0) return;
  const int weight = g.add("aten::mul.Tensor", {value_of(centred), value_of(column)});
  if (weight < 0) return;
  const int product = g.add("aten::mul.Tensor", {value_of(weight), value_of(x)});
  if (product >= 0 && g.random.chance(0.7))
    g.add("aten::sum.dim_IntList", {value_of(product), integers({1}), boolean(false)});
}

/// Rows in order, many of whose elements are equal, and the largest of them.
void ranked(Generator& g) {
  int x =
      g.pick([](const at::Tensor& t) { return t.dim() == 2 && is_floating(t) && t.numel() > 0; });
  if (x < 0) return;
  if (g.random.chance(0.6)) x = g.add("aten::round", {value_of(x)});
  if (x < 0) return;
  const int64_t dim = g.random.below(2), count = g.tensor(x).size(dim);
  const bool descending = g.random.chance(0.5);
  switch (g.random.below(3)) {
    case 0: {
      const int order = g.add("aten::argsort", {value_of(x), integer(dim), boolean(descending)});
      if (order >= 0) g.add("aten::gather", {value_of(x), integer(dim), value_of(order)});
      return;
    }
    case 1: {
      const int sorted = g.add("aten::sort", {value_of(x), integer(dim), boolean(descending)});
      if (sorted >= 0) g.add("aten::mul.Tensor", {value_of(sorted), value_of(sorted)});
      return;
    }
    default: {
      const int best =
          g.add("aten::topk", {value_of(x), integer(std::min(g.random.between(1, 12), count)),
                               integer(dim), boolean(descending), boolean(true)});
      if (best < 0) return;
      const std::vector<int> found = g.latest();
      g.add("aten::add.Scalar", {value_of(best), integer(1), integer(1)});
      if (found.size() == 2 && g.random.chance(0.4))
        g.add("aten::gather", {value_of(x), integer(dim), value_of(found[1])});
      return;
    }
  }
}

}  // namespace

void add_idiom(Generator& g) {
  using Idiom = void (*)(Generator&);
  static constexpr Idiom kIdioms[] = {
      column_sums,       computed_scalar, interleaved, picked, ordered,
      overlapping_parts, resampled,       pooled,      bits,   running,
      bordered,          few_terms,       coded,       ranked, rows_by_index};
  kIdioms[g.random.below(std::size(kIdioms))](g);
}

}  // namespace graft::fuzz
