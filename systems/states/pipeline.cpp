#include "systems/states/pipeline.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace graft::systems::states {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Pipeline::Pipeline(GroupWork work, std::vector<PageBuffer> buffers, int64_t groups, int64_t step,
                   std::vector<int64_t> order)
    : work_(std::move(work)),
      is_ready_(static_cast<size_t>(groups)),
      order_(std::move(order)),
      step_(step) {
  for (PageBuffer& memory : buffers) buffers_.push_back({std::move(memory)});
  const Stage stages[] = {
      {&Pipeline::next_read,
       [this](const Job& job) { work_.read(job.group, job.buffer->memory.data()); },
       &Pipeline::read_done, &PipelineTimes::read},
      {&Pipeline::next_update,
       [this](const Job& job) { work_.update(job.group, job.buffer->memory.data()); },
       &Pipeline::update_done, &PipelineTimes::update},
      {&Pipeline::next_write,
       [this](const Job& job) {
         if (job.group == kCommit) return work_.commit(job.step);
         work_.write(job.group, job.buffer->memory.data(), job.step);
       },
       &Pipeline::write_done, &PipelineTimes::write}};
  for (const Stage& stage : stages) threads_.emplace_back([this, stage] { run(stage); });
}

Pipeline::~Pipeline() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return commits_left_ == 0 || failure_ != nullptr; });
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Pipeline::run(const Stage& stage) {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<Job> job;
    while (!stop_ && (resetting_ || failure_ != nullptr || !(job = (this->*stage.next)())))
      changed_.wait(lock);
    if (stop_) return;
    ++active_;
    lock.unlock();
    const auto start = Clock::now();
    std::exception_ptr failure;
    try {
      stage.work(*job);
    } catch (...) {
      failure = std::current_exception();
    }
    const double took = since(start);
    lock.lock();
    --active_;
    times_.*stage.seconds += took;
    if (failure == nullptr) {
      (this->*stage.done)(*job);
    } else if (failure_ == nullptr) {
      failure_ = failure;
    }
    changed_.notify_all();
  }
}

Pipeline::Buffer* Pipeline::find(int64_t group) {
  const auto found = std::ranges::find_if(buffers_, [&](const Buffer& buffer) {
    return buffer.at != At::Free && buffer.group == group;
  });
  return found == buffers_.end() ? nullptr : &*found;
}

// A free buffer, or else one that was read ahead and is not needed yet.
Pipeline::Buffer* Pipeline::take_buffer(bool evict) {
  const auto find_if = [&](auto is) {
    const auto found = std::ranges::find_if(buffers_, is);
    return found == buffers_.end() ? nullptr : &*found;
  };
  Buffer* free = find_if([](const Buffer& buffer) { return buffer.at == At::Free; });
  if (free != nullptr || !evict) return free;
  return find_if([&](const Buffer& buffer) {
    return buffer.at == At::Loaded && !is_ready_[static_cast<size_t>(buffer.group)];
  });
}

std::optional<Pipeline::Job> Pipeline::next_read() {
  const auto start = [&](int64_t group, bool evict) -> std::optional<Job> {
    Buffer* buffer = take_buffer(evict);
    if (buffer == nullptr) return std::nullopt;
    buffer->at = At::Reading;
    buffer->group = group;
    return Job{group, buffer, 0};
  };
  for (const int64_t group : ready_)
    if (find(group) == nullptr) return start(group, true);
  if (finishing_) return std::nullopt;  // no group will become ready in this step any more
  for (const int64_t group : order_)
    if (!is_ready_[static_cast<size_t>(group)] && find(group) == nullptr)
      return start(group, false);
  return std::nullopt;
}

void Pipeline::read_done(const Job& job) {
  job.buffer->at = At::Loaded;
}

std::optional<Pipeline::Job> Pipeline::next_update() {
  for (auto group = ready_.begin(); group != ready_.end(); ++group) {
    Buffer* buffer = find(*group);
    if (buffer == nullptr || buffer->at != At::Loaded) continue;
    buffer->at = At::Updating;
    times_.early += finishing_ ? 0 : 1;
    ready_.erase(group);
    return Job{buffer->group, buffer, 0};
  }
  return std::nullopt;
}

void Pipeline::update_done(const Job& job) {
  job.buffer->at = At::Writing;
  writes_.push_back({job.group, job.buffer, step_ + 1});
  --updates_left_;
}

std::optional<Pipeline::Job> Pipeline::next_write() {
  if (writes_.empty()) return std::nullopt;
  const Job job = writes_.front();
  writes_.pop_front();
  return job;
}

void Pipeline::write_done(const Job& job) {
  if (job.group == kCommit) {
    --commits_left_;
  } else {
    job.buffer->at = At::Free;
  }
}

void Pipeline::add_ready(int64_t group) {
  is_ready_[static_cast<size_t>(group)] = true;
  ready_.push_back(group);
  ready_order_.push_back(group);
  ++updates_left_;
}

void Pipeline::ready(int64_t group) {
  {
    const std::scoped_lock lock(mutex_);
    add_ready(group);
  }
  changed_.notify_all();
}

void Pipeline::wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  const auto start = Clock::now();
  changed_.wait(lock, [&] { return failure_ != nullptr || done(); });
  times_.waited += since(start);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void Pipeline::finish_step(const std::vector<int64_t>& others) {
  {
    std::unique_lock lock(mutex_);
    finishing_ = true;
    for (const int64_t group : others) add_ready(group);
    changed_.notify_all();
    wait_for(lock, [&] { return updates_left_ == 0; });
    // Writes come before the commit and the next step's writes after it: they overwrite the slots
    // that the step before the committed one needs.
    writes_.push_back({kCommit, nullptr, ++step_});
    ++commits_left_;
    finishing_ = false;
    is_ready_.assign(is_ready_.size(), false);
    order_ = std::exchange(ready_order_, {});
  }
  changed_.notify_all();
}

void Pipeline::wait() {
  std::unique_lock lock(mutex_);
  wait_for(lock, [&] { return commits_left_ == 0; });
}

void Pipeline::check() const {
  const std::scoped_lock lock(mutex_);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void Pipeline::reset(const std::function<int64_t(std::byte*)>& meanwhile) {
  {
    std::unique_lock lock(mutex_);
    // A step that is finished is not thrown away, unless it cannot be committed any more.
    changed_.wait(lock, [&] { return commits_left_ == 0 || failure_ != nullptr; });
    resetting_ = true;
    changed_.wait(lock, [&] { return active_ == 0; });
    for (Buffer& buffer : buffers_) buffer.at = At::Free;
    ready_.clear();
    writes_.clear();
    ready_order_.clear();
    is_ready_.assign(is_ready_.size(), false);
    updates_left_ = commits_left_ = 0;
    failure_ = nullptr;
    finishing_ = false;
    lock.unlock();
    const auto go_on = [&] {
      lock.lock();
      resetting_ = false;
      changed_.notify_all();
    };
    try {
      const int64_t step = meanwhile(buffers_.front().memory.data());
      go_on();
      step_ = step;
    } catch (...) {
      go_on();
      failure_ = std::current_exception();  // what is in memory is of no known step
      throw;
    }
  }
  changed_.notify_all();
}

int64_t Pipeline::step() const {
  const std::scoped_lock lock(mutex_);
  return step_;
}

PipelineTimes Pipeline::times() const {
  const std::scoped_lock lock(mutex_);
  return times_;
}

}  // namespace graft::systems::states
