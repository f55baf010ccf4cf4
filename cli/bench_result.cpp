#include "cli/bench_result.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/usage.h"
#include "lab/compare.h"
#include "lab/stats.h"
#include "lab/table.h"

namespace graft::cli {
namespace {

using lab::Cell;
using lab::Style;

template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

double median_of(const WorkloadResult& result, const std::string& variant) {
  const VariantResult* found = result.find(variant);
  return found == nullptr ? std::nan("") : lab::median(found->samples_ms);
}

std::optional<lab::Ratio> speedup(const WorkloadResult& result, const std::string& slow,
                                  const std::string& fast) {
  const VariantResult *a = result.find(slow), *b = result.find(fast);
  if (a == nullptr || b == nullptr || a->samples_ms.empty() || b->samples_ms.empty())
    return std::nullopt;
  return lab::bootstrap_ratio(a->samples_ms, b->samples_ms);
}

Cell speedup_cell(const std::optional<lab::Ratio>& ratio) {
  if (!ratio) return "-";
  const std::string text = lab::number(ratio->ratio) + "x [" + lab::number(ratio->lo) + ", " +
                           lab::number(ratio->hi) + "]";
  return {text, ratio->lo > 1 ? Style::Good : ratio->hi < 1 ? Style::Bad : Style::Plain};
}

template <class T>
Cell number_cell(const std::optional<T>& value) {
  return value ? lab::number(static_cast<double>(*value)) : "-";
}

Cell equality_cell(const WorkloadResult& result) {
  const VariantResult *graft = result.find("graft"), *eager = result.find("eager");
  if (graft == nullptr || !graft->bitwise) return "-";
  if (*graft->bitwise) return {"bitwise", Style::Good};
  std::string text = lab::Comparison{.bitwise = false, .max_abs_diff = *graft->max_abs_diff}.text();
  if (eager != nullptr && eager->fp64_error.value_or(0) > 0 && graft->fp64_error) {
    text += ", error " + lab::number(*graft->fp64_error / *eager->fp64_error, 2) + "x eager's";
  }
  return text;
}

/// How fast graft is, hand-written being 100 %.
Cell share_of_hand(const WorkloadResult& result) {
  const double share = 100 * median_of(result, "hand") / median_of(result, "graft");
  return std::isnan(share) ? "-" : lab::number(share) + " %";
}

/// In the order of print's columns; "-" where nothing is known.
std::vector<Cell> row_of(const WorkloadResult& result) {
  const VariantResult none{}, *found = result.find("graft"),
                              &graft = found == nullptr ? none : *found;
  std::vector<Cell> row{result.name};
  for (const char* variant :
       {"eager", "eager_pool", "graft", "hand", "torch.compile", "graft_alone"}) {
    row.emplace_back(lab::number(median_of(result, variant)));
  }
  row.insert(row.end(), {speedup_cell(speedup(result, "eager", "graft")), share_of_hand(result),
                         number_cell(graft.compile_ms), number_cell(graft.first_call_ms),
                         graft.kernels ? std::to_string(*graft.kernels) : "-",
                         equality_cell(result), graft.verdict.empty() ? "-" : graft.verdict});
  return row;
}

/// A column that no workload has anything for is a variant that did not run.
void print_without_empty_columns(std::ostream& out, const std::vector<lab::Column>& columns,
                                 const std::vector<std::vector<Cell>>& rows, bool colour) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto known = [i](const std::vector<Cell>& row) { return row[i].text != "-"; };
    if (std::any_of(rows.begin(), rows.end(), known)) kept.push_back(i);
  }
  std::vector<lab::Column> kept_columns;
  for (size_t i : kept) kept_columns.push_back(columns[i]);
  lab::Table table(kept_columns);
  for (const std::vector<Cell>& row : rows) {
    std::vector<Cell> cells;
    for (size_t i : kept) cells.push_back(row[i]);
    table.row(std::move(cells));
  }
  table.print(out, colour);
}

