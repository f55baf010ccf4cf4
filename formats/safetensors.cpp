#include "formats/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "formats/files.h"
#include "formats/safetensors_header.h"

namespace graft::formats {
namespace {

using detail::kMaxHeaderBytes;
using detail::shown;

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw SafetensorsError(file.string() + ": " + what);
}

// A whole file in memory, changes to which stay private. Unmapped when the last tensor over it is
// gone.
class Mapping {
 public:
  explicit Mapping(const std::filesystem::path& file) {
    if (const std::string why = why_unreadable(file); !why.empty()) fail(file, why);
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(file, "cannot be opened: " + std::generic_category().message(errno));
    const std::unique_ptr<const int, void (*)(const int*)> closer(
        &fd, [](const int* f) { ::close(*f); });
    struct stat status{};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) fail(file, "is not a regular file");
    size_ = static_cast<uint64_t>(status.st_size);
    if (size_ == 0) return;  // mmap refuses nothing
    void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
      const int error = errno;
      fail(file, "cannot be mapped: " + std::generic_category().message(error) +
                     (error == ENOMEM ? "; was a limit on memory set (ulimit -v)?" : ""));
    }
    data_ = static_cast<char*>(at);
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  char* data() const { return data_; }
  uint64_t size() const { return size_; }
  std::string_view text() const { return {data_, size_}; }

 private:
  char* data_ = nullptr;
  uint64_t size_ = 0;
};

at::Tensor make_tensor(const detail::TensorEntry& entry, char* at,
                       const std::shared_ptr<Mapping>& mapping) {
  const auto options = at::TensorOptions().dtype(entry.dtype);
  const uint64_t bytes = entry.end - entry.begin;
  if (bytes == 0) return at::empty(entry.shape, options);
  if (reinterpret_cast<uintptr_t>(at) % c10::elementSize(entry.dtype) != 0) {
    at::Tensor copy = at::empty(entry.shape, options);
    std::memcpy(copy.data_ptr(), at, bytes);
    return copy;
  }
  return at::from_blob(at, entry.shape, [mapping](void*) {}, options);
}

// A bool that is neither 0 nor 1 is undefined behaviour in every loop that reads it.
void check_bools(const char* at, uint64_t bytes, std::string_view name,
                 const std::filesystem::path& file) {
  const char* bad = std::find_if(at, at + bytes, [](char c) { return c != 0 && c != 1; });
  if (bad != at + bytes) {
    fail(file, "tensor " + shown(name) + ": BOOL holds the byte " +
                   std::to_string(static_cast<unsigned char>(*bad)) + "; expected 0 or 1");
  }
}

// The index's name → shard rows. Shards are plain names beside the index: a path could lead
// anywhere.
std::map<std::string, std::string> read_index(const std::filesystem::path& file) {
  const Mapping mapping(file);
  if (is_lfs_pointer(mapping.text())) fail(file, kLfsAdvice);
  if (mapping.size() > kMaxHeaderBytes) fail(file, "is over 100 MB; expected an index");
  if (mapping.text().find('\0') != std::string_view::npos) {
    fail(file, "is not valid JSON: it holds a NUL byte");
  }
  std::map<std::string, std::string> shards;
  // An index is two levels deep and names each tensor once; the callback sees keys before they
  // replace one another.
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (depth > 8) fail(file, "is nested more than 8 levels deep; expected 2");
    if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) keys.pop_back();
    if (event == nlohmann::json::parse_event_t::key &&
        !keys.back().insert(value.get<std::string>()).second) {
      fail(file, "has the key " + shown(value.get<std::string>()) + " twice; expected each once");
    }
    return true;
  };
  nlohmann::json index;
  try {
    index = nlohmann::json::parse(mapping.text(), watch);
  } catch (const nlohmann::json::parse_error& error) {
    fail(file, json_error_text(error.byte, mapping.size()));
  }
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    fail(file, "has no object weight_map; expected tensor names and their shards there");
  }
  for (const auto& [name, shard] : index["weight_map"].items()) {
    if (!shard.is_string())
      fail(file, "weight_map " + shown(name) + " is not a string; expected a file name");
    const std::string text = shard.get<std::string>();
    if (text.empty() || text == "." || text == ".." ||
        text.find_first_of(std::string("/\\\0", 3)) != text.npos) {
      fail(file, "weight_map " + shown(name) + " names " + shown(text) +
                     "; expected a file beside the index");
    }
    shards.emplace(name, text);
  }
  return shards;
}

