// Which argument layouts of a function are known.
#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/function/core_impl.h"
#include "runtime/process/log.h"
#include "runtime/process/worker.h"

namespace graft::runtime {

Table::Table(std::vector<std::shared_ptr<Entry>> entries, std::vector<WeakTensor> leaves,
             bool links)
    : entries_(std::move(entries)), leaves_(std::move(leaves)), links_(links) {
  slots_.resize(std::bit_ceil(entries_.size() * 2 + 1));
  size_t mask = slots_.size() - 1;
  for (size_t e = 0; e < entries_.size(); ++e) {
    uint64_t hash = entries_[e]->key.hash;
    size_t i = hash & mask;
    while (slots_[i].entry >= 0) i = (i + 1) & mask;
    slots_[i] = {hash, static_cast<int32_t>(e)};
  }
}

}  // namespace graft::runtime

namespace graft::detail {

using runtime::Key;
using runtime::runtime_mutex;

/// A new entry for the key, or null when another thread made one meanwhile.
std::shared_ptr<Entry> Core::Impl::admit(const Key& key) {
  std::lock_guard lock(runtime_mutex());
  if (table.peek().find(key) != nullptr) return nullptr;
  auto entry = std::make_shared<Entry>(key);
  entry->busy.store(true);
  add_newest(entry);
  ++records_;
  return entry;
}

void Core::Impl::admit(const std::shared_ptr<Entry>& entry, const Key& key) {
  std::lock_guard lock(runtime_mutex());
  if (table.peek().find(key) == nullptr) add_newest(entry);
}

void Core::Impl::add_newest(const std::shared_ptr<Entry>& entry) {
  std::vector<std::shared_ptr<Entry>> entries = table.peek().entries();
  if (static_cast<int64_t>(entries.size()) >= options.max_plans)
    entries.erase(
        std::min_element(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
          return a->used.load(std::memory_order_relaxed) < b->used.load(std::memory_order_relaxed);
        }));
  entry->touch(clock.fetch_add(1, std::memory_order_relaxed) + 1);
  entries.push_back(entry);
  fill_table(std::move(entries));
}

void Core::Impl::fill_table(std::vector<std::shared_ptr<Entry>> entries) {
  const Table& now = table.peek();
  table.replace(std::make_unique<Table>(std::move(entries), now.leaves(), now.links()));
}

void Core::Impl::replace(const Entry& old, std::shared_ptr<Entry> with) {
  std::lock_guard lock(runtime_mutex());
  std::vector<std::shared_ptr<Entry>> entries = table.peek().entries();
  const auto is_old = [&](const auto& entry) { return entry.get() == &old; };
  const auto found = std::find_if(entries.begin(), entries.end(), is_old);
  if (found == entries.end()) {
    for (const auto& first : entries)
      if (auto way = std::find_if(first->others.begin(), first->others.end(), is_old);
          way != first->others.end()) {
        if (with != nullptr)
          *way = std::move(with);
        else
          first->others.erase(way);
        return;
      }
    return;
  }
  std::vector<std::shared_ptr<Entry>> others = std::exchange((*found)->others, {});
  if (with == nullptr && !others.empty()) {
    auto next = std::find_if(others.begin(), others.end(), [](const auto& way) {
      return way->tier.load(std::memory_order_acquire) == Tier::Compiled;
    });
    if (next == others.end()) next = others.begin();
    with = std::move(*next);
    with->touch(old.used.load(std::memory_order_relaxed));
    others.erase(next);
  }
  if (with != nullptr) {
    with->others = std::move(others);
    *found = std::move(with);
  } else {
    entries.erase(found);
  }
  fill_table(std::move(entries));
}

/// How the call differs from the layout that was used last.
std::string Core::Impl::nearest_difference(const Key& key) const {
  std::lock_guard lock(runtime_mutex());
  const Entry* nearest = nullptr;
  for (const auto& entry : table.peek().entries())
    if (nearest == nullptr || entry->used.load() > nearest->used.load()) nearest = entry.get();
  return nearest == nullptr ? std::string()
                            : runtime::describe_difference(nearest->key.words, key.words.view());
}

/// A function whose arguments look different at each call gains nothing from records.
bool Core::Impl::too_many_layouts(const Key& key) {
  if (gave_up_.load(std::memory_order_relaxed)) return true;
  int64_t records,
      hits = table.reads() + last_calls.served() - (eager_calls.load() - bypassed.load());
  {
    std::lock_guard lock(runtime_mutex());
    records = records_;
  }
  if (records < std::max<int64_t>(32, 2 * options.max_plans) || hits >= records) return false;
  std::string why =
      std::to_string(records) +
      " argument layouts and hardly a plan used twice (the last: " + nearest_difference(key) +
      "); pad to a few sizes and pass numbers that change as graft::Number, then call reset()";
  std::lock_guard lock(runtime_mutex());
  outside_ = why;
  if (!gave_up_.exchange(true))
    runtime::log(runtime::Topic::Recompiles, options.name + ": stays eager: " + why);
  return true;
}

void Core::Impl::make_newest(const std::shared_ptr<Entry>& entry) {
  if (newest_ == entry) return;
  if (newest_ != nullptr)
    newest_->trace.reset();  // explain() speaks of the newest, and traces can be long
  newest_ = entry;
}

void Core::Impl::note_unsupported(const CallBase& call, const runtime::Unsupported& unsupported) {
  int code = static_cast<int>(unsupported.kind) << 16 | (unsupported.argument + 1);
  if (noted_.exchange(code, std::memory_order_relaxed) == code && !options.fullgraph) return;
  std::string why = with_next_step(unsupported.text(call.args));
  bool news;
  {
    std::lock_guard lock(runtime_mutex());
    news = outside_ != why;
    outside_ = why;
    breaks_ += news;
  }
  if (news) runtime::log(runtime::Topic::GraphBreaks, options.name + ": " + why);
  if (options.fullgraph) throw Error(options.name + ": " + why);
}

void Core::Impl::reset() {
  last_calls.clear();
  std::lock_guard lock(runtime_mutex());
  table.replace(std::make_unique<Table>());
  newest_ = nullptr;
  families_.clear();
  outside_.clear();
  recorded_again_.clear();
  gave_up_.store(false);
  leaves_ties_.store(false);
  graph_is_spent_.store(false);
  recorded_otherwise_ = 0;
  noted_.store(0);
  records_ = breaks_ = kernels_compiled_ = 0;
}

void Core::Impl::wait() {
  runtime::Worker::instance().ensure_running();
  std::unique_lock lock(runtime_mutex());
  runtime::runtime_changed().wait(lock, [&] { return compiling_ == 0; });
  table.collect();
}

std::string with_next_step(const std::string& why) {
  return why.find("; ") != std::string::npos
             ? why
             : why + "; Compiled::explain() shows the recorded operators around it";
}

}  // namespace graft::detail
