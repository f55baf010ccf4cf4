#include "record/recorder.h"

#include "graft/options.h"
#include "record/numbers.h"
#include "record/participants.h"
#include "record/symbol.h"
#include "tensor/communication.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <utility>

namespace graft::record {
namespace {

thread_local Recorder* t_recorder = nullptr;
std::atomic<std::unique_ptr<Bystander> (*)()> g_make_bystander{nullptr};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  // c10 hands its callbacks on to threads that the run starts: those have no recorder.
  if (t_recorder != nullptr) t_recorder->start(fn);
  return nullptr;
}

/// ATen's Scalars do no arithmetic of their own on what is not yet known.
bool is_about_numbers(const c10::Error& error) {
  return std::string_view(error.what_without_backtrace()).find("symbolic float") !=
         std::string_view::npos;
}

void on_end(const at::RecordFunction& fn, at::ObserverContext*) {
  if (t_recorder != nullptr) t_recorder->end(fn);
}

/// Does all that it does come as operators of its own? Of those that fill their result themselves,
/// where a gradient of it can be asked for.
bool is_told_by_others(const OperatorFacts& facts, const at::RecordFunction& fn) {
  if (!facts.fills_itself) return facts.composite;
  const c10::ArrayRef<const c10::IValue> inputs = fn.inputs();
  const c10::IValue& self = inputs[inputs.size() - facts.arguments.size()];
  return c10::GradMode::is_enabled() && self.isTensor() && self.toTensor().requires_grad();
}

/// As zero_grad() does to gradients that it then drops.
bool detaches_nothing(const OperatorFacts& facts, c10::ArrayRef<const c10::IValue> inputs) {
  if (facts.name != "aten::detach_") return false;
  const at::Tensor& self = inputs[0].toTensor();
  return self.defined() && !self.requires_grad() && !self.is_view();
}

c10::MemoryReportingInfoBase* memory_profiler() {
  return static_cast<c10::MemoryReportingInfoBase*>(
      c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE));
}

/// The thread's observers during a run, and what was there before afterwards.
class Session {
 public:
  Session(const std::vector<at::Tensor>& args, const std::vector<at::Tensor>& leaves)
      : profiler_(memory_profiler()),
        allocations_(std::make_shared<Allocations>(profiler_)),
        recorder_(args, leaves, *allocations_),
        callbacks_(at::get_record_function_tls_()),
        autocast_cache_(at::autocast::is_autocast_cache_enabled()) {
    // A profiler's callbacks look for their state in the very slot that the memory hook needs. They
    // rest meanwhile, or they would take the hook for it; the profile lacks this call's operators
    // and still has its memory.
    if (profiler_ != nullptr) at::set_record_function_tls_({});
    at::enableRecordFunction(true);
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
    // A cast that autocast remembers is made once and read by later calls, which a plan cannot
    // repeat.
    at::autocast::set_autocast_cache_enabled(false);
    hook_.emplace(c10::DebugInfoKind::PROFILER_STATE, allocations_);
    t_recorder = &recorder_;
  }

