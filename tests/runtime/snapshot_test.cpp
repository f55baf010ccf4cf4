#include "runtime/process/snapshot.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

namespace graft::runtime {
namespace {

struct Counted {
  explicit Counted(int value) : value(value), check(~value) { ++alive; }
  ~Counted() {
    check = 0;
    --alive;
  }
  int value, check;
  static std::atomic<int> alive;
};
std::atomic<int> Counted::alive{0};

TEST(Snapshot, OldValuesGoWhenTheirReadersAreGone) {
  {
    Snapshot<Counted> snapshot(std::make_unique<Counted>(1));
    {
      Snapshot<Counted>::Reader reader(snapshot);
      snapshot.replace(std::make_unique<Counted>(2));
      EXPECT_EQ(reader->value, 1);
      EXPECT_EQ(reader->check, ~1);
      EXPECT_EQ(Snapshot<Counted>::Reader(snapshot)->value, 2);
      EXPECT_EQ(Counted::alive, 2);
    }
    snapshot.replace(std::make_unique<Counted>(3));
    EXPECT_EQ(Counted::alive, 1);
    EXPECT_EQ(snapshot.reads(), 2);
  }
  EXPECT_EQ(Counted::alive, 0);
}

TEST(Snapshot, ReadersNeverSeeAFreedValue) {
  Snapshot<Counted> snapshot(std::make_unique<Counted>(0));
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t)
    readers.emplace_back([&] {
      while (!stop) {
        Snapshot<Counted>::Reader reader(snapshot);
        ASSERT_EQ(reader->check, ~reader->value);
      }
    });
  for (int i = 1; i < 2000; ++i) snapshot.replace(std::make_unique<Counted>(i));
  stop = true;
  for (auto& reader : readers) reader.join();
  snapshot.collect();
  EXPECT_EQ(Counted::alive, 1);
}

}  // namespace
}  // namespace graft::runtime
