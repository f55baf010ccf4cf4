// Reads weights in the safetensors format, strictly: a file is data from outside, so every size in
// it is checked before it is used, and nothing in it is executed. Format:
// https://github.com/huggingface/safetensors#format
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace graft::formats {

/// The text names the file and the tensor, what came and what was expected.
class SafetensorsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The tensors of one file or of one sharded checkpoint.
struct Safetensors {
  /// Views over the mapped file, which lives as long as any of them. The mapping is private:
  /// writing to a tensor never reaches the file. A tensor that is not aligned for its type is a
  /// copy.
  std::map<std::string, at::Tensor, std::less<>> tensors;
  /// The header's `__metadata__`; of a sharded checkpoint, the first shard's.
  std::map<std::string, std::string, std::less<>> metadata;
  std::filesystem::path source;  ///< the file, or the index

  /// The tensor of that name. If there is none, throws SafetensorsError with what to do.
  const at::Tensor& get(std::string_view name) const;
  /// As above, and the tensor must have that type and shape.
  const at::Tensor& get(std::string_view name, at::ScalarType dtype, at::IntArrayRef sizes) const;
};

/// Reads one file. Accepts F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL; refuses a header that is not
/// exactly what the format allows: over 100 MB, duplicate keys, bytes that belong to no tensor or
/// to two, sizes that overflow or do not match. The file must not be shortened while its tensors
/// are in use, as with every memory-mapped file.
Safetensors read_safetensors(const std::filesystem::path& file);

/// Reads a checkpoint: a file, a folder with `model.safetensors`, or a folder with
/// `model.safetensors.index.json` and its shards. Of shards, only the tensors that the index lists
/// are kept.
Safetensors read_checkpoint(const std::filesystem::path& file_or_folder);

}  // namespace graft::formats
