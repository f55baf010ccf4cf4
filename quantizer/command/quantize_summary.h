// What quantising a model did, as tables for the terminal.
#pragma once

#include <iosfwd>

#include "quantizer/model/quantize_model.h"

namespace graft::cli {

/// A row a kind of linear layer, then the facts of the whole run.
void print(std::ostream& out, const workloads::gptq::QuantizeReport& report,
           const workloads::gptq::Settings& settings, bool color);

}  // namespace graft::cli
