// Reductions, scans, norms, indexing, and operators that stay ATen's.
#include "fuzz/generate.h"

namespace graft::fuzz {

namespace {

Operand boolean(bool value) {
  return constant_of(value);
}

bool is_floating(const at::Tensor& t) {
  return at::isFloatingType(t.scalar_type());
}

/// Of equal values eager's variance and norm are what its rounding left, times 1 / sqrt(eps).
bool has_constant_rows(const at::Tensor& t, const std::vector<int64_t>& dims) {
  if (t.numel() == 0) return true;
  const at::Tensor x = t.to(at::kDouble);
  return at::eq(x.amax(dims), x.amin(dims)).any().item<bool>();
}

}  // namespace

void add_reduction(Generator& g) {
  int x = g.pick_of_rank(1);
  if (x < 0) return;
  bool keep = g.random.chance(0.5);
  int64_t dim = g.dim_of(x);
  std::vector<int64_t> dims = {dim};
  if (g.random.chance(0.2)) {
    dims.clear();
    for (int64_t d = 0; d < g.tensor(x).dim(); ++d) dims.push_back(d);
  }
  static const std::vector<std::string> over_dims = {"aten::sum.dim_IntList", "aten::mean.dim",
                                                     "aten::amax", "aten::amin"};
  static const std::vector<std::string> over_dim = {
      "aten::max.dim", "aten::min.dim", "aten::any.dim",     "aten::all.dim",
      "aten::argmax",  "aten::argmin",  "aten::prod.dim_int"};
  switch (g.random.below(6)) {
    case 0:
    case 1:
    case 2:
      g.add(g.random.pick(over_dims), {value_of(x), integers(dims), boolean(keep)});
      return;
    case 3:
      g.add(g.random.pick(over_dim), {value_of(x), integer(dim), boolean(keep)});
      return;
    case 4:
      g.add(g.random.chance(0.7) ? "aten::cumsum" : "aten::cumprod", {value_of(x), integer(dim)});
      return;
    default:
      if (is_floating(g.tensor(x)) && !has_constant_rows(g.tensor(x), dims))
        g.add("aten::var.correction",
              {value_of(x), integers(dims), integer(g.random.between(0, 1)), boolean(keep)});
      return;
  }
}

void add_norm(Generator& g) {
  int x =
      g.pick([](const at::Tensor& t) { return is_floating(t) && t.dim() > 0 && t.numel() > 1; });
  if (x < 0) return;
  if (g.random.chance(0.6)) {
    g.add(g.random.chance(0.7) ? "aten::_softmax" : "aten::_log_softmax",
          {value_of(x), integer(g.dim_of(x)), boolean(false)});
    return;
  }
  int64_t n = g.tensor(x).size(-1);
  if (n == 1 || has_constant_rows(g.tensor(x), {-1})) return;
  int weight = g.random.chance(0.5) ? g.pick_like({n}, g.tensor(x).scalar_type()) : -1;
  Operand none = constant_of(c10::IValue());
  g.add(
      "aten::native_layer_norm",
      {value_of(x), integers({n}), weight >= 0 ? value_of(weight) : none, none, constant_of(1e-5)});
}

void add_index(Generator& g) {
  int x = g.pick_of_rank(1);
  if (x < 0 || g.tensor(x).dim() == 0) return;
  int64_t dim = g.dim_of(x), bound = g.tensor(x).size(dim), rank = g.tensor(x).dim();
  if (bound == 0) return;
  // An index out of bounds now and then: it must throw.
  int64_t claimed = bound + (g.random.chance(0.03) ? 2 : 0);
  int place = g.index_source({g.random.pick<int64_t>({1, 4, 5, 17})}, claimed);
  if (place < 0)
    place =
        g.pick([&](const at::Tensor& t) { return t.scalar_type() == at::kLong && t.dim() == 1; });
  if (place < 0) return;
  bool safe = place < static_cast<int>(g.program.sources.size()) &&
              g.program.sources[static_cast<size_t>(place)].index_bound > 0 &&
              g.program.sources[static_cast<size_t>(place)].index_bound <= bound + 2;
  if (!safe)
    return;  // numbers that were computed may be anything; ATen's checks are for its own kernels
  std::vector<int> places(static_cast<size_t>((dim + rank) % rank), -1);
  places.push_back(place);
  switch (g.random.below(6)) {
    case 0:
    case 1:
      g.add("aten::index_select", {value_of(x), integer(dim), value_of(place)});
      return;
    case 2:
      g.add("aten::index.Tensor", {value_of(x), optionals_of(places)});
      return;
    case 3:
      g.add("aten::index_fill_.int_Scalar",
            {value_of(x), integer(dim), value_of(place), integer(1)});
      return;
    case 4:
      if (rank == 1) g.add("aten::gather", {value_of(x), integer(0), value_of(place)});
      if (rank == 2) g.add("aten::embedding", {value_of(x), value_of(place)});
      return;
    default: {
      int one = g.pick_like({}, g.tensor(x).scalar_type());
      if (one >= 0) g.add("aten::index_put_", {value_of(x), optionals_of(places), value_of(one)});
      return;
    }
  }
}

void add_extern(Generator& g) {
  int x =
      g.pick([](const at::Tensor& t) { return t.dim() == 2 && is_floating(t) && t.numel() > 0; });
  if (x < 0) return;
  switch (g.random.below(4)) {
    case 0:
    case 1: {
      int y = g.pick([&](const at::Tensor& t) {
        return t.dim() == 2 && t.scalar_type() == g.tensor(x).scalar_type() &&
               t.size(0) == g.tensor(x).size(1);
      });
      if (y < 0) y = g.add("aten::t", {value_of(x)});
      if (y >= 0) g.add("aten::mm", {value_of(x), value_of(y)});
      return;
    }
    case 2:
      g.add("aten::sort", {value_of(x), integer(g.dim_of(x)), boolean(false)});
      return;
    default:
      g.program.random = true;
      g.add("aten::bernoulli_.float", {value_of(x), constant_of(0.5)});
      return;
  }
}

}  // namespace graft::fuzz
