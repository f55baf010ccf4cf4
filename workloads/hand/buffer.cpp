#include "workloads/hand/buffer.h"

#include <ATen/ATen.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace graft::workloads::hand {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

void* data_of(const at::Tensor& t, at::ScalarType dtype) {
  TORCH_CHECK(t.is_cpu() && t.is_contiguous() && t.scalar_type() == dtype,
              "hand-written kernel: came a tensor of ", t.scalar_type(),
              t.is_contiguous() ? "" : ", not contiguous", ", on ", t.device(),
              "; expected a contiguous ", dtype, " on the CPU");
  return t.data_ptr();
}

}  // namespace

at::Tensor warm_like(const at::Tensor& t) {
  const size_t bytes = (t.nbytes() + kHugePage - 1) / kHugePage * kHugePage + kHugePage;
  void* memory = std::aligned_alloc(kHugePage, bytes);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  std::memset(memory, 0, bytes);
  return at::from_blob(memory, t.sizes(), [](void* p) { std::free(p); }, t.options());
}

Call call_into(Tensors results, Tensors inputs, std::function<void()> run) {
  return {[inputs, run] { run(); },
          [inputs, run, results] {
            run();
            return results;
          }};
}

const float* floats(const at::Tensor& t) {
  return static_cast<const float*>(data_of(t, at::kFloat));
}
const uint16_t* bf16s(const at::Tensor& t) {
  return static_cast<const uint16_t*>(data_of(t, at::kBFloat16));
}
float* mutable_floats(const at::Tensor& t) {
  return static_cast<float*>(data_of(t, at::kFloat));
}
uint16_t* mutable_bf16s(const at::Tensor& t) {
  return static_cast<uint16_t*>(data_of(t, at::kBFloat16));
}

}  // namespace graft::workloads::hand
