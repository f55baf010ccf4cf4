#include "runtime/key/key.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include "record/gradients.h"
#include "tensor/denormals.h"

namespace graft::runtime {

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

/// Plain CPU tensors. Everything else (sparse, quantised, functorch's and Python's wrappers, other
/// devices) stays eager.
const uint64_t kPlain = DispatchKeySet({DispatchKey::CPU, DispatchKey::AutogradCPU,
                                        DispatchKey::ADInplaceOrView, DispatchKey::AutocastCPU})
                            .raw_repr();
const uint64_t kLazyBits =
    DispatchKeySet({DispatchKey::Conjugate, DispatchKey::Negative}).raw_repr();
/// What a thread may include without anybody watching its operators (a tracer, functorch, Python
/// modes).
const uint64_t kPlainThread =
    c10::default_included_set.raw_repr() |
    DispatchKeySet({DispatchKey::AutocastCPU, DispatchKey::ADInplaceOrView}).raw_repr();

enum TensorFlag : uint64_t {
  kDefined = 1,
  kRequiresGrad = 2,
  kWrappedNumber = 4,
  kHasGradient = 8,
  kHasHooks = 16,
  kComputed = 32,  ///< from others that require grad: no leaf
};

/// dtype | dims << 8 | flags << 40
uint64_t kind_of(const c10::TensorImpl& impl, size_t dims) {
  bool requires_grad = impl.autograd_meta() != nullptr && impl.requires_grad();
  uint64_t flags = kDefined;
  if (requires_grad) flags |= kRequiresGrad;
  if (impl.autograd_meta() != nullptr && impl.grad().defined()) flags |= kHasGradient;
  if (requires_grad && record::has_hooks(impl)) flags |= kHasHooks;
  if (requires_grad && record::is_computed(impl)) flags |= kComputed;
  if (impl.is_wrapped_number()) flags |= kWrappedNumber;
  return static_cast<uint64_t>(impl.dtype().toScalarType()) | dims << 8 | flags << 40;
}

constexpr uint64_t without(uint64_t flags) {
  return ~(flags << 40);
}

/// [key set][kind_of, masked][sizes][strides]
uint64_t* write_tensor(uint64_t* out, const c10::TensorImpl& impl, c10::IntArrayRef sizes,
                       uint64_t mask = ~uint64_t{0}) {
  *out++ = impl.key_set().raw_repr();
  *out++ = kind_of(impl, sizes.size()) & mask;
  c10::IntArrayRef strides = impl.strides();
  for (int64_t size : sizes) *out++ = static_cast<uint64_t>(size);
  for (int64_t stride : strides) *out++ = static_cast<uint64_t>(stride);
  return out;
}

/// Are `words` what write_tensor() writes, but for the flags of the kind that `mask` leaves out?
/// Takes them off.
bool take_tensor(std::span<const uint64_t>& words, const c10::TensorImpl& impl, uint64_t mask) {
  const c10::IntArrayRef sizes = impl.sizes(), strides = impl.strides();
  const size_t dims = sizes.size();
  if (words.size() < 2 + 2 * dims || words[0] != impl.key_set().raw_repr() ||
      words[1] != (kind_of(impl, dims) & mask))
    return false;
  for (size_t d = 0; d < dims; ++d)
    if (words[2 + d] != static_cast<uint64_t>(sizes[d]) ||
        words[2 + dims + d] != static_cast<uint64_t>(strides[d]))
      return false;
  words = words.subspan(2 + 2 * dims);
  return true;
}

Unsupported::Kind unsupported(const at::Tensor& tensor, bool forward_grad) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  uint64_t keys = impl.key_set().raw_repr();
  if ((keys & ~kPlain) != 0)
    return (keys & ~kPlain & ~kLazyBits) != 0 ? Unsupported::Kind::Tensor
                                              : Unsupported::Kind::LazyBit;
  if (forward_grad && impl.autograd_meta() != nullptr && impl._fw_grad(0, tensor).defined())
    return Unsupported::Kind::ForwardGrad;
  return Unsupported::Kind::None;
}

/// (float32MatmulPrecision() throws where the user set both kinds of switches.)
at::Float32Precision precision_of_products() {
  return at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
}

uint64_t context_flags(const c10::AutogradState& autograd, bool autocast) {
  const at::Context& context = at::globalContext();
  uint64_t flags =
      static_cast<uint64_t>(autograd.get_grad_mode()) | autograd.get_inference_mode() << 1 |
      autograd.get_fw_grad_mode() << 2 | context.deterministicAlgorithms() << 3 |
      context.deterministicFillUninitializedMemory() << 4 | context.userEnabledFlashSDP() << 5 |
      context.userEnabledMathSDP() << 6 | context.userEnabledMemEfficientSDP() << 7 |
      context.userEnabledMkldnn() << 8 | flushes_denormals() << 9 |
      torch::autograd::AnomalyMode::is_enabled() << 10 |
      torch::autograd::AnomalyMode::should_check_nan() << 11 | products_may_be_short() << 12;
  flags |= static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 16;
  if (autocast)
    flags |= (static_cast<uint64_t>(at::autocast::get_autocast_dtype(at::kCPU)) + 1) << 24 |
             static_cast<uint64_t>(at::autocast::is_autocast_cache_enabled()) << 32;
  return flags;
}

}  // namespace

void touch_settings() {
  context_flags(c10::AutogradState::get_tls_state(), /*autocast=*/true);
}

bool products_may_be_short() {
  return precision_of_products() == at::Float32Precision::BF16;
}

