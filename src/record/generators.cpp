#include "record/generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace graft::record {
namespace {

using State = at::mt19937_data_pod;
using WeakGenerator = c10::weak_intrusive_ptr<c10::GeneratorImpl>;

constexpr const char* kSeeded =
    " was given a seed or a state inside the function, which a plan does not repeat; seed it "
    "before "
    "the call";

/// Blocks of numbers (624 each) that other threads may draw between two looks at a generator.
constexpr int kBlocksOfOthers = 256;

/// Watches under way: the last one to end takes its marks back.
std::atomic<int> g_watches{0};

/// Generators that this thread's records drew from.
std::vector<WeakGenerator>& known() {
  thread_local std::vector<WeakGenerator> all;
  return all;
}

void remember(const at::Generator& generator) {
  const bool remembered = std::any_of(known().begin(), known().end(), [&](const auto& weak) {
    return weak._unsafe_get_target() == generator.unsafeGetGeneratorImpl();
  });
  if (!remembered) known().emplace_back(generator.getIntrusivePtr());
}

at::Generator actual(const at::Generator& generator) {
  return generator.defined() ? generator : at::detail::getDefaultCPUGenerator();
}

/// nullptr: not ATen's own kind, whose state cannot be read.
at::CPUGeneratorImpl* cpu(const at::Generator& generator) {
  return dynamic_cast<at::CPUGeneratorImpl*>(generator.unsafeGetGeneratorImpl());
}

/// Nothing was drawn since it was seeded.
bool is_fresh(const State& state) {
  return state.left_ == 1 && state.next_ == 0;
}

bool same(const State& a, const State& b) {
  return a.seed_ == b.seed_ && a.left_ == b.left_ && a.next_ == b.next_ && a.state_ == b.state_;
}

State read(const at::Generator& generator) {
  at::Generator locked = generator;
  std::lock_guard lock(locked.mutex());
  return cpu(generator)->engine().data();
}

void set_place(at::CPUGeneratorImpl& generator, uint32_t place) {
  at::mt19937 engine = generator.engine();
  State state = engine.data();
  state.next_ = place;
  engine.set_data(state);
  generator.set_engine(engine);
}

/// Does drawing some numbers more lead from one state to the other?
bool leads_to(const State& from, const State& to) {
  if (same(from, to)) return true;
  at::mt19937 engine;
  engine.set_data(from);
  // Each number takes one of what is left of a block, so the first count that fits is known.
  int draws = (from.left_ - to.left_ + at::MERSENNE_STATE_N) % at::MERSENNE_STATE_N;
  for (int block = 0; block < kBlocksOfOthers; ++block) {
    for (int i = 0; i < draws; ++i) engine();
    if (draws > 0 && same(engine.data(), to)) return true;
    draws = at::MERSENNE_STATE_N;
  }
  return false;
}

std::string name_of(const at::Generator& generator) {
  return generator == at::detail::getDefaultCPUGenerator() ? "the default random generator"
                                                           : "a random generator";
}

}  // namespace

Generators::Generators() {
  g_watches.fetch_add(1);
  watch(at::detail::getDefaultCPUGenerator(), /*known=*/true);
  std::erase_if(known(), [](const WeakGenerator& weak) { return weak.expired(); });
  for (const WeakGenerator& weak : known()) {
    auto alive = weak.lock();
    if (alive && find(at::Generator(alive)) == nullptr)
      watch(at::Generator(std::move(alive)), /*known=*/true);
  }
}

Generators::~Generators() {
  const bool last = g_watches.fetch_sub(1) == 1;
  for (Watched& watched : watched_) {
    if (!watched.marked || !last) continue;
    std::unique_lock lock(watched.generator.mutex(), std::try_to_lock);
    if (lock.owns_lock() && same(cpu(watched.generator)->engine().data(), watched.state))
      set_place(*cpu(watched.generator), 0);
  }
}

void Generators::watch(const at::Generator& generator, bool known) {
  Watched watched{generator, {}, false};
  // The caller may hold it locked while it draws numbers of its own.
  std::unique_lock lock(watched.generator.mutex(), std::try_to_lock);
  if (!lock.owns_lock()) return;
  at::CPUGeneratorImpl& impl = *cpu(generator);
  if (known && is_fresh(impl.engine().data())) {
    set_place(impl, 1);
    watched.marked = true;
  }
  watched.state = impl.engine().data();
  watched_.push_back(std::move(watched));
}

Generators::Watched* Generators::find(const at::Generator& generator) {
  auto found = std::find_if(watched_.begin(), watched_.end(),
                            [&](const Watched& w) { return w.generator == generator; });
  return found == watched_.end() ? nullptr : &*found;
}

std::optional<std::string> Generators::before_draw(const at::Generator& drawn) {
  const at::Generator generator = actual(drawn);
  if (cpu(generator) == nullptr) return {};
  const State now = read(generator);
  if (const Watched* watched = find(generator)) {
    if (leads_to(watched->state, now)) return {};
    return name_of(generator) + kSeeded;
  }
  remember(generator);
  // Seeded before the run, or in it? The next record knows this one from its start.
  if (is_fresh(now))
    return "nothing was drawn yet from " + name_of(generator) +
           ", which may have been made or seeded inside the function; make and seed it before the "
           "call";
  return {};
}

void Generators::after_draw(const at::Generator& drawn) {
  const at::Generator generator = actual(drawn);
  if (cpu(generator) == nullptr) return;
  if (Watched* watched = find(generator)) {
    watched->state = read(generator);
    watched->marked = false;
  } else {
    watch(generator, /*known=*/false);
  }
}

std::optional<std::string> Generators::finish(const std::vector<const c10::GeneratorImpl*>& held) {
  for (Watched& watched : watched_) {
    std::unique_lock lock(watched.generator.mutex(), std::try_to_lock);
    if (!lock.owns_lock()) continue;
    if (!leads_to(watched.state, cpu(watched.generator)->engine().data()))
      return name_of(watched.generator) + kSeeded;
    const c10::GeneratorImpl* impl = watched.generator.unsafeGetGeneratorImpl();
    if (watched.generator.getIntrusivePtr().use_count() <=
        1 + std::count(held.begin(), held.end(), impl))
      return "the function draws from a random generator of its own, which is gone after the call; "
             "make it before the call and capture it";
  }
  return {};
}

}  // namespace graft::record
