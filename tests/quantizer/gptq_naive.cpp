#include "quantizer/gptq_naive.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace graft::quantizer {
namespace {

/// By Gauss and Jordan; the matrix is positive definite, so no pivots are needed.
Matrix inverse(Matrix a) {
  const size_t n = a.size();
  Matrix out(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i) out[i][i] = 1;
  for (size_t i = 0; i < n; ++i) {
    const double pivot = a[i][i];
    for (size_t c = 0; c < n; ++c) a[i][c] /= pivot, out[i][c] /= pivot;
    for (size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double times = a[r][i];
      for (size_t c = 0; c < n; ++c) a[r][c] -= times * a[i][c], out[r][c] -= times * out[i][c];
    }
  }
  return out;
}

/// U with U^T U = a.
Matrix upper_factor(const Matrix& a) {
  const size_t n = a.size();
  Matrix u(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i; j < n; ++j) {
      double sum = a[i][j];
      for (size_t k = 0; k < i; ++k) sum -= u[k][i] * u[k][j];
      u[i][j] = i == j ? std::sqrt(sum) : sum / u[i][i];
    }
  return u;
}

}  // namespace

at::Tensor normal(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kFloat);
}

at::Tensor correlated(int64_t samples, int64_t columns, uint64_t seed) {
  return normal({samples, columns}, seed).matmul(normal({columns, columns}, seed + 1)) *
         at::linspace(0.5, 2, columns);
}

Hessian hessian_of(const at::Tensor& inputs, at::ScalarType precision) {
  Hessian hessian(inputs.size(-1), precision);
  hessian.add(inputs);
  return hessian;
}

Matrix matrix_of(const at::Tensor& t) {
  Matrix out(t.size(0), std::vector<double>(t.size(1)));
  for (int64_t r = 0; r < t.size(0); ++r)
    for (int64_t c = 0; c < t.size(1); ++c) out[r][c] = t[r][c].item<double>();
  return out;
}

NaiveLayer naive_layer(Matrix w, Matrix h, const Settings& s,
                       const std::vector<std::vector<bool>>& mask) {
  const int rows = static_cast<int>(w.size()), n = static_cast<int>(h.size());
  const int width = s.group > 0 ? static_cast<int>(s.group) : n;
  for (int c = 0; c < n; ++c)
    if (h[c][c] == 0) {
      h[c][c] = 1;
      for (int r = 0; r < rows; ++r) w[r][c] = 0;
    }
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  const Matrix before = w;
  std::vector<double> diagonal(n);
  // A dead column's diagonal is 1 in H, but its inputs are 0: it comes last.
  for (int c = 0; c < n; ++c) {
    bool alone = h[c][c] == 1;
    for (int k = 0; k < n && alone; ++k) alone = k == c || h[c][k] == 0;
    diagonal[c] = alone ? 0 : h[c][c];
  }
  if (s.act_order)
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return diagonal[a] > diagonal[b]; });
  Matrix ordered(n, std::vector<double>(n));
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < n; ++b) ordered[a][b] = h[order[a]][order[b]];
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < n; ++c) w[r][c] = before[r][order[c]];
  double mean = 0;
  for (int c = 0; c < n; ++c) mean += ordered[c][c] / n;
  for (int c = 0; c < n; ++c) ordered[c][c] += s.dampening * mean;
  const Matrix u = upper_factor(inverse(ordered));

  NaiveLayer out;
  out.codes.assign(rows, std::vector<int>(n));
  out.weight.assign(rows, std::vector<double>(n));
  out.scale.assign(rows, std::vector<double>(n / width));
  out.zero = out.scale;
  out.group_index.resize(n);
  const double steps = std::pow(2, s.bits) - 1, half = std::pow(2, s.bits - 1);
  for (int begin = 0; begin < n; begin += static_cast<int>(s.block)) {
    const int end = std::min(n, begin + static_cast<int>(s.block));
    // The reference looks for scales in what no step of the block has changed yet.
    const Matrix at_start = w;
    Matrix errors(rows, std::vector<double>(end - begin));
    for (int c = begin; c < end; ++c) {
      const int group = c / width;
      out.group_index[order[c]] = group;
      for (int r = 0; r < rows; ++r) {
        double &scale = out.scale[r][group], &zero = out.zero[r][group];
        if (c % width == 0) {
          double low = 0, high = 0;
          for (int k = c; k < c + width; ++k)
            low = std::min(low, at_start[r][k]), high = std::max(high, at_start[r][k]);
          scale = s.symmetric ? 2 * std::max(high, -low) / steps : (high - low) / steps;
          if (scale == 0) scale = 1;
          // fp32 is where the results live; the rest of this function may be finer.
          scale = static_cast<float>(scale);
          zero = s.symmetric ? 0 : std::nearbyint(-low / scale);
        }
        double code = std::nearbyint(w[r][c] / scale) + zero;
        code = s.symmetric ? std::clamp(code, -half, half - 1) : std::clamp(code, 0.0, steps);
        if (!mask.empty() && mask[r][order[c]]) code = zero;
        const double q = (code - zero) * scale;
        out.codes[r][order[c]] = static_cast<int>(code);
        out.weight[r][order[c]] = q;
        const double e = (w[r][c] - q) / u[c][c];
        out.loss += e * e / 2;
        errors[r][c - begin] = e;
        for (int k = c; k < end; ++k) w[r][k] -= e * u[c][k];
      }
    }
    for (int r = 0; r < rows; ++r)
      for (int k = end; k < n; ++k)
        for (int c = begin; c < end; ++c) w[r][k] -= errors[r][c - begin] * u[c][k];
  }
  return out;
}

}  // namespace graft::quantizer
