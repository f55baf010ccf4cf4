// What instruction sets of narrower vectors do without, included by each before kernels_body.h and
// without a guard as that is.

/// Four vectors of codes are stored one by one.
constexpr bool kPacksFour = false;
template <int kBits>
void pack_four(uint8_t* to, const U (&codes)[4], bool past_caches);

/// The smaller magnitude takes two instructions.
constexpr bool kHasRange = false;
template <bool kMagnitude>
F least_magnitude(F x, F limit);

/// Looking up one of 32 numbers would take longer than computing them.
constexpr bool kHasWideTable = false;
template <int kElement>
struct WideTable;
/// So would looking up two at once.
constexpr bool kHasPairTable = false;
template <int kElement>
struct PairTable;
