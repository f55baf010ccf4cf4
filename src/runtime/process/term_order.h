// In what order ATen's routines for matrices add up a few products: which of them it calls depends
// on the sizes, on the library and on the machine, and nobody writes it down.
#pragma once

#include "ir/product.h"

namespace graft::runtime {

/// Found by asking the routine for such a product; once in a process. Thread-safe.
ir::TermOrder order_of_terms(const ir::FewTerms& product);

}  // namespace graft::runtime
