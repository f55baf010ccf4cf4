#pragma once

namespace CLI {
class App;
}

namespace graft::experiments {

/// `graft llama`: a Transformer-Engine-style Llama, compiled in parts and whole, forward and
/// training: what each cut gains, where its boundaries lie, and what they cost.
void add_llama(CLI::App& app);

}  // namespace graft::experiments
