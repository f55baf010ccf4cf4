// The results of `graft memory`, as tables, JSON and a picture.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/memory/memory.h"
#include "lab/memory/storage.h"

namespace graft::cli {

struct MemoryVariant {
  std::string name;
  lab::MemoryReport report;
};

struct MemoryFindings {
  std::string workload;
  std::map<std::string, std::string> config;
  int calls = 0;             ///< of each variant
  lab::MemoryReport inputs;  ///< of making the inputs
  std::vector<MemoryVariant> variants;
  lab::StorageProof proof;      ///< of the outputs
  std::string verdict, reason;  ///< of the compiler
};

void print(std::ostream& out, const MemoryFindings& found, bool colour);
nlohmann::json to_json(const MemoryFindings& found);
/// An SVG document.
std::string picture(const MemoryFindings& found);
/// An HTML page with all of it.
std::string page(const MemoryFindings& found);

}  // namespace graft::cli
