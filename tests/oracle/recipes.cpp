#include "oracle/recipes.h"

#include "ir/builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace graft::test {

bool accepts(const Recipe& recipe, at::ScalarType type) {
  if (recipe.types == Recipe::Types::All) return true;
  return recipe.types == Recipe::Types::Floating ? at::isFloatingType(type) : type != at::kBool;
}

namespace {

at::Tensor make_input(const Input& input, at::ScalarType type, Layout layout, bool specials,
                      Random& random) {
  int64_t count = 1;
  for (int64_t size : input.sizes) count *= size;
  switch (input.kind) {
    case Input::Kind::Indices: {
      at::Tensor out = at::empty({count}, at::kLong);
      for (int64_t i = 0; i < count; ++i)
        out.mutable_data_ptr<int64_t>()[i] = random.below(input.bound);
      return out.reshape(input.sizes);
    }
    case Input::Kind::Distinct: {
      std::vector<int64_t> all(static_cast<size_t>(input.bound));
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
      for (size_t i = all.size(); i > 1; --i)
        std::swap(all[i - 1], all[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
      return at::tensor(at::ArrayRef<int64_t>(all), at::kLong).slice(0, 0, count).clone();
    }
    case Input::Kind::Mask:
      return random_values(at::kBool, ops::Domain::Any, 0, count, random).reshape(input.sizes);
    case Input::Kind::Positive:
      return random_values(type, ops::Domain::Positive, 0, count, random, false)
          .reshape(input.sizes);
    case Input::Kind::Values:
      break;
  }
  at::Tensor made = lay_out(type, ops::Domain::Small, 0, input.sizes, layout, random, specials);
  // A sum in which the largest number meets its opposite depends on its order, in double as well.
  if (at::isFloatingType(type)) made.masked_fill_(made.abs().gt(3e4) & made.isfinite(), 0.75);
  return made;
}

double ulp_of(double value, at::ScalarType type) {
  int digits = type == at::kHalf ? 11 : type == at::kBFloat16 ? 8 : type == at::kFloat ? 24 : 53;
  int smallest = type == at::kHalf       ? -24
                 : type == at::kBFloat16 ? -133
                 : type == at::kFloat    ? -149
                                         : -1074;
  if (value == 0 || !std::isfinite(value)) return std::ldexp(1.0, smallest);
  return std::ldexp(1.0, std::max(std::ilogb(value) + 1 - digits, smallest));
}

struct Judgement {
  bool sums = false;
  double largest = 0;  ///< the sum of the arguments' absolute values
};

/// In double, with gaps between the elements: ATen then calls libm for one after the other, where
/// its vector functions err in double too.
at::Tensor elements_apart(const at::Tensor& t) {
  std::vector<int64_t> strides = ir::contiguous_strides(t.sizes().vec());
  for (int64_t& stride : strides) stride *= 2;
  return at::empty({2 * t.numel()}, at::kDouble).as_strided(t.sizes(), strides).copy_(t);
}

/// Root mean square of the finite values: what a difference of two large numbers is measured by.
double typical(const at::Tensor& x) {
  at::Tensor finite = x.isfinite() & x.abs().lt(1e100);
  if (!finite.any().item<bool>()) return 0;
  return x.masked_select(finite).square().mean().sqrt().item<double>();
}

std::string judge_one(const at::Tensor& exact, const at::Tensor& eager, const at::Tensor& came,
                      at::ScalarType computed, const Judgement& judgement) {
  if (std::string d = layout_difference(eager, came); !d.empty()) return d;
  at::ScalarType type = eager.scalar_type();
  if (!at::isFloatingType(type)) return value_difference(eager, came);
  // out= may be wider than what was computed.
  if (c10::elementSize(type) > c10::elementSize(computed)) type = computed;
  at::Tensor r = exact.to(at::kDouble).contiguous(), e = eager.to(at::kDouble).contiguous();
  at::Tensor c = came.to(at::kDouble).contiguous();
  bool in_double = type == at::kDouble;
  double scale =
      judgement.sums ? (in_double ? judgement.largest : typical(r)) : (in_double ? typical(r) : 0);
  double eager_worst = 0, came_worst = 0, eager_sum = 0, came_sum = 0;
  int64_t count = 0;
  std::string worst;
  for (int64_t i = 0; i < r.numel(); ++i) {
    double x = r.data_ptr<double>()[i], y = e.data_ptr<double>()[i], z = c.data_ptr<double>()[i];
    auto place = [&] {
      return "at " + index_text(i, r.sizes()) + ": in double " + number_text(x) + ", eager " +
             number_text(y) + ", compiled " + number_text(z);
    };
    // What double says of an overflow or a NaN is what the type says of it, rounded.
    if (!std::isfinite(x) || !std::isfinite(y) || !std::isfinite(z)) {
      double rounded = at::full({}, x, at::kDouble).to(type).item<double>();
      // Infinities that meet: which comes first, NaN or an infinity, depends on the order.
      bool lost = judgement.sums && !std::isfinite(z) && (std::isnan(rounded) || std::isnan(y));
      bool nan = std::isnan(z) && (std::isnan(rounded) || std::isnan(y));
      // Of two dtypes promoted, the result's is the one computed in.
      bool promoted = z == at::full({}, x, at::kDouble).to(came.scalar_type()).item<double>();
      // Eager's steps overflow where the value itself does not.
      bool nearer = std::isfinite(x) && std::isinf(y) && std::abs(z - x) <= 2 * ulp_of(x, type);
      bool same = nan || lost || promoted || nearer || z == rounded || z == y;
      if (!same) return place();
      continue;
    }
    double unit = ulp_of(std::max(std::abs(x), scale), type);
    // Fast exp gives 0 where the result would be subnormal, and is then multiplied by arguments.
    if (!in_double) unit = std::max<double>(unit, 64 * std::numeric_limits<float>::min());
    double ours = std::abs(z - x) / unit, theirs = std::abs(y - x) / unit;
    ++count;
    eager_worst = std::max(eager_worst, theirs), eager_sum += theirs * theirs;
    came_sum += ours * ours;
    if (ours > came_worst) came_worst = ours, worst = place();
  }
  if (count == 0) return {};
  // No larger than eager's: on the whole, with half a unit of slack. A single worst element is a
  // matter of luck.
  double eager_rms = std::sqrt(eager_sum / static_cast<double>(count)),
         came_rms = std::sqrt(came_sum / static_cast<double>(count));
  if (in_double ? came_worst <= std::max(judgement.sums ? 64.0 : 4.0, eager_worst)
                : came_rms <= 1.1 * eager_rms + 0.5 && came_worst <= 2 * eager_worst + 1)
    return {};
  return "error of " + number_text(came_rms) + " (worst " + number_text(came_worst) +
         ") ulp where eager has " + number_text(eager_rms) + " (" + number_text(eager_worst) +
         "); " + worst;
}

}  // namespace

std::string judge_by_double(const Function& f, const Tensors& arguments, const Tensors& eager,
                            const Tensors& came, bool sums) {
  Tensors wide;
  Judgement judgement{sums, 0};
  at::ScalarType computed = at::kDouble;
  // Operands are what eager's promotion makes of them: an integer may be rounded.
  std::optional<at::ScalarType> common;
  if (!sums && arguments.size() > 1) common = at::result_type(arguments[0], arguments[1]);
  for (const at::Tensor& argument : arguments) {
    at::Tensor t = argument;
    // Only what promotion changes: the second tensor may be a wider out=.
    bool adapts = t.dim() == 0 || at::isIntegralType(t.scalar_type(), /*includeBool=*/false);
    if (common && at::isFloatingType(*common) && adapts && t.scalar_type() != at::kBool)
      t = t.to(*common);
    if (!at::isFloatingType(t.scalar_type())) {
      wide.push_back(t.clone());
      continue;
    }
    // A tensor without dimensions takes the dtype of one that has some.
    at::ScalarType first = arguments[0].scalar_type();
    if (t.dim() == 0 && arguments[0].dim() > 0 && at::isFloatingType(first)) t = t.to(first);
    wide.push_back(sums ? t.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true)
                        : elements_apart(t));
    if (t.numel() > 0)
      judgement.largest =
          std::max(judgement.largest, wide.back().nan_to_num(0, 0, 0).abs().sum().item<double>());
    if (c10::elementSize(t.scalar_type()) < c10::elementSize(computed)) computed = t.scalar_type();
  }
  Tensors exact = f(wide);
  for (size_t i = 0; i < came.size(); ++i)
    if (std::string why = judge_one(exact[i], eager[i], came[i], computed, judgement); !why.empty())
      return "result " + std::to_string(i) + " " + why;
  return {};
}

Check check_of(const Recipe& recipe, at::ScalarType type, Layout layout) {
  Check check;
  check.label = recipe.label + " " + c10::toString(type) + " " + name_of(layout);
  for (const Input& input : recipe.inputs) {
    std::string sizes;
    for (int64_t size : input.sizes) {
      sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
      check.must_fuse = check.must_fuse && size != 0;
    }
    check.label += " [" + sizes + "]";
  }
  check.must_fuse = check.must_fuse && recipe.must_fuse;
  check.f = recipe.f;
  check.arguments = [recipe, type, layout](int call) {
    Random random(
        seed_of(recipe.label, static_cast<uint64_t>(call) * 31 + static_cast<uint64_t>(type)));
    Tensors made;
    // Special values in the first input only: what a weight of infinity does depends on how a
    // formula is written.
    for (const Input& input : recipe.inputs)
      made.push_back(make_input(input, type, layout,
                                call == 3 && made.empty() && !recipe.is_product(), random));
    return made;
  };
  check.judge = [f = recipe.f](const Tensors& arguments, const Tensors& eager,
                               const Tensors& came) {
    return judge_by_double(f, arguments, eager, came, /*sums=*/true);
  };
  check.ulps = 64;  // of arguments that are written: an out= tensor is a result too, and judged
  check.may_refuse = recipe.may_refuse;
  return check;
}

}  // namespace graft::test
