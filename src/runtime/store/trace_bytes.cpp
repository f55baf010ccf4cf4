#include "runtime/store/trace_bytes.h"

#include <functional>
#include <unordered_map>
#include <utility>

#include "ops/constant.h"

namespace graft::runtime {

namespace {

// Walks name all fields, so that one that is added is not forgotten: plans of traces that differ in
// it would be taken for each other.

/// Thousands of operators are looked for by these bytes each time a process starts, so that facts
/// that are short share a word.
class TraceWriter {
 public:
  explicit TraceWriter(ByteWriter& out) : out_(out) {}

  void write(const record::Trace& trace) {
    const auto& [storages, tensors, ops, arguments, captured, captured_tensors, results,
                 gradient_of, held, leaves, met_leaves, backward_inside, lost_tensor, bumped,
                 bumped_captured, default_dtype, backward, participants, broken] = trace;
    static_cast<void>(captured), static_cast<void>(participants);
    // What the callers' tensors are like at each record. No plan depends on it.
    static_cast<void>(gradient_of), static_cast<void>(held), static_cast<void>(leaves);
    static_cast<void>(met_leaves), static_cast<void>(backward_inside);
    static_cast<void>(lost_tensor);
    word(storages.size());
    for (const record::StorageInfo& storage : storages) write(storage);
    word(tensors.size());
    for (const record::TensorInfo& tensor : tensors) write(tensor);
    word(ops.size());
    for (const record::OperatorRecord& op : ops) write(op);
    for (const auto* ids : {&arguments, &captured_tensors, &bumped, &bumped_captured}) words(*ids);
    word(results.size());
    for (const record::ResultInfo& result : results) write(result);
    word(default_dtype);
    word(backward.has_value());
    if (backward) write(*backward);
    text(broken.value_or(""));
  }

 private:
  template <class T>
  void word(T value) {
    out_.structure(std::as_const(value));
  }
  template <class List>
  void words(const List& list) {
    word(list.size());
    for (const auto value : list) word(value);
  }
  void text(const std::string& text) { out_.text(const_cast<std::string&>(text)); }
  void real(double value) { out_.real(value); }

  void write(const record::StorageInfo& storage) {
    const auto& [origin, first, bytes, maker, escapes, numbers] = storage;
    word(static_cast<int>(origin) * 2 + escapes);
    word(first);
    word(bytes);
    word(maker);
    words(numbers);
  }

  void write(const record::TensorInfo& tensor) {
    const auto& [storage, dtype, byte_offset, sizes, strides] = static_cast<const View&>(tensor);
    bool dense = strides.size() == sizes.size();
    int64_t stride = 1;
    for (size_t d = sizes.size(); dense && d-- > 0; stride *= sizes[d])
      dense = strides[d] == stride;
    constexpr int64_t kByte = 256;
    word(static_cast<int64_t>(dtype) +
         kByte * (dense + 2 * tensor.wrapped_number + 4 * tensor.conjugated +
                  8 * tensor.constant.has_value()));
    word(storage);
    word(byte_offset);
    words(sizes);
    if (!dense) words(strides);
    if (tensor.constant) write(c10::IValue(*tensor.constant));
  }

  void write(const record::OperatorRecord& op) {
    const auto& [handle, inputs, outputs, mutated, tells_value, never_called] = op;
    const auto [kind, is_new] = kinds_.emplace(handle, kinds_.size());
    word(kind->second * 4 + 2 * static_cast<int>(never_called) + tells_value);
    if (is_new) {
      text(handle.operator_name().name);
      text(handle.operator_name().overload_name);
    }
    for (const auto* operands : {&inputs, &outputs}) {
      word(operands->size());
      for (const record::Operand& operand : *operands) write(operand);
    }
    words(mutated);
  }

  void write(const record::Operand& operand) {
    const auto& [kind, constant, tensors] = operand;
    constexpr int64_t kKinds = 8;
    word(static_cast<int64_t>(kind) + kKinds * static_cast<int64_t>(tensors.size()));
    for (const int id : tensors) word(id);
    if (kind == record::Operand::Kind::Constant) write(constant);
  }

  enum class Form : uint8_t { None, Bool, Int, Double, Complex, List, Other };

  void write(const c10::IValue& value) {
    if (value.isNone()) return word(Form::None);
    if (value.isBool()) return word(Form::Bool), word(value.toBool());
    if (value.isInt()) return word(Form::Int), word(value.toInt());
    if (value.isDouble()) return word(Form::Double), real(value.toDouble());
    if (value.isComplexDouble()) {
      const c10::complex<double> number = value.toComplexDouble();
      return word(Form::Complex), real(number.real()), real(number.imag());
    }
    if (value.isList()) {
      word(Form::List);
      const auto& list = value.toListRef();
      word(list.size());
      for (const c10::IValue& element : list) write(element);
      return;
    }
    word(Form::Other);
    ir::Constant other = ops::constant_of(value);
    if (auto* string = std::get_if<std::string>(&other.value))
      text(*string);
    else
      out_.complete = false;
  }

  void write(const record::ResultInfo& result) {
    for (const int value : {result.tensor, result.argument, result.captured, result.same_as})
      word(value);
    word(result.defined * 2 + result.returned);
    write(result.gradient_of);
    ir::visit(const_cast<Lineage&>(result.lineage), out_);
  }

  void write(const std::optional<CallersTensor>& tensor) {
    ir::visit(const_cast<std::optional<CallersTensor>&>(tensor), out_);
  }

  void write(const record::Trace::Backward& backward) {
    const auto& [arguments, results, operators, places, comes, inputs] = backward;
    word(arguments);
    word(results);
    word(operators);
    words(places);
    words(comes);
    word(inputs.size());
    for (const CallersTensor& input : inputs) word(input.index * 2 + input.captured);
  }

  ByteWriter& out_;
  std::unordered_map<c10::OperatorHandle, size_t> kinds_;
};

}  // namespace

void write(const record::Trace& trace, ByteWriter& writer) {
  TraceWriter(writer).write(trace);
}

}  // namespace graft::runtime
