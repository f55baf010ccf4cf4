#include "passes/narrow_integers.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "ir/range.h"
#include "ir/visit.h"
#include "passes/rewrite.h"
#include "tensor/dtype.h"

namespace graft::passes {

using ir::Access;
using ir::Expr;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Range;
using ir::ReduceOp;
using ir::Statement;

namespace {

bool fits(Range range) {
  using Word = std::numeric_limits<int32_t>;
  return range.low >= Word::min() && range.high <= Word::max();
}

/// Is its result's low half that of the operands' low halves?
bool is_modular(Op op) {
  switch (op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Neg:
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Not:
    case Op::Select:
      return true;
    default:
      return false;
  }
}

/// Does it give the same in fewer bits where its operands (and its result) fit them?
bool is_exact(Op op) {
  switch (op) {
    case Op::Max:
    case Op::Min:
    case Op::Abs:
    case Op::IDiv:
    case Op::IRem:
      return true;
    default:
      return false;
  }
}

class Storages {
 public:
  explicit Storages(const ir::Program& program)
      : kept_(program.storages.size()), of_(program.storages.size()) {
    for (size_t k = 0; k < kept_.size(); ++k) {
      const ir::Storage& storage = program.storages[k];
      kept_[k] = storage.role != ir::Role::Temporary || storage.made_by_extern;
    }
    auto keep = [&](int storage) { kept_[static_cast<size_t>(storage)] = true; };
    auto look = [&](const Statement& s, bool repeated) {
      auto access = [&](const Access& a) {
        if (repeated || a.dtype != c10::ScalarType::Long) keep(a.storage);
      };
      access(s.store);
      std::for_each(s.loads.begin(), s.loads.end(), access);
      ++of_[static_cast<size_t>(s.store.storage)].left;
    };
    for (const ir::Item& item : program.items)
      ir::match(
          item, [&](const Statement& s) { look(s, false); },
          [&](const ir::Repeat& r) {
            for (const Statement& s : r.body) look(s, true);
          },
          [&](const ir::Extern& e) {
            for (const ir::View& view : e.inputs) keep(view.storage);
            for (const ir::View& view : e.outputs) keep(view.storage);
            std::for_each(e.written.begin(), e.written.end(), keep);
          },
          [&](const ir::Abort& a) { keep(a.flag); });
  }

  /// Of all statements in their order, before the first is rewritten: what they load and store.
  /// What is read before all of it is stored stays as it is.
  void note(const Statement& s) {
    for (const Access& load : s.loads)
      if (const auto k = static_cast<size_t>(load.storage); of_[k].left > 0) kept_[k] = true;
    Known& known = of_[static_cast<size_t>(s.store.storage)];
    const Range range = ir::range_of(s, s.value, loaded());
    known.range = known.range ? Range{std::min(known.range->low, range.low),
                                      std::max(known.range->high, range.high)}
                              : range;
    --known.left;
  }
  std::function<Range(const Access&)> loaded() const {
    return [this](const Access& load) {
      const auto k = static_cast<size_t>(load.storage);
      return kept_[k] ? ir::range_of(load.dtype) : of_[k].range.value_or(ir::range_of(load.dtype));
    };
  }
  bool becomes_narrow(int storage) const {
    const auto k = static_cast<size_t>(storage);
    return !kept_[k] && of_[k].range && fits(*of_[k].range);
  }

 private:
  struct Known {
    std::optional<Range> range;  ///< of what was stored so far
    int left = 0;                ///< stores to come
  };
  std::vector<bool> kept_;
  std::vector<Known> of_;
};

/// Rewrites one statement. Each int64 node has a form in int64, and one in int32 if it fits.
class Narrower {
 public:
  Narrower(Statement& s, const Storages& storages) : s_(s), storages_(storages) {}

  void run() {
    const size_t count = s_.expr.nodes.size();
    ranges_ = ir::ranges_of(s_, storages_.loaded());
    wide_.resize(count);
    slim_.assign(count, -1);
    narrow_reduction();
    NodeId slim_input = -1;
    for (size_t id = 0; id < count; ++id) {
      const Node node = s_.expr.nodes[id];
      if (node.type == c10::ScalarType::Long) {
        number(static_cast<NodeId>(id), node, fits(ranges_[id]));
      } else {
        wide_[id] = other(node);
      }
      if (narrows_reduced_ && static_cast<NodeId>(id) == s_.reduction->input)
        slim_input = slim(static_cast<NodeId>(id));
    }
    const NodeId slim_value = slim(s_.value);
    s_.expr = std::move(out_);
    remap_ids(s_, wide_);
    if (narrows_reduced_) {
      s_.reduction->type = c10::ScalarType::Int;
      s_.reduction->input = slim_input;
    }
    for (Access& load : s_.loads)
      if (storages_.becomes_narrow(load.storage)) load.dtype = c10::ScalarType::Int;
    if (storages_.becomes_narrow(s_.store.storage)) {
      s_.store.dtype = c10::ScalarType::Int;
      s_.value = slim_value;
    }
    compact(s_);
  }

 private:
  static constexpr auto kWord = c10::ScalarType::Int;

