#include "passes/reroll.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "passes/dead_stores.h"
#include "passes/group.h"
#include "passes/rewrite.h"
#include "passes/split_reduce.h"
#include "passes/step_match.h"
#include "passes/touch.h"

namespace graft::passes {

using ir::Access;
using ir::Item;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Program;
using ir::Repeat;
using ir::Role;
using ir::Statement;

namespace {

constexpr size_t kLongestBody = 64;  ///< statements of a step, those that inlining left dead too
constexpr size_t kFewestSteps = 4;
constexpr int kAttempts = 400;  ///< looks at one stretch, so that odd programs cost little
constexpr int kRounds = 4;

/// Whose storage an access touches: one that all steps touch, one that its own step makes, or one
/// that the step before made. `at`: the storage; or the statement of the body that first stores it.
struct Label {
  enum class Kind : uint8_t { Fixed, Own, Previous } kind = Kind::Fixed;
  int at = -1;
  bool operator==(const Label&) const = default;
};

/// A run of steps that looks like a loop: `period` items per step, from `start` on.
struct Candidate {
  size_t start = 0, period = 0, steps = 0;
  size_t peeled = 0;   ///< steps before it that were looked at too
  size_t carried = 0;  ///< accesses that see what the step before made
};

class Reroller {
 public:
  /// Leaves alone what begins at one of the items `refused`.
  Reroller(const Program& program, const std::set<size_t>& refused)
      : program_(program), storages_(program.storages), refused_(refused) {}

  Program run() {
    index();
    Program out;
    size_t count = program_.items.size();
    for (size_t i = 0; i < count;) {
      if (longest_[i] == 0) attempts_ = 0;
      std::optional<Candidate> found =
          longest_[i] > 0 && attempts_ < kAttempts ? best_at(i) : std::nullopt;
      if (!found) {
        out.items.push_back(program_.items[i++]);
        continue;
      }
      for (; i < found->start; ++i) out.items.push_back(program_.items[i]);
      adopt_carried(*found, out.items);
      out.items.emplace_back(make(*found));
      i = found->start + found->period * found->steps;
    }
    out.storages = std::move(storages_);
    out.signature = program_.signature;
    return out;
  }

 private:
  const Statement& at(size_t item) const { return std::get<Statement>(program_.items[item]); }

  /// Who touches each storage, and from where on items repeat with some period.
  void index() {
    size_t count = program_.items.size();
    touched_ = touching_items(program_);
    stored_.resize(program_.storages.size());
    structure_.assign(count, 0);
    auto stores = [&](int storage, size_t item) {
      auto& list = stored_[static_cast<size_t>(storage)];
      if (list.empty() || list.back() != item) list.push_back(item);
    };
    for (size_t i = 0; i < count; ++i) {
      if (const auto* s = std::get_if<Statement>(&program_.items[i]))
        structure_[i] = can_repeat(*s) ? structure_of(*s) : 0;
      ir::each_touch(program_.items[i], [&](int storage, bool writes) {
        if (writes) stores(storage, i);
      });
    }
    longest_.assign(count, 0);
    for (size_t p = 1; p <= kLongestBody && p * kFewestSteps <= count; ++p) {
      auto& runs = alike_.emplace_back(count, 0);
      for (size_t i = count - p; i-- > 0;) {
        if (structure_[i] != 0 && structure_[i] == structure_[i + p])
          runs[i] = i + 1 < count ? runs[i + 1] + 1 : 1;
        if (runs[i] / p + 1 >= kFewestSteps) longest_[i] = std::max(longest_[i], runs[i] + p);
      }
    }
  }

  /// Reductions that become several do not, nor do those whose places are counted among several
  /// axes: that takes extents that do not grow.
  static bool can_repeat(const Statement& s) {
    if (!s.reduction) return true;
    auto reduced = std::count(s.reduction->axes.begin(), s.reduction->axes.end(), true);
    return !splittable(s) && !(finds_place(s.reduction->op) && reduced > 1);
  }

  size_t steps_from(size_t start, size_t period) const {
    if (period > alike_.size() || start >= alike_[period - 1].size()) return 1;
    return alike_[period - 1][start] / period + 1;
  }

