// Numbers as words, for tables, summaries and messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft::lab {

struct Ratio;

/// Three significant digits, never in exponent form: "0.00812", "5.72", "1234"; "-" for NaN.
std::string number(double value, int digits = 3);
/// "1.5 GiB", "64 KiB".
std::string bytes_text(double bytes);
/// "8 s", "2 min 5 s", "1 h 3 min".
std::string duration_text(double seconds);
/// "12.3 %" of 0.123. Only all of it reads "100.0 %", and only nothing "0.0 %": what is close by
/// reads ">99.9 %" and "<0.1 %".
std::string percent_text(double share, int decimals = 1);
/// The words with `between` between them.
std::string joined(const std::vector<std::string>& words, std::string_view between);
/// "1.61x [1.59, 1.66]".
std::string ratio_text(const Ratio& ratio);
/// "11 cases", "1 case".
std::string count_text(int64_t count, const std::string& noun);

}  // namespace graft::lab
