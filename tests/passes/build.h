// Writes small loop programs for the pass tests, and the text and results of what passes make.
#pragma once

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/parse.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "support/interpreter.h"

namespace graft::passes {

constexpr auto kFloat = c10::ScalarType::Float;
constexpr auto kDouble = c10::ScalarType::Double;
constexpr auto kBFloat16 = c10::ScalarType::BFloat16;
constexpr auto kLong = c10::ScalarType::Long;
constexpr auto kBool = c10::ScalarType::Bool;

struct ProgramBuilder {
  ir::Program program;
  std::vector<ir::View> arguments;

  ir::View storage(ir::Role role, std::vector<int64_t> sizes, c10::ScalarType dtype) {
    int id = static_cast<int>(program.storages.size());
    ir::View view{id, dtype, 0, sizes, ir::contiguous_strides(sizes)};
    int64_t bytes = ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(dtype));
    program.storages.push_back(
        {role, bytes, role == ir::Role::Argument ? static_cast<int>(arguments.size()) : -1, false});
    return view;
  }
  ir::View argument(std::vector<int64_t> sizes, c10::ScalarType dtype = c10::ScalarType::Float) {
    arguments.push_back(storage(ir::Role::Argument, std::move(sizes), dtype));
    return arguments.back();
  }
  ir::View temporary(std::vector<int64_t> sizes, c10::ScalarType dtype = c10::ScalarType::Float) {
    return storage(ir::Role::Temporary, std::move(sizes), dtype);
  }
  ir::View output(std::vector<int64_t> sizes, c10::ScalarType dtype = c10::ScalarType::Float) {
    ir::View view = storage(ir::Role::Output, std::move(sizes), dtype);
    ir::Result result;
    result.view = view;
    program.signature.results.push_back(result);
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

/// A matrix's column.
inline ir::View column(ir::View view, int64_t k) {
  view = slice(view, 1, k, k + 1);
  view.sizes.pop_back(), view.strides.pop_back();
  return view;
}

inline ir::Value copy(ir::Value x) {
  return x;
}

/// The schedule's text, without the grain, which is a tuning constant and no structure.
inline std::string schedule_of(const ir::Program& program, std::vector<std::string> skip = {},
                               Settings settings = {}) {
  settings.skip = std::move(skip);
  std::string text = ir::print(run(program, settings));
  for (size_t at; (at = text.find(" grain ")) != std::string::npos;)
    text.erase(at, text.find('\n', at) - at);
  return text;
}
inline std::string schedule_of(const ProgramBuilder& b, std::vector<std::string> skip = {},
                               Settings settings = {}) {
  return schedule_of(b.program, std::move(skip), std::move(settings));
}
inline size_t count_of(const std::string& word, const std::string& text) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++count;
  return count;
}

/// The program's items, without its storages and results.
inline std::string items(const ir::Program& program) {
  std::string text = ir::print(program);
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at) + 1;
    bool item = text[at] == '[' || text[at] == ' ' || text.compare(at, 6, "repeat") == 0 ||
                text.compare(at, 5, "abort") == 0;
    item ? at = end : (text.erase(at, end - at), at);
  }
  return text;
}

/// Those that pass(program) makes of a program's text. Both are well-formed.
template <class Pass>
std::string items_after(const std::string& text, Pass pass) {
  const ir::Program program = ir::parse(text);
  EXPECT_EQ(ir::verify(program), "");
  const ir::Program made = pass(program);
  EXPECT_EQ(ir::verify(made), "");
  return items(made);
}

/// All that is visible after a program or schedule, byte by byte.
template <class Program>
std::string after(const Program& program, const std::vector<at::Tensor>& arguments) {
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& t : arguments) tensors.push_back(t.clone());
  for (const at::Tensor& t : test::interpret(program, tensors)) tensors.push_back(t);
  std::string bytes;
  for (const at::Tensor& t : tensors)
    bytes.append(static_cast<const char*>(t.data_ptr()), t.nbytes());
  return bytes;
}

}  // namespace graft::passes
