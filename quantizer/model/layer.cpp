#include "quantizer/model/layer.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <sstream>

#include "quantizer/model/grid.h"

namespace graft::quantizer {
namespace {

/// Adds what a scope took to a number of milliseconds.
class Stopwatch {
 public:
  explicit Stopwatch(double& ms) : ms_(ms) {}
  ~Stopwatch() { ms_ += std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& ms_;
  Clock::time_point start_ = Clock::now();
};

template <class... Parts>
[[noreturn]] void fail(const std::string& name, const Parts&... parts) {
  std::ostringstream text;
  text << "layer '" << name << "': ";
  (text << ... << parts);
  throw GptqError(text.str());
}

bool finite(const at::Tensor& t) {
  const auto [low, high] = at::aminmax(t);  // NaN passes through both
  return std::isfinite(low.item<double>()) && std::isfinite(high.item<double>());
}

/// "2 of 4096 weights are NaN or Inf, the first at [3, 5]", for an error's text.
std::string count_infinite(const at::Tensor& t, const char* what) {
  const at::Tensor where = at::nonzero(t.isfinite().logical_not());
  std::ostringstream text;
  text << where.size(0) << " of " << t.numel() << ' ' << what << " are NaN or Inf, the first at [";
  for (int64_t i = 0; i < where.size(1); ++i)
    text << (i == 0 ? "" : ", ") << where[0][i].item<int64_t>();
  text << ']';
  return text.str();
}

void check_tensors(const std::string& name, const at::Tensor& weight, const Hessian& hessian,
                   const at::Tensor& mask) {
  if (!weight.defined() || weight.dim() != 2 || !weight.is_floating_point() || weight.numel() == 0)
    fail(name, "the weight is ",
         weight.defined() ? c10::str(weight.sizes(), " of type ", weight.scalar_type()) : "missing",
         "; expected a matrix [outputs, inputs] of a floating type");
  if (weight.size(1) != hessian.columns())
    fail(name, "the weight has ", weight.size(1), " columns and the calibration inputs have ",
         hessian.columns(), "; they must be the inputs of this layer");
  if (mask.defined() && (mask.scalar_type() != at::kBool || mask.sizes() != weight.sizes()))
    fail(name, "the mask is ", mask.sizes(), " of type ", mask.scalar_type(),
         "; expected the weight's shape ", weight.sizes(), " and Bool");
  if (hessian.samples() == 0)
    fail(name, "no calibration inputs; give it at least one sample, better some thousand tokens");
}

constexpr int64_t kWholeMatmul = 512;  ///< rows below which a triangle's zeros cost little

/// out = a b, where a is upper triangular; by halves, so that its zeros are not multiplied.
void upper_times(const at::Tensor& a, const at::Tensor& b, at::Tensor out) {
  const int64_t n = a.size(0), half = n / 2;
  if (n <= kWholeMatmul) {
    at::mm_out(out, a, b);
    return;
  }
  upper_times(a.slice(0, 0, half).slice(1, 0, half), b.slice(0, 0, half), out.slice(0, 0, half));
  out.slice(0, 0, half).addmm_(a.slice(0, 0, half).slice(1, half), b.slice(0, half));
  upper_times(a.slice(0, half).slice(1, half), b.slice(0, half), out.slice(0, half));
}

/// out = x c, where c is upper triangular.
void times_upper(const at::Tensor& x, const at::Tensor& c, at::Tensor out) {
  const int64_t n = c.size(0), half = n / 2;
  if (n <= kWholeMatmul) {
    at::mm_out(out, x, c);
    return;
  }
  const at::Tensor first = x.slice(1, 0, half), second = x.slice(1, half);
  times_upper(first, c.slice(0, 0, half).slice(1, 0, half), out.slice(1, 0, half));
  times_upper(second, c.slice(0, half).slice(1, half), out.slice(1, half));
  out.slice(1, half).addmm_(first, c.slice(0, 0, half).slice(1, half));
}

/// Replaces an upper triangular matrix (with zeros below) by its inverse. By halves, so that nearly
/// all of the work is matmuls: [A B; 0 C] becomes [A' -A' B C'; 0 C'], where ' is the inverse.
void invert_upper(const at::Tensor& r) {
  constexpr int64_t kLeaf = 128;
  const int64_t n = r.size(0), half = n / 2;
  if (n <= kLeaf) {
    r.copy_(at::linalg_solve_triangular(r, at::eye(n, r.options()), /*upper=*/true));
    return;
  }
  const at::Tensor a = r.slice(0, 0, half).slice(1, 0, half),
                   b = r.slice(0, 0, half).slice(1, half), c = r.slice(0, half).slice(1, half);
  invert_upper(a);
  invert_upper(c);
  const at::Tensor product = at::empty({half, n - half}, r.options());
  upper_times(a, b, product);
  times_upper(product.neg_(), c, b);
}

/// The upper Cholesky factor of h's inverse, or nothing if h is not positive definite in its
/// precision. The reference factors h, inverts it, and factors the inverse. The same matrix comes
/// from h = R R^T with R upper triangular, since then h^-1 = (R^-1)^T R^-1: half the operations,
/// and an inverse is never formed, so that less is lost to rounding. R is the lower factor of h
/// with rows and columns in reverse, reversed again.
std::optional<at::Tensor> inverse_factor(at::Tensor h) {
  at::Tensor reversed = h.flip({0, 1});
  h.reset();
  auto [lower, info] = at::linalg_cholesky_ex(reversed);
  reversed.reset();
  if (info.item<int>() != 0 || !finite(lower.diagonal())) return std::nullopt;
  const at::Tensor upper = lower.flip({0, 1});  // column-major, as LAPACK leaves it
  lower.reset();
  invert_upper(upper);
  if (!finite(upper.diagonal())) return std::nullopt;
  return upper.to(at::kFloat);
}

/// H as GPTQ takes it: the diagonal of dead columns 1, columns in `order` (if defined), dampened.
at::Tensor prepared(const Hessian& hessian, const at::Tensor& dead, const at::Tensor& order,
                    double dampening) {
  at::Tensor h = hessian.matrix();
  at::Tensor diagonal = h.diagonal();
  diagonal.masked_fill_(dead, 1);
  diagonal += diagonal.mean() * dampening;
  if (order.defined()) {  // one after the other: two matrices at a time, not three
    h = h.index_select(0, order);
    h = h.index_select(1, order);
  }
  return h;
}

Hessian::Factor factorise(const std::string& name, const Hessian& hessian, const at::Tensor& dead,
                          const at::Tensor& order, double dampening) {
  constexpr int kAttempts = 4;
  for (int attempt = 1;; ++attempt) {
    auto upper = inverse_factor(prepared(hessian, dead, order, dampening));
    if (upper) return {*upper, dampening};
    if (attempt == kAttempts)
      fail(name, "the Hessian of ", hessian.samples(), " samples over ", hessian.columns(),
           " columns is singular even with a dampening of ", dampening,
           "; give more or more varied calibration inputs, or a larger dampening (0.01 is usual)");
    dampening = dampening == 0 ? 0.001 : dampening * 10;
  }
}

/// Scales and zeros of all groups, found as the columns are reached: a group's weights then hold
/// the errors of the blocks before.
class Grids {
 public:
  Grids(const at::Tensor& w, const Settings& settings)
      : w_(w),
        bits_(settings.bits),
        symmetric_(settings.symmetric),
        width_(settings.group > 0 ? settings.group : w.size(1)),
        scale_(at::empty({w.size(1) / width_, w.size(0)}, at::kFloat)),
        zero_(at::empty_like(scale_)) {}

