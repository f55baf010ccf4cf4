#include "passes/share.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ir/builder.h"
#include "ir/facts.h"
#include "ir/touch.h"
#include "passes/cost.h"
#include "passes/rewrite.h"

namespace graft::passes {

namespace {

using ir::Access;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Program;
using ir::Statement;

/// One of equal values, wherever they are computed.
using Number = int;
constexpr Number kNone = -1;

/// Numbers values so that equal ones have one number: of the same operator on equal operands, over
/// the same axes, of memory that nothing wrote in between.
class Numbering {
 public:
  explicit Numbering(size_t storages) : versions_(storages) {}

  void written(int storage) { ++versions_[static_cast<size_t>(storage)]; }
  /// From here on no value is equal to one before.
  void forget() { known_.clear(); }

  /// By node of the statement.
  std::vector<Number> of(const Statement& s) {
    const Number axes = number({kAxes}, s.axes);
    std::vector<Number> numbers;
    numbers.reserve(s.expr.nodes.size());
    auto at = [&](NodeId id) { return static_cast<int64_t>(numbers[static_cast<size_t>(id)]); };
    for (const Node& node : s.expr.nodes) {
      std::vector<int64_t> key = {axes, static_cast<int64_t>(node.op),
                                  static_cast<int64_t>(node.type)};
      const auto k = static_cast<size_t>(node.payload);
      if (node.op == Op::Load) {
        const Access& load = s.loads[k];
        for (const ir::Indirect& i : load.indirect)
          key.insert(key.end(), {at(i.index), i.stride, i.extent});
        key.insert(key.end(), {load.storage, versions_[static_cast<size_t>(load.storage)],
                               static_cast<int64_t>(load.dtype), load.offset});
        numbers.push_back(number(std::move(key), load.strides));
        continue;
      }
      if (node.op == Op::Reduced) {
        numbers.push_back(next_++);
        continue;
      }
      key.push_back(node.op == Op::Scalar ? static_cast<int64_t>(s.scalars[k]) : node.payload);
      for (NodeId in : node.in)
        if (in >= 0) key.push_back(at(in));
      numbers.push_back(number(std::move(key), {}));
    }
    return numbers;
  }

 private:
  static constexpr int64_t kAxes = -1;  // no number of axes

  Number number(std::vector<int64_t> key, const std::vector<int64_t>& more) {
    key.push_back(static_cast<int64_t>(more.size()));
    key.insert(key.end(), more.begin(), more.end());
    const auto [found, is_new] = known_.try_emplace(std::move(key), next_);
    next_ += is_new ? 1 : 0;
    return found->second;
  }

  std::vector<int64_t> versions_;  ///< by storage: how often it was written
  std::map<std::vector<int64_t>, Number> known_;
  Number next_ = 0;
};

class Sharer {
 public:
  Sharer(Program program, const ir::Target& target, bool across_calls)
      : program_(std::move(program)), target_(target), across_calls_(across_calls) {}

  Program run() {
    if (!find_candidates()) return std::move(program_);
    choose();
    if (chosen_.empty()) return std::move(program_);
    return replace();
  }

 private:
  /// A statement that computes enough to be worth a look.
  struct Candidate {
    size_t item;
    std::vector<Number> numbers;  ///< by node; kNone of those that are not to be shared
  };
  struct Place {
    size_t candidate;
    NodeId node;
  };
  struct Value {
    std::vector<Place> places;  ///< in the order of the program
    size_t uses = 0;            ///< statements among them
    std::optional<bool> inner;  ///< is_inner(), once it was asked for
  };

  const Statement& statement(size_t candidate) const {
    return std::get<Statement>(program_.items[candidates_[candidate].item]);
  }

  /// Of storing a value of each point, which fetches its line too, and loading it in all but one of
  /// its `uses`.
  double moving(int64_t points, size_t element_size, size_t uses) const {
    const int64_t bytes = points * static_cast<int64_t>(element_size);
    return target_.times.kernel + byte_nanoseconds(bytes, target_) * static_cast<double>(bytes) *
                                      static_cast<double>(uses + 1);
  }

