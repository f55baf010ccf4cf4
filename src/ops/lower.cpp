#include "ops/lower.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "ir/overlap.h"
#include "ops/choice.h"
#include "ops/complex.h"
#include "ops/condition.h"
#include "ops/constant.h"
#include "ops/context.h"
#include "ops/reduce.h"
#include "ops/replay.h"
#include "ops/schema.h"
#include "tensor/communication.h"

namespace graft::ops {

namespace {

using record::Operand;
using record::OperatorRecord;
using record::StorageInfo;
using record::TensorInfo;

const std::unordered_map<std::string_view, Row>& rows() {
  static const auto* map = [] {
    auto* all = new std::unordered_map<std::string_view, Row>;
    for (const auto& family : {view_rows(), pointwise_rows(), copy_rows(), reduction_rows(),
                               norm_rows(), index_rows(), condition_rows()})
      for (const Row& row : family) all->emplace(row.name, row);
    return all;
  }();
  return *map;
}

std::vector<OperatorReport>::iterator find_row(std::vector<OperatorReport>& rows,
                                               const OperatorReport& row) {
  return std::find_if(rows.begin(), rows.end(), [&](const OperatorReport& seen) {
    return seen.name == row.name && seen.fate == row.fate && seen.why == row.why;
  });
}

/// One more operator of that name and fate: its row's index.
size_t count(std::vector<OperatorReport>& rows, const OperatorReport& row) {
  auto seen = find_row(rows, row);
  const auto index = static_cast<size_t>(seen - rows.begin());
  if (seen == rows.end())
    rows.push_back(row);
  else
    ++seen->count;
  return index;
}

/// What reports call them, in the order of Fate::Kind.
constexpr std::array kFates{"fused", "view", "extern", "broken", "checked"};

class Lowering {
 public:
  Lowering(const record::Trace& trace, const LowerSettings& settings, bool as_called)
      : trace_(trace),
        as_called_(as_called),
        has_complex_(std::any_of(trace.tensors.begin(), trace.tensors.end(),
                                 [](const auto& t) { return c10::isComplexType(t.dtype); })),
        context_(trace, lowered_.program, settings) {}

  Lowered run() {
    if (trace_.broken) return broken(*trace_.broken);
    make_storages();
    lowered_.program.items.reserve(trace_.ops.size());
    for (size_t i = 0; i < trace_.ops.size(); ++i) {
      context_.begin(static_cast<int>(i));
      const OperatorRecord& op = trace_.ops[i];
      size_t items = lowered_.program.items.size(), early = context_.early.size();
      size_t approximated = context_.approximated.size();
      Known& known = known_of(op);
      Fate fate = lower_one(op, known.row);
      if (fate.kind == Fate::Kind::Extern && op.tells_value) fate = Fate::broken(fate.why);
      if (fate.kind == Fate::Kind::Extern && op.never_called)
        fate = Fate::broken(
            "it runs after an argument or captured tensor was written, or a random number drawn, "
            "the size of its result depends on data, and it is no loop (" +
            fate.why + "); call it before the writes, or outside the compiled function");
      if (fate.kind == Fate::Kind::Broken) return broken(full_name(op) + ": " + fate.why);
      if (fate.kind == Fate::Kind::Extern) {
        lowered_.program.items.resize(items);
        context_.early.resize(early);
        context_.dropped();
        // (A routine may say of itself that it rounds in another way.)
        if (fate.routine.empty()) context_.approximated.resize(approximated);
        if (std::string why = make_extern(op, fate.routine); !why.empty())
          return broken(full_name(op) + ": " + why);
      }
      report(op, fate, known);
    }
    if (std::string why = make_results(); !why.empty()) return broken(why);
    make_signature();
    std::vector<ir::Item>& items = lowered_.program.items;
    items.insert(items.begin(), std::make_move_iterator(context_.early.begin()),
                 std::make_move_iterator(context_.early.end()));
    for (Choice& choice : lowered_.choices) choice.item += context_.early.size();
    // (Whole otherwise: some of its calls may gain.)
    if (!gains_ && !as_called_) lowered_.broken = "no operator of this function is one Graft fuses";
    lowered_.exact = context_.approximated.empty() && !context_.settings.fast;
    lowered_.either_zero = context_.either_zero;
    lowered_.gives_up = std::move(context_.gives_up);
    lowered_.approximated = std::move(context_.approximated);
    lowered_.held = std::move(context_.held);
    return std::move(lowered_);
  }