  /// The loop that begins within one step of item i and covers most; of those, the one with the
  /// shortest step; turned so that steps pass on as little as possible.
  std::optional<Candidate> best_at(size_t i) {
    std::vector<std::pair<size_t, size_t>> periods;  // covered, period
    for (size_t p = 1; p <= kLongestBody; ++p)
      if (size_t steps = steps_from(i, p); steps >= kFewestSteps)
        periods.emplace_back(steps * p, p);
    // Of an exact repetition the shortest period covers most.
    std::stable_sort(periods.begin(), periods.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto [covered, period] : periods) {
      std::optional<Candidate> best;
      size_t best_phase = 0;
      for (size_t phase = 0; phase < period && attempts_ < kAttempts; ++phase) {
        size_t steps = steps_from(i + phase, period);
        auto made = check(i + phase, period, std::min(steps, kFewestSteps + 2));
        if (made && (!best || made->carried < best->carried)) best = made, best_phase = phase;
        if (best && best->carried == 0) break;
      }
      if (!best) continue;
      best = check(i + best_phase, period, steps_from(i + best_phase, period));
      if (best) return best;
    }
    return std::nullopt;
  }

  /// The step of the run that alone stores `storage`, and the statement of the step that does so
  /// first.
  std::optional<std::pair<size_t, int>> owner(const Candidate& c, int storage) const {
    const ir::Storage& s = program_.storages[static_cast<size_t>(storage)];
    const auto& stores = stored_[static_cast<size_t>(storage)];
    if (s.role != Role::Temporary || s.made_by_extern || stores.empty() ||
        stores.front() < c.start || stores.back() >= c.start + c.steps * c.period)
      return std::nullopt;
    size_t step = (stores.front() - c.start) / c.period;
    if ((stores.back() - c.start) / c.period != step) return std::nullopt;
    return std::pair(step, static_cast<int>((stores.front() - c.start) % c.period));
  }

  /// Labels of all accesses of a step; nothing when it reaches further back than one step.
  bool label(const Candidate& c, size_t step, std::vector<Label>& labels) const {
    labels.clear();
    for (size_t q = 0; q < c.period; ++q) {
      const Statement& s = at(c.start + step * c.period + q);
      for (size_t k = 0; k <= s.loads.size(); ++k) {
        int storage = access_at(s, k).storage;
        auto owned = owner(c, storage);
        if (!owned)
          labels.push_back({Label::Kind::Fixed, storage});
        else if (owned->first == step)
          labels.push_back({Label::Kind::Own, owned->second});
        else if (owned->first + 1 == step)
          labels.push_back({Label::Kind::Previous, owned->second});
        else
          return false;
      }
    }
    return true;
  }

  /// Does something after the next step touch what this step makes?
  bool escapes(const Candidate& c, size_t step) const {
    for (size_t q = 0; q < c.period; ++q) {
      int storage = at(c.start + step * c.period + q).store.storage;
      if (owner(c, storage) &&
          touched_[static_cast<size_t>(storage)].back() >= c.start + (step + 2) * c.period)
        return true;
    }
    return false;
  }

  /// Step `step` is step 0, moved on by the difference of steps 0 and 1.
  bool follows(const Candidate& c, size_t step, const std::vector<Label>& labels,
               Relaid& relaid) const {
    relaid.uses.resize(c.period);
    for (auto& uses : relaid.uses) uses.clear();
    size_t slot = 0;
    for (size_t q = 0; q < c.period; ++q) {
      if (!follows(c, q, step, &labels[slot], relaid)) return false;
      slot += at(c.start + q).loads.size() + 1;
    }
    std::vector<int> changed;
    if (!relaid.consistent(changed)) return false;
    size_t end = c.start + (step + 1) * c.period;
    return std::all_of(changed.begin(), changed.end(), [&](int q) {
      return touched_[static_cast<size_t>(stored_at(c, step, q))].back() < end;
    });
  }

