#include "quantizer/model/shards.h"

#include <cstdio>

#include "formats/safetensors_writer.h"

namespace graft::quantizer {

std::string Shards::name(int64_t number) const {
  char text[64];
  std::snprintf(text, sizeof text, "model-%05lld-of-%05lld.safetensors",
                static_cast<long long>(number + 1), static_cast<long long>(layers_ + 1));
  return text;
}

std::vector<std::string> Shards::names() const {
  std::vector<std::string> out;
  for (int64_t i = 0; i <= layers_; ++i) out.push_back(name(i));
  return out;
}

void Shards::write_layer(const std::filesystem::path& file, const formats::Safetensors& tensors,
                         const NamedTensors& packed) const {
  NamedTensors all = packed;
  for (const auto& [name, tensor] : tensors.tensors) {
    if (!targets_.replaces(name)) all.emplace_back(name, tensor);
  }
  formats::write_safetensors(file, all, {{"format", "pt"}});
}

void Shards::note_layer(int64_t layer, const std::filesystem::path& file) {
  for (const auto& [name, tensor] : formats::read_safetensors(file).tensors) {
    places_[name] = this->name(layer);
    bytes_.written += static_cast<int64_t>(tensor.nbytes());
    if (!source_.entries().contains(name))
      bytes_.linears_written += static_cast<int64_t>(tensor.nbytes());
    scattered_ = scattered_ || name.ends_with(".weight_g_idx");
  }
}

void Shards::write_rest(const std::filesystem::path& file) {
  std::vector<formats::SafetensorsWriter::Declared> declared;
  for (const auto& [name, entry] : source_.entries()) {
    bytes_.source += entry.bytes();
    if (targets_.replaces(name)) bytes_.linears_source += entry.bytes();
    if (targets_.replaces(name) || places_.contains(name)) continue;
    declared.push_back({name, entry.dtype, entry.shape});
    bytes_.written += entry.bytes();
  }
  formats::SafetensorsWriter writer(file, declared, {{"format", "pt"}});
  for (const auto& one : declared) {
    writer.add(one.name, source_.read({one.name}).get(one.name));
    places_[one.name] = name(layers_);
  }
  writer.finish();
}

}  // namespace graft::quantizer
