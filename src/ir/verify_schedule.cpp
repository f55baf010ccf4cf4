#include <algorithm>

#include "ir/facts.h"
#include "ir/overlap.h"
#include "ir/touch.h"
#include "ir/verify.h"
#include "ir/visit.h"

namespace graft::ir {

namespace {

constexpr int64_t kAlign = 64;

std::string name(int storage) {
  return "%" + std::to_string(storage);
}

class Check {
 public:
  explicit Check(const Schedule& schedule) : schedule_(schedule) {}

  std::string run() {
    if (planned() && schedule_.arena_offset.size() != schedule_.storages.size())
      return std::to_string(schedule_.arena_offset.size()) + " arena offsets for " +
             std::to_string(schedule_.storages.size()) + " storages";
    scratch_of_.assign(schedule_.storages.size(), -1);
    for (auto check : {&Check::names, &Check::kernel, &Check::ahead, &Check::scratch})
      if (std::string wrong = each_step(check); !wrong.empty()) return wrong;
    life_.assign(schedule_.storages.size(), {});
    written_.assign(schedule_.storages.size(), false);
    for (auto check : {&Check::touches, &Check::order})
      if (std::string wrong = each_step(check); !wrong.empty()) return wrong;
    if (std::string wrong = each_step(&Check::own); !wrong.empty()) return wrong;
    if (std::string wrong = arena(); !wrong.empty()) return wrong;
    if (std::string wrong = in_place(); !wrong.empty()) return wrong;
    return results();
  }

 private:
  /// First and last step that touch a storage in memory; -1: none.
  struct Life {
    int first = -1, last = -1;
  };

  bool planned() const { return !schedule_.arena_offset.empty(); }
  bool exists(int storage) const {
    return storage >= 0 && storage < static_cast<int>(schedule_.storages.size());
  }
  const Storage& at(int storage) const { return schedule_.storages[static_cast<size_t>(storage)]; }

  std::string each_step(std::string (Check::*check)(size_t)) {
    for (size_t k = 0; k < schedule_.steps.size(); ++k) {
      std::string wrong = (this->*check)(k);
      if (wrong.empty()) continue;
      std::string who = match(
          schedule_.steps[k], [](const Kernel& kernel) { return "kernel " + kernel.name; },
          [](const Extern& e) { return "extern " + e.op.name; },
          [](const Abort&) { return std::string("abort"); });
      return "step " + std::to_string(k) + " (" + who + "): " + wrong;
    }
    return "";
  }

  /// Whatever the step names exists; an extern's tensors lie within their storages.
  std::string names(size_t k) {
    std::string wrong;
    auto known = [&](int storage) {
      if (!exists(storage) && wrong.empty()) wrong = "no such storage: " + name(storage);
    };
    each_storage(schedule_.steps[k], known);
    match(
        schedule_.steps[k],
        [&](const Kernel& kernel) {
          for (const Scratch& s : kernel.scratch) known(s.storage);
        },
        [&](const Abort& a) { known(a.flag); },
        [&](const Extern& e) {
          if (wrong.empty()) wrong = tensors_of(e);
        });
    return wrong;
  }

  std::string tensors_of(const Extern& e) const {
    for (const Extern::Slot& slot : e.slots)
      for (int view : slot.views)
        if (view < -1 || view >= static_cast<int>(e.inputs.size()))
          return "no such input: " + std::to_string(view);
    for (const auto* views : {&e.inputs, &e.outputs})
      for (const View& view : *views)
        if (view.storage >= 0)
          if (std::string wrong = outside(view); !wrong.empty()) return wrong;
    return "";
  }

  /// Empty when the view lies within its storage.
  std::string outside(const View& view) const {
    if (!exists(view.storage)) return "no such storage: " + name(view.storage);
    if (view.sizes.size() != view.strides.size()) return "sizes and strides differ in number";
    const auto [low, high] = byte_span(view);
    if (low == high || (low >= 0 && high <= at(view.storage).bytes)) return "";
    return "a tensor reaches bytes " + std::to_string(low) + " to " + std::to_string(high) +
           " of storage " + name(view.storage) + ", which has " +
           std::to_string(at(view.storage).bytes);
  }

  std::string kernel(size_t k) {
    const auto* kernel = std::get_if<Kernel>(&schedule_.steps[k]);
    return kernel ? verify(*kernel, schedule_.storages) : "";
  }

