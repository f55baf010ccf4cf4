#include "passes/dead_stores.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "ir/builder.h"
#include "ir/overlap.h"
#include "ir/touch.h"
#include "ir/visit.h"
#include "passes/cost.h"
#include "passes/parts.h"
#include "passes/rewrite.h"
#include "passes/touch.h"

namespace graft::passes {

using ir::Access;
using ir::Extern;
using ir::Item;
using ir::Program;
using ir::Repeat;
using ir::Role;
using ir::Statement;

namespace {

/// Later items that are asked whether they overwrite a store the caller could see.
constexpr size_t kLookAhead = 64;

class DeadStores {
 public:
  /// `target`: null where what is left of a statement stays one.
  DeadStores(Program program, const ir::Target* target)
      : program_(std::move(program)), target_(target), touching_(touching_items(program_)) {}

  Program run() {
    size_t count = program_.items.size();
    next_extern_ = count;
    gone_.assign(count, false);
    for (size_t i = count; i-- > 0;) {
      ir::match(
          program_.items[i], [&](Statement& s) { keep_live(i, s); },
          [&](Repeat& r) {
            keep_read(i, r);
            gone_[i] = r.body.empty();
          },
          [&](const Extern&) { next_extern_ = i; }, [](const ir::Abort&) {});
    }
    std::vector<Item> kept;
    for (size_t i = 0; i < count; ++i) {
      if (gone_[i]) continue;
      const auto cut = cut_.find(i);
      if (cut == cut_.end())
        kept.push_back(std::move(program_.items[i]));
      else
        std::move(cut->second.begin(), cut->second.end(), std::back_inserter(kept));
    }
    program_.items = std::move(kept);
    return std::move(program_);
  }

 private:
  Role role(const Statement& s) const {
    return program_.storages[static_cast<size_t>(s.store.storage)].role;
  }

  static bool reads(const Statement& later, const Statement& s) {
    return std::any_of(later.loads.begin(), later.loads.end(),
                       [&](const Access& load) { return meet(s.store, s, load, later); });
  }
  static bool reads(const Repeat& later, const Statement& s) {
    return std::any_of(later.body.begin(), later.body.end(),
                       [&](const Statement& each) { return reads(each, s); });
  }
  static bool reads(const Item& later, const Statement& s) {
    return ir::match(
        later, [&](const Statement& t) { return reads(t, s); },
        [&](const Repeat& r) { return reads(r, s); }, [](const Extern&) { return true; },
        [](const ir::Abort&) { return true; });
  }
  /// Takes from what is left of `s` what the item stores over.
  static void take_out_of(const Statement& s, const Item& later, std::vector<Statement>& left) {
    ir::match(
        later, [&](const Statement& t) { take_out(t, left); },
        [&](const Repeat& r) {
          if (std::any_of(r.body.begin(), r.body.end(),
                          [&](const Statement& each) { return overwrites(each, s); }))
            left.clear();
        },
        [](const Extern&) {}, [](const ir::Abort&) {});
  }

  /// Bytes that the statement moves, in whole lines where what it stores lies apart.
  double bytes_moved(const Statement& s) const {
    int64_t run = 1, accesses = 1;
    for (size_t a = 0; a < s.axes.size(); ++a)
      if (s.store.strides[a] == 1) run = std::max(run, s.axes[a]);
    for (const Access& load : s.loads)
      accesses +=
          std::all_of(load.strides.begin(), load.strides.end(), [](int64_t k) { return k != 0; });
    const auto size = static_cast<int64_t>(c10::elementSize(s.store.dtype));
    const int64_t bytes = run * size, line = target_->line_bytes;
    const bool apart = bytes < 2 * line && points(s) > run;
    return static_cast<double>(points(s) / run * accesses * (apart ? 2 * line : bytes));
  }

  bool is_worth_cutting(const Statement& s, const std::vector<Statement>& left) const {
    if (target_ == nullptr || left.size() < 2) return false;
    double saved = bytes_moved(s);
    for (const Statement& part : left) saved -= bytes_moved(part);
    const int64_t bytes = program_.storages[static_cast<size_t>(s.store.storage)].bytes;
    return saved * byte_nanoseconds(bytes, *target_) >
           static_cast<double>(left.size()) * target_->times.kernel;
  }

