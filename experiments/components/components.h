#pragma once

namespace CLI {
class App;
}

namespace graft::experiments {

/// `graft spd`: linear layers in masked components, ((x V) mask) U: a whole Llama of them by batch,
/// length and mode, the layers alone by size, and a decomposition that is trained.
void add_components(CLI::App& app);

}  // namespace graft::experiments
