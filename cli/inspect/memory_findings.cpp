#include "cli/inspect/memory_findings.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "lab/memory/report.h"
#include "lab/report/svg.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

constexpr size_t kSparkWidth = 60, kShownOwners = 5;

std::string size_text(int64_t bytes) {
  return bytes < 0 ? "-" : lab::bytes_text(static_cast<double>(bytes));
}

/// A range of the variant as the workload names it, without the variant around it; or empty.
std::string own_range(const MemoryVariant& variant, const std::string& region) {
  const bool inside = region.starts_with(variant.name + '/');
  return inside ? region.substr(variant.name.size() + 1) : "";
}

/// The peak of each part that the workload names: a training step's forward, backward, optimizer.
void print_ranges(std::ostream& out, const MemoryVariant& variant, bool colour) {
  lab::Table table({{"range of " + variant.name}, {"peak allocated", lab::Align::Right}});
  bool any = false;
  for (const lab::MemoryRange& range : variant.report.ranges) {
    const std::string name = own_range(variant, range.region);
    if (name.empty()) continue;
    table.row({name, size_text(range.peak_bytes)});
    any = true;
  }
  if (!any) return;
  table.print(out, colour);
  out << '\n';
}

void print_owners(std::ostream& out, const MemoryVariant& variant, bool colour) {
  const std::vector<lab::MemoryOwner>& owners = variant.report.largest;
  if (owners.empty()) return;
  std::vector<lab::Column> columns{{"live at the peak of " + variant.name},
                                   {"each", lab::Align::Right},
                                   {"together", lab::Align::Right}};
  const bool has_ranges = std::any_of(owners.begin(), owners.end(), [&](const auto& owner) {
    return !own_range(variant, owner.region).empty();
  });
  if (has_ranges) columns.push_back({"made in"});
  lab::Table table(columns);
  for (size_t i = 0; i < std::min(kShownOwners, owners.size()); ++i) {
    const std::string maker = owners[i].op.empty() ? "compiled code" : owners[i].op;
    std::vector<lab::Cell> cells{std::to_string(owners[i].count) + " × " + maker,
                                 size_text(owners[i].bytes),
                                 size_text(owners[i].bytes * owners[i].count)};
    if (has_ranges) cells.emplace_back(own_range(variant, owners[i].region));
    table.row(std::move(cells));
  }
  table.print(out, colour);
  out << '\n';
}

void print_variants(std::ostream& out, const MemoryFindings& found, bool colour) {
  lab::Table table({{"variant"},
                    {"peak allocated", lab::Align::Right},
                    {"peak reserved", lab::Align::Right},
                    {"resident growth", lab::Align::Right},
                    {"allocations/call", lab::Align::Right},
                    {"live tensors at peak", lab::Align::Right},
                    {"left behind", lab::Align::Right}});
  for (const auto& [name, report] : found.variants) {
    table.row({name, size_text(report.peak_bytes), size_text(report.peak_reserved),
               size_text(report.peak_resident),
               lab::number(static_cast<double>(report.allocations) / found.calls),
               std::to_string(report.peak_tensors - report.start_tensors),
               size_text(report.end_bytes - report.start_bytes)});
  }
  table.print(out, colour);
}

void print_timelines(std::ostream& out, const MemoryFindings& found) {
  double seconds = 0;
  int64_t top = 0;
  size_t widest = 0;
  for (const auto& [name, report] : found.variants) {
    seconds = std::max(seconds, report.seconds);
    top = std::max(top, report.peak_bytes);
    widest = std::max(widest, name.size());
  }
  out << "live memory over " << lab::number(seconds * 1e3) << " ms, up to " << size_text(top)
      << '\n';
  for (const auto& [name, report] : found.variants) {
    out << name << std::string(widest - name.size() + 2, ' ')
        << lab::sparkline(report, seconds, top, kSparkWidth) << '\n';
  }
}

std::string title(const MemoryFindings& found) {
  std::string out = "Memory of " + found.workload;
  for (const auto& [axis, value] : found.config) out += ' ' + axis + '=' + value;
  return out;
}

}  // namespace

void print(std::ostream& out, const MemoryFindings& found, bool colour) {
  out << found.workload << ": inputs of " << size_text(found.inputs.end_bytes) << " in "
      << found.inputs.end_tensors << " tensors; " << found.calls
      << (found.calls == 1 ? " call" : " calls") << " of each variant, warm; graft is "
      << found.verdict << (found.reason.empty() ? "" : " (" + found.reason + ')') << "\n\n";
  print_variants(out, found, colour);
  out << '\n';
  print_timelines(out, found);
  out << '\n';
  for (const MemoryVariant& variant : found.variants) print_ranges(out, variant, colour);
  for (const MemoryVariant& variant : found.variants) print_owners(out, variant, colour);
  lab::print(out, found.proof, colour);
}

nlohmann::json to_json(const MemoryFindings& found) {
  nlohmann::json variants = nlohmann::json::array();
  for (const auto& [name, report] : found.variants)
    variants.push_back({{"variant", name}, {"calls", found.calls}, {"memory", to_json(report)}});
  return {{"workload", found.workload},
          {"config", found.config},
          {"inputs", {{"bytes", found.inputs.end_bytes}, {"tensors", found.inputs.end_tensors}}},
          {"verdict", found.verdict},
          {"reason", found.reason},
          {"variants", variants},
          {"storage", to_json(found.proof)}};
}

std::string picture(const MemoryFindings& found) {
  std::vector<lab::MemorySeries> series;
  for (const auto& [name, report] : found.variants) series.push_back({name, report});
  return lab::memory_svg(title(found), series);
}

std::string page(const MemoryFindings& found) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" +
         lab::svg::escape(title(found)) +
         "</title>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<style>:root { color-scheme: light dark; } body { margin: 1em auto; max-width: 60em; }"
         "</style></head>\n<body>\n" +
         picture(found) + "</body></html>\n";
}

}  // namespace graft::cli