  static Node as_word(Node node) {
    node.type = kWord;
    return node;
  }
  Node with_wide(Node node) const {
    for (NodeId& in : node.in)
      if (in >= 0) in = wide_[static_cast<size_t>(in)];
    return node;
  }
  Node with_slim(Node node) {
    for (NodeId& in : node.in)
      if (in >= 0) in = slim(in);
    return node;
  }
  bool has_slim(NodeId id) const { return slim_[static_cast<size_t>(id)] >= 0; }
  bool is_long(NodeId id) const {
    return s_.expr.nodes[static_cast<size_t>(id)].type == c10::ScalarType::Long;
  }
  /// The low half, which is all of it where it fits.
  NodeId slim(NodeId id) {
    const NodeId known = slim_[static_cast<size_t>(id)];
    if (!is_long(id)) return wide_[static_cast<size_t>(id)];
    return known >= 0 ? known : out_.cast(wide_[static_cast<size_t>(id)], kWord);
  }

  void narrow_reduction() {
    if (!s_.reduction || s_.reduction->type != c10::ScalarType::Long) return;
    const ReduceOp op = s_.reduction->op;
    if (op != ReduceOp::Sum && op != ReduceOp::Max && op != ReduceOp::Min) return;
    for (size_t id = 0; id < s_.expr.nodes.size(); ++id)
      if (s_.expr.nodes[id].op == Op::Reduced) narrows_reduced_ = fits(ranges_[id]);
  }

  /// An int64 node.
  void number(NodeId id, const Node& node, bool fit) {
    NodeId &wide = wide_[static_cast<size_t>(id)], &word = slim_[static_cast<size_t>(id)];
    const auto from = [&](NodeId narrow) {
      word = narrow;
      wide = out_.cast(narrow, node.type);
    };
    switch (node.op) {
      case Op::Load:
      case Op::Reduced: {
        const bool narrows =
            node.op == Op::Reduced
                ? narrows_reduced_
                : storages_.becomes_narrow(s_.loads[static_cast<size_t>(node.payload)].storage);
        if (narrows) return from(out_.add(as_word(node)));
        wide = out_.add(node);
        break;
      }
      case Op::Const:
      case Op::Scalar:
        wide = out_.add(node);
        if (fit) word = out_.add(as_word(node));
        return;
      case Op::Cast: {
        const NodeId in = node.in[0];
        wide = out_.add(with_wide(node));
        // (Of what comes from floats no range is known.)
        if (fit) word = out_.cast(wide_[static_cast<size_t>(in)], kWord);
        return;
      }
      default: {
        const bool whole = is_exact(node.op) && all_slim(node);
        const bool shift =
            (node.op == Op::Shl || node.op == Op::Shr) && all_slim(node) && is_short_shift(node);
        if (fit && (is_modular(node.op) || whole || shift)) {
          return from(out_.add(with_slim(as_word(node))));
        }
        wide = out_.add(with_wide(node));
      }
    }
    if (fit) word = out_.cast(wide, kWord);
  }
  bool all_slim(const Node& node) const {
    return std::all_of(node.in.begin(), node.in.end(),
                       [&](NodeId in) { return in < 0 || !is_long(in) || has_slim(in); });
  }
  /// By fewer bits than an int32 has?
  bool is_short_shift(const Node& node) const {
    const Range count = ranges_[static_cast<size_t>(node.in[1])];
    return count.low >= 0 && count.high < 32;
  }

  /// A node of another type.
  NodeId other(const Node& node) {
    const bool reads_long = node.in[0] >= 0 && is_long(node.in[0]);
    const bool narrows =
        reads_long && all_slim(node) && (ir::is_compared(node.op) || node.op == Op::Cast);
    if (!narrows) return out_.add(with_wide(node));
    return node.op == Op::Cast ? out_.cast(slim(node.in[0]), node.type) : out_.add(with_slim(node));
  }

  Statement& s_;
  const Storages& storages_;
  Expr out_;
  std::vector<Range> ranges_;        ///< by node of before
  std::vector<NodeId> wide_, slim_;  ///< by node of before; slim_: -1: none
  bool narrows_reduced_ = false;
};

bool has_long(const Statement& s) {
  return std::any_of(s.expr.nodes.begin(), s.expr.nodes.end(),
                     [](const Node& node) { return node.type == c10::ScalarType::Long; });
}

}  // namespace

ir::Program narrow_integers(ir::Program program, const Settings& settings) {
  if (settings.any_size) return program;
  Storages storages(program);
  for (const ir::Item& item : program.items)
    ir::match(
        item, [&](const Statement& s) { storages.note(s); }, [](const ir::Repeat&) {},
        [](const ir::Extern&) {}, [](const ir::Abort&) {});
  for (size_t k = 0; k < program.storages.size(); ++k)
    if (storages.becomes_narrow(static_cast<int>(k))) program.storages[k].bytes /= 2;
  for (ir::Item& item : program.items)
    ir::match(
        item,
        [&](Statement& s) {
          if (has_long(s)) Narrower(s, storages).run();
        },
        [](ir::Repeat&) {}, [](ir::Extern&) {}, [](ir::Abort&) {});
  return program;
}

}  // namespace graft::passes
