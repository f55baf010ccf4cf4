#include "ops/complex.h"

#include "ir/overlap.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Routine;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::Operand;
using record::OperatorRecord;
using record::TensorInfo;

enum Part : int { Re, Im };

/// What a formula works with: the parts of an operator's operands, in the common dtype's parts.
class ComplexParts {
 public:
  ComplexParts(Context& context, const OperatorRecord& op, StatementBuilder& builder,
               ScalarType type)
      : builder(builder), type(type), context_(context), op_(op) {}

  Value operator()(size_t k, Part which) {
    if (auto number = number_of(k)) return constant(*number, which);
    const TensorInfo& tensor = context_.tensor(op_, k);
    if (!c10::isComplexType(tensor.dtype))
      return which == Im ? builder.constant(0, type) : convert(builder.load(tensor), type);
    Value value = convert(builder.load(part(tensor, which)), type);
    return which == Im && tensor.conjugated ? -value : value;
  }
  Value re(size_t k) { return (*this)(k, Re); }
  Value im(size_t k) { return (*this)(k, Im); }

  /// alpha · operand k, where there is an alpha other than 1.
  Value scaled(size_t k, Part which) {
    const c10::Scalar alpha = number(op_, "alpha").value_or(1);
    if (alpha.equal(1)) return (*this)(k, which);
    const Value a = constant(alpha, Re), b = constant(alpha, Im);
    return which == Re ? re(k) * a - im(k) * b : re(k) * b + im(k) * a;
  }

  StatementBuilder& builder;
  const ScalarType type;

 private:
  std::optional<c10::Scalar> number_of(size_t k) const {
    const Operand& operand = op_.inputs.at(k);
    if (operand.kind == Operand::Kind::Tensor) return context_.tensor(op_, k).constant;
    return operand.constant.toScalar();
  }
  Value constant(const c10::Scalar& number, Part which) {
    const auto value = number.toComplexDouble();
    return builder.scalar(converted(which == Re ? value.real() : value.imag(), type), type);
  }

  Context& context_;
  const OperatorRecord& op_;
};

using PartFormula = Value (*)(ComplexParts&, Part);

Value multiply(ComplexParts& z, Part which) {
  return which == Re ? z.re(0) * z.re(1) - z.im(0) * z.im(1)
                     : z.re(0) * z.im(1) + z.im(0) * z.re(1);
}

/// Divided by the larger part first, as ATen's vectors have it, so that squares stay finite.
Value divide(ComplexParts& z, Part which) {
  const Value c = z.re(1), d = z.im(1), x = c.op(ir::Op::Abs), y = d.op(ir::Op::Abs);
  const Value scale = 1 / ir::select(ir::gt(x, y), x, y);
  const Value a1 = z.re(0) * scale, b1 = z.im(0) * scale, c1 = c * scale, d1 = d * scale;
  const Value above = which == Re ? a1 * c1 + b1 * d1 : b1 * c1 - a1 * d1;
  return above / (c1 * c1 + d1 * d1);
}

Value magnitude(ComplexParts& z) {
  return ir::call(Routine::VectorHypot, z.re(0), z.im(0));
}

Value sign(ComplexParts& z, Part which) {
  const Value size = magnitude(z);
  return ir::select(ir::eq(size, size.like(0)), size.like(0), z(0, which) / size);
}

Value polar(ComplexParts& z, Part which) {
  return z.re(0) * ir::call(which == Re ? Routine::VectorCos : Routine::VectorSin, z.re(1));
}

Value exponential(ComplexParts& z, Part which) {
  return ir::call(Routine::VectorExp, z.re(0)) *
         ir::call(which == Re ? Routine::VectorCos : Routine::VectorSin, z.im(0));
}

enum class Reads : uint8_t {
  SamePart,  ///< a result's part comes from the operands' same parts; eager's bits
  Sum,       ///< likewise, unless there is an alpha
  Both,
};

struct ComplexFormula {
  std::string_view name;
  size_t operands;
  PartFormula formula;
  Reads reads;
  std::string_view what;
};

constexpr ComplexFormula kFormulas[] = {
    {"aten::add", 2, [](ComplexParts& z, Part p) { return z(0, p) + z.scaled(1, p); }, Reads::Sum,
     "a + alpha b"},
    {"aten::sub", 2, [](ComplexParts& z, Part p) { return z(0, p) - z.scaled(1, p); }, Reads::Sum,
     "a - alpha b"},
    {"aten::rsub", 2, [](ComplexParts& z, Part p) { return z(1, p) - z.scaled(0, p); }, Reads::Sum,
     "b - alpha a"},
    {"aten::mul", 2, multiply, Reads::Both, "a b"},
    {"aten::div", 2, divide, Reads::Both, "a / b"},
    {"aten::neg", 1, [](ComplexParts& z, Part p) { return -z(0, p); }, Reads::SamePart, "-a"},
    {"aten::conj_physical", 1, [](ComplexParts& z, Part p) { return p == Re ? z.re(0) : -z.im(0); },
     Reads::SamePart, "conjugate of a"},
    {"aten::_conj_physical", 1,
     [](ComplexParts& z, Part p) { return p == Re ? z.re(0) : -z.im(0); }, Reads::SamePart,
     "conjugate of a"},
    {"aten::abs", 1, [](ComplexParts& z, Part) { return magnitude(z); }, Reads::Both,
     "|a|, a real number"},
    {"aten::angle", 1,
     [](ComplexParts& z, Part) { return ir::call(Routine::VectorAtan2, z.im(0), z.re(0)); },
     Reads::Both, "the angle of a, a real number"},
    {"aten::sgn", 1, sign, Reads::Both, "a / |a|, or 0"},
    {"aten::exp", 1, exponential, Reads::Both, "exp(a)"},
    {"aten::complex", 2, [](ComplexParts& z, Part p) { return z.re(p == Re ? 0 : 1); },
     Reads::SamePart, "a + i b of real numbers"},
    {"aten::polar", 2, polar, Reads::Both, "a exp(i b) of real numbers"},
    {"aten::clone", 1, [](ComplexParts& z, Part p) { return z(0, p); }, Reads::SamePart, "a copy"},
    {"aten::_to_copy", 1, [](ComplexParts& z, Part p) { return z(0, p); }, Reads::SamePart,
     "a copy in another dtype"},
    {"aten::copy", 2, [](ComplexParts& z, Part p) { return z(1, p); }, Reads::SamePart,
     "stores b's elements"},
};

