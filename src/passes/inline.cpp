#include "passes/inline.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "ir/facts.h"
#include "ir/overlap.h"
#include "ir/visit.h"
#include "passes/inline_cost.h"
#include "passes/parts.h"
#include "passes/rewrite.h"
#include "passes/touch.h"

namespace graft::passes {

using ir::Access;
using ir::Extern;
using ir::Item;
using ir::Overlap;
using ir::Program;
using ir::Relation;
using ir::Role;
using ir::Statement;
using ir::View;

namespace {

constexpr size_t kMaxNodes = 220;
constexpr size_t kMaxLoads = 24;
constexpr size_t kMaxPieces = 16;
constexpr int64_t kPicked = 8;  ///< of so many points that data picks one of, each is computed anew
constexpr double kManyTimes = 3;  ///< from so many on that a value is read, more change little
constexpr int64_t kScrap = 32;    ///< of so many points, one is little
constexpr int64_t kMargin = 8;    ///< points of a statement for each one of a margin, at least
/// Stores into a buffer from which on its readers see the buffer, not the copy that filled it: a
/// loop over its parts keeps one form from the first step on. (Padding stores nine parts.)
constexpr size_t kUpdates = 10;

/// Does the call write the storage, or with `writes` false: read it?
bool extern_touches(const Extern& e, int storage, bool writes) {
  if (writes) return std::count(e.written.begin(), e.written.end(), storage) > 0;
  return std::any_of(e.inputs.begin(), e.inputs.end(),
                     [&](const View& v) { return v.storage == storage; });
}
/// May the statement, or item, write what `access` touches over `axes`?
bool writes(const Statement& s, const Access& access, const std::vector<int64_t>& axes) {
  return relate(s.store, s.axes, access, axes).relation != Relation::Disjoint;
}
bool writes(const Item& item, const Access& access, const std::vector<int64_t>& axes) {
  return ir::match(
      item, [&](const Statement& s) { return writes(s, access, axes); },
      [&](const Extern& e) { return extern_touches(e, access.storage, true); },
      [](const ir::Abort&) { return false; },
      [&](const ir::Repeat& r) {
        return std::any_of(r.body.begin(), r.body.end(),
                           [&](const Statement& s) { return s.store.storage == access.storage; });
      });
}

class Inliner {
 public:
  Inliner(Program program, const ir::Target& target, Decider& decider)
      : old_(std::move(program)), target_(target), decider_(decider) {
    out_.storages = old_.storages;
    out_.signature = old_.signature;
    touched_.resize(old_.storages.size());
    touching_ = touching_items(old_);
    updates_.assign(old_.storages.size(), 0);
    for (const Item& item : old_.items)
      if (const auto* s = std::get_if<Statement>(&item))
        ++updates_[static_cast<size_t>(s->store.storage)];
  }

  Program run() {
    for (size_t i = 0; i < old_.items.size(); ++i) {
      auto* s = std::get_if<Statement>(&old_.items[i]);
      if (!s) {
        if (auto* r = std::get_if<ir::Repeat>(&old_.items[i])) resolve_steps(*r);
        append(std::move(old_.items[i]), {});
        continue;
      }
      Readership readers;
      if (old_.storages[static_cast<size_t>(s->store.storage)].role == Role::Temporary)
        readers = readers_of(i, *s);
      // Items further on ask for what comes after them only.
      for (Statement& piece : resolve(std::move(*s), readers.times))
        append(std::move(piece), readers);
    }
    return std::move(out_);
  }

 private:
  /// A load of what somebody stored, as recorded.
  struct Reader {
    const Statement* statement;
    const Access* load;
  };

