// Bits into words and back, and the names of the format.
#include "quantizer/model/pack.h"

#include <ATen/ATen.h>

#include <sstream>

namespace graft::quantizer {
namespace {

using at::Tensor;

int64_t words_of(int64_t numbers, int bits) {
  return (numbers * bits + 31) / 32;
}

void check_bits(int bits) {
  if (bits < 1 || bits > 8)
    throw GptqError("packing takes 1 to 8 bits per number; came " + std::to_string(bits));
}

// Whether column c belongs to group c / (columns / groups), as readers take it when nothing is
// said.
bool is_plain(const Tensor& group_index, int64_t groups) {
  const int64_t columns = group_index.numel();
  if (groups == 0 || columns % groups != 0) return false;
  return at::equal(group_index.to(at::kLong), at::arange(columns).floor_divide(columns / groups));
}

std::string sizes_text(const Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

}  // namespace

Tensor pack_columns(const Tensor& numbers, int bits) {
  check_bits(bits);
  TORCH_CHECK(numbers.dim() == 2 && at::isIntegralType(numbers.scalar_type(), false),
              "pack_columns: expected integers [rows, columns]");
  const Tensor from = numbers.to(at::kInt).contiguous();
  const int64_t rows = from.size(0), columns = from.size(1), words = words_of(columns, bits);
  Tensor out = at::empty({rows, words}, at::kInt);
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t* in = from.const_data_ptr<int32_t>() + row * columns;
    int32_t* to = out.mutable_data_ptr<int32_t>() + row * words;
    uint64_t held = 0;  // bits that are not yet in a word
    int count = 0;
    for (int64_t column = 0; column < columns; ++column) {
      held |= (static_cast<uint64_t>(in[column]) & mask) << count;
      count += bits;
      if (count >= 32) {
        *to++ = static_cast<int32_t>(static_cast<uint32_t>(held));
        held >>= 32;
        count -= 32;
      }
    }
    if (count > 0) *to = static_cast<int32_t>(static_cast<uint32_t>(held));
  }
  return out;
}

Tensor unpack_columns(const Tensor& packed, int bits, int64_t columns) {
  check_bits(bits);
  if (packed.scalar_type() != at::kInt || packed.dim() != 2 ||
      packed.size(1) != words_of(columns, bits)) {
    throw GptqError("packed numbers are " + std::string(c10::toString(packed.scalar_type())) + ' ' +
                    sizes_text(packed) + "; " + std::to_string(columns) + " of " +
                    std::to_string(bits) + " bits take int32 [rows, " +
                    std::to_string(words_of(columns, bits)) + "]");
  }
  const Tensor from = packed.contiguous();
  const int64_t rows = from.size(0), words = from.size(1);
  Tensor out = at::empty({rows, columns}, at::kByte);
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t* in = from.const_data_ptr<int32_t>() + row * words;
    uint8_t* to = out.mutable_data_ptr<uint8_t>() + row * columns;
    uint64_t held = 0;
    int count = 0;
    for (int64_t column = 0; column < columns; ++column) {
      if (count < bits) {
        held |= static_cast<uint64_t>(static_cast<uint32_t>(*in++)) << count;
        count += 32;
      }
      to[column] = static_cast<uint8_t>(held & mask);
      held >>= bits;
      count -= bits;
    }
  }
  return out;
}

PackedLinear pack_linear(const LayerResult& result, int bits, bool symmetric) {
  PackedLinear out;
  // Readers keep signed codes and zero points; both move by the same offset, so that unsigned ones
  // are in the words as they are.
  const int64_t offset = symmetric ? int64_t{1} << (bits - 1) : 0;
  out.packed = pack_columns(result.codes.to(at::kInt).add(offset), bits);
  out.scale = result.scale.contiguous();
  if (!symmetric) out.zero_point = pack_columns(result.zero.t(), bits).t().contiguous();
  out.shape = at::tensor({result.codes.size(0), result.codes.size(1)}, at::kLong);
  if (result.group_index.defined() && !is_plain(result.group_index, result.scale.size(1)))
    out.group_index = result.group_index.to(at::kInt).contiguous();
  return out;
}

UnpackedLinear unpack_linear(const PackedLinear& linear, int bits, const std::string& module) {
  const auto refuse = [&](const std::string& what) { throw GptqError(module + ": " + what); };
  if (linear.shape.scalar_type() != at::kLong || linear.shape.numel() != 2)
    refuse("weight_shape is not two int64 numbers");
  const int64_t rows = linear.shape[0].item<int64_t>(), columns = linear.shape[1].item<int64_t>();
  const Tensor& scale = linear.scale;
  if (scale.scalar_type() != at::kFloat || scale.dim() != 2 || scale.size(0) != rows ||
      linear.packed.dim() != 2 || linear.packed.size(0) != rows || scale.size(1) < 1) {
    refuse("weight_packed " + sizes_text(linear.packed) + " and weight_scale " + sizes_text(scale) +
           " do not fit weight_shape [" + std::to_string(rows) + ", " + std::to_string(columns) +
           "]");
  }
  const int64_t groups = scale.size(1);
  if (!linear.group_index.defined() && columns % groups != 0)
    refuse(std::to_string(groups) + " groups do not divide " + std::to_string(columns) +
           " columns");
  const Tensor group = linear.group_index.defined()
                           ? linear.group_index.to(at::kLong)
                           : at::arange(columns).floor_divide(columns / groups);
  if (group.numel() != columns ||
      (columns > 0 && (group.min().item<int64_t>() < 0 || group.max().item<int64_t>() >= groups)))
    refuse("weight_g_idx does not name a group for each column");
  UnpackedLinear out{unpack_columns(linear.packed, bits, columns), scale, {}, group};
  if (linear.zero_point.defined()) {
    out.zero = unpack_columns(linear.zero_point.t(), bits, rows).t().to(at::kFloat);
    if (out.zero.sizes() != scale.sizes()) refuse("weight_zero_point does not fit weight_scale");
  }
  return out;
}

Tensor dequantize(const PackedLinear& linear, int bits, const std::string& module) {
  const UnpackedLinear u = unpack_linear(linear, bits, module);
  Tensor code = u.codes.to(at::kFloat);
  if (u.zero.defined())
    code.sub_(u.zero.index_select(1, u.group));
  else
    code.sub_(static_cast<double>(int64_t{1} << (bits - 1)));
  return code.mul_(u.scale.index_select(1, u.group));
}

std::vector<std::pair<std::string, Tensor>> tensors_of(const PackedLinear& linear,
                                                       const std::string& module) {
  std::vector<std::pair<std::string, Tensor>> out;
  const auto add = [&](const char* name, const Tensor& tensor) {
    if (tensor.defined()) out.emplace_back(module + name, tensor);
  };
  add(".weight_packed", linear.packed);
  add(".weight_scale", linear.scale);
  add(".weight_zero_point", linear.zero_point);
  add(".weight_shape", linear.shape);
  add(".weight_g_idx", linear.group_index);
  return out;
}

PackedLinear read_packed(const formats::Safetensors& file, const std::string& module) {
  const auto if_there = [&](const char* name) {
    const auto found = file.tensors.find(module + name);
    return found == file.tensors.end() ? Tensor() : found->second;
  };
  PackedLinear out;
  out.packed = file.get(module + ".weight_packed");
  out.scale = file.get(module + ".weight_scale");
  out.zero_point = if_there(".weight_zero_point");
  out.shape = file.get(module + ".weight_shape");
  out.group_index = if_there(".weight_g_idx");
  return out;
}

}  // namespace graft::quantizer
