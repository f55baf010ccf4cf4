#include "workloads/decoder/parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/where.h>

#include <numbers>
#include <stdexcept>

namespace graft::workloads::decoder {

using at::Tensor;

void check_in_vocabulary(const std::string& came, const Tensor& ids, int64_t vocabulary) {
  const int64_t least = ids.min().item<int64_t>(), most = ids.max().item<int64_t>();
  if (least < 0 || most >= vocabulary)
    throw std::invalid_argument(came + " of " + std::to_string(least) + " to " +
                                std::to_string(most) + "; the vocabulary has " +
                                std::to_string(vocabulary));
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor wide = x.to(at::kFloat);
  const Tensor mean = wide.pow(2).mean(-1, /*keepdim=*/true);
  return weight * (wide * (mean + eps).rsqrt()).to(x.scalar_type());
}

namespace {

// Rotations per position, [head_dim / 2], in fp32 as Hugging Face computes them.
Tensor frequencies(const Config& c) {
  const auto fp32 = at::TensorOptions().dtype(at::kFloat);
  const Tensor exponents = at::arange(0, c.head_dim, 2, fp32) / c.head_dim;
  const Tensor plain = at::pow(c.rope_theta, exponents).reciprocal();
  const RopeScaling& s = c.rope_scaling;
  if (s.kind == RopeScaling::Kind::None) return plain;
  if (s.kind == RopeScaling::Kind::Linear) return plain / s.factor;
  const double trained = static_cast<double>(s.positions);
  const double longest = trained / s.low_factor, shortest = trained / s.high_factor;
  const Tensor wavelength = plain.reciprocal() * (2 * std::numbers::pi);
  const Tensor stretched = plain / s.factor;
  const Tensor kept =
      (wavelength.reciprocal() * trained - s.low_factor) / (s.high_factor - s.low_factor);
  const Tensor blend = (1 - kept) * stretched + kept * plain;
  const Tensor outer = at::where(wavelength.gt(longest), stretched, plain);
  const Tensor between = wavelength.ge(shortest).logical_and(wavelength.le(longest));
  return at::where(between, blend, outer);
}

}  // namespace

std::pair<Tensor, Tensor> rotations(const Config& config, int64_t length, at::ScalarType dtype) {
  const Tensor positions = at::arange(length, at::TensorOptions().dtype(at::kFloat));
  const Tensor half = positions.unsqueeze(1) * frequencies(config);
  const Tensor angles = at::cat({half, half}, -1);
  return {angles.cos().to(dtype), angles.sin().to(dtype)};
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const int64_t half = x.size(-1) / 2;
  const Tensor turned = at::cat({-x.slice(-1, half), x.slice(-1, 0, half)}, -1);
  return x * cos + turned * sin;
}

}  // namespace graft::workloads::decoder
