#include "runtime/memory/pool.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "graft/pool.h"
#include "runtime/memory/size_class.h"
#include "runtime/memory/system_memory.h"

namespace graft::runtime {

namespace {

/// In the 64 bytes before each block.
struct alignas(kAlignment) Header {
  Header* next;      ///< while cached
  size_t requested;  ///< while handed out
  void* base;        ///< what the system gave, and how much
  size_t base_bytes;
  int cls;  ///< of the most bytes that were asked of it so far
};
static_assert(sizeof(Header) == kAlignment);

void* block_of(Header* header) {
  return header + 1;
}
Header* header_of(void* block) {
  return static_cast<Header*>(block) - 1;
}

/// What a growing block has, of which its class is the part that was used.
size_t room_of(Header* header) {
  if (header->cls < kSmallClasses) return class_bytes(last_of_doubling(header->cls));
  return static_cast<size_t>(static_cast<char*>(header->base) + header->base_bytes -
                             static_cast<char*>(block_of(header)));
}

/// Counters with one writer: plain additions that other threads may read.
class Counter {
 public:
  void add(int64_t n) { value_.store(get() + n, std::memory_order_relaxed); }
  int64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

struct Counters {
  Counter in_use, cached, hits, misses;
};

struct ThreadCache {
  struct Bin {
    Header* head = nullptr;
    int count = 0;
  };
  std::array<Bin, kSmallClasses> bins;
  size_t bytes = 0;
  uint64_t trims_seen = 0;
  Counters counters;
};
constexpr size_t kThreadCacheBytes = size_t{8} << 20;
constexpr int kThreadCacheCount = 32;

struct SharedBin {
  std::mutex mutex;
  Header* head = nullptr;
};

/// What all threads share. Never destroyed.
struct Pool {
  std::array<SharedBin, kClasses> bins;
  std::atomic<size_t> cached{0};
  const size_t limit = cache_limit_bytes();
  std::atomic<uint64_t> trims{0};

  std::mutex owned_mutex;
  std::unordered_set<const void*> owned;  ///< every block that the system gave and did not get back

