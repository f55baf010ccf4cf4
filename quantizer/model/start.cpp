#include "quantizer/model/start.h"

#include <algorithm>

#include "quantizer/model/checksum.h"

namespace graft::quantizer {
namespace {

using nlohmann::json;

std::string calibration_said(const CalibrationOptions& options) {
  std::string out =
      options.file.empty() ? "no --calibration" : "--calibration " + options.file.string();
  out += " --samples " + std::to_string(options.samples);
  if (options.sequence > 0) out += " --sequence " + std::to_string(options.sequence);
  return out;
}

/// The widest linear layer that is quantised.
int64_t most_columns(const Architecture& model, const Targets& targets) {
  int64_t out = 0;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    for (const LinearSpec& linear : model.linears(layer)) {
      if (targets.contains(linear.module)) out = std::max(out, linear.columns);
    }
  }
  return out;
}

}  // namespace

json run_identity(const QuantizeOptions& options, const Checkpoint& source, const Targets& targets,
                  const Calibration& calibration) {
  uint32_t ids = 0, modules = 0;
  for (const at::Tensor& batch : calibration.batches)
    ids = crc32(batch.const_data_ptr(), batch.nbytes(), ids);
  for (const std::string& module : targets.modules())
    modules = crc32(module.data(), module.size(), modules);
  const Settings& s = options.settings;
  const auto option = [](const std::string& name, const json& value) {
    return json{{"value", value}, {"said", name + ' ' + value.dump()}};
  };
  const auto said = [](const json& value, const std::string& text) {
    return json{{"value", value}, {"said", text}};
  };
  return {{"format", said(2, "this version's form of the state file")},
          {"bits", option("--bits", s.bits)},
          {"group", option("--group", s.group)},
          {"symmetric", said(s.symmetric, s.symmetric ? "--sym" : "--asym")},
          {"block", option("--block", s.block)},
          {"dampening", option("--dampening", s.dampening)},
          {"act_order", said(s.act_order, s.act_order ? "--act-order" : "no --act-order")},
          {"targets",
           said(crc_text(modules),
                options.targets.empty() ? "no --targets" : "--targets '" + options.targets + "'")},
          {"calibration", said(crc_text(ids), calibration_said(options.calibration))},
          {"source", said(source.identity(), "the checkpoint in " + options.model.string())}};
}

std::vector<std::string> run_warnings(const Settings& settings, const Architecture& model,
                                      const Targets& targets, const Calibration& calibration) {
  std::vector<std::string> out;
  if (!calibration.warning.empty()) out.push_back(calibration.warning);
  const int64_t columns = most_columns(model, targets);
  if (calibration.tokens < columns) {
    out.push_back("the calibration data has " + std::to_string(calibration.tokens) +
                  " tokens, fewer than the " + std::to_string(columns) +
                  " columns of the widest linear layer: give some times as many, with a longer "
                  "--calibration FILE or more --samples");
  }
  if (settings.act_order && settings.group > 0 && columns > settings.group) {
    out.emplace_back(
        "--act-order with groups writes weight_g_idx, which compressed-tensors 0.20 and what "
        "builds on it refuse (older versions read it); --group -1 gives a form that all read");
  }
  if (!settings.symmetric) {
    out.emplace_back(
        "--asym writes packed zero points, which compressed-tensors reads, but transformers 5 "
        "does not load; --sym gives a form that both read");
  }
  return out;
}

}  // namespace graft::quantizer
