// Distances in units in the last place against ones counted by hand; differences, fp64's errors,
// and how they are shown.
#include "lab/accuracy/accuracy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

namespace graft::lab {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

at::Tensor floats(std::vector<float> values) {
  return at::tensor(values, at::kFloat);
}
at::Tensor doubles(std::vector<double> values) {
  return at::tensor(values, at::kDouble);
}
float from_bits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
/// A 16-bit float of these bits.
at::Tensor short_float(at::ScalarType type, int bits) {
  return at::tensor({bits}, at::kInt).to(at::kShort).view(type);
}

/// The only distance of two one-element tensors.
double ulps(const at::Tensor& a, const at::Tensor& b) {
  const TensorAccuracy all = accuracy({a}, {b}).all;
  EXPECT_EQ(all.elements, 1);
  if (all.max_ulp.value > 0) {
    EXPECT_EQ(all.ulps.counts[UlpHistogram::bucket(static_cast<uint64_t>(all.max_ulp.value))], 1);
  }
  EXPECT_EQ(accuracy({b}, {a}).all.max_ulp.value, all.max_ulp.value);  // from both sides
  return all.max_ulp.value;
}
double ulps(float a, float b) {
  return ulps(floats({a}), floats({b}));
}

TEST(Accuracy, UlpsOfFloats) {
  EXPECT_EQ(ulps(1.0f, 1.0f), 0);
  EXPECT_EQ(ulps(1.0f, 1.0f + 0x1p-23f), 1);
  EXPECT_EQ(ulps(1.0f, 1.0f - 0x1p-24f), 1);        // the spacing halves below a power of two
  EXPECT_EQ(ulps(1.0f, 2.0f), 1 << 23);             // as many numbers as a binade has
  EXPECT_EQ(ulps(-3.0f, -3.0f - 5 * 0x1p-22f), 5);  // spacing 2^-22 between 2 and 4
  EXPECT_EQ(ulps(0x1p127f, std::nextafter(0x1p127f, kInf)), 1);
}

TEST(Accuracy, UlpsOfDenormalsAndAcrossZero) {
  const float tiny = from_bits(1), normal = 0x1p-126f;
  EXPECT_EQ(ulps(0.0f, tiny), 1);
  EXPECT_EQ(ulps(-0.0f, tiny), 1);
  EXPECT_EQ(ulps(-tiny, tiny), 2);
  EXPECT_EQ(ulps(from_bits(0x0080000aU), normal), 10);
  EXPECT_EQ(ulps(from_bits(0x007fffffU), normal), 1);  // the largest denormal and the first normal
  EXPECT_EQ(ulps(-normal, normal), 0x1p24);
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(ulps(-largest, largest), 2.0 * 0x7f7fffff);
}

TEST(Accuracy, UlpsOfDoublesHalvesAndBfloats) {
  EXPECT_EQ(ulps(doubles({1.0}), doubles({1.0 + 3 * 0x1p-52})), 3);
  EXPECT_EQ(ulps(doubles({-0x1p-1074}), doubles({0x1p-1074})), 2);
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(ulps(doubles({-largest}), doubles({largest})), 2.0 * 0x7fefffffffffffffLL);
  EXPECT_EQ(ulps(short_float(at::kHalf, 0x3c00), short_float(at::kHalf, 0x3c07)), 7);
  EXPECT_EQ(ulps(short_float(at::kHalf, 0x8001), short_float(at::kHalf, 0x0002)), 3);
  EXPECT_EQ(ulps(short_float(at::kBFloat16, 0x3f80), short_float(at::kBFloat16, 0x3f7e)), 2);
  // 1.0 and 1.0078125, bfloat16's next number
  const TensorAccuracy a =
      accuracy({at::full({1}, 1.0078125).to(at::kBFloat16)}, {at::ones({1}, at::kBFloat16)}).all;
  EXPECT_EQ(a.max_ulp.value, 1);
  EXPECT_EQ(a.max_abs.value, 0.0078125);
  EXPECT_EQ(a.epsilon, 0.0078125);
}

TEST(Accuracy, BucketsHoldTheirDistances) {
  const std::vector<std::pair<uint64_t, std::string>> expected{{0, "0"},
                                                               {1, "1"},
                                                               {2, "2"},
                                                               {3, "3-4"},
                                                               {4, "3-4"},
                                                               {5, "5-8"},
                                                               {8, "5-8"},
                                                               {9, "9-16"},
                                                               {1024, "513-1024"},
                                                               {1025, "1025-2048"},
                                                               {1 << 16, "32769-65536"},
                                                               {(1 << 16) + 1, ">65536-2^17"},
                                                               {1ULL << 32, ">2^31-2^32"},
                                                               {(1ULL << 32) + 1, ">2^32"},
                                                               {~0ULL, ">2^32"}};
  for (const auto& [distance, label] : expected)
    EXPECT_EQ(UlpHistogram::label(UlpHistogram::bucket(distance)), label) << distance;
}

TEST(Accuracy, SpecialValuesAreCountedApart) {
  const Accuracy a = accuracy({floats({0.0f, NAN, NAN, 1, kInf, kInf, -kInf, 3})},
                              {floats({-0.0f, -NAN, 1, NAN, kInf, 1, kInf, 3})});
  EXPECT_EQ(a.all.ulps.signed_zeros, 1);
  EXPECT_EQ(a.all.ulps.nan_mismatches, 2);
  EXPECT_EQ(a.all.ulps.inf_mismatches, 2);
  EXPECT_EQ(a.all.ulps.counts[0], 3);  // two NaNs, two infinities, 3
  EXPECT_EQ(a.all.different, 5);
  EXPECT_EQ(a.all.max_abs.value, 0);
  EXPECT_EQ(a.all.max_abs.tensor, -1);
  EXPECT_EQ(a.all.mismatch.index, (std::vector<int64_t>{2}));
  EXPECT_TRUE(std::isnan(a.all.mismatch.candidate));
  EXPECT_TRUE(accuracy({floats({NAN, kInf})}, {floats({-NAN, kInf})}).bitwise());
  EXPECT_FALSE(accuracy({floats({0.0f})}, {floats({-0.0f})}).bitwise());
}

TEST(Accuracy, DifferencesAndWhereTheyAreLargest) {
  const at::Tensor r = floats({1, 2, 4, 0, 8, 100}).view({2, 3});
  const at::Tensor c = floats({1, 3, 4, 0.5, 8, 102}).view({2, 3});
  const Accuracy a = accuracy({floats({7}), c}, {floats({7}), r});
  EXPECT_EQ(a.all.different, 3);
  EXPECT_EQ(a.all.max_abs.value, 2);
  EXPECT_EQ(a.all.max_abs.tensor, 1);
  EXPECT_EQ(a.all.max_abs.index, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(a.all.max_abs.candidate, 102);
  EXPECT_EQ(a.all.max_abs.reference, 100);
  EXPECT_EQ(a.all.max_rel.value, 0.5);  // that against 0 has none
  EXPECT_EQ(a.all.max_rel.index, (std::vector<int64_t>{0, 1}));
  EXPECT_DOUBLE_EQ(a.tensors[1].mean_abs, 3.5 / 6);
  EXPECT_DOUBLE_EQ(a.tensors[1].mean_rel, 0.52 / 5);
  EXPECT_DOUBLE_EQ(a.all.mean_abs, 3.5 / 7);
  EXPECT_TRUE(a.tensors[0].bitwise());
  EXPECT_EQ(a.all.max_abs.text(), "[1, 2]: 102 against 100");
}

TEST(Accuracy, StridesDoNotMatter) {
  const at::Tensor r = at::arange(12, at::kFloat).view({3, 4});
  at::Tensor c = r.clone();
  c[2][1] += 1;
  const Accuracy a = accuracy({c.t()}, {r.t().contiguous()});
  EXPECT_EQ(a.all.different, 1);
  EXPECT_EQ(a.all.max_abs.index, (std::vector<int64_t>{1, 2}));
}

TEST(Accuracy, IntegersAndComplexNumbers) {
  const int64_t large = (int64_t{1} << 62) + 1;  // no double is this
  const Accuracy a = accuracy({at::tensor({large, int64_t{5}, int64_t{-7}})},
                              {at::tensor({large - 1, int64_t{5}, int64_t{7}})});
  EXPECT_EQ(a.all.different, 2);
  EXPECT_EQ(a.all.max_abs.value, 14);
  EXPECT_EQ(a.all.ulps.counts[0], 0);
  EXPECT_FALSE(a.all.floating);
  for (at::ScalarType type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt})
    EXPECT_EQ(
        accuracy({at::tensor({1, 0, 1}).to(type)}, {at::tensor({1, 1, 1}).to(type)}).all.different,
        1);
  at::Tensor z = at::complex(floats({1, 2}), floats({3, 4}));
  EXPECT_TRUE(accuracy({z.conj()}, {at::complex(floats({1, 2}), floats({-3, -4}))}).bitwise());
  const Accuracy b = accuracy({z}, {at::complex(floats({1, 2}), floats({3, 4.5}))});
  EXPECT_EQ(b.all.different, 1);
  EXPECT_EQ(b.all.elements, 4);
  EXPECT_EQ(b.all.max_abs.index, (std::vector<int64_t>{1, 1}));
}

TEST(Accuracy, ErrorsAgainstFp64) {
  const at::Tensor exact = doubles({1, 2, -8, 4});
  const at::Tensor c = floats({1, 2.5, -8, 4}), r = floats({1, 2, -7, 4.5});
  const Accuracy a = accuracy({c}, {r}, std::vector<at::Tensor>{exact});
  ASSERT_TRUE(a.all.fp64);
  EXPECT_DOUBLE_EQ(a.all.fp64->candidate.max, 0.5 / 8);
  EXPECT_DOUBLE_EQ(a.all.fp64->candidate.mean, 0.5 / 4 / 8);
  EXPECT_DOUBLE_EQ(a.all.fp64->reference.max, 1.0 / 8);
  EXPECT_DOUBLE_EQ(a.all.fp64->reference.mean, 1.5 / 4 / 8);
  EXPECT_EQ(a.all.fp64->candidate_nearer, 2);
  EXPECT_EQ(a.all.fp64->reference_nearer, 1);
  EXPECT_EQ(a.all.fp64->nearer(), Nearer::Candidate);
  EXPECT_EQ(accuracy({r}, {c}, std::vector<at::Tensor>{exact}).all.fp64->nearer(),
            Nearer::Reference);
  EXPECT_EQ(accuracy({c}, {c}, std::vector<at::Tensor>{exact}).all.fp64->nearer(), Nearer::Same);
}

TEST(Accuracy, AsGood) {
  const auto as_good = [](float candidate, float reference, double exact) {
    return accuracy({floats({candidate, 1})}, {floats({reference, 1})},
                    std::vector<at::Tensor>{doubles({exact, 1})})
        .as_good();
  };
  EXPECT_TRUE(as_good(0.52f, 0.51f, 0.5));  // twice the error, less rounding
  EXPECT_FALSE(as_good(0.53f, 0.51f, 0.5));
  EXPECT_TRUE(as_good(0.5f + 4 * 0x1p-24f, 0.5f, 0.5));  // within four epsilons of an exact one
  EXPECT_FALSE(as_good(0.5f + 9 * 0x1p-24f, 0.5f, 0.5));
  EXPECT_FALSE(as_good(kInf, 0.5f, 0.5));
  EXPECT_FALSE(as_good(NAN, 0.5f, 0.5));
  EXPECT_TRUE(as_good(0.5f, kInf, 0.5));
  EXPECT_FALSE(accuracy({floats({1})}, {floats({2})}).as_good());  // nothing to judge by
  EXPECT_TRUE(accuracy({floats({1})}, {floats({1})}).as_good());
}

TEST(Accuracy, FormsMustMatch) {
  EXPECT_EQ(accuracy({floats({1})}, {}).problem, "1 tensors against 0");
  EXPECT_EQ(accuracy({floats({1})}, {floats({1, 2})}).problem,
            "tensor 0: Float [1] against Float [2]");
  EXPECT_EQ(accuracy({floats({1})}, {doubles({1})}).problem,
            "tensor 0: Float [1] against Double [1]");
  EXPECT_EQ(accuracy({at::Tensor()}, {floats({1})}).problem,
            "tensor 0: an undefined tensor against Float [1]");
  EXPECT_FALSE(accuracy({floats({1})}, {}).bitwise());
  EXPECT_TRUE(
      accuracy({at::Tensor(), at::empty({0, 3})}, {at::Tensor(), at::empty({0, 3})}).bitwise());
  EXPECT_THROW(accuracy({floats({1})}, {floats({1})}, std::vector<at::Tensor>{doubles({1, 2})}),
               std::invalid_argument);
  EXPECT_THROW(accuracy({floats({1}).to_sparse()}, {floats({1}).to_sparse()}),
               std::invalid_argument);
}

/// Sums of many chunks, and peaks in the last of them, whatever the number of threads.
TEST(Accuracy, ManyChunks) {
  const int64_t count = (1 << 20) + 7;
  const at::Tensor r = at::ones({count});
  at::Tensor c = r.clone();
  c.slice(0, 0, count, 1024) += 0.5;
  c[count - 1] = 3;
  const int threads = at::get_num_threads();
  std::vector<nlohmann::json> results;
  for (int n : {1, 2, 5}) {
    at::set_num_threads(n);
    results.push_back(to_json(accuracy({c}, {r}, std::vector<at::Tensor>{r.to(at::kDouble)})));
  }
  at::set_num_threads(threads);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[0]["all"]["different"], 1026);
  EXPECT_EQ(results[0]["all"]["max_abs"]["index"][0], count - 1);
  EXPECT_DOUBLE_EQ(results[0]["all"]["mean_abs"].get<double>(),
                   (1025 * 0.5 + 2) / static_cast<double>(count));
}

