#include <ATen/ops/empty.h>
#include <c10/util/ScopeExit.h>
#include <graft/collective.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "graft/systems/processes.h"
#include "systems/processes/place.h"
#include "systems/processes/shared_sum.h"

namespace graft::systems {

namespace {

/// A text that only errors need.
struct Form {
  const char* what;
  const at::Tensor& tensor;
  operator std::string() const {
    return c10::str(what, " of ", tensor.sizes(), ' ', tensor.scalar_type());
  }
};

class Sum;

}  // namespace

struct Group::Impl {
  std::string name;
  int rank = 0, size = 1;
  std::string known_as;  ///< of `sum`, by which compiled functions find it
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::shared_ptr<Sum> sum;
  mutable std::string broken;  ///< what went wrong; empty: nothing did

  ~Impl();

  /// What `start` returns; what it throws is told with this process's place. After it the group is
  /// of no use: whatever waits for the others would wait for the time-out once more.
  template <class What, class Start>
  auto run(const What& what, Start start) const {
    if (!broken.empty()) throw GroupError(std::string(what) + " came after: " + broken);
    try {
      return start();
    } catch (const c10::ValueError&) {  // of this process alone
      throw;
    } catch (const std::exception& error) {
      const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
      const std::string why = c10_error ? c10_error->what_without_backtrace() : error.what();
      broken = "process " + std::to_string(rank) + " of " + std::to_string(size) + " in group '" +
               name + "', " + std::string(what) + ": " + why.substr(0, why.find('\n')) +
               ". Another process ended, failed, took longer than the time-out or called "
               "something else: its own output says which.";
      throw GroupError(broken);
    }
  }
};

struct Pending::Impl {
  c10::intrusive_ptr<c10d::Work> work;  ///< null: a sum, which the dispatcher awaits
  at::Tensor tensor;                    ///< c10d's work holds it only while it runs
  std::string what;
  std::shared_ptr<const Group::Impl> group;
};

namespace {

constexpr int kTag = 7;  // of messages between two processes; their order tells them apart

/// By Gloo.
class SocketSum : public Collective {
 public:
  explicit SocketSum(c10d::ProcessGroup& group) : group_(group) {}

  void start(const at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors{tensor};
    under_way_.push_back({tensor, group_.allreduce(tensors)});
  }
  void wait(const at::Tensor& tensor) override {
    const auto found = find_started(under_way_, tensor);
    const auto work = found->work;
    under_way_.erase(found);
    work->wait();
  }

 private:
  struct Work {
    at::Tensor tensor;
    c10::intrusive_ptr<c10d::Work> work;
  };
  c10d::ProcessGroup& group_;
  std::vector<Work> under_way_;
};

/// The group's sum, as compiled functions find it. It lives no longer than the group.
class Sum : public Collective {
 public:
  Sum(const Group::Impl& group, std::shared_ptr<SharedSum> by_memory)
      : group_(group), by_memory_(std::move(by_memory)) {
    if (by_memory_ == nullptr) by_sockets_ = std::make_unique<SocketSum>(*group.group);
  }
  void start(const at::Tensor& tensor) override {
    group_.run(Form{"all_reduce", tensor}, [&] {
      by_memory_ ? by_memory_->start(tensor, awaited_) : by_sockets_->start(tensor);
    });
  }
  void wait(const at::Tensor& tensor) override {
    group_.run(Form{"all_reduce", tensor}, [&] { way().wait(tensor); });
  }
  /// Of the starts that come next.
  void set_awaited(SharedSum::Awaited awaited) { awaited_ = awaited; }

