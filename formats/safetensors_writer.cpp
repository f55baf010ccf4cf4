// The header is made from the declarations; every write, and the rename, is checked.
#include "formats/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>

#include "formats/files.h"
#include "formats/safetensors_header.h"

namespace graft::formats {
namespace {

using detail::kMaxHeaderBytes;
using detail::shown;

constexpr std::string_view kMetadata = "__metadata__";

std::string error_text(int error) {
  return std::generic_category().message(error);
}

// The format's name of a type, if it has one that the reader accepts.
std::optional<std::string_view> name_of(at::ScalarType type) {
  for (const auto& [name, known] : detail::kDtypes) {
    if (known == type) return name;
  }
  return std::nullopt;
}

std::string described(at::ScalarType dtype, at::IntArrayRef shape) {
  std::ostringstream text;
  text << c10::toString(dtype) << ' ' << shape;
  return text.str();
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path file, std::vector<Declared> declared,
                                     const Metadata& metadata)
    : file_(std::move(file)) {
  // Wide types first, so that every tensor starts at a multiple of its element's size.
  std::stable_sort(declared.begin(), declared.end(), [](const Declared& a, const Declared& b) {
    return c10::elementSize(a.dtype) > c10::elementSize(b.dtype);
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  uint64_t at = 0;
  for (Declared& one : declared) {
    const std::string name = one.name;
    const auto dtype = name_of(one.dtype);
    if (!dtype) {
      fail("tensor " + shown(name) + " is " + c10::toString(one.dtype) +
           ", which the format has no name for; convert it to one of " + detail::known_dtypes() +
           " first");
    }
    if (name == kMetadata) fail("a tensor cannot be named " + shown(name));
    uint64_t bytes = c10::elementSize(one.dtype);
    for (int64_t size : one.shape) {
      if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
        fail("tensor " + shown(name) + " has a shape of negative sizes or of over 2^64 bytes");
    }
    header[name] = {{"dtype", *dtype}, {"shape", one.shape}, {"data_offsets", {at, at + bytes}}};
    if (!places_.try_emplace(name, Place{std::move(one), at, at + bytes, false}).second)
      fail("tensor " + shown(name) + " is declared twice; expected each name once");
    at += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    fail("a tensor's name or the metadata is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes)
    fail("the header takes " + std::to_string(text.size()) + " bytes, over the format's 100 MB");
  const uint64_t start = 8 + text.size();
  for (auto& [name, place] : places_) {
    place.begin += start;
    place.end += start;
  }

  static std::atomic<int> number{0};
  temporary_ = file_;
  temporary_ += ".tmp" + std::to_string(::getpid()) + '-' + std::to_string(++number);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot be made: " + error_text(errno));
  try {
    const auto total = static_cast<off_t>(start + at);
    if (::fallocate(fd_, 0, 0, total) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
      fail("there is no room for its " + std::to_string(total) + " bytes: " + error_text(errno));
    }
    const uint64_t header_bytes = text.size();
    write(&header_bytes, 8, 0, "the header");
    write(text.data(), text.size(), 8, "the header");
  } catch (...) {  // the destructor does not run
    ::close(fd_);
    ::unlink(temporary_.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void SafetensorsWriter::fail(const std::string& what) const {
  throw SafetensorsError(file_.string() + ": " + what);
}

void SafetensorsWriter::write(const void* data, uint64_t bytes, uint64_t at,
                              const std::string& what) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_, from, bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      fail("could not write " + what + ": " + (n == 0 ? "no progress" : error_text(errno)));
    from += n;
    at += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
}

void SafetensorsWriter::add(std::string_view name, const at::Tensor& tensor) {
  if (fd_ < 0) fail("tensor " + shown(name) + " comes after the file was finished");
  const auto found = places_.find(name);
  if (found == places_.end()) fail("tensor " + shown(name) + " was not declared");
  Place& place = found->second;
  if (place.written) fail("tensor " + shown(name) + " was added already; expected each name once");
  if (!tensor.defined() || tensor.scalar_type() != place.what.dtype ||
      tensor.sizes() != at::IntArrayRef(place.what.shape)) {
    fail("tensor " + shown(name) + " is " +
         (tensor.defined() ? described(tensor.scalar_type(), tensor.sizes()) : "undefined") +
         "; it was declared as " + described(place.what.dtype, place.what.shape));
  }
  if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided)
    fail("tensor " + shown(name) + " is not a dense tensor in the processor's memory");
  const at::Tensor dense = tensor.contiguous().resolve_conj().resolve_neg();
  write(dense.const_data_ptr(), place.end - place.begin, place.begin, "tensor " + shown(name));
  place.written = true;
}

void SafetensorsWriter::finish() {
  if (fd_ < 0) fail("was finished already");
  for (const auto& [name, place] : places_) {
    if (!place.written) fail("tensor " + shown(name) + " was declared, but never added");
  }
  if (::fsync(fd_) != 0) fail("could not be brought to the disk: " + error_text(errno));
  if (::rename(temporary_.c_str(), file_.c_str()) != 0)
    fail("could not be renamed from " + temporary_.string() + ": " + error_text(errno));
  ::close(std::exchange(fd_, -1));
  sync_folder(file_.parent_path());
}

void write_safetensors(const std::filesystem::path& file,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const SafetensorsWriter::Metadata& metadata) {
  std::vector<SafetensorsWriter::Declared> declared;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined())
      throw SafetensorsError(file.string() + ": tensor " + shown(name) + " is undefined");
    declared.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  SafetensorsWriter writer(file, std::move(declared), metadata);
  for (const auto& [name, tensor] : tensors) writer.add(name, tensor);
  writer.finish();
}

}  // namespace graft::formats
