// The storage-size proof: how many bytes tensors need, and how many their storages hold.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace graft::lab {

struct StoredTensor {
  std::string name;
  std::string dtype;  ///< "Float", "BFloat16"
  std::vector<int64_t> sizes;
  int64_t logical = 0;   ///< bytes: elements times their size
  int64_t stored = 0;    ///< bytes of the storage; -1 for what has none: sparse, undefined
  bool view = false;     ///< it shows part of its storage, or bytes twice, or is a view of another
  int storage = -1;      ///< index in StorageProof::storages
  double inflation = 1;  ///< stored / logical; 1 if both are 0
  bool notable = false;  ///< stored is more than 10 % above logical
};

/// One storage with the tensors over it.
struct SharedStorage {
  int64_t bytes = 0;
  std::vector<size_t> tensors;  ///< indices in StorageProof::tensors
};

struct StorageProof {
  std::vector<StoredTensor> tensors;
  std::vector<SharedStorage> storages;
  int64_t logical = 0;  ///< of all tensors
  int64_t stored = 0;   ///< of all storages, each counted once
};

/// Reads no data. Tensors may be undefined.
StorageProof storage_proof(const std::vector<std::pair<std::string, at::Tensor>>& tensors);
nlohmann::json to_json(const StorageProof& proof);
/// Of more than 16 tensors, those that are all of a storage of their own are only counted.
void print(std::ostream& out, const StorageProof& proof, bool colour = false);

}  // namespace graft::lab