const ComplexFormula* formula_of(const OperatorRecord& op) {
  const std::string name = base_name(op);
  for (const ComplexFormula& row : kFormulas)
    if (row.name == name) return &row;
  return nullptr;
}

/// The dtype of the parts that the operator computes with; Undefined where it takes something else
/// than tensors and numbers.
ScalarType part_type(const Context& context, const OperatorRecord& op, const ComplexFormula& row) {
  DtypePromotion state(context.trace.default_dtype);
  for (size_t k = 0; k < row.operands; ++k) {
    const Operand& operand = op.inputs.at(k);
    if (operand.kind == Operand::Kind::Tensor && operand.tensors.at(0) >= 0)
      state.add(context.tensor(op, k));
    else if (operand.kind == Operand::Kind::Constant && operand.constant.isScalar())
      state.add(operand.constant.toScalar());
    else
      return ScalarType::Undefined;
  }
  return c10::toRealValueType(state.result());
}

bool mixes_parts(const OperatorRecord& op, const ComplexFormula& row) {
  return row.reads == Reads::Both ||
         (row.reads == Reads::Sum && !number(op, "alpha").value_or(1).equal(1));
}

/// Does an operand lie where the result goes? Its parts must then be read before they are stored.
bool reads_result(const Context& context, const OperatorRecord& op, const ComplexFormula& row,
                  const View& out) {
  for (size_t k = 0; k < row.operands; ++k)
    for (int tensor : op.inputs[k].tensors)
      if (tensor >= 0 && ir::overlap(context.trace.tensors[static_cast<size_t>(tensor)], out))
        return true;
  return false;
}

template <class Visit>
void each_tensor(const Context& context, const OperatorRecord& op, Visit visit) {
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const Operand& operand : *operands)
      for (int tensor : operand.tensors)
        if (tensor >= 0) visit(context.trace.tensors[static_cast<size_t>(tensor)]);
}

std::string unfit_for_parts(const Context& context, const OperatorRecord& op,
                            const ComplexFormula& row, ScalarType type) {
  if (type != ScalarType::Float && type != ScalarType::Double)
    return std::string("complex numbers of ") + c10::toString(type);
  if (takes_number(op)) return "a number whose value is known only at the call";
  const View& out = context.output(op);
  std::string why;
  each_tensor(context, op, [&](const TensorInfo& t) {
    const ScalarType held = c10::toRealValueType(t.dtype);
    if (t.storage >= 0 && !context.settings.target.loops(held))
      why = std::string("dtype ") + c10::toString(t.dtype);
  });
  if (!ir::is_non_overlapping(out)) return "elements of the output share memory";
  for (size_t k = 0; k < row.operands; ++k)
    for (int tensor : op.inputs[k].tensors)
      if (tensor >= 0 && ir::clash(out, context.trace.tensors[static_cast<size_t>(tensor)]))
        return "the output overlaps an operand elsewhere";
  return why;
}

}  // namespace

std::vector<ComplexRow> complex_rows() {
  std::vector<ComplexRow> rows;
  for (const ComplexFormula& row : kFormulas) rows.push_back({row.name, row.what});
  return rows;
}

bool is_complex(const Context& context, const OperatorRecord& op) {
  bool any = false;
  each_tensor(context, op, [&](const TensorInfo& t) { any |= c10::isComplexType(t.dtype); });
  return any;
}

std::optional<Fate> lower_complex(Context& context, const OperatorRecord& op) {
  const ComplexFormula* row = formula_of(op);
  if (row == nullptr || op.outputs.size() != 1) return std::nullopt;
  const ScalarType type = part_type(context, op, *row);
  if (std::string why = unfit_for_parts(context, op, *row, type); !why.empty())
    return Fate::external(why);
  const View out = context.output(op);
  const auto store = [&](const View& to, Part which) {
    StatementBuilder builder(out.sizes);
    ComplexParts parts(context, op, builder, type);
    const Value value = row->formula(parts, which);
    context.emit(builder.store(to, convert(value, to.dtype)));
  };
  const bool mixes = mixes_parts(op, *row);
  if (mixes) context.approximate(type);
  if (!c10::isComplexType(out.dtype)) {
    store(out, Re);
    return Fate::fused();
  }
  const View real = part(out, Re);
  if (!mixes || !reads_result(context, op, *row, out)) {
    store(real, Re);
    store(part(out, Im), Im);
    return Fate::fused();
  }
  const View kept = context.temporary(out.sizes, real.dtype);
  store(kept, Re);
  store(part(out, Im), Im);
  context.copy(kept, real);
  return Fate::fused();
}

}  // namespace graft::ops
