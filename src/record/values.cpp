// From boxed values to operands: which memory a tensor lies in, and how.
#include <ATen/Dispatch.h>
#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>

#include "record/numbers.h"
#include "record/recorder.h"
#include "record/symbol.h"

namespace graft::record {
namespace {

// How many tensors of a storage are looked through for one that is the same: an operator's inputs
// are mostly what the last few operators made.
constexpr int kRemembered = 8;

/// Of a tensor with one element.
c10::Scalar element_of(const at::Tensor& tensor) {
  return AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(
      c10::kBool, c10::kHalf, c10::kBFloat16, tensor.scalar_type(), "element_of",
      [&] { return c10::Scalar(*tensor.const_data_ptr<scalar_t>()); });
}

/// The value of a 0-dim tensor that stands for a C++ number; those have one of the four widest
/// types.
std::optional<c10::Scalar> number_in(const at::Tensor& tensor) {
  const c10::ScalarType type = tensor.scalar_type();
  if (!tensor.unsafeGetTensorImpl()->is_wrapped_number() || tensor.dim() != 0 ||
      (type != c10::kDouble && type != c10::kLong && type != c10::kBool &&
       type != c10::kComplexDouble))
    return std::nullopt;
  return element_of(tensor);
}

/// The number that x.index_put_(indices, number) made a tensor of.
std::optional<c10::Scalar> number_put(const at::Tensor& tensor) {
  if (tensor.dim() != 0 || tensor.is_complex() || !inside_index_put_of_number())
    return std::nullopt;
  return element_of(tensor);
}

bool holds_only_numbers(const c10::IValue& value) {
  if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (!holds_only_numbers(element)) return false;
    }
    return true;
  }
  const bool symbolic = value.isSymInt() || value.isSymFloat() || value.isSymBool();
  return value.isNone() || (value.isScalar() && !symbolic) || value.isString() ||
         value.isDevice() || value.isGenerator() || value.isStream();
}

bool flat_list(const c10::IValue& value) {
  return value.isIntList() || value.isDoubleList() || value.isBoolList() ||
         value.isComplexDoubleList();
}

Operand tensors(Operand::Kind kind, TensorIds indices) {
  return {kind, {}, std::move(indices)};
}

}  // namespace

namespace {

bool is_dense(const c10::TensorImpl& tensor, c10::DispatchKeySet keys) {
  // What a dense CPU tensor may carry; any other key (Sparse…, Quantized…, Conjugate, Negative,
  // Python, Functionalize, another device's backend) changes what its operators do.
  constexpr c10::DispatchKeySet kAllowed({
      c10::DispatchKey::CPU,
      c10::DispatchKey::AutogradCPU,
      c10::DispatchKey::ADInplaceOrView,
      c10::DispatchKey::AutocastCPU,
  });
  return (keys.raw_repr() & ~kAllowed.raw_repr()) == 0 && tensor.unsafe_storage();
}

}  // namespace

bool is_plain(const c10::TensorImpl& tensor) {
  return is_dense(tensor, tensor.key_set());
}

bool is_readable(const c10::TensorImpl& tensor) {
  return is_dense(tensor, tensor.key_set().remove(c10::DispatchKey::Conjugate));
}

bool same_layout(const c10::TensorImpl& tensor, const TensorInfo& info, bool address) {
  const c10::StorageImpl* storage = tensor.unsafe_storage().unsafeGetStorageImpl();
  int64_t offset = tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  if (address && storage != nullptr) offset += reinterpret_cast<int64_t>(storage->data());
  return info.byte_offset == offset && c10::typeMetaToScalarType(tensor.dtype()) == info.dtype &&
         tensor.sizes() == c10::IntArrayRef(info.sizes) &&
         tensor.strides() == c10::IntArrayRef(info.strides);
}

int Recorder::describe(const c10::TensorImpl& tensor, int storage) {
  Storages::State& state = storages_.state(storage);
  StorageInfo& info = trace_.storages[storage];
  const bool address = info.origin != StorageInfo::Origin::Made;
  for (int i = state.newest, n = 0; i >= 0 && n < kRemembered; i = older_[i], ++n) {
    if (same_layout(tensor, trace_.tensors[i], address) &&
        trace_.tensors[i].wrapped_number == tensor.is_wrapped_number() &&
        trace_.tensors[i].conjugated == tensor.is_conj()) {
      return i;
    }
  }
  const c10::Storage& memory = tensor.unsafe_storage();
  TensorInfo& added = trace_.tensors.emplace_back();
  added.storage = storage;
  added.dtype = c10::typeMetaToScalarType(tensor.dtype());
  added.byte_offset = tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  if (address) {
    added.byte_offset += reinterpret_cast<int64_t>(memory.data());
  } else {
    // out= and resize_ may enlarge what an operator has made.
    info.bytes = std::max(info.bytes, static_cast<int64_t>(memory.nbytes()));
  }
  added.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  added.strides.assign(tensor.strides().begin(), tensor.strides().end());
  added.wrapped_number = tensor.is_wrapped_number();
  added.conjugated = tensor.is_conj();
  older_.push_back(state.newest);
  state.newest = static_cast<int>(trace_.tensors.size()) - 1;
  return state.newest;
}

