// The one background thread of the process that compiles.
//
// It lives while there are jobs: a thread that has timed ATen's routines has a team of OpenMP's,
// and libgomp lets no team of the process wait for its next work awake while teams have more
// threads than the machine has processors. (A chain of small products took 2.5 times as long.)
//
// Exit waits for the kernel being compiled and drops the jobs behind it. Fork waits for it too:
// compiling takes locks that are not Graft's (the dynamic linker's, LLVM's, those of static
// variables), which would stay locked in the child. A forked child has no such thread; its next
// call of ensure_running() starts one for the jobs that were waiting.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <shared_mutex>

namespace graft::runtime {

/// Guards what calls rarely change: plan tables, verdicts, reports. Held briefly, and never while
/// ATen or user code runs. One per process, so that fork can take it.
std::mutex& runtime_mutex();
/// Held shared by whoever compiles, until the result is stored; fork takes it exclusively. Locked
/// before all other mutexes.
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
  /// Does something compile, on any thread? Timings mean less then.
  bool is_busy() const;
  /// Is the process exiting? A job should then end soon.
  bool stopping() const;
  /// Called after loading code that the thread uses: makes exit stop the thread before that code's
  /// exit handlers run.
  void stop_before_unloading();
  /// Has exit begun to destroy what existed when watch_exit() was called? (A main thread that ends
  /// by pthread_exit only stops the worker.)
  bool exiting() const;
  void watch_exit();

  struct State;

 private:
  Worker();
  State& state_;
};

}  // namespace graft::runtime
