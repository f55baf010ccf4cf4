// Complex tensors in loops: a complex number is two real ones that lie side by side, so that an
// operator is a statement for the real parts and one for the imaginary parts.
#pragma once

#include <optional>

#include "ops/context.h"

namespace graft::ops {

/// A row of the complex table, for the documentation.
struct ComplexRow {
  std::string_view name;
  std::string_view what;
};
std::vector<ComplexRow> complex_rows();

/// Does the operator take or give complex numbers?
bool is_complex(const Context& context, const record::OperatorRecord& op);
/// Lowers such an operator; `of_real`: its row for real tensors, or null. Its fate; nothing where
/// the table does not have it.
std::optional<Fate> lower_complex(Context& context, const record::OperatorRecord& op,
                                  const Row* of_real);

/// Of complex_products.cpp: products of matrices, alone.
std::optional<Fate> lower_complex_product(Context& context, const record::OperatorRecord& op);

}  // namespace graft::ops
