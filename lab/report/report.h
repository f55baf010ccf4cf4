// What the reports say of a run: each row with its statistics beside its reference, and the words
// for them. The page (html.h) and the text (markdown.h) both show this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/run.h"
#include "lab/stats.h"
#include "lab/verdict.h"

namespace graft::lab {

struct NamedRun {
  std::string name;
  Run run;
};

struct RowFacts {
  const Row* row = nullptr;
  Summary summary;  ///< of the samples; NaN where there are none
  bool is_reference = false;
  /// Against the reference; none for itself, and where one of the two has no samples.
  std::optional<Judgement> against;
  /// Calls until compiling has paid for itself; infinite if it never does, none where that cannot
  /// be said.
  std::optional<double> pays_after;
  /// Its error against fp64 over the reference's; none where one is not known or not above 0.
  std::optional<double> error_share;

  bool timed() const { return summary.count > 0; }
};

struct CaseFacts {
  std::string name;
  std::vector<RowFacts> rows;
  /// Null if it has no samples.
  const RowFacts* reference() const;
};

/// Points into `run`, which must outlive it.
std::vector<CaseFacts> facts_of(const Run& run);

/// One workload's medians along an axis of numbers, all other axes being equal.
struct Sweep {
  std::string title;  ///< the workload, and what the other axes are where there are others
  std::string axis;
  struct Line {
    std::string variant;
    std::vector<std::pair<double, const RowFacts*>> points;  ///< by growing value
  };
  std::vector<Line> lines;
};
/// For each workload with rows at two positive values or more of an axis. Where several axes vary,
/// the one with the most values.
std::vector<Sweep> sweeps(const std::vector<CaseFacts>& cases);

/// How one variant did over all cases.
struct VariantScore {
  std::string variant;
  int faster = 0, slower = 0, same = 0, ambiguous = 0;
  int without_time = 0;        ///< failed, crashed, timed out or skipped
  double mean_ratio = 0;       ///< geometric, over the cases that were compared; NaN if none
  std::string reference = "";  ///< empty where the cases have several
  int compared() const { return faster + slower + same + ambiguous; }
};
/// In order of appearance; variants that are only ever the reference are left out unless a row of
/// theirs has no time.
std::vector<VariantScore> scores(const std::vector<CaseFacts>& cases);

// --- Words ---

/// "773 ns", "1.77 ms", "12.4 s".
std::string time_text(double ms);
/// For an axis: "20 ms", without trailing zeros.
std::string time_tick(double ms);
/// "1.50 G", "12.0 ": for a unit to follow. And for an axis: "1.5 G", "12".
std::string si_text(double value);
std::string si_tick(double value);
/// In the median's unit: "1.75 … 1.80".
std::string interval_text(const Summary& summary);
/// "8.28x".
std::string ratio_text(double ratio);
/// "[7.11, 9.08]".
std::string range_text(const Ratio& ratio);
/// "reference", "faster", "failed", …; empty where nothing can be said.
std::string verdict_text(const RowFacts& row);
/// The class of the gain; empty for the reference and where the verdict is ambiguous.
std::string class_text(const RowFacts& row);
/// "12 calls", "1 call", "never"; empty where unknown.
std::string pays_text(const RowFacts& row);
/// Against the reference: "bitwise", "max 7.8e-03, 1.0x error"; empty where not compared. The error
/// is against fp64, in multiples of the reference's own.
std::string output_text(const RowFacts& row);
/// What a reader should know beyond the numbers.
struct Note {
  std::string about;  ///< a row, or what several rows have in common
  std::string text;
};
/// Of rows without a time and of what the compiler found not faster, each; then all rows that are
/// ambiguous, and all whose steady state was not seen.
std::vector<Note> notes_of(const std::vector<CaseFacts>& cases);
/// The machine and build in a line, of what the context holds.
std::string context_text(const nlohmann::json& context);
/// "11 cases", "1 case".
std::string count_text(size_t count, const std::string& noun);

}  // namespace graft::lab
