#include "passes/reroll.h"

#include <algorithm>
#include <map>
#include <optional>

#include "passes/digits.h"

namespace graft::passes {

using ir::Access;
using ir::Item;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Program;
using ir::Repeat;
using ir::Role;
using ir::ScalarType;
using ir::Statement;

namespace {

constexpr size_t kLongestBody = 64;  ///< statements of a step, those that inlining left dead too
constexpr size_t kFewestSteps = 4;
constexpr int kAttempts = 400;  ///< runs looked at closely, so that odd programs cost little

bool advances(const Node& node) {
  return node.op == Op::Const && node.type == ScalarType::Long;
}

/// Of what two steps of a loop have in common. Strides are not part of it: an axis of one point has
/// any.
uint64_t structure_of(const Statement& s) {
  uint64_t h = 1469598103934665603u;
  auto put = [&](int64_t x) {
    h = (h ^ static_cast<uint64_t>(x)) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  };
  put(static_cast<int64_t>(s.axes.size()));
  put(static_cast<int64_t>(s.store.dtype));
  put(s.value);
  put(s.guard);
  for (const Access& load : s.loads) put(static_cast<int64_t>(load.dtype));
  for (uint64_t scalar : s.scalars) put(static_cast<int64_t>(scalar));
  for (const Node& node : s.expr.nodes) {
    put(static_cast<int64_t>(node.op) * 256 + static_cast<int64_t>(node.type));
    for (NodeId in : node.in) put(in);
    if (!advances(node)) put(node.payload);
  }
  if (s.reduction)
    put(static_cast<int64_t>(s.reduction->op) * 4 + s.reduction->scan * 2 + 1),
        put(s.reduction->input);
  return h;
}

template <class Fn>
void each_access(Statement& s, Fn fn) {
  fn(s.store);
  for (Access& load : s.loads) fn(load);
}

const Access& access_at(const Statement& s, size_t k) {
  return k == 0 ? s.store : s.loads[k - 1];
}

bool same_indirect(const Access& x, const Access& y) {
  return x.indirect == y.indirect && x.dtype == y.dtype;
}

/// Are these one statement at two steps, as far as structure goes?
bool alike(const Statement& s, const Statement& t) {
  if (s.axes.size() != t.axes.size() || s.loads.size() != t.loads.size() ||
      s.expr.nodes.size() != t.expr.nodes.size() || s.value != t.value || s.guard != t.guard ||
      s.scalars != t.scalars || s.reduction.has_value() != t.reduction.has_value())
    return false;
  for (size_t k = 0; k < s.expr.nodes.size(); ++k) {
    Node a = s.expr.nodes[k], b = t.expr.nodes[k];
    if (advances(a) && advances(b)) a.payload = b.payload = 0;
    if (!(a == b)) return false;
  }
  for (size_t k = 0; k <= s.loads.size(); ++k)
    if (!same_indirect(access_at(s, k), access_at(t, k))) return false;
  return !s.reduction ||
         (s.reduction->op == t.reduction->op && s.reduction->type == t.reduction->type &&
          s.reduction->input == t.reduction->input && s.reduction->axes == t.reduction->axes &&
          s.reduction->scan == t.reduction->scan);
}

/// Whose storage an access touches: one that all steps touch, one that its own step makes, or one
/// that the step before made. `at`: the storage; or the statement of the body that first stores it.
struct Label {
  enum class Kind : uint8_t { Fixed, Own, Previous } kind = Kind::Fixed;
  int at = -1;
  bool operator==(const Label&) const = default;
};

/// A run of steps that looks like a loop: `period` items a step, from `start` on.
struct Candidate {
  size_t start = 0, period = 0, steps = 0;
  size_t carried = 0;  ///< accesses that see what the step before made
};

class Reroller {
 public:
  explicit Reroller(Program program) : program_(std::move(program)) {}

  Program run() {
    index();
    std::vector<Item> out;
    size_t count = program_.items.size();
    for (size_t i = 0; i < count;) {
      std::optional<Candidate> found = longest_[i] > 0 ? best_at(i) : std::nullopt;
      if (!found) {
        out.push_back(std::move(program_.items[i++]));
        continue;
      }
      adopt_carried(*found);  // renames in items that come before the run, and follow here
      for (; i < found->start; ++i) out.push_back(std::move(program_.items[i]));
      out.emplace_back(make(*found));
      i = found->start + found->period * found->steps;
    }
    program_.items = std::move(out);
    return std::move(program_);
  }

