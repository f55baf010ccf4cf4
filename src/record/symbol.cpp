#include "record/symbol.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/SymNodeImpl.h>

#include <string>

#include "record/recorder.h"

namespace graft::record {
namespace {

double value_in(const at::Tensor& number) {
  return *number.const_data_ptr<double>();
}

/// ATen's kernels ask it for its value, by guard_float. So do functions between the operators,
/// which may decide something by it: those give the recorded run up.
class NumberNode final : public c10::SymNodeImpl {
 public:
  explicit NumberNode(at::Tensor number) : number(std::move(number)) {}

  bool is_int() override { return false; }
  bool is_bool() override { return false; }
  bool is_float() override { return true; }
  bool has_hint() override { return true; }
  std::string str() override { return std::to_string(value_in(number)); }
  c10::SymNode wrap_float(double value) override {
    return c10::make_intrusive<NumberNode>(at::scalar_tensor(value, at::kDouble));
  }
  double guard_float(const char*, int64_t) override {
    number_is_read();
    return value_in(number);
  }

  c10::SymNode neg() override { return made(number.neg()); }
  c10::SymNode add(const c10::SymNode& other) override { return made(number + behind(other)); }
  c10::SymNode sub(const c10::SymNode& other) override { return made(number - behind(other)); }
  c10::SymNode mul(const c10::SymNode& other) override { return made(number * behind(other)); }
  c10::SymNode truediv(const c10::SymNode& other) override { return made(number / behind(other)); }

  const at::Tensor number;

 private:
  static c10::SymNode made(at::Tensor result) {
    return c10::make_intrusive<NumberNode>(std::move(result));
  }
  static at::Tensor behind(const c10::SymNode& node) {
    if (const auto* other = dynamic_cast<const NumberNode*>(node.get())) return other->number;
    return at::scalar_tensor(node->guard_float(__FILE__, __LINE__), at::kDouble);
  }
};

}  // namespace

c10::Scalar scalar_of(const at::Tensor& number) {
  if (!recording()) return value_in(number);
  return symbol_of(number);
}

c10::SymFloat symbol_of(const at::Tensor& number) {
  return c10::SymFloat(c10::SymNode(c10::make_intrusive<NumberNode>(number)));
}

const at::Tensor* number_behind(const c10::IValue& value) {
  if (!value.isSymFloat()) return nullptr;
  const c10::SymFloat symbol = value.toSymFloat();
  const auto* node = dynamic_cast<const NumberNode*>(symbol.toSymNodeImplUnowned());
  return node == nullptr ? nullptr : &node->number;
}

}  // namespace graft::record
