// The one background thread of the process that compiles.
//
// Lives until exit, which waits for the kernel under way and drops the rest. So does fork: what
// compiling locks is not only ours (the dynamic linker, LLVM, variables made on first use), and
// would stay locked in the child. A forked child has no such thread: the next call of
// ensure_running() starts one for what was waiting.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <shared_mutex>

namespace graft::runtime {

/// Guards what calls change rarely: plan tables, verdicts, reports. Short critical sections only;
/// no ATen, no user code. One for the process, so that fork can hold it.
std::mutex& runtime_mutex();
/// Held shared by who compiles, until what it made is in its place; fork waits for it. Taken
/// before all others.
std::shared_mutex& compile_mutex();
/// Notified when a compilation ends. Waited for under runtime_mutex().
std::condition_variable& runtime_changed();

class Worker {
 public:
  static Worker& instance();

  /// Runs `job` later. It must not throw.
  void enqueue(std::function<void()> job);
  /// Runs it at once, under compile_mutex().
  static void run(const std::function<void()>& job);
  /// Restarts the thread where a fork lost it and jobs are waiting.
  void ensure_running();
  /// The process is exiting: a job should end soon.
  bool stopping() const;
  /// Call once code was loaded that must outlive the thread (its exit handlers run before those of
  /// what was loaded earlier).
  void stop_before_unloading();

  struct State;

 private:
  Worker();
  State& state_;
};

}  // namespace graft::runtime
