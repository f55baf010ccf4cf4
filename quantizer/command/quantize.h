// graft quantize: a checkpoint's linear layers in 3, 4 or 8 bits by GPTQ.
#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

void add_quantize(CLI::App& app);

}  // namespace graft::cli
