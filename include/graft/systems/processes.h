// Several processes that do one work: joining them, what they say to each other, and starting them.
//
//     auto group = graft::systems::Group::join();   // by torchrun, or `graft launch -n 2 ./train`
//     group->all_reduce(sum);                       // in place, over all processes
//
// Communication is c10d's with Gloo, as torch.distributed has it on the CPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <graft/export.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace c10d {
class ProcessGroup;
}

namespace graft::systems {

/// A process of the group died, was too slow, or cannot be reached. The text names this process,
/// the operation, and what to look at. After it the group is of no use: leave it.
class GRAFT_API GroupError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct GroupOptions {
  std::string name = "world";  ///< compiled functions find a group by its name
  /// How long this process waits for the others: to join, and in each operation.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  /// Where processes find each other: "tcp://host:port", "file:///path" (a new file on a disk that
  /// all of them see). Empty: GRAFT_STORE, or else MASTER_ADDR and MASTER_PORT.
  std::string store = {};
  enum class Sums {
    ByMemory,   ///< that the processes share, where all are on one machine; else by sockets
    BySockets,  ///< by Gloo, always
  } sums = Sums::ByMemory;
  /// This process's place; -1: RANK and WORLD_SIZE, as torchrun and `graft launch` set them.
  int rank = -1, size = -1;
};

/// What was started and not yet waited for. Tensors are held until then. Movable.
class GRAFT_API Pending {
 public:
  struct Impl;
  Pending();
  explicit Pending(std::unique_ptr<Impl> impl);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();  ///< waits, without a word where that fails

  /// Returns when it is done: what was received may be read, what was sent may be written. Throws
  /// GroupError. Nothing, the second time.
  void wait();

 private:
  std::unique_ptr<Impl> impl_;
};

/// A process's place among those of one group. All of them must call the same collectives in the
/// same order, with tensors of one dtype and size; tensors are dense, contiguous ones of the CPU.
/// Every operation throws GroupError. One thread at a time may use it.
class GRAFT_API Group : public std::enable_shared_from_this<Group> {
 public:
  /// Throws std::invalid_argument for a place or store that makes no sense, before it waits.
  static std::shared_ptr<Group> join(const GroupOptions& options = {});
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const;
  int size() const;
  const std::string& name() const;

  /// The sum over all processes, in place. The only operation that a compiled function may have:
  /// its plans start it as soon as the tensor's values are known (graft/collective.h).
  void all_reduce(const at::Tensor& tensor);
  Pending start_all_reduce(const at::Tensor& tensor);
  /// The root's values, in place.
  void broadcast(const at::Tensor& tensor, int root = 0);
  /// Of every process its tensor: [size(), ...].
  at::Tensor all_gather(const at::Tensor& tensor);
  /// To and from one other process; pairs match by order.
  Pending start_send(const at::Tensor& tensor, int to);
  Pending start_receive(const at::Tensor& into, int from);
  void barrier();

  /// For what c10d has beside this.
  c10d::ProcessGroup& process_group() const;

  struct Impl;
  explicit Group(std::shared_ptr<const Impl> impl);

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Runs `work` in `count` threads, each with a place in one group: for tests, and to try things
/// without processes. What wants a shared_ptr gets group.shared_from_this(). Throws what the first
/// of them threw, when all have ended.
GRAFT_API void run_ranks(int count, const std::function<void(Group&)>& work,
                         const GroupOptions& options = {});

struct LaunchOptions {
  int count = 2;
  std::vector<std::string> command;  ///< program and arguments
  /// From the first process that fails until the others are killed.
  std::chrono::milliseconds grace = std::chrono::seconds(5);
  int threads = 0;  ///< OMP_NUM_THREADS of each; 0: the machine's cores, divided
  int port = 0;     ///< MASTER_PORT; 0: a free one
  std::map<std::string, std::string> environment = {};  ///< beside those, and this process's own
};

/// Starts `count` processes with torchrun's variables (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT) and waits for them; lines of their output are preceded by "[rank] ". Where one
/// fails, the others get SIGTERM, and SIGKILL after `grace`. SIGINT and SIGTERM go on to all.
/// Returns the exit status of the first that failed (128 + signal), or 0. Throws
/// std::invalid_argument for a port in use, a program that is not there, a count below 1.
GRAFT_API int launch(const LaunchOptions& options);

}  // namespace graft::systems
