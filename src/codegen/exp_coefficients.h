// SLEEF's exp_u10 in numbers, for the code generators that write it out in a kernel.
//
//     q = round(x / ln 2)     s = x - q * ln 2, in two steps     e^x = 2^q * polynomial(s)
#pragma once

#include <cstddef>

namespace graft::codegen {

template <class T, size_t n>
struct ExpCoefficients {
  T limit;  ///< arguments are held to -limit … limit, beyond which the result is 0 or infinite
  T inverse_ln2, ln2_high, ln2_low;
  T terms[n];  ///< of the polynomial, highest power first; the last ones are in its code
};

/// Evaluated by Horner's rule.
inline constexpr ExpCoefficients<float, 6> kExpSingle{
    104.5f,
    1.442695040888963407359924681001892137426645954152985934135449406931f,
    0.693145751953125f,
    1.428606765330187045e-06f,
    {0.000198527617612853646278381f, 0.00139304355252534151077271f, 0.00833336077630519866943359f,
     0.0416664853692054748535156f, 0.166666671633720397949219f, 0.5f}};

/// From here on the result is a normal number. NearExp gives 0 below, as the exp of ATen's fp32
/// softmax does: subnormal numbers cost a hundred cycles wherever they go. In fp64, where that exp
/// keeps them and nobody meets them, they stay.
inline constexpr float kLeastNormal = -87.33654f;

/// Evaluated in pairs (Estrin's scheme).
inline constexpr ExpCoefficients<double, 10> kExpTwice{
    1000.5,
    1.442695040888963407359924681001892137426645954152985934135449406931,
    .69314718055966295651160180568695068359375,
    .28235290563031577122588448175013436025525412068e-12,
    {+0.2081276378237164457e-8, +0.2511210703042288022e-7, +0.2755762628169491192e-6,
     +0.2755723402025388239e-5, +0.2480158687479686264e-4, +0.1984126989855865850e-3,
     +0.1388888888914497797e-2, +0.8333333333314938210e-2, +0.4166666666666602598e-1,
     +0.1666666666666669072e+0}};

}  // namespace graft::codegen
