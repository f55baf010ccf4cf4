// What it costs that a reader computes a value itself, against storing it: inline decides by it.
#pragma once

#include "ir/program.h"
#include "ir/target.h"

namespace graft::passes {

/// Who reads what a statement of the program, as inline got it, stores.
struct Readership {
  double times = 1;     ///< that an element is read, where it makes a difference
  bool stored = false;  ///< memory has to hold it for a call or a loop
  /// It stays in memory for a call, while something as large that it was made of does not.
  bool outlives_inputs = false;
};

/// Does the load read each element for many points? Then it lies in the cache.
bool is_repeated(const ir::Access& load, const ir::Statement& s);
/// May each of several readers compute it? An instruction on what else it loads is little against
/// storing the value.
bool is_cheap(const ir::Statement& s);

/// A reader's nanoseconds with the value computed in it, and with its share of a statement that
/// stores the value for all readers. A model for decisions between the two: what inlining makes of
/// the loops around, and how fuse goes on from there, is not in it.
struct InlineCosts {
  double computed, stored;
};
/// `read`: points of the reader whose `load` reads what `producer` stores.
InlineCosts inline_costs(const ir::Statement& reader, const ir::Access& load, int64_t read,
                         const ir::Statement& producer, const Readership& readers,
                         const ir::Target& target);
/// Do its steps run one after the other, each narrower than a vector: a scatter of single numbers?
bool has_narrow_steps(const ir::Statement& reader, const ir::Target& target);
/// Of such a reader, which computes one number at a time, on one thread.
InlineCosts step_costs(int64_t read, const ir::Statement& producer, const Readership& readers,
                       const ir::Target& target);

}  // namespace graft::passes
