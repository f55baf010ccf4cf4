// Convolutions of few terms: filters of images, and depthwise ones. All others are calls of ATen's
// routines, which bring their operands into an order of their own; where there is little to
// multiply, that takes longer than the products.
#include <algorithm>
#include <utility>

#include "ops/reduce.h"
#include "ops/schema.h"
#include "ops/windows.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Terms of a sum, which are written out.
constexpr int64_t kMostTerms = 64;
/// Input and output channels of a group: with more of them a routine's order pays.
constexpr int64_t kMostChannels = 4;
/// Sums of so many terms are added up in two parts, so that one need not wait for the other.
constexpr int64_t kTwoChains = 9;

/// Of [batch, channels, places…]; the weight is [channels, channels of a group, taps…].
struct Convolution {
  View in, weight, bias, out;
  std::vector<int64_t> step, padding, apart;  ///< by place
  int64_t groups = 1;

  size_t places() const { return in.sizes.size() - 2; }
  int64_t in_channels() const { return weight.sizes[1]; }
  int64_t out_channels() const { return out.sizes[1] / groups; }
  int64_t terms() const { return ir::numel(weight.sizes) / std::max<int64_t>(weight.sizes[0], 1); }
};

/// The input with zeros around it, rows side by side.
View bordered(Context& ctx, const Convolution& c) {
  std::vector<int64_t> sizes = c.in.sizes;
  for (size_t k = 0; k < c.places(); ++k) sizes[2 + k] += 2 * c.padding[k];
  if (sizes == c.in.sizes && c.in.strides.back() == 1) return c.in;
  return with_border(ctx, c.in, sizes, c.padding, 0);
}

/// The sums of one group's output channel `channel`, of all groups.
void write_out(Context& ctx, const Convolution& c, const View& in, int64_t channel) {
  const auto bytes = static_cast<int64_t>(c10::elementSize(c.out.dtype));
  // Axes: batch, group, places.
  View out = c.out;
  out.sizes[1] = c.groups, out.strides[1] *= c.out_channels();
  out.byte_offset += channel * c.out.strides[1] * bytes;
  StatementBuilder s(out.sizes);
  View x = in, w = c.weight, b = c.bias;
  x.sizes = w.sizes = b.sizes = out.sizes;
  x.strides[1] *= c.in_channels();
  for (size_t k = 0; k < c.places(); ++k) x.strides[2 + k] *= c.step[k];
  w.strides.assign(out.sizes.size(), 0), b.strides.assign(out.sizes.size(), 0);
  w.strides[1] = c.weight.strides[0] * c.out_channels();
  w.byte_offset += channel * c.weight.strides[0] * bytes;
  if (b.storage >= 0) {
    b.strides[1] = c.bias.strides[0] * c.out_channels();
    b.byte_offset += channel * c.bias.strides[0] * bytes;
  }

  const int64_t chains = c.terms() < kTwoChains ? 1 : 2;
  std::vector<Value> sums;
  std::vector<int64_t> tap(1 + c.places(), 0);  // channel, then places
  for (int64_t term = 0; term < c.terms(); ++term) {
    View xk = x, wk = w;
    xk.byte_offset += tap[0] * in.strides[1] * bytes;
    for (size_t k = 0; k < tap.size(); ++k) {
      wk.byte_offset += tap[k] * c.weight.strides[1 + k] * bytes;
      if (k > 0) xk.byte_offset += tap[k] * c.apart[k - 1] * in.strides[1 + k] * bytes;
    }
    const Value left = s.load(xk), right = s.load(wk);
    if (term < chains) {
      sums.push_back(left * right);
    } else {
      Value& sum = sums[static_cast<size_t>(term % chains)];
      sum = ctx.settings.target.fma ? ir::fma(left, right, sum) : sum + left * right;
    }
    for (size_t k = tap.size(); k-- > 0 && ++tap[k] == c.weight.sizes[1 + k];) tap[k] = 0;
  }
  Value sum = sums[0];
  for (size_t k = 1; k < sums.size(); ++k) sum = sum + sums[k];
  if (b.storage >= 0) sum = sum + s.load(b);
  ctx.emit(s.store(out, sum));
}

Fate convolution(Context& ctx, const OperatorRecord& op) {
  Convolution c{
      ctx.tensor(op, 0), ctx.tensor(op, 1), ctx.tensor(op, 2), ctx.output(op), {}, {}, {}};
  const size_t rank = c.in.sizes.size();
  if (c.in.storage < 0 || c.weight.storage < 0 || rank < 3 || c.out.sizes.size() != rank ||
      c.weight.sizes.size() != rank || boolean(op, "transposed", false))
    return Fate::external("an unusual convolution");
  if ((c.out.dtype != ScalarType::Float && c.out.dtype != ScalarType::Double) ||
      c.in.dtype != c.out.dtype || c.weight.dtype != c.out.dtype ||
      (c.bias.storage >= 0 && c.bias.dtype != c.out.dtype))
    return Fate::external("a convolution of 16 bits");
  const auto setting = [&](const char* name) {
    std::vector<int64_t> list = integers(op, name);
    if (!list.empty()) list.resize(rank - 2, list.back());
    return list;
  };
  c.step = setting("stride"), c.padding = setting("padding"), c.apart = setting("dilation");
  c.groups = c.weight.sizes[1] == 0 ? 0 : c.in.sizes[1] / c.weight.sizes[1];
  if (c.step.empty() || c.padding.empty() || c.apart.empty() || c.groups == 0 ||
      ir::numel(c.in.sizes) == 0 || c.terms() == 0)
    return Fate::external("an unusual convolution");
  if (c.terms() > kMostTerms || c.in_channels() > kMostChannels || c.out_channels() > kMostChannels)
    return Fate::external("a convolution of many terms");
  // A routine does better on rows shorter than a vector, and where channels lie side by side; but
  // not on sequences, each channel by itself, for which it is given rows.
  const bool by_itself = rank == 3 && c.in_channels() == 1 && c.out_channels() == 1;
  if ((c.in.strides.back() != 1 && !by_itself) || c.out.strides.back() != 1 ||
      c.out.sizes.back() < ctx.settings.target.lanes)
    return Fate::external("a convolution of short rows, or with channels last");
  if (!ctx.settings.any_products)
    return Fate::external("a convolution, whose bits are to be eager's");
  for (const View* view : {&c.in, &c.weight, &c.bias})
    if (view->storage >= 0 && overlaps(*view, {c.out})) return Fate::external(kOverlap);
  if (ir::numel(c.out.sizes) == 0) return Fate::fused();
  ctx.approximate(c.out.dtype);
  const View in = bordered(ctx, c);
  for (int64_t channel = 0; channel < c.out_channels(); ++channel) write_out(ctx, c, in, channel);
  return Fate::fused();
}

}  // namespace

std::vector<Row> convolution_rows() {
  return {
      {"aten::convolution", convolution,
       "in fp32 and fp64, of up to 64 terms, 4 channels in a group and rows of a vector or more: "
       "sums written out"}};
}

}  // namespace graft::ops
