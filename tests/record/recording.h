// Helpers of the recorder's tests.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "record/trace.h"

namespace graft::record {

using Tensors = std::vector<at::Tensor>;

/// Records `fn`, which returns the tensors of its result.
inline Trace trace_of(const Tensors& args, const std::function<Tensors()>& fn) {
  Tensors out;
  return record(args, [&] { out = fn(); }, [&] { return out; });
}

inline std::vector<std::string> names(const Trace& trace) {
  std::vector<std::string> result;
  for (const OperatorRecord& op : trace.ops) result.push_back(toString(op.op.operator_name()));
  return result;
}

inline const TensorInfo& input(const Trace& trace, size_t op, size_t k) {
  return trace.tensors.at(trace.ops.at(op).inputs.at(k).tensors.at(0));
}
inline const TensorInfo& output(const Trace& trace, size_t op, size_t k = 0) {
  return trace.tensors.at(trace.ops.at(op).outputs.at(k).tensors.at(0));
}

inline void expect_whole(const Trace& trace) {
  EXPECT_FALSE(trace.broken) << print(trace);
}

/// The reason must hold every one of `parts`.
inline void expect_broken(const Trace& trace, const std::vector<std::string>& parts) {
  ASSERT_TRUE(trace.broken) << print(trace);
  for (const std::string& part : parts) {
    EXPECT_NE(trace.broken->find(part), std::string::npos)
        << part << " is not in: " << *trace.broken;
  }
}

}  // namespace graft::record
