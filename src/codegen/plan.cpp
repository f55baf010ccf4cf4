#include "codegen/plan.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "codegen/join_stores.h"
#include "codegen/loop_tree.h"
#include "ir/facts.h"

namespace graft::codegen {

namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;

size_t hash(const PlanValue& v) {
  uint64_t h = static_cast<uint64_t>(v.op) * 31 + static_cast<uint64_t>(v.type);
  for (int64_t part : {int64_t{v.in[0]}, int64_t{v.in[1]}, int64_t{v.in[2]}, v.payload,
                       int64_t{v.access}, int64_t{v.version}, int64_t{v.home}})
    h = (h ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

class Planner {
 public:
  Planner(const ir::Kernel& kernel, const Layout& layout) : kernel_(kernel), layout_(layout) {}

  KernelPlan run() {
    build_loop_tree(kernel_, layout_, plan_);
    version_.assign(static_cast<size_t>(layout_.storages), 0);
    walk(0);
    drop_stores();
    for (LoopPlan& loop : plan_.loops)
      if (loop.vector) choose_form(loop);
    join_stores(layout_, plan_);
    return std::move(plan_);
  }

 private:
  /// A store, and its storage's version before and after it.
  struct Store {
    int placed, before, after;
  };
  using Cache = std::vector<int>;  ///< value numbers of a statement's nodes, -1 where not computed

  const ir::Statement& statement(int p) const {
    return kernel_.placed[static_cast<size_t>(p)].statement;
  }
  StatementPlan& planned(int p) { return plan_.statements[static_cast<size_t>(p)]; }
  const LoopPlan& loop(int l) const { return plan_.loops[static_cast<size_t>(l)]; }
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }
  int deeper(int a, int b) const { return loop(a).depth >= loop(b).depth ? a : b; }

  void walk(int l) {
    // Inside a loop, and after it, its stores may have happened.
    renew(l);
    for (size_t i = 0; i < loop(l).items.size(); ++i) {
      PlanItem item = loop(l).items[i];
      if (item.placed >= 0) {
        visit(item.placed);
        continue;
      }
      walk(item.loop);
      for (size_t k = 0; k < loop(item.loop).finishes.size(); ++k)
        finish(loop(item.loop).finishes[k]);
    }
    renew(l);
  }

  void renew(int l) {
    for (int storage : loop(l).stores) version_[static_cast<size_t>(storage)] = ++versions_;
  }

  void visit(int p) {
    const ir::Statement& s = statement(p);
    StatementPlan& plan = planned(p);
    if (layout_.statements[static_cast<size_t>(p)].product) return product(p);
    Cache cache(s.expr.nodes.size(), -1);
    if (const auto& quiet = layout_.statements[static_cast<size_t>(p)].quiet) {
      plan.quiet = {number(p, quiet->first, plan.loop, cache),
                    number(p, quiet->last, plan.loop, cache)};
      for (ir::NodeId id : quiet->finite) plan.quiet.push_back(number(p, id, plan.loop, cache));
    }
    if (s.reduction) {
      plan.input = number(p, s.reduction->input, plan.loop, cache);
      if (plan.accumulate != Accumulate::Array)
        plan.levels = layout_.statements[static_cast<size_t>(p)].levels;
      plan.widens = plan.levels == Levels::None && plan.accumulate != Accumulate::Array &&
                    plan.reduce_loop >= 0 &&
                    widens(*s.reduction, plan_.values[static_cast<size_t>(plan.input)].type);
      plan.fuses = plan.widens && layout_.statements[static_cast<size_t>(p)].many_products;
      plan.paired = plan.widens && !plan.fuses && plan.accumulate == Accumulate::Lanes &&
                    plan_.loops[static_cast<size_t>(plan.loop)].vector;
      if (plan.scan || plan.reduce_loop < 0) finish(p);
      return;
    }
    store(p, cache);
  }

  void finish(int p) {
    StatementPlan& plan = planned(p);
    if (plan.accumulate == Accumulate::Array && !plan.scan) renew(plan.finish_loop);
    PlanValue reduced;
    reduced.op = Op::Reduced;
    reduced.type = statement(p).reduction->type;
    reduced.payload = p;
    reduced.home = plan.finish_loop;
    reduced.varying = plan_.vector_loop(plan.finish_loop) >= 0;
    plan.reduced = intern(reduced);
    Cache cache(statement(p).expr.nodes.size(), -1);
    store(p, cache);
    if (plan.accumulate == Accumulate::Array && !plan.scan) renew(plan.finish_loop);
  }

  void store(int p, Cache& cache) {
    const ir::Statement& s = statement(p);
    StatementPlan& plan = planned(p);
    int at = plan.finish_loop;
    plan.value = number(p, s.value, at, cache);
    const AccessUse& use = layout_.statements[static_cast<size_t>(p)].store;
    for (const IndirectPart& part : use.indirect)
      plan.store_indirect.emplace_back(number(p, part.index, at, cache), part.stride);
    const AffineAccess& access = layout_.accesses[static_cast<size_t>(use.access)];
    int& version = version_[static_cast<size_t>(access.storage)];
    stores_.push_back({p, version, ++versions_});
    version = versions_;
    // Whoever loads this very place from here on gets the value itself.
    PlanValue again = load(use.access, plan.store_indirect, at);
    again.home = load_home(again, at);
    numbers_[hash(again)].push_back({again, plan.value});
  }

  /// A routine reads and stores memory; no value comes of it.
  void product(int p) {
    const StatementLayout& s = layout_.statements[static_cast<size_t>(p)];
    for (const AccessUse& load : s.loads)
      read_.emplace_back(affine(load.access).storage,
                         version_[static_cast<size_t>(affine(load.access).storage)]);
    int& version = version_[static_cast<size_t>(affine(s.store.access).storage)];
    const int before = version;
    if (s.product->adds) read_.emplace_back(affine(s.store.access).storage, before);
    version = ++versions_;
    stores_.push_back({p, before, version});
  }

  int number(int p, NodeId id, int at, Cache& cache) {
    int& known = cache[static_cast<size_t>(id)];
    if (known >= 0) return known;
    const ir::Statement& s = statement(p);
    const Node& node = s.expr.nodes[static_cast<size_t>(id)];
    const StatementLayout& layout = layout_.statements[static_cast<size_t>(p)];
    int made = -1;
    if (node.op == Op::Load) {
      made = number_load(p, layout.loads[static_cast<size_t>(node.payload)], at, cache);
    } else if (node.op == Op::Reduced) {
      made = planned(p).reduced;
      if (made < 0)
        throw std::runtime_error("graft: a reduction's input depends on its own result");
    } else if (node.op == Op::Axis) {
      made = number_axis(
          kernel_.placed[static_cast<size_t>(p)].axis_var[static_cast<size_t>(node.payload)], at);
    } else {
      PlanValue v;
      v.op = node.op;
      v.type = node.type;
      v.payload = node.payload;
      if (node.op == Op::Scalar) v.payload = layout.scalars[static_cast<size_t>(node.payload)];
      for (int k = 0; k < arity(node); ++k) {
        auto slot = static_cast<size_t>(k);
        v.in[slot] = number(p, node.in[slot], at, cache);
        v.home = deeper(v.home, value(v.in[slot]).home);
        v.varying = v.varying || value(v.in[slot]).varying;
      }
      for (const Digit& digit : layout.digits)
        if (digit.node == id) {
          v.digit = true;
          v.low_bits_of = digit.low_bits_of;
        }
      made = intern(v);
    }
    return cache[static_cast<size_t>(id)] = made;
  }

  int number_axis(int var, int at) {
    PlanValue v;
    v.type = ScalarType::Long;
    if (layout_.extent[static_cast<size_t>(var)] >= 0) {
      v.op = Op::Axis;
      v.payload = var;
      v.home = binds(var, at);
      v.varying = loop(v.home).vector;
    }
    return intern(v);  // or the constant 0
  }

  /// The loop around `at` whose index the variable is.
  int binds(int var, int at) const {
    for (int l = at; l > 0; l = loop(l).parent) {
      if (loop(l).var == var) return l;
      if (loop(l).var < 0) return l;  // the range iteration, for any of its variables
    }
    throw std::runtime_error("graft: a statement uses a variable that no loop around it has");
  }

  int number_load(int p, const AccessUse& use, int at, Cache& cache) {
    std::vector<std::pair<int, Stride>> indirect;
    for (const IndirectPart& part : use.indirect)
      indirect.emplace_back(number(p, part.index, at, cache), part.stride);
    PlanValue v = load(use.access, indirect, at);
    v.home = load_home(v, at);
    if (use.indirect.size() == 1) v.table = use.indirect.front().table;
    v.near = use.indirect.size() <= kNearParts &&
             std::all_of(use.indirect.begin(), use.indirect.end(),
                         [](const IndirectPart& part) { return part.near; });
    return intern(v);
  }

  PlanValue load(int access, const std::vector<std::pair<int, Stride>>& indirect, int at) const {
    const AffineAccess& affine = layout_.accesses[static_cast<size_t>(access)];
    PlanValue v;
    v.op = Op::Load;
    v.type = affine.dtype;
    v.access = access;
    v.indirect = indirect;
    v.version = version_[static_cast<size_t>(affine.storage)];
    int vector = plan_.vector_loop(at);
    v.varying = vector >= 0 && moves(affine, loop(vector).var);
    for (const auto& [index, stride] : indirect)
      v.varying = v.varying || (stride.kind != StrideKind::Zero && value(index).varying);
    return v;
  }

  bool moves(const AffineAccess& access, int var) const {
    return layout_.shapes[static_cast<size_t>(access.shape)]
               .strides[static_cast<size_t>(var)]
               .kind != StrideKind::Zero;
  }

  int load_home(const PlanValue& v, int at) const {
    const AffineAccess& access = layout_.accesses[static_cast<size_t>(v.access)];
    int home = 0;
    for (int l = at; l > 0; l = loop(l).parent) {
      bool here = std::count(loop(l).stores.begin(), loop(l).stores.end(), access.storage) > 0;
      if (loop(l).var >= 0) here = here || moves(access, loop(l).var);
      if (loop(l).var < 0)
        for (int var : kernel_.range) here = here || moves(access, var);
      if (here) {
        home = l;
        break;
      }
    }
    for (const auto& [index, stride] : v.indirect) home = deeper(home, value(index).home);
    return home;
  }

  int intern(const PlanValue& v) {
    auto& bucket = numbers_[hash(v)];
    for (const auto& [known, number] : bucket)
      if (known.same_key(v)) return number;
    plan_.values.push_back(v);
    int number = static_cast<int>(plan_.values.size() - 1);
    bucket.push_back({v, number});
    return number;
  }

  /// What is stored to memory of the kernel's own and never loaded, or stored again to the same
  /// place before it is loaded, stays a value.
  void drop_stores() {
    std::vector<bool> loaded(static_cast<size_t>(layout_.storages), false);
    std::vector<bool> seen(static_cast<size_t>(versions_) + 1, false);
    for (const PlanValue& v : plan_.values)
      if (v.op == Op::Load) {
        loaded[static_cast<size_t>(affine(v.access).storage)] = true;
        seen[static_cast<size_t>(v.version)] = true;
      }
    for (const auto& [storage, version] : read_) {
      loaded[static_cast<size_t>(storage)] = true;
      seen[static_cast<size_t>(version)] = true;
    }
    for (size_t k = 0; k < stores_.size(); ++k) {
      const StatementLayout& s = layout_.statements[static_cast<size_t>(stores_[k].placed)];
      const AffineAccess& access = affine(s.store.access);
      bool kept = loaded[static_cast<size_t>(access.storage)] || !access.own;
      for (size_t j = k + 1; j < stores_.size() && kept; ++j)
        kept = !replaces(stores_[j], stores_[k]) || seen[static_cast<size_t>(stores_[k].after)];
      planned(stores_[k].placed).stores = kept || s.transposed || s.product;
    }
  }

  const AffineAccess& affine(int access) const {
    return layout_.accesses[static_cast<size_t>(access)];
  }

  /// Does `later` store to the same place in the same iteration, with no loop between them that
  /// stores there?
  bool replaces(const Store& later, const Store& earlier) {
    const AccessUse &a = layout_.statements[static_cast<size_t>(earlier.placed)].store,
                    &b = layout_.statements[static_cast<size_t>(later.placed)].store;
    const StatementPlan &p = planned(earlier.placed), &q = planned(later.placed);
    return later.before == earlier.after && a.access == b.access && a.indirect.empty() &&
           b.indirect.empty() && p.finish_loop == q.finish_loop &&
           p.accumulate == Accumulate::None && q.accumulate == Accumulate::None;
  }

  /// Instructions that load or store a vector: shuffles for each vector of an interleaved one.
  int shuffles(int access, int var) const {
    const AffineAccess& affine = layout_.accesses[static_cast<size_t>(access)];
    const Shape& shape = layout_.shapes[static_cast<size_t>(affine.shape)];
    return 1 + 3 * interleave(shape.strides[static_cast<size_t>(var)]);
  }

  /// Vectors that reductions accumulate in, per vector of the loop.
  int sums(const LoopPlan& l) const {
    auto self = static_cast<int>(&l - plan_.loops.data());
    int count = 0;
    for (size_t p = 0; p < plan_.statements.size(); ++p) {
      const StatementPlan& plan = plan_.statements[p];
      if (plan.accumulate != Accumulate::Lanes && plan.accumulate != Accumulate::PerLane) continue;
      if (!plan_.encloses(self, plan.loop)) continue;
      const ScalarType type =
          accumulated(plan_, *statement(static_cast<int>(p)).reduction, static_cast<int>(p));
      count += c10::elementSize(type) == 8 && !plan.widens ? 2 : 1;
    }
    return count;
  }

  /// Unrolled so far that about four independent vectors are in flight and registers suffice.
  void choose_form(LoopPlan& l) {
    auto self = static_cast<int>(&l - plan_.loops.data());
    int weight = 0;
    bool arrays = false;
    for (const PlanValue& v : plan_.values)
      arrays = arrays || (is_array_call(v) && v.varying && v.home == self);
    l.strips = arrays && !l.nested;
    for (const PlanValue& v : plan_.values) {
      if (!v.varying || !plan_.encloses(self, v.home)) continue;
      int cost = c10::elementSize(v.type) == 8 ? 2 : 1;
      bool array = l.strips && is_array_call(v);
      if (v.op == Op::Call && !array) cost *= ir::cost(static_cast<ir::Routine>(v.payload));
      if (v.op == Op::Load) cost *= shuffles(v.access, l.var);
      weight += cost;
    }
    for (size_t p = 0; p < plan_.statements.size(); ++p) {
      if (!plan_.encloses(self, plan_.statements[p].finish_loop)) continue;
      if (!plan_.statements[p].stores) continue;
      int store = layout_.statements[p].store.access;
      bool wide = c10::elementSize(layout_.accesses[static_cast<size_t>(store)].dtype) == 8;
      weight += (shuffles(store, l.var) - 1) * (wide ? 2 : 1);
    }
    l.unroll = weight <= 24 ? 4 : weight <= 72 ? 2 : 1;
    while (l.unroll > 1 && l.unroll * sums(l) > kMostSums) l.unroll /= 2;
    for (const AffineAccess& access : layout_.accesses)
      if (access.vectors != 0) l.unroll = access.vectors;  // it has room for these
  }

  const ir::Kernel& kernel_;
  const Layout& layout_;
  KernelPlan plan_;
  std::vector<int> version_;  ///< per storage
  int versions_ = 0;
  std::vector<Store> stores_;              ///< in order
  std::vector<std::pair<int, int>> read_;  ///< by products: a storage, and its version
  std::unordered_map<size_t, std::vector<std::pair<PlanValue, int>>> numbers_;
};

}  // namespace

bool KernelPlan::encloses(int outer, int inner) const {
  while (inner >= 0 && inner != outer) inner = loops[static_cast<size_t>(inner)].parent;
  return inner == outer;
}

std::vector<int> KernelPlan::block_sums(int loop) const {
  std::vector<int> sums;
  for (const PlanItem& item : loops[static_cast<size_t>(loop)].items)
    if (item.placed >= 0 && statements[static_cast<size_t>(item.placed)].has_blocks() &&
        statements[static_cast<size_t>(item.placed)].reduce_loop >= 0)
      sums.push_back(item.placed);
  return sums;
}

int KernelPlan::vector_loop(int loop) const {
  while (loop >= 0 && !loops[static_cast<size_t>(loop)].vector)
    loop = loops[static_cast<size_t>(loop)].parent;
  return loop;
}

KernelPlan make_plan(const ir::Kernel& kernel, const Layout& layout) {
  return Planner(kernel, layout).run();
}

ScalarType accumulated(const KernelPlan& plan, const ir::Reduction& reduction, int p) {
  if (!finds_place(reduction.op)) return opmath(reduction.type);
  int input = plan.statements[static_cast<size_t>(p)].input;
  return opmath(plan.values[static_cast<size_t>(input)].type);
}

}  // namespace graft::codegen