  /// Finds those of the groups that begin in these columns, and returns scale and zero for each
  /// column [rows, n], or one [rows] where the columns lie in one group.
  Grid at_columns(int64_t begin, int64_t end) {
    for (; found_ * width_ < end; ++found_) {
      const Grid grid =
          find_grid(w_.slice(1, found_ * width_, (found_ + 1) * width_), bits_, symmetric_);
      scale_.select(0, found_).copy_(grid.scale);
      zero_.select(0, found_).copy_(grid.zero);
    }
    const int64_t first = begin / width_;
    if (first == (end - 1) / width_) return {scale_.select(0, first), zero_.select(0, first)};
    const at::Tensor groups = at::arange(begin, end).floor_divide_(width_);
    return {scale_.t().index_select(1, groups), zero_.t().index_select(1, groups)};
  }

  at::Tensor scale() const { return scale_.t().contiguous(); }
  at::Tensor zero() const { return zero_.t().to(at::kInt).contiguous(); }
  int64_t width() const { return width_; }

 private:
  const at::Tensor& w_;
  int bits_;
  bool symmetric_;
  int64_t width_;
  at::Tensor scale_, zero_;  ///< [groups, rows]
  int64_t found_ = 0;
};

}  // namespace

void check_settings(const std::string& name, const Settings& s, int64_t columns) {
  if (s.bits < 2 || s.bits > 8) fail(name, s.bits, " bits; GPTQ here takes 2 to 8");
  if (s.group != -1 && s.group < 1)
    fail(name, "a group of ", s.group, " columns; give at least 1, or -1 for one scale per row");
  if (s.group > 0 && columns % s.group != 0)
    fail(name, "a group of ", s.group, " columns does not divide the layer's ", columns,
         "; give a divisor, or -1 for one scale per row");
  if (s.block < 1) fail(name, "a block of ", s.block, " columns; give at least 1 (128 is usual)");
  if (!std::isfinite(s.dampening) || s.dampening < 0)
    fail(name, "a dampening of ", s.dampening, "; give a share of 0 or more (0.01 is usual)");
}

LayerResult quantize_layer(const std::string& name, const at::Tensor& weight,
                           const Hessian& hessian, const Settings& settings,
                           const QuantizeBlock& quantize, const at::Tensor& mask) {
  LayerResult result;
  LayerTimes& times = result.times;
  const Stopwatch total(times.total);
  check_tensors(name, weight, hessian, mask);
  const int64_t rows = weight.size(0), columns = weight.size(1);
  check_settings(name, settings, columns);
  at::Tensor w =
      weight.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
  if (!finite(w)) fail(name, count_infinite(w, "weights"), "; repair or replace the checkpoint");
  const at::Tensor diagonal = hessian.diagonal();
  if (!finite(diagonal))
    fail(name, count_infinite(diagonal, "columns of the calibration inputs"),
         " (or their squares overflow); look at the layers before this one, or calibrate in fp32");

  const at::Tensor dead = diagonal == 0;
  result.dead_columns = dead.sum().item<int64_t>();
  if (result.dead_columns > 0) w.masked_fill_(dead, 0);
  at::Tensor order, pruned = mask;
  if (settings.act_order) {
    order = std::get<1>(diagonal.sort(/*stable=*/true, 0, /*descending=*/true));
    w = w.index_select(1, order);
    if (mask.defined()) pruned = mask.index_select(1, order);
  }
  if (hessian.factor(settings.dampening, settings.act_order) == nullptr) {
    const Stopwatch time(times.factor);
    hessian.keep(factorise(name, hessian, dead, order, settings.dampening), settings.dampening,
                 settings.act_order);
  }
  const Hessian::Factor& factor = *hessian.factor(settings.dampening, settings.act_order);
  const at::Tensor upper = factor.upper;
  result.dampening = factor.dampening;

  const CodeRange range = CodeRange::of(settings.bits, settings.symmetric);
  result.codes = at::empty({rows, columns}, settings.symmetric ? at::kChar : at::kByte);
  Grids grids(w, settings);
  for (int64_t begin = 0; begin < columns; begin += settings.block) {
    const int64_t end = std::min(begin + settings.block, columns);
    const at::Tensor block = w.slice(1, begin, end);
    const Grid grid = grids.at_columns(begin, end);
    at::Tensor losses, errors;
    {
      const Stopwatch time(times.process);
      std::tie(losses, errors) = quantize(
          block, upper.slice(0, begin, end).slice(1, begin, end).contiguous(), grid.scale,
          grid.zero, pruned.defined() ? pruned.slice(1, begin, end) : pruned,
          result.codes.slice(1, begin, end), range.smallest, range.largest, settings.symmetric);
    }
    result.loss += losses.sum().item<double>() / 2;
    if (end < columns) {
      const Stopwatch time(times.update);
      w.slice(1, end).addmm_(errors, upper.slice(0, begin, end).slice(1, end), /*beta=*/1,
                             /*alpha=*/-1);
    }
  }
  if (!std::isfinite(result.loss))
    fail(name, "the quantised weights overflow fp32: weights of up to ",
         weight.abs().max().item<double>(), "; scale the layer down");
  result.scale = grids.scale();
  result.zero = grids.zero();
  result.weight = w;
  if (settings.act_order) {
    const at::Tensor back = order.argsort();
    result.codes = result.codes.index_select(1, back);
    result.weight = w.index_select(1, back);
    if (settings.group > 0) result.group_index = back.floor_divide(grids.width()).to(at::kInt);
  }
  return result;
}

}  // namespace graft::quantizer
