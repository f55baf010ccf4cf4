// An accuracy in words, as a table with a histogram, and as JSON.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "lab/accuracy/accuracy.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

std::string with_separators(int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string scientific(double value, int digits = 1) {
  if (value == 0) return "0";
  char text[40];
  std::snprintf(text, sizeof text, "%.*e", digits, value);
  return text;
}

std::string list_text(const std::vector<int64_t>& list) {
  std::string text = "[";
  for (int64_t x : list) text += (text.size() == 1 ? "" : ", ") + std::to_string(x);
  return text + ']';
}

/// A bar in eighths of a cell; what is not zero shows at least one.
std::string bar(double share, int width) {
  static const char* const kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = std::max(share > 0 ? 1 : 0, static_cast<int>(share * width * 8));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

nlohmann::json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";  // JSON has no such numbers
}

nlohmann::json to_json(const Extreme& extreme) {
  if (extreme.tensor < 0) return nullptr;
  return {{"value", json_number(extreme.value)},
          {"tensor", extreme.tensor},
          {"index", extreme.index},
          {"candidate", json_number(extreme.candidate)},
          {"reference", json_number(extreme.reference)}};
}

nlohmann::json to_json(const Fp64Error& error) {
  return {{"max", error.max}, {"mean", error.mean}, {"non_finite", error.non_finite}};
}

nlohmann::json to_json(const UlpHistogram& ulps) {
  nlohmann::json buckets = nlohmann::json::array();
  for (int i = 0; i < UlpHistogram::kBuckets; ++i) {
    const int64_t count = ulps.counts[static_cast<size_t>(i)];
    if (count > 0) buckets.push_back({{"ulp", UlpHistogram::label(i)}, {"count", count}});
  }
  return {{"buckets", buckets},
          {"signed_zeros", ulps.signed_zeros},
          {"nan_mismatches", ulps.nan_mismatches},
          {"inf_mismatches", ulps.inf_mismatches}};
}

/// Each side's error, and which is nearer.
std::string fp64_text(const Fp64Comparison& fp64) {
  std::string text = scientific(fp64.candidate.max) + " / " + scientific(fp64.reference.max);
  if (fp64.candidate.non_finite + fp64.reference.non_finite > 0) {
    text += ", non-finite " + with_separators(fp64.candidate.non_finite) + " / " +
            with_separators(fp64.reference.non_finite);
  }
  return text;
}

std::vector<Cell> row_of(const std::string& name, const TensorAccuracy& t) {
  std::vector<Cell> row{name, t.dtype, with_separators(t.elements)};
  row.push_back(t.bitwise() ? Cell("bitwise", Style::Good) : with_separators(t.different));
  row.emplace_back(!t.floating || t.bitwise() ? "-" : ulp_text(t.max_ulp.value));
  row.emplace_back(scientific(t.max_abs.value) + " / " + scientific(t.mean_abs));
  row.emplace_back(scientific(t.max_rel.value) + " / " + scientific(t.mean_rel));
  row.emplace_back(t.fp64 ? fp64_text(*t.fp64) : "-");
  row.emplace_back(t.fp64 ? to_string(t.fp64->nearer()) : "-");
  return row;
}

}  // namespace

int UlpHistogram::bucket(uint64_t distance) {
  if (distance <= 2) return static_cast<int>(distance);
  return std::min(static_cast<int>(std::bit_width(distance - 1)) + 1, kBuckets - 1);
}

std::string UlpHistogram::label(int bucket) {
  if (bucket <= 2) return std::to_string(bucket);
  const auto power = [](int exponent) {
    return exponent <= 16 ? std::to_string(int64_t{1} << exponent)
                          : "2^" + std::to_string(exponent);
  };
  if (bucket == kBuckets - 1) return ">" + power(bucket - 2);
  if (bucket - 2 >= 16) return ">" + power(bucket - 2) + "-" + power(bucket - 1);
  return std::to_string((int64_t{1} << (bucket - 2)) + 1) + "-" + power(bucket - 1);
}

void UlpHistogram::add(const UlpHistogram& other) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  signed_zeros += other.signed_zeros;
  nan_mismatches += other.nan_mismatches;
  inf_mismatches += other.inf_mismatches;
}

std::string UlpHistogram::text(int bar_width) const {
  struct Line {
    std::string label;
    int64_t count;
  };
  const auto filled = [](int64_t count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), filled) - counts.begin();
  const auto last = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), filled);
  std::vector<Line> lines;
  for (auto i = first; i < last; ++i)
    lines.push_back({label(static_cast<int>(i)), counts[static_cast<size_t>(i)]});
  for (const Line& special :
       {Line{"-0/+0", signed_zeros}, {"NaN", nan_mismatches}, {"inf", inf_mismatches}}) {
    if (special.count > 0) lines.push_back(special);
  }
  int64_t total = 0;
  for (const Line& line : lines) total += line.count;
  std::string text;
  for (const Line& line : lines) {
    const double share = static_cast<double>(line.count) / static_cast<double>(total);
    char columns[80];
    std::snprintf(columns, sizeof columns, "%12s  %15s  %9s  ", line.label.c_str(),
                  with_separators(line.count).c_str(), percent_text(share, 2).c_str());
    std::string whole = columns + bar(share, bar_width);
    whole.erase(whole.find_last_not_of(' ') + 1);
    text += whole + '\n';
  }
  return text;
}

std::string Extreme::text() const {
  if (tensor < 0) return "";
  // Nine digits tell floats apart, seventeen doubles.
  const int digits = static_cast<float>(candidate) == static_cast<float>(reference) ? 17 : 9;
  char values[80];
  std::snprintf(values, sizeof values, ": %.*g against %.*g", digits, candidate, digits, reference);
  return list_text(index) + values;
}