  /// Finds the statements that compute more than sharing costs at least, and numbers their values.
  bool find_candidates() {
    constexpr size_t kLeastBytes = 2, kLeastUses = 2;
    auto computes_much = [&](const ir::Item& item) {
      const auto* s = std::get_if<Statement>(&item);
      return s != nullptr && nanoseconds(work(*s), points(*s), target_) >
                                 moving(points(*s), kLeastBytes, kLeastUses);
    };
    if (std::count_if(program_.items.begin(), program_.items.end(), computes_much) < 2)
      return false;
    Numbering numbering(program_.storages.size());
    for (size_t i = 0; i < program_.items.size(); ++i) {
      const ir::Item& item = program_.items[i];
      if (computes_much(item)) add(i, numbering.of(std::get<Statement>(item)));
      if (!across_calls_ && std::holds_alternative<ir::Extern>(item)) numbering.forget();
      ir::each_touch(item, [&](int storage, bool writes) {
        if (writes) numbering.written(storage);
      });
    }
    return true;
  }

  /// Adds a candidate, and its values that may be shared.
  void add(size_t item, std::vector<Number> numbers) {
    const size_t candidate = candidates_.size();
    const std::vector<bool> can_share = with_points(std::get<Statement>(program_.items[item]));
    for (size_t n = 0; n < numbers.size(); ++n) {
      if (!can_share[n]) {
        numbers[n] = kNone;
        continue;
      }
      Value& value = values_[numbers[n]];
      value.uses += value.places.empty() || value.places.back().candidate != candidate;
      value.places.push_back({candidate, static_cast<NodeId>(n)});
    }
    candidates_.push_back({item, std::move(numbers)});
  }

  /// By node: is it computed, of its own value for every point, and before a reduction's result?
  static std::vector<bool> with_points(const Statement& s) {
    std::vector<bool> out;
    for (const Node& node : s.expr.nodes) out.push_back(arity(node) > 0);
    for (size_t a = 0; a < s.axes.size(); ++a) {
      if (s.axes[a] == 1) continue;
      const std::vector<bool> varies = varying_along(s, a);
      for (size_t n = 0; n < out.size(); ++n) out[n] = out[n] && varies[n];
    }
    if (!s.reduction) return out;
    std::vector<bool> behind(out.size());
    behind[static_cast<size_t>(s.value)] = true;
    for (size_t n = out.size(); n-- > 0;) {
      if (!behind[n]) continue;
      out[n] = false;
      for (NodeId in : s.expr.nodes[n].in)
        if (in >= 0) behind[static_cast<size_t>(in)] = true;
    }
    return out;
  }

  /// How many statements compute it.
  size_t uses(Number value) const {
    const auto found = values_.find(value);
    return found == values_.end() ? 0 : found->second.uses;
  }

  /// Additions, as ir::cost() counts, that the node takes with all it is computed from, what is
  /// shared already left out.
  int beneath(const Statement& s, const std::vector<Number>& numbers, NodeId root) const {
    std::vector<bool> seen(s.expr.nodes.size());
    std::vector<NodeId> left = {root};
    int sum = 0;
    while (!left.empty()) {
      const auto id = static_cast<size_t>(left.back());
      left.pop_back();
      if (seen[id] || chosen_.count(numbers[id]) > 0) continue;
      seen[id] = true;
      const Node& node = s.expr.nodes[id];
      sum += ir::cost(node);
      for (NodeId in : node.in)
        if (in >= 0) left.push_back(in);
    }
    return sum;
  }

  /// Operands come first, so that of a function and a sum of it the function is shared.
  void choose() {
    for (const Candidate& c : candidates_) {
      const Statement& s = std::get<Statement>(program_.items[c.item]);
      for (size_t n = 0; n < c.numbers.size(); ++n) {
        const size_t count = uses(c.numbers[n]);
        if (count < 2 || chosen_.count(c.numbers[n]) > 0 || is_inner(c.numbers[n])) continue;
        const int each = beneath(s, c.numbers, static_cast<NodeId>(n));
        if (nanoseconds(each, points(s), target_) * static_cast<double>(count - 1) >
            moving(points(s), c10::elementSize(s.expr.nodes[n].type), count))
          chosen_.emplace(c.numbers[n], -1);
      }
    }
  }

