// What reports say about a run: each row with its statistics and its comparison with the reference,
// and the words for these. Shown by both the page (html.h) and the text (markdown.h).
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
  Summary summary;                 ///< of the samples; NaN if there are none
  const Row* reference = nullptr;  ///< what it is compared with (Run::reference)
  /// The comparison with the reference; empty for the reference itself, and where either has no
  /// samples.
  std::optional<Judgement> against;
  /// Calls until compiling has paid for itself; infinity if it never does, empty if not known.
  std::optional<double> pays_after;
  /// Its error against fp64 divided by the reference's; empty where either is not known or 0.
  std::optional<double> error_share;

  bool timed() const { return summary.count > 0; }
  bool is_reference() const { return reference == row; }
};

struct CaseFacts {
  std::string name;
  std::vector<RowFacts> rows;
  /// Of what was not measured alone. Null if it has no samples.
  const RowFacts* reference() const;
};

/// Points into `run`, which must outlive it.
std::vector<CaseFacts> facts_of(const Run& run);

/// One workload's medians along an axis of numbers, all other axes being equal.
struct Sweep {
  std::string title;  ///< the workload, and the values of its other axes if it has some
  std::string axis;
  struct Line {
    std::string variant;
    std::vector<std::pair<double, const RowFacts*>> points;  ///< by ascending value
  };
  std::vector<Line> lines;
};
/// One for each workload that has rows at two or more positive values of an axis; where several
/// axes vary, the one with the most values.
std::vector<Sweep> sweeps(const std::vector<CaseFacts>& cases);

/// How one variant did over all cases.
struct VariantScore {
  std::string variant;
  int faster = 0, slower = 0, same = 0, ambiguous = 0;
  int without_time = 0;        ///< failed, crashed, timed out or skipped
  double mean_ratio = 0;       ///< geometric mean over the compared cases; NaN if none
  std::string reference = "";  ///< empty if cases have different references
  int compared() const { return faster + slower + same + ambiguous; }
};
/// In order of appearance. Variants that are the reference everywhere are left out unless one of
/// their rows has no time.
std::vector<VariantScore> scores(const std::vector<CaseFacts>& cases);

// --- Words ---

/// "773 ns", "1.77 ms", "12.4 s".
std::string time_text(double ms);
/// For ticks of an axis: "20 ms", without trailing zeros.
std::string time_tick(double ms);
/// "1.50 G", "12.0 ", to be followed by a unit; for ticks of an axis "1.5 G", "12".
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
/// lab::gain_class of the ratio; empty for the reference and where the verdict is ambiguous.
std::string class_text(const RowFacts& row);
/// "12 calls", "1 call", "never"; empty where unknown.
std::string pays_text(const RowFacts& row);
/// The outputs against the reference's: "bitwise", "max 7.8e-03, 1.0x error"; empty if not
/// compared. The error is that against fp64, as a multiple of the reference's.
std::string output_text(const RowFacts& row);
/// What a reader should know beyond the numbers.
struct Note {
  std::string about;  ///< a row, or what several rows have in common
  std::string text;
};
/// One note for each row that has no time or that the compiler found not faster; then one for all
/// ambiguous rows, and one for all rows whose steady state was not seen.
std::vector<Note> notes_of(const std::vector<CaseFacts>& cases);
/// One line about the machine and the build, from the context.
std::string context_text(const nlohmann::json& context);

}  // namespace graft::lab
