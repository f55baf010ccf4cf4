// What kept plans are looked for by: the same for each record of a function, and another one if
// anything in the record differs.
#include "runtime/store/trace_bytes.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "runtime/helpers.h"

namespace graft::runtime {
namespace {

using record::Trace;

std::string bytes_of(const Trace& trace) {
  ByteWriter writer;
  write(trace, writer);
  EXPECT_TRUE(writer.complete);
  return writer.take();
}

Trace recorded(const std::function<at::Tensor(const at::Tensor&)>& function, const at::Tensor& x) {
  at::Tensor result;
  return record::record(
      {x}, [&] { result = function(x); }, [&] { return std::vector<at::Tensor>{result}; });
}

TEST(TraceBytes, AreThoseOfEachRecordOfAFunction) {
  const at::Tensor w = at::randn({5});
  const auto function = [&](const at::Tensor& x) {
    return (x * w + 0.5).sum() + at::tensor({1.0f, 2.0f}).sum();
  };
  const std::string first = bytes_of(recorded(function, at::randn({3, 4, 5})));
  EXPECT_EQ(bytes_of(recorded(function, at::ones({3, 4, 5}))), first);
  EXPECT_NE(bytes_of(recorded(function, at::ones({4, 3, 5}))), first);
  EXPECT_NE(bytes_of(recorded(function, at::ones({4, 3, 5}).transpose(0, 1))), first);
}

TEST(TraceBytes, TellConstantsApart) {
  const at::Tensor x = at::rand({4, 6});
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> functions{
      [](const at::Tensor& a) { return a + 1; },
      [](const at::Tensor& a) { return a + 1.0; },
      [](const at::Tensor& a) { return a + 2; },
      [](const at::Tensor& a) { return a.add(1, 2); },
      [](const at::Tensor& a) { return a + c10::complex<double>(1, 0); },
      [](const at::Tensor& a) { return a + c10::complex<double>(1, 2); },
      [](const at::Tensor& a) { return a + at::tensor(1.0f); },
      [](const at::Tensor& a) { return a + at::tensor(2.0f); },
      [](const at::Tensor& a) { return a.sum(0); },
      [](const at::Tensor& a) { return a.sum(-1); },
      [](const at::Tensor& a) { return a.sum(0, true); },
      [](const at::Tensor& a) { return a.sum(); },
      [](const at::Tensor& a) { return a.sum(0, false, at::kDouble); },
      [](const at::Tensor& a) { return at::gelu(a); },
      [](const at::Tensor& a) { return at::gelu(a, "tanh"); },
      [](const at::Tensor& a) { return at::div(a, 3, "floor"); },
      [](const at::Tensor& a) { return at::div(a, 3, "trunc"); },
      [](const at::Tensor& a) { return at::div(a, 3); },
      [](const at::Tensor& a) { return a.t(); },
      [](const at::Tensor& a) { return a; },
      [](const at::Tensor& a) { return a.view({6, 4}); },
  };
  std::set<std::string> all;
  for (const auto& function : functions) all.insert(bytes_of(recorded(function, x)));
  EXPECT_EQ(all.size(), functions.size());
}

TEST(TraceBytes, TellApartAllThatAPlanDependsOn) {
  const at::Tensor w = at::randn({5}), x = at::randn({3, 5});
  Trace plain = recorded(
      [&](const at::Tensor& a) { return (a * w + 0.5).sum(0) + at::tensor({1.0f, 2.0f}).sum(); },
      x);
  plain.backward.emplace();
  plain.backward->inputs.push_back({});
  size_t numbers = 0;  // where there are some
  ASSERT_FALSE(plain.broken) << *plain.broken;
  while (plain.storages.at(numbers).numbers.empty()) ++numbers;
  const std::vector<std::function<void(Trace&)>> changes{
      [](Trace&) {},
      [](Trace& t) { t.storages[0].origin = record::StorageInfo::Origin::Captured; },
      [](Trace& t) { ++t.storages[0].first; },
      [](Trace& t) { ++t.storages[0].bytes; },
      [](Trace& t) { ++t.storages[0].maker; },
      [](Trace& t) { t.storages[0].escapes = !t.storages[0].escapes; },
      [&](Trace& t) { ++t.storages[numbers].numbers[1]; },
      [](Trace& t) { t.storages.pop_back(); },
      [](Trace& t) { ++t.tensors[0].storage; },
      [](Trace& t) { t.tensors[0].dtype = at::kInt; },
      [](Trace& t) { ++t.tensors[0].byte_offset; },
      [](Trace& t) { ++t.tensors[0].sizes[0]; },
      [](Trace& t) { ++t.tensors[0].sizes[1]; },
      [](Trace& t) { ++t.tensors[0].strides[0]; },
      [](Trace& t) { t.tensors[0].conjugated = true; },
      [](Trace& t) { t.tensors[0].wrapped_number = true; },
      [](Trace& t) { t.tensors[0].constant = 3; },
      [](Trace& t) { t.tensors[0].constant = 3.0; },
      [](Trace& t) { t.tensors[0].constant = true; },
      [](Trace& t) { t.tensors[0].constant = 0.25; },
      [](Trace& t) { t.tensors[0].constant = c10::complex<double>(3, 1); },
      [](Trace& t) { t.tensors.pop_back(); },
      [](Trace& t) { t.ops[0].op = t.ops.back().op; },
      [](Trace& t) { t.ops[0].tells_value = true; },
      [](Trace& t) { t.ops[0].never_called = true; },
      [](Trace& t) { t.ops[0].mutated.push_back(0); },
      [](Trace& t) { ++t.ops.back().inputs[0].tensors[0]; },
      [](Trace& t) { ++t.ops.back().outputs[0].tensors[0]; },
      [](Trace& t) { t.ops.back().inputs[0].tensors.push_back(0); },
      [](Trace& t) { t.ops.back().inputs[0].kind = record::Operand::Kind::TensorList; },
      [](Trace& t) { t.ops[0].inputs.pop_back(); },
      [](Trace& t) { t.ops[0].outputs.pop_back(); },
      [](Trace& t) { t.ops.pop_back(); },
      [](Trace& t) { ++t.arguments[0]; },
      [](Trace& t) { ++t.captured_tensors[0]; },
      [](Trace& t) { ++t.results[0].tensor; },
      [](Trace& t) { ++t.results[0].argument; },
      [](Trace& t) { ++t.results[0].captured; },
      [](Trace& t) { ++t.results[0].same_as; },
      [](Trace& t) { t.results[0].defined = false; },
      [](Trace& t) { t.results[0].returned = false; },
      [](Trace& t) { t.results[0].gradient_of.emplace(); },
      [](Trace& t) { t.results[0].lineage.inference = true; },
      [](Trace& t) { t.bumped.push_back(0); },
      [](Trace& t) { t.bumped_captured.push_back(0); },
      [](Trace& t) { t.default_dtype = at::kDouble; },
      [](Trace& t) { t.backward.reset(); },
      [](Trace& t) { ++t.backward->arguments; },
      [](Trace& t) { ++t.backward->results; },
      [](Trace& t) { ++t.backward->operators; },
      [](Trace& t) { t.backward->places.push_back(0); },
      [](Trace& t) { t.backward->comes.push_back(true); },
      [](Trace& t) { ++t.backward->inputs[0].index; },
      [](Trace& t) { t.backward->inputs[0].captured = true; },
      [](Trace& t) { t.broken = "why"; },
  };
  std::set<std::string> all;
  for (size_t k = 0; k < changes.size(); ++k) {
    Trace changed = plain;
    changes[k](changed);
    EXPECT_TRUE(all.insert(bytes_of(changed)).second) << "change " << k;
  }
}

TEST(TraceBytes, OfWhatThisProcessAloneHasAreNotComplete) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  ByteWriter writer;
  write(recorded([&](const at::Tensor& a) { return a + at::rand({6}, generator); }, at::rand({6})),
        writer);
  EXPECT_FALSE(writer.complete);
}

}  // namespace
}  // namespace graft::runtime
