// One-hot: what stores one element per row (scatter, or an operator that stores in order), behind a
// statement that stored the rows whole with no call to ATen between, becomes a statement over the
// rows too. It can then join the others. Of several in turn, the first one does; none where two
// points may store to one place.
//
//     [a:64,b:100] %2[a*100+b] = …               [a:64,b:100] %2[a*100+b] = …
//     repeat 1 in order                    →     [a:64,b:100] %2[a*100+b] = select((b == %1[a]),
//       [s:1,a:64] %2[a*100+(%1[a]:100)]             (%2[a*100+b] - 1), %2[a*100+b])
//         = (%2[a*100+(%1[a]:100)] - 1)
#pragma once

#include "ir/program.h"

namespace graft::passes {

ir::Program one_hot(ir::Program program);

}  // namespace graft::passes
