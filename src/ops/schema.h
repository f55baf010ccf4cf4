// Reads a recorded operator through its schema: names, arguments by name, dtypes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "record/trace.h"

namespace graft::ops {

/// "aten::add" for add.Tensor, add_.Tensor and add.out: the key of the operator tables.
std::string_view base_name(const record::OperatorRecord& op);
/// "aten::add.Tensor", or "aten::relu" where the overload has no name.
std::string full_name(const record::OperatorRecord& op);

/// Index of the schema's argument of that name, or -1.
int argument_index(const record::OperatorRecord& op, std::string_view name);
/// The recorded constant of that name; null when the schema has no such argument or it is a tensor.
const c10::IValue* constant(const record::OperatorRecord& op, std::string_view name);
/// Likewise, as a number; empty when absent or None.
std::optional<c10::Scalar> number(const record::OperatorRecord& op, std::string_view name);
/// Does an argument hold a number that is known only at the call? To the functions above and below
/// it is absent.
bool takes_number(const record::OperatorRecord& op);
int64_t integer(const record::OperatorRecord& op, std::string_view name, int64_t otherwise);
bool boolean(const record::OperatorRecord& op, std::string_view name, bool otherwise);
std::string text(const record::OperatorRecord& op, std::string_view name, std::string otherwise);
/// A list of integers (int[], SymInt[], or a single int expanded by the schema); empty when absent
/// or None.
std::vector<int64_t> integers(const record::OperatorRecord& op, std::string_view name);

/// The view with dimensions of 1 before it, or behind.
ir::View with_rank(ir::View view, size_t front, size_t back = 0);

/// `value` as ATen converts it (c10::convert): to Half and BFloat16 through Float.
ir::Value convert(ir::Value value, c10::ScalarType to);
/// a * b + c, rounded once where ATen's kernels are compiled so.
ir::Value multiply_add(ir::Value a, ir::Value b, ir::Value c, bool fused);
/// `number` converted to `type`, as the double of that value (floating types) or the wrapped
/// integer.
c10::Scalar converted(const c10::Scalar& number, c10::ScalarType type);

/// ATen's result_type over a chosen set of operands. Within a category (bool, integer, floating)
/// tensors with dimensions outrank 0-dim ones, which outrank numbers.
class DtypePromotion {
 public:
  /// `default_dtype`: that of the recorded run, which floating numbers take.
  explicit DtypePromotion(c10::ScalarType default_dtype) : default_(default_dtype) {}
  void add(const record::TensorInfo& tensor);
  void add(const c10::Scalar& number);
  c10::ScalarType result() const;

 private:
  c10::ScalarType default_;
  c10::ScalarType dims_ = c10::ScalarType::Undefined;
  c10::ScalarType zero_ = c10::ScalarType::Undefined;
  c10::ScalarType wrapped_ = c10::ScalarType::Undefined;
};

}  // namespace graft::ops