 private:
  const Statement& at(size_t item) const { return std::get<Statement>(program_.items[item]); }
  Statement& at(size_t item) { return std::get<Statement>(program_.items[item]); }

  /// Who touches each storage, and from where on items repeat with some period.
  void index() {
    size_t count = program_.items.size();
    touched_.resize(program_.storages.size());
    stored_.resize(program_.storages.size());
    structure_.assign(count, 0);
    auto touch = [&](std::vector<std::vector<size_t>>& lists, int storage, size_t item) {
      if (storage < 0) return;
      auto& list = lists[static_cast<size_t>(storage)];
      if (list.empty() || list.back() != item) list.push_back(item);
    };
    for (size_t i = 0; i < count; ++i) {
      if (const auto* s = std::get_if<Statement>(&program_.items[i])) {
        // A place among several reduced axes is counted with extents that do not grow.
        bool finds = s->reduction && finds_place(s->reduction->op) &&
                     std::count(s->reduction->axes.begin(), s->reduction->axes.end(), true) > 1;
        structure_[i] = finds ? 0 : structure_of(*s) | 1;
        for (const Access& load : s->loads) touch(touched_, load.storage, i);
        touch(touched_, s->store.storage, i);
        touch(stored_, s->store.storage, i);
      } else if (const auto* e = std::get_if<ir::Extern>(&program_.items[i])) {
        for (const ir::View& v : e->inputs) touch(touched_, v.storage, i);
        for (int storage : e->written) touch(touched_, storage, i), touch(stored_, storage, i);
      } else if (const auto* a = std::get_if<ir::Abort>(&program_.items[i])) {
        touch(touched_, a->flag, i);
      }
    }
    longest_.assign(count, 0);
    for (size_t p = 1; p <= kLongestBody && p * kFewestSteps <= count; ++p) {
      size_t run = 0;
      for (size_t i = count - p; i-- > 0;) {
        run = structure_[i] != 0 && structure_[i] == structure_[i + p] ? run + 1 : 0;
        longest_[i] = std::max(longest_[i], run / p + 1 >= kFewestSteps ? run + p : 0);
      }
    }
  }