 private:
  /// What is looked up once: thousands of operators are often of few kinds.
  struct Known {
    c10::OperatorHandle op;
    const Row* row;  ///< null: no lowering
    /// By fate, the row of lowered_.operators. Not of externs, which may have several reasons.
    std::array<std::optional<size_t>, kFates.size()> reports;
  };

  Lowered broken(std::string why) {
    Lowered result;
    result.operators = std::move(lowered_.operators);
    result.broken = std::move(why);
    return result;
  }

  void make_storages() {
    for (const StorageInfo& info : trace_.storages) {
      ir::Storage storage;
      storage.bytes = info.bytes;
      switch (info.origin) {
        case StorageInfo::Origin::Argument:
          storage.role = ir::Role::Argument, storage.source = info.first;
          break;
        case StorageInfo::Origin::Captured:
          storage.role = ir::Role::Captured, storage.source = info.first;
          break;
        case StorageInfo::Origin::Made:
          storage.role = info.escapes ? ir::Role::Output : ir::Role::Temporary;
          break;
      }
      lowered_.program.storages.push_back(storage);
    }
    for (const record::ResultInfo& result : trace_.results) {
      if (result.tensor < 0) continue;
      int storage = info(result.tensor).storage;
      if (storage < 0) continue;
      ir::Storage& made = lowered_.program.storages[static_cast<size_t>(storage)];
      if (made.role == ir::Role::Temporary) made.role = ir::Role::Output;
    }
  }

  const TensorInfo& info(int tensor) const { return trace_.tensors[static_cast<size_t>(tensor)]; }

  template <class Visit>
  void each_tensor(const std::vector<Operand>& operands, Visit visit) const {
    for (const Operand& operand : operands)
      for (int tensor : operand.tensors)
        if (tensor >= 0) visit(info(tensor));
  }

  bool is_new(const TensorInfo& tensor) const {
    if (tensor.storage < 0) return false;
    const StorageInfo& storage = trace_.storages[static_cast<size_t>(tensor.storage)];
    return storage.origin == StorageInfo::Origin::Made && storage.maker == context_.record;
  }

  /// Every output lies in memory that was there before, and nothing is written: whatever the
  /// operator is called, it only made views (contiguous() of a contiguous tensor, to() of the same
  /// dtype, dropout in evaluation, …).
  bool only_views(const OperatorRecord& op) const {
    if (!op.mutated.empty()) return false;
    bool any = false, all = true;
    each_tensor(op.outputs, [&](const TensorInfo& t) {
      any = true, all = all && t.storage >= 0 && !is_new(t);
    });
    return any && all;
  }

  /// Why loops cannot do it, whatever the operator. `takes_complex`: tensors of one complex dtype.
  std::string unfit(const OperatorRecord& op, bool takes_complex) const {
    std::string why;
    auto first = c10::ScalarType::Undefined;
    auto look = [&](const TensorInfo& t) {
      if (t.dtype == c10::ScalarType::Undefined && t.storage < 0 && !t.constant) return;
      if (first == c10::ScalarType::Undefined) first = t.dtype;
      if (takes_complex && c10::isComplexType(t.dtype) && t.dtype == first && !t.conjugated &&
          t.storage >= 0)
        return;
      if (takes_complex && c10::isComplexType(first) && t.dtype != first)
        why = "tensors of other dtypes beside complex ones";
      else if (!context_.settings.target.loops(t.dtype))
        why = std::string("dtype ") + c10::toString(t.dtype);
      else if (t.storage >= 0 &&
               t.byte_offset % static_cast<int64_t>(c10::elementSize(t.dtype)) != 0)
        why = "a tensor is not aligned to its element size";
    };
    each_tensor(op.inputs, look);
    each_tensor(op.outputs, look);
    if (!why.empty()) return why;
    each_tensor(op.outputs, [&](const TensorInfo& t) {
      if (t.storage >= 0 && !ir::is_non_overlapping(t)) why = "elements of the output share memory";
    });
    return why;
  }

