// Builds the trace of one run from what the observer sees. Internal: other folders use trace.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "record/generators.h"
#include "record/gradients.h"
#include "record/holes.h"
#include "record/operators.h"
#include "record/participants.h"
#include "record/pointer_map.h"
#include "record/storages.h"
#include "record/trace.h"

namespace graft::record {

/// Tensors that Graft compiles: dense, strided, on the CPU, neither conjugated nor negated lazily,
/// no subclass.
bool is_plain(const c10::TensorImpl& tensor);
/// Plain, or the lazy conjugate of a plain tensor: operators may read it, and nothing else.
bool is_readable(const c10::TensorImpl& tensor);
/// "f32[2,3]", or "sparse f32[2,3]" with what keeps it from being plain.
std::string describe_tensor(const at::Tensor& tensor);
/// Which counter a tensor's version is kept in: views share their base's.
const void* version_counter(const at::Tensor& tensor);
/// Same place in memory, dtype, sizes and strides. `address`: `info` holds an address, not an
/// offset (see Storages).
bool same_layout(const c10::TensorImpl& tensor, const TensorInfo& info, bool address);

/// State of a tensor object that outlives the run, when it is first seen.
struct Held {
  Held() = default;
  explicit Held(const c10::TensorImpl& tensor)
      : version(tensor.version_counter().enabled() ? tensor.version_counter().current_version()
                                                   : 0),
        requires_grad(tensor.requires_grad()) {}

  uint32_t version = 0;  ///< 0 for inference tensors, which have no counter
  bool requires_grad = false;
  size_t references = 0;  ///< to an argument, the record's own among them
  size_t owners = 0;      ///< of its memory: tensors over its c10::Storage, and whoever else
};

/// What the function's result keeps alive, by itself and as the bases of its views.
class Survivors {
 public:
  explicit Survivors(const std::vector<at::Tensor>& results);
  /// Something outside holds it so many times.
  void add(const at::TensorBase& tensor, size_t references = 2);
  /// How many references to this TensorImpl the result accounts for: at most its own and the copy
  /// flattened from it.
  size_t references(const at::Tensor& tensor);
  /// How many TensorImpls over this memory the result accounts for, and the argument or capture
  /// itself where it is returned.
  size_t objects(const c10::StorageImpl* storage);

 private:
  PointerMap<size_t> references_;
  PointerMap<size_t> objects_;
};

class Recorder {
 public:
  /// `args` outlives the recorder.
  Recorder(const std::vector<at::Tensor>& args, const std::vector<at::Tensor>& leaves,
           const Allocations& allocations);

  /// The observer's two ends. They throw nothing: what goes wrong here makes the trace `broken`.
  void start(const at::RecordFunction& fn) noexcept;
  void end(const at::RecordFunction& fn) noexcept;

  int add_new_arguments();
  bool gave_up() const { return trace_.broken.has_value(); }
  /// Somebody asks a Number for its value.
  void number_is_read();
  /// After the run.
  Trace finish(const Outcome& outcome);

 private:
  void look_for_modes(const OperatorFacts& facts, size_t operators);
  /// What is known of a TensorImpl over an argument's or a capture's memory.
  struct Known {
    enum class Kind : uint8_t { Argument, Captured, View } kind = Kind::View;
    int index = -1;
  };

  // recorder.cpp: arguments and operators
  void add_argument(int k);
  void begin_operator(const OperatorFacts& facts, c10::ArrayRef<const c10::IValue> inputs);
  void end_operator(c10::ArrayRef<c10::IValue> outputs);
  bool keeps_old_value(const at::RecordFunction& fn);
  void record_kept(const at::RecordFunction& fn);
  void write(const at::Tensor& tensor, OperatorRecord& op);
  void draw(c10::ArrayRef<const c10::IValue> inputs);
  bool autocast_wrapper(const OperatorFacts& facts) const;
  bool is_constant(const at::Tensor& tensor);
  std::vector<char> content_of(int storage) const;
  /// After an operator wrote a storage: constants are small, and nobody else writes to them.
  void keep_content(int storage);
  bool only_constants(c10::ArrayRef<const c10::IValue> inputs);
  bool reads_constants(const OperatorFacts& facts, c10::ArrayRef<const c10::IValue> inputs);
  bool is_derived(const c10::IValue& input);
  bool are_given(c10::ArrayRef<const c10::IValue> inputs);
  bool has_checkable_value(const OperatorFacts& facts, c10::ArrayRef<const c10::IValue> inputs);
  void check_call(const OperatorFacts& facts, c10::ArrayRef<const c10::IValue> inputs);
  void check_strided_view(const OperatorFacts& facts, c10::ArrayRef<const c10::IValue> inputs);

