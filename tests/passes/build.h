// Writes small loop programs for the pass tests.
#pragma once

#include "ir/builder.h"

namespace graft::passes {

struct ProgramBuilder {
  ir::Program program;

  ir::View storage(ir::Role role, std::vector<int64_t> sizes, c10::ScalarType dtype) {
    int id = static_cast<int>(program.storages.size());
    ir::View view{id, dtype, 0, sizes, ir::contiguous_strides(sizes)};
    int64_t bytes = ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(dtype));
    program.storages.push_back({role, bytes, role == ir::Role::Argument ? id : -1, false});
    return view;
  }
  ir::View argument(std::vector<int64_t> sizes, c10::ScalarType dtype = c10::ScalarType::Float) {
    return storage(ir::Role::Argument, std::move(sizes), dtype);
  }
  ir::View temporary(std::vector<int64_t> sizes, c10::ScalarType dtype = c10::ScalarType::Float) {
    return storage(ir::Role::Temporary, std::move(sizes), dtype);
  }
  ir::View output(std::vector<int64_t> sizes, c10::ScalarType dtype = c10::ScalarType::Float) {
    ir::View view = storage(ir::Role::Output, std::move(sizes), dtype);
    ir::Result result;
    result.view = view;
    program.results.push_back(result);
    return view;
  }

  /// out[...] = formula(a[...], b[...], …), everything broadcast to out.
  template <class Fn, class... Views>
  void map(const ir::View& out, Fn formula, const Views&... inputs) {
    ir::StatementBuilder s(out.sizes);
    program.items.emplace_back(s.store(out, formula(s.load(inputs)...)));
  }
  /// out = reduction of in over its last axis.
  void reduce_last(const ir::View& out, ir::ReduceOp op, const ir::View& in, c10::ScalarType type) {
    ir::StatementBuilder s(in.sizes);
    std::vector<bool> axes(in.sizes.size(), false);
    axes.back() = true;
    ir::Value value = s.reduce(op, s.load(in), axes, type);
    program.items.emplace_back(s.store(out, value));
  }
};

inline ir::View slice(ir::View view, size_t dim, int64_t first, int64_t last) {
  view.byte_offset +=
      view.strides[dim] * first * static_cast<int64_t>(c10::elementSize(view.dtype));
  view.sizes[dim] = last - first;
  return view;
}

}  // namespace graft::passes