  ~Session() { stop(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Ends the watching; the recorder stays.
  void stop() {
    if (t_recorder != &recorder_) return;
    t_recorder = nullptr;
    hook_.reset();
    at::autocast::set_autocast_cache_enabled(autocast_cache_);
    if (profiler_ != nullptr) {
      at::set_record_function_tls_(callbacks_);
    } else {
      at::removeCallback(handle_);
      at::enableRecordFunction(callbacks_.tls_record_function_enabled_);
    }
  }

  Recorder& recorder() { return recorder_; }

 private:
  c10::MemoryReportingInfoBase* profiler_;
  std::shared_ptr<Allocations> allocations_;
  Recorder recorder_;
  at::RecordFunctionTLS callbacks_;
  bool autocast_cache_;
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
  std::optional<c10::DebugInfoGuard> hook_;
};

}  // namespace

bool recording() {
  return t_recorder != nullptr;
}

Trace record(const std::vector<at::Tensor>& args, const std::function<void()>& fn,
             const std::function<Outcome()>& outcome, const std::vector<at::Tensor>& leaves) {
  if (recording()) {
    fn();
    Trace trace;
    trace.broken = "called inside the recorded run of another function, which sees its operators";
    return trace;
  }
  Session session(args, leaves);
  try {
    fn();
  } catch (const c10::Error& error) {
    if (!is_about_numbers(error)) throw;
    throw Error(c10::str("ATen cannot change a graft::Number's sign, or take its logarithm (",
                         error.what_without_backtrace(),
                         "): compute it before, add(y, -a) in place of sub(y, a)"));
  }
  session.stop();
  return session.recorder().finish(outcome());
}

bool gave_up() {
  return t_recorder != nullptr && t_recorder->gave_up();
}

int add_new_arguments() {
  return t_recorder == nullptr ? 0 : t_recorder->add_new_arguments();
}

void number_is_read() {
  if (t_recorder != nullptr) t_recorder->number_is_read();
}

void set_bystander(std::unique_ptr<Bystander> (*make)()) {
  g_make_bystander.store(make);
}

Unseen::Unseen() : recorder_(std::exchange(t_recorder, nullptr)) {}
Unseen::~Unseen() {
  t_recorder = static_cast<Recorder*>(recorder_);
}

Recorder::Recorder(const std::vector<at::Tensor>& args, const std::vector<at::Tensor>& leaves,
                   const Allocations& allocations)
    : args_(args),
      allocations_(allocations),
      storages_(trace_.storages),
      parallel_(at::in_parallel_region()) {
  if (auto* make = g_make_bystander.load()) bystander_ = make();
  trace_.default_dtype = c10::get_default_dtype_as_scalartype();
  for (size_t k = 0; k < args.size(); ++k) {
    if (args[k].defined() && !is_plain(*args[k].unsafeGetTensorImpl())) {
      give_up(c10::str("argument ", k, " is a ", describe_tensor(args[k]),
                       "; Graft compiles dense CPU tensors: convert it before the call"));
      return;
    }
  }
  for (const std::vector<at::Tensor>* known : {&args, &leaves})
    for (const at::Tensor& tensor : *known) gradients_.note(tensor, /*from_start=*/true);
  storages_.add_arguments(args);
  for (int k = 0; k < static_cast<int>(args.size()); ++k) add_argument(k);
}

int Recorder::add_new_arguments() {
  function_is_over_ = true;
  const size_t known = trace_.arguments.size();
  if (!trace_.broken) storages_.add_arguments(args_, known);
  for (size_t k = known; k < args_.size() && !trace_.broken; ++k) add_argument(static_cast<int>(k));
  return static_cast<int>(trace_.ops.size());
}

void Recorder::add_argument(int k) {
  args_before_.emplace_back();
  if (!args_[k].defined()) {
    trace_.arguments.push_back(static_cast<int>(trace_.tensors.size()));
    trace_.tensors.emplace_back();
    older_.push_back(-1);
    return;
  }
  const c10::TensorImpl& tensor = *args_[k].unsafeGetTensorImpl();
  trace_.arguments.push_back(describe(tensor, storages_.find(tensor)));
  args_before_.back() = Held(tensor);
  args_before_.back().references = args_[k].use_count();
  if (tensor.has_storage()) args_before_.back().owners = tensor.unsafe_storage().use_count();
  if (known_.find(&tensor) == nullptr) known_.insert(&tensor, {Known::Kind::Argument, k});
}

void Recorder::number_is_read() {
  if (leaf_ != nullptr) return;  // the operator's own kernel, which each call runs again
  give_up(
      "the value of a graft::Number is read between operators, which may decide something by it; "
      "let operators use it (at::where), or pass a double, whose every value has a plan");
}

void Recorder::give_up(std::string why) {
  if (!trace_.broken) trace_.broken = std::move(why);
}

/// Of a model that is called, the first operators know it as a whole. There its callers are not
/// asked: they may hold modules that have nothing to do with the function.
void Recorder::look_for_modes(const OperatorFacts& facts, size_t operators) {
  constexpr size_t kFirst = 8;
  if (facts.takes_mode || facts.draws)
    bystander_->mode_is_told(nullptr);
  else if (operators < kFirst)
    bystander_->mode_is_told(this);
}

void Recorder::start(const at::RecordFunction& fn) noexcept {
  if (trace_.broken) return;
  if (leaf_ != nullptr) {
    if (kept_ == nullptr && keeps_old_value(fn)) kept_ = &fn;
    return;
  }
  const size_t ops = trace_.ops.size();
  try {
    const OperatorFacts* facts = facts_of(fn);
    if (facts != nullptr && bystander_ != nullptr) look_for_modes(*facts, ops);
    if (facts == nullptr || is_told_by_others(*facts, fn) || autocast_wrapper(*facts)) return;
    facts_ = facts;
    // A backward may begin at a graph from outside.
    if (torch::autograd::get_current_graph_task_id() >= 0) {
      differentiates_ = true;
      trace_.backward_inside = trace_.backward_inside || !function_is_over_;
    }
    exceptions_ = std::uncaught_exceptions();
    // A boxed call shows the caller's whole stack, and the arguments on top of it.
    c10::ArrayRef<const c10::IValue> inputs = fn.inputs();
    inputs = inputs.slice(inputs.size() - facts->arguments.size());
    unrecorded_ = reads_constants(*facts, inputs) || detaches_nothing(*facts, inputs);
    overwritten_ = !inputs.empty() && inputs[0].isTensor() && inputs[0].toTensor().defined()
                       ? inputs[0].toTensor().unsafeGetTensorImpl()
                       : nullptr;
    std::vector<c10::IValue> replaced;
    if (!unrecorded_ && bystander_ != nullptr && !c10::GradMode::is_enabled())
      if (std::string why = bystander_->before(facts->name, inputs, replaced); !why.empty())
        give_up(std::move(why));
    if (!replaced.empty())
      inputs = c10::ArrayRef<const c10::IValue>(replaced.data(), replaced.size());
    if (!unrecorded_ && !trace_.broken) begin_operator(*facts, inputs);
  } catch (const std::exception& error) {
    give_up(c10::str(current(), " could not be recorded: ", error.what()));
  }
  if (trace_.broken) {
    trace_.ops.erase(trace_.ops.begin() + static_cast<int64_t>(ops), trace_.ops.end());
  } else {
    leaf_ = &fn;
  }
}

void Recorder::end(const at::RecordFunction& fn) noexcept {
  if (kept_ == &fn) {
    kept_ = nullptr;
    try {
      if (std::uncaught_exceptions() == exceptions_ && !trace_.broken) record_kept(fn);
    } catch (const std::exception& error) {
      give_up(c10::str(current(), " could not be recorded: ", error.what()));
    }
  }
  if (leaf_ != &fn) return;
  leaf_ = nullptr;
  try {
    if (std::uncaught_exceptions() > exceptions_) {
      give_up(current() +
              " threw, and the function went on; what eager does then depends on the "
              "error, so call it outside the compiled function");
    } else if (!unrecorded_) {
      end_operator(c10::ArrayRef<c10::IValue>(fn.outputs()));
    }
  } catch (const std::exception& error) {
    give_up(c10::str(current(), " could not be recorded: ", error.what()));
  }
  facts_ = nullptr;
}

bool Recorder::autocast_wrapper(const OperatorFacts& facts) const {
  // Autocast's kernel casts the inputs by operators of their own and then calls the operator again
  // below itself.
  return facts.autocasts && !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU);
}

