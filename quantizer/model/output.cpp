// JSON in the forms that Hugging Face's readers expect.
#include "quantizer/model/output.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "formats/files.h"

namespace graft::quantizer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

bool is_companion(const fs::path& file) {
  constexpr uintmax_t kMostBytes = 64 << 20;
  constexpr std::array<std::string_view, 6> kEndings = {".json",  ".jsonl", ".txt",
                                                        ".model", ".jinja", ".md"};
  const std::string name = file.filename().string(), ending = file.extension().string();
  if (name.ends_with(".index.json") || fs::file_size(file) > kMostBytes) return false;
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end() ||
         name.starts_with("LICENSE") || name.starts_with("NOTICE");
}

}  // namespace

ordered_json quantization_config(const Settings& settings, const std::vector<std::string>& ignore,
                                 bool scattered) {
  ordered_json weights = {{"num_bits", settings.bits},
                          {"type", "int"},
                          {"symmetric", settings.symmetric},
                          {"strategy", settings.group > 0 ? "group" : "channel"},
                          {"group_size", nullptr},
                          {"block_structure", nullptr},
                          {"dynamic", false},
                          {"actorder", nullptr},
                          {"observer", "minmax"},
                          {"observer_kwargs", ordered_json::object()}};
  if (settings.group > 0) weights["group_size"] = settings.group;
  // "group" is what readers before 0.20 call an index of groups; 0.20 itself knows only "weight",
  // columns that were taken in another order but whose groups are runs.
  if (settings.act_order) weights["actorder"] = scattered ? "group" : "weight";
  const ordered_json scheme = {{"targets", {"Linear"}},
                               {"weights", weights},
                               {"input_activations", nullptr},
                               {"output_activations", nullptr}};
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"quantization_status", "compressed"},
          {"config_groups", {{"group_0", scheme}}},
          {"ignore", ignore},
          {"kv_cache_scheme", nullptr},
          {"global_compression_ratio", nullptr}};
}

void write_index(const fs::path& out, const std::map<std::string, std::string>& shards,
                 int64_t bytes) {
  const ordered_json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", shards}};
  formats::write_file((out / "model.safetensors.index.json").string(), index.dump(2) + '\n');
}

int64_t copy_companions(const fs::path& model, const fs::path& out) {
  int64_t count = 0;
  std::error_code error;
  // Folders that may not be looked into hold nothing that a reader of the model needs.
  constexpr auto kSkip = fs::directory_options::skip_permission_denied;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(model, kSkip)) {
    const fs::path relative = entry.path().lexically_relative(model);
    if (relative.string().starts_with('.') || relative.string().find("/.") != std::string::npos)
      continue;
    if (!entry.is_regular_file() || relative == "config.json" || !is_companion(entry.path()))
      continue;
    fs::create_directories((out / relative).parent_path(), error);  // the write says what is wrong
    formats::write_file(out / relative, formats::read_file(entry.path()));
    ++count;
  }
  return count;
}

void write_config(const fs::path& model, const fs::path& out, const ordered_json& quantization) {
  ordered_json config = ordered_json::parse(formats::read_file(model / "config.json"));
  config["quantization_config"] = quantization;
  formats::write_file((out / "config.json").string(), config.dump(2) + '\n');
}

}  // namespace graft::quantizer
