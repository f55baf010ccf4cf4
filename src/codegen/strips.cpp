#include "codegen/strips.h"

#include <algorithm>

#include "ir/facts.h"

namespace graft::codegen {

namespace {

/// Operations that are computed again rather than kept: as many as a store and a load are worth.
constexpr int kCheap = 4;

class StripPlanner {
 public:
  StripPlanner(const Layout& layout, const KernelPlan& plan, int loop)
      : layout_(layout),
        plan_(plan),
        loop_(loop),
        depth_(plan.values.size(), -1),
        cost_(plan.values.size(), -1),
        kept_(plan.values.size(), -1) {}

  StripPlan run() {
    StripPlan made;
    made.ready.assign(plan_.values.size(), -1);
    made.straight.assign(plan_.values.size(), -1);
    for (const PlanItem& item : loop().items) {
      const StatementPlan& s = statement(item.placed);
      // A reduction that ends within the loop's iteration has its result in the middle of a
      // statement.
      if (s.accumulate != Accumulate::None && (s.scan || s.reduce_loop < 0)) return made;
    }
    assign_phases();
    std::vector<StripPhase> phases(static_cast<size_t>(last_phase_) + 1);
    for (int k = last_phase_; k >= 0; --k) fill(phases[static_cast<size_t>(k)], k);
    for (size_t v = 0; v < kept_.size(); ++v)
      if (kept_[v] >= 0)
        made.ready[v] = calls_array(static_cast<int>(v)) ? depth_[v] : depth_[v] + 1;
    for (int k = 0; k <= last_phase_; ++k)
      for (int v : phases[static_cast<size_t>(k)].calls)
        straighten(v, k, phases[static_cast<size_t>(k)], made);
    made.phases = std::move(phases);
    return made;
  }

 private:
  const LoopPlan& loop() const { return plan_.loops[static_cast<size_t>(loop_)]; }
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }
  const StatementPlan& statement(int p) const { return plan_.statements[static_cast<size_t>(p)]; }
  int stored(int p) const {
    int access = layout_.statements[static_cast<size_t>(p)].store.access;
    return layout_.accesses[static_cast<size_t>(access)].storage;
  }
  bool inside(int v) const { return value(v).varying && value(v).home == loop_; }
  bool calls_array(int v) const { return is_array_call(value(v)) && inside(v); }

  template <class Fn>
  void operands(int v, Fn fn) const {
    for (int in : value(v).in)
      if (in >= 0) fn(in);
    for (const auto& [index, stride] : value(v).indirect) fn(index);
  }
  template <class Fn>
  void roots(int p, Fn fn) const {
    const StatementPlan& s = statement(p);
    if (s.accumulate != Accumulate::None) {
      fn(s.input);
      return;
    }
    fn(s.value);
    for (const auto& [index, stride] : s.store_indirect) fn(index);
  }

  void assign_phases() {
    phase_.assign(plan_.statements.size(), 0);
    for (const PlanItem& item : loop().items) {
      int phase = last_phase_;
      roots(item.placed, [&](int v) { phase = std::max(phase, depth(v)); });
      phase_[static_cast<size_t>(item.placed)] = last_phase_ = phase;
      if (statement(item.placed).accumulate == Accumulate::None) stores_.push_back(item.placed);
    }
  }

  /// The first phase in which the value can be there. Asked for in program order, so that `stores_`
  /// are the earlier ones.
  int depth(int v) {
    int& known = depth_[static_cast<size_t>(v)];
    if (known >= 0) return known;
    int made = 0;
    if (inside(v)) {
      operands(v, [&](int in) { made = std::max(made, depth(in)); });
      if (value(v).op == ir::Op::Load)
        for (int p : stores_)
          if (stored(p) == layout_.accesses[static_cast<size_t>(value(v).access)].storage)
            made = std::max(made, phase_[static_cast<size_t>(p)]);
      if (calls_array(v)) ++made;
    }
    return depth_[static_cast<size_t>(v)] = made;
  }

  /// A load whose memory a statement of the loop stores to: a later phase would find another value
  /// there.
  bool overwritten(int v) const {
    if (value(v).op != ir::Op::Load) return false;
    int storage = layout_.accesses[static_cast<size_t>(value(v).access)].storage;
    return std::any_of(stores_.begin(), stores_.end(), [&](int p) { return stored(p) == storage; });
  }

