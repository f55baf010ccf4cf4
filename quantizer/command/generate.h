// graft generate: continues a prompt with a decoder, of plain or of quantised weights.
#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

void add_generate(CLI::App& app);

}  // namespace graft::cli
