#include "ops/complex.h"

#include <cmath>
#include <limits>

#include "ir/overlap.h"
#include "ops/pointwise.h"
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

  /// alpha · operand k, or -alpha where it is `subtracted`. Eager multiplies by 1, too: an infinite
  /// part makes the other one NaN.
  Value scaled(size_t k, Part which, bool subtracted = false) {
    c10::Scalar alpha = number(op_, "alpha").value_or(1);
    if (subtracted) alpha = -alpha;
    const Value a = constant(alpha, Re), b = constant(alpha, Im);
    return which == Re ? re(k) * a - im(k) * b : re(k) * b + im(k) * a;
  }

  /// MKL's formula where it is known, else SLEEF's.
  Value call(Routine array, Routine vector, Value x) const {
    const bool single = type == ScalarType::Float;
    return ir::call(
        (single ? known_formula(array, context_.settings.target) : std::nullopt).value_or(vector),
        x);
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

/// (a + i b) / (c + i d) as c10::complex divides, by the larger part of the divisor first.
Value quotient(Value a, Value b, Value c, Value d, Part which) {
  const Value above = c.op(ir::Op::Abs), below = d.op(ir::Op::Abs);
  const Value by_real = ir::ge(above, below);
  const Value larger = ir::select(by_real, c, d), smaller = ir::select(by_real, d, c);
  const Value ratio = smaller / larger, scale = 1 / (larger + smaller * ratio);
  const Value real = ir::select(by_real, a, b) + ir::select(by_real, b, a) * ratio;
  const Value imaginary = ir::select(by_real, b - a * ratio, b * ratio - a);
  const Value by_zero = which == Re ? a / above : b / below;
  const Value zero = above.like(0);
  return ir::select(ir::eq(above, zero) & ir::eq(below, zero), by_zero,
                    (which == Re ? real : imaginary) * scale);
}

Value divide(ComplexParts& z, Part which) {
  return quotient(z.re(0), z.im(0), z.re(1), z.im(1), which);
}

Value magnitude(ComplexParts& z) {
  return ir::call(Routine::VectorHypot, z.re(0), z.im(0));
}

Value polar(ComplexParts& z, Part which) {
  return z.re(0) * ir::call(which == Re ? Routine::VectorCos : Routine::VectorSin, z.re(1));
}

Value unit(ComplexParts& z, Part which) {
  const Value size = magnitude(z), number = z(0, which);
  return ir::select(ir::eq(size, size.like(0)), size.like(0), number / size);
}

Value reciprocal(ComplexParts& z, Part which) {
  return quotient(z.re(0).like(1), z.re(0).like(0), z.re(0), z.im(0), which);
}

/// As the C library's cexp: what overflows by its magnitude alone is scaled first, and a part that
/// is infinite, or an angle that is 0, decides by itself.
Value exponential(ComplexParts& z, Part which) {
  const Value re = z.re(0), im = z.im(0), zero = re.like(0), one = re.like(1);
  // The largest whole number whose power is no infinity, less one.
  const bool is_double = z.type == ScalarType::Double;
  const double most = is_double ? 708 : 87;
  const double power = is_double ? std::exp(most) : std::exp(static_cast<float>(most));
  const Value is_large = ir::lt(re.like(most), re);
  const Value size =
      z.call(Routine::ArrayExp, Routine::VectorExp, ir::select(is_large, re - re.like(most), re));
  const Value turn = which == Re ? z.call(Routine::ArrayCos, Routine::VectorCos, im)
                                 : z.call(Routine::ArraySin, Routine::VectorSin, im);
  Value result = turn * ir::select(is_large, re.like(power), one) * size;
  const Value infinite = re.like(std::numeric_limits<double>::infinity());
  const Value lost = ir::isnan(im - im);  // no finite angle
  const Value none = which == Re ? zero : zero.op(ir::Op::CopySign, im);
  result = ir::select(lost & ir::eq(re, -infinite), none, result);
  if (which == Re) return ir::select(lost & ir::eq(re, infinite), infinite, result);
  return ir::select(ir::eq(im, zero), im, result);
}

Value is_infinite(Value x) {
  return ir::eq(x.op(ir::Op::Abs), x.like(std::numeric_limits<double>::infinity()));
}

/// In Double, whose squares of fp32 are exact; near 1 by how far the square is from it.
Value logarithm(ComplexParts& z, Part which) {
  if (which == Im) return ir::call(Routine::VectorAtan2, z.im(0), z.re(0));
  const Value re = z.re(0).to(ScalarType::Double).op(ir::Op::Abs),
              im = z.im(0).to(ScalarType::Double).op(ir::Op::Abs);
  const Value is_wide = ir::lt(im, re), large = ir::select(is_wide, re, im),
              small = ir::select(is_wide, im, re);
  const Value square = re * re + im * im;
  const Value is_near = ir::lt(re.like(0.5), square) & ir::lt(square, re.like(2));
  const Value off = (large - 1.0) * (large + 1.0) + small * small;
  const Value logarithm =
      ir::select(is_near, ir::call(Routine::VectorLog1p, ir::select(is_near, off, re.like(0))),
                 ir::call(Routine::VectorLog, square));
  return ir::select(is_infinite(re) | is_infinite(im),
                    re.like(std::numeric_limits<double>::infinity()), logarithm * 0.5)
      .to(z.type);
}

/// As the C library's csqrt: the larger part from a sum of magnitudes, the other one by it.
Value root(ComplexParts& z, Part which) {
  Value re = z.re(0).to(ScalarType::Double), im = z.im(0).to(ScalarType::Double);
  const bool is_double = z.type == ScalarType::Double;
  // Of what is so large the root of a quarter, doubled.
  const Value most = re.like(1e300);
  const Value is_huge = ir::lt(most, re.op(ir::Op::Abs)) | ir::lt(most, im.op(ir::Op::Abs));
  if (is_double) {
    const Value scale = ir::select(is_huge, re.like(0.25), re.like(1));
    re = re * scale, im = im * scale;
  }
  const Value infinite = re.like(std::numeric_limits<double>::infinity()), zero = re.like(0);
  const Value magnitude =
      is_double ? ir::call(Routine::VectorHypot, re, im) : (re * re + im * im).op(ir::Op::Sqrt);
  const Value size = ir::select(is_infinite(re), infinite, magnitude), along = re.op(ir::Op::Abs);
  // Halved where it loses no digit, and where the sum does not overflow.
  const Value sum =
      ir::select(ir::lt(size, re.like(1)), (size + along) * 0.5, size * 0.5 + along * 0.5);
  const Value larger = sum.op(ir::Op::Sqrt), across = im.op(ir::Op::Abs);
  const Value smaller =
      ir::select(ir::eq(larger, zero), zero,
                 ir::select(is_infinite(re) & ~ir::isnan(im), zero, across / (larger + larger)));
  const Value is_left = ir::lt(re, zero);
  Value part = which == Re ? ir::select(is_left, smaller, larger)
                           : ir::select(is_left, larger, smaller).op(ir::Op::CopySign, im);
  if (is_double) part = ir::select(is_huge, part + part, part);
  return ir::select(is_infinite(im), which == Re ? infinite : im, part).to(z.type);
}

enum class Reads : uint8_t {
  SamePart,  ///< a result's part comes from the operands' same parts; eager's bits
  Both,
  ToReal,  ///< both, and gives real numbers
};

struct ComplexFormula {
  std::string_view name;
  size_t operands;
  PartFormula formula;
  Reads reads;
  std::string_view what;
};

constexpr ComplexFormula kFormulas[] = {
    {"aten::add", 2, [](ComplexParts& z, Part p) { return z(0, p) + z.scaled(1, p); }, Reads::Both,
     "a + alpha b"},
    {"aten::sub", 2, [](ComplexParts& z, Part p) { return z(0, p) + z.scaled(1, p, true); },
     Reads::Both, "a - alpha b"},
    {"aten::rsub", 2, [](ComplexParts& z, Part p) { return z(1, p) + z.scaled(0, p, true); },
     Reads::Both, "b - alpha a"},
    {"aten::mul", 2, multiply, Reads::Both, "a b"},
    {"aten::div", 2, divide, Reads::Both, "a / b"},
    {"aten::neg", 1, [](ComplexParts& z, Part p) { return -z(0, p); }, Reads::SamePart, "-a"},
    {"aten::conj_physical", 1, [](ComplexParts& z, Part p) { return p == Re ? z.re(0) : -z.im(0); },
     Reads::SamePart, "conjugate of a"},
    {"aten::_conj_physical", 1,
     [](ComplexParts& z, Part p) { return p == Re ? z.re(0) : -z.im(0); }, Reads::SamePart,
     "conjugate of a"},
    {"aten::abs", 1, [](ComplexParts& z, Part) { return magnitude(z); }, Reads::ToReal,
     "|a|, a real number"},
    {"aten::angle", 1,
     [](ComplexParts& z, Part) { return ir::call(Routine::VectorAtan2, z.im(0), z.re(0)); },
     Reads::ToReal, "the angle of a, a real number"},
    {"aten::sgn", 1, unit, Reads::Both, "a / |a|, 0 where a is 0"},
    {"aten::reciprocal", 1, reciprocal, Reads::Both, "1 / a"},
    {"aten::exp", 1, exponential, Reads::Both, "e to the a"},
    {"aten::log", 1, logarithm, Reads::Both, "natural logarithm, of parts of fp32"},
    {"aten::sqrt", 1, root, Reads::Both, "√a"},
    {"aten::complex", 2, [](ComplexParts& z, Part p) { return z.re(p == Re ? 0 : 1); },
     Reads::SamePart, "a + i b of real numbers"},
    {"aten::polar", 2, polar, Reads::Both, "a exp(i b) of real numbers"},
    {"aten::clone", 1, [](ComplexParts& z, Part p) { return z(0, p); }, Reads::SamePart, "a copy"},
    {"aten::_to_copy", 1, [](ComplexParts& z, Part p) { return z(0, p); }, Reads::SamePart,
     "a copy in another dtype"},
    {"aten::copy", 2, [](ComplexParts& z, Part p) { return z(1, p); }, Reads::SamePart,
     "stores b's elements"},
};

/// Operators that move elements, or add them up: lowered as those of real tensors, for the real
/// parts and then for the imaginary ones.
constexpr ComplexRow kByParts[] = {
    {"aten::sum", "sum over dimensions"},
    {"aten::mean", "mean over dimensions"},
    {"aten::cumsum", "running sum"},
    {"aten::where", "one tensor or the other"},
    {"aten::index", "indexing by integer tensors"},
    {"aten::index_select", "slices chosen along one dimension"},
    {"aten::gather", "elements chosen along one dimension"},
    {"aten::take", "elements of the flattened tensor"},
    {"aten::scatter", "elements stored along one dimension"},
    {"aten::scatter_add", "elements added up along one dimension"},
    {"aten::index_add", "slices added up at an index"},
    {"aten::index_copy", "a slice stored at an index"},
    {"aten::index_put", "assignment through integer tensors"},
    {"aten::_index_put_impl", "assignment through integer tensors"},
};
constexpr ComplexRow kProducts[] = {
    {"aten::mm", "of up to 4 terms, or 16 and 4,096 products in all: sums written out"},
    {"aten::bmm", "of up to 4 terms"},
};

const ComplexFormula* formula_of(const OperatorRecord& op) {
  const std::string_view name = base_name(op);
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
  if (row.formula == logarithm && type == ScalarType::Double)
    return "a logarithm of fp64, which needs more digits near 1";
  const View& out = context.output(op);
  if (out.dtype == ScalarType::Bool) return "complex numbers as truth values";
  if (row.reads == Reads::ToReal && c10::isComplexType(out.dtype))
    return "real numbers into a complex tensor";
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

std::string unfit_by_parts(const Context& context, const OperatorRecord& op) {
  if (takes_number(op)) return "a number whose value is known only at the call";
  // Eager multiplies by the complex number alpha then; of single elements by 1, too.
  if (base_name(op) == "aten::index_add" &&
      (context.tensor(op, 0).sizes.size() < 2 || !number(op, "alpha").value_or(1).equal(1)))
    return "elements times a complex number";
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const c10::Argument& argument = op.op.schema().arguments()[k];
    const Operand& operand = op.inputs[k];
    if (argument.type()->kind() == c10::TypeKind::NumberType && operand.constant.isScalar() &&
        (argument.name() != "alpha" || operand.constant.toScalar().isComplex()))
      return "a number beside complex ones";
    const std::string& name = argument.name();
    if (name == "index" || name == "indices" || name == "condition") continue;
    // Real ones would have imaginary parts of 0.
    for (int tensor : operand.tensors)
      if (tensor >= 0 &&
          !c10::isComplexType(context.trace.tensors[static_cast<size_t>(tensor)].dtype))
        return "real numbers beside complex ones";
  }
  for (const Operand& result : op.outputs)
    for (int tensor : result.tensors) {
      const TensorInfo& out = context.trace.tensors[static_cast<size_t>(tensor)];
      if (!c10::isComplexType(out.dtype)) return "complex numbers as others";
      if (!ir::is_non_overlapping(out)) return "elements of the output share memory";
    }
  std::string why;
  const View& out = context.output(op);
  each_tensor(context, op, [&](const TensorInfo& t) {
    if (t.dtype == ScalarType::Undefined && t.storage < 0 && !t.constant) return;
    const ScalarType held = c10::toRealValueType(t.dtype);
    if (t.constant || t.conjugated)
      why = "a number, or lazy conjugates";
    else if (!context.settings.target.loops(held))
      why = std::string("dtype ") + c10::toString(t.dtype);
    else if (ir::clash(out, t))
      why = "the output overlaps an operand elsewhere";
  });
  return why;
}

/// Eager divides by the complex number (n, 0), and so adds to each part 0 times the other one: an
/// infinite part makes the other one NaN.
void mix_parts(Context& context, const View& out) {
  const View real = part(out, Re), imaginary = part(out, Im),
             kept = context.temporary(out.sizes, real.dtype);
  const auto mix = [&](const View& to, const View& of, const View& other, double sign) {
    StatementBuilder s(out.sizes);
    context.emit(s.store(to, s.load(of) + s.load(other) * sign * 0.0));
  };
  mix(kept, real, imaginary, 1);
  mix(imaginary, imaginary, real, -1);
  context.copy(kept, real);
}

/// The row's lowering for the real parts, then for the imaginary ones.
Fate lower_by_parts(Context& context, const OperatorRecord& op, const Row& row) {
  if (std::string why = unfit_by_parts(context, op); !why.empty()) return Fate::external(why);
  context.row = &row;
  Fate fate = Fate::fused();
  for (const Part which : {Re, Im}) {
    context.take_part(which);
    fate = row.lower(context, op);
    if (fate.kind != Fate::Kind::Fused) break;
  }
  context.take_part(-1);
  if (fate.kind == Fate::Kind::Fused && base_name(op) == "aten::mean" &&
      ir::numel(context.output(op).sizes) > 0)
    mix_parts(context, context.output(op));
  // A routine for real numbers is none for complex ones.
  return fate.kind == Fate::Kind::Extern ? Fate::external(fate.why) : fate;
}

}  // namespace

std::vector<ComplexRow> complex_rows() {
  std::vector<ComplexRow> rows;
  for (const ComplexFormula& row : kFormulas) rows.push_back({row.name, row.what});
  rows.insert(rows.end(), std::begin(kByParts), std::end(kByParts));
  rows.insert(rows.end(), std::begin(kProducts), std::end(kProducts));
  return rows;
}

bool is_complex(const Context& context, const OperatorRecord& op) {
  bool any = false;
  each_tensor(context, op, [&](const TensorInfo& t) { any |= c10::isComplexType(t.dtype); });
  return any;
}

std::optional<Fate> lower_complex(Context& context, const OperatorRecord& op, const Row* of_real) {
  const bool by_parts =
      std::any_of(std::begin(kByParts), std::end(kByParts),
                  [&](const ComplexRow& listed) { return listed.name == base_name(op); });
  if (by_parts && of_real != nullptr) return lower_by_parts(context, op, *of_real);
  if (std::optional<Fate> product = lower_complex_product(context, op)) return product;
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
  const bool mixes = row->reads != Reads::SamePart;
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