  /// Of computing a value again, from what is in buffers or outside of the loop. Asked for once
  /// `stores_` are all of the loop's.
  int cost(int v) {
    int& known = cost_[static_cast<size_t>(v)];
    if (known < 0) known = new_cost(v);
    return known;
  }
  int new_cost(int v) {
    if (!inside(v) || value(v).op == ir::Op::Const) return 0;
    if (calls_array(v)) return 1;
    if (overwritten(v)) return kCheap + 1;
    if (!value(v).indirect.empty()) return kCheap + 1;
    int sum = std::max(1, ir::cost({value(v).op, value(v).type, {}, value(v).payload}));
    operands(v, [&](int in) { sum = std::min(sum + cost(in), kCheap + 1); });
    return sum;
  }

  /// Steps in program order: for each statement the values first kept for its sake, then its
  /// effect.
  void fill(StripPhase& phase, int k) {
    std::vector<bool> seen(plan_.values.size(), false);
    for (const PlanItem& item : loop().items)
      if (phase_[static_cast<size_t>(item.placed)] == k)
        roots(item.placed, [&](int v) { need(v, k, seen); });
    // Keeping one value may need others: those come from earlier phases or are older values.
    for (size_t v = kept_.size(); v-- > 0;) {
      if (kept_[v] < 0 || keep_phase(static_cast<int>(v)) != k) continue;
      if (calls_array(static_cast<int>(v)))
        need(value(static_cast<int>(v)).in[0], k, seen);
      else
        operands(static_cast<int>(v), [&](int in) { need(in, k, seen); });
    }
    std::vector<bool> placed(plan_.values.size(), false);
    for (const PlanItem& item : loop().items) {
      std::vector<bool> reached(plan_.values.size(), false);
      roots(item.placed, [&](int v) { reach(v, reached); });
      for (size_t v = 0; v < reached.size(); ++v) {
        if (!reached[v] || placed[v] || kept_[v] < 0 || keep_phase(static_cast<int>(v)) != k)
          continue;
        placed[v] = true;
        phase.steps.push_back({-1, static_cast<int>(v)});
        if (calls_array(static_cast<int>(v))) phase.calls.push_back(static_cast<int>(v));
      }
      if (phase_[static_cast<size_t>(item.placed)] == k) phase.steps.push_back({item.placed, -1});
    }
  }

  int keep_phase(int v) const { return depth_[static_cast<size_t>(v)] - (calls_array(v) ? 1 : 0); }

  void reach(int v, std::vector<bool>& reached) const {
    if (reached[static_cast<size_t>(v)]) return;
    reached[static_cast<size_t>(v)] = true;
    operands(v, [&](int in) { reach(in, reached); });
  }

  /// Phase k computes from v: marks what it must find in buffers.
  void need(int v, int k, std::vector<bool>& seen) {
    if (!inside(v) || seen[static_cast<size_t>(v)]) return;
    seen[static_cast<size_t>(v)] = true;
    if (calls_array(v) || (depth_[static_cast<size_t>(v)] < k && cost(v) > kCheap)) {
      kept_[static_cast<size_t>(v)] = 1;
      return;
    }
    operands(v, [&](int in) { need(in, k, seen); });
  }

  /// An argument that lies in memory as an array already is not copied.
  void straighten(int call, int k, StripPhase& phase, StripPlan& made) const {
    int argument = value(call).in[0];
    const PlanValue& v = value(argument);
    if (v.op != ir::Op::Load || !inside(argument) || !v.indirect.empty()) return;
    const AffineAccess& access = layout_.accesses[static_cast<size_t>(v.access)];
    if (layout_.shapes[static_cast<size_t>(access.shape)]
            .strides[static_cast<size_t>(loop().var)]
            .kind != StrideKind::One)
      return;
    for (int p : stores_)
      if (stored(p) == access.storage && phase_[static_cast<size_t>(p)] <= k) return;
    made.straight[static_cast<size_t>(call)] = argument;
    std::erase_if(phase.steps, [&](const StripStep& step) { return step.keep == call; });
  }

  const Layout& layout_;
  const KernelPlan& plan_;
  int loop_;
  std::vector<int> depth_;   ///< per value
  std::vector<int> cost_;    ///< per value
  std::vector<int> kept_;    ///< per value: 1 if it has a buffer
  std::vector<int> phase_;   ///< per statement
  std::vector<int> stores_;  ///< statements met so far that store
  int last_phase_ = 0;
};

}  // namespace

StripPlan plan_strips(const Layout& layout, const KernelPlan& plan, int loop) {
  return StripPlanner(layout, plan, loop).run();
}

}  // namespace graft::codegen
