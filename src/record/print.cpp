#include <ATen/core/jit_type.h>

#include <set>
#include <sstream>

#include "record/recorder.h"
#include "record/trace.h"
#include "tensor/dtype.h"

namespace graft::record {
namespace {

void print_list(std::ostream& out, c10::IntArrayRef values) {
  for (size_t i = 0; i < values.size(); ++i) out << (i ? "," : "") << values[i];
}

bool is_contiguous(const TensorInfo& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] == 0) return true;
    if (tensor.sizes[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.sizes[i];
  }
  return true;
}

/// f32[2,3], with strides when they are not the contiguous ones: f32[2,3:1,2]
void print_type(std::ostream& out, const TensorInfo& tensor) {
  out << short_name(tensor.dtype) << '[';
  print_list(out, tensor.sizes);
  if (!is_contiguous(tensor)) {
    out << ':';
    print_list(out, tensor.strides);
  }
  out << ']';
}

/// … and where it lies: f32[3] in s1+24
void print_place(std::ostream& out, const TensorInfo& tensor) {
  if (tensor.storage < 0) {
    out << "undefined";
    return;
  }
  print_type(out, tensor);
  out << " in s" << tensor.storage;
  if (tensor.byte_offset != 0) out << '+' << tensor.byte_offset;
}

void print_use(std::ostream& out, const Trace& trace, int tensor) {
  if (tensor < 0) {
    out << "None";
    return;
  }
  const TensorInfo& info = trace.tensors[tensor];
  if (info.constant) {
    out << c10::IValue(*info.constant) << " (number)";
  } else {
    out << '%' << tensor << ' ';
    print_type(out, info);
  }
}

void print_constant(std::ostream& out, const c10::IValue& value, const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (type->kind() == c10::TypeKind::OptionalType) {
    type = type->castRaw<c10::OptionalType>()->getElementType();
  }
  if (value.isInt() && type->kind() == c10::TypeKind::ScalarTypeType) {
    out << short_name(static_cast<c10::ScalarType>(value.toInt()));
  } else if (value.isString()) {
    out << '"' << value.toStringRef() << '"';
  } else {
    out << value;
  }
}

bool is_default(const Operand& operand, const c10::Argument& argument) {
  if (!argument.default_value()) return false;
  if (operand.kind == Operand::Kind::Tensor) return operand.tensors[0] < 0;
  if (operand.kind != Operand::Kind::Constant) return false;
  const c10::IValue& value = operand.constant;
  const c10::IValue& usual = *argument.default_value();
  if (value.isScalar() && usual.isScalar()) {
    return value.tagKind() == usual.tagKind() && value == usual;
  }
  return value.isNone() && usual.isNone();
}

void print_operand(std::ostream& out, const Trace& trace, const Operand& operand,
                   const c10::Argument& argument) {
  if (operand.kind == Operand::Kind::Constant)
    return print_constant(out, operand.constant, argument);
  if (operand.kind == Operand::Kind::Tensor) return print_use(out, trace, operand.tensors[0]);
  if (operand.kind == Operand::Kind::Number) {
    out << "value of ";
    return print_use(out, trace, operand.tensors[0]);
  }
  out << '[';
  for (size_t i = 0; i < operand.tensors.size(); ++i) {
    if (i) out << ", ";
    print_use(out, trace, operand.tensors[i]);
  }
  out << ']';
}

void print_operator(std::ostream& out, const Trace& trace, const OperatorRecord& op) {
  const c10::FunctionSchema& schema = op.op.schema();
  std::vector<int> made;
  for (const Operand& output : op.outputs) {
    if (output.kind == Operand::Kind::Constant) continue;
    made.insert(made.end(), output.tensors.begin(), output.tensors.end());
  }
  for (size_t i = 0; i < made.size(); ++i) {
    out << (i ? ", " : "");
    if (made[i] < 0) {
      out << "None";
    } else {
      out << '%' << made[i];
    }
  }
  out << (made.empty() ? "" : " = ") << toString(op.op.operator_name()) << '(';
  bool first = true;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const c10::Argument& argument = schema.arguments()[k];
    if (is_default(op.inputs[k], argument)) continue;
    out << (first ? "" : ", ");
    first = false;
    if (argument.kwarg_only()) out << argument.name() << '=';
    print_operand(out, trace, op.inputs[k], argument);
  }
  out << ')';
  for (size_t i = 0; i < made.size(); ++i) {
    out << (i ? ", " : " -> ");
    if (made[i] < 0) {
      out << "None";
    } else {
      print_place(out, trace.tensors[made[i]]);
    }
  }
  for (size_t i = 0; i < op.mutated.size(); ++i) {
    out << (i ? ", s" : "  writes s") << op.mutated[i];
  }
  out << '\n';
}

void print_result(std::ostream& out, const Trace& trace, size_t k) {
  const ResultInfo& result = trace.results[k];
  out << "result " << k << ": ";
  if (!result.defined) {
    out << "undefined";
  } else if (result.argument >= 0) {
    out << "argument " << result.argument;
  } else if (result.captured >= 0) {
    out << "captured " << result.captured;
  } else if (result.same_as >= 0) {
    out << "result " << result.same_as;
  } else if (result.tensor >= 0) {
    out << '%' << result.tensor << ' ';
    print_place(out, trace.tensors[result.tensor]);
    out << graft::print(result.lineage);
  }
  out << (result.returned ? "\n" : ", not returned\n");
}

}  // namespace

std::string describe_tensor(const at::Tensor& tensor) {
  std::ostringstream out;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!is_plain(impl)) {
    if (!tensor.is_cpu()) out << c10::DeviceTypeName(tensor.device().type(), true) << ' ';
    if (tensor.is_mkldnn()) out << "mkldnn ";
    if (tensor.is_quantized()) out << "quantized ";
    if (tensor.is_sparse() || tensor.is_sparse_csr()) out << "sparse ";
    if (tensor.is_conj()) out << "lazily conjugated ";
    if (tensor.is_neg()) out << "lazily negated ";
    if (tensor.is_nested()) out << "nested ";
    if (out.str().empty()) out << "subclassed " << tensor.key_set() << ' ';
  }
  out << short_name(tensor.scalar_type()) << '[';
  if (!tensor.is_nested()) print_list(out, tensor.sizes());
  out << ']';
  return out.str();
}

std::string print(const Trace& trace) {
  std::ostringstream out;
  for (size_t k = 0; k < trace.arguments.size(); ++k) {
    out << '%' << trace.arguments[k] << " = argument " << k << " -> ";
    print_place(out, trace.tensors[trace.arguments[k]]);
    out << '\n';
  }
  for (size_t k = 0; k < trace.captured_tensors.size(); ++k) {
    out << '%' << trace.captured_tensors[k] << " = captured " << k << " -> ";
    print_place(out, trace.tensors[trace.captured_tensors[k]]);
    out << '\n';
  }
  for (const OperatorRecord& op : trace.ops) print_operator(out, trace, op);
  for (size_t k = 0; k < trace.results.size(); ++k) print_result(out, trace, k);
  if (trace.broken) out << "broken: " << *trace.broken << '\n';
  return out.str();
}

}  // namespace graft::record