 private:
  Collective& way() const {
    return by_memory_ ? static_cast<Collective&>(*by_memory_) : *by_sockets_;
  }
  const Group::Impl& group_;
  const std::shared_ptr<SharedSum> by_memory_;
  std::unique_ptr<SocketSum> by_sockets_;
  SharedSum::Awaited awaited_ = SharedSum::Awaited::Later;
};

void check_tensor(const char* what, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined() && tensor.device().is_cpu() &&
                        tensor.layout() == at::kStrided && tensor.is_contiguous(),
                    what, ": expected a dense, contiguous tensor of the CPU, got ",
                    tensor.defined() ? c10::str(tensor.sizes(), " with strides ", tensor.strides(),
                                                " on ", tensor.device())
                                     : std::string("an undefined one"),
                    "; call contiguous() first");
}

c10::intrusive_ptr<c10d::Store> store_of(const Place& place, std::chrono::milliseconds timeout) {
  c10::intrusive_ptr<c10d::Store> store;
  if (!place.file.empty()) {
    store = c10::make_intrusive<c10d::FileStore>(place.file, place.size);
  } else {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(place.port);
    options.isServer = place.rank == 0;
    options.numWorkers = place.size;
    options.multiTenant = true;  // a process may be in several groups
    options.timeout = timeout;
    // torchrun keeps one store for all attempts, and its agent serves it.
    const char* agents = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (agents != nullptr && std::string(agents) == "True") options.isServer = false;
    store = c10::make_intrusive<c10d::TCPStore>(place.host, options);
  }
  store->setTimeout(timeout);
  return store;
}

/// GLOO_SOCKET_IFNAME as torch.distributed reads it; without it the address that this machine's
/// name has, and the loopback where that has none.
std::shared_ptr<gloo::transport::Device> device_of(const Place& place) {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr) return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  if (place.host == "127.0.0.1" || place.host == "localhost")
    return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

/// c10d's flight recorder keeps what is said, in a map that groups of several threads would write
/// at once: it crashes. Off, unless the user asked for it.
void no_flight_recorder() {
  static const int once = setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);
  static_cast<void>(once);
}

std::shared_ptr<const Group::Impl> join_by(const c10::intrusive_ptr<c10d::Store>& store,
                                           const Place& place, const GroupOptions& options,
                                           const std::string& known_as) {
  no_flight_recorder();
  auto impl = std::make_shared<Group::Impl>();
  impl->name = options.name, impl->rank = place.rank, impl->size = place.size;
  impl->known_as = known_as;
  std::shared_ptr<SharedSum> by_memory;
  impl->run("joining", [&] {
    // A store may outlive an attempt that torchrun starts again.
    const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
    auto own = c10::make_intrusive<c10d::PrefixStore>(
        "graft/" + options.name + (attempt == nullptr ? "" : std::string("/") + attempt), store);
    auto settings = c10d::ProcessGroupGloo::Options::create(options.timeout);
    settings->devices.push_back(device_of(place));
    const auto gloo =
        c10::make_intrusive<c10d::ProcessGroupGloo>(own, place.rank, place.size, settings);
    impl->group = c10::make_intrusive<c10d::ProcessGroup>(own, place.rank, place.size);
    impl->group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
    if (options.sums == GroupOptions::Sums::ByMemory && place.size > 1)
      by_memory = SharedSum::join(*own, place.rank, place.size, options.timeout);
  });
  impl->sum = std::make_shared<Sum>(*impl, std::move(by_memory));
  register_collective(impl->known_as, impl->sum);
  return impl;
}

}  // namespace

Group::Impl::~Impl() {
  if (sum != nullptr) register_collective(known_as, nullptr);
}

Pending::Pending() = default;
Pending::Pending(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&& other) noexcept {
  Pending before(std::move(*this));  // waits
  impl_ = std::move(other.impl_);
  return *this;
}
Pending::~Pending() {
  try {
    wait();
  } catch (const std::exception&) {
  }
}

void Pending::wait() {
  if (impl_ == nullptr) return;
  const std::unique_ptr<Impl> done = std::move(impl_);
  if (done->work == nullptr) return await_collective(done->tensor, done->group->known_as);
  done->group->run(done->what, [&] { return done->work->wait(); });
}

