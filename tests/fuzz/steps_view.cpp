// Views, and what joins and splits tensors.
#include "fuzz/generate.h"

namespace graft::fuzz {

namespace {

std::vector<int64_t> shuffled_dims(Generator& g, int64_t rank) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
  for (size_t i = dims.size(); i > 1; --i)
    std::swap(dims[i - 1], dims[static_cast<size_t>(g.random.below(static_cast<int64_t>(i)))]);
  return dims;
}

/// Sizes with the same number of elements: two neighbours joined, or one cut by a factor.
std::vector<int64_t> reshaped(Generator& g, at::IntArrayRef sizes) {
  std::vector<int64_t> out = sizes.vec();
  if (out.size() > 1 && g.random.chance(0.5)) {
    size_t at = static_cast<size_t>(g.random.below(static_cast<int64_t>(out.size()) - 1));
    out[at] *= out[at + 1];
    out.erase(out.begin() + static_cast<int64_t>(at) + 1);
    return out;
  }
  if (!out.empty()) {
    size_t at = static_cast<size_t>(g.random.below(static_cast<int64_t>(out.size())));
    for (int64_t factor : {2, 3, 5, 4})
      if (out[at] > 0 && out[at] % factor == 0) {
        out[at] /= factor;
        out.insert(out.begin() + static_cast<int64_t>(at) + 1, factor);
        return out;
      }
  }
  return {-1};
}

void slice(Generator& g, int x) {
  int64_t dim = g.dim_of(x), size = g.tensor(x).dim() > 0 ? g.tensor(x).size(dim) : 1;
  int64_t start = g.random.below(size + 1), end = g.random.between(start, size);
  if (g.random.chance(0.1)) start = -g.random.below(size + 2);
  if (end == start && g.random.chance(0.8)) end = size;
  int64_t step = g.random.chance(0.75) ? 1 : g.random.between(2, 3);
  g.add("aten::slice.Tensor",
        {value_of(x), integer(dim), integer(start), integer(end), integer(step)});
}

void strided(Generator& g, int x) {
  const at::Tensor& t = g.tensor(x);
  // Windows that overlap, within the tensor's own memory.
  if (t.numel() < 8 || !t.is_contiguous()) return;
  int64_t rows = g.random.between(2, 3), columns = g.random.between(2, 4);
  g.add("aten::as_strided",
        {value_of(x), integers({rows, columns}), integers({g.random.between(0, 1), 1}),
         constant_of(t.storage_offset() + g.random.between(0, 1))});
}

}  // namespace

void add_view(Generator& g) {
  int x = g.pick_of_rank(g.random.chance(0.8) ? 2 : 1);
  if (x < 0) return;
  const at::Tensor& t = g.tensor(x);
  int64_t rank = t.dim(), dim = g.dim_of(x);
  switch (g.random.below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return slice(g, x);
    case 4:
      if (t.size(dim) > 0)
        g.add("aten::select.int",
              {value_of(x), integer(dim), integer(g.random.below(t.size(dim)))});
      return;
    case 5:
      g.add("aten::permute", {value_of(x), integers(shuffled_dims(g, rank))});
      return;
    case 6:
      g.add("aten::transpose.int", {value_of(x), integer(dim), integer(g.dim_of(x))});
      return;
    case 7:
    case 8:
      g.add(g.random.chance(0.5) ? "aten::view" : "aten::reshape",
            {value_of(x), integers(reshaped(g, t.sizes()))});
      return;
    case 9:
      g.add("aten::unsqueeze", {value_of(x), integer(g.random.between(-rank - 1, rank))});
      return;
    case 10:
      g.add("aten::squeeze", {value_of(x)});
      return;
    case 11: {
      std::vector<int64_t> sizes = t.sizes().vec();
      for (int64_t& size : sizes)
        if (size == 1 && g.random.chance(0.5)) size = g.random.between(1, 4);
      if (g.random.chance(0.6)) sizes.insert(sizes.begin(), g.random.between(1, 3));
      g.add("aten::expand", {value_of(x), integers(sizes)});
      return;
    }
    case 12:
      if (t.size(dim) > 1) {
        int64_t window = g.random.between(1, std::min<int64_t>(t.size(dim), 4));
        g.add("aten::unfold",
              {value_of(x), integer(dim), integer(window), integer(g.random.between(1, 4))});
      }
      return;
    case 13:
      if (rank > 1)
        g.add("aten::diagonal",
              {value_of(x), integer(g.random.between(-1, 1)), integer(0), integer(1)});
      return;
    case 14:
      return strided(g, x);
    default:
      if (rank <= 2) g.add("aten::t", {value_of(x)});
      return;
  }
}

void add_join(Generator& g) {
  int x = g.pick_of_rank(1);
  if (x < 0) return;
  const at::Tensor& t = g.tensor(x);
  int64_t dim = g.dim_of(x);
  auto fits = [&](const at::Tensor& other) {
    if (other.dim() != t.dim()) return false;
    for (int64_t d = 0; d < t.dim(); ++d)
      if (d != (dim + t.dim()) % t.dim() && other.size(d) != t.size(d)) return false;
    return true;
  };
  switch (g.random.below(6)) {
    case 0:
    case 1: {
      std::vector<int> parts = {x};
      for (int64_t i = g.random.between(1, 3); i > 0; --i) parts.push_back(g.pick(fits));
      g.add("aten::cat", {values_of(parts), integer(dim)});
      return;
    }
    case 2: {
      std::vector<int> parts = {x};
      for (int64_t i = g.random.between(0, 2); i > 0; --i)
        parts.push_back(g.pick_like(t.sizes(), t.scalar_type()));
      g.add("aten::stack", {values_of(parts), integer(g.random.between(-t.dim() - 1, t.dim()))});
      return;
    }
    case 3:
      if (t.size(dim) > 0)
        g.add("aten::split.Tensor",
              {value_of(x), integer(g.random.between((t.size(dim) + 3) / 4, t.size(dim))),
               integer(dim)});
      return;
    case 4:
      g.add("aten::chunk", {value_of(x), integer(g.random.between(1, 4)), integer(dim)});
      return;
    default:
      if (t.size(dim) <= 5 && t.size(dim) > 0)
        g.add("aten::unbind.int", {value_of(x), integer(dim)});
      return;
  }
}

}  // namespace graft::fuzz
