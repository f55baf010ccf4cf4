#include "support/interpreter.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include "ops/constant.h"
#include "support/kernel_run.h"
#include "support/memory.h"
#include "support/round_trip.h"
#include "support/statement_run.h"

namespace graft::test {

namespace {

class Run {
 public:
  Run(const std::vector<ir::Storage>& storages, const std::vector<at::Tensor>& args,
      const std::vector<at::Tensor>& captured)
      : storages_(storages), args_(args), captured_(captured), memory_(storages, args, captured) {}

  void operator()(const ir::Statement& statement) {
    StatementRun run(statement, memory_);
    run.watch(storages_.at(static_cast<size_t>(statement.store.storage)).bytes);
    std::vector<int64_t> at(statement.axes.size(), 0);
    do run.visit(at);
    while (next(at, statement.axes));
    run.finish();
    if (std::string wrong = run.conflict(); !wrong.empty()) fail(wrong);
  }

  void operator()(const ir::Extern& call) {
    c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(
        call.op.name.c_str(), call.op.overload.c_str());
    const auto& schema = op.schema();
    torch::jit::Stack stack;
    for (size_t k = 0; k < call.slots.size(); ++k)
      stack.push_back(argument(call, call.slots[k], schema.arguments().at(k).type()));
    op.callBoxed(&stack);
    std::vector<at::Tensor> results;
    for (const c10::IValue& value : stack) flatten(value, results);
    if (results.size() != call.outputs.size())
      fail("the call gives " + std::to_string(results.size()) + " tensors, not " +
           std::to_string(call.outputs.size()));
    for (size_t k = 0; k < results.size(); ++k) {
      const ir::View& view = call.outputs[k];
      if (view.storage < 0) continue;
      if (results[k].sizes() != view.sizes || results[k].strides() != view.strides)
        fail("the call's result " + std::to_string(k) + " has another layout than recorded");
      if (storages_.at(static_cast<size_t>(view.storage)).made_by_extern)
        memory_.bind(view, results[k]);
    }
  }

  void operator()(const ir::Abort& abort) {
    if (*memory_.at(abort.flag, 0, 1) != 0) throw Aborted(abort.record);
  }

  void operator()(const ir::Repeat& repeat) {
    for (int64_t step = 0; step < repeat.count; ++step)
      for (const ir::Statement& statement : repeat.body) (*this)(ir::at_step(statement, step));
  }

  void operator()(const ir::Kernel& kernel) { run_kernel(kernel, memory_); }

  std::vector<at::Tensor> results(const std::vector<ir::Result>& results) const {
    std::vector<at::Tensor> tensors;
    for (const ir::Result& result : results) {
      if (!result.returned) break;  // those come after all others
      if (!result.defined)
        tensors.emplace_back();
      else if (result.same_as >= 0)
        tensors.push_back(tensors.at(static_cast<size_t>(result.same_as)));
      else if (result.argument >= 0)
        tensors.push_back(args_.at(static_cast<size_t>(result.argument)));
      else if (result.captured >= 0)
        tensors.push_back(captured_.at(static_cast<size_t>(result.captured)));
      else
        tensors.push_back(memory_.tensor(result.view));
    }
    return tensors;
  }

 private:
  c10::IValue argument(const ir::Extern& call, const ir::Extern::Slot& slot,
                       const c10::TypePtr& type) const {
    using Kind = OperandKind;
    auto tensor = [&](int view) {
      return view < 0 ? at::Tensor() : memory_.tensor(call.inputs.at(static_cast<size_t>(view)));
    };
    if (slot.kind == Kind::Constant) return ops::value_of(slot.constant, type);
    if (slot.kind == Kind::Tensor) {
      int view = slot.views.at(0);
      if (view < 0 && type->kind() == c10::TypeKind::OptionalType) return {};
      return tensor(view);
    }
    if (slot.kind == Kind::Number) return tensor(slot.views.at(0)).item<double>();
    if (slot.kind == Kind::TensorList) {
      c10::List<at::Tensor> list;
      for (int view : slot.views) list.push_back(tensor(view));
      return list;
    }
    c10::List<std::optional<at::Tensor>> list;
    for (int view : slot.views)
      list.push_back(view < 0 ? std::nullopt : std::optional(tensor(view)));
    return list;
  }

  static void flatten(const c10::IValue& value, std::vector<at::Tensor>& into) {
    if (value.isTensor())
      into.push_back(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) into.push_back(tensor);
  }

  const std::vector<ir::Storage>& storages_;
  const std::vector<at::Tensor>& args_;
  const std::vector<at::Tensor>& captured_;
  Memory memory_;
};

/// The item's text for an error.
struct Describe {
  std::string operator()(const ir::Statement& s) const { return ir::print(s); }
  std::string operator()(const ir::Extern& e) const { return e.op.name; }
  std::string operator()(const ir::Abort& a) const { return "abort if %" + std::to_string(a.flag); }
  std::string operator()(const ir::Kernel& k) const { return ir::print(k, {}); }
  std::string operator()(const ir::Repeat& r) const { return ir::print(r.body.front()) + " …"; }
};

template <class Item>
void run_item(Run& run, const Item& item, size_t index) {
  try {
    std::visit(run, item);
  } catch (const Aborted&) {
    throw;
  } catch (const std::exception& error) {
    throw std::logic_error("item " + std::to_string(index) + ": " + error.what() + "\n  " +
                           std::visit(Describe{}, item));
  }
}

}  // namespace

std::vector<at::Tensor> interpret(const ir::Program& program, const std::vector<at::Tensor>& args,
                                  const std::vector<at::Tensor>& captured) {
  if (std::string wrong = ir::verify(program); !wrong.empty()) fail("malformed program: " + wrong);
  if (std::string wrong = round_trip(program); !wrong.empty()) fail(wrong);
  at::NoGradGuard no_grad;
  Run run(program.storages, args, captured);
  for (size_t k = 0; k < program.items.size(); ++k) run_item(run, program.items[k], k);
  return run.results(program.signature.results);
}

std::vector<at::Tensor> interpret(const ir::Schedule& schedule, const std::vector<at::Tensor>& args,
                                  const std::vector<at::Tensor>& captured) {
  at::NoGradGuard no_grad;
  Run run(schedule.storages, args, captured);
  for (size_t k = 0; k < schedule.steps.size(); ++k) run_item(run, schedule.steps[k], k);
  return run.results(schedule.signature.results);
}

}  // namespace graft::test
