#include "passes/recompute.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "ir/kernel.h"
#include "ir/visit.h"
#include "passes/cost.h"
#include "passes/dead_stores.h"
#include "passes/inline.h"
#include "passes/plain_calls.h"
#include "passes/touch.h"

namespace graft::passes {

namespace {

using ir::Extern;
using ir::Item;
using ir::Program;
using ir::Role;
using ir::Statement;
using ir::Storage;

constexpr double kShare = 0.03;  ///< of the program's time that computing again may take
constexpr int kMostAgain = 256;  ///< storages that are computed again, at most
constexpr int64_t kSmall = 16;   ///< of so many bytes that are freed, one may stay for it

/// What one storage would take to be computed again before item `at`.
struct Again {
  int storage = -1;
  size_t at = 0;
  int after = -1;             ///< Statement::after of the copies
  std::vector<size_t> items;  ///< those that are copied, in order
  std::vector<int> inputs;    ///< what they read that is there
  int64_t bytes = 0;          ///< that are free meanwhile
  double nanoseconds = 0;
  double per_byte() const { return nanoseconds / static_cast<double>(bytes); }
};

class Memory {
 public:
  Memory(const Program& program, const ir::Target& target)
      : program_(program), target_(target), touching_(touching_items(program)) {
    writers_.resize(program.storages.size());
    for (size_t i = 0; i < program.items.size(); ++i)
      ir::each_touch(program.items[i], [&](int storage, bool writes) {
        auto& writers = writers_[static_cast<size_t>(storage)];
        if (writes && (writers.empty() || writers.back() != i)) writers.push_back(i);
      });
  }

  /// The cheapest for its bytes of what could be computed again rather than lie in memory where
  /// most of that is in use; nothing, if all take longer than `most` nanoseconds.
  std::optional<Again> best(double most) const {
    const size_t peak = fullest();
    std::optional<Again> best;
    for (size_t s = 0; s < program_.storages.size(); ++s) {
      if (!is_long_gone(s, peak)) continue;
      const std::optional<Again> again = compute_again(static_cast<int>(s), peak, most);
      if (again && again->nanoseconds <= most && (!best || again->per_byte() < best->per_byte()))
        best = again;
    }
    return best;
  }

  /// Of the item alone, as far as it is known.
  double nanoseconds(const Item& item) const {
    return ir::match(
        item,
        [&](const Statement& s) {
          return passes::nanoseconds(s, target_) + moved(item) * target_.times.memory_byte;
        },
        [&](const Extern& call) {
          const std::optional<double> flops = product_flops(call);
          return (flops ? *flops * target_.call_flop(call.outputs[0].dtype) : 0) +
                 moved(item) * target_.times.memory_byte;
        },
        [](const ir::Abort&) { return 0.; },
        [&](const ir::Repeat& r) {
          double sum = 0;
          for (const Statement& s : r.body) sum += passes::nanoseconds(s, target_);
          return sum;
        });
  }

 private:
  const Storage& storage(size_t s) const { return program_.storages[s]; }
  bool is_temporary(size_t s) const {
    return storage(s).role == Role::Temporary && !touching_[s].empty();
  }

  /// Bytes of the large storages that the item touches.
  double moved(const Item& item) const {
    std::vector<int> seen;
    double bytes = 0;
    ir::each_storage(item, [&](int s) {
      const int64_t size = storage(static_cast<size_t>(s)).bytes;
      if (size < ir::kLarge || std::find(seen.begin(), seen.end(), s) != seen.end()) return;
      seen.push_back(s);
      bytes += static_cast<double>(size);
    });
    return bytes;
  }

  /// The item during which temporaries hold most bytes. One that a map makes may take the place of
  /// one that it needs for the last time.
  size_t fullest() const {
    std::vector<int64_t> change(program_.items.size() + 1);
    for (size_t s = 0; s < program_.storages.size(); ++s) {
      if (!is_temporary(s)) continue;
      change[touching_[s].front() + (takes_a_place(s) ? 1 : 0)] += storage(s).bytes;
      change[touching_[s].back() + 1] -= storage(s).bytes;
    }
    size_t fullest = 0;
    int64_t bytes = 0, most = -1;
    for (size_t i = 0; i < program_.items.size(); ++i) {
      bytes += change[i];
      if (bytes > most) most = bytes, fullest = i;
    }
    return fullest;
  }

  bool takes_a_place(size_t s) const {
    const size_t at = touching_[s].front();
    const auto* map = std::get_if<Statement>(&program_.items[at]);
    if (map == nullptr || map->reduction || touching_[s].back() == at) return false;
    return std::any_of(map->loads.begin(), map->loads.end(), [&](const ir::Access& load) {
      const auto from = static_cast<size_t>(load.storage);
      return from != s && is_temporary(from) && storage(from).bytes == storage(s).bytes &&
             touching_[from].back() == at;
    });
  }

  /// Is it a large temporary that is needed before `at` and behind, and not there?
  bool is_long_gone(size_t s, size_t at) const {
    const auto& items = touching_[s];
    return is_temporary(s) && storage(s).bytes >= ir::kLarge && items.front() < at &&
           items.back() > at && !std::binary_search(items.begin(), items.end(), at);
  }

  /// What the last call among the items [first, last) writes; -1: there is none.
  int last_call(size_t first, size_t last) const {
    while (last-- > first)
      if (const auto* call = std::get_if<Extern>(&program_.items[last]);
          call != nullptr && !call->written.empty())
        return call->written.front();
    return -1;
  }