  size_t steps_from(size_t start, size_t period) const {
    size_t run = 0;
    while (start + run + period < structure_.size() && structure_[start + run] != 0 &&
           structure_[start + run] == structure_[start + run + period])
      ++run;
    return run / period + 1;
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

  /// Strides of the storages that a step alone uses, against those of step 0. They may differ: a
  /// contiguous temporary of a shrinking size takes the layout that it has at step 0.
  struct Relaid {
    std::map<std::pair<int, int64_t>, int64_t> stride;  ///< of a storage's label, in step 0
    std::vector<int> changed, has_offset;
    bool add(int at, int64_t from, int64_t to) {
      if (from != to) changed.push_back(at);
      auto [known, is_new] = stride.try_emplace({at, from}, to);
      return is_new || known->second == to;
    }
    bool consistent() const {
      return std::none_of(changed.begin(), changed.end(), [&](int at) {
        return std::find(has_offset.begin(), has_offset.end(), at) != has_offset.end();
      });
    }
  };

  /// Step `step` is step 0, moved on by the difference of steps 0 and 1.
  bool follows(const Candidate& c, size_t step, const std::vector<Label>& labels) const {
    Relaid relaid;
    size_t slot = 0;
    for (size_t q = 0; q < c.period; ++q) {
      if (!follows(c, q, step, &labels[slot], relaid)) return false;
      slot += at(c.start + q).loads.size() + 1;
    }
    if (!relaid.consistent()) return false;
    size_t end = c.start + (step + 1) * c.period;
    return std::all_of(relaid.changed.begin(), relaid.changed.end(), [&](int q) {
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
      if (own && z.offset != 0) relaid.has_offset.push_back(labels[k].at);
      for (size_t a = 0; a < s.axes.size(); ++a) {
        int64_t stride = s.axes[a] > 1 ? x.strides[a] : y.strides[a];
        if (t.axes[a] == 1) continue;
        if (z.strides[a] != stride && (!own || t.axes[a] > s.axes[a])) return false;
        if (own && !relaid.add(labels[k].at, stride, z.strides[a])) return false;
      }
    }
    for (size_t k = 0; k < s.expr.nodes.size(); ++k)
      if (advances(s.expr.nodes[k]) &&
          !linear(s.expr.nodes[k].payload, next.expr.nodes[k].payload, t.expr.nodes[k].payload))
        return false;
    return true;
  }

  /// The part of the run that is a loop.
  std::optional<Candidate> check(size_t start, size_t period, size_t steps) {
    ++attempts_;
    if (steps < kFewestSteps) return std::nullopt;
    Candidate c{start, period, steps, 0};
    std::vector<Label> first, second, labels;
    if (!label(c, 0, first) || !label(c, 1, second)) return std::nullopt;
    size_t peeled = first == second ? 0 : 1;  // what the first step reads may come from elsewhere
    if (peeled && escapes(c, 0)) return std::nullopt;
    Candidate loop{start + peeled * period, period, 0, 0};
    size_t k = peeled;
    for (; k < steps; ++k) {
      if (!label(c, k, labels) || labels != second || !follows(loop, k - peeled, labels)) break;
      ++loop.steps;
      if (escapes(c, k)) break;
    }
    if (loop.steps < kFewestSteps) return std::nullopt;
    // A storage counts as a step's own only while no step beyond the run makes it: ask again for
    // what is left.
    if (loop.steps + peeled < steps) return check(start, period, loop.steps + peeled);
    for (const Label& l : second) loop.carried += l.kind == Label::Kind::Previous;
    return loop;
  }

  int64_t& bytes_of(int storage) { return program_.storages[static_cast<size_t>(storage)].bytes; }

  int stored_at(const Candidate& c, size_t step, int q) const {
    return at(c.start + step * c.period + static_cast<size_t>(q)).store.storage;
  }

  /// What the step before the loop made for it, it makes in the storage that carries it.
  void adopt_carried(const Candidate& c) {
    if (!c.carried) return;
    Candidate all{c.start - c.period, c.period, c.steps + 1, c.carried};
    std::map<int, int> to;
    std::vector<Label> labels;
    label(all, 1, labels);
    for (const Label& l : labels)
      if (l.kind == Label::Kind::Previous)
        to[stored_at(all, 0, l.at)] = stored_at(c, c.steps - 1, l.at);
    for (size_t i = all.start; i < c.start; ++i)
      each_access(at(i), [&](Access& access) {
        if (auto found = to.find(access.storage); found != to.end()) access.storage = found->second;
      });
  }

  Repeat make(const Candidate& c) {
    std::vector<Label> labels;
    label(c, 1, labels);  // those of step 0 may name what came before the loop
    std::vector<bool> staged = overwritten_too_early(c, labels);
    Repeat made;
    made.count = static_cast<int64_t>(c.steps);
    size_t slot = 0;
    for (size_t q = 0; q < c.period; ++q) {
      // A temporary that shrinks has its first size.
      int64_t& bytes = bytes_of(stored_at(c, c.steps - 1, static_cast<int>(q)));
      bytes = std::max(bytes, bytes_of(stored_at(c, 0, static_cast<int>(q))));
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

  /// Statements of the body whose storage carries a value that is still read after they store the
  /// next one: they store beside it, and a copy at the end of the step moves it.
  std::vector<bool> overwritten_too_early(const Candidate& c,
                                          const std::vector<Label>& labels) const {
    std::vector<bool> staged(c.period, false);
    size_t slot = 0;
    for (size_t q = 0; q < c.period; ++q) {
      const Statement& s = at(c.start + q);
      for (size_t k = 0; k <= s.loads.size(); ++k) {
        const Label& l = labels[slot++];
        if (l.kind != Label::Kind::Previous) continue;
        auto stores = static_cast<size_t>(l.at);
        const Access& load = access_at(s, k);
        bool same_place =
            load.offset == s.store.offset && load.strides == s.store.strides && s.guard < 0;
        if (q > stores || (q == stores && !same_place)) staged[stores] = true;
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
    ir::Expr out;
    std::vector<NodeId> to;
    for (size_t id = 0; id < s.expr.nodes.size(); ++id) {
      Node node = s.expr.nodes[id];
      for (NodeId& in : node.in)
        if (in >= 0) in = to[static_cast<size_t>(in)];
      if (node.op == Op::Axis) ++node.payload;
      NodeId made = out.add(node);
      if (int64_t step = second.expr.nodes[id].payload - s.expr.nodes[id].payload;
          advances(node) && step != 0) {
        NodeId axis = out.add({Op::Axis, ScalarType::Long, {-1, -1, -1}, 0});
        NodeId moved =
            out.node(Op::Mul, ScalarType::Long, axis, out.integer(step, ScalarType::Long));
        made = out.node(Op::Add, ScalarType::Long, made, moved);
      }
      to.push_back(made);
    }
    s.expr = std::move(out);
    auto map = [&](NodeId& id) {
      if (id >= 0) id = to[static_cast<size_t>(id)];
    };
    map(s.value);
    map(s.guard);
    if (s.reduction) map(s.reduction->input);
    each_access(s, [&](Access& access) {
      for (ir::Indirect& part : access.indirect) map(part.index);
    });
  }

  Program program_;
  std::vector<std::vector<size_t>> touched_, stored_;  ///< a storage: items, in order
  std::vector<uint64_t> structure_;                    ///< an item; 0: no statement
  std::vector<size_t> longest_;  ///< an item: items of the longest run that begins there
  int attempts_ = 0;
};

/// Of a copy of a temporary: the last item that it must stay behind.
std::optional<size_t> earliest(const Program& program, size_t i, const Statement& s,
                               const std::vector<std::vector<size_t>>& stores,
                               const std::vector<std::vector<size_t>>& uses) {
  auto role = [&](const Access& access) {
    return program.storages[static_cast<size_t>(access.storage)].role;
  };
  if (s.loads.size() != 1 || s.reduction || s.guard >= 0 || !s.loads[0].indirect.empty() ||
      s.expr.nodes[static_cast<size_t>(s.value)].op != Op::Load ||
      role(s.loads[0]) != Role::Temporary || role(s.store) == Role::Argument ||
      role(s.store) == Role::Captured || s.loads[0].storage == s.store.storage)
    return std::nullopt;
  const auto& makers = stores[static_cast<size_t>(s.loads[0].storage)];
  if (makers.empty()) return std::nullopt;
  size_t last = makers.back();
  const auto& others = uses[static_cast<size_t>(s.store.storage)];
  for (size_t k = others.size(); k-- > 0 && others[k] > last;) {
    const auto* t = std::get_if<Statement>(&program.items[others[k]]);
    bool clash = !t || meet(t->store, *t, s.store, s);
    for (size_t l = 0; t && l < t->loads.size() && !clash; ++l)
      clash = meet(s.store, s, t->loads[l], *t);
    if (clash) last = others[k];
  }
  return last < i ? std::optional(last) : std::nullopt;
}

/// The program with each copy of a temporary (a part of a stack or cat) right behind what makes it,
/// where a loop over all parts has it too. Nothing if too few move.
std::optional<Program> copies_early(const Program& program) {
  size_t count = program.items.size(), moved = 0;
  std::vector<std::vector<size_t>> stores(program.storages.size()), uses(stores);
  std::vector<std::vector<size_t>> behind(count);  // what moves behind an item
  std::vector<bool> leaves(count, false);
  for (size_t i = 0; i < count; ++i) {
    const auto* s = std::get_if<Statement>(&program.items[i]);
    auto note = [&](auto& lists, int storage) {
      if (storage >= 0) lists[static_cast<size_t>(storage)].push_back(i);
    };
    if (const auto* e = std::get_if<ir::Extern>(&program.items[i])) {
      for (const ir::View& v : e->inputs) note(uses, v.storage);
      for (int storage : e->written) note(stores, storage), note(uses, storage);
    } else if (const auto* a = std::get_if<ir::Abort>(&program.items[i])) {
      note(uses, a->flag);
    }
    if (!s) continue;
    if (auto at = earliest(program, i, *s, stores, uses); at && *at + 1 < i) {
      behind[*at].push_back(i);
      leaves[i] = true;
      ++moved;
    }
    note(stores, s->store.storage);
    for (const Access& load : s->loads) note(uses, load.storage);
    note(uses, s->store.storage);
  }
  if (moved < kFewestSteps) return std::nullopt;
  Program out;
  out.storages = program.storages;
  out.results = program.results;
  for (size_t i = 0; i < count; ++i) {
    if (!leaves[i]) out.items.push_back(program.items[i]);
    for (size_t k : behind[i]) out.items.push_back(program.items[k]);
  }
  return out;
}

}  // namespace

Program reroll(Program program) {
  std::optional<Program> early = copies_early(program);
  Program done = Reroller(std::move(program)).run();
  if (!early) return done;
  Program other = Reroller(std::move(*early)).run();
  return other.items.size() < done.items.size() ? other : done;
}

}  // namespace graft::passes