/// Is its content the same at every call, whatever the arguments?
bool Recorder::is_constant(const at::Tensor& tensor) {
  if (!tensor.defined()) return true;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!is_plain(impl)) return false;
  const int storage = storages_.find(impl);
  if (storage < 0) return impl.is_wrapped_number();
  const Storages::State& state = storages_.state(storage);
  if (!state.constant || !is_filled(tensor, storage)) return false;
  return !state.written || state.content == content_of(storage);
}

std::vector<char> Recorder::content_of(int storage) const {
  const c10::StorageImpl* memory = storages_.made(storage);
  const auto* first = static_cast<const char*>(memory->data());
  return {first, first + memory->nbytes()};
}

void Recorder::keep_content(int storage) {
  constexpr size_t kMostBytes = kMostNumbers * sizeof(double);
  Storages::State& state = storages_.state(storage);
  state.constant = state.constant && storages_.made(storage)->nbytes() <= kMostBytes;
  if (state.constant) state.content = content_of(storage);
}

bool Recorder::only_constants(c10::ArrayRef<const c10::IValue> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [&](const c10::IValue& input) {
    if (input.isTensor()) return is_constant(input.toTensor());
    if (number_behind(input) != nullptr) return false;
    if (!input.isList()) return true;
    const c10::ArrayRef<c10::IValue> all = input.toListRef();
    return std::all_of(all.begin(), all.end(), [&](const c10::IValue& element) {
      return !element.isTensor() || is_constant(element.toTensor());
    });
  });
}

