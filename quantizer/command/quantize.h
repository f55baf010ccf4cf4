// graft quantize: quantises a checkpoint's linear layers to 3, 4 or 8 bits with GPTQ.
#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

void add_quantize(CLI::App& app);

}  // namespace graft::cli