  // values.cpp: from IValues to operands
  Operand input(const c10::IValue& value, const ArgumentFacts& facts);
  Operand output(const c10::IValue& value, Operand::Kind kind);
  c10::IValue constant(const c10::IValue& value);
  int input_tensor(const at::Tensor& tensor, const ArgumentFacts& facts);
  int output_tensor(const at::Tensor& tensor);
  int constant_tensor(const at::Tensor& tensor, c10::Scalar number);
  int unknown_tensor(const at::Tensor& tensor, const ArgumentFacts& facts);
  int capture(const at::Tensor& tensor);
  int describe(const c10::TensorImpl& tensor, int storage);
  /// Is all that the tensor reads known? `storage`: its own, made in the run.
  bool is_filled(const at::Tensor& tensor, int storage);
  void check_filled(const at::Tensor& tensor, int storage);

  // finish.cpp: what is known only after the run
  void capture_held(Survivors& survivors);
  void check_generators();
  void add_results(const std::vector<at::Tensor>& results, bool graph_is_spent);
  /// `who`: "result 2"
  ResultInfo result(const std::string& who, const at::Tensor& tensor,
                    const std::vector<at::Tensor>& earlier);
  void check_held(Survivors& survivors, bool graph_stays);
  void check_aliases(Survivors& survivors);
  bool held_elsewhere(const at::Tensor& tensor, Survivors& survivors) const;
  void check_kept(const std::vector<const at::Tensor*>& results, Survivors& survivors);
  std::vector<int> bumped(const std::vector<at::Tensor>& tensors, const std::vector<int>& infos,
                          const std::vector<Held>& before, const char* what);

  // leaves.cpp: gradients
  /// Calls fn(leaf, tensor) for each argument and captured tensor that can have a gradient.
  template <class Fn>
  void each_owner(Fn fn) const {
    for (bool captured : {false, true}) {
      const std::vector<at::Tensor>& tensors = captured ? trace_.captured : args_;
      for (size_t k = 0; k < tensors.size(); ++k)
        if (tensors[k].defined()) fn(CallersTensor{captured, static_cast<int>(k)}, tensors[k]);
    }
  }
  void add_gradients(std::vector<at::Tensor>& results);
  void check_leaves(bool graph_stays);
  void check_gradients_memory();
  void find_owners(Survivors& survivors, bool graph_stays);

  // lineage.cpp: how results stand to other tensors
  void add_bases(std::vector<at::Tensor>& results);
  std::pair<Lineage::Root, int> held_root(const at::Tensor& base) const;
  Lineage lineage(size_t place, const std::vector<at::Tensor>& results) const;

  /// Keeps the first reason given; nothing is recorded after it.
  void give_up(std::string why);
  std::string current() const { return facts_ == nullptr ? "" : facts_->full_name; }

  const std::vector<at::Tensor>& args_;
  const Allocations& allocations_;
  Trace trace_;
  Storages storages_;
  Generators generators_;
  Gradients gradients_;
  bool differentiates_ = false;    ///< an operator's result requires grad
  bool function_is_over_ = false;  ///< what comes now is the backward after it
  /// For each tensor of the trace, the tensor described before it in the same storage.
  std::vector<int> older_;
  PointerMap<Known> known_;
  std::vector<Held> args_before_;
  std::vector<Held> captured_before_;
  /// Over arguments' and captures' memory, from no recorded operator.
  struct Alias {
    at::Tensor tensor;
    Held before;
  };
  std::vector<Alias> aliases_;

  /// The operator now running; operators inside it are not recorded.
  const at::RecordFunction* leaf_ = nullptr;
  const OperatorFacts* facts_ = nullptr;          ///< of `leaf_`
  const c10::TensorImpl* overwritten_ = nullptr;  ///< first of `leaf_`'s, if it is a tensor
  const at::RecordFunction* kept_ = nullptr;      ///< autograd's copy of it, being made
  /// Arguments and captures `leaf_` writes.
  std::vector<std::pair<const c10::TensorImpl*, int>> written_objects_;
  bool constant_ = false;  ///< `leaf_` reads nothing but constants
  bool derived_ = false;   ///< `leaf_` reads what Storages::State::derived says
  /// `leaf_` tells the host a number that is the same at every call, or does nothing.
  bool unrecorded_ = false;
  at::Generator drawn_;  ///< what `leaf_` draws from; undefined: ATen's default one
  int exceptions_ = 0;   ///< in flight when `leaf_` began
  std::unique_ptr<Bystander> bystander_;
  bool parallel_ = false;  ///< the run itself is part of a parallel region
  bool spoke_ = false;     ///< other processes heard
  bool written_ = false;   ///< the caller's memory, or what other processes hear
  bool drew_ = false;      ///< a generator has advanced
};

/// Tells the thread's recorder, if there is one.
void number_is_read();
/// Is the run under way being recorded, and can it not be any more?
bool gave_up();

}  // namespace graft::record