  /// Who reads what `producer` (item `at`) stores, by loads as recorded: those of different parts
  /// read it once together. Calls and loops count too, but not who reads a little that others left
  /// of it, or what data picks.
  Readership readers_of(size_t at, const Statement& producer) const {
    const auto& list = touching_[static_cast<size_t>(producer.store.storage)];
    const auto made = static_cast<double>(points(producer));
    std::vector<Reader> readers;
    double others = 0, elements = 0;
    bool meeting = false;
    std::vector<Statement> left = {producer};
    auto times = [&] {
      // What reads so many parts may be the steps of a loop, which are better computed at once.
      const double least = readers.size() >= kMaxPieces ? 2 : !readers.empty();
      return others + (meeting ? elements / made : least);
    };
    for (auto i = std::upper_bound(list.begin(), list.end(), at);
         i != list.end() && !left.empty() && times() < kManyTimes; ++i) {
      const auto* s = std::get_if<Statement>(&old_.items[*i]);
      if (!s) {
        const auto* e = std::get_if<Extern>(&old_.items[*i]);
        others += !e || extern_touches(*e, producer.store.storage, false);
        continue;
      }
      for (const Access& load : s->loads) {
        int64_t read = 0;
        for (const Statement& part : left)
          if (meet(part.store, part, load, *s)) read += points(part);
        if (kScrap * read <= points(producer)) continue;
        if (!load.indirect.empty() && kPicked * points(*s) <= points(producer)) continue;
        meeting = meeting || std::any_of(readers.begin(), readers.end(), [&](const Reader& other) {
                    return meet(*other.load, *other.statement, load, *s);
                  });
        elements += static_cast<double>(std::min(read, points(*s)));
        readers.push_back({s, &load});
        if (readers.size() >= kMaxPieces) break;
      }
      if (readers.size() >= kMaxPieces) break;
      take_out(*s, left);
    }
    return {std::max(1.0, times()), others > 0, outlives_inputs(at, producer)};
  }

  /// Does what `producer` (item `at`) stores stay in memory for a call, while something as large
  /// that it reads is needed no more? Then its other readers may as well read it there.
  bool outlives_inputs(size_t at, const Statement& producer) const {
    const auto& list = touching_[static_cast<size_t>(producer.store.storage)];
    const bool stays = std::any_of(list.begin(), list.end(), [&](size_t i) {
      const auto* call = std::get_if<Extern>(&old_.items[i]);
      return i > at && call != nullptr && extern_touches(*call, producer.store.storage, false);
    });
    return stays &&
           std::any_of(producer.loads.begin(), producer.loads.end(), [&](const Access& load) {
             const ir::Storage& input = old_.storages[static_cast<size_t>(load.storage)];
             return input.role == Role::Temporary && !input.made_by_extern &&
                    touching_[static_cast<size_t>(load.storage)].back() <= at &&
                    !is_repeated(load, producer);
           });
  }

  /// The statement, which is read so many times, with its loads of temporaries resolved, in pieces.
  std::vector<Statement> resolve(Statement original, double times) {
    // Readers that compute it themselves need it whole.
    const bool passed_on = times > 1 && !original.reduction && is_cheap(original);
    std::vector<Statement> done, todo;  // the next one last
    todo.push_back(std::move(original));
    while (!todo.empty()) {
      Statement s = std::move(todo.back());
      todo.pop_back();
      bool changed = true;
      while (changed) {
        changed = false;
        for (size_t l = 0; l < s.loads.size() && !changed; ++l) {
          Overlap split;
          if (try_inline(s, l, done, passed_on, split)) {
            changed = true;
          } else if (split.relation == Relation::NeedSplit && !scans(s)) {
            split_axis(s, static_cast<size_t>(split.axis), split.at);
            changed = true;
          } else if (split.relation == Relation::Partial && can_take_range(s, split) &&
                     done.size() + todo.size() < kMaxPieces) {
            Statement rest = s;
            auto axis = static_cast<size_t>(split.axis);
            take_range(rest, axis, split.at, s.axes[axis]);
            take_range(s, axis, 0, split.at);
            todo.push_back(std::move(rest));
            changed = true;
          }
        }
      }
      done.push_back(std::move(s));
    }
    return done;
  }

  /// Of an operator that runs in order, as a whole.
  void resolve_steps(ir::Repeat& r) {
    if (r.body.size() != 1) return;
    Statement& s = r.body.front();
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t l = 0; l < s.loads.size() && !changed; ++l) {
        Overlap split;
        changed = try_inline(s, l, {}, false, split);
        if (!changed && split.relation == Relation::NeedSplit && split.axis > 0) {
          split_axis(s, static_cast<size_t>(split.axis), split.at);
          changed = true;
        }
      }
    }
  }

  /// Do the statement's steps store to what it, or the value that it takes, reads?
  static bool steps_store_to(const Statement& s, const Access& load, const Statement& producer) {
    return load.storage == s.store.storage ||
           std::any_of(producer.loads.begin(), producer.loads.end(),
                       [&](const Access& input) { return input.storage == s.store.storage; });
  }

  static bool can_take_range(const Statement& s, const Overlap& split) {
    return !s.reduction || !s.reduction->axes[static_cast<size_t>(split.axis)];
  }