  bool follows(const Candidate& c, size_t q, size_t step, const Label* labels,
               Relaid& relaid) const {
    const Statement &s = at(c.start + q), &next = at(c.start + c.period + q),
                    &t = at(c.start + step * c.period + q);
    auto n = static_cast<int64_t>(step);
    auto linear = [n](int64_t first, int64_t second, int64_t came) {
      return came == first + n * (second - first);
    };
    if (!alike(s, t)) return false;
    for (size_t a = 0; a < s.axes.size(); ++a)
      if (!linear(s.axes[a], next.axes[a], t.axes[a])) return false;
    for (size_t k = 0; k <= s.loads.size(); ++k) {
      const Access &x = access_at(s, k), &y = access_at(next, k), &z = access_at(t, k);
      if (!linear(x.offset, y.offset, z.offset)) return false;
      bool own = labels[k].kind == Label::Kind::Own;
      Relaid::Use use{z.dtype, z.offset, {}};
      for (size_t a = 0; a < s.axes.size(); ++a) {
        int64_t stride = s.axes[a] > 1 ? x.strides[a] : y.strides[a];
        if (t.axes[a] == 1) continue;
        if (z.strides[a] != stride && !own) return false;
        use.axes.push_back({stride, z.strides[a], s.axes[a], t.axes[a]});
      }
      if (own) relaid.uses[static_cast<size_t>(labels[k].at)].push_back(std::move(use));
    }
    for (size_t k = 0; k < s.expr.nodes.size(); ++k)
      if (advances(s.expr.nodes[k]) &&
          !linear(s.expr.nodes[k].payload, next.expr.nodes[k].payload, t.expr.nodes[k].payload))
        return false;
    return true;
  }

  /// The part of the run that is a loop.
  std::optional<Candidate> check(size_t start, size_t period, size_t steps) {
    for (int round = 0; round < kRounds; ++round) {
      ++attempts_;
      auto loop = check_once(start, period, steps);
      if (!loop || loop->peeled + loop->steps == steps) return loop;
      // A storage counts as a step's own only while no step beyond the run makes it: ask again for
      // what is left.
      steps = loop->peeled + loop->steps;
    }
    return std::nullopt;
  }

  std::optional<Candidate> check_once(size_t start, size_t period, size_t steps) const {
    if (steps < kFewestSteps) return std::nullopt;
    Candidate c{start, period, steps};
    std::vector<Label> first, second, labels;
    Relaid relaid;  // its memory serves all steps
    if (!label(c, 0, first) || !label(c, 1, second)) return std::nullopt;
    size_t peeled = first == second ? 0 : 1;  // what the first step reads may come from elsewhere
    if (peeled && escapes(c, 0)) return std::nullopt;
    Candidate loop{start + peeled * period, period, 0};
    loop.peeled = peeled;
    for (size_t k = peeled; k < steps; ++k) {
      if (!label(c, k, labels) || labels != second || !follows(loop, k - peeled, labels, relaid))
        break;
      ++loop.steps;
      if (escapes(c, k)) break;
    }
    if (loop.steps < kFewestSteps || refused_.count(loop.start) > 0 || !can_stage(loop, second))
      return std::nullopt;
    for (const Label& l : second) loop.carried += l.kind == Label::Kind::Previous;
    return loop;
  }

  /// What is stored beside has to be copied at the end of the step; stores by index are not.
  bool can_stage(const Candidate& c, const std::vector<Label>& labels) const {
    std::vector<bool> staged = overwritten_too_early(c, labels);
    for (size_t q = 0; q < c.period; ++q) {
      const Label& l = labels[slot_of(c, q)];
      if (l.kind == Label::Kind::Own && staged[static_cast<size_t>(l.at)] &&
          !at(c.start + q).store.indirect.empty())
        return false;
    }
    return true;
  }

  /// Makes `storage` at least as large as `other`, if it is the program's own.
  void hold(int storage, int other) {
    ir::Storage& s = storages_[static_cast<size_t>(storage)];
    if (s.role == Role::Temporary)
      s.bytes = std::max(s.bytes, storages_[static_cast<size_t>(other)].bytes);
  }

  int stored_at(const Candidate& c, size_t step, int q) const {
    return at(c.start + step * c.period + static_cast<size_t>(q)).store.storage;
  }

