#include "formats/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "formats/files.h"
#include "formats/safetensors.h"

namespace graft::formats::detail {
namespace {

using c10::ScalarType;

// Beyond this, ATen's own loops give up; a longer shape is an attack or damage.
constexpr size_t kMaxRank = 64;

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw SafetensorsError(file + ": " + what);
}

// Takes the parser's events one by one, so that nothing unexpected is ever stored: a deep nest or a
// duplicate key ends the parse where it stands. The only shapes it knows:
//
//     {"__metadata__": {key: string, ...},
//      name: {"dtype": string, "shape": [n, ...], "data_offsets": [n, n]},
//      ...}
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderHandler(SafetensorsHeader& header, size_t bytes, const std::string& file)
      : header_(header), bytes_(bytes), file_(file) {}

  bool key(string_t& name) override {
    if (place_ == Place::Root) {
      begin_entry(name);
    } else if (place_ == Place::Metadata) {
      if (header_.metadata.contains(name)) {
        refuse("__metadata__ has the key " + shown(name) + " twice; expected each once");
      }
      field_ = name;
    } else {
      begin_field(name);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::Start) {
      place_ = Place::Root;
    } else if (place_ == Place::Named) {
      place_ = is_metadata_ ? Place::Metadata : Place::Tensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::Tensor) end_tensor();
    place_ = place_ == Place::Root ? Place::Done : Place::Root;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::Tensor || field_ == "dtype") unexpected("an array");
    place_ = Place::Array;
    return true;
  }

  bool end_array() override {
    place_ = Place::Tensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::Array) unexpected("the number " + std::to_string(value));
    std::vector<uint64_t>& list = field_ == "shape" ? *shape_ : *offsets_;
    if (list.size() == (field_ == "shape" ? kMaxRank : 2)) {
      refuse(tensor() + field_ + " has more than " + std::to_string(list.size()) + " numbers");
    }
    list.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::Metadata) {
      header_.metadata.emplace(field_, value);
    } else if (place_ == Place::Tensor && field_ == "dtype") {
      dtype_ = value;
    } else {
      unexpected("the string " + shown(value));
    }
    return true;
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    unexpected("the negative number " + std::to_string(value));
  }
  // Integers of more than 64 bits arrive here too.
  bool number_float(number_float_t, const string_t& text) override {
    unexpected("the number " + text + ", not an integer of 64 bits,");
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    refuse("the header " + json_error_text(position, bytes_));
  }

 private:
  enum class Place { Start, Root, Named, Metadata, Tensor, Array, Done };

  [[noreturn]] void refuse(const std::string& what) const { fail(file_, what); }
  std::string tensor() const { return "tensor " + shown(name_) + ": "; }

  [[noreturn]] void unexpected(const std::string& what) const {
    switch (place_) {
      case Place::Named:
        refuse(shown(name_) + " is " + what + "; expected an object");
      case Place::Metadata:
        refuse("__metadata__ " + shown(field_) + " is " + what + "; expected a string");
      case Place::Tensor:
        refuse(tensor() + field_ + " is " + what + "; expected " +
               (field_ == "dtype" ? "a string" : "a list of integers of at least 0"));
      case Place::Array:
        refuse(tensor() + field_ + " holds " + what + "; expected integers of at least 0");
      default:
        refuse("the header is " + what + "; expected an object of tensors");
    }
  }

  void begin_entry(const std::string& name) {
    name_ = name;
    is_metadata_ = name == "__metadata__";
    const bool twice = is_metadata_ ? std::exchange(seen_metadata_, true)
                                    : !header_.tensors.try_emplace(name).second;
    if (twice) refuse("the header has " + shown(name) + " twice; expected each name once");
    dtype_.reset();
    shape_.reset();
    offsets_.reset();
    place_ = Place::Named;
  }

  void begin_field(const std::string& field) {
    bool twice = false;
    if (field == "dtype") {
      twice = dtype_.has_value();
    } else if (field == "shape") {
      twice = shape_.has_value();
      shape_.emplace();
    } else if (field == "data_offsets") {
      twice = offsets_.has_value();
      offsets_.emplace();
    } else {
      refuse(tensor() + "unknown key " + shown(field) + "; expected dtype, shape, data_offsets");
    }
    if (twice) refuse(tensor() + field + " is there twice; expected once");
    field_ = field;
  }

  void end_tensor() {
    if (!dtype_) refuse(tensor() + "dtype is missing");
    if (!shape_) refuse(tensor() + "shape is missing");
    if (!offsets_ || offsets_->size() != 2) refuse(tensor() + "data_offsets must be [begin, end]");
    TensorEntry& entry = header_.tensors.at(name_);
    entry.dtype = dtype();
    entry.begin = (*offsets_)[0];
    entry.end = (*offsets_)[1];
    for (uint64_t size : *shape_) {
      if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        refuse(tensor() + "size " + std::to_string(size) + " in shape is over 2^63 - 1");
      }
      entry.shape.push_back(static_cast<int64_t>(size));
    }
  }

  ScalarType dtype() const {
    for (const auto& [text, type] : kDtypes) {
      if (*dtype_ == text) return type;
    }
    const std::string known = "; this reader takes " + known_dtypes();
    if (dtype_->starts_with("F8")) {
      refuse(
          tensor() + "dtype " + shown(*dtype_) +
          " is an 8-bit float, whose scales are stored apart, so reading it alone would mislead" +
          known);
    }
    refuse(tensor() + "unknown dtype " + shown(*dtype_) + known);
  }

  SafetensorsHeader& header_;
  const size_t bytes_;
  const std::string& file_;
  Place place_ = Place::Start;
  bool seen_metadata_ = false;
  bool is_metadata_ = false;
  std::string name_;   // of the tensor at hand
  std::string field_;  // of the tensor or of the metadata
  std::optional<std::string> dtype_;
  std::optional<std::vector<uint64_t>> shape_;
  std::optional<std::vector<uint64_t>> offsets_;
};

