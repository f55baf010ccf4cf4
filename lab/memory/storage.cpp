#include "lab/memory/storage.h"

#include <c10/core/ScalarType.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

constexpr double kNotable = 1.1;
constexpr size_t kListed = 16;

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string out = "(";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return out + ')';
}

double inflation_of(int64_t logical, int64_t stored) {
  if (logical > 0) return static_cast<double>(stored) / static_cast<double>(logical);
  return stored > 0 ? std::numeric_limits<double>::infinity() : 1;
}

Cell inflation_cell(const StoredTensor& t) {
  if (t.storage < 0) return "-";
  return {number(t.inflation) + 'x', t.notable ? Style::Bad : Style::Plain};
}

/// Names of the other tensors of its storage.
std::string shared_with(const StorageProof& proof, size_t index) {
  const int storage = proof.tensors[index].storage;
  std::string out;
  if (storage < 0) return out;
  for (const size_t other : proof.storages[static_cast<size_t>(storage)].tensors) {
    if (other != index) out += (out.empty() ? "" : ", ") + proof.tensors[other].name;
  }
  return out;
}

/// All of a storage that no other has.
bool is_plain(const StorageProof& proof, const StoredTensor& t) {
  return t.storage >= 0 && !t.view &&
         proof.storages[static_cast<size_t>(t.storage)].tensors.size() == 1;
}

}  // namespace

StorageProof storage_proof(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  StorageProof out;
  std::map<const c10::StorageImpl*, int> known;
  for (const auto& [name, tensor] : tensors) {
    StoredTensor row;
    row.name = name;
    row.stored = -1;
    if (tensor.defined()) {
      row.dtype = c10::toString(tensor.scalar_type());
      row.sizes = tensor.sizes().vec();
      row.logical = static_cast<int64_t>(tensor.nbytes());
      out.logical += row.logical;
    }
    if (tensor.defined() && tensor.has_storage()) {
      const c10::Storage& storage = tensor.storage();
      row.stored = static_cast<int64_t>(storage.nbytes());
      row.inflation = inflation_of(row.logical, row.stored);
      row.notable = row.inflation > kNotable;
      row.view = tensor.is_view() || row.stored != row.logical ||
                 !tensor.unsafeGetTensorImpl()->is_non_overlapping_and_dense();
      const auto [place, is_new] =
          known.try_emplace(storage.unsafeGetStorageImpl(), static_cast<int>(out.storages.size()));
      if (is_new) {
        out.storages.push_back({row.stored, {}});
        out.stored += row.stored;
      }
      row.storage = place->second;
      out.storages[static_cast<size_t>(row.storage)].tensors.push_back(out.tensors.size());
    }
    out.tensors.push_back(std::move(row));
  }
  return out;
}

nlohmann::json to_json(const StorageProof& proof) {
  nlohmann::json tensors = nlohmann::json::array(), storages = nlohmann::json::array();
  for (const StoredTensor& t : proof.tensors) {
    const bool has = t.storage >= 0;
    tensors.push_back(
        {{"name", t.name},
         {"dtype", t.dtype},
         {"sizes", t.sizes},
         {"logical", t.logical},
         {"stored", has ? nlohmann::json(t.stored) : nlohmann::json()},
         {"storage", has ? nlohmann::json(t.storage) : nlohmann::json()},
         {"view", t.view},
         {"inflation", std::isfinite(t.inflation) ? nlohmann::json(t.inflation) : nlohmann::json()},
         {"notable", t.notable}});
  }
  for (const SharedStorage& storage : proof.storages) {
    nlohmann::json names = nlohmann::json::array();
    for (const size_t index : storage.tensors) names.push_back(proof.tensors[index].name);
    storages.push_back({{"bytes", storage.bytes}, {"tensors", names}});
  }
  return {{"tensors", tensors},
          {"storages", storages},
          {"logical", proof.logical},
          {"stored", proof.stored}};
}

void print(std::ostream& out, const StorageProof& proof, bool colour) {
  const auto size = [](int64_t bytes) {
    return bytes < 0 ? "-" : bytes_text(static_cast<double>(bytes));
  };
  Table table({{"tensor"},
               {"shape"},
               {"dtype"},
               {"logical", Align::Right},
               {"stored", Align::Right},
               {"inflation", Align::Right},
               {"form"},
               {"shares its storage with"}});
  int64_t plain = 0, plain_bytes = 0;
  for (size_t i = 0; i < proof.tensors.size(); ++i) {
    const StoredTensor& t = proof.tensors[i];
    if (proof.tensors.size() > kListed && is_plain(proof, t)) {
      ++plain;
      plain_bytes += t.stored;
      continue;
    }
    std::vector<Cell> cells{t.name,          sizes_text(t.sizes), t.dtype,
                            size(t.logical), size(t.stored),      inflation_cell(t)};
    const std::string others = shared_with(proof, i);
    if (t.view || !others.empty()) cells.emplace_back(t.view ? "view" : "owner");
    if (!others.empty()) cells.emplace_back(others);
    table.row(std::move(cells));
  }
  if (plain > 0)
    table.row({std::to_string(plain) + ", each all of a storage", "", "", size(plain_bytes),
               size(plain_bytes)});
  table.rule();
  table.row({"all", "", "", size(proof.logical), size(proof.stored)});
  table.print(out, colour);
}

}  // namespace graft::lab
