// How far results are from a reference's: in units in the last place, absolutely and relatively,
// and, where the same was computed in fp64, how far both sides are from that.
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

/// Distances counted in representable numbers between two values; across zero too: from the
/// smallest number below zero to the one above are 2, and -0 is at +0.
struct UlpHistogram {
  /// 0, 1, 2, 3-4, 5-8, … up to 2^32, and all beyond.
  static constexpr int kBuckets = 35;
  std::array<int64_t, kBuckets> counts{};
  int64_t signed_zeros = 0;    ///< -0 against +0; in no bucket
  int64_t nan_mismatches = 0;  ///< a NaN on one side only; in no bucket. Two NaNs are 0 apart
  int64_t inf_mismatches = 0;  ///< an infinity against another value; in no bucket

  static int bucket(uint64_t distance);
  /// "0", "3-4", ">2^32".
  static std::string label(int bucket);
  void add(const UlpHistogram& other);
  /// A line a bucket between the first and the last that have elements: label, count, share, bar.
  std::string text(int bar_width = 40) const;
};

/// Where something is largest.
struct Extreme {
  double value = 0;            ///< of the difference or distance; 0: nothing differs
  int64_t tensor = -1;         ///< position in the list; -1: nowhere
  std::vector<int64_t> index;  ///< within the tensor; of a complex one the last is 0 or 1: re, im
  double candidate = 0, reference = 0;
  /// "[3, 17]: 0.5 against 0.25"; "" where there is none.
  std::string text() const;
};

/// Of one side against fp64, over the elements that are finite there.
struct Fp64Error {
  double max = 0, mean = 0;  ///< relative to the tensor's largest magnitude in fp64
  int64_t non_finite = 0;    ///< elements that are NaN or infinite on one side, or differently so
};

enum class Nearer { Same, Candidate, Reference };
const char* to_string(Nearer nearer);

struct Fp64Comparison {
  Fp64Error candidate, reference;
  int64_t candidate_nearer = 0, reference_nearer = 0;  ///< elements; the rest are as near
  /// By the mean error; of a side with fewer non-finite ones first.
  Nearer nearer() const;
};

/// Differences and means leave NaN and infinity mismatches out. Those are counted in `ulps`.
struct TensorAccuracy {
  std::string dtype;  ///< "Float", "BFloat16"; of all tensors together: "" unless all are the same
  std::vector<int64_t> sizes;
  int64_t elements = 0;   ///< a complex number is two
  int64_t different = 0;  ///< other bits; two NaNs are equal, -0 and +0 are not
  bool floating = false;  ///< `ulps` holds its elements
  double epsilon = 0;     ///< from 1 to the next number; 0 for integers
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
  /// Every tensor is.
  bool as_good(double factor = 2, double ulps = 4) const;
  /// One line: "bitwise", "max 3 ulp, 1.2e-07 absolute; error 0.8x the reference's".
  std::string text() const;
};

/// Tensors of any strides and device, of equal dtypes and sizes on both sides; fp64's have the same
/// sizes and any real dtype (complex for complex). Undefined ones must be so on both sides. Reads
/// in chunks on ATen's threads, without temporaries for contiguous CPU tensors (fp64's being in
/// double); results do not depend on the number of threads. Throws std::invalid_argument for
/// quantized and sparse tensors, and for fp64 lists of another form.
Accuracy accuracy(const std::vector<at::Tensor>& candidate,
                  const std::vector<at::Tensor>& reference,
                  const std::optional<std::vector<at::Tensor>>& fp64 = std::nullopt);

/// "3", "15,122", "1.8e+19".
std::string ulp_text(double ulps);
/// "Float [2, 3]", "an undefined tensor": for error texts.
std::string form_text(const at::Tensor& t);

nlohmann::json to_json(const TensorAccuracy& accuracy);
nlohmann::json to_json(const Accuracy& accuracy);
/// A table with a line a tensor, where the largest differences are, and the histogram.
void print(std::ostream& out, const Accuracy& accuracy, bool colour = false);

}  // namespace graft::lab