/// Does it bring data to the host that is the same at every call, and nothing else?
bool Recorder::reads_constants(const OperatorFacts& facts,
                               c10::ArrayRef<const c10::IValue> inputs) {
  using Kind = Operand::Kind;
  return facts.reads_data && !facts.draws &&
         std::all_of(facts.returns.begin(), facts.returns.end(),
                     [](Kind kind) { return kind == Kind::Constant; }) &&
         std::none_of(facts.arguments.begin(), facts.arguments.end(),
                      [](const ArgumentFacts& argument) { return argument.writes(); }) &&
         only_constants(inputs);
}

/// Does it hold, or are there among it, tensors whose content follows from the caller's?
bool Recorder::is_derived(const c10::IValue& input) {
  if (input.isList()) {
    const c10::ArrayRef<c10::IValue> all = input.toListRef();
    return std::any_of(all.begin(), all.end(),
                       [&](const c10::IValue& element) { return is_derived(element); });
  }
  if (!input.isTensor() || !input.toTensor().defined()) return false;
  const c10::TensorImpl& impl = *input.toTensor().unsafeGetTensorImpl();
  if (!is_plain(impl) || impl.is_wrapped_number()) return false;
  const int storage = storages_.find(impl);
  return storage < 0 ||  // captured, met for the first time
         trace_.storages[storage].origin != StorageInfo::Origin::Made ||
         storages_.state(storage).derived;
}

/// Are they the caller's tensors, which this run has not written? What they hold is known before
/// anything else of a plan runs.
bool Recorder::are_given(c10::ArrayRef<const c10::IValue> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [&](const c10::IValue& input) {
    if (!input.isTensor()) return true;
    const int storage = storages_.find(*input.toTensor().unsafeGetTensorImpl());
    return storage < 0 ||  // captured, met for the first time
           (trace_.storages[storage].origin != StorageInfo::Origin::Made &&
            std::none_of(
                trace_.ops.begin(), trace_.ops.end(),
                [&](const OperatorRecord& op) {
                  return std::find(op.mutated.begin(), op.mutated.end(), storage) !=
                         op.mutated.end();
                }));
  });
}

/// Is what it tells a condition or a whole number, and can a plan still give up where it differs?
bool Recorder::has_checkable_value(const OperatorFacts& facts,
                                   c10::ArrayRef<const c10::IValue> inputs) {
  const at::Tensor& tensor = inputs[0].toTensor();
  return (!spoke_ || are_given(inputs)) && !tensor.is_complex() &&
         std::any_of(inputs.begin(), inputs.end(),
                     [&](const c10::IValue& input) { return is_derived(input); }) &&
         std::all_of(inputs.begin(), inputs.end(),
                     [&](const c10::IValue& input) {
                       return !input.isTensor() || is_derived(input) ||
                              is_constant(input.toTensor());
                     }) &&
         (!facts.tells_number || c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true));
}

