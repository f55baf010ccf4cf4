#include "workloads/decoder/text.h"

#include <ATen/ops/tensor.h>

#include <stdexcept>
#include <vector>

#include "workloads/decoder/tiny.h"

namespace graft::workloads::decoder {

Text::Text(const std::filesystem::path& folder, int64_t vocabulary) : bytes_(vocabulary == 256) {
  const std::filesystem::path file = folder / "tokenizer.json";
  if (bytes_ || !std::filesystem::exists(file)) return;
  tokenizer_.emplace(file);
  if (tokenizer_->vocabulary() > vocabulary)
    throw std::runtime_error(file.string() + ": its ids end at " +
                             std::to_string(tokenizer_->vocabulary() - 1) +
                             ", the model's vocabulary has " + std::to_string(vocabulary) +
                             " tokens; take the tokenizer.json that belongs to the model");
}

at::Tensor Text::ids(std::string_view text) const {
  return tokenizer_ ? at::tensor(tokenizer_->encode(text), at::kLong) : byte_ids(text);
}

std::string Text::of(std::span<const int64_t> ids) const {
  if (tokenizer_) return tokenizer_->decode(ids);
  return byte_text(at::tensor(std::vector<int64_t>(ids.begin(), ids.end()), at::kLong));
}

}  // namespace graft::workloads::decoder