  /// at::tensor({…}), of whose numbers the recorder has seen the allocation.
  std::optional<Fate> write_numbers(const OperatorRecord& op) {
    if (op.outputs.size() != 1 || op.outputs[0].tensors.size() != 1) return std::nullopt;
    const int made = op.outputs[0].tensors[0];
    if (made < 0 || !is_new(info(made))) return std::nullopt;
    const auto& bytes = trace_.storages[static_cast<size_t>(info(made).storage)].numbers;
    if (bytes.empty()) return std::nullopt;
    if (!context_.settings.target.loops(info(made).dtype))
      return Fate::broken("at::tensor({…}) of " + std::string(c10::toString(info(made).dtype)) +
                          "; make it outside the compiled function and capture it");
    context_.write_numbers(info(made), bytes);
    return Fate::view();
  }

  /// Valid until the next call.
  Known& known_of(const OperatorRecord& op) {
    for (Known& known : known_)
      if (known.op == op.op) return known;
    const auto row = rows().find(base_name(op));
    known_.push_back({op.op, row == rows().end() ? nullptr : &row->second, {}});
    return known_.back();
  }

  /// `row`: null where there is none.
  Fate lower_one(const OperatorRecord& op, const Row* row) {
    if (only_views(op)) return Fate::view();
    if (std::optional<Fate> written = write_numbers(op)) return *written;
    if (as_called_ && !op.tells_value && !op.never_called)
      return Fate::external("called as recorded");
    if (has_complex_ && is_complex(context_, op))
      if (std::optional<Fate> fate = lower_complex(context_, op, row)) return *fate;
    if (row == nullptr) {
      return Fate::external(op.op.hasTag(at::Tag::nondeterministic_seeded)
                                ? "random numbers come from ATen's generator"
                                : "no lowering");
    }
    if (std::string why = unfit(op, row->takes_complex); !why.empty()) return Fate::external(why);
    if (takes_number(op) && !row->takes_numbers)
      return Fate::external("a number whose value is known only at the call");
    context_.row = row;
    return row->lower(context_, op);
  }

  /// Empty, or why the operator cannot be called from a plan. `routine`: Fate::routine.
  std::string make_extern(const OperatorRecord& op, std::string_view routine) {
    const c10::OperatorName& name = op.op.operator_name();
    ir::Extern call{{name.name, name.overload_name}, {}, {}, {}, {}, context_.record};
    if (!routine.empty()) call.op.name = routine;
    for (const Operand& operand : op.inputs) {
      ir::Extern::Slot slot;
      slot.kind = operand.kind;
      slot.constant = constant_of(operand.constant);
      for (int tensor : operand.tensors) {
        if (tensor < 0 || (info(tensor).storage < 0 && !info(tensor).constant)) {
          slot.views.push_back(-1);
        } else if (const auto& number = info(tensor).constant) {
          if (operand.kind != Operand::Kind::Tensor) return "a number among a list of tensors";
          slot.kind = ir::Extern::Slot::Kind::Constant;
          slot.constant = constant_of(*number, info(tensor).dtype, info(tensor).wrapped_number);
        } else {
          slot.views.push_back(static_cast<int>(call.inputs.size()));
          const ir::View& view = info(tensor);
          call.inputs.push_back(info(tensor).conjugated ? conjugate(view) : view);
        }
      }
      call.slots.push_back(std::move(slot));
    }
    call.written = op.mutated;
    for (int storage : call.written) context_.stored(storage);
    if (communicates(name.name)) context_.communicated();
    add_outputs(op, std::move(call));
    note_places(op);
    return {};
  }

  /// Places along a dimension that a call returned lie in it.
  void note_places(const OperatorRecord& op) {
    constexpr std::string_view kReturnPlaces[] = {"aten::sort", "aten::topk", "aten::kthvalue",
                                                  "aten::mode", "aten::multinomial"};
    if (std::find(std::begin(kReturnPlaces), std::end(kReturnPlaces), base_name(op)) ==
        std::end(kReturnPlaces))
      return;
    const TensorInfo &self = context_.tensor(op, 0),
                     &places = context_.output(op, op.outputs.size() - 1);
    if (self.sizes.empty() || places.dtype != c10::ScalarType::Long) return;
    context_.lies_within(places, 0,
                         self.sizes[wrapped(integer(op, "dim", -1), self.sizes.size())] - 1);
  }