  /// Notes the item gone where nobody sees what it stores, and leaves out what most of it is if
  /// that is overwritten first.
  void keep_live(size_t i, Statement& s) {
    const auto& list = touching_[static_cast<size_t>(s.store.storage)];
    bool visible = role(s) != Role::Temporary, read = false;
    // An extern may throw: what is stored before it, the caller sees.
    bool callers = ir::is_callers(role(s));
    size_t until = callers ? next_extern_ : program_.items.size(), looked = 0;
    std::vector<Statement> left = {s};
    for (auto at = std::upper_bound(list.begin(), list.end(), i); at != list.end() && !read; ++at) {
      if (*at > until || (visible && ++looked > kLookAhead)) break;
      if (gone_[*at]) continue;
      const Item& later = program_.items[*at];
      read = std::any_of(left.begin(), left.end(),
                         [&](const Statement& part) { return reads(later, part); });
      if (!read) take_out_of(s, later, left);
      gone_[i] = left.empty();
      if (gone_[i]) return;
    }
    gone_[i] = !read && !visible;
    if (left.size() == 1 && 2 * points(left.front()) <= points(s))
      s = std::move(left.front());
    else if (!gone_[i] && is_worth_cutting(s, left))
      cut_.emplace(i, std::move(left));
  }

  /// Removes statements of a Repeat until each is the caller's, or read by some step or later item.
  void keep_read(size_t i, Repeat& r) const {
    for (bool again = true; again;) {
      again = false;
      for (size_t k = r.body.size(); k-- > 0;) {
        if (is_read(i, r, r.body[k])) continue;
        r.body.erase(r.body.begin() + static_cast<std::ptrdiff_t>(k));
        again = true;
      }
    }
  }

  bool is_read(size_t i, const Repeat& r, const Statement& s) const {
    if (role(s) != Role::Temporary) return true;
    if (reads(r, s)) return true;
    const auto& list = touching_[static_cast<size_t>(s.store.storage)];
    for (auto at = std::upper_bound(list.begin(), list.end(), i); at != list.end(); ++at)
      if (!gone_[*at] && reads(program_.items[*at], s)) return true;
    return false;
  }

  Program program_;
  const ir::Target* target_;
  std::vector<std::vector<size_t>> touching_;  ///< per storage: items that read or write it
  std::vector<bool> gone_;
  std::map<size_t, std::vector<Statement>> cut_;  ///< by item: what is left of it
  size_t next_extern_ = 0;
};

/// Zeros for what is read of a temporary before anything is stored there: memory of at::empty
/// behind a mask, whose other part was stored to until nobody read that.
class Fills {
 public:
  explicit Fills(Program& program) : program_(program), written_(program.storages.size(), false) {}

  void run() {
    std::vector<Item> items;
    for (Item& item : program_.items) {
      ir::match(
          item, [&](const Statement& s) { look(s); },
          [&](const Repeat& r) {
            for (const Statement& s : r.body) look(s);
          },
          [&](const Extern& e) {
            write(e);
            for (const ir::View& view : e.inputs)
              if (view.storage >= 0) read(view.storage, c10::ScalarType::Byte);
          },
          [](const ir::Abort&) {});
      std::move(fills_.begin(), fills_.end(), std::back_inserter(items));
      fills_.clear();
      items.push_back(std::move(item));
    }
    program_.items = std::move(items);
  }

 private:
  void look(const Statement& s) {
    write(s);
    for (const Access& load : s.loads) read(load.storage, load.dtype);
  }

  template <class Kind>
  void write(const Kind& kind) {
    ir::each_touch(kind, [&](int storage, bool writes) {
      if (writes) written_[static_cast<size_t>(storage)] = true;
    });
  }

  void read(int storage, c10::ScalarType type) {
    const ir::Storage& memory = program_.storages[static_cast<size_t>(storage)];
    if (written_[static_cast<size_t>(storage)] || memory.role != Role::Temporary ||
        memory.bytes == 0)
      return;
    written_[static_cast<size_t>(storage)] = true;
    const auto size = static_cast<int64_t>(c10::elementSize(type));
    if (memory.bytes % size != 0) type = c10::ScalarType::Byte;
    const int64_t count = type == c10::ScalarType::Byte ? memory.bytes : memory.bytes / size;
    ir::StatementBuilder s({count});
    fills_.emplace_back(
        s.store(ir::View{storage, type, 0, {count}, {1}}, s.constant(0, c10::ScalarType::Float)));
  }

  Program& program_;
  std::vector<bool> written_;
  std::vector<Item> fills_;  ///< before the item that is looked at
};

Program live(Program program, const ir::Target* target) {
  Program made = DeadStores(std::move(program), target).run();
  Fills(made).run();
  return made;
}

}  // namespace

Program remove_dead_stores(Program program) {
  return live(std::move(program), nullptr);
}

Program dead_stores(Program program, const Settings& settings) {
  return live(std::move(program), settings.any_size ? nullptr : &settings.target);
}

}  // namespace graft::passes
