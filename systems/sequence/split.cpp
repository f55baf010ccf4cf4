#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <string>

#include "graft/systems/ring_attention.h"
#include "systems/sequence/pieces.h"

namespace graft::systems {
namespace {

int64_t chunks_of(int size, Split split) {
  return split == Split::ZigZag ? int64_t{2} * size : size;
}

void check_place(const char* what, int rank, int size) {
  TORCH_CHECK_VALUE(size >= 1 && rank >= 0 && rank < size, what, ": came rank ", rank, " of ", size,
                    " processes; expected a rank from 0 to size - 1");
}

int64_t checked_dim(const char* what, const at::Tensor& tensor, int64_t dim) {
  TORCH_CHECK_VALUE(tensor.defined(), what, ": the tensor is undefined");
  TORCH_CHECK_VALUE(dim >= -tensor.dim() && dim < tensor.dim(), what, ": the dimension came as ",
                    dim, " for a tensor of ", tensor.sizes(),
                    "; expected that of the sequence, from ", -tensor.dim(), " to ",
                    tensor.dim() - 1);
  return dim < 0 ? dim + tensor.dim() : dim;
}

}  // namespace

Piece piece_of(int rank, int owner, int64_t length, const SequenceOptions& options) {
  if (!options.causal) return {0, length, 0, length};
  // Local order is global order, so a process's own block is a triangle whatever the split.
  if (owner == rank) return {0, length, 0, length, true};
  if (options.split == Split::Contiguous)
    return owner < rank ? Piece{0, length, 0, length} : Piece{};
  // Of a block from before, only its first chunk lies before the queries, and before all of them.
  // One from after lies wholly between the two chunks of queries.
  const int64_t half = length / 2;
  return owner < rank ? Piece{0, length, 0, half} : Piece{half, half, 0, length};
}

int64_t scores_of_process(int64_t local_length, int rank, int size,
                          const SequenceOptions& options) {
  check_place("scores_of_process", rank, size);
  int64_t scores = 0;
  for (int owner = 0; owner < size; ++owner)
    scores += piece_of(rank, owner, local_length, options).scores();
  return scores;
}

at::Tensor split_sequence(const at::Tensor& whole, int64_t dim, int rank, int size, Split split) {
  check_place("split_sequence", rank, size);
  dim = checked_dim("split_sequence", whole, dim);
  const int64_t length = whole.size(dim), count = chunks_of(size, split);
  TORCH_CHECK_VALUE(length % count == 0, "split_sequence: dimension ", dim, " of ", whole.sizes(),
                    " has ", length, " tokens, which do not make ", count,
                    " equal chunks; pad the sequence to ", (length + count - 1) / count * count);
  const int64_t chunk = length / count;
  const at::Tensor first = whole.narrow(dim, rank * chunk, chunk);
  // Not contiguous(): a part in one piece would stay a view, that writes to `whole` and keeps it.
  if (split == Split::Contiguous) return first.clone(at::MemoryFormat::Contiguous);
  return at::cat({first, whole.narrow(dim, (count - 1 - rank) * chunk, chunk)}, dim);
}

at::Tensor join_sequence(const std::vector<at::Tensor>& parts, int64_t dim, Split split) {
  TORCH_CHECK_VALUE(!parts.empty(), "join_sequence: no parts came; expected one per process");
  for (const at::Tensor& part : parts) {
    const int64_t at = checked_dim("join_sequence", part, dim);
    TORCH_CHECK_VALUE(part.sizes() == parts[0].sizes(), "join_sequence: parts of ",
                      parts[0].sizes(), " and ", part.sizes(), " came; expected equal ones");
    TORCH_CHECK_VALUE(split == Split::Contiguous || part.size(at) % 2 == 0,
                      "join_sequence: a part has ", part.size(at),
                      " tokens; zig-zag parts are two equal chunks. Is the split contiguous?");
  }
  dim = checked_dim("join_sequence", parts[0], dim);
  if (split == Split::Contiguous) return at::cat(parts, dim);
  const int64_t chunk = parts[0].size(dim) / 2;
  std::vector<at::Tensor> chunks;
  for (const at::Tensor& part : parts) chunks.push_back(part.narrow(dim, 0, chunk));
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    chunks.push_back(part->narrow(dim, chunk, chunk));
  return at::cat(chunks, dim);
}

at::Tensor join_sequence(const at::Tensor& part, int64_t dim, Group& group, Split split) {
  dim = checked_dim("join_sequence", part, dim);
  return join_sequence(group.all_gather(part.detach().contiguous()).unbind(), dim, split);
}

at::Tensor sequence_positions(int64_t local_length, int rank, int size, Split split) {
  check_place("sequence_positions", rank, size);
  return split_sequence(at::arange(local_length * size, at::kLong), 0, rank, size, split);
}

}  // namespace graft::systems
