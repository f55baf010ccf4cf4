#include <ATen/ops/tensor.h>
#include <c10/util/accumulate.h>

#include <bit>
#include <functional>

#include "graft/systems/gradient_compression.h"

namespace graft::systems {
namespace {

int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<int64_t>(tensor.nbytes());
}

/// The number of values comes first.
std::vector<int64_t> content_of(const at::Tensor& gradient,
                                const std::vector<std::vector<int64_t>>& shapes,
                                const std::vector<int64_t>& parameters) {
  std::vector<int64_t> out = {gradient.numel()};
  const auto add = [&](at::IntArrayRef numbers) {
    out.push_back(static_cast<int64_t>(numbers.size()));
    out.insert(out.end(), numbers.begin(), numbers.end());
  };
  if (shapes.empty()) add(gradient.sizes());
  for (const auto& shape : shapes) add(shape);
  add(parameters);
  return out;
}

class Uncompressed final : public Compressor {
 public:
  std::string name() const override { return "uncompressed"; }

 protected:
  void average(Group& group, const at::Tensor& gradient, size_t, const Shapes&) override {
    all_reduce(group, gradient);
    gradient.div_(group.size());
  }
  std::vector<double> options() const override { return {}; }
};

}  // namespace

Compressor::~Compressor() = default;

void Compressor::all_reduce(Group& group, const at::Tensor& tensor) {
  group.all_reduce(tensor);
  count_sent(2 * (group.size() - 1) * bytes_of(tensor) / group.size());
}

at::Tensor Compressor::all_gather(Group& group, const at::Tensor& tensor) {
  count_sent((group.size() - 1) * bytes_of(tensor));
  return group.all_gather(tensor);
}

void Compressor::agree(Group& group, const Content& content, size_t bucket) {
  const auto known = contents_.find(bucket);
  if (known != contents_.end() && known->second == content) return;
  contents_.erase(bucket);  // until all processes agree
  forget(bucket);
  constexpr uint64_t kPrime = 1099511628211u;
  uint64_t kind = std::hash<std::string>()(name()), print = 0;
  for (const double option : options()) kind = kind * kPrime + std::bit_cast<uint64_t>(option);
  for (const int64_t number : content) print = (print + static_cast<uint64_t>(number) + 1) * kPrime;
  const at::Tensor all =
      group.all_gather(at::tensor({content.front(), static_cast<int64_t>(bucket),
                                   static_cast<int64_t>(kind), static_cast<int64_t>(print)},
                                  at::kLong));
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto of = [&](int process, int i) { return all[process][i].item<int64_t>(); };
    const int own = group.rank();
    TORCH_CHECK_VALUE(of(rank, 0) == of(own, 0) && of(rank, 1) == of(own, 1), name(), ": process ",
                      own, " came with ", of(own, 0), " values in bucket ", of(own, 1),
                      " and process ", rank, " with ", of(rank, 0), " in bucket ", of(rank, 1),
                      "; expected the same gradients in the same order on all");
    TORCH_CHECK_VALUE(of(rank, 3) == of(own, 3), name(), ": processes ", own, " and ", rank,
                      " came with gradients of other shapes or parameters in bucket ", bucket,
                      "; expected the same gradients in the same order on all");
    TORCH_CHECK_VALUE(of(rank, 2) == of(own, 2), name(), ": process ", rank,
                      " has another compressor or other options than process ", own,
                      "; make them equal on all");
  }
  contents_[bucket] = content;
}

void Compressor::reduce(Group& group, const at::Tensor& gradient, size_t bucket,
                        const Shapes& shapes, const std::vector<int64_t>& parameters) {
  TORCH_CHECK_VALUE(gradient.defined() && gradient.device().is_cpu() &&
                        gradient.layout() == at::kStrided && gradient.is_contiguous() &&
                        gradient.is_floating_point() && gradient.scalar_type() != at::kDouble,
                    name(), ": expected a dense, contiguous CPU tensor of fp32, bf16 or fp16, got ",
                    gradient.defined()
                        ? c10::str(gradient.sizes(), ' ', gradient.scalar_type(), " with strides ",
                                   gradient.strides(), " on ", gradient.device())
                        : std::string("an undefined one"));
  TORCH_CHECK_VALUE(
      gradient.numel() < (int64_t{1} << 31), name(), ": got ", gradient.numel(),
      " values; expected fewer than 2^31 in one bucket, since indices are of 32 bits");
  int64_t values = 0;
  for (const auto& shape : shapes) values += c10::multiply_integers(shape);
  TORCH_CHECK_VALUE(shapes.empty() || values == gradient.numel(), name(), ": the shapes have ",
                    values, " values and the gradient ", gradient.numel(),
                    "; expected those of its parameters");
  agree(group, content_of(gradient, shapes, parameters), bucket);
  if (gradient.numel() == 0 || group.size() == 1) return;
  const at::Tensor flat = gradient.detach().view(-1), work = flat.to(at::kFloat);
  const bool has_own = shapes.empty() && gradient.dim() > 1;
  average(group, work, bucket, has_own ? Shapes{gradient.sizes().vec()} : shapes);
  if (!work.is_same(flat)) flat.copy_(work);
}

void Compressor::reset() {
  for (const auto& [bucket, content] : contents_) forget(bucket);
  contents_.clear();
}

std::shared_ptr<Compressor> uncompressed() {
  return std::make_shared<Uncompressed>();
}

}  // namespace graft::systems
