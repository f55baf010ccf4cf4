#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft bench attention`: attention as the formula is written, the same compiled, and ATen's
/// fused kernel, forward and backward, with the memory that each holds between the two; over
/// lengths, widths, dtypes, with and without a causal mask.
void add_attention_sweep(CLI::App& bench);

}  // namespace graft::cli
