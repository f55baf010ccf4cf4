#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "graft/pool.h"
#include "runtime/memory/pool.h"
#include "runtime/memory/size_class.h"

namespace graft::runtime {
namespace {

bool aligned(const void* pointer, uintptr_t to) {
  return reinterpret_cast<uintptr_t>(pointer) % to == 0;
}

TEST(SizeClass, HoldsWhatWasAskedForAndLittleMore) {
  for (size_t bytes = 1; bytes < kMaxBytes; bytes += bytes / 17 + 1) {
    size_t held = class_bytes(size_class(bytes));
    ASSERT_GE(held, bytes);
    ASSERT_LE(held, bytes + bytes / 4 + 64) << bytes;
    ASSERT_LT(size_class(bytes), kClasses);
  }
}

TEST(Pool, AlignsToCacheLinesAndPages) {
  for (size_t bytes : {1ul, 63ul, 64ul, 65ul, 5000ul, 1ul << 20, 5ul << 20}) {
    void* block = pool_allocate(bytes);
    EXPECT_TRUE(aligned(block, bytes >= kLargeBytes ? 4096 : 64)) << bytes;
    if (bytes >= 2u << 20) {
      EXPECT_TRUE(aligned(block, 2 << 20)) << bytes;
    }
    std::memset(block, 0xab, bytes);
    pool_free(block);
  }
  EXPECT_EQ(pool_allocate(0), nullptr);
  pool_free(nullptr);
}

TEST(Pool, GivesAFreedBlockAgain) {
  for (size_t bytes : {100ul, 40000ul, 3ul << 20}) {
    void* first = pool_allocate(bytes);
    pool_free(first);
    PoolStats before = pool_stats();
    void* second = pool_allocate(bytes);
    EXPECT_EQ(first, second);
    EXPECT_EQ(pool_stats().hits, before.hits + 1);
    EXPECT_EQ(pool_stats().misses, before.misses);
    pool_free(second);
  }
}

/// Within a doubling; memory that was never used costs none.
TEST(Pool, ABlockGrows) {
  pool_trim();
  void* block = pool_allocate(9 << 20);
  std::memset(block, 1, 9 << 20);
  pool_free(block);
  PoolStats before = pool_stats();
  for (size_t megabytes : {11, 16, 10}) {
    void* again = pool_allocate(megabytes << 20);
    EXPECT_EQ(again, block) << megabytes;
    std::memset(again, 2, megabytes << 20);
    pool_free(again);
  }
  EXPECT_EQ(pool_stats().misses, before.misses);
  EXPECT_EQ(pool_stats().cached_bytes, before.cached_bytes + (6 << 20));
  void* other = pool_allocate(17 << 20);
  EXPECT_EQ(pool_stats().misses, before.misses + 1);
  pool_free(other);
  pool_trim();
}

TEST(Pool, SmallBlocksGrowToo) {
  pool_trim();
  void* first = pool_allocate(17 << 10);
  pool_free(first);
  for (size_t bytes : {20u << 10, 27u << 10, 32u << 10, 18u << 10}) {
    void* again = pool_allocate(bytes);
    EXPECT_EQ(again, first) << bytes;
    std::memset(again, 1, bytes);
    pool_free(again);
  }
  // The largest of a doubling may be a mapping: then no small block becomes one.
  pool_trim();
  void* small = pool_allocate(kLargeBytes * 7 / 8);
  void* smaller = pool_allocate(kLargeBytes * 3 / 4);
  pool_free(small), pool_free(smaller);
  void* large = pool_allocate(kLargeBytes);
  EXPECT_TRUE(aligned(large, 4096));
  std::memset(large, 1, kLargeBytes);
  pool_free(large);
}

TEST(Pool, CountsWhatIsInUse) {
  PoolStats before = pool_stats();
  void* block = pool_allocate(12345);
  EXPECT_EQ(pool_stats().in_use_bytes, before.in_use_bytes + 12345);
  std::thread([&] { pool_free(block); }).join();
  EXPECT_EQ(pool_stats().in_use_bytes, before.in_use_bytes);
}

TEST(Pool, TrimLeavesNothingCached) {
  pool_trim();
  const int64_t others = pool_stats().cached_bytes;  // small blocks of threads of other tests
  pool_free(pool_allocate(1000));
  pool_free(pool_allocate(9 << 20));
  EXPECT_GT(pool_stats().cached_bytes, 9 << 20);
  pool_trim();
  EXPECT_EQ(pool_stats().cached_bytes, others);
}

TEST(Pool, RefusesTheImpossibleWithTorchsError) {
  EXPECT_THROW(pool_allocate(size_t{1} << 60), c10::Error);
  EXPECT_THROW(pool_allocate(size_t{1} << 48), c10::Error);
  void* block = pool_allocate(64);  // and is not harmed by it
  EXPECT_NE(block, nullptr);
  pool_free(block);
}

TEST(Pool, BlocksThatAThreadCachedSurviveIt) {
  void* block = nullptr;
  std::thread([&] {
    block = pool_allocate(3000);
    pool_free(pool_allocate(3000));
  }).join();
  std::memset(block, 1, 3000);
  pool_free(block);
}

TEST(Pool, ManyThreadsFreeingEachOthersBlocks) {
  constexpr int kThreads = 4, kRounds = 3000, kSlots = 64;
  struct Slot {
    std::atomic<char*> block{nullptr};
  };
  std::array<Slot, kSlots> slots;
  auto work = [&](int seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int i = 0; i < kRounds; ++i) {
      size_t bytes = size_t{8} << random() % 14;
      auto* block = static_cast<char*>(pool_allocate(bytes));
      auto mark = static_cast<char>(random());
      std::memset(block, mark, bytes);
      std::memcpy(block, &bytes, sizeof bytes);
      block[bytes - 1] = bytes > 8 ? mark : block[bytes - 1];
      char* other = slots[random() % kSlots].block.exchange(block);
      if (other == nullptr) continue;
      size_t length;
      std::memcpy(&length, other, sizeof length);
      for (size_t k = sizeof length + 1; k < length; ++k) ASSERT_EQ(other[k], other[k - 1]);
      pool_free(other);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  for (auto& thread : threads) thread.join();
  for (Slot& slot : slots) pool_free(slot.block.load());
}

TEST(PoolGuard, ServesTensorsWhileAliveAndNests) {
  auto served = [] {
    int64_t before = pool_stats().in_use_bytes;
    at::Tensor tensor = at::empty({1000});
    return pool_stats().in_use_bytes == before + 4000;
  };
  EXPECT_FALSE(served());
  at::Tensor longer;
  {
    PoolGuard outer;
    EXPECT_TRUE(served());
    {
      PoolGuard inner;
      EXPECT_TRUE(served());
    }
    EXPECT_TRUE(served());
    std::thread([&] { EXPECT_FALSE(served()); }).join();
    longer = at::ones({1 << 20});
  }
  EXPECT_FALSE(served());
  EXPECT_EQ(longer.sum().item<float>(), 1 << 20);
  longer.resize_({1 << 21});  // asks the allocator again, for other memory
  EXPECT_EQ(longer.slice(0, 0, 1 << 20).sum().item<float>(), 1 << 20);
}

TEST(PoolGuard, RawMemoryIsFreedByWhoGaveIt) {
  install_pool_allocator();
  c10::Allocator* allocator = c10::GetAllocator(c10::kCPU);
  PoolStats before = pool_stats();
  void* plain = allocator->raw_allocate(5000);
  void* pooled = nullptr;
  {
    PoolGuard guard;
    pooled = allocator->raw_allocate(5000);
    EXPECT_EQ(pool_stats().in_use_bytes, before.in_use_bytes + 5000);
    allocator->raw_deallocate(plain);
  }
  allocator->raw_deallocate(pooled);
  EXPECT_EQ(pool_stats().in_use_bytes, before.in_use_bytes);
}

struct Hook final : c10::MemoryReportingInfoBase {
  int64_t allocated = 0, freed = 0;
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    (bytes > 0 ? allocated : freed) += bytes;
  }
  bool memoryProfilingEnabled() const override { return true; }
};

TEST(PoolGuard, MemoryProfilersSeeThePool) {
  auto hook = std::make_shared<Hook>();
  {
    c10::DebugInfoGuard watch(c10::DebugInfoKind::PROFILER_STATE, hook);
    PoolGuard guard;
    at::empty({100});
    pool_data(500);
  }
  EXPECT_EQ(hook->allocated, 900);
  EXPECT_EQ(hook->freed, -900);
}

TEST(Pool, WorksInAForkedChild) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) pool_free(pool_allocate(2 << 20));
  });
  for (int i = 0; i < 20; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (int k = 0; k < 100; ++k) pool_free(pool_allocate(size_t{1} << (k % 23)));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace graft::runtime