  /// Do all statements that compute it use it for one value that as many share? Then that is the
  /// one to store.
  bool is_inner(Number number) {
    Value& value = values_.at(number);
    if (!value.inner) value.inner = find_user(value) == value.uses;
    return *value.inner;
  }
  /// How many statements compute the only value that it is used for; 0: there are several.
  size_t find_user(const Value& value) const {
    Number user = kNone;
    for (const Place& place : value.places) {
      const Statement& s = statement(place.candidate);
      const std::vector<Number>& numbers = candidates_[place.candidate].numbers;
      if (is_root(s, place.node)) return 0;
      for (size_t u = 0; u < numbers.size(); ++u) {
        const auto& in = s.expr.nodes[u].in;
        if (std::find(in.begin(), in.end(), place.node) == in.end()) continue;
        if (user == kNone) user = numbers[u];
        if (numbers[u] == kNone || user != numbers[u]) return 0;
      }
    }
    return uses(user);
  }

  /// Is it what the statement stores or reduces, or an index?
  static bool is_root(const Statement& s, NodeId node) {
    auto indexes = [&](const Access& access) {
      return std::any_of(access.indirect.begin(), access.indirect.end(),
                         [&](const ir::Indirect& i) { return i.index == node; });
    };
    return node == s.value || (s.reduction && node == s.reduction->input) || indexes(s.store) ||
           std::any_of(s.loads.begin(), s.loads.end(), indexes);
  }

  /// Of all the statement's points, one behind the other.
  static Access all_points(const Statement& s, int storage, ScalarType type) {
    return ir::access_of({storage, type, 0, s.axes, ir::contiguous_strides(s.axes)}, s.axes);
  }

  /// Stores each value that is shared before its first use, and loads it in all of them.
  Program replace() {
    std::vector<ir::Item> items;
    size_t next = 0;
    for (size_t i = 0; i < program_.items.size(); ++i) {
      if (next < candidates_.size() && candidates_[next].item == i) {
        auto& s = std::get<Statement>(program_.items[i]);
        const std::vector<Number>& numbers = candidates_[next++].numbers;
        for (size_t n = 0; n < numbers.size(); ++n)
          if (auto found = chosen_.find(numbers[n]); found != chosen_.end() && found->second < 0)
            items.emplace_back(stored(s, numbers, static_cast<NodeId>(n), found->second));
        load_chosen(s, numbers, -1);
      }
      items.push_back(std::move(program_.items[i]));
    }
    program_.items = std::move(items);
    return std::move(program_);
  }

  /// The statement that stores one of the values that `s` computes. Of these, smaller ones are
  /// stored already.
  Statement stored(const Statement& s, const std::vector<Number>& numbers, NodeId value,
                   int& storage) {
    Statement made = s;
    made.reduction.reset();
    made.value = value;
    const ScalarType type = s.expr.type(value);
    made.store = all_points(s, static_cast<int>(program_.storages.size()), type);
    program_.storages.push_back(
        {ir::Role::Temporary, points(s) * static_cast<int64_t>(c10::elementSize(type))});
    load_chosen(made, numbers, value);
    storage = made.store.storage;
    return made;
  }

  /// Loads the values that are stored; `own` is the one that the statement itself stores.
  void load_chosen(Statement& s, const std::vector<Number>& numbers, NodeId own) const {
    size_t n = 0;
    rebuild(s, [&](ir::Expr& expr, const Node& node) {
      const size_t id = n++;
      const auto found = chosen_.find(numbers[id]);
      if (found == chosen_.end() || found->second < 0 || static_cast<NodeId>(id) == own)
        return expr.add(node);
      s.loads.push_back(all_points(s, found->second, node.type));
      return expr.add(
          {Op::Load, node.type, {-1, -1, -1}, static_cast<int64_t>(s.loads.size()) - 1});
    });
    compact(s);
  }

  Program program_;
  const ir::Target& target_;
  const bool across_calls_;
  std::vector<Candidate> candidates_;
  std::unordered_map<Number, Value> values_;
  std::map<Number, int> chosen_;  ///< what is shared, and in which storage; -1: not stored yet
};

}  // namespace

Program share(Program program, const ir::Target& target, bool across_calls) {
  return Sharer(std::move(program), target, across_calls).run();
}

}  // namespace graft::passes
