// A program whose sums and products are off by about what rounding them may cost: its results show
// how far two right programs may be apart that add the same terms in another order or precision.
//
// Such sums differ by a part of what was *added*, not of what was left. So each floating sum gets a
// companion that adds the terms' magnitudes, and is moved by a part of these that ATen's kernels
// may lose, plus a spacing of its own; the rest of the program carries that on to the results. With
// n terms and the spacing u of the type that eager adds in, the part is
//
//     u * (4 + sqrt(n) / 16) of a sum (in a cascade, as ATen adds most; measured: 4 u at n = 10^7)
//     u * sqrt(n)              of a product
//
// A matrix product's results, if it may become loops or is written out, are moved by such a part of
// themselves, and so are matrices before they are factored (an inverse is as far off as that of a
// matrix that is a little off). What is infinite stays.
//
// Where ATen adds one term after another, in lanes (norms, softmax), it may lose n / 16 units: a
// tolerance of that size would hide mistakes, so there the reference in fp64 decides
// (runtime/proof/compare.h).
//
//     %1[a:8] f32 = f32(reduced)  reduced = sum.f64{b} f64(%0[a*9+b])
//
// becomes
//
//     %2[a:8] f64 = reduced  reduced = sum.f64{b} abs(f64(%0[a*9+b]))
//     %1[a:8] f32 = f32((reduced + select(odd(a), s1, s0) * (c * %2[a] + d * abs(reduced))))
//         reduced = sum.f64{b} f64(%0[a*9+b])
//
// with s, c and d kernel arguments. Running sums (scans) have eager's bits and stay.
#pragma once

#include <cstdint>
#include <map>

#include "ir/program.h"

namespace graft::passes {

/// In which direction sums are moved: not at all; all up; in turns from sum to sum; in turns from
/// element to element of each; and these three the other way, since a number that is rounded to an
/// integer, or compared, may have its tie on either side. What cancels in one of them shows in
/// another. The undisturbed one is what the others are compared with, not the plan itself: a wrong
/// plan may differ from its disturbed form for other reasons. The last two are kStrong times as
/// strong, all up and in turns, but for the one spacing of a sum's own: what is only carried on
/// moves kStrong times as far in them, what rounding decides jumps.
inline constexpr int kWays = 3, kStrongDisturbances = 2,
                     kDisturbances = 1 + 2 * kWays + kStrongDisturbances;
inline constexpr double kStrong = 512;

/// `which`: below kDisturbances. The kernels of all of them have one structure. `written_out`: the
/// numbers of terms, by record, of products that one statement writes out.
ir::Program disturb(ir::Program program, int which, const std::map<int, int64_t>& written_out = {});

}  // namespace graft::passes
