#include "lab/profile/worth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lab/profile/table.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

/// A whole number without decimals.
std::string calls_text(double count) {
  return number(count, count < 1000 && count != std::floor(count) ? 3 : 1);
}

}  // namespace

double RegionGain::speedup() const {
  return compiled_ms > 0 ? eager_ms / compiled_ms : std::numeric_limits<double>::quiet_NaN();
}

double RegionGain::saves() const {
  return eager_ms > 0 && !stays_eager ? share * (1 - compiled_ms / eager_ms) : 0;
}

double RegionGain::pays_after() const {
  const double saved_ms = stays_eager ? 0 : calls * (eager_ms - compiled_ms);
  return saved_ms > 0 ? std::ceil(compile_ms / saved_ms) : std::numeric_limits<double>::infinity();
}

void order_by_saving(std::vector<RegionGain>& regions) {
  std::stable_sort(regions.begin(), regions.end(),
                   [](const RegionGain& a, const RegionGain& b) { return a.saves() > b.saves(); });
}

double total_saving(const std::vector<RegionGain>& regions) {
  double out = 0;
  for (const RegionGain& region : regions) out += std::max(0.0, region.saves());
  return out;
}

Table table_of(const std::vector<RegionGain>& regions) {
  std::vector<Column> columns{{"region"}};
  for (const char* name : {"calls", "share", "eager ms", "compiled ms", "speed-up", "saves",
                           "compile ms", "pays after"})
    columns.push_back({name, Align::Right});
  if (std::ranges::any_of(regions, [](const RegionGain& r) { return !r.note.empty(); }))
    columns.push_back({"why not"});
  Table table(columns);
  for (const RegionGain& region : regions) {
    const double runs = region.pays_after();
    const Style style = region.saves() > 0 ? Style::Good : Style::Dim;
    table.row({region.name,
               calls_text(region.calls),
               percent_text(region.share),
               number(region.eager_ms),
               number(region.compiled_ms),
               number(region.speedup()) + 'x',
               {percent_text(region.saves()), style},
               number(region.compile_ms),
               std::isinf(runs) ? "never" : calls_text(runs) + (runs == 1 ? " run" : " runs"),
               {region.note, Style::Dim}});
  }
  return table;
}

nlohmann::json to_json(const std::vector<RegionGain>& regions) {
  nlohmann::json out = nlohmann::json::array();
  for (const RegionGain& region : regions) {
    nlohmann::json& row = out.emplace_back();
    row = {{"region", region.name},
           {"calls", region.calls},
           {"share", region.share},
           {"eager_ms", region.eager_ms},
           {"compiled_ms", region.compiled_ms},
           {"speedup", region.speedup()},
           {"saves", region.saves()},
           {"compile_ms", region.compile_ms},
           {"stays_eager", region.stays_eager},
           {"pays_after", region.pays_after()}};  // JSON has no infinity: dumped as null
    if (!region.note.empty()) row["note"] = region.note;
  }
  return out;
}

}  // namespace graft::lab
