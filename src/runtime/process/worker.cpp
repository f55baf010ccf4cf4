#include "runtime/process/worker.h"

#include <ATen/Context.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <utility>

#include "runtime/memory/pool.h"
#include "tensor/denormals.h"

namespace graft::runtime {

using Job = std::function<void()>;

struct Worker::State {
  std::mutex mutex;
  std::condition_variable ended;
  std::deque<Job> queue;
  bool alive = false;     ///< there is a thread that takes jobs
  bool joinable = false;  ///< there was one since the last was joined
  pthread_t thread{};
  bool ends_at_exit = false;
  std::atomic<bool> stopping{false};
  std::atomic<bool> exiting{false};
  std::atomic<int> running{0};    ///< jobs, on any thread
  std::atomic<bool> lost{false};  ///< a fork left jobs without a thread
};

namespace {

Worker::State* g_state = nullptr;

/// All locks of the runtime, in the order in which threads take them.
void before_fork() {
  compile_mutex().lock();
  runtime_mutex().lock();
  g_state->mutex.lock();
  pool_before_fork();
}
void unlock() {
  pool_after_fork();
  g_state->mutex.unlock();
  runtime_mutex().unlock();
}
void after_fork_parent() {
  unlock();
  compile_mutex().unlock();
}
void after_fork_child() {
  g_state->alive = g_state->joinable = false;
  g_state->running.store(0);
  if (!g_state->queue.empty()) g_state->lost.store(true);
  unlock();
  // They count readers and those who wait, and these threads are gone.
  new (&compile_mutex()) std::shared_mutex;
  new (&g_state->ended) std::condition_variable;
  new (&runtime_changed()) std::condition_variable;
}

/// Waits until the last thread is gone, under the mutex, which that no longer takes.
void join() {
  if (std::exchange(g_state->joinable, false)) pthread_join(g_state->thread, nullptr);
}

void stop() {
  std::unique_lock lock(g_state->mutex);
  g_state->stopping.store(true);
  g_state->ended.wait(lock, [] { return !g_state->alive; });
  join();
}

void leave() {
  g_state->exiting.store(true);
  stop();
}

/// Of the main thread: ends when it calls exit, which destroys what is a thread's before it runs
/// any exit handler. Static variables of LLVM whose handlers were registered in a compilation,
/// after stop(), are destroyed before stop() is called there. (Nothing is compiled any more after
/// the main thread's pthread_exit.)
struct EndOfMain {
  bool is_main = gettid() == getpid();
  ~EndOfMain() {
    if (is_main) stop();
  }
};
void watch_for_end() {
  static thread_local EndOfMain end;
  (void)end.is_main;  // makes it
}

struct Running {
  Running() { g_state->running.fetch_add(1, std::memory_order_relaxed); }
  ~Running() { g_state->running.fetch_sub(1, std::memory_order_relaxed); }
};

/// The next job, if there still is one when forks are held off: none is lost between the queue and
/// its end.
void run_next() {
  std::shared_lock no_fork(compile_mutex());
  Job job;
  {
    std::lock_guard lock(g_state->mutex);
    if (g_state->stopping.load() || g_state->queue.empty()) return;
    job = std::move(g_state->queue.front());
    g_state->queue.pop_front();
  }
  const Running running;
  job();
}

/// While alive, this thread's arithmetic takes subnormal numbers for zero, or does not.
class Denormals {
 public:
  explicit Denormals(bool flush) : before_(flushes_denormals()) { set(flush); }
  ~Denormals() { set(before_); }
  Denormals(const Denormals&) = delete;
  Denormals& operator=(const Denormals&) = delete;

 private:
  static void set(bool flush) {
    if (flushes_denormals() != flush) at::globalContext().setFlushDenormal(flush);
  }
  const bool before_;
};

void* work(void*) {
  std::unique_lock lock(g_state->mutex);
  while (!g_state->stopping.load() && !g_state->queue.empty()) {
    lock.unlock();
    run_next();
    lock.lock();
  }
  g_state->alive = false;
  g_state->ended.notify_all();
  return nullptr;
}

/// Under the mutex.
void start_thread() {
  if (g_state->alive || g_state->stopping.load()) return;
  if (!g_state->ends_at_exit) std::atexit(stop);
  g_state->ends_at_exit = true;
  // The program's signal handlers run on its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  join();
  g_state->alive = g_state->joinable =
      pthread_create(&g_state->thread, nullptr, work, nullptr) == 0;
  if (g_state->alive) pthread_setname_np(g_state->thread, "graft-compile");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

std::mutex& runtime_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::shared_mutex& compile_mutex() {
  static auto* mutex = new std::shared_mutex;
  return *mutex;
}

std::condition_variable& runtime_changed() {
  static auto* changed = new std::condition_variable;
  return *changed;
}

Worker& Worker::instance() {
  static auto* worker = new Worker;
  return *worker;
}

namespace {

// When the library is loaded: a fork meanwhile would leave the child a half-made one.
[[maybe_unused]] const Worker& g_made_early = Worker::instance();

}  // namespace

Worker::Worker() : state_(*(g_state = new State)) {
  runtime_mutex();
  compile_mutex();
  pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  watch_for_end();  // the library is loaded by the main thread, in general
}

void Worker::enqueue(std::function<void()> job) {
  watch_for_end();
  std::unique_lock lock(state_.mutex);
  if (!state_.stopping.load()) start_thread();  // it looks for jobs when the lock is free
  if (state_.alive) {
    // A new thread has the control word of the one that starts it, whoever's the job is.
    state_.queue.push_back([job = std::move(job), flush = flushes_denormals()] {
      const Denormals as_callers(flush);
      job();
    });
    return;
  }
  // Exiting, or the system gives no more threads: the caller does it.
  lock.unlock();
  run(job);
}

void Worker::run(const std::function<void()>& job) {
  std::shared_lock no_fork(compile_mutex());
  const Running running;
  job();
}

void Worker::ensure_running() {
  if (!state_.lost.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(state_.mutex);
  if (!state_.lost.exchange(false)) return;
  start_thread();
}

bool Worker::is_busy() const {
  return state_.running.load(std::memory_order_relaxed) > 0;
}

bool Worker::stopping() const {
  return state_.stopping.load(std::memory_order_relaxed);
}

void Worker::stop_before_unloading() {
  std::atexit(stop);
}

bool Worker::exiting() const {
  return state_.exiting.load(std::memory_order_relaxed);
}

void Worker::watch_exit() {
  std::atexit(leave);
}

}  // namespace graft::runtime