void Recorder::check_call(const OperatorFacts& facts, c10::ArrayRef<const c10::IValue> inputs) {
  if (facts.reads_data && !(facts.tells_value && has_checkable_value(facts, inputs))) {
    std::string why = "; only conditions, and whole numbers that arguments decide, may be";
    if (facts.tells_number && inputs[0].toTensor().is_floating_point())
      why = "; it is a " + describe_tensor(inputs[0].toTensor()) +
            ", and only conditions and whole numbers may be read: return it and read it outside (a "
            "loss to print), compare it first ((x < 0.5).item<bool>()), or call "
            "graft::clip_grad_norm_, which reads nothing, where "
            "torch::nn::utils::clip_grad_norm_ does";
    else if (facts.tells_value && spoke_)
      why =
          " after other processes heard from this one, so that a plan that finds other data could "
          "not give up; read it before";
    else if (facts.tells_value && inputs[0].toTensor().is_complex())
      why = ", of complex numbers, which a plan does not compare";
    return give_up(facts.full_name +
                   " reads a tensor's data on the host (as item() and equal() do)" + why +
                   "; keep the value in a tensor (at::where, at::clamp), or read it outside the "
                   "compiled function");
  }
  if (facts.name.starts_with("c10d::") || facts.name.starts_with("_c10d_functional")) {
    return give_up(facts.full_name +
                   " does not tell when its result is there, so a plan could read it too early; "
                   "use graft::systems::Group (or graft::start_collective), or call it outside the "
                   "compiled function");
  }
  if (facts.counts_classes && inputs[1].isInt() && inputs[1].toInt() < 0) {
    return give_up(
        facts.full_name +
        " counts the classes in the data; pass num_classes, and its result has that size");
  }
  if (facts.shapes_by_data) {
    bool integers = facts.integer_indices_keep_shape;
    if (integers) {
      for (const c10::IValue& index : inputs[1].toListRef()) {
        if (!index.isTensor() || !index.toTensor().defined()) continue;
        const c10::ScalarType type = index.toTensor().scalar_type();
        integers &= type != c10::kBool && type != c10::kByte;
      }
    }
    if (!integers) {
      return give_up(facts.full_name +
                     " makes a result whose sizes depend on data; use a mask of fixed size "
                     "(at::where), or call it outside the compiled function");
    }
  }
  if (facts.changes_layout) {
    const c10::TensorImpl* self = inputs[0].toTensor().unsafeGetTensorImpl();
    const Known* known = known_.find(self);
    if (known != nullptr && known->kind != Known::Kind::View) {
      return give_up(c10::str(
          facts.full_name, " changes the layout of ",
          known->kind == Known::Kind::Argument ? "argument " : "captured tensor ", known->index,
          " itself, which a plan cannot repeat; use the operator's form without the underscore, "
          "or call it outside the compiled function"));
    }
  }
  if (facts.strided_view) check_strided_view(facts, inputs);
  if (!parallel_ && at::in_parallel_region()) {
    give_up(facts.full_name +
            " ran inside at::parallel_for, whose other threads are not seen; let Graft make the "
            "loop parallel, or call it outside the compiled function");
  }
}

void Recorder::check_strided_view(const OperatorFacts& facts,
                                  c10::ArrayRef<const c10::IValue> inputs) {
  const int storage = storages_.find(*inputs[0].toTensor().unsafeGetTensorImpl());
  if (storage < 0) return;
  const StorageInfo& memory = trace_.storages[storage];
  if (memory.origin == StorageInfo::Origin::Argument && !inputs.back().isNone()) {
    return give_up(facts.full_name +
                   " with a storage_offset counts from the start of the memory that an argument "
                   "lies in, which differs from call to call; leave the offset out (it is the "
                   "tensor's own then), or use slices");
  }
  if (memory.maker >= 0 && copies_whole_memory(trace_.ops[memory.maker].op)) {
    give_up(c10::str(facts.full_name, " looks into what ",
                     toString(trace_.ops[memory.maker].op.operator_name()),
                     " made, a copy of all the memory that its argument lies in, which differs "
                     "from call to call; use slices, or clone() it first"));
  }
}

