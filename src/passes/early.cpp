#include "passes/early.h"

#include <algorithm>
#include <numeric>

#include "passes/plain_calls.h"
#include "passes/touch.h"
#include "tensor/communication.h"

namespace graft::passes {

namespace {

class EarlyOrder {
 public:
  explicit EarlyOrder(const ir::Schedule& schedule)
      : schedule_(schedule),
        life_(lifetimes(schedule)),
        written_(life_.size(), -1),
        touched_(life_.size(), -1),
        sent_(life_.size()) {
    for (const ir::Step& step : schedule.steps)
      if (const auto* call = std::get_if<ir::Extern>(&step);
          call != nullptr && call->op.name == kStartsCollective)
        for (int storage : call->written) sent_[static_cast<size_t>(storage)] = true;
  }

  /// The steps in their new order.
  std::vector<size_t> run() {
    std::vector<int> after;  // per step: it runs behind this one, or in its own place
    for (size_t k = 0; k < schedule_.steps.size(); ++k) {
      const ir::Step& step = schedule_.steps[k];
      const auto* call = std::get_if<ir::Extern>(&step);
      const int own = static_cast<int>(k), needed = last_needed(step);
      const bool moves =
          needed >= 0 && (call != nullptr ? call->op.name == kStartsCollective
                                          : std::holds_alternative<ir::Kernel>(step) &&
                                                (frees(step, own) >= ir::kLarge || is_sent(step)));
      after.push_back(moves ? needed : own);
      if (std::holds_alternative<ir::Abort>(step)) aborted_ = own;
      if (call != nullptr && communicates(call->op.name)) spoken_ = after.back();
      if (call != nullptr && !is_plain(*call)) failing_ = own;
      ir::each_touch(step, [&](int storage, bool writes) {
        const auto s = static_cast<size_t>(storage);
        if (writes) written_[s] = std::max(written_[s], after.back());
        touched_[s] = std::max(touched_[s], after.back());
      });
    }
    std::vector<size_t> order(after.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return after[a] < after[b]; });
    return order;
  }

 private:
  /// The last step that must have run before this one; -1: none. That is at least the last check,
  /// which an index of this one may need. Nothing of the caller's may be changed before a call that
  /// may fail, if eager changes it after the call.
  int last_needed(const ir::Step& step) const {
    int last = aborted_;
    if (const auto* call = std::get_if<ir::Extern>(&step); call && communicates(call->op.name))
      last = std::max(last, spoken_);
    ir::each_touch(step, [&](int storage, bool writes) {
      const auto s = static_cast<size_t>(storage);
      last = std::max(last, writes ? touched_[s] : written_[s]);
      if (writes && ir::is_callers(schedule_.storages[s].role)) last = std::max(last, failing_);
    });
    return last;
  }

  /// Does it write what a collective starts with?
  bool is_sent(const ir::Step& step) const {
    bool sent = false;
    ir::each_touch(step, [&](int storage, bool writes) {
      sent = sent || (writes && sent_[static_cast<size_t>(storage)]);
    });
    return sent;
  }

  /// Bytes that are free after the step, less those that it makes.
  int64_t frees(const ir::Step& step, int own) const {
    int64_t bytes = 0;
    std::vector<int> seen;
    each_storage(step, [&](int storage) {
      const ir::Storage& of = schedule_.storages[static_cast<size_t>(storage)];
      const Lifetime& life = life_[static_cast<size_t>(storage)];
      if (std::find(seen.begin(), seen.end(), storage) != seen.end()) return;
      seen.push_back(storage);
      if (of.role != ir::Role::Temporary || life.first == life.last) return;
      bytes += life.last == own ? of.bytes : life.first == own ? -of.bytes : 0;
    });
    return bytes;
  }

  const ir::Schedule& schedule_;
  const std::vector<Lifetime> life_;
  std::vector<int> written_, touched_;  ///< per storage: behind which step it last was
  std::vector<bool> sent_;              ///< per storage: a collective starts with it
  int aborted_ = -1, failing_ = -1;     ///< the last check, and call that may fail
  int spoken_ = -1;  ///< behind which step the last start or end of a collective is
};

}  // namespace

void free_early(ir::Schedule& schedule) {
  std::vector<ir::Step> steps;
  for (size_t k : EarlyOrder(schedule).run()) steps.push_back(std::move(schedule.steps[k]));
  schedule.steps = std::move(steps);
}

}  // namespace graft::passes
