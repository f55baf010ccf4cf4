// The demo's results as a run of the laboratory, for reports, comparisons and gates.
#pragma once

#include <vector>

#include "cli/demo/demo.h"
#include "cli/demo/demo_measure.h"
#include "lab/run.h"

namespace graft::cli {

struct DemoResults {
  std::vector<RegionRow> regions;
  std::vector<ModelRow> model;
  std::vector<NearestRow> nearest;
};

const char* attention_name(workloads::minilm::Attention attention);

/// Its cases are minilm[batch=…,length=…] and the regions; nearest sentences are in the context.
lab::Run run_of(const DemoResults& results, const DemoOptions& options);

}  // namespace graft::cli