  /// What the step before the loop (`before` ends with it) made for it, it makes in the storage
  /// that carries it.
  void adopt_carried(const Candidate& c, std::vector<Item>& before) {
    if (!c.carried) return;
    Candidate all{c.start - c.period, c.period, c.steps + 1};
    std::map<int, int> to;
    std::vector<Label> labels;
    label(all, 1, labels);
    for (const Label& l : labels)
      if (l.kind == Label::Kind::Previous)
        hold(to[stored_at(all, 0, l.at)] = stored_at(c, c.steps - 1, l.at),
             stored_at(all, 0, l.at));
    for (size_t k = before.size() - c.period; k < before.size(); ++k)
      each_access(std::get<Statement>(before[k]), [&](Access& access) {
        if (auto found = to.find(access.storage); found != to.end()) access.storage = found->second;
      });
  }

  Repeat make(const Candidate& c) {
    std::vector<Label> labels;
    label(c, 1, labels);  // those of step 0 may name what came before the loop
    std::vector<bool> staged = overwritten_too_early(c, labels);
    Repeat made;
    made.count = static_cast<int64_t>(c.steps);
    made.origin = c.start;
    size_t slot = 0;
    for (size_t q = 0; q < c.period; ++q) {
      // A temporary that shrinks or grows has room for its largest step; likewise where it is
      // stored beside.
      int last = stored_at(c, c.steps - 1, static_cast<int>(q)),
          beside = stored_at(c, c.steps - 2, static_cast<int>(q));
      hold(last, stored_at(c, 0, static_cast<int>(q)));
      hold(beside, last);
    }
    for (size_t q = 0; q < c.period; ++q) {
      Statement s = advancing(c, q);
      each_access(s, [&](Access& access) {
        const Label& l = labels[slot++];
        if (l.kind == Label::Kind::Fixed) return;
        bool stage = l.kind == Label::Kind::Own && staged[static_cast<size_t>(l.at)];
        access.storage = stored_at(c, c.steps - (stage ? 2 : 1), l.at);
      });
      made.body.push_back(std::move(s));
    }
    for (size_t q = 0; q < c.period; ++q) {
      size_t owner_slot = slot_of(c, q);
      const Label& l = labels[owner_slot];
      if (l.kind == Label::Kind::Own && staged[static_cast<size_t>(l.at)])
        made.body.push_back(copy_of(made.body[q], stored_at(c, c.steps - 1, l.at)));
    }
    return made;
  }

  size_t slot_of(const Candidate& c, size_t q) const {
    size_t slot = 0;
    for (size_t k = 0; k < q; ++k) slot += at(c.start + k).loads.size() + 1;
    return slot;
  }

  /// Does the access touch what each point stores, at that point?
  static bool same_place(const Statement& s, size_t k) {
    const Access& load = access_at(s, k);
    return load.offset == s.store.offset && load.strides == s.store.strides &&
           load.dtype == s.store.dtype && load.indirect.empty() && s.store.indirect.empty();
  }

  /// Statements of the body whose storage carries a value that is still read after they store the
  /// next one: they store beside it, and a copy at the end of the step moves it.
  std::vector<bool> overwritten_too_early(const Candidate& c,
                                          const std::vector<Label>& labels) const {
    std::vector<bool> staged(c.period, false);
    size_t slot = 0;
    for (size_t q = 0; q < c.period; ++q) {
      const Statement &s = at(c.start + q), &next = at(c.start + c.period + q);
      for (size_t k = 0; k <= s.loads.size(); ++k) {
        const Label& l = labels[slot++];
        if (l.kind != Label::Kind::Previous) continue;
        auto stores = static_cast<size_t>(l.at);
        // At two steps, hence at all.
        bool always = same_place(s, k) && same_place(next, k);
        if (q > stores || (q == stores && !always)) staged[stores] = true;
      }
    }
    return staged;
  }