const char* to_string(Nearer nearer) {
  return nearer == Nearer::Same ? "same" : nearer == Nearer::Candidate ? "candidate" : "reference";
}

Nearer Fp64Comparison::nearer() const {
  const auto closer = [](auto c, auto r) {
    return c < r ? Nearer::Candidate : r < c ? Nearer::Reference : Nearer::Same;
  };
  const Nearer finite = closer(candidate.non_finite, reference.non_finite);
  return finite != Nearer::Same ? finite : closer(candidate.mean, reference.mean);
}

bool TensorAccuracy::as_good(double factor, double ulp) const {
  if (bitwise()) return true;
  if (!fp64 || fp64->candidate.non_finite > fp64->reference.non_finite) return false;
  const double ours = fp64->candidate.max, theirs = fp64->reference.max;
  return ours <= factor * theirs || ours <= theirs + ulp * epsilon;
}

bool Accuracy::as_good(double factor, double ulps) const {
  return problem.empty() && std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
           return tensor.as_good(factor, ulps);
         });
}

std::string Accuracy::text() const {
  if (!problem.empty()) return "different form: " + problem;
  if (bitwise()) return "bitwise";
  std::string text;
  if (all.floating) text = "max " + ulp_text(all.max_ulp.value) + " ulp, ";
  text += scientific(all.max_abs.value) + " absolute";
  const int64_t special = all.ulps.nan_mismatches + all.ulps.inf_mismatches;
  if (special > 0)
    text += ", " + with_separators(special) +
            (special == 1 ? " NaN or infinity mismatch" : " NaN or infinity mismatches");
  if (all.fp64 && all.fp64->reference.max > 0)
    text += "; error " + number(all.fp64->candidate.max / all.fp64->reference.max, 2) +
            "x the reference's";
  return text;
}

std::string ulp_text(double ulps) {
  return ulps < 1e7 ? with_separators(static_cast<int64_t>(ulps)) : scientific(ulps);
}

std::string form_text(const at::Tensor& t) {
  if (!t.defined()) return "an undefined tensor";
  return std::string(at::toString(t.scalar_type())) + ' ' + list_text(t.sizes().vec());
}

nlohmann::json to_json(const TensorAccuracy& accuracy) {
  nlohmann::json json = {{"dtype", accuracy.dtype},
                         {"sizes", accuracy.sizes},
                         {"elements", accuracy.elements},
                         {"different", accuracy.different},
                         {"bitwise", accuracy.bitwise()},
                         {"max_abs", to_json(accuracy.max_abs)},
                         {"max_rel", to_json(accuracy.max_rel)},
                         {"mean_abs", accuracy.mean_abs},
                         {"mean_rel", accuracy.mean_rel}};
  if (accuracy.floating) {
    json["ulps"] = to_json(accuracy.ulps);
    json["max_ulp"] = to_json(accuracy.max_ulp);
    json["first_mismatch"] = to_json(accuracy.mismatch);
  }
  if (!accuracy.fp64) return json;
  json["fp64"] = {{"candidate", to_json(accuracy.fp64->candidate)},
                  {"reference", to_json(accuracy.fp64->reference)},
                  {"candidate_nearer", accuracy.fp64->candidate_nearer},
                  {"reference_nearer", accuracy.fp64->reference_nearer},
                  {"nearer", to_string(accuracy.fp64->nearer())}};
  return json;
}

nlohmann::json to_json(const Accuracy& accuracy) {
  if (!accuracy.problem.empty()) return {{"problem", accuracy.problem}, {"bitwise", false}};
  nlohmann::json json = {{"all", to_json(accuracy.all)},
                         {"bitwise", accuracy.bitwise()},
                         {"tensors", nlohmann::json::array()}};
  json["all"].erase("sizes");
  for (const TensorAccuracy& tensor : accuracy.tensors) json["tensors"].push_back(to_json(tensor));
  return json;
}

void print(std::ostream& out, const Accuracy& accuracy, bool colour) {
  if (!accuracy.problem.empty()) {
    out << "different form: " << accuracy.problem << '\n';
    return;
  }
  Table table({{"tensor"},
               {"dtype"},
               {"elements", Align::Right},
               {"different", Align::Right},
               {"max ulp", Align::Right},
               {"absolute, max / mean", Align::Right},
               {"relative, max / mean", Align::Right},
               {"error against fp64", Align::Right},
               {"nearer"}});
  for (size_t i = 0; i < accuracy.tensors.size(); ++i)
    table.row(row_of(std::to_string(i) + ' ' + list_text(accuracy.tensors[i].sizes),
                     accuracy.tensors[i]));
  if (accuracy.tensors.size() > 1) {
    table.rule();
    table.row(row_of("all", accuracy.all));
  }
  table.print(out, colour);
  const auto where = [&](const char* what, const Extreme& extreme) {
    if (extreme.tensor >= 0)
      out << what << " at tensor " << extreme.tensor << ' ' << extreme.text() << '\n';
  };
  where("largest absolute difference", accuracy.all.max_abs);
  where("largest relative difference", accuracy.all.max_rel);
  where("largest distance", accuracy.all.max_ulp);
  where("first NaN or infinity mismatch", accuracy.all.mismatch);
  if (accuracy.all.floating)
    out << styled("         ulp         elements      share", Style::Dim, colour) << '\n'
        << accuracy.all.ulps.text();
}

}  // namespace graft::lab
