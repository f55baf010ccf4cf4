// Sorting and selecting with libstdc++'s swaps: each element ends where std::sort and
// std::nth_element leave it, whatever the keys.
#include "sorting/introsort.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "runtime/helpers.h"

namespace graft {
namespace {

using Entries = std::vector<Entry<uint32_t>>;

/// Keys for which a median of three is always among the least: most partitions are of a few.
std::vector<uint32_t> killer(size_t count) {
  std::vector<uint32_t> keys(count, 0);
  const auto half = count / 2;
  for (size_t k = 1; k <= half; ++k) {
    if (k % 2 == 1) {
      keys[k - 1] = static_cast<uint32_t>(k);
      if (k < half) keys[k] = static_cast<uint32_t>(half + k);
    }
    keys[half + k - 1] = static_cast<uint32_t>(2 * k);
  }
  return keys;
}

/// Calls fn(entries) with rows of each kind.
void each_row(size_t count, const std::function<void(const Entries&)>& fn) {
  std::mt19937 random(static_cast<uint32_t>(count));
  const auto pick = [&](uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(0, most)(random);
  };
  const std::vector<std::function<uint32_t(size_t)>> kinds{
      [&](size_t) { return pick(~0U); },
      [&](size_t) { return pick(12); },
      [&](size_t) { return pick(static_cast<uint32_t>(count / 2)); },
      [](size_t) { return 7U; },
      [](size_t k) { return static_cast<uint32_t>(k / 3); },
      [&](size_t k) { return static_cast<uint32_t>((count - k) / 2); },
      [&](size_t k) { return static_cast<uint32_t>(std::min(k, count - k)); },
      [&](size_t k) { return killer(count)[k]; },
  };
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    if (kind + 1 == kinds.size() && count > 3000) continue;
    Entries entries(count);
    for (size_t k = 0; k < count; ++k) entries[k] = {static_cast<uint32_t>(k), kinds[kind](k)};
    SCOPED_TRACE("kind " + std::to_string(kind) + ", " + std::to_string(count) + " elements");
    fn(entries);
  }
}

void expect_same(const Entries& ours, const Entries& theirs) {
  for (size_t k = 0; k < theirs.size(); ++k)
    ASSERT_TRUE(ours[k].place == theirs[k].place && ours[k].key == theirs[k].key) << "at " << k;
}

TEST(Introsort, SortsAsStdSort) {
  const int threads = at::get_num_threads();
  for (size_t count :
       {0, 1, 2, 3, 15, 16, 17, 18, 40, 127, 128, 129, 130, 200, 257, 1000, 3000, 20000, 70000}) {
    at::set_num_threads(count % 2 == 0 ? 1 : 3);
    if (count >= 20000) at::set_num_threads(3);
    each_row(count, [](const Entries& row) {
      Entries ours = row, theirs = row;
      sort_as_std(ours);
      std::sort(theirs.begin(), theirs.end(), ByKey());
      expect_same(ours, theirs);
    });
  }
  at::set_num_threads(threads);
}

TEST(Introsort, SelectsAsNthElement) {
  for (size_t count : {1, 2, 3, 4, 5, 17, 130, 300, 3000, 20000})
    for (size_t nth : {size_t{0}, count / 3, count / 2, count - 1})
      each_row(count, [&](const Entries& row) {
        Entries ours = row, theirs = row;
        if (!nth_as_std(ours, static_cast<ptrdiff_t>(nth))) return;
        std::nth_element(theirs.begin(), theirs.begin() + static_cast<ptrdiff_t>(nth), theirs.end(),
                         ByKey());
        expect_same(ours, theirs);
      });
}

/// Short rows of which a few are wanted: with and without equal elements, in every dtype.
TEST(Introsort, TheFirstOfShortRows) {
  using test::Tensors;
  at::manual_seed(5);
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kInt, at::kLong, at::kHalf})
    for (int64_t count : {1, 2, 6, 17, 32, 33})
      for (int64_t k : {1, 2, 4}) {
        if (k > count) continue;
        auto f = compile(
            [k](const at::Tensor& x) {
              auto [values, places] = at::topk(x, k, -1, /*largest=*/false);
              return Tensors{values, places};
            },
            test::at_once());
        for (int call = 0; call < 8; ++call) {
          const at::Tensor x = at::randint(-9, call < 4 ? 9 : 30000, {50, count}).to(type);
          auto [values, places] = at::topk(x, k, -1, false);
          const Tensors ours = f(x);
          EXPECT_TRUE(test::same(ours[0], values)) << type << " " << count << " " << k;
          EXPECT_TRUE(test::same(ours[1], places)) << type << " " << count << " " << k;
        }
      }
}

}  // namespace
}  // namespace graft
