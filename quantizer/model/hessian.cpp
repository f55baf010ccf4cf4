#include "quantizer/model/hessian.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <sstream>

#include "quantizer/model/error.h"

namespace graft::quantizer {

Hessian::Hessian(int64_t columns, at::ScalarType precision) {
  if (precision != at::kFloat && precision != at::kDouble)
    throw GptqError(std::string("a Hessian of type ") + at::toString(precision) +
                    "; it can be Float or Double");
  if (columns < 1)
    throw GptqError("a Hessian of " + std::to_string(columns) + " columns; it needs at least one");
  sum_ = at::zeros({columns, columns}, precision);
}

void Hessian::add(const at::Tensor& inputs) {
  if (inputs.dim() < 1 || inputs.size(-1) != columns() || !inputs.is_floating_point()) {
    std::ostringstream text;
    text << "calibration inputs of shape " << inputs.sizes() << ", type "
         << at::toString(inputs.scalar_type()) << "; expected a floating type and a last dimension "
         << "of " << columns() << ", the layer's columns";
    throw GptqError(text.str());
  }
  const at::Tensor x = inputs.reshape({-1, columns()}).to(sum_.scalar_type());
  sum_.addmm_(x.t(), x);
  kept_.reset();
  samples_ += x.size(0);
}

double Hessian::scale() const {
  return 2.0 / static_cast<double>(std::max<int64_t>(1, samples_));
}

at::Tensor Hessian::matrix() const {
  return sum_ * scale();
}

at::Tensor Hessian::diagonal() const {
  return sum_.diagonal() * scale();
}

}  // namespace graft::quantizer