  /// A lazily conjugated tensor, computed: a plan's tensors are plain. ATen's matmuls take lazy
  /// ones as they are, so that theirs may round otherwise.
  ir::View conjugate(const ir::View& view) {
    ir::View made = context_.temporary(view.sizes, view.dtype);
    if (ir::is_non_overlapping(view) &&
        elements_reached(view.sizes, view.strides) == ir::numel(view.sizes))
      made.strides = view.strides;
    context_.copy(part(view, 0), part(made, 0));
    ir::StatementBuilder builder(view.sizes);
    const ir::View to = part(made, 1);
    context_.emit(builder.store(to, -builder.load(part(view, 1))));
    context_.approximate(to.dtype);
    return made;
  }

  void add_outputs(const OperatorRecord& op, ir::Extern call) {
    each_tensor(op.outputs, [&](const TensorInfo& t) {
      call.outputs.push_back(t);
      if (!is_new(t)) return;
      lowered_.program.storages[static_cast<size_t>(t.storage)].made_by_extern = true;
      if (std::find(call.written.begin(), call.written.end(), t.storage) == call.written.end())
        call.written.push_back(t.storage);
    });
    for (size_t k = 0; k < op.outputs.size() && k < 64; ++k)
      if (op.outputs[k].kind == OperandKind::Tensor && op.outputs[k].tensors.at(0) < 0)
        call.undefined |= uint64_t{1} << k;
    lowered_.program.items.emplace_back(std::move(call));
  }

  void mark_choice(const OperatorRecord& op, OperatorReport row) {
    auto other = other_routine(trace_, op);
    if (!other) return;
    size_t item = lowered_.program.items.size() - 1;
    const auto& call = std::get<ir::Extern>(lowered_.program.items[item]);
    other->call.outputs = call.outputs;
    other->call.written = call.written;
    other->call.record = call.record;
    lowered_.choices.push_back({item, std::move(other->call), other->name, std::move(row)});
  }

  void make_signature() {
    ir::Signature& signature = lowered_.program.signature;
    for (int tensor : trace_.arguments) signature.arguments.push_back(info(tensor));
    for (int tensor : trace_.captured_tensors) signature.captured.push_back(info(tensor));
    signature.bumped = trace_.bumped;
    signature.bumped_captured = trace_.bumped_captured;
  }

  std::string make_results() {
    for (const record::ResultInfo& from : trace_.results) {
      ir::Result result{from, {}};
      if (from.tensor >= 0) result.view = info(from.tensor);
      bool own_tensor = from.argument >= 0 || from.captured >= 0 || from.same_as >= 0;
      if (from.defined && !own_tensor && result.view.storage < 0)
        return "a result has no memory that the run made; return a tensor computed in the function";
      lowered_.program.signature.results.push_back(std::move(result));
    }
    return {};
  }

  void report(const OperatorRecord& op, const Fate& fate, Known& known) {
    gains_ = gains_ || fate.kind == Fate::Kind::Fused || !fate.routine.empty();
    const auto kind = static_cast<size_t>(fate.kind);
    std::optional<size_t>& counted = known.reports.at(kind);
    if (counted) {
      ++lowered_.operators[*counted].count;
      return;
    }
    OperatorReport row{full_name(op), kFates.at(kind), fate.why, 1};
    const size_t index = count(lowered_.operators, row);
    if (fate.kind == Fate::Kind::Extern)
      mark_choice(op, std::move(row));
    else
      counted = index;
  }

  const record::Trace& trace_;
  const bool as_called_;
  const bool has_complex_;  ///< some tensor is; most functions have none
  Lowered lowered_;
  Context context_;
  bool gains_ = false;  ///< some operator is fused
  std::vector<Known> known_;
};

}  // namespace

Lowered lower(const record::Trace& trace, const LowerSettings& settings) {
  return Lowering(trace, settings, /*as_called=*/false).run();
}

Lowered lower_as_called(const record::Trace& trace) {
  LowerSettings settings;
  Lowered lowered = Lowering(trace, settings, /*as_called=*/true).run();
  lowered.operators.clear();
  return lowered;
}

void take(Lowered& lowered, const Choice& choice, const std::string& why) {
  lowered.program.items.at(choice.item) = choice.other;
  lowered.exact = false;
  for (const View& view : choice.other.inputs)
    lowered.approximated.push_back({view.dtype, choice.other.record});
  lowered.broken.reset();  // nothing was gained before
  OperatorReport row = choice.report;
  auto counted = find_row(lowered.operators, row);
  if (--counted->count == 0) lowered.operators.erase(counted);
  row.why = why;
  count(lowered.operators, row);
}

}  // namespace graft::ops