c10::IValue Recorder::constant(const c10::IValue& value) {
  if (flat_list(value) || (value.isList() && holds_only_numbers(value))) {
    // TorchScript may change its own list later; a list boxed for this call has no other owner.
    return value.use_count() > 1 ? c10::IValue(value.toList().copy()) : value;
  }
  if (!holds_only_numbers(value)) {
    give_up(c10::str(current(), " takes or returns a ", value.tagKind(),
                     ", which a plan cannot keep; call it outside the compiled function"));
  }
  return value;
}

Operand Recorder::input(const c10::IValue& value, const ArgumentFacts& facts) {
  using Kind = Operand::Kind;
  if (facts.kind == Kind::Tensor && (value.isTensor() || value.isNone())) {
    return tensors(Kind::Tensor, {value.isNone() ? -1 : input_tensor(value.toTensor(), facts)});
  }
  if (facts.kind != Kind::Constant && value.isList()) {
    Operand operand = tensors(facts.kind, {});
    const c10::ArrayRef<c10::IValue> elements = value.toListRef();
    operand.tensors.reserve(elements.size());
    for (const c10::IValue& element : elements) {
      operand.tensors.push_back(element.isNone() ? -1 : input_tensor(element.toTensor(), facts));
      if (trace_.broken) break;
    }
    return operand;
  }
  if (const at::Tensor* number = number_behind(value)) {
    ArgumentFacts read;
    read.access = Access::Read;
    // One from outside is nothing that the run made, wherever its memory was before.
    const bool outside = storages_.find(*number->unsafeGetTensorImpl()) < 0;
    return tensors(Kind::Number, {outside ? capture(*number) : input_tensor(*number, read)});
  }
  return {Kind::Constant, constant(value), {}};
}

int Recorder::input_tensor(const at::Tensor& tensor, const ArgumentFacts& facts) {
  if (!tensor.defined()) return -1;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const int storage = storages_.find(impl);
  // A conjugate is known as what a recorded operator made, and is only read.
  const bool made = storage >= 0 && (trace_.storages[storage].origin == StorageInfo::Origin::Made ||
                                     known_.find(&impl) != nullptr);
  if (!is_plain(impl) && !(is_readable(impl) && made && !facts.writes())) {
    give_up(c10::str(current(), " got a ", describe_tensor(tensor),
                     "; Graft compiles dense CPU tensors: convert it, or call the operator outside "
                     "the compiled function"));
    return -1;
  }
  if (storage < 0) return unknown_tensor(tensor, facts);
  if (trace_.storages[storage].origin == StorageInfo::Origin::Made) {
    if (facts.access == Access::Read || facts.access == Access::ReadWrite) {
      check_filled(tensor, storage);
    }
  } else if (known_.find(&impl) == nullptr) {
    // A tensor object that no recorded operator made, over memory that was there before.
    if (trace_.storages[storage].origin == StorageInfo::Origin::Captured &&
        !storages_.state(storage).range.contains(reach(impl)))
      return capture(tensor);
    aliases_.push_back({tensor, Held(impl)});
    known_.insert(&impl, {});
    gradients_.note(tensor, /*from_start=*/false);
  }
  return describe(impl, storage);
}

int Recorder::constant_tensor(const at::Tensor& tensor, c10::Scalar number) {
  TensorInfo& info = trace_.tensors.emplace_back();
  info.dtype = tensor.scalar_type();
  info.wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  info.constant = std::move(number);
  older_.push_back(-1);
  return static_cast<int>(trace_.tensors.size()) - 1;
}

