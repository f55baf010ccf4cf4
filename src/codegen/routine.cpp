#include "codegen/routine.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace graft::codegen {

using ir::RoutineForm;

namespace {

/// Names of a function in the libraries of a CPU. libm's are `function`, with an f for Float.
struct CpuFunction {
  std::string_view function;
  const char* vml;  ///< "EXP" in VMSEXP_ and VMDEXP_
  /// The bounds of SLEEF's errors that ATen asks for: "_u10" in Sleef_expf16_u10, Sleef_expd8_u10.
  const char *sleef_float, *sleef_double;
};
constexpr CpuFunction kCpuFunctions[] = {
    {"sqrt", "SQRT", "", ""},           {"exp", "EXP", "_u10", "_u10"},
    {"log", "LN", "_u10", "_u10"},      {"log2", "LOG2", "_u10", "_u10"},
    {"log10", "LOG10", "_u10", "_u10"}, {"sin", "SIN", "_u35", "_u10"},
    {"cos", "COS", "_u35", "_u10"},     {"tan", "TAN", "_u10", "_u10"},
    {"asin", "ASIN", "_u10", "_u10"},   {"acos", "ACOS", "_u10", "_u10"},
    {"atan", "ATAN", "_u10", "_u10"},   {"sinh", "SINH", "_u10", "_u10"},
    {"cosh", "COSH", "_u10", "_u10"},   {"tanh", "TANH", "_u10", "_u10"},
    {"erf", "ERF", "_u10", "_u10"},     {"erfc", "ERFC", "_u15", "_u15"},
    {"erfinv", "ERFINV", "", ""},       {"exp2", "", "_u10", "_u10"},
    {"expm1", "", "_u10", "_u10"},      {"log1p", "", "_u10", "_u10"},
    {"atan2", "", "_u10", "_u10"},      {"asinh", "", "_u10", "_u10"},
    {"acosh", "", "_u10", "_u10"},      {"atanh", "", "_u10", "_u10"},
    {"pow", "", "_u10", "_u10"},        {"fmod", "", "", ""},
    {"hypot", "", "_u05", "_u05"},      {"lgamma", "", "_u10", "_u10"},
};

}  // namespace

RoutineCall routine_call(ir::Routine routine, ScalarType type, const ir::Target& target) {
  const ir::RoutineInfo& row = info(routine);
  const bool is_double = type == ScalarType::Double;
  if (row.form == RoutineForm::Formula || row.form == RoutineForm::Near) {
    if (row.form == RoutineForm::Formula && is_double)
      throw std::runtime_error("graft: " + std::string(row.name) + " is of Float");
    if (routine == ir::Routine::FormulaFusedSqrt && !target.avx512())
      throw std::runtime_error("graft: " + std::string(row.name) + " needs AVX-512");
    return {RoutineSource::Inline, {}};
  }
  const auto* names = std::find_if(std::begin(kCpuFunctions), std::end(kCpuFunctions),
                                   [&](const auto& f) { return f.function == row.function; });
  if (names == std::end(kCpuFunctions))
    throw std::runtime_error("graft: no library of a CPU has " + std::string(row.name));
  const RoutineCall scalar = {RoutineSource::Libm,
                              std::string(row.function) + (is_double ? "" : "f")};
  switch (row.form) {
    case RoutineForm::Array:
      return {RoutineSource::Vml, std::string(is_double ? "VMD" : "VMS") + names->vml + "_"};
    case RoutineForm::Vector: {
      if (!target.avx2()) return scalar;
      const int lanes = is_double ? target.lanes / 2 : target.lanes;
      return {RoutineSource::Sleef,
              "Sleef_" + std::string(row.function) + (is_double ? "d" : "f") +
                  std::to_string(lanes) + (is_double ? names->sleef_double : names->sleef_float),
              lanes};
    }
    default:
      return scalar;
  }
}

}  // namespace graft::codegen