// The bytes that dtype and shape require.
uint64_t expected_bytes(const TensorEntry& entry, std::string_view name, const std::string& file) {
  uint64_t bytes = c10::elementSize(entry.dtype);
  for (int64_t size : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) ||
        bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(file, "tensor " + shown(name) + ": the shape asks for more than 2^63 - 1 bytes");
    }
  }
  return bytes;
}

std::string range(const TensorEntry& entry) {
  return "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
}

void check_coverage(const SafetensorsHeader& header, uint64_t data_bytes, const std::string& file) {
  using Row = std::pair<const std::string, TensorEntry>;
  std::vector<const Row*> rows;
  for (const Row& row : header.tensors) rows.push_back(&row);
  // By end too: an empty tensor lies before the one that starts at the same byte.
  std::sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t at = 0;
  for (const Row* row : rows) {
    const auto& [name, entry] = *row;
    if (entry.begin != at) {
      fail(file, "tensor " + shown(name) + " at bytes " + range(entry) +
                     (entry.begin < at ? " overlaps the one before, which ends at byte "
                                       : " leaves a hole: the one before ends at byte ") +
                     std::to_string(at));
    }
    at = entry.end;
  }
  if (at != data_bytes) {
    fail(file, "the tensors end at byte " + std::to_string(at) + " of the data, but the file has " +
                   std::to_string(data_bytes) + "; expected the two to be equal");
  }
}

}  // namespace

std::string known_dtypes() {
  std::string out;
  for (const auto& [name, type] : kDtypes) out += (out.empty() ? "" : " ") + std::string(name);
  return out;
}

std::string shown(std::string_view name) {
  constexpr size_t kMost = 120;
  std::string text = nlohmann::json(std::string(name.substr(0, kMost)))
                         .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (name.size() > kMost) text += "...";
  return text;
}

SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes,
                               const std::string& file) {
  if (json.empty() || json.front() != '{') fail(file, "the header does not start with '{'");
  // The JSON library takes a NUL for the end, and would not look at what follows.
  if (json.find('\0') != json.npos) fail(file, "the header is not valid JSON: it holds a NUL byte");
  SafetensorsHeader header;
  HeaderHandler handler(header, json.size(), file);
  nlohmann::json::sax_parse(json, &handler);
  for (const auto& [name, entry] : header.tensors) {
    if (entry.begin > entry.end || entry.end > data_bytes) {
      fail(file, "tensor " + shown(name) + ": data_offsets " + range(entry) +
                     " do not lie in order in the file's " + std::to_string(data_bytes) +
                     " bytes of data (cut short while it was copied?)");
    }
    const uint64_t expected = expected_bytes(entry, name, file);
    if (entry.end - entry.begin != expected) {
      fail(file, "tensor " + shown(name) + ": data_offsets " + range(entry) + " hold " +
                     std::to_string(entry.end - entry.begin) + " bytes, but " +
                     c10::toString(entry.dtype) + " of its shape takes " +
                     std::to_string(expected));
    }
  }
  check_coverage(header, data_bytes, file);
  return header;
}

}  // namespace graft::formats::detail
