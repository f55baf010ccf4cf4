// Reads and writes by index: recorded, lowered and interpreted, against eager.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/interpreter.h"
#include "support/lowered.h"
#include "support/samples.h"

namespace graft::test {
namespace {

using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;

const std::vector<c10::ScalarType> kSome = {at::kFloat, at::kBFloat16, at::kLong, at::kBool};

Tensor integers(std::vector<int64_t> values, at::IntArrayRef sizes,
                c10::ScalarType type = at::kLong) {
  return at::tensor(values, at::TensorOptions(at::kLong)).reshape(sizes).to(type);
}

TEST(Index, Gather) {
  for (c10::ScalarType type : kSome)
    for (const Tensor& x : layouts(type)) {
      if (x.dim() == 0) continue;
      for (int64_t dim = 0; dim < x.dim(); ++dim) {
        // As many as there are, in another order, and every second of the other dimensions.
        std::vector<int64_t> sizes = x.sizes().vec();
        for (int64_t d = 0; d < x.dim(); ++d)
          sizes[d] = d == dim ? sizes[d] + 2 : (sizes[d] + 1) / 2;
        Tensor index = (sample(sizes, at::kLong).abs() * 7).remainder(x.size(dim));
        expect_as_eager([&](Tensors& a) { return Tensors{a[0].gather(dim, a[1])}; }, {x, index});
      }
    }
  expect_as_eager([](Tensors& a) { return Tensors{a[0].gather(1, a[1])}; },
                  {sample({2, 5}, at::kFloat), integers({4, 0, 1, 1}, {2, 2}, at::kInt)});
}

TEST(Index, Select) {
  for (c10::ScalarType type : kSome)
    for (const Tensor& x : layouts(type))
      for (int64_t dim = 0; dim < x.dim(); ++dim)
        for (c10::ScalarType index_type : {at::kLong, at::kInt}) {
          Tensor index = (sample({7}, at::kLong).abs() * 3).remainder(x.size(dim)).to(index_type);
          expect_as_eager([&](Tensors& a) { return Tensors{a[0].index_select(dim, a[1])}; },
                          {x, index});
        }
  expect_as_eager([](Tensors& a) { return Tensors{a[0].index_select(0, a[1])}; },
                  {sample({5, 3}, at::kFloat), integers({3}, {})});
}

TEST(Index, Embedding) {
  for (c10::ScalarType type : {at::kFloat, at::kBFloat16})
    for (c10::ScalarType index_type : {at::kLong, at::kInt}) {
      Tensor index = integers({1, 0, 9, 9, 3, 2}, {2, 3}, index_type);
      expect_as_eager([](Tensors& a) { return Tensors{at::embedding(a[0], a[1])}; },
                      {sample({10, 8}, type), index});
      expect_as_eager([](Tensors& a) { return Tensors{at::embedding(a[0], a[1], 0)}; },
                      {sample({8, 10}, type).t(), index.t()});
    }
  // A position table read at a running index, as transformers do.
  expect_as_eager([](Tensors& a) { return Tensors{at::embedding(a[0], at::arange(4)) + a[1]}; },
                  {sample({10, 8}, at::kFloat), sample({4, 8}, at::kFloat)}, Fates::AnyExtern);
}

TEST(Index, SubscriptsInEveryPosition) {
  Tensor x = sample({4, 5, 6}, at::kFloat);
  Tensor one = integers({2, 0, -1}, {3}), column = integers({1, -4}, {2, 1}),
         scalar = integers({2}, {});
  std::optional<Tensor> none;
  std::vector<std::vector<std::optional<Tensor>>> subscripts = {
      {one},
      {none, one},
      {none, none, one},
      {one, column},
      {none, one, column},
      {one, none, column},
      {column, one, scalar},
      {scalar},
      {none, scalar},
      {scalar, none, one},
      {one.to(at::kInt), column},
  };
  for (const auto& subscript : subscripts)
    for (const Tensor& self : {x, x.permute({2, 0, 1}).permute({1, 2, 0}),
                               sample({4, 1, 6}, at::kFloat).expand({4, 5, 6})}) {
      Tensors args = {self};
      for (const auto& index : subscript)
        if (index) args.push_back(*index);
      expect_as_eager(
          [&](Tensors& a) {
            Indices indices;
            size_t next = 1;
            for (const auto& index : subscript)
              indices.push_back(index ? std::optional(a[next++]) : none);
            return Tensors{at::index(a[0], indices)};
          },
          args);
    }
}

TEST(Index, Take) {
  expect_as_eager(
      [](Tensors& a) { return Tensors{a[0].take(a[1]), at::take_along_dim(a[0], a[2], 1)}; },
      {sample({4, 5}, at::kFloat), integers({19, -20, 3, 7}, {2, 2}),
       integers({0, 4, 1, 2}, {4, 1})});
}

TEST(Index, NothingSelected) {
  expect_as_eager(
      [](Tensors& a) { return Tensors{a[0].index_select(0, a[1]), at::embedding(a[0], a[1])}; },
      {sample({4, 5}, at::kFloat), at::empty({0}, at::kLong)});
}

/// Runs the lowered function on other indices than those recorded, where eager raises.
void expect_abort(const Function& fn, const Tensors& recorded, const Tensors& called) {
  LoweredRun run = lower_run(fn, recorded);
  SCOPED_TRACE(ir::print(run.lowered.program));
  for (const OperatorReport& op : run.lowered.operators)
    EXPECT_NE(op.fate, "extern") << op.name << ": " << op.why;
  Tensors copies = clone_all(called), eager = clone_all(called);
  EXPECT_ANY_THROW(fn(eager));
  EXPECT_THROW(interpret(run.lowered.program, copies, run.trace.captured), Aborted);
  for (size_t k = 0; k < called.size(); ++k)
    EXPECT_EQ(content_difference(called[k], copies[k]), "") << "an argument was written";
}

TEST(Index, OutOfBoundsAborts) {
  Tensor x = sample({4, 5}, at::kFloat);
  Tensor good = integers({1, 2}, {2});
  for (int64_t bad : {4, -5, 1000000}) {
    Tensor wrong = integers({1, bad}, {2});
    expect_abort([](Tensors& a) { return Tensors{a[0].index_select(0, a[1])}; }, {x, good},
                 {x, wrong});
    expect_abort([](Tensors& a) { return Tensors{at::embedding(a[0], a[1])}; }, {x, good},
                 {x, wrong});
    expect_abort([](Tensors& a) { return Tensors{a[0].index({a[1]})}; }, {x, good}, {x, wrong});
    expect_abort([](Tensors& a) { return Tensors{a[0].gather(0, a[1].unsqueeze(1))}; }, {x, good},
                 {x, wrong});
    expect_abort([](Tensors& a) { return Tensors{a[0].scatter_(0, a[1].unsqueeze(1), 3)}; },
                 {x, good}, {x, wrong});
    expect_abort([](Tensors& a) { return Tensors{a[0].index_fill_(0, a[1], 3)}; }, {x, good},
                 {x, wrong});
  }
  Tensor negative = integers({-1, 0}, {2});
  expect_abort([](Tensors& a) { return Tensors{a[0].index_select(0, a[1])}; }, {x, good},
               {x, negative});
  expect_abort([](Tensors& a) { return Tensors{a[0].gather(0, a[1].unsqueeze(1))}; }, {x, good},
               {x, negative});
  expect_abort([](Tensors& a) { return Tensors{a[0].scatter(0, a[1].unsqueeze(1), 3)}; }, {x, good},
               {x, negative});
}

TEST(Index, ScatterOfOneValue) {
  for (c10::ScalarType type : kSome) {
    Tensor index = integers({0, 3, 3, 1}, {2, 2});  // equal indices store the same value
    expect_as_eager([](Tensors& a) { return Tensors{a[0].scatter(0, a[1], 1)}; },
                    {sample({4, 3}, type), index});
    expect_as_eager([](Tensors& a) { return Tensors{a[0].scatter_(1, a[1].remainder(3), 1)}; },
                    {sample({3, 4}, type).t(), index}, Fates::AnyExtern);
  }
  // One-hot.
  expect_as_eager(
      [](Tensors& a) { return Tensors{at::zeros({4, 6}).scatter_(1, a[0].unsqueeze(1), 1)}; },
      {integers({5, 0, 2, 2}, {4})}, Fates::AnyExtern);
}

TEST(Index, ScatterFromATensor) {
  Tensor x = sample({4, 5}, at::kFloat), source = sample({4, 3}, at::kFloat);
  Tensor column = integers({3, 0, 1, 1}, {4, 1});
  expect_as_eager([](Tensors& a) { return Tensors{a[0].scatter(1, a[1], a[2])}; },
                  {x, column, source});
  expect_as_eager([](Tensors& a) { return Tensors{a[0].scatter_(1, a[1], a[2])}; },
                  {x, column, source});
  Function many = [](Tensors& a) { return Tensors{(a[0] + 1).scatter(0, a[1], a[2])}; };
  LoweredRun run = lower_run(many, {x, column, source});
  EXPECT_EQ(fate(run.lowered, "aten::scatter.src"), "fused");
  expect_as_eager(many, {x, column, source});
  expect_as_eager([](Tensors& a) { return Tensors{a[0].scatter(1, a[1], a[2], "add")}; },
                  {x, column, source});
}

TEST(Index, CopyAndFill) {
  Tensor x = sample({4, 5}, at::kFloat);
  expect_as_eager([](Tensors& a) { return Tensors{a[0].index_copy(1, a[1], a[2])}; },
                  {x, integers({3}, {1}), sample({4, 1}, at::kFloat)});
  expect_as_eager([](Tensors& a) { return Tensors{a[0].index_copy_(0, a[1], a[2])}; },
                  {x, integers({3}, {1}), sample({1, 5}, at::kFloat)});
  expect_as_eager([](Tensors& a) { return Tensors{a[0].index_copy_(0, a[1], a[2])}; },
                  {x, integers({3, 0}, {2}), sample({2, 5}, at::kFloat)});
  expect_as_eager(
      [](Tensors& a) {
        return Tensors{a[0].index_fill(1, a[1], 0.5), a[0].index_fill_(0, a[1], a[2])};
      },
      {x, integers({3, -1, 3}, {3}), sample({}, at::kFloat)});
}

TEST(Index, Put) {
  Tensor x = sample({4, 5, 6}, at::kFloat), one = integers({2, 0, -1}, {3}),
         single = integers({1}, {1});
  auto put = [](Tensors& a) { return Tensors{a[0].index_put({a[1]}, a[2])}; };
  auto put_in_place = [](Tensors& a) { return Tensors{a[0].index_put_({{}, a[1]}, a[2])}; };
  for (const auto& f : {Function(put), Function(put_in_place)}) {
    expect_as_eager(f, {x, one, sample({}, at::kFloat)});
    expect_as_eager(f, {x, single, sample({1}, at::kFloat)});
    expect_as_eager(f, {x, one, sample({6}, at::kFloat)});
  }
  expect_as_eager(put, {x, single, sample({1, 5, 6}, at::kFloat)});
  expect_as_eager(put_in_place, {x, single, sample({4, 1, 6}, at::kFloat)});
  expect_as_eager(put, {x, one, sample({3, 5, 6}, at::kFloat)});
  expect_as_eager([](Tensors& a) { return Tensors{a[0].index_put({a[1]}, a[2], true)}; },
                  {x, one, sample({}, at::kFloat)});
}

TEST(Index, ACheckOfWhatWasMadeCannotComeAfterAVisibleStore) {
  LoweredRun run = lower_run(
      [](Tensors& a) {
        a[0].add_(1);
        return Tensors{a[0].index_select(0, a[1] * 1)};
      },
      {sample({4, 5}, at::kFloat), integers({3}, {1})});
  EXPECT_EQ(fate(run.lowered, "aten::index_select"),
            "extern: its bounds check would come after a visible store");
  LoweredRun changed = lower_run(
      [](Tensors& a) {
        a[1].sub_(1);
        return Tensors{a[0].index_select(0, a[1])};
      },
      {sample({4, 5}, at::kFloat), integers({3}, {1})});
  EXPECT_EQ(fate(changed.lowered, "aten::index_select"),
            "extern: its bounds check would come after a visible store");
}

TEST(Index, IndicesIntoNothingAreEagersToCheck) {
  LoweredRun run =
      lower_run([](Tensors& a) { return Tensors{a[0].index_select(0, a[1]), a[0] + 1}; },
                {sample({7, 0}, at::kFloat), integers({3, 1}, {2})});
  EXPECT_EQ(fate(run.lowered, "aten::index_select").substr(0, 7), "extern:");
}

TEST(Index, ChecksOfArgumentsComeFirstAndOnce) {
  const Function body = [](Tensors& a) {
    a[0].add_(1);
    at::Tensor sum = a[0].index_select(0, a[1]);
    for (int i = 0; i < 3; ++i) sum = sum + a[0].index_select(0, a[1]) * i;
    return Tensors{sum, a[0].index_select(1, a[1])};
  };
  Tensors args{sample({4, 5}, at::kFloat), integers({3}, {1})};
  LoweredRun run = lower_run(body, args);
  EXPECT_EQ(fate(run.lowered, "aten::index_select"), "fused");
  size_t aborts = 0, last = 0;
  for (size_t i = 0; i < run.lowered.program.items.size(); ++i)
    if (std::holds_alternative<ir::Abort>(run.lowered.program.items[i])) ++aborts, last = i;
  EXPECT_EQ(aborts, 2u) << "against 4 rows, and against 5 columns";
  EXPECT_EQ(last, 3u);
  args[1][0] = 4;  // a column, but no row
  EXPECT_THROW(interpret(run.lowered.program, args), Aborted);
}

}  // namespace
}  // namespace graft::test
