// Random kernels of several loops and statements: what hoisting, sharing, forwarding and strips
// could get wrong.
#include <gtest/gtest.h>

#include <random>

#include "codegen/kernels.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;

/// Storages are indexed by row r, column v and step s, or by some of them. Each written one has one
/// index everywhere, so that rows and columns stay independent of one another; the others are read
/// at any index.
class RandomKernel {
 public:
  explicit RandomKernel(uint32_t seed) : random_(seed) {
    rows_ = pick({1, 2, 5});
    columns_ = pick({1, 7, 16, 40, 64, 150, 530});
    steps_ = pick({1, 2, 4});
    for (int k = 0; k < 6; ++k) add(pick({0, 0, 0, 1, 2}), k < 4);
    r_ = made.range(rows_);
    int sections = 1 + below(4);
    for (int k = 0; k < sections; ++k) section();
  }

  KernelMaker made;

 private:
  struct Place {
    ir::View view;
    int kind;  ///< 0: (r, v), 1: (r), 2: (r, v, s)
    bool written;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  int64_t pick(std::vector<int64_t> from) {
    return from[static_cast<size_t>(below(static_cast<int>(from.size())))];
  }

  void add(int64_t kind, bool written) {
    ScalarType type = std::vector{at::kFloat, at::kFloat, at::kBFloat16,
                                  at::kDouble}[static_cast<size_t>(below(4))];
    std::vector<int64_t> sizes = {rows_};
    if (kind != 1) sizes.push_back(columns_);
    if (kind == 2) sizes.push_back(steps_);
    at::Tensor t = tame(sizes, type, random_());
    if (kind == 0 && below(3) == 0) t = tame({columns_, rows_}, type, random_()).t();
    bool scratch = written && kind == 0 && t.is_contiguous() && below(4) == 0;
    if (scratch) {
      ir::View view = made.scratch({1, columns_}, type);
      view.strides[0] = 0;
      view.sizes[0] = rows_;
      // Scratch starts as garbage: it is first filled.
      unfilled_.push_back(static_cast<int>(places_.size()));
      places_.push_back({view, 0, true});
      return;
    }
    places_.push_back({made.storage(t), static_cast<int>(kind), written});
  }

  /// Variables of a loop nest: which of r, v, s are there, as variables of the kernel.
  struct Nest {
    std::vector<char> axes;
    std::vector<int> vars;
    std::vector<int64_t> sizes;
    bool has(char axis) const { return std::count(axes.begin(), axes.end(), axis) > 0; }
  };
  Nest nest(std::vector<std::pair<char, int>> inner) {
    Nest n{{'r'}, {r_}, {rows_}};
    for (auto [axis, var] : inner) {
      n.axes.push_back(axis);
      n.vars.push_back(var);
      n.sizes.push_back(axis == 'v' ? columns_ : steps_);
    }
    return n;
  }

  ir::Access access(const Place& place, const Nest& n) {
    ir::Access a{place.view.storage, place.view.dtype, 0, {}, {}};
    for (char axis : n.axes) {
      int64_t stride = 0;
      if (axis == 'r') stride = place.view.strides[0];
      if (axis == 'v' && place.kind != 1) stride = place.view.strides[1];
      if (axis == 's' && place.kind == 2) stride = place.view.strides[2];
      a.strides.push_back(n.sizes[a.strides.size()] == 1 ? 0 : stride);
    }
    return a;
  }
  bool reachable(const Place& place, const Nest& n) const {
    return !is_open(place) && (place.kind == 1 || (n.has('v') && (place.kind == 0 || n.has('s'))));
  }
  /// Waits for a reduction's result, which comes at the end of its loops.
  bool is_open(const Place& place) const {
    return std::count(open_.begin(), open_.end(), &place - places_.data()) > 0;
  }

  Value leaf(StatementBuilder& s, const Nest& n) {
    for (int tries = 0; tries < 8; ++tries) {
      const Place& place = places_[static_cast<size_t>(below(static_cast<int>(places_.size())))];
      bool ready = std::count(unfilled_.begin(), unfilled_.end(),
                              static_cast<int>(&place - places_.data())) == 0;
      if (ready && reachable(place, n)) return s.load(access(place, n)).to(at::kFloat);
    }
    if (below(2) == 0) return s.scalar(0.25 * below(9), at::kFloat);
    return (s.axis(below(static_cast<int>(n.axes.size()))) & s.integer(7, at::kLong))
               .to(at::kFloat) *
           0.125;
  }

  Value expression(StatementBuilder& s, const Nest& n, int depth) {
    if (depth == 0) return leaf(s, n);
    Value a = expression(s, n, depth - 1);
    switch (below(9)) {
      case 0:
        return ir::call(ir::Routine::ArrayTanh, a);
      case 1:
        return ir::call(below(2) ? ir::Routine::ArraySin : ir::Routine::VectorExpm1,
                        ir::max(ir::min(a, a.like(2)), a.like(-2)));
      case 2:
        return a.to(at::kBFloat16).to(at::kFloat);
      case 3:
        return ir::max(a, expression(s, n, depth - 1));
      case 4:
        return ir::select(ir::lt(a, expression(s, n, depth - 1)), a * 0.5, leaf(s, n));
      case 5:
        return a - expression(s, n, depth - 1) * 0.5;
      default:
        return (a + expression(s, n, depth - 1)) * 0.5;
    }
  }

