// What autograd keeps of tensors that operators overwrite: copies made inside those operators.
#include <c10/core/GradMode.h>

#include <string_view>
#include <utility>

#include "record/recorder.h"

namespace graft::record {

/// Is it autograd's copy of what an operator is about to overwrite, and its backward will use?
bool Recorder::keeps_old_value(const at::RecordFunction& fn) {
  if (unrecorded_ || !c10::GradMode::is_enabled() || facts_->arguments.empty() ||
      !facts_->arguments[0].writes() || std::string_view(fn.name()) != "aten::clone")
    return false;
  const c10::IValue& from = fn.inputs()[fn.inputs().size() - 2];
  return from.isTensor() && from.toTensor().unsafeGetTensorImpl() == overwritten_;
}

/// Recorded as an operator of its own, before the one that is running.
void Recorder::record_kept(const at::RecordFunction& fn) {
  const OperatorFacts* facts = facts_of(fn);
  const c10::ArrayRef<const c10::IValue> inputs = fn.inputs();
  OperatorRecord copy{facts->handle, {}, {}, {}};
  copy.inputs.push_back(trace_.ops.back().inputs[0]);
  copy.inputs.push_back(input(inputs.back(), facts->arguments.back()));
  copy.outputs.push_back(output(fn.outputs().back(), facts->returns[0]));
  trace_.ops.insert(trace_.ops.end() - 1, std::move(copy));
}

}  // namespace graft::record