  std::string scratch(size_t k) {
    const auto* kernel = std::get_if<Kernel>(&schedule_.steps[k]);
    if (kernel == nullptr) return "";
    std::vector<const Scratch*> by_place;
    for (const Scratch& s : kernel->scratch) {
      std::string what = "scratch of " + name(s.storage);
      if (at(s.storage).role != Role::Temporary || at(s.storage).made_by_extern)
        return what + ", which is no temporary of the plan";
      int& owner = scratch_of_[static_cast<size_t>(s.storage)];
      if (owner >= 0) return what + " twice";
      owner = static_cast<int>(k);
      if (s.offset < 0 || s.bytes < 0 || s.offset + s.bytes > kernel->scratch_bytes)
        return what + " lies at bytes " + std::to_string(s.offset) + " to " +
               std::to_string(s.offset + s.bytes) + " of a block of " +
               std::to_string(kernel->scratch_bytes);
      if (s.offset % kAlign != 0)
        return what + " lies at byte " + std::to_string(s.offset) + ", no multiple of 64";
      by_place.push_back(&s);
    }
    std::sort(by_place.begin(), by_place.end(),
              [](const Scratch* a, const Scratch* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < by_place.size(); ++i)
      if (by_place[i - 1]->offset + by_place[i - 1]->bytes > by_place[i]->offset)
        return "scratch of " + name(by_place[i - 1]->storage) + " and of " +
               name(by_place[i]->storage) + " share bytes";
    return squares(*kernel);
  }

  /// The last squares of transposed copies lie within scratch.
  std::string squares(const Kernel& kernel) const {
    for (const Placed& p : kernel.placed) {
      if (p.columns == 0) continue;
      for (const Access* x : {&p.statement.store, &p.statement.loads.front()})
        for (const Scratch& s : kernel.scratch)
          for (size_t a = 0; a < p.axis_var.size() && s.storage == x->storage; ++a) {
            if (kernel.vars[static_cast<size_t>(p.axis_var[a])].kind != LoopKind::Serial) continue;
            const int64_t end =
                x->offset + x->strides[a] * in_squares(p.statement.axes[a], p.columns);
            if (end * static_cast<int64_t>(c10::elementSize(x->dtype)) > s.bytes)
              return "scratch of " + name(s.storage) + " has no room for whole squares";
          }
    }
    return "";
  }

  /// No step touches another one's scratch; notes the lives of what lies in memory.
  std::string touches(size_t k) {
    std::string wrong;
    auto step = static_cast<int>(k);
    each_storage(schedule_.steps[k], [&](int storage) {
      int owner = scratch_of_[static_cast<size_t>(storage)];
      if (owner == step) return;
      if (owner >= 0)
        wrong = "touches " + name(storage) + ", scratch of step " + std::to_string(owner);
      Life& life = life_[static_cast<size_t>(storage)];
      if (life.first < 0) life.first = step;
      life.last = step;
    });
    return wrong;
  }

  /// A temporary is written before it is read. What a statement or call stores itself counts.
  std::string order(size_t k) {
    std::string wrong;
    auto read = [&](int storage) {
      if (at(storage).role == Role::Temporary && !written_[static_cast<size_t>(storage)] &&
          wrong.empty())
        wrong = "reads " + name(storage) + " before anything wrote it";
    };
    auto run = [&](const auto& one) {
      each_touch(one, [&](int s, bool writes) {
        if (writes) written_[static_cast<size_t>(s)] = true;
      });
      each_touch(one, [&](int s, bool writes) {
        if (!writes) read(s);
      });
    };
    match(
        schedule_.steps[k],
        [&](const Kernel& kernel) {
          each_placed(kernel.body, [&](size_t p) { run(kernel.placed[p].statement); });
        },
        [&](const Extern& e) {
          for (int s : e.written) written_[static_cast<size_t>(s)] = true;
          for (const View& v : e.inputs)
            if (v.storage >= 0 && std::count(v.sizes.begin(), v.sizes.end(), 0) == 0)
              read(v.storage);
        },
        [&](const Abort& a) { run(a); });
    return wrong;
  }

  /// What statements ask for ahead are loads along one of their loops.
  std::string ahead(size_t k) {
    const auto* kernel = std::get_if<Kernel>(&schedule_.steps[k]);
    for (size_t p = 0; kernel != nullptr && p < kernel->placed.size(); ++p) {
      const Placed& placed = kernel->placed[p];
      for (const Placed::Ahead& a : placed.ahead)
        if (a.load < 0 || a.load >= static_cast<int>(placed.statement.loads.size()) ||
            std::count(placed.axis_var.begin(), placed.axis_var.end(), a.var) != 1 ||
            a.iterations < 1)
          return "statement " + std::to_string(p) + " asks ahead for load " +
                 std::to_string(a.load) + " along v" + std::to_string(a.var);
    }
    return "";
  }

  /// What a kernel takes for its own no other step touches, nor the caller.
  std::string own(size_t k) {
    const auto* kernel = std::get_if<Kernel>(&schedule_.steps[k]);
    for (int s : kernel == nullptr ? std::vector<int>{} : kernel->own) {
      if (!exists(s) || at(s).role != Role::Temporary || at(s).made_by_extern)
        return "has " + name(s) + " for its own, which is no temporary";
      const Life& life = life_[static_cast<size_t>(s)];
      if (life.first != static_cast<int>(k) || life.last != static_cast<int>(k))
        return "has " + name(s) + " for its own, which other steps touch, or none";
    }
    return "";
  }

  std::string arena() const {
    if (!planned()) return "";
    std::vector<int> inside;
    for (int s = 0; exists(s); ++s) {
      int64_t offset = schedule_.arena_offset[static_cast<size_t>(s)];
      bool temporary = at(s).role == Role::Temporary && !at(s).made_by_extern;
      bool touched = life_[static_cast<size_t>(s)].first >= 0;
      if (offset == kOwnBlock && !temporary)
        return name(s) + " is a block of its own, and no temporary of the plan";
      if (offset < 0 && offset != kOwnBlock && temporary && touched)
        return "temporary " + name(s) + " has no memory";
      if (at(s).folded && offset != kOwnBlock)
        return name(s) + " outlives the run, and is no block of its own";
      if (offset < 0) continue;
      if (!temporary) return name(s) + " lies in the arena, and is no temporary of the plan";
      if (scratch_of_[static_cast<size_t>(s)] >= 0)
        return name(s) + " lies in the arena and in scratch";
      if (offset % kAlign != 0)
        return name(s) + " lies at byte " + std::to_string(offset) + " of the arena, no multiple" +
               " of 64";
      if (offset + at(s).bytes > schedule_.arena_bytes)
        return name(s) + " lies at bytes " + std::to_string(offset) + " to " +
               std::to_string(offset + at(s).bytes) + " of an arena of " +
               std::to_string(schedule_.arena_bytes);
      inside.push_back(s);
    }
    return shared(inside);
  }

  /// Two temporaries at one place of the arena that live at the same time.
  std::string shared(std::vector<int> inside) const {
    auto offset = [&](int s) { return schedule_.arena_offset[static_cast<size_t>(s)]; };
    std::stable_sort(inside.begin(), inside.end(),
                     [&](int a, int b) { return offset(a) < offset(b); });
    for (size_t i = 0; i < inside.size(); ++i)
      for (size_t j = i + 1; j < inside.size(); ++j) {
        int s = inside[i], t = inside[j];
        if (offset(t) >= offset(s) + at(s).bytes) break;
        const Life &a = life_[static_cast<size_t>(s)], &b = life_[static_cast<size_t>(t)];
        if (a.first < 0 || b.first < 0 || a.last < b.first || b.last < a.first) continue;
        return name(s) + " and " + name(t) + " share bytes of the arena, and both live at step " +
               std::to_string(std::max(a.first, b.first));
      }
    return "";
  }

  std::string in_place() const {
    const std::vector<int>& before = schedule_.in_place_of;
    if (before.empty()) return "";
    if (before.size() != schedule_.storages.size()) return "not every storage has an in_place_of";
    std::vector<bool> taken(before.size());
    for (int s = 0; exists(s); ++s) {
      const int from = before[static_cast<size_t>(s)];
      if (from == -1) continue;
      const std::string what = name(s) + ", in place of " + name(from) + ", ";
      if (!exists(from) || at(from).role != Role::Temporary ||
          (!at(from).made_by_extern &&
           schedule_.arena_offset[static_cast<size_t>(from)] != kOwnBlock) ||
          taken[static_cast<size_t>(from)])
        return what + "which is no temporary of its own block, or another's place";
      taken[static_cast<size_t>(from)] = true;
      if (schedule_.arena_offset[static_cast<size_t>(s)] != kOwnBlock ||
          at(s).bytes != at(from).bytes)
        return what + "is no block, or of another size";
      if (life_[static_cast<size_t>(from)].last != life_[static_cast<size_t>(s)].first)
        return what + "does not begin where that ends";
    }
    return "";
  }

  std::string results() const {
    for (size_t i = 0; i < schedule_.signature.results.size(); ++i) {
      const Result& r = schedule_.signature.results[i];
      if (!r.defined || r.argument >= 0 || r.captured >= 0) continue;
      std::string wrong;
      if (r.same_as >= 0)
        wrong = r.same_as < static_cast<int>(i) ? "" : "is the same as a later result";
      else
        wrong = outside(r.view);
      if (wrong.empty() && r.same_as < 0 && at(r.view.storage).role == Role::Temporary)
        wrong = "lies in " + name(r.view.storage) + ", a temporary that goes with the run";
      if (!wrong.empty()) return "result " + std::to_string(i) + ": " + wrong;
    }
    return "";
  }

  const Schedule& schedule_;
  std::vector<int> scratch_of_;  ///< per storage: the step whose scratch it lies in, or -1
  std::vector<Life> life_;       ///< per storage
  std::vector<bool> written_;    ///< per storage: by a step so far
};

}  // namespace

std::string verify(const Schedule& schedule) {
  return Check(schedule).run();
}

}  // namespace graft::ir