int Recorder::unknown_tensor(const at::Tensor& tensor, const ArgumentFacts& facts) {
  if (auto number = number_in(tensor)) return constant_tensor(tensor, std::move(*number));
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const Range range = reach(impl);
  if (const int storage = storages_.argument_at(range); storage >= 0) {
    storages_.add_alias(impl, storage);
    aliases_.push_back({tensor, Held(impl)});
    known_.insert(&impl, {});
    return describe(impl, storage);
  }
  if (allocations_.contain(range)) {
    const bool read = facts.access == Access::Read && facts.kind == Operand::Kind::Tensor;
    if (auto number = read ? number_put(tensor) : std::nullopt)
      return constant_tensor(tensor, std::move(*number));
    give_up(c10::str(current(), " got a ", describe_tensor(tensor),
                     " that no recorded operator made: a kernel was called past the dispatcher; "
                     "call the public at:: function instead, or make the tensor outside the "
                     "compiled function and capture it or pass it as an argument"));
    return -1;
  }
  // p.grad().data(): another object over the memory of a gradient that is there at each call.
  const at::Tensor gradient = gradients_.over(impl.unsafe_storage().unsafeGetStorageImpl());
  if (gradient.defined() && !gradient.is_same(tensor)) {
    capture(gradient);
    return trace_.broken ? -1 : input_tensor(tensor, {});
  }
  return capture(tensor);
}

int Recorder::capture(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const int index = static_cast<int>(trace_.captured.size());
  const int storage = storages_.add_captured(impl, index);
  if (storage < 0) {
    give_up(c10::str(current(), " got a captured ", describe_tensor(tensor),
                     " whose memory overlaps several others'; pass it as an argument"));
    return -1;
  }
  const int info = describe(impl, storage);
  trace_.captured.push_back(tensor);
  trace_.captured_tensors.push_back(info);
  captured_before_.emplace_back(impl);
  gradients_.note(tensor, /*from_start=*/false);
  known_.insert(&impl, {Known::Kind::Captured, index});
  return info;
}

bool Recorder::is_filled(const at::Tensor& tensor, int storage) {
  const Storages::State& state = storages_.state(storage);
  if (state.written || tensor.numel() == 0) return true;
  if (!state.of_numbers) return false;
  const std::vector<char> now = content_of(storage);
  std::vector<char>& numbers = trace_.storages[storage].numbers;
  if (numbers.empty()) numbers = now;
  return numbers == now;  // otherwise somebody wrote to it meanwhile
}

void Recorder::check_filled(const at::Tensor& tensor, int storage) {
  if (is_filled(tensor, storage)) return;
  const int maker = trace_.storages[storage].maker;
  give_up(c10::str(current(), " reads a ", describe_tensor(tensor), " that ",
                   toString(trace_.ops[maker].op.operator_name()),
                   " made and no recorded operator filled (a data pointer or another thread "
                   "did); make it outside the compiled function and capture it or "
                   "pass it as an argument, or fill it by operators"));
}

Operand Recorder::output(const c10::IValue& value, Operand::Kind kind) {
  using Kind = Operand::Kind;
  if (value.isTensor()) {
    return tensors(Kind::Tensor, {output_tensor(value.toTensor())});
  }
  if (value.isTensorList() || (kind != Kind::Constant && value.isList())) {
    Operand operand = tensors(kind == Kind::Constant ? Kind::TensorList : kind, {});
    for (const c10::IValue& element : value.toListRef()) {
      operand.tensors.push_back(element.isTensor() ? output_tensor(element.toTensor()) : -1);
    }
    return operand;
  }
  return {Kind::Constant, constant(value), {}};
}

int Recorder::output_tensor(const at::Tensor& tensor) {
  if (!tensor.defined() || trace_.broken) return -1;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!is_readable(impl)) {
    give_up(c10::str(current(), " made a ", describe_tensor(tensor),
                     "; Graft compiles dense CPU tensors: call it outside the compiled function"));
    return -1;
  }
  differentiates_ = differentiates_ || (c10::GradMode::is_enabled() && impl.requires_grad());
  int storage = storages_.find(impl);
  if (storage < 0) {
    const int maker = static_cast<int>(trace_.ops.size()) - 1;
    storage = storages_.add_made(impl, maker, !facts_->uninitialized);
    Storages::State& state = storages_.state(storage);
    state.constant = constant_;
    state.derived = derived_;
    state.of_numbers = facts_->uninitialized && tensor.numel() <= kMostNumbers &&
                       tensor.dim() == 1 && inside_at_tensor();
    if (state.written) keep_content(storage);
  } else if (trace_.storages[storage].origin != StorageInfo::Origin::Made &&
             known_.find(&impl) == nullptr) {
    known_.insert(&impl, {});
  }
  return describe(impl, storage);
}

}  // namespace graft::record