  /// Inlines the producer of load `l`. `before`: pieces of the same statement that run earlier.
  /// Where only a split stands in the way, says which in `split`; not at interleaved parts where it
  /// shall stay `whole`.
  bool try_inline(Statement& s, size_t l, const std::vector<Statement>& before, bool whole,
                  Overlap& split) {
    const Access& load = s.loads[l];
    const ir::Storage& storage = out_.storages[static_cast<size_t>(load.storage)];
    if (storage.role != Role::Temporary || storage.made_by_extern) return false;
    const std::vector<size_t>& writers = touched_[static_cast<size_t>(load.storage)];
    for (size_t k = writers.size(); k-- > 0;) {
      size_t at = writers[k];
      const auto* producer = std::get_if<Statement>(&out_.items[at]);
      if (!producer) return false;
      Overlap overlap = relate_to(*producer, load, s.axes);
      if (overlap.relation == Relation::Disjoint) continue;
      bool updated = updates_[static_cast<size_t>(load.storage)] >= kUpdates && is_copy(*producer);
      if (overlap.relation == Relation::Unknown || updated ||
          !can_read_as(load.dtype, producer->store.dtype) || producer->reduction)
        return false;
      if (overlap.axis >= 0 &&
          between_elements(*producer, load, overlap) > (whole ? 1 : ir::kInterleaved) &&
          !is_margin(s, l, *producer, overlap))
        return false;
      const Choice choice =
          choice_of(points_of_part(s, l, *producer, overlap), s, l, *producer, at);
      if (!may_take(choice) || !inputs_unchanged(*producer, at)) return false;
      if (overlap.relation != Relation::Covered) {
        if (takes(choice, s, *producer)) split = overlap;
        return false;
      }
      Statement merged = s;
      substitute(merged, l, *producer, overlap.map);
      if (merged.expr.nodes.size() > kMaxNodes || merged.loads.size() > kMaxLoads) return false;
      if (s.repeated() ? steps_store_to(s, load, *producer)
                       : may_read_own_stores(merged) || !keeps_clear(merged, before))
        return false;
      if (!takes(choice, s, *producer)) return false;
      s = std::move(merged);
      return true;
    }
    return false;
  }

  /// Has each number of the one type a number of the other with the same bits? (A Bool's have two.)
  static bool can_read_as(c10::ScalarType type, c10::ScalarType stored) {
    return type == stored || (type != c10::ScalarType::Bool && stored != c10::ScalarType::Bool);
  }

  /// As relate(). Indices that come from data count as axes of their own behind the others.
  static Overlap relate_to(const Statement& producer, const Access& load,
                           const std::vector<int64_t>& axes) {
    if (load.indirect.empty()) return relate(producer.store, producer.axes, load, axes);
    Access direct = load;
    std::vector<int64_t> all = axes;
    for (const ir::Indirect& i : load.indirect) {
      if (i.extent == 0) return {};
      direct.strides.push_back(i.stride);
      all.push_back(i.extent);
    }
    direct.indirect.clear();
    Overlap overlap = relate(producer.store, producer.axes, direct, all);
    // Only an axis of the reader's own can be split.
    bool known = overlap.relation == Relation::Covered || overlap.relation == Relation::Disjoint ||
                 (overlap.axis >= 0 && static_cast<size_t>(overlap.axis) < axes.size());
    return known ? overlap : Overlap{};
  }

  /// Is what the load reads of a producer a few lines of what the statement computes, as of arrays
  /// that are rolled or padded? Then the pieces but for those keep their vectors.
  bool is_margin(const Statement& s, size_t l, const Statement& producer,
                 const Overlap& split) const {
    return split.relation == Relation::Partial &&
           s.axes[static_cast<size_t>(split.axis)] >= 2 * target_.lanes &&
           updates_[static_cast<size_t>(s.loads[l].storage)] < kUpdates &&
           kMargin * points_of_part(s, l, producer, split) <= points(s);
  }

