// Writes weights in the safetensors format, one tensor at a time, so that a file may be larger than
// memory. A file appears under its name complete or not at all. Format:
// https://github.com/huggingface/safetensors#format
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/safetensors.h"

namespace graft::formats {

/// Writes one file. Its tensors are declared first, since the header with their places precedes the
/// data; then they are added in any order; finish() gives the file its name. Until then it has a
/// temporary name in the same folder, `<file>.tmp<process>-<number>`, and is removed if the writer
/// is destroyed unfinished. Not thread-safe.
/// Errors: SafetensorsError naming the file, the tensor and the system's error.
class SafetensorsWriter {
 public:
  /// What will be added under a name.
  struct Declared {
    std::string name;
    at::ScalarType dtype = at::ScalarType::Undefined;  ///< those that read_safetensors accepts
    std::vector<int64_t> shape;
  };
  using Metadata = std::map<std::string, std::string, std::less<>>;

  /// Refuses duplicate names, the name `__metadata__`, and types that the format does not have.
  /// Reserves the file's whole space where the file system can, so that a full disk is found before
  /// the work is done.
  SafetensorsWriter(std::filesystem::path file, std::vector<Declared> declared,
                    const Metadata& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Writes a dense CPU tensor with any strides, of exactly the declared type and shape, once.
  void add(std::string_view name, const at::Tensor& tensor);

  /// Waits until the data is on the disk, then renames the file, replacing one of that name. Every
  /// declared tensor must have been added.
  void finish();

 private:
  struct Place {
    Declared what;
    uint64_t begin = 0, end = 0;  // bytes, from the start of the file
    bool written = false;
  };
  [[noreturn]] void fail(const std::string& what) const;
  void write(const void* data, uint64_t bytes, uint64_t at, const std::string& what);

  std::filesystem::path file_, temporary_;
  std::map<std::string, Place, std::less<>> places_;
  int fd_ = -1;
};

/// Writes all tensors to one file, as SafetensorsWriter does.
void write_safetensors(const std::filesystem::path& file,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const SafetensorsWriter::Metadata& metadata = {});

}  // namespace graft::formats
