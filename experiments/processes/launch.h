#pragma once

namespace CLI {
class App;
}

namespace graft::experiments {

/// `graft launch -n 2 PROGRAM …`: starts a program several times, as torchrun does.
void add_launch(CLI::App& app);

}  // namespace graft::experiments
