// What an experiment says beside the rows of its run: tables, charts and notes under a title. It is
// kept in the run's file (context["sections"]), so that every report of the run shows it.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lab/table.h"

namespace graft::lab {

/// Numbers by name, as bars, or over an axis, as lines.
struct Figure {
  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points = {};  ///< of lines, by ascending x
    std::vector<double> values = {};                     ///< of bars, one per label; NaN: none
  };
  std::string caption;
  std::vector<std::string> labels = {};  ///< of bars; empty: lines
  std::vector<Series> series = {};
  std::string x_title = {}, unit = {};  ///< "tokens"; "%", "ms": behind a value
  bool log_x = false, log_y = false;    ///< where all values are positive
};

struct Section {
  std::string id, title, says = {};
  Table table = Table(std::vector<Column>{});
  std::vector<Figure> figures = {};
  std::vector<std::string> notes = {};
};

nlohmann::json to_json(const Section& section);
/// Throws nlohmann::json::exception for other JSON.
Section section_from_json(const nlohmann::json& json);
/// Those in a run's context; none where it has none.
std::vector<Section> sections_of(const nlohmann::json& context);

/// Title, what it says, table and notes, for a terminal.
void print(std::ostream& out, const Section& section, bool colour);
/// The same as the HTML of a section without its title, figures included.
std::string html_of(const Section& section);

}  // namespace graft::lab
