// One statement out of text.
#pragma once

#include "ir/cursor.h"
#include "ir/program.h"

namespace graft::ir {

/// The statement that stands at the cursor, to the end of its line. `repeated`: inside a Repeat,
/// where extents may grow. Throws ParseError.
Statement parse_statement(Cursor& cursor, bool repeated);

}  // namespace graft::ir