void print_mean(std::ostream& out, const std::vector<WorkloadResult>& results,
                const std::string& slow, const std::string& fast) {
  std::vector<double> ratios;
  for (const WorkloadResult& result : results) {
    if (const auto ratio = speedup(result, slow, fast)) ratios.push_back(ratio->ratio);
  }
  if (ratios.empty()) return;
  out << "geometric mean, " << fast << " against " << slow << ": "
      << lab::number(lab::geometric_mean(ratios)) << "x over " << ratios.size()
      << (ratios.size() == 1 ? " workload\n" : " workloads\n");
}

}  // namespace

const VariantResult* WorkloadResult::find(const std::string& variant) const {
  for (const VariantResult& result : variants) {
    if (result.variant == variant) return &result;
  }
  return nullptr;
}

nlohmann::json to_json(const std::vector<WorkloadResult>& results, int threads,
                       nlohmann::json context) {
  nlohmann::json rows = nlohmann::json::array();
  for (const WorkloadResult& workload : results) {
    for (const VariantResult& v : workload.variants) {
      nlohmann::json row{{"name", workload.name},
                         {"variant", v.variant},
                         {"threads", threads},
                         {"median_ms", nullptr},
                         {"samples_ms", v.samples_ms},
                         {"first_call_ms", or_null(v.first_call_ms)},
                         {"compile_ms", or_null(v.compile_ms)},
                         {"kernels", or_null(v.kernels)},
                         {"bitwise", or_null(v.bitwise)},
                         {"max_abs_diff", or_null(v.max_abs_diff)},
                         {"fp64_error", or_null(v.fp64_error)}};
      if (!v.samples_ms.empty()) row["median_ms"] = lab::median(v.samples_ms);
      if (!v.verdict.empty()) row["verdict"] = v.verdict;
      if (!v.reason.empty()) row["reason"] = v.reason;
      rows.push_back(std::move(row));
    }
  }
  return {{"schema_version", 1}, {"context", std::move(context)}, {"results", std::move(rows)}};
}

void print(std::ostream& out, const std::vector<WorkloadResult>& results, bool colour) {
  std::vector<lab::Column> columns{{"workload"}};
  for (const char* header :
       {"eager ms", "eager_pool ms", "graft ms", "hand ms", "torch.compile ms", "graft_alone ms",
        "graft / eager [95 %]", "of hand", "compile ms", "first ms", "kernels"}) {
    columns.push_back({header, lab::Align::Right});
  }
  columns.push_back({"equal"});
  columns.push_back({"verdict"});
  std::vector<std::vector<Cell>> rows;
  for (const WorkloadResult& result : results) rows.push_back(row_of(result));
  print_without_empty_columns(out, columns, rows, colour);
  print_mean(out, results, "eager", "graft");
  print_mean(out, results, "eager_pool", "graft");
  print_mean(out, results, "torch.compile", "graft_alone");
  for (const WorkloadResult& result : results) {
    for (const VariantResult& v : result.variants) {
      if (v.reason.empty() || v.verdict == "faster" || v.variant == "graft_alone") continue;
      out << result.name << ", " << v.variant << (v.verdict.empty() ? "" : ", " + v.verdict) << ": "
          << v.reason << '\n';
    }
  }
}

void check_writable(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  const bool is_folder = std::filesystem::is_directory(path);
  if (!is_folder && access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw UsageError(
      "--json: came '" + path + "', " +
      (is_folder ? "which is a folder"
                 : "but in '" + folder.string() + "' nothing can be written (" +
                       std::strerror(errno) + ")") +
      "; expected a file's name in a folder that exists. Make the folder, or name another file.");
}

void write_file(const std::string& path, const std::string& content) {
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  std::ofstream file(temporary, std::ios::binary);
  file << content;
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    std::remove(temporary.c_str());
    throw std::runtime_error("could not write '" + path + "' (" + why +
                             "); look at the space left and the folder's rights.");
  }
}

}  // namespace graft::cli