  /// to[…] = what `s` stored, at the same places.
  static Statement copy_of(const Statement& s, int to) {
    Statement copy;
    copy.record = s.record;
    copy.store = s.store;
    copy.store.storage = to;
    copy.store.strides.clear();
    for (size_t a = 0; a < s.axes.size(); ++a) {
      if (s.reduction && s.reduction->axes[a] && !s.reduction->scan) continue;
      copy.axes.push_back(s.axes[a]);
      copy.growth.push_back(s.growth[a]);
      copy.store.strides.push_back(s.store.strides[a]);
    }
    copy.loads.push_back(copy.store);
    copy.loads.back().storage = s.store.storage;
    copy.value = copy.expr.add({Op::Load, s.store.dtype, {-1, -1, -1}, 0});
    return copy;
  }

  /// Statement q of all steps.
  Statement advancing(const Candidate& c, size_t q) const {
    const Statement &first = at(c.start + q), &second = at(c.start + c.period + q);
    Statement s = first;
    s.axes.insert(s.axes.begin(), static_cast<int64_t>(c.steps));
    s.growth.assign(1, 0);
    for (size_t a = 0; a < first.axes.size(); ++a)
      s.growth.push_back(second.axes[a] - first.axes[a]);
    auto advance = [&](Access& access, const Access& next) {
      for (size_t a = 0; a < first.axes.size(); ++a)
        if (first.axes[a] == 1) access.strides[a] = next.strides[a];
      access.strides.insert(access.strides.begin(), next.offset - access.offset);
    };
    advance(s.store, second.store);
    for (size_t l = 0; l < s.loads.size(); ++l) advance(s.loads[l], second.loads[l]);
    if (s.reduction) s.reduction->axes.insert(s.reduction->axes.begin(), false);
    advance_expression(s, second);
    return s;
  }

  static void advance_expression(Statement& s, const Statement& second) {
    size_t id = 0;
    rebuild(s, [&](ir::Expr& out, Node node) {
      int64_t step = second.expr.nodes[id++].payload - node.payload;
      if (node.op == Op::Axis) ++node.payload;
      NodeId made = out.add(node);
      if (!advances(node) || step == 0) return made;
      NodeId axis = out.add({Op::Axis, ScalarType::Long, {-1, -1, -1}, 0});
      NodeId moved = out.node(Op::Mul, ScalarType::Long, axis, out.integer(step, ScalarType::Long));
      return out.node(Op::Add, ScalarType::Long, made, moved);
    });
  }

  const Program& program_;
  std::vector<ir::Storage> storages_;                  ///< those that carry grow
  std::vector<std::vector<size_t>> touched_, stored_;  ///< per storage: items, in order
  std::vector<uint64_t> structure_;                    ///< per item; 0: no statement
  /// alike_[p - 1][i]: how many items from i on have the structure of the item p further on.
  std::vector<std::vector<size_t>> alike_;
  std::vector<size_t> longest_;  ///< per item: length of the longest run that begins there
  const std::set<size_t>& refused_;
  int attempts_ = 0;
};

struct Rerolled {
  Program program;
  size_t items = 0;  ///< that somebody reads
};

/// `refused` gets the places of loops that have no tiles, as far as somebody reads what they make.
Rerolled rerolled(const Program& original, const ir::Target& target, std::set<size_t>& refused) {
  Rerolled done{Reroller(original, refused).run()};
  Program read = remove_dead_stores(done.program);
  done.items = read.items.size();
  std::vector<bool> is_private = private_storages(read);
  for (const Item& item : read.items)
    if (const auto* r = std::get_if<Repeat>(&item);
        r && r->origin && !unit_of(*r, is_private, target))
      refused.insert(*r->origin);
  return done;
}

/// With fewer loops each round, until all of them have tiles.
Rerolled settled(const Program& program, const Settings& settings) {
  std::set<size_t> refused;
  for (int round = 0; round < kRounds; ++round) {
    size_t before = refused.size();
    Rerolled done = rerolled(program, settings.target, refused);
    if (refused.size() == before) return done;
  }
  return {program, program.items.size()};
}

}  // namespace

Program reroll(Program program, const Settings& settings) {
  return settled(program, settings).program;
}

size_t items_after_reroll(const Program& program, const Settings& settings) {
  return settled(program, settings).items;
}

}  // namespace graft::passes
