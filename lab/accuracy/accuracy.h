// How far results are from a reference's: in units in the last place, absolutely and relatively;
// and, where fp64 results are given, how far both sides are from those.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace graft::lab {

/// A histogram of distances, where a distance is the number of representable numbers between two
/// values. -0 and +0 are one number: from the largest negative number to the smallest positive one
/// the distance is 2.
struct UlpHistogram {
  /// Buckets 0, 1, 2, 3-4, 5-8, … up to 2^32, and one for all beyond.
  static constexpr int kBuckets = 35;
  std::array<int64_t, kBuckets> counts{};
  int64_t signed_zeros = 0;    ///< -0 against +0; in no bucket
  int64_t nan_mismatches = 0;  ///< a NaN on one side only; in no bucket. Two NaNs are 0 apart
  int64_t inf_mismatches = 0;  ///< an infinity against another value; in no bucket

  static int bucket(uint64_t distance);
  /// "0", "3-4", ">2^32".
  static std::string label(int bucket);
  void add(const UlpHistogram& other);
  /// One line per bucket, from the first to the last that have elements: label, count, share, bar.
  std::string text(int bar_width = 40) const;
};

/// The place where a difference is largest.
struct Extreme {
  double value = 0;     ///< the difference or distance; 0: nothing differs
  int64_t tensor = -1;  ///< position in the list; -1: nowhere
  /// Within the tensor; for a complex one followed by 0 for the real or 1 for the imaginary part.
  std::vector<int64_t> index;
  double candidate = 0, reference = 0;
  /// "[3, 17]: 0.5 against 0.25"; "" if nothing differs.
  std::string text() const;
};

/// The error of one side against fp64, over the elements that are finite in fp64.
struct Fp64Error {
  double max = 0, mean = 0;  ///< relative to the tensor's largest magnitude in fp64
  /// Elements where one side is NaN or infinite and the other is not, or is so differently.
  int64_t non_finite = 0;
};

enum class Nearer { Same, Candidate, Reference };
const char* to_string(Nearer nearer);

struct Fp64Comparison {
  Fp64Error candidate, reference;
  /// Number of elements where one side is nearer to fp64; at all others both are equally near.
  int64_t candidate_nearer = 0, reference_nearer = 0;
  /// The side with fewer non-finite elements; if equal, the one with the smaller mean error.
  Nearer nearer() const;
};

/// One tensor's differences. NaN and infinity mismatches are counted in `ulps`, and not in
/// differences and means.
struct TensorAccuracy {
  std::string dtype;  ///< "Float", "BFloat16"; for all tensors together: "" unless all have one
  std::vector<int64_t> sizes;
  int64_t elements = 0;   ///< a complex number counts as two
  int64_t different = 0;  ///< elements with other bits; two NaNs are equal, -0 and +0 are not
  bool floating = false;  ///< if so, `ulps` holds its elements
  double epsilon = 0;     ///< the distance from 1 to the next number; 0 for integers
  UlpHistogram ulps;
  Extreme max_ulp, max_abs;
  Extreme max_rel;  ///< |candidate - reference| / |reference|, where the reference is not zero
  double mean_abs = 0, mean_rel = 0;
  Extreme mismatch;  ///< the first NaN or infinity against something else
  std::optional<Fp64Comparison> fp64;

  bool bitwise() const { return different == 0; }
  /// Bitwise; or, against fp64, no more non-finite elements than the reference's and a largest
  /// error at most `factor` times the reference's or `ulps` epsilons above it.
  bool as_good(double factor = 2, double ulps = 4) const;
};

struct Accuracy {
  std::string problem;  ///< why the lists cannot be compared; "" if they can
  std::vector<TensorAccuracy> tensors;
  TensorAccuracy all;  ///< counts added, largest of largest, means over all elements

  bool bitwise() const { return problem.empty() && all.bitwise(); }
  /// Is every tensor as good?
  bool as_good(double factor = 2, double ulps = 4) const;
  /// One line: "bitwise", "max 3 ulp, 1.2e-07 absolute; error 0.8x the reference's".
  std::string text() const;
};

/// Compares two lists of tensors of equal dtypes and sizes, with any strides and device. The fp64
/// tensors have the same sizes and any real dtype (complex for complex). A tensor may be undefined
/// if it is so on both sides. Reads in chunks on ATen's threads, without temporaries for contiguous
/// CPU tensors (fp64's in double); results do not depend on the number of threads. Throws
/// std::invalid_argument for quantized and sparse tensors, and for an fp64 list that does not
/// match.
Accuracy accuracy(const std::vector<at::Tensor>& candidate,
                  const std::vector<at::Tensor>& reference,
                  const std::optional<std::vector<at::Tensor>>& fp64 = std::nullopt);

/// "3", "15,122", "1.8e+19".
std::string ulp_text(double ulps);
/// "Float [2, 3]", "an undefined tensor": for error texts.
std::string form_text(const at::Tensor& t);

nlohmann::json to_json(const TensorAccuracy& accuracy);
nlohmann::json to_json(const Accuracy& accuracy);
/// Prints a table with one line per tensor, the largest differences with their places, and the
/// histogram.
void print(std::ostream& out, const Accuracy& accuracy, bool colour = false);

}  // namespace graft::lab