TEST(Accuracy, HistogramAsText) {
  UlpHistogram ulps;
  ulps.counts[1] = 600;
  ulps.counts[3] = 400;
  ulps.nan_mismatches = 1;
  EXPECT_EQ(ulps.text(10),
            "           1              600    59.94 %  █████▉\n"
            "           2                0     0.00 %\n"
            "         3-4              400    39.96 %  ███▉\n"
            "         NaN                1     0.10 %  ▏\n");
  ulps.counts[0] = 100'000'000;
  EXPECT_NE(ulps.text().find("100,000,000   >99.99 %"), std::string::npos) << ulps.text();
}

TEST(Accuracy, TextTableAndJson) {
  const Accuracy a = accuracy({floats({1, 2.5, NAN})}, {floats({1, 2, 1})},
                              std::vector<at::Tensor>{doubles({1, 2.25, 1})});
  EXPECT_EQ(a.text(),
            "max 2,097,152 ulp, 5.0e-01 absolute, 1 NaN or infinity mismatch; error 1.0x the "
            "reference's");
  std::ostringstream out;
  print(out, a);
  for (const char* part :
       {"0 [3]", "Float", "5.0e-01", "largest absolute difference at tensor 0 [1]",
        "first NaN or infinity mismatch at tensor 0 [2]", "NaN"})
    EXPECT_NE(out.str().find(part), std::string::npos) << part << '\n' << out.str();
  const nlohmann::json json = to_json(a);
  EXPECT_EQ(json["all"]["ulps"]["buckets"][0]["ulp"], "0");
  EXPECT_EQ(json["all"]["ulps"]["nan_mismatches"], 1);
  EXPECT_EQ(json["tensors"][0]["max_abs"]["candidate"], 2.5);
  EXPECT_EQ(json["tensors"][0]["first_mismatch"]["candidate"], "nan");
  EXPECT_EQ(json["all"]["fp64"]["candidate"]["non_finite"], 1);
  EXPECT_EQ(accuracy({floats({1})}, {floats({1})}).text(), "bitwise");
  EXPECT_EQ(to_json(accuracy({floats({1})}, {})).at("problem"), "1 tensors against 0");
}

}  // namespace
}  // namespace graft::lab