void Recorder::begin_operator(const OperatorFacts& facts, c10::ArrayRef<const c10::IValue> inputs) {
  check_call(facts, inputs);
  if (facts.draws) draw(inputs);
  spoke_ = spoke_ || communicates(facts.name);
  written_ = written_ || spoke_;
  if (trace_.broken) return;

  OperatorRecord& op = trace_.ops.emplace_back(OperatorRecord{facts.handle, {}, {}, {}});
  op.tells_value = facts.tells_value;
  op.inputs.reserve(inputs.size());
  op.outputs.reserve(facts.returns.size());
  written_objects_.clear();
  // Of what ones_like and the like are given they take the layout alone.
  const bool by_layout = facts.makes_blank && !facts.uninitialized;
  constant_ =
      facts.repeats && std::all_of(inputs.begin(), inputs.end(), [&](const c10::IValue& value) {
        return (by_layout && value.isTensor()) || only_constants({value});
      });
  derived_ = !facts.makes_blank &&
             std::any_of(inputs.begin(), inputs.end(),
                         [&](const c10::IValue& value) { return is_derived(value); });
  for (size_t k = 0; k < inputs.size(); ++k) {
    op.inputs.push_back(input(inputs[k], facts.arguments[k]));
    if (trace_.broken) return;
  }

  const size_t first = facts.running_statistics;
  const bool trains =
      first > 0 && (facts.training_flag == 0 || inputs[facts.training_flag].toBool());
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!facts.arguments[k].writes() && !(trains && (k == first || k == first + 1))) continue;
    if (inputs[k].isTensor()) {
      write(inputs[k].toTensor(), op);
    } else if (inputs[k].isList()) {
      for (const c10::IValue& element : inputs[k].toListRef()) {
        if (element.isTensor()) write(element.toTensor(), op);
      }
    }
  }
  op.never_called = facts.loop_checks_sizes && (written_ || drew_);
  if (facts.unknown_shapes && !op.never_called && (written_ || drew_)) {
    give_up(facts.full_name +
            " runs after an argument or captured tensor was written, or a random number drawn, and "
            "the sizes of its results may depend on data (it has no Meta kernel that tells them), "
            "so a plan that finds others could not give up; register a Meta kernel for it "
            "(TORCH_LIBRARY_IMPL(..., Meta, ...)), call it before the writes, or outside the "
            "compiled function");
  }
}

void Recorder::draw(c10::ArrayRef<const c10::IValue> inputs) {
  drawn_ = {};
  drew_ = true;
  for (const c10::IValue& input : inputs) {
    if (input.isGenerator()) drawn_ = input.toGenerator();
  }
  if (auto why = generators_.before_draw(drawn_)) give_up(c10::str(current(), ": ", *why));
}

void Recorder::write(const at::Tensor& tensor, OperatorRecord& op) {
  if (!tensor.defined()) return;
  const int storage = storages_.find(*tensor.unsafeGetTensorImpl());
  if (storage < 0) return;
  Storages::State& state = storages_.state(storage);
  // What at::tensor wrote is seen now: a part of it may stay.
  if (trace_.storages[storage].origin == StorageInfo::Origin::Made) is_filled(tensor, storage);
  state.written = true;
  state.constant = state.constant && constant_;
  state.derived = state.derived || derived_;
  written_ = written_ || trace_.storages[storage].origin != StorageInfo::Origin::Made;
  if (std::find(op.mutated.begin(), op.mutated.end(), storage) == op.mutated.end()) {
    op.mutated.push_back(storage);
  }
  const Known* known = known_.find(tensor.unsafeGetTensorImpl());
  const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (known == nullptr || known->kind == Known::Kind::View) {
    // A plan takes the caller's tensor for a view of the same layout.
    for (const auto* infos : {&trace_.arguments, &trace_.captured_tensors})
      for (int info : *infos)
        if (trace_.tensors[info].storage == storage &&
            same_layout(impl, trace_.tensors[info], /*address=*/true)) {
          written_objects_.emplace_back(&impl, info);
          return;
        }
    return;
  }
  const auto& infos =
      known->kind == Known::Kind::Argument ? trace_.arguments : trace_.captured_tensors;
  written_objects_.emplace_back(&impl, infos[known->index]);
}

void Recorder::end_operator(c10::ArrayRef<c10::IValue> outputs) {
  const size_t returns = facts_->returns.size();
  if (facts_->draws) generators_.after_draw(drawn_);
  TORCH_CHECK(outputs.size() >= returns, "it returned ", outputs.size(), " values of ", returns);
  outputs = outputs.slice(outputs.size() - returns);
  for (size_t k = 0; k < returns; ++k) {
    // The record may move while its outputs are described, so it is looked up again.
    Operand operand = output(outputs[k], facts_->returns[k]);
    trace_.ops.back().outputs.push_back(std::move(operand));
  }
  for (int storage : trace_.ops.back().mutated)
    if (trace_.storages[storage].origin == StorageInfo::Origin::Made) keep_content(storage);
  for (const auto& [tensor, info] : written_objects_) {
    if (!same_layout(*tensor, trace_.tensors[info], /*address=*/true)) {
      return give_up(facts_->full_name +
                     " resized an argument or captured tensor, or a view of one, that it writes "
                     "to; give it one of the result's size, or none");
    }
  }
}

}  // namespace graft::record