  std::optional<Again> compute_again(int s, size_t peak, double most) const {
    const auto& items = touching_[static_cast<size_t>(s)];
    Again again;
    again.storage = s;
    again.at = *std::upper_bound(items.begin(), items.end(), peak);
    again.after = last_call(peak, again.at);
    if (again.after < 0) return std::nullopt;
    const int64_t bytes = storage(static_cast<size_t>(s)).bytes;
    again.bytes = bytes;
    if (!add(s, peak, most, again) || 2 * again.bytes < bytes) return std::nullopt;
    again.nanoseconds += static_cast<double>(bytes) * target_.times.memory_byte;
    std::sort(again.items.begin(), again.items.end());
    return again;
  }

  /// Adds what makes the storage, and what makes that; false: it cannot be computed again.
  bool add(int s, size_t peak, double most, Again& again) const {
    const auto& writers = writers_[static_cast<size_t>(s)];
    if (ir::is_callers(storage(static_cast<size_t>(s)).role) || writers.size() != 1) return false;
    const size_t item = writers.front();
    if (!can_repeat(program_.items[item], s)) return false;
    if (std::find(again.items.begin(), again.items.end(), item) != again.items.end()) return true;
    again.items.push_back(item);
    again.nanoseconds += arithmetic(program_.items[item]);
    if (again.nanoseconds > most) return false;
    bool can = true;
    ir::each_touch(program_.items[item], [&](int input, bool writes) {
      if (!writes) can = can && (stays(input, item, peak, again) || add(input, peak, most, again));
    });
    return can;
  }

  /// Without what it moves: that is counted where it comes from memory.
  double arithmetic(const Item& item) const {
    return nanoseconds(item) - moved(item) * target_.times.memory_byte;
  }

  /// A map of what lies elsewhere, or a matrix product, that makes the storage.
  static bool can_repeat(const Item& item, int made) {
    if (const auto* s = std::get_if<Statement>(&item))
      return !s->reduction && std::none_of(s->loads.begin(), s->loads.end(),
                                           [&](const auto& load) { return load.storage == made; });
    const auto* call = std::get_if<Extern>(&item);
    return call != nullptr && product_flops(*call) && call->written == std::vector<int>{made};
  }

  /// Is what `item` reads of the storage still there before again.at, and at the peak anyway or
  /// small? Counts the bytes that stay for it, and the time to load them.
  bool stays(int input, size_t item, size_t peak, Again& again) const {
    const auto s = static_cast<size_t>(input);
    const auto& writers = writers_[s];
    const auto later = std::upper_bound(writers.begin(), writers.end(), item);
    if (later != writers.end() && *later < again.at) return false;
    if (std::find(again.inputs.begin(), again.inputs.end(), input) != again.inputs.end())
      return true;
    const int64_t bytes = storage(s).bytes;
    if (storage(s).role == Role::Temporary && touching_[s].back() < again.at) {
      if (bytes * kSmall > storage(static_cast<size_t>(again.storage)).bytes) return false;
      if (touching_[s].back() < peak) again.bytes -= bytes;
    }
    again.nanoseconds += static_cast<double>(bytes) * target_.times.memory_byte;
    again.inputs.push_back(input);
    return true;
  }

  const Program& program_;
  const ir::Target& target_;
  std::vector<std::vector<size_t>> touching_, writers_;  ///< by storage: items
};

void rename(Item& item, const std::map<int, int>& to) {
  auto rename = [&](int& storage) {
    if (auto it = to.find(storage); it != to.end()) storage = it->second;
  };
  auto rename_all = [&](Statement& s) {
    rename(s.store.storage);
    for (ir::Access& load : s.loads) rename(load.storage);
  };
  ir::match(
      item, rename_all,
      [&](Extern& e) {
        for (ir::View& view : e.inputs) rename(view.storage);
        for (ir::View& view : e.outputs) rename(view.storage);
        for (int& written : e.written) rename(written);
      },
      [&](ir::Abort& a) { rename(a.flag); },
      [&](ir::Repeat& r) {
        for (Statement& s : r.body) rename_all(s);
      });
}

/// Puts copies of the items in front of again.at, from where on their results are read.
void apply(Program& program, const Again& again) {
  std::map<int, int> copies;
  std::vector<Item> items;
  for (size_t i : again.items) {
    items.push_back(program.items[i]);
    if (auto* map = std::get_if<Statement>(&items.back())) map->after = again.after;
    ir::each_touch(items.back(), [&](int storage, bool writes) {
      if (!writes) return;
      copies[storage] = static_cast<int>(program.storages.size());
      program.storages.push_back(program.storages[static_cast<size_t>(storage)]);
    });
  }
  for (Item& item : items) rename(item, copies);
  const auto at = program.items.begin() + static_cast<std::ptrdiff_t>(again.at);
  for (auto later = at; later != program.items.end(); ++later)
    rename(*later, {{again.storage, copies[again.storage]}});
  program.items.insert(at, std::make_move_iterator(items.begin()),
                       std::make_move_iterator(items.end()));
}

}  // namespace

Program recompute(Program program, const Settings& settings) {
  if (std::none_of(program.storages.begin(), program.storages.end(), [](const Storage& s) {
        return s.role == Role::Temporary && s.bytes >= ir::kLarge;
      }))
    return program;
  Program lean = remove_dead_stores(program);
  const Memory before(lean, settings.target);
  if (!before.best(std::numeric_limits<double>::infinity())) return program;
  double left = 0;
  for (const Item& item : lean.items) left += kShare * before.nanoseconds(item);
  int rounds = 0;
  for (; rounds < kMostAgain; ++rounds) {
    const std::optional<Again> again = Memory(lean, settings.target).best(left);
    if (!again) break;
    left -= again->nanoseconds;
    apply(lean, *again);
  }
  if (rounds == 0) return program;
  if (settings.skips("inline")) return lean;
  Decider decider("inline", settings.decisions, nullptr);
  return inline_producers(std::move(lean), settings, decider);
}

}  // namespace graft::passes
