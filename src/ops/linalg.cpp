// Inverses, determinants, solutions and factors of small matrices, many at a time: by routines with
// LAPACK's order of rounding (linalg/), which ATen calls for one matrix after the other.
#include "tensor/linalg.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::View;
using record::OperatorRecord;

/// LAPACK is as fast with fewer.
constexpr int64_t kFewest = 8;

/// By the routine, where it takes matrices like these. `matrices`: outputs that are some.
Fate by_lanes(Context& ctx, const OperatorRecord& op, std::string_view routine, size_t matrices) {
  const View a = ctx.tensor(op, 0);
  const size_t rank = a.sizes.size();
  if (!op.mutated.empty()) return Fate::external("into given memory");
  if (!ctx.settings.target.avx2()) return Fate::external("no AVX2");
  if ((a.dtype != ScalarType::Float && a.dtype != ScalarType::Double) || rank < 2 ||
      a.sizes[rank - 1] != a.sizes[rank - 2] || a.sizes[rank - 1] > kMostOfSmall ||
      a.sizes[rank - 1] < 1)
    return Fate::external("large, or not of fp32 or fp64");
  if (ir::numel(a.sizes) / (a.sizes[rank - 1] * a.sizes[rank - 2]) < kFewest)
    return Fate::external("few matrices");
  for (size_t k = 0; k < matrices; ++k)
    if (const View out = ctx.output(op, k);
        out.strides != column_major_strides(out.sizes) || out.dtype != a.dtype)
      return Fate::external("results in another layout");
  ctx.approximate(a.dtype);  // LAPACK may round in an order that is not known
  return Fate::by(routine);
}

template <const std::string_view& routine, size_t matrices>
Fate in_lanes(Context& ctx, const OperatorRecord& op) {
  return by_lanes(ctx, op, routine, matrices);
}
Fate check(Context&, const OperatorRecord&) {
  return Fate::by(kChecks);
}

}  // namespace

std::vector<Row> linalg_rows() {
  constexpr const char* kSmall =
      "8 and more matrices of up to 16 rows, of fp32 and fp64, by a routine that computes one in "
      "each lane, with LAPACK's bits where its order of rounding is known";
  constexpr const char* kAsInverses = "as inverses";
  return {
      {"aten::linalg_inv_ex", in_lanes<kInverses, 1>, kSmall},
      {"aten::_linalg_solve_ex", in_lanes<kSolutions, 2>, kAsInverses},
      {"aten::_linalg_det", in_lanes<kDeterminants, 0>, kAsInverses},
      {"aten::_linalg_slogdet", in_lanes<kLogDeterminants, 0>, kAsInverses},
      {"aten::linalg_cholesky_ex", in_lanes<kCholeskyFactors, 1>, "lower factors, as inverses"},
      {"aten::linalg_solve_triangular", in_lanes<kTriangularSolutions, 1>, kAsInverses},
      {"aten::_linalg_check_errors", check, "raises eager's errors"},
  };
}

}  // namespace graft::ops
