// What is left of what a statement stored, while later statements store over it.
#pragma once

#include <vector>

#include "ir/program.h"

namespace graft::passes {

/// Takes from the parts of one statement what `later`, which stands in no Repeat, stores over. A
/// part that this would cut into too many pieces stays whole.
void take_out(const ir::Statement& later, std::vector<ir::Statement>& parts);

}  // namespace graft::passes