Group::Group(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Group::~Group() = default;

std::shared_ptr<Group> Group::join(const GroupOptions& options) {
  const Place place = place_of(options);
  Impl speaker;
  speaker.name = options.name, speaker.rank = place.rank, speaker.size = place.size;
  const auto store =
      speaker.run("finding the others", [&] { return store_of(place, options.timeout); });
  return std::make_shared<Group>(join_by(store, place, options, options.name));
}

int Group::rank() const {
  return impl_->rank;
}
int Group::size() const {
  return impl_->size;
}
const std::string& Group::name() const {
  return impl_->name;
}
c10d::ProcessGroup& Group::process_group() const {
  return *impl_->group;
}

Pending Group::start_all_reduce(const at::Tensor& tensor) {
  check_tensor("all_reduce", tensor);
  start_collective(tensor, impl_->known_as);
  return Pending(std::make_unique<Pending::Impl>(Pending::Impl{nullptr, tensor, {}, impl_}));
}

void Group::all_reduce(const at::Tensor& tensor) {
  impl_->sum->set_awaited(SharedSum::Awaited::AtOnce);
  Pending sum;
  {
    const auto back =
        c10::make_scope_exit([&] { impl_->sum->set_awaited(SharedSum::Awaited::Later); });
    sum = start_all_reduce(tensor);
  }
  sum.wait();
}

void Group::broadcast(const at::Tensor& tensor, int root) {
  check_tensor("broadcast", tensor);
  TORCH_CHECK_VALUE(root >= 0 && root < size(), "broadcast: the root came as ", root,
                    "; expected a rank from 0 to ", size() - 1);
  std::vector<at::Tensor> tensors{tensor};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  impl_->run(Form{"broadcast", tensor},
             [&] { return impl_->group->broadcast(tensors, options)->wait(); });
}

at::Tensor Group::all_gather(const at::Tensor& tensor) {
  check_tensor("all_gather", tensor);
  std::vector<int64_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
  sizes.insert(sizes.begin(), size());
  at::Tensor all = at::empty(sizes, tensor.options());
  std::vector<std::vector<at::Tensor>> into{all.unbind()};
  std::vector<at::Tensor> from{tensor};
  impl_->run(Form{"all_gather", tensor},
             [&] { return impl_->group->allgather(into, from)->wait(); });
  return all;
}

Pending Group::start_send(const at::Tensor& tensor, int to) {
  check_tensor("send", tensor);
  const std::string what = std::string(Form{"send", tensor}) + " to " + std::to_string(to);
  std::vector<at::Tensor> tensors{tensor};
  auto work = impl_->run(what, [&] { return impl_->group->send(tensors, to, kTag); });
  return Pending(
      std::make_unique<Pending::Impl>(Pending::Impl{std::move(work), tensor, what, impl_}));
}

Pending Group::start_receive(const at::Tensor& into, int from) {
  check_tensor("receive", into);
  const std::string what = std::string(Form{"receive", into}) + " from " + std::to_string(from);
  std::vector<at::Tensor> tensors{into};
  auto work = impl_->run(what, [&] { return impl_->group->recv(tensors, from, kTag); });
  return Pending(
      std::make_unique<Pending::Impl>(Pending::Impl{std::move(work), into, what, impl_}));
}

void Group::barrier() {
  // c10d's own keeps a static tensor, which ranks that are threads would free twice.
  const auto gloo = impl_->group->getBackend(c10::kCPU);
  impl_->run("barrier", [&] { return gloo->barrier()->wait(); });
}

void run_ranks(int count, const std::function<void(Group&)>& work, const GroupOptions& options) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(options.timeout);
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(*std::make_shared<Group>(join_by(store,
                                              {.rank = rank, .size = count, .host = "127.0.0.1"},
                                              options, options.name + '#' + std::to_string(rank))));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace graft::systems
