// The set `models`: a whole model with its real weights as one compiled function, which captures
// them.
#include <ATen/ATen.h>
#include <graft/graft.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workloads/draw.h"
#include "workloads/minilm/model.h"
#include "workloads/region_cases.h"

namespace graft::workloads {
namespace {

using at::Tensor;
using minilm::MiniLM;

std::shared_ptr<const MiniLM> model() {
  const std::filesystem::path folder = minilm::default_folder();
  if (!std::filesystem::exists(folder / "config.json"))
    throw Error("MiniLM's weights are not in " + folder.string() +
                "; 'make setup' fetches them, or set GRAFT_MINILM_DIR");
  static const auto read = std::make_shared<const MiniLM>(folder);
  return read;
}

minilm::Attention attention_of(const Options& o) {
  const std::string& name = o.text("attention");
  if (name == "sdpa") return minilm::Attention::Sdpa;
  if (name == "explicit") return minilm::Attention::Explicit;
  throw Error("axis attention: came '" + name + "', expected sdpa or explicit");
}

Instance encoder(const Options& o) {
  const int64_t batch = o.integer("batch"), length = o.integer("length");
  const auto encoder = model();
  const minilm::Config& c = encoder->config();
  if (length > c.positions)
    throw Error("axis length: came " + std::to_string(length) + ", expected at most the " +
                std::to_string(c.positions) + " positions of the model");
  Draw draw(o);
  const Tensor ids = draw.integers({batch, length}, c.vocabulary),
               mask = at::ones({batch, length}, at::kLong);
  const auto regions = minilm::Regions::eager(attention_of(o));
  Instance out =
      instance_of([encoder, regions](const Tensor& i,
                                     const Tensor& m) { return encoder->encode(i, m, regions); },
                  ids, mask);
  out.tokens = static_cast<double>(batch * length);
  out.samples = static_cast<double>(batch);
  // (ATen's fused attention wants a bias of its operands' dtype.)
  out.fp64 = [encoder, ids, mask] {
    return Tensors{encoder->to(at::kDouble)
                       .encode(ids, mask, minilm::Regions::eager(minilm::Attention::Explicit))};
  };
  const auto hidden = static_cast<double>(c.hidden), inner = static_cast<double>(c.intermediate);
  const double each = hidden * (4 * hidden + 2 * inner),
               weights = static_cast<double>(c.layers) * each;
  out.flops = 2 * out.tokens * (weights + static_cast<double>(c.layers * 2 * length) * hidden);
  out.bytes = 4 * weights;
  out.input_bytes += static_cast<int64_t>(out.bytes);  // it captures them
  return out;
}

}  // namespace

std::vector<Workload> model_cases() {
  return {{"minilm_f32",
           "MiniLM's sentence encoder, whole, with its real weights",
           {{"batch", "8", "2", "sentences"},
            {"length", "64", "9", "tokens of each"},
            {"attention", "sdpa", "sdpa", "ATen's fused, or explicit"}},
           encoder,
           kSums,
           "models"}};
}

}  // namespace graft::workloads
