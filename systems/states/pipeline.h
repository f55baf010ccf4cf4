// Moves groups through a few buffers: read, update, write, each on a thread of its own, so that
// the disk works while another group is updated and while the caller computes gradients.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "systems/states/page_file.h"

namespace graft::systems::states {

/// What is done with a group. Each is called by one thread only, `read` never while the same
/// group is written.
struct GroupWork {
  std::function<void(int64_t group, std::byte* buffer)> read;
  std::function<void(int64_t group, std::byte* buffer)> update;
  std::function<void(int64_t group, std::byte* buffer, int64_t step)> write;
  std::function<void(int64_t step)> commit;  ///< after all writes of a step
};

struct PipelineTimes {
  double read = 0, update = 0, write = 0, waited = 0;  ///< seconds
  int64_t early = 0;  ///< groups whose update had begun before finish_step()
};

/// A step: ready(group) for some groups, in any order, then finish_step(others). Groups are read
/// ahead in the order of the step before. Thread-safe, but finish_step(), wait() and reset() are
/// one thread's.
class Pipeline {
 public:
  /// `step`: the last one made. `order`: that of the next one.
  Pipeline(GroupWork work, std::vector<PageBuffer> buffers, int64_t groups, int64_t step,
           std::vector<int64_t> order);
  /// Ends when writes and commits that are under way are done.
  ~Pipeline();

  /// The group may be updated from now on. Once per step.
  void ready(int64_t group);
  /// `others` are ready, too. Returns when all are updated; writes and the commit go on. Throws
  /// what any of the work threw.
  void finish_step(const std::vector<int64_t>& others);
  /// Returns when the last step is committed. Throws likewise.
  void wait();
  /// Throws what any of the work threw.
  void check() const;
  /// Waits for the commits of finished steps if nothing failed. Then stops what is under way and
  /// forgets it: the error, what was read ahead, and the groups that are ready. `meanwhile` runs
  /// while no thread works, may use one buffer, and returns the step that is the last one made.
  void reset(const std::function<int64_t(std::byte* buffer)>& meanwhile);
  int64_t step() const;
  PipelineTimes times() const;

 private:
  static constexpr int64_t kCommit = -1;
  enum class At { Free, Reading, Loaded, Updating, Writing };
  struct Buffer {
    PageBuffer memory;
    At at = At::Free;
    int64_t group = 0;
  };
  struct Job {
    int64_t group = kCommit;
    Buffer* buffer = nullptr;
    int64_t step = 0;
  };
  /// One thread's part: takes a job, does it without the lock, and notes that it is done.
  struct Stage {
    std::optional<Job> (Pipeline::*next)();
    std::function<void(const Job&)> work;
    void (Pipeline::*done)(const Job&);
    double PipelineTimes::* seconds;
  };

  void run(const Stage& stage);
  // These hold the lock.
  void add_ready(int64_t group);
  std::optional<Job> next_read();
  std::optional<Job> next_update();
  std::optional<Job> next_write();
  void read_done(const Job& job);
  void update_done(const Job& job);
  void write_done(const Job& job);
  Buffer* find(int64_t group);
  Buffer* take_buffer(bool evict);
  void wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);

  const GroupWork work_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Buffer> buffers_;
  std::deque<int64_t> ready_;         // and not yet updating
  std::vector<bool> is_ready_;        // per group, in this step
  std::vector<int64_t> order_;        // in which groups are read ahead
  std::vector<int64_t> ready_order_;  // of this step, to be the next one's
  std::deque<Job> writes_;
  int64_t step_ = 0;  // the last one that was finished
  int64_t updates_left_ = 0, commits_left_ = 0;
  int active_ = 0;  // threads that work
  bool finishing_ = false, resetting_ = false, stop_ = false;
  std::exception_ptr failure_;
  PipelineTimes times_;
  std::vector<std::thread> threads_;
};

}  // namespace graft::systems::states
