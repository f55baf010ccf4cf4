#include "ops/pointwise.h"

#include <c10/core/DefaultDtype.h>
#include <c10/util/SmallVector.h>

#include <array>

#include "ir/overlap.h"
#include "ops/schema.h"

namespace graft::ops {

using c10::ScalarType;
using ir::Routine;
using ir::Value;
using record::Operand;
using record::OperatorRecord;
using record::TensorInfo;

// --- Args

Args::Args(Context& context, const OperatorRecord& op, ir::StatementBuilder& builder,
           ScalarType common)
    : builder(builder), common(common), compute(opmath(common)), context_(context), op_(op) {}

const Operand* Args::operand(int k) const {
  return static_cast<size_t>(k) < op_.inputs.size() ? &op_.inputs[static_cast<size_t>(k)] : nullptr;
}

bool Args::has(int k) const {
  const Operand* o = operand(k);
  if (o == nullptr) return false;
  if (o->kind == Operand::Kind::Constant) return !o->constant.isNone();
  return !o->tensors.empty() && o->tensors[0] >= 0;
}

bool Args::varies(int k) const {
  return operand(k) != nullptr && operand(k)->kind == Operand::Kind::Number;
}
bool Args::varies(std::string_view name) const {
  return varies(argument_index(op_, name));
}

std::optional<c10::Scalar> Args::known(int k) const {
  const Operand* o = operand(k);
  if (o == nullptr) return std::nullopt;
  if (o->kind == Operand::Kind::Tensor)
    return context_.tensor(op_, static_cast<size_t>(k)).constant;
  if (o->constant.isScalar() || o->constant.isBool()) return o->constant.toScalar();
  return std::nullopt;
}

std::optional<c10::Scalar> Args::constant(int k) {
  if (varies(k)) refuse("its formula depends on the value of a number that changes");
  return known(k);
}

bool Args::is_tensor(int k) const {
  return operand(k) != nullptr && operand(k)->kind == Operand::Kind::Tensor;
}
bool Args::is_number(int k) const {
  return varies(k) || known(k).has_value();
}

bool Args::is_single(int k) const {
  return is_number(k) || ir::numel(context_.tensor(op_, static_cast<size_t>(k)).sizes) == 1;
}

Value Args::number_value(const c10::Scalar& value, bool round) {
  return builder.scalar(converted(round ? converted(value, common) : value, compute), compute);
}

Value Args::varying(int k, bool round) {
  const Value value = builder.load(context_.tensor(op_, static_cast<size_t>(k)));
  return convert(round ? convert(value, common) : value, compute);
}

Value Args::operator[](int k) {
  if (varies(k)) return varying(k, true);
  if (auto number = constant(k)) return number_value(*number, true);
  return convert(convert(builder.load(context_.tensor(op_, static_cast<size_t>(k))), common),
                 compute);
}

Value Args::unrounded(int k) {
  if (!is_single(k)) return (*this)[k];
  if (varies(k)) return varying(k, false);
  if (auto number = constant(k)) return number_value(*number, false);
  return convert(builder.load(context_.tensor(op_, static_cast<size_t>(k))), compute);
}

Value Args::truth(int k) {
  if (varies(k)) return varying(k, false).to(ScalarType::Bool);
  if (auto number = constant(k))
    return builder.integer(converted(*number, ScalarType::Bool).toLong(), ScalarType::Bool);
  return builder.load(context_.tensor(op_, static_cast<size_t>(k))).to(ScalarType::Bool);
}

std::optional<c10::Scalar> Args::constant(std::string_view name) {
  return constant(argument_index(op_, name));
}
std::string Args::text(std::string_view name) const {
  return ops::text(op_, name, {});
}

Value Args::named_number(std::string_view name, bool round) {
  const int k = argument_index(op_, name);
  return varies(k) ? varying(k, round) : number_value(constant(k).value_or(1), round);
}
Value Args::rounded(std::string_view name) {
  return named_number(name, true);
}
Value Args::number(std::string_view name) {
  return named_number(name, false);
}
Value Args::scalar(double value) {
  return builder.scalar(converted(value, compute), compute);
}

Value Args::round(Value v) const {
  return v.to(common).to(compute);
}

/// AVX-512 has an estimate of its own, and registers that hold the tables of exp.
std::optional<Routine> known_formula(Routine array, const ir::Target& target) {
  using Formula = ir::Target::VmlFormula;
  const auto known = [&](bool possible, Formula formula, Routine routine) {
    return possible && target.vml_has(formula) ? std::optional(routine) : std::nullopt;
  };
  switch (array) {
    case Routine::ArraySqrt: {
      const auto root = known(true, Formula::Root, Routine::FormulaSqrt);
      return root ? root : known(target.avx512(), Formula::FusedRoot, Routine::FormulaFusedSqrt);
    }
    case Routine::ArrayExp:
      return known(target.avx512(), Formula::Exp, Routine::FormulaExp);
    case Routine::ArrayLog:
      return known(target.avx2(), Formula::Log, Routine::FormulaLog);
    case Routine::ArraySin:
      return known(target.avx2(), Formula::Sine, Routine::FormulaSin);
    case Routine::ArrayCos:
      return known(target.avx2(), Formula::Sine, Routine::FormulaCos);
    case Routine::ArrayTanh:
      return known(target.avx2(), Formula::Tanh, Routine::FormulaTanh);
    default:
      return {};
  }
}

std::optional<Value> Args::array_routine(Routine array, Value x) const {
  if (is_reduced() || is_fast() || !has_array_routines()) return {};
  const bool single = x.type() == ScalarType::Float;
  const auto formula = single ? known_formula(array, context_.settings.target) : std::nullopt;
  return ir::call(formula.value_or(array), x);
}
Value Args::routine(Routine array, Routine vector, Value x) const {
  const std::optional<Value> arrays = array_routine(array, x);
  return arrays ? *arrays : ir::call(vector, x);
}

bool Args::is_fast() const {
  return context_.settings.fast;
}
bool Args::has_fma() const {
  return context_.settings.target.fma;
}
bool Args::has_array_routines() const {
  return context_.settings.target.vml;
}
bool Args::is_one_dnn(int k) const {
  return is_tensor(k) &&
         context_.settings.target.one_dnn(context_.tensor(op_, static_cast<size_t>(k)).dtype);
}
bool Args::is_float() const {
  return graft::is_float(common);
}
bool Args::is_reduced() const {
  return graft::is_reduced(common);
}
bool Args::is_bool() const {
  return common == ScalarType::Bool;
}

bool Args::is_float_tensor(int k) const {
  return is_tensor(k) && graft::is_float(context_.tensor(op_, static_cast<size_t>(k)).dtype);
}

bool Args::makes_one() const {
  return ir::numel(context_.output(op_).sizes) == 1;
}
bool Args::is_in_place() const {
  const c10::Argument& self = op_.op.schema().arguments()[0];
  return self.alias_info() != nullptr && self.alias_info()->isWrite() && !self.kwarg_only();
}
bool Args::is_out() const {
  return op_.op.schema().is_mutable() && !is_in_place();
}

bool Args::is_laid_out_as_result(int k) const {
  const TensorInfo& operand = context_.tensor(op_, static_cast<size_t>(k));
  return operand.strides == context_.output(op_).strides;
}

namespace {

/// The axis that ATen's iterator puts inside: the result's fastest. Its number of axes if none
/// moves.
size_t inner_axis(const TensorInfo& result) {
  size_t inner = result.sizes.size();
  for (size_t d = 0; d < result.sizes.size(); ++d)
    if (result.sizes[d] > 1 &&
        (inner == result.sizes.size() || result.strides[d] < result.strides[inner]))
      inner = d;
  return inner;
}

}  // namespace

int64_t Args::inner_stride(int k) const {
  if (!is_tensor(k)) return 0;
  const TensorInfo &result = context_.output(op_),
                   &operand = context_.tensor(op_, static_cast<size_t>(k));
  size_t inner = inner_axis(result), missing = result.sizes.size() - operand.sizes.size();
  if (inner == result.sizes.size() || inner < missing || operand.sizes[inner - missing] == 1)
    return 0;
  return operand.strides[inner - missing];
}

bool Args::goes_by_vector() const {
  const TensorInfo& result = context_.output(op_);
  bool converts = result.dtype != common;
  for (int k : {0, 1})
    converts =
        converts || (is_tensor(k) && context_.tensor(op_, static_cast<size_t>(k)).dtype != common);
  if (converts) return true;  // through buffers
  size_t inner = inner_axis(result);
  int64_t x = inner_stride(0), y = inner_stride(1);
  return inner < result.sizes.size() && result.strides[inner] == 1 && x >= 0 && y >= 0 && x <= 1 &&
         y <= 1 && x + y > 0;
}

bool Args::goes_by_whole_vectors() const {
  constexpr int64_t kMost = 64;  // elements in two vectors of the narrowest dtype
  const TensorInfo& result = context_.output(op_);
  const size_t inner = inner_axis(result);
  return inner < result.sizes.size() && result.sizes[inner] % kMost == 0 &&
         result.strides[inner] == 1 && inner_stride(0) == 1 && inner_stride(1) == 1;
}

void Args::either_zero() {
  context_.either_zero |= is_float();
}

Value Args::refuse(std::string why) {
  refusal_ = std::move(why);
  return {};
}

// --- Lowering

const std::vector<PointwiseRow>& pointwise_table() {
  // Never destroyed: the worker may still lower while the process ends.
  static const auto* table = [] {
    auto* all = new std::vector<PointwiseRow>;
    for (const auto& family : {arithmetic_rows(), comparison_rows(), unary_rows(),
                               activation_rows(), ternary_rows(), backward_rows()})
      all->insert(all->end(), family.begin(), family.end());
    return all;
  }();
  return *table;
}

namespace {

ScalarType common_dtype(const Context& context, const OperatorRecord& op, const PointwiseRow& row) {
  DtypePromotion state(context.trace.default_dtype);
  for (size_t k = 0; k < static_cast<size_t>(row.operands) && k < op.inputs.size(); ++k) {
    if ((row.promoted >> k & 1) == 0) continue;
    const Operand& operand = op.inputs[k];
    if (operand.kind == Operand::Kind::Number)
      state.add(c10::Scalar(0.0));
    else if (operand.kind == Operand::Kind::Tensor && !operand.tensors.empty() &&
             operand.tensors[0] >= 0)
      state.add(context.tensor(op, k));
    else if (operand.kind == Operand::Kind::Constant &&
             (operand.constant.isScalar() || operand.constant.isBool()))
      state.add(operand.constant.toScalar());
  }
  ScalarType common = state.result();
  bool to_float = row.promotion == Promotion::Float ||
                  (row.promotion == Promotion::Divide && text(op, "rounding_mode", {}).empty());
  return to_float && !is_float(common) ? context.trace.default_dtype : common;
}

bool clashes(const Context& context, const OperatorRecord& op, const PointwiseRow& row,
             const ir::View& out) {
  for (size_t k = 0; k < static_cast<size_t>(row.operands) && k < op.inputs.size(); ++k)
    for (int tensor : op.inputs[k].tensors)
      if (tensor >= 0 && ir::clash(out, context.trace.tensors[static_cast<size_t>(tensor)]))
        return true;
  return false;
}

Fate lower_pointwise(Context& context, const OperatorRecord& op) {
  const PointwiseRow& row = *context.row->formula;
  ScalarType common = common_dtype(context, op, row);
  if (!context.settings.target.loops(common))
    return Fate::external(std::string("common dtype ") + c10::toString(common));
  const std::vector<int64_t>& sizes = context.output(op).sizes;

  const std::array<Formula, 2> formulas{row.formula, row.second};
  c10::SmallVector<ir::Statement, 2> statements;
  bool exact = row.bits.exactness == Exactness::Bits || !is_float(common);
  for (size_t k = 0; k < formulas.size() && formulas[k] != nullptr; ++k) {
    const ir::View& out = context.output(op, k);
    // Eager's result then depends on the order in which its loop runs.
    if (clashes(context, op, row, out))
      return Fate::external("the output overlaps an operand elsewhere");
    ir::StatementBuilder builder(sizes);
    Args args(context, op, builder, common);
    Value value = formulas[k](args);
    if (!args.refusal().empty()) return Fate::external(args.refusal());
    if (row.promotion != Promotion::Compare) value = convert(value, common);
    exact = exact && !args.has_tail();
    statements.push_back(builder.store(out, convert(value, out.dtype)));
  }
  if (row.raises != nullptr) {
    ir::StatementBuilder probe(sizes);
    Args args(context, op, probe, common);
    bool may_raise = row.raises(args).builder != nullptr;
    auto bad = [&](ir::StatementBuilder& builder) {
      Args again(context, op, builder, common);
      return row.raises(again);
    };
    if (may_raise && !context.check(sizes, bad))
      return Fate::external("eager may raise here, and caller-visible memory was written before");
  }

  if (!exact) context.approximate(common);
  for (ir::Statement& statement : statements) context.emit(std::move(statement));
  return Fate::fused();
}

}  // namespace

std::vector<Row> pointwise_rows() {
  std::vector<Row> rows;
  for (const PointwiseRow& row : pointwise_table())
    rows.push_back({row.name, lower_pointwise, row.what, /*takes_numbers=*/true,
                    /*takes_complex=*/false, &row});
  return rows;
}

}  // namespace graft::ops