Safetensors read_sharded(const std::filesystem::path& index) {
  Safetensors out;
  std::map<std::string, Safetensors> files;
  for (const auto& [name, shard] : read_index(index)) {
    auto [at, is_new] = files.try_emplace(shard);
    if (is_new) at->second = read_safetensors(index.parent_path() / shard);
    out.tensors.emplace(name, at->second.get(name));
  }
  if (!files.empty()) out.metadata = files.begin()->second.metadata;
  out.source = index;
  return out;
}

}  // namespace

const at::Tensor& Safetensors::get(std::string_view name) const {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  fail(source,
       "has no tensor " + shown(name) + " among its " + std::to_string(tensors.size()) +
           (tensors.empty() ? "" : ", the first of which is " + shown(tensors.begin()->first)));
}

const at::Tensor& Safetensors::get(std::string_view name, at::ScalarType dtype,
                                   at::IntArrayRef sizes) const {
  const at::Tensor& tensor = get(name);
  if (tensor.scalar_type() != dtype || tensor.sizes() != sizes) {
    std::ostringstream text;
    text << "tensor " << shown(name) << " is " << c10::toString(tensor.scalar_type()) << ' '
         << tensor.sizes() << "; expected " << c10::toString(dtype) << ' ' << sizes;
    fail(source, text.str());
  }
  return tensor;
}

Safetensors read_safetensors(const std::filesystem::path& file) {
  const auto mapping = std::make_shared<Mapping>(file);
  if (is_lfs_pointer(mapping->text())) fail(file, kLfsAdvice);
  if (mapping->size() < 8) {
    fail(file, "has " + std::to_string(mapping->size()) +
                   " bytes; expected at least the header's length, 8");
  }
  uint64_t header_bytes = 0;  // the format is little-endian, as is every host that Graft runs on
  std::memcpy(&header_bytes, mapping->data(), 8);
  if (header_bytes > kMaxHeaderBytes) {
    fail(file, "the header claims " + std::to_string(header_bytes) +
                   " bytes, over the format's 100 MB: is this a safetensors file?");
  }
  if (header_bytes > mapping->size() - 8) {
    fail(file, "the header claims " + std::to_string(header_bytes) + " bytes, but only " +
                   std::to_string(mapping->size() - 8) +
                   " follow (cut short while it was copied?)");
  }
  char* data = mapping->data() + 8 + header_bytes;
  const uint64_t data_bytes = mapping->size() - 8 - header_bytes;
  detail::SafetensorsHeader header =
      detail::parse_header(mapping->text().substr(8, header_bytes), data_bytes, file.string());
  Safetensors out;
  for (const auto& [name, entry] : header.tensors) {
    if (entry.dtype == at::kBool)
      check_bools(data + entry.begin, entry.end - entry.begin, name, file);
    out.tensors.emplace(name, make_tensor(entry, data + entry.begin, mapping));
  }
  out.metadata = std::move(header.metadata);
  out.source = file;
  return out;
}

Safetensors read_checkpoint(const std::filesystem::path& file_or_folder) {
  if (!std::filesystem::is_directory(file_or_folder)) {
    return file_or_folder.extension() == ".json" ? read_sharded(file_or_folder)
                                                 : read_safetensors(file_or_folder);
  }
  const auto index = file_or_folder / "model.safetensors.index.json";
  // A symbolic link that leads nowhere counts as there, and the error names it.
  if (std::filesystem::exists(std::filesystem::symlink_status(index))) return read_sharded(index);
  return read_safetensors(file_or_folder / "model.safetensors");
}

}  // namespace graft::formats
