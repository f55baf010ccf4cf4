// Cells and tables that experiments share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/report/section.h"
#include "lab/run.h"
#include "lab/table.h"

namespace graft::experiments {

/// Right-aligned columns with these headers, behind the left-aligned `first`.
std::vector<lab::Column> columns(const std::vector<std::string>& first,
                                 const std::vector<std::string>& numbers);

/// Is the row there for a peer's sake: eager or graft with nothing between their calls, as the peer
/// is measured? Tables set the peer against it.
bool is_for_peer(const lab::Row& row);

lab::Cell ms_cell(const lab::Row* row);
/// A ratio with its interval, coloured where the interval says faster or slower.
lab::Cell ratio_cell(const lab::Ratio& ratio);
/// That of the rows' medians.
lab::Cell ratio_cell(const lab::Row* reference, const lab::Row* row);
/// The ratio alone.
lab::Cell times_cell(double ratio);
/// Peak memory of a call.
lab::Cell peak_cell(const lab::Row* row);
/// "bitwise", or the largest difference.
lab::Cell output_cell(const lab::Row& row);
/// Median of the samples; empty where there are none.
std::optional<double> median_ms(const lab::Row* row);
/// Calls until compiling has paid for itself, from its cost and what a call saves.
std::string pays_text(double compile_ms, double eager_ms, double compiled_ms);

/// All rows of cases of one workload, as a table: case, variant, ms, ratio, compiling, output,
/// memory and what the compiler says.
lab::Section variants_section(const lab::Run& run, const std::string& workload, std::string id,
                              std::string title, std::string says);

}  // namespace graft::experiments