  std::mutex threads_mutex;
  std::vector<ThreadCache*> threads;
  Counters gone;  // of threads that ended; under threads_mutex
};

Pool& pool() {
  static auto* instance = new Pool;
  return *instance;
}

void release(Header* header) {
  {
    std::lock_guard lock(pool().owned_mutex);
    pool().owned.erase(block_of(header));
  }
  system_free(header->base, header->base_bytes);
}

/// Keeps the block for any thread, or gives it back when enough is kept.
void put_shared(Header* header) {
  size_t bytes = class_bytes(header->cls);
  if (pool().cached.fetch_add(bytes, std::memory_order_relaxed) + bytes > pool().limit) {
    pool().cached.fetch_sub(bytes, std::memory_order_relaxed);
    return release(header);
  }
  SharedBin& bin = pool().bins[static_cast<size_t>(header->cls)];
  std::lock_guard lock(bin.mutex);
  header->next = bin.head;
  bin.head = header;
}

Header* take_shared(int cls) {
  SharedBin& bin = pool().bins[static_cast<size_t>(cls)];
  std::lock_guard lock(bin.mutex);
  Header* header = bin.head;
  if (header == nullptr) return nullptr;
  bin.head = header->next;
  pool().cached.fetch_sub(class_bytes(cls), std::memory_order_relaxed);
  return header;
}

void trim_shared() {
  for (int cls = 0; cls < kClasses; ++cls)
    while (Header* header = take_shared(cls)) release(header);
}

void flush(ThreadCache& cache, bool to_system) {
  for (auto& bin : cache.bins) {
    while (Header* header = bin.head) {
      bin.head = header->next;
      to_system ? release(header) : put_shared(header);
    }
    bin.count = 0;
  }
  cache.counters.cached.add(-static_cast<int64_t>(cache.bytes));
  cache.bytes = 0;
}

// Plain thread-locals have no destructor, so they may still be read when other thread-locals'
// destructors free tensors.
thread_local ThreadCache* t_cache = nullptr;
thread_local bool t_ended = false;

struct ThreadEnd {
  ~ThreadEnd() {
    t_ended = true;
    if (t_cache == nullptr) return;
    flush(*t_cache, false);
    std::lock_guard lock(pool().threads_mutex);
    const Counters& mine = t_cache->counters;
    pool().gone.in_use.add(mine.in_use.get());
    pool().gone.hits.add(mine.hits.get());
    pool().gone.misses.add(mine.misses.get());
    std::erase(pool().threads, t_cache);
    delete t_cache;
    t_cache = nullptr;
  }
};

/// Null when the thread is ending: its thread-locals are being destroyed.
ThreadCache* make_thread_cache() {
  if (t_ended) return nullptr;
  thread_local ThreadEnd at_end;
  auto* cache = new ThreadCache;
  cache->trims_seen = pool().trims.load(std::memory_order_relaxed);
  std::lock_guard lock(pool().threads_mutex);
  pool().threads.push_back(cache);
  return t_cache = cache;
}

ThreadCache* thread_cache() {
  ThreadCache* cache = t_cache;
  return cache != nullptr ? cache : make_thread_cache();
}

void count(ThreadCache* cache, Counter Counters::* which, int64_t n) {
  if (cache != nullptr) return (cache->counters.*which).add(n);
  std::lock_guard lock(pool().threads_mutex);
  (pool().gone.*which).add(n);
}

Header* from_system(int cls) {
  const size_t bytes = class_bytes(cls);
  const bool large = cls >= kSmallClasses;
  const size_t room = cls < kGrowingClasses ? bytes : class_bytes(last_of_doubling(cls));
  SystemBlock block = large ? system_map(bytes, room) : system_allocate(room);
  if (block.data == nullptr) {
    pool_trim();
    block = large ? system_map(bytes, bytes) : system_allocate(room);
  }
  TORCH_CHECK(block.data != nullptr, "graft's pool: can't allocate memory: you tried to allocate ",
              bytes, " bytes; the system has no more.");
  Header* header = header_of(block.data);
  *header = {nullptr, 0, block.base, block.base_bytes, cls};
  std::lock_guard lock(pool().owned_mutex);
  pool().owned.insert(block.data);
  return header;
}

/// A small one of the thread's own, then one of all threads.
Header* take(int cls, ThreadCache* cache) {
  if (cls < kSmallClasses && cache != nullptr) {
    if (auto& bin = cache->bins[static_cast<size_t>(cls)]; bin.head != nullptr) {
      Header* header = bin.head;
      bin.head = header->next;
      --bin.count;
      cache->bytes -= class_bytes(cls);
      cache->counters.cached.add(-static_cast<int64_t>(class_bytes(cls)));
      return header;
    }
  }
  return take_shared(cls);
}

Header* find(int cls, ThreadCache* cache) {
  if (cls < kGrowingClasses) return take(cls, cache);
  // Up to twice what is asked for, of memory that is held anyway, is better than page faults: sizes
  // that change from call to call would meet them in each class.
  for (int more = 0; more < kClassesPerDoubling && cls + more < kClasses; ++more)
    if (Header* header = take(cls + more, cache)) return header;
  // … and so is one that was less so far, which meets them only behind that.
  const int least = cls < kSmallClasses ? kGrowingClasses : kSmallClasses;
  for (int less = cls - 1; less >= std::max(first_of_doubling(cls), least); --less) {
    Header* header = take(less, cache);
    if (header == nullptr) continue;
    if (room_of(header) < class_bytes(cls)) {
      put_shared(header);
      continue;
    }
    header->cls = cls;
    return header;
  }
  return nullptr;
}

}  // namespace

void pool_before_fork() {
  pool().threads_mutex.lock();
  pool().owned_mutex.lock();
  for (SharedBin& bin : pool().bins) bin.mutex.lock();
}

void pool_after_fork() {
  for (SharedBin& bin : pool().bins) bin.mutex.unlock();
  pool().owned_mutex.unlock();
  pool().threads_mutex.unlock();
}

void* pool_allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  TORCH_CHECK(bytes <= kMaxBytes, "graft's pool: can't allocate memory: you tried to allocate ",
              bytes, " bytes.");
  int cls = size_class(bytes);
  ThreadCache* cache = thread_cache();
  Header* header = find(cls, cache);
  count(cache, header != nullptr ? &Counters::hits : &Counters::misses, 1);
  if (header == nullptr) header = from_system(cls);
  header->requested = bytes;
  count(cache, &Counters::in_use, static_cast<int64_t>(bytes));
  return block_of(header);
}

void pool_free(void* block) noexcept {
  if (block == nullptr) return;
  Header* header = header_of(block);
  ThreadCache* cache = thread_cache();
  count(cache, &Counters::in_use, -static_cast<int64_t>(header->requested));
  if (cache != nullptr && cache->trims_seen != pool().trims.load(std::memory_order_relaxed)) {
    cache->trims_seen = pool().trims.load(std::memory_order_relaxed);
    flush(*cache, true);
  }
  if (header->cls >= kSmallClasses || cache == nullptr) return put_shared(header);
  auto& bin = cache->bins[static_cast<size_t>(header->cls)];
  size_t bytes = class_bytes(header->cls);
  if (bin.count >= kThreadCacheCount || cache->bytes + bytes > kThreadCacheBytes)
    return put_shared(header);
  header->next = bin.head;
  bin.head = header;
  ++bin.count;
  cache->bytes += bytes;
  cache->counters.cached.add(static_cast<int64_t>(bytes));
}

size_t pool_requested_bytes(const void* block) {
  return (static_cast<const Header*>(block) - 1)->requested;
}

bool pool_owns(const void* block) {
  std::lock_guard lock(pool().owned_mutex);
  return pool().owned.contains(block);
}

size_t pool_block_bytes(size_t bytes) {
  return bytes == 0 ? 0 : class_bytes(size_class(bytes));
}

EagerPool::EagerPool() {
  if (pool().limit > 0) guard_.emplace();
}

}  // namespace graft::runtime

namespace graft {

PoolStats pool_stats() {
  runtime::Pool& pool = runtime::pool();
  PoolStats stats;
  stats.cached_bytes = static_cast<int64_t>(pool.cached.load(std::memory_order_relaxed));
  auto add = [&](const runtime::Counters& counters) {
    stats.in_use_bytes += counters.in_use.get();
    stats.cached_bytes += counters.cached.get();
    stats.hits += counters.hits.get();
    stats.misses += counters.misses.get();
  };
  std::lock_guard lock(pool.threads_mutex);
  add(pool.gone);
  for (const runtime::ThreadCache* cache : pool.threads) add(cache->counters);
  return stats;
}

void pool_trim() {
  runtime::Pool& pool = runtime::pool();
  // Other threads' caches are theirs alone: each gives its blocks back when it next frees one.
  pool.trims.fetch_add(1, std::memory_order_relaxed);
  if (runtime::ThreadCache* cache = runtime::thread_cache()) {
    cache->trims_seen = pool.trims.load(std::memory_order_relaxed);
    runtime::flush(*cache, true);
  }
  runtime::trim_shared();
}

}  // namespace graft