  /// Some written place of one of the kinds, or null.
  Place* target(std::vector<int> kinds) {
    for (int tries = 0; tries < 12; ++tries) {
      Place& place = places_[static_cast<size_t>(below(static_cast<int>(places_.size())))];
      if (place.written && !is_open(place) &&
          std::count(kinds.begin(), kinds.end(), place.kind) > 0)
        return &place;
    }
    return nullptr;
  }

  void statement(std::vector<ir::TreeNode>& body, const Nest& n) {
    // A plain store has the index of its nest; a place without s inside a loop over s would be
    // stored to again and again.
    int kind = !n.has('v') ? 1 : n.has('s') ? 2 : 0;
    StatementBuilder s(n.sizes);
    Value value = expression(s, n, 1 + below(3));
    if (below(4) == 0 && (n.has('v') || n.has('s'))) {
      std::vector<bool> axes;
      bool keep_columns = n.has('s') && n.has('v') && below(2) == 0;
      for (char axis : n.axes) axes.push_back(axis != 'r' && !(axis == 'v' && keep_columns));
      if (n.axes.back() == 'v' && n.has('s') && !keep_columns && below(2) == 0) return;
      Place* to = target({keep_columns ? 0 : 1});
      if (!to || is_scratch(*to)) return;
      Value reduced;
      switch (below(3)) {
        case 0:
          reduced = s.reduce(ir::ReduceOp::Max, value, axes, at::kFloat) * 0.5;
          break;
        case 1:
          reduced = s.reduce(ir::ReduceOp::Sum, (value * 64.0).to(at::kLong), axes, at::kLong)
                        .to(at::kFloat) *
                    0.001;
          break;
        default:
          reduced = s.reduce(ir::ReduceOp::ArgMin, value, axes, at::kLong).to(at::kFloat) * 0.01;
          break;
      }
      ir::Access place = access(*to, n);
      open_.push_back(to - places_.data());
      body.push_back(made.place(s.store(place, reduced.to(to->view.dtype)), n.vars));
      return;
    }
    Place* to = target({kind});
    if (!to) return;
    int id = static_cast<int>(to - places_.data());
    bool fresh = std::count(unfilled_.begin(), unfilled_.end(), id) > 0;
    body.push_back(made.place(s.store(access(*to, n), value.to(to->view.dtype)), n.vars));
    if (fresh) std::erase(unfilled_, id);
  }
  bool is_scratch(const Place& place) const {
    return std::any_of(made.kernel.scratch.begin(), made.kernel.scratch.end(),
                       [&](const ir::Scratch& s) { return s.storage == place.view.storage; });
  }

  ir::TreeNode loop(int var, std::vector<ir::TreeNode> body) {
    auto made_loop = std::make_unique<ir::Loop>();
    made_loop->var = var;
    made_loop->body = std::move(body);
    return {std::move(made_loop), -1};
  }
  void statements(std::vector<ir::TreeNode>& body, const Nest& n, int most) {
    for (int k = 1 + below(most); k > 0; --k) statement(body, n);
  }
  void push(std::vector<ir::TreeNode>& into, int var, std::vector<ir::TreeNode> body) {
    if (!body.empty()) into.push_back(loop(var, std::move(body)));
  }

  void section() {
    std::vector<ir::TreeNode>& top = made.kernel.body;
    open_.clear();
    ir::LoopKind kind = below(5) == 0 ? ir::LoopKind::Serial : ir::LoopKind::Vector;
    switch (below(4)) {
      case 0: {
        statements(top, nest({}), 2);
        break;
      }
      case 1: {
        int v = made.variable(columns_, kind);
        std::vector<ir::TreeNode> body;
        statements(body, nest({{'v', v}}), 4);
        push(top, v, std::move(body));
        break;
      }
      case 2: {
        int v = made.variable(columns_, kind), s = made.serial(steps_);
        std::vector<ir::TreeNode> body, inner;
        statements(body, nest({{'v', v}}), 2);
        statements(inner, nest({{'v', v}, {'s', s}}), 3);
        push(body, s, std::move(inner));
        std::erase_if(open_,
                      [&](std::ptrdiff_t p) { return places_[static_cast<size_t>(p)].kind == 0; });
        statements(body, nest({{'v', v}}), 2);
        push(top, v, std::move(body));
        break;
      }
      default: {
        int v = made.vector(columns_), s = made.serial(steps_);
        std::vector<ir::TreeNode> body, inner;
        statements(inner, nest({{'s', s}, {'v', v}}), 3);
        push(body, v, std::move(inner));
        push(top, s, std::move(body));
        break;
      }
    }
  }

  std::mt19937 random_;
  int64_t rows_, columns_, steps_;
  int r_ = -1;
  std::vector<Place> places_;
  std::vector<int> unfilled_;
  std::vector<std::ptrdiff_t> open_;
};

/// GRAFT_SEED=n runs that kernel alone, GRAFT_KERNELS=n that many.
TEST(Random, KernelsAgreeWithTheInterpreter) {
  const char *only = std::getenv("GRAFT_SEED"), *many = std::getenv("GRAFT_KERNELS");
  uint32_t first = only ? static_cast<uint32_t>(std::atoi(only)) : 0;
  uint32_t count = only ? 1 : many ? static_cast<uint32_t>(std::atoi(many)) : 200;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    RandomKernel kernel(seed);
    if (kernel.made.kernel.placed.empty()) continue;
    ASSERT_EQ(difference(kernel.made), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace graft::test