namespace {

/// What a key begins with.
constexpr size_t kHeadWords = 4;
uint64_t* write_head(uint64_t* out, const detail::FlatArgs& args,
                     const c10::impl::LocalDispatchKeySet& local,
                     const c10::AutogradState& autograd) {
  const bool autocast = !local.excluded_.has(DispatchKey::AutocastCPU);
  *out++ = args.tensors.size() | static_cast<uint64_t>(args.statics.size()) << 32;
  *out++ = local.included_.raw_repr();
  *out++ = local.excluded_.raw_repr();
  *out++ = context_flags(autograd, autocast);
  return out;
}

}  // namespace

Unsupported Key::build(const detail::FlatArgs& args, std::span<const WeakTensor> leaves,
                       bool links) {
  words.clear();
  c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  if ((local.included_.raw_repr() & ~kPlainThread) != 0) return {Unsupported::Kind::ThreadState};
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  bool forward_grad = autograd.get_fw_grad_mode();

  uint64_t* out = write_head(words.room(kHeadWords + args.statics.size()), args, local, autograd);
  for (uint64_t word : args.statics) *out++ = word;
  words.end_at(out);
  for (size_t i = 0; i < args.tensors.size(); ++i) {
    const at::Tensor& tensor = *args.tensors[i];
    if (!tensor.defined()) {
      words.push(0), words.push(0);
      continue;
    }
    if (auto kind = unsupported(tensor, forward_grad); kind != Unsupported::Kind::None)
      return {kind, static_cast<int>(i)};
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    c10::IntArrayRef sizes = impl.sizes();
    words.end_at(write_tensor(words.room(2 + 2 * sizes.size()), impl, sizes,
                              links ? without(0) : without(kComputed)));
  }
  append_overlaps(words, {args.tensors.data(), args.tensors.size()});
  constexpr size_t kPerWord = 32;
  for (size_t i = 0; i < leaves.size(); i += kPerWord) {
    uint64_t states = 0;
    for (size_t k = i; k < std::min(i + kPerWord, leaves.size()); ++k) {
      const at::Tensor leaf(leaves[k].lock());
      const uint64_t state = !leaf.defined() ? 0 : record::gradient_of(leaf).defined() ? 2 : 1;
      states |= state << 2 * (k - i);
    }
    words.push(states);
  }
  hash = hash_words(words.view());
  return {};
}

bool fits(const StoredKey& key, const detail::FlatArgs& args) {
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  if ((local.included_.raw_repr() & ~kPlainThread) != 0) return false;
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  std::span<const uint64_t> left = key.words;
  auto take = [&](const uint64_t* words, size_t count) {
    if (left.size() < count) return false;
    for (size_t k = 0; k < count; ++k)
      if (words[k] != left[k]) return false;
    left = left.subspan(count);
    return true;
  };
  uint64_t head[kHeadWords];
  write_head(head, args, local, autograd);
  if (!take(head, kHeadWords) || !take(args.statics.data(), args.statics.size())) return false;
  for (const at::Tensor* tensor : args.tensors) {
    if (!tensor->defined()) {
      constexpr uint64_t kNone[2] = {0, 0};
      if (!take(kNone, 2)) return false;
      continue;
    }
    if (unsupported(*tensor, autograd.get_fw_grad_mode()) != Unsupported::Kind::None ||
        !take_tensor(left, *tensor->unsafeGetTensorImpl(), without(kComputed)))
      return false;
  }
  Words overlaps;
  append_overlaps(overlaps, {args.tensors.data(), args.tensors.size()});
  return same_words(overlaps.view(), left);
}

bool has_layout(std::span<const uint64_t> words, const c10::TensorImpl& impl, bool hooks) {
  const uint64_t ignored = kHasGradient | (hooks ? uint64_t{0} : kHasHooks);
  return take_tensor(words, impl, without(ignored)) && words.empty();
}

void append_layout(Words& words, const at::Tensor& tensor, bool hooks) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  c10::IntArrayRef sizes = impl.sizes();
  uint64_t* first = words.room(2 + 2 * sizes.size());
  uint64_t* end = write_tensor(first, impl, sizes);
  first[1] &= without(kHasGradient);
  if (!hooks) first[1] &= without(kHasHooks);
  words.end_at(end);
}

std::string Unsupported::text(const detail::FlatArgs& args) const {
  std::string who = "argument " + std::to_string(argument);
  switch (kind) {
    case Kind::None:
      return {};
    case Kind::ThreadState:
      return "a tracer, functorch or a Python dispatch mode watches this thread's operators; call "
             "the function outside of it";
    case Kind::LazyBit: {
      bool conjugate = args.tensors[static_cast<size_t>(argument)]->is_conj();
      return who + (conjugate ? " is a lazy conjugate; pass x.resolve_conj()"
                              : " is a lazy negative; pass x.resolve_neg()");
    }
    case Kind::ForwardGrad:
      return who + " carries a forward-mode gradient; call the wrapped function itself for those";
    case Kind::Tensor: {
      const at::Tensor& tensor = *args.tensors[static_cast<size_t>(argument)];
      if (!tensor.device().is_cpu())
        return who + " is on " + tensor.device().str() +
               "; Graft compiles for the CPU, move it there or stay eager";
      return who + " is not a plain strided tensor (" + c10::toString(tensor.key_set()) +
             "); pass a dense one (to_dense(), dequantize(), rename without names)";
    }
  }
  return {};
}

}  // namespace graft::runtime
