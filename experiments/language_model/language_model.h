#pragma once

namespace CLI {
class App;
}

namespace graft::experiments {

/// `graft lm`: training a language model: steps by size, context and precision, where their time
/// and memory go, what precision does, and a model that learns.
void add_language_model(CLI::App& app);

}  // namespace graft::experiments
