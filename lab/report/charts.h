// The page's charts: each a piece of HTML for one section, empty where the run has nothing for it.
#pragma once

#include <string>
#include <vector>

#include "lab/gate.h"
#include "lab/report/report.h"

namespace graft::lab::charts {

/// One colour and shape a variant on the whole page: the first for references, the second for
/// graft.
class Palette {
 public:
  /// Of all runs on the page.
  explicit Palette(const std::vector<std::vector<CaseFacts>>& runs);
  /// For svg.h.
  int colour(const std::string& variant) const;
  /// Of those variants that `cases` holds.
  std::string legend(const std::vector<CaseFacts>& cases) const;

 private:
  std::vector<std::string> variants_;  ///< their places are their colours
};

/// Samples of each case as strips, with quartiles and median. Every outlier is drawn; of the others
/// an even selection.
std::string distributions(const std::vector<CaseFacts>& cases, const Palette& palette);
/// Ratio to the reference with its interval, on a log axis.
std::string speed_up(const std::vector<CaseFacts>& cases, const Palette& palette);
/// Before / after of what both runs have, likewise.
std::string before_after(const std::vector<GateRow>& rows, const Palette& palette);
/// Peaks of the allocator and of the process, where measured.
std::string memory(const std::vector<CaseFacts>& cases, const Palette& palette);
/// Medians along a swept axis.
std::string scaling(const std::vector<CaseFacts>& cases, const Palette& palette);
/// Time spent after n calls, compiling included, of the reference and of what was compiled.
std::string break_even(const std::vector<CaseFacts>& cases, const Palette& palette);
/// Where rows lie below the machine's measured limits; `context` holds those.
std::string roofline(const std::vector<CaseFacts>& cases, const nlohmann::json& context,
                     const Palette& palette);

}  // namespace graft::lab::charts
