#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "codegen/routine.h"
#include "codegen/source/printer.h"

namespace graft::codegen {

using ir::Op;

namespace {

/// Longer expressions become a line of their own.
constexpr size_t kLong = 60;

std::string infix(const std::string& x, const char* op, const std::string& y) {
  return "(" + x + " " + op + " " + y + ")";
}
std::string applied(const std::string& function, const std::string& x, const std::string& y = "") {
  return function + "(" + x + (y.empty() ? "" : ", " + y) + ")";
}

std::string decimal(double x, const char* format) {
  char text[40];
  std::snprintf(text, sizeof text, format, x);
  std::string number = text;
  if (number.find_first_of(".e") == std::string::npos) number += ".0";
  return number;
}

}  // namespace

std::string cpp_type(ScalarType type) {
  switch (type) {
    case ScalarType::Bool:
      return "bool";
    case ScalarType::Byte:
      return "uint8_t";
    case ScalarType::Char:
      return "int8_t";
    case ScalarType::Short:
      return "int16_t";
    case ScalarType::Int:
      return "int32_t";
    case ScalarType::Long:
      return "int64_t";
    case ScalarType::BFloat16:
      return "bf16";
    case ScalarType::Half:
      return "f16";
    case ScalarType::Float8_e4m3fn:
      return "f8e4m3fn";
    case ScalarType::Float8_e5m2:
      return "f8e5m2";
    case ScalarType::Float:
      return "float";
    case ScalarType::Double:
      return "double";
    default:
      throw std::runtime_error(std::string("graft: no C++ for dtype ") + c10::toString(type));
  }
}

std::string cpp_memory_type(ScalarType type) {
  return type == ScalarType::Bool ? "uint8_t" : cpp_type(type);
}

void SourcePrinter::count_uses() {
  uses_.assign(plan_.values.size(), 0);
  user_depth_.assign(plan_.values.size(), -1);
  auto use = [&](int v, int home) {
    if (v < 0) return;
    ++uses_[static_cast<size_t>(v)];
    user_depth_[static_cast<size_t>(v)] = loop(home).depth;
  };
  for (const PlanValue& v : plan_.values) {
    for (int in : v.in) use(in, v.home);
    for (const auto& [index, s] : v.indirect) use(index, v.home);
  }
  for (const StatementPlan& s : plan_.statements) {
    use(s.input, s.loop);
    use(s.value, s.finish_loop);
    for (const auto& [index, stride] : s.store_indirect) use(index, s.finish_loop);
  }
}

/// A name, or the expression itself where it is used once and not further inside.
std::string SourcePrinter::get(int v) {
  const PlanValue& plan = value(v);
  std::string& name = names_[static_cast<size_t>(v)];
  if (!name.empty()) return name;
  if (plan.op == Op::Const) return constant(plan);
  if (plan.op == Op::Axis) return variable(static_cast<int>(plan.payload));
  std::string text = kept(v);
  if (text.empty()) text = compute(v);
  int depth = loop(plan.home).depth;
  auto index = static_cast<size_t>(v);
  if (uses_[index] == 1 && user_depth_[index] == depth && text.size() < kLong) return text;
  if (text.front() == '(' && text.back() == ')') text = text.substr(1, text.size() - 2);
  std::string made = "t" + std::to_string(v);
  Frame& frame = frame_at(depth);
  line_at(frame, "const " + cpp_type(plan.type) + " " + made + " = " + text + ";");
  frame.defined.push_back(v);
  return names_[index] = made;
}

/// Infix expressions stand in parentheses.
std::string SourcePrinter::compute(int v) {
  const PlanValue& plan = value(v);
  std::string x[3];
  for (size_t k = 0; k < 3; ++k)
    if (plan.in[k] >= 0) x[k] = get(plan.in[k]);
  std::string type = cpp_type(plan.type);
  bool truth = plan.type == ScalarType::Bool;
  // C++ computes narrow integers as int.
  auto wrapped = [&](const std::string& text) {
    return !is_float(plan.type) && c10::elementSize(plan.type) < 4 ? type + text : text;
  };
  auto arithmetic = [&](const char* op) { return wrapped(infix(x[0], op, x[1])); };
  auto comparison = [&](const char* op) {
    if (!is_reduced(value(plan.in[0]).type)) return infix(x[0], op, x[1]);
    return infix(applied("widen", x[0]), op, applied("widen", x[1]));
  };
  switch (plan.op) {
    case Op::Load:
      return load(plan);
    case Op::Const:
      return constant(plan);
    case Op::Axis:
      return variable(static_cast<int>(plan.payload));
    case Op::Reduced:
      throw std::runtime_error("graft: a reduction's result is used before it is complete");
    case Op::Scalar: {
      std::string bits = "args->scalars[" + std::to_string(plan.payload) + "]";
      if (!is_float(plan.type)) return applied("static_cast<" + type + ">", bits);
      return applied("cast<" + type + ">", applied("std::bit_cast<double>", bits));
    }
    case Op::Add:
      return arithmetic("+");
    case Op::Sub:
      return arithmetic("-");
    case Op::Mul:
      return arithmetic("*");
    case Op::Div:
      return arithmetic("/");
    case Op::Neg:
      return wrapped("(-" + x[0] + ")");
    case Op::Abs:
      return applied("absolute", x[0]);
    case Op::Max:
      return applied("largest", x[0], x[1]);
    case Op::Min:
      return applied("smallest", x[0], x[1]);
    case Op::Fma:
      return applied("std::fma", x[0], x[1] + ", " + x[2]);
    case Op::Sqrt:
      return applied("std::sqrt", x[0]);
    case Op::Floor:
      return applied("std::floor", x[0]);
    case Op::Ceil:
      return applied("std::ceil", x[0]);
    case Op::Trunc:
      return applied("std::trunc", x[0]);
    case Op::RoundEven:
      return applied("std::nearbyint", x[0]);
    case Op::CopySign:
      return applied("std::copysign", x[0], x[1]);
    case Op::IDiv:
      return applied("quotient", x[0], x[1]);
    case Op::IRem:
      return applied("remainder_of", x[0], x[1]);
    case Op::Shl:
      return applied("shift_left", x[0], x[1]);
    case Op::Shr:
      return applied("shift_right", x[0], x[1]);
    case Op::And:
      return arithmetic("&");
    case Op::Or:
      return arithmetic("|");
    case Op::Xor:
      return arithmetic("^");
    case Op::Not:
      return truth ? "(!" + x[0] + ")" : wrapped("(~" + x[0] + ")");
    case Op::Eq:
      return comparison("==");
    case Op::Ne:
      return comparison("!=");
    case Op::Lt:
      return comparison("<");
    case Op::Le:
      return comparison("<=");
    case Op::Gt:
      return comparison(">");
    case Op::Ge:
      return comparison(">=");
    case Op::Select:
      return "(" + x[0] + " ? " + x[1] + " : " + x[2] + ")";
    case Op::Cast:
      return applied("cast<" + type + ">", x[0]);
    case Op::Bitcast:
      return applied("std::bit_cast<" + type + ">", x[0]);
    case Op::Call: {
      std::string routine = routine_of(plan);
      switch (routine_call(static_cast<ir::Routine>(plan.payload), plan.type, target_).source) {
        case RoutineSource::Vml:
          return applied("vml", routine, x[0]);
        case RoutineSource::Sleef:
          return applied("first_lane", routine, x[0] + (x[1].empty() ? "" : ", " + x[1]));
        case RoutineSource::Libm:
        case RoutineSource::Inline:
          return applied(routine, x[0], x[1]);
      }
    }
  }
  throw std::runtime_error("graft: no C++ for the node " + std::string(info(plan.op).name));
}

std::string SourcePrinter::routine_of(const PlanValue& v) {
  const RoutineCall call = routine_call(static_cast<ir::Routine>(v.payload), v.type, target_);
  std::string type = cpp_type(v.type);
  switch (call.source) {
    case RoutineSource::Vml:
      return library_routine(static_cast<ir::Routine>(v.payload), v.type);
    case RoutineSource::Sleef: {
      std::string vector = type + std::to_string(call.lanes),
                  bytes =
                      std::to_string(static_cast<size_t>(call.lanes) * c10::elementSize(v.type));
      bool two = info(static_cast<ir::Routine>(v.payload)).arity == 2;
      routines_[call.symbol] = "typedef " + type + " " + vector + " __attribute__((vector_size(" +
                               bytes + ")));\nextern \"C\" " + vector + " " + call.symbol + "(" +
                               vector + (two ? ", " + vector : "") + ");\n";
      return call.symbol;
    }
    case RoutineSource::Libm:
      routines_[call.symbol] = "";  // <cmath> has it
      return call.symbol;
    case RoutineSource::Inline: {
      const auto routine = static_cast<ir::Routine>(v.payload);
      if (info(routine).form == ir::RoutineForm::Formula) return formula_of(routine);
      return routine == ir::Routine::NearExp ? "near_exp" : "inline_exp";
    }
  }
  throw std::runtime_error("graft: a routine of no source");
}

std::string SourcePrinter::formula_of(ir::Routine routine) {
  const std::string name = "array_" + std::string(info(routine).function);
  switch (routine) {
    case ir::Routine::FormulaSin:
    case ir::Routine::FormulaCos:
    case ir::Routine::FormulaTanh:
      return name + "<" +
             library_routine(*in_form(routine, ir::RoutineForm::Array), ScalarType::Float) + ">";
    default:
      return name;
  }
}

std::string SourcePrinter::library_routine(ir::Routine routine, ScalarType of) {
  const std::string symbol = routine_call(routine, of, target_).symbol, type = cpp_type(of);
  routines_[symbol] = "extern \"C\" void " + symbol + "(const int32_t*, const " + type + "*, " +
                      type + "*, const int64_t*);\n";
  return symbol;
}

std::string SourcePrinter::load(const PlanValue& v) {
  std::string text = place(v.access, v.indirect);
  if (v.type == ScalarType::Bool) text = "(" + text + " != 0)";
  return text;
}

std::string SourcePrinter::kept(int v) const {
  if (strips_ == nullptr) return "";
  int ready = strips_->plan.ready[static_cast<size_t>(v)];
  if (ready < 0 || ready > strips_->phase) return "";
  std::string index = variable(loop(value(v).home).var) + " - start";
  std::string text = "b" + std::to_string(v) + "[" + index + "]";
  return value(v).type == ScalarType::Bool ? "(" + text + " != 0)" : text;
}

std::string SourcePrinter::constant(const PlanValue& v) const {
  std::string type = cpp_type(v.type);
  if (v.type == ScalarType::Bool) return v.payload != 0 ? "true" : "false";
  if (!is_float(v.type)) {
    if (v.payload == std::numeric_limits<int64_t>::min())
      return "std::numeric_limits<int64_t>::min()";
    return applied("static_cast<" + type + ">", std::to_string(v.payload));
  }
  double x = rounded_to(std::bit_cast<double>(v.payload), v.type);
  const std::string computed = cpp_type(opmath(v.type));
  std::string text = (std::signbit(x) ? "-std::numeric_limits<" : "std::numeric_limits<") +
                     computed + (std::isnan(x) ? ">::quiet_NaN()" : ">::infinity()");
  if (std::isfinite(x))
    text = opmath(v.type) == ScalarType::Float ? decimal(x, "%.9g") + "f" : decimal(x, "%.17g");
  if (is_reduced(v.type)) return applied("cast<" + type + ">", text);
  return std::signbit(x) ? "(" + text + ")" : text;
}

}  // namespace graft::codegen
