// View operators: recorded as layouts, so they emit nothing. A form that copied all the same (a
// reshape of memory that does not nest, a `…_copy` variant) is a copy.
#include "ops/context.h"

namespace graft::ops {

namespace {

Fate view_or_copy(Context& context, const record::OperatorRecord& op) {
  if (op.outputs.size() != 1 || op.outputs[0].tensors.size() != 1)
    return Fate::external("a view operator that copied to several tensors");
  const record::TensorInfo& from = context.tensor(op, 0);
  const record::TensorInfo& to = context.output(op);
  if (from.storage == to.storage)
    return Fate::view();  // unsqueeze_, t_: written down as changing their tensor
  if (from.sizes != to.sizes) {
    ir::View source = from, target = to;
    if (source.strides != ir::contiguous_strides(source.sizes) ||
        target.strides != ir::contiguous_strides(target.sizes))
      return Fate::external("reshaped a tensor that is not contiguous");
    source.sizes = target.sizes;
    source.strides = target.strides;
    context.copy(source, target);
    return Fate::fused();
  }
  context.copy(from, to);
  return Fate::fused();
}

/// Memory without content: whoever reads it before writing it gets a break from the recorder.
Fate allocate(Context&, const record::OperatorRecord&) {
  return Fate::view();
}

}  // namespace

std::vector<Row> view_rows() {
  std::vector<Row> rows;
  for (std::string_view name : {"aten::view",
                                "aten::_unsafe_view",
                                "aten::_reshape_alias",
                                "aten::permute",
                                "aten::transpose",
                                "aten::t",
                                "aten::unsqueeze",
                                "aten::squeeze",
                                "aten::expand",
                                "aten::slice",
                                "aten::select",
                                "aten::split",
                                "aten::split_with_sizes",
                                "aten::unbind",
                                "aten::as_strided",
                                "aten::diagonal",
                                "aten::unfold",
                                "aten::alias",
                                "aten::detach",
                                "aten::lift_fresh",
                                "aten::unsafe_split"})
    rows.push_back({name, view_or_copy, "a view: later accesses get its strides"});
  for (std::string_view name :
       {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty",
        "aten::new_empty_strided", "aten::empty_permuted"})
    rows.push_back({name, allocate, "memory without content"});
  for (Row& row : rows) row.takes_complex = true;
  return rows;
}

}  // namespace graft::ops
