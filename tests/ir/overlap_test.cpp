// The digit test against brute force: what it claims about small random accesses must be true of
// every point.
#include "ir/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace graft::ir {
namespace {

struct Shape {
  Access access;
  std::vector<int64_t> axes;
};

/// Calls fn(point, address) for every point.
template <class Fn>
void each_point(const Shape& s, Fn fn) {
  std::vector<int64_t> point(s.axes.size(), 0);
  while (true) {
    int64_t address = s.access.offset;
    for (size_t a = 0; a < point.size(); ++a) address += point[a] * s.access.strides[a];
    fn(point, address);
    size_t a = point.size();
    while (a > 0 && ++point[a - 1] == s.axes[a - 1]) point[--a] = 0;
    if (a == 0) return;
  }
}

Shape shape(std::vector<int64_t> axes, std::vector<int64_t> strides, int64_t offset) {
  Shape s;
  s.axes = std::move(axes);
  s.access.storage = 0;
  s.access.strides = std::move(strides);
  s.access.offset = offset;
  return s;
}

/// A random view, as eager programs make them: slices, permutations, broadcasts and flips of a
/// dense buffer.
Shape random_view(std::mt19937& random, bool dense) {
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const std::vector<std::vector<int64_t>> bases = {{4, 6}, {24},    {2, 3, 4}, {2, 12},
                                                   {3, 8}, {12, 2}, {2, 2, 6}};
  std::vector<int64_t> sizes =
      bases[static_cast<size_t>(pick(0, static_cast<int64_t>(bases.size()) - 1))];
  Shape s;
  s.access.storage = 0;
  int64_t stride = 24;
  for (int64_t size : sizes) {
    stride /= size;
    int64_t first = pick(0, size - 1), last = pick(first, size - 1);
    if (pick(0, 2) == 0) first = 0, last = size - 1;
    int64_t step = dense ? 1 : pick(1, 2);
    int64_t count = (last - first) / step + 1;
    s.access.offset += first * stride;
    s.axes.push_back(count);
    s.access.strides.push_back(stride * step);
    if (!dense && pick(0, 7) == 0) {
      s.access.offset += (count - 1) * s.access.strides.back();
      s.access.strides.back() *= -1;
    } else if (!dense && pick(0, 9) == 0) {
      s.access.strides.back() = 0;
    }
  }
  std::vector<size_t> order(s.axes.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::shuffle(order.begin(), order.end(), random);
  Shape permuted = s;
  for (size_t k = 0; k < order.size(); ++k)
    permuted.axes[k] = s.axes[order[k]], permuted.access.strides[k] = s.access.strides[order[k]];
  return permuted;
}

TEST(Digits, RelateHoldsForEveryPoint) {
  std::mt19937 random(1);
  int seen[5] = {};
  for (int round = 0; round < 200000; ++round) {
    Shape store = random_view(random, true), access = random_view(random, false);
    Overlap overlap = relate(store.access, store.axes, access.access, access.axes);
    ++seen[static_cast<int>(overlap.relation)];
    std::set<int64_t> stored;
    each_point(store, [&](const auto&, int64_t address) { stored.insert(address); });
    bool any = false, all = true;
    each_point(access, [&](const auto&, int64_t address) {
      (stored.count(address) ? any : all) = stored.count(address);
    });
    if (overlap.relation == Relation::Disjoint) {
      ASSERT_FALSE(any) << "round " << round;
    }
    if (overlap.relation == Relation::Covered) {
      ASSERT_TRUE(all) << "round " << round;
      each_point(access, [&](const auto& point, int64_t address) {
        int64_t made = store.access.offset;
        for (size_t p = 0; p < store.axes.size(); ++p) {
          int64_t index = overlap.map.constant[p];
          for (size_t a = 0; a < point.size(); ++a)
            index += overlap.map.coefficient(p, a) * point[a];
          ASSERT_GE(index, 0);
          ASSERT_LT(index, store.axes[p]);
          made += index * store.access.strides[p];
        }
        ASSERT_EQ(made, address) << "round " << round;
      });
    }
    if (overlap.relation == Relation::Partial) {
      ASSERT_GT(overlap.at, 0);
      ASSERT_LT(overlap.at, access.axes[static_cast<size_t>(overlap.axis)]);
    }
    if (overlap.relation == Relation::NeedSplit) {
      ASSERT_EQ(access.axes[static_cast<size_t>(overlap.axis)] % overlap.at, 0);
    }
  }
  for (int count : seen) EXPECT_GT(count, 500);  // every answer is exercised
}

Statement statement_of(const Shape& shape) {
  Statement s;
  s.axes = shape.axes;
  return s;
}

TEST(Digits, SameDigitNeverMeetsAnotherIteration) {
  std::mt19937 random(2);
  int yes = 0;
  for (int round = 0; round < 200000; ++round) {
    Shape x = random_view(random, false), y = random_view(random, false);
    for (size_t a = 0; a < x.axes.size(); ++a)
      for (size_t b = 0; b < y.axes.size(); ++b) {
        if (!same_digit(x.access, statement_of(x), a, y.access, statement_of(y), b)) continue;
        ++yes;
        std::map<int64_t, std::set<int64_t>> at;
        each_point(x, [&](const auto& point, int64_t address) { at[address].insert(point[a]); });
        each_point(y, [&](const auto& point, int64_t address) {
          auto found = at.find(address);
          if (found == at.end()) return;
          for (int64_t t : found->second) ASSERT_EQ(t, point[b]) << "round " << round;
        });
      }
  }
  EXPECT_GT(yes, 5000);
}

/// The shape's access with what axis k adds in an index from data.
Access with_index(const Shape& shape, size_t k) {
  Access access = shape.access;
  access.indirect.push_back({0, access.strides[k], shape.axes[k]});
  access.strides[k] = 0;
  return access;
}

TEST(Digits, AnIndexOfKnownExtentReachesAsFarAsAnAxis) {
  std::mt19937 random(3);
  int yes = 0, apart = 0;
  for (int round = 0; round < 100000; ++round) {
    Shape x = random_view(random, false), y = random_view(random, false);
    if (x.axes.size() < 2) continue;
    size_t k = random() % x.axes.size();
    Access picked = with_index(x, k);
    std::map<int64_t, std::set<std::vector<int64_t>>> at;
    each_point(x, [&](const auto& point, int64_t address) { at[address].insert(point); });
    bool meets = false;
    each_point(y, [&](const auto&, int64_t address) { meets = meets || at.count(address) != 0; });
    if (!meet(picked, statement_of(x), y.access, statement_of(y))) {
      ++apart;
      ASSERT_FALSE(meets) << "round " << round;
    }
    for (size_t a = 0; a < x.axes.size(); ++a) {
      if (a == k) continue;
      for (size_t b = 0; b < y.axes.size(); ++b) {
        if (!same_digit(picked, statement_of(x), a, y.access, statement_of(y), b)) continue;
        ++yes;
        each_point(y, [&](const auto& point, int64_t address) {
          for (const auto& other : at[address]) ASSERT_EQ(other[a], point[b]) << "round " << round;
        });
      }
    }
  }
  EXPECT_GT(yes, 1000);
  EXPECT_GT(apart, 1000);
}

TEST(Digits, HalfOfARowStoredByCat) {
  Shape half = shape({4, 64}, {128, 1}, 64), row = shape({4, 128}, {128, 1}, 0);
  Overlap overlap = relate(half.access, half.axes, row.access, row.axes);
  EXPECT_EQ(overlap.relation, Relation::Partial);
  EXPECT_EQ(overlap.axis, 1);
  EXPECT_EQ(overlap.at, 64);
}

/// What lies between the elements of a store is a digit, too.
TEST(Digits, OneOfThreePartsOfPixels) {
  Shape green = shape({64}, {3}, 1), pixels = shape({64, 3}, {3, 1}, 0),
        flat = shape({192}, {1}, 0);
  Overlap overlap = relate(green.access, green.axes, pixels.access, pixels.axes);
  EXPECT_EQ(overlap.relation, Relation::Partial);
  EXPECT_EQ(overlap.axis, 1);
  EXPECT_EQ(overlap.at, 1);
  overlap = relate(green.access, green.axes, flat.access, flat.axes);
  EXPECT_EQ(overlap.relation, Relation::NeedSplit);
  EXPECT_EQ(overlap.at, 3);
}

TEST(Digits, FlatReaderOfRowsNeedsASplit) {
  Shape rows = shape({4, 16}, {32, 1}, 0), flat = shape({128}, {1}, 0);
  Overlap overlap = relate(rows.access, rows.axes, flat.access, flat.axes);
  EXPECT_EQ(overlap.relation, Relation::NeedSplit);
  EXPECT_EQ(overlap.at, 32);
}

TEST(Digits, DtypeViewsAreKnownWhereElementsHaveOneSize) {
  Shape store = shape({8}, {1}, 0), access = shape({4}, {1}, 2);
  access.access.dtype = c10::ScalarType::Int;
  const Overlap inside = relate(store.access, store.axes, access.access, access.axes);
  EXPECT_EQ(inside.relation, Relation::Covered);
  EXPECT_EQ(inside.map.constant[0], 2);
  for (auto dtype : {c10::ScalarType::Long, c10::ScalarType::Short}) {
    access.access.dtype = dtype;
    EXPECT_EQ(relate(store.access, store.axes, access.access, access.axes).relation,
              Relation::Unknown);
  }
}

TEST(Views, OverlapIsExactForNestedStrides) {
  auto view = [](int64_t offset, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    return View{0, at::kFloat, offset * 4, std::move(sizes), std::move(strides)};
  };
  EXPECT_FALSE(overlap(view(0, {3, 4}, {8, 1}), view(4, {3, 4}, {8, 1})));
  EXPECT_TRUE(overlap(view(0, {3, 4}, {8, 1}), view(3, {3, 4}, {8, 1})));
  EXPECT_FALSE(overlap(view(0, {4}, {2}), view(1, {4}, {2})));
  EXPECT_TRUE(overlap(view(0, {4}, {2}), view(1, {4}, {3})));
  EXPECT_FALSE(overlap(view(0, {4}, {6}), view(1, {4}, {3})));
  EXPECT_FALSE(overlap(view(7, {4}, {-1}), view(0, {4}, {1})));
  EXPECT_TRUE(overlap(view(7, {5}, {-1}), view(0, {4}, {1})));
  View bytes{0, at::kByte, 3, {1}, {1}};
  EXPECT_TRUE(overlap(view(0, {1}, {1}), bytes));
  EXPECT_FALSE(overlap(view(1, {1}, {1}), bytes));
}

TEST(Views, TheVeryElementIsNoClash) {
  View rows{0, at::kFloat, 0, {3, 4}, {4, 1}}, turned{0, at::kFloat, 0, {3, 4}, {1, 3}};
  View first{0, at::kFloat, 0, {1, 4}, {4, 1}}, other{1, at::kFloat, 0, {3, 4}, {4, 1}};
  EXPECT_FALSE(clash(rows, rows));
  EXPECT_FALSE(clash(rows, other));
  EXPECT_TRUE(clash(rows, turned));
  EXPECT_TRUE(clash(rows, first));
}

/// x[1:] = x[:-1] reads what its neighbour stores; x = -x and x[0] = x[1] + x[2] do not.
TEST(Statements, ReadsOfOwnStores) {
  auto statement = [](int64_t count, int64_t to, int64_t from, int64_t stride) {
    Statement s;
    s.axes = {count};
    s.store = {0, at::kFloat, to, {1}, {}};
    s.loads = {{0, at::kFloat, from, {stride}, {}}};
    return s;
  };
  EXPECT_TRUE(may_read_own_stores(statement(7, 1, 0, 1)));
  EXPECT_TRUE(surely_reads_own_stores(statement(7, 1, 0, 1)));
  EXPECT_FALSE(may_read_own_stores(statement(8, 0, 0, 1)));
  EXPECT_FALSE(surely_reads_own_stores(statement(8, 0, 0, 1)));
  EXPECT_FALSE(may_read_own_stores(statement(4, 0, 4, 1)));
  EXPECT_FALSE(
      surely_reads_own_stores(statement(3, 192, 128, 130)));         // 128, 258, 388: passes it by
  EXPECT_TRUE(surely_reads_own_stores(statement(3, 192, 128, 64)));  // 128, 192, 256
  Statement indirect = statement(4, 0, 4, 1);
  indirect.loads[0].indirect = {{0, 1}};
  EXPECT_TRUE(may_read_own_stores(indirect));
  EXPECT_FALSE(surely_reads_own_stores(indirect));
}

TEST(Statements, OverwritesOnlyWhereItIsSure) {
  auto store = [](int64_t count, int64_t offset) {
    Statement s;
    s.axes = {count};
    s.store = {0, at::kFloat, offset, {1}, {}};
    return s;
  };
  EXPECT_TRUE(overwrites(store(8, 0), store(4, 2)));
  EXPECT_TRUE(overwrites(store(8, 0), store(8, 0)));
  EXPECT_FALSE(overwrites(store(4, 2), store(8, 0)));
  EXPECT_FALSE(overwrites(store(4, 0), store(4, 4)));
  Statement sum = store(8, 0);
  sum.reduction = Reduction{ReduceOp::Sum, at::kFloat, 0, {true}, false};
  EXPECT_FALSE(overwrites(sum, store(8, 0)));
}

}  // namespace
}  // namespace graft::ir
