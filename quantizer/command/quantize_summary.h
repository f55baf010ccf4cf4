// The report of quantising a model, as tables for the terminal.
#pragma once

#include <iosfwd>

#include "quantizer/model/quantize_model.h"

namespace graft::cli {

/// One row per kind of linear layer, then the figures of the whole run.
void print(std::ostream& out, const quantizer::QuantizeReport& report,
           const quantizer::Settings& settings, bool color);

}  // namespace graft::cli
