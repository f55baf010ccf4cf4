// The page's charts: each is the HTML of one section, empty if the run has no data for it.
#pragma once

#include <string>
#include <vector>

#include "lab/gate.h"
#include "lab/report/report.h"

namespace graft::lab::charts {

/// One colour and shape per variant on the whole page: the first for references, the second for
/// graft.
class Palette {
 public:
  /// For the variants of all runs on the page.
  explicit Palette(const std::vector<std::vector<CaseFacts>>& runs);
  /// The variant's colour number, as svg.h takes it.
  int colour(const std::string& variant) const;
  /// A legend of the variants in `cases`.
  std::string legend(const std::vector<CaseFacts>& cases) const;

 private:
  std::vector<std::string> variants_;  ///< a variant's index is its colour
};

/// The samples of each case as strips, with quartiles and median. Every outlier is drawn, and an
/// even selection of the other samples.
std::string distributions(const std::vector<CaseFacts>& cases, const Palette& palette);
/// Ratios to the reference with their intervals, on a log axis.
std::string speed_up(const std::vector<CaseFacts>& cases, const Palette& palette);
/// Ratios before / after with their intervals, for rows that both runs have.
std::string before_after(const std::vector<GateRow>& rows, const Palette& palette);
/// Peak memory of the allocator and of the process, where measured.
std::string memory(const std::vector<CaseFacts>& cases, const Palette& palette);
/// Medians along a swept axis.
std::string scaling(const std::vector<CaseFacts>& cases, const Palette& palette);
/// Total time after n calls, compile time included, for the reference and the compiled variant.
std::string break_even(const std::vector<CaseFacts>& cases, const Palette& palette);
/// Rows below the machine's measured limits, which `context` holds.
std::string roofline(const std::vector<CaseFacts>& cases, const nlohmann::json& context,
                     const Palette& palette);

}  // namespace graft::lab::charts