  /// Where the split is at parts that lie between one another, from one stored element to the next;
  /// otherwise 1. Far apart, the pieces would have no vectors.
  static int64_t between_elements(const Statement& producer, const Access& load,
                                  const Overlap& split) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t a = 0; a < producer.axes.size(); ++a)
      if (producer.axes[a] > 1) least = std::min(least, std::abs(producer.store.strides[a]));
    return load.strides[static_cast<size_t>(split.axis)] % least == 0 ? 1 : least;
  }

  /// Points of the reader whose load `l` reads what the producer stores, if it were split at the
  /// borders of that.
  static int64_t points_of_part(const Statement& reader, size_t l, const Statement& producer,
                                Overlap overlap) {
    if (overlap.relation == Relation::Covered || !reader.loads[l].indirect.empty())
      return points(reader);
    for (Statement s = reader;;) {
      auto related = [&](const Statement& part) {
        return relate(producer.store, producer.axes, part.loads[l], part.axes);
      };
      auto axis = static_cast<size_t>(overlap.axis);
      if (overlap.relation == Relation::NeedSplit) {
        split_axis(s, axis, overlap.at);
      } else if (overlap.relation == Relation::Partial) {
        Statement before = s;
        take_range(before, axis, 0, overlap.at);
        if (related(before).relation == Relation::Disjoint)
          take_range(s, axis, overlap.at, s.axes[axis]);
        else
          s = std::move(before);
      } else {
        return points(s);
      }
      overlap = related(s);
    }
  }

  /// Is a load to be computed in its reader: without question, or by what it costs?
  struct Choice {
    bool best = false;
    std::optional<InlineCosts> costs;
  };

  /// `read`: points of the reader that read what the producer (item `at` of out_) stores.
  Choice choice_of(int64_t read, const Statement& reader, size_t l, const Statement& producer,
                   size_t at) const {
    if (has_narrow_steps(reader, target_)) {
      const InlineCosts costs = step_costs(read, producer, readers_[at], target_);
      return {costs.computed < costs.stored, costs};
    }
    const Access& load = reader.loads[l];
    const Readership& readers = readers_[at];
    // Nothing is computed twice, or an instruction.
    if (read <= points(producer) &&
        (readers.times <= 1 || (is_cheap(producer) && !readers.outlives_inputs)))
      return {true, {}};
    // Few of the values are wanted.
    if (!load.indirect.empty() && kPicked * read <= points(producer)) return {true, {}};
    // Little of the reader, for which it is not cut.
    if (kScrap * read <= points(reader)) return {false, {}};
    const InlineCosts costs = inline_costs(reader, load, read, producer, readers, target_);
    const bool best = costs.computed < costs.stored;
    // A step of a loop that was unrolled decides as the others do.
    if (std::max(costs.computed, costs.stored) < target_.times.kernel) return {best, {}};
    return {best, costs};
  }

  bool may_take(const Choice& choice) const {
    return choice.best || (choice.costs && decider_.is_asked());
  }
  bool takes(const Choice& choice, const Statement& reader, const Statement& producer) {
    if (!choice.costs) return choice.best;
    return decider_.choose(choice.best ? 0 : 1, [&] {
      return Decision{
          .about = stored_by({&producer}) + " in " + stored_by({&reader}),
          .ways = {{"computed", choice.costs->computed}, {"stored", choice.costs->stored}}};
    }) == 0;
  }

  /// Neither the producer (in place) nor a later statement wrote what the producer reads.
  bool inputs_unchanged(const Statement& producer, size_t at) const {
    for (const Access& input : producer.loads) {
      const auto& writers = touched_[static_cast<size_t>(input.storage)];
      for (size_t k = writers.size(); k-- > 0 && writers[k] >= at;)
        if (writes(out_.items[writers[k]], input, producer.axes)) return false;
    }
    return true;
  }

  /// The statement reads nothing that earlier pieces of it have written.
  static bool keeps_clear(const Statement& s, const std::vector<Statement>& before) {
    return std::all_of(before.begin(), before.end(), [&](const Statement& piece) {
      return std::none_of(s.loads.begin(), s.loads.end(),
                          [&](const Access& load) { return meet(piece.store, piece, load, s); });
    });
  }

  void append(Item item, const Readership& readers) {
    size_t at = out_.items.size();
    ir::each_touch(item, [&](int storage, bool writes) {
      if (writes) touched_[static_cast<size_t>(storage)].push_back(at);
    });
    out_.items.push_back(std::move(item));
    readers_.push_back(readers);
  }

  Program old_;
  const ir::Target& target_;
  Decider& decider_;
  Program out_;
  std::vector<std::vector<size_t>> touching_;  ///< per storage: items of old_ that read or write it
  std::vector<size_t> updates_;                ///< per storage: statements of old_ that store to it
  std::vector<std::vector<size_t>> touched_;   ///< per storage: items of out_ that write it
  std::vector<Readership> readers_;            ///< per item of out_
};

}  // namespace

Program inline_producers(Program program, const Settings& settings, Decider& decider) {
  return Inliner(std::move(program), settings.target, decider).run();
}

}  // namespace graft::passes
