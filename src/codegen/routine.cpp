#include "codegen/routine.h"

#include <algorithm>

namespace graft::codegen {

using ir::RoutineSource;
using ir::ScalarType;

RoutineCall routine_call(ir::Routine routine, ScalarType type, const ir::Target& target) {
  const ir::RoutineInfo& row = info(routine);
  RoutineCall call{row.source, type == ScalarType::Float ? row.float_symbol : row.double_symbol};
  if (row.source == RoutineSource::Inline) call.symbol.clear();
  if (row.source != RoutineSource::Sleef) return call;
  // The row has "expf_u10"; the function is "expf" of the C library, or "Sleef_expf16_u10".
  size_t split = std::min(call.symbol.find('_'), call.symbol.size());
  std::string stem = call.symbol.substr(0, split), bound = call.symbol.substr(split);
  if (!target.avx2()) return {RoutineSource::Libm, stem};
  call.lanes = type == ScalarType::Float ? target.lanes : target.lanes / 2;
  call.symbol = "Sleef_" + stem + (type == ScalarType::Double ? "d" : "") +
                std::to_string(call.lanes) + bound;
  return call;
}

}  // namespace graft::codegen
