// Random kernels with loops over steps: extents that grow and shrink, tiles side by side as lanes,
// and their memory transposed into scratch and back.
#include <gtest/gtest.h>

#include <random>

#include "codegen/kernels.h"
#include "ir/facts.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::LoopKind;
using ir::StatementBuilder;
using ir::TreeNode;
using ir::Value;

/// How the rows of the matrices run.
enum class Rows : uint8_t {
  Lanes,   ///< side by side in a vector around the steps
  Tiles,   ///< a range iteration each, vectors along the columns
  Inside,  ///< in vector loops inside of the steps
};

class RandomLoops {
 public:
  explicit RandomLoops(uint32_t seed) : random_(seed) {
    type_ = std::vector{at::kFloat, at::kDouble, at::kBFloat16, at::kHalf,
                        at::kChar,  at::kBool,   at::kLong}[seed % 7];
    mode_ = std::vector{Rows::Lanes, Rows::Lanes, Rows::Tiles, Rows::Inside}[seed / 7 % 4];
    rows_ = pick({1, 3, 15, 16, 17, 31, 33, 64, 70, 130});
    columns_ = pick({3, 4, 5, 8, 16, 19, 32, 37});
    steps_ = 2 + below(columns_ - 2);
    if (mode_ != Rows::Inside && below(3) == 0) batch_ = made.range(batches_ = 1 + below(3));
    if (mode_ == Rows::Lanes) row_ = made.vector(rows_);
    if (mode_ == Rows::Tiles) row_ = made.range(rows_);
    for (int k = 0; k < 4; ++k) memory(k == 3 ? 1 : columns_, k > 0);
    std::vector<TreeNode> body;
    if (mode_ != Rows::Inside) scratch(body);
    for (int k = 1 + below(2); k > 0; --k) body.push_back(steps());
    for (const Copy& c : copies_) copy(body, c.scratch, c.memory);
    if (mode_ == Rows::Lanes)
      made.body(loop(row_, std::move(body)));
    else
      made.kernel.body = std::move(body);
  }

  KernelMaker made;

 private:
  struct Matrix {
    int storage;
    ScalarType type;
    int64_t columns, batch_stride, row_stride, column_stride;
    bool written, side_by_side = false;
  };
  struct Copy {
    size_t scratch, memory;
  };
  /// Columns that a loop runs over: those after the step's own, those up to it, all, or one.
  enum class Part : uint8_t { Tail, Head, All, One };
  struct Nest {
    Part part = Part::All;
    int step = -1, row = -1, column = -1;
    bool columns_first = false;
  };

  int below(int64_t n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  int64_t pick(std::vector<int64_t> from) {
    return from[static_cast<size_t>(below(std::ssize(from)))];
  }
  static TreeNode loop(int var, std::vector<TreeNode> body) {
    TreeNode node = KernelMaker::loop(var);
    node.loop->body = std::move(body);
    return node;
  }

  void memory(int64_t columns, bool written) {
    at::Tensor t = tame({batches_, rows_, columns}, type_, random_());
    if (below(3) == 0) t = tame({batches_, columns, rows_}, type_, random_()).transpose(1, 2);
    int storage = made.storage(t).storage;
    matrices_.push_back({storage, type_, columns, t.stride(0), t.stride(1), t.stride(2), written});
  }
  /// Memory of a tile, or of a vector's tiles, filled from a matrix or by a formula.
  void scratch(std::vector<TreeNode>& body) {
    vectors_ = 1 + below(2);
    int64_t width = mode_ == Rows::Lanes ? codegen::host_target(1).lanes * vectors_ : 1;
    for (int k = below(4); k > 0; --k) {
      size_t from = static_cast<size_t>(below(3));
      int storage =
          made.scratch({ir::in_squares(columns_, ir::last_columns(columns_, false)) * width}, type_)
              .storage;
      if (mode_ == Rows::Lanes) made.kernel.scratch.back().vectors = vectors_;
      Matrix m{storage, type_, columns_, 0, mode_ == Rows::Lanes, width, true};
      m.side_by_side = mode_ == Rows::Lanes;
      matrices_.push_back(m);
      copy(body, from, matrices_.size() - 1);
      if (from > 0 && below(3) > 0) copies_.push_back({matrices_.size() - 1, from});
    }
  }
  void copy(std::vector<TreeNode>& body, size_t from, size_t to) {
    Nest n;
    n.row = row_;
    n.column = made.variable(columns_, mode_ == Rows::Tiles ? LoopKind::Vector : LoopKind::Serial);
    StatementBuilder s(axes(n));
    Value v = s.load(access(matrices_[from], n, 0, 0, 1));
    TreeNode node = place(n, s.store(access(matrices_[to], n, 0, 0, 1), v));
    const Matrix& outside = matrices_[matrices_[to].side_by_side ? from : to];
    made.kernel.placed.back().transposed =
        mode_ == Rows::Lanes && outside.column_stride == 1 && outside.row_stride > 1;
    if (made.kernel.placed.back().transposed)
      made.kernel.placed.back().columns = ir::last_columns(columns_, false);
    std::vector<TreeNode> inside;
    inside.push_back(std::move(node));
    body.push_back(loop(n.column, std::move(inside)));
  }

  /// One number per axis of the nest, in the statement's order.
  std::vector<int64_t> by_axis(const Nest& n, int64_t step, int64_t batch, int64_t row,
                               int64_t column) const {
    std::vector<int64_t> all;
    if (n.step >= 0) all.push_back(step);
    if (batch_ >= 0) all.push_back(batch);
    all.push_back(row);
    if (n.column >= 0) all.insert(n.columns_first ? all.end() - 1 : all.end(), column);
    return all;
  }
  std::vector<int64_t> axes(const Nest& n) const {
    int64_t count = n.column < 0 ? 1 : made.kernel.vars[static_cast<size_t>(n.column)].extent;
    return by_axis(n, steps_, batches_, rows_, count);
  }
  /// At column first + step * advance + column * along.
  ir::Access access(const Matrix& m, const Nest& n, int64_t first, int64_t advance,
                    int64_t along) const {
    if (m.columns == 1) first = advance = along = 0;
    return {m.storage,
            m.type,
            first * m.column_stride,
            by_axis(n, advance * m.column_stride, m.batch_stride, m.row_stride,
                    along * m.column_stride),
            {}};
  }
  TreeNode place(const Nest& n, ir::Statement s) {
    if (n.step >= 0) {
      int64_t growth = n.part == Part::Tail ? -1 : n.part == Part::Head ? 1 : 0;
      s.growth = by_axis(n, 0, 0, 0, growth);
    }
    std::vector<int64_t> vars = by_axis(n, n.step, batch_, n.row, n.column);
    const int loads = static_cast<int>(s.loads.size());
    TreeNode node = made.place(std::move(s), std::vector<int>(vars.begin(), vars.end()));
    if (loads > 0 && below(3) == 0) {
      const auto var = static_cast<int>(vars[static_cast<size_t>(below(std::ssize(vars)))]);
      made.kernel.placed.back().ahead = {{below(loads), var, 1 + below(8)}};
    }
    return node;
  }

  ir::Access own(const Matrix& m, const Nest& n) const {
    bool tail = n.part == Part::Tail, one = n.column < 0;
    return access(m, n, tail, tail || one, !one);
  }
  /// `stored`: what the loop around stores, read elsewhere only where it does not.
  Value leaf(StatementBuilder& s, const Nest& n, const std::vector<size_t>& stored) {
    size_t k = static_cast<size_t>(below(std::ssize(matrices_)));
    const Matrix& m = matrices_[k];
    bool hot = std::count(stored.begin(), stored.end(), k) > 0;
    if (m.columns == 1) return s.load(access(m, n, 0, 0, 0));
    switch (below(5)) {
      case 0:  // the step's column, or the one after
        if (hot && n.part == Part::All) break;
        return s.load(access(m, n, n.part == Part::Head, 1, 0));
      case 1:
        if (hot) break;
        return s.load(access(m, n, pick({0, columns_ - 1}), 0, 0));
      case 2:  // backwards
        if (hot || n.column < 0 || n.part == Part::Head) break;
        return s.load(access(m, n, columns_ - 1, 0, -1));
      case 3:
        if (type_ == at::kBool) break;
        return ((s.axis(0) + s.axis(below(std::ssize(axes(n))))) & s.integer(7, at::kLong))
            .to(type_);
      default:
        break;
    }
    return s.load(own(m, n));
  }
  Value formula(StatementBuilder& s, const Nest& n, const std::vector<size_t>& stored) {
    Value a = leaf(s, n, stored), b = leaf(s, n, stored), c = leaf(s, n, stored);
    if (type_ == at::kBool) return below(2) ? a ^ (b & ~c) : ir::select(a, b, ~c);
    if (is_integer(type_)) return below(2) ? a + b * c : ir::select(ir::lt(a, b), b - a, c);
    ScalarType wide = type_ == at::kDouble ? at::kDouble : at::kFloat;
    a = a.to(wide), b = b.to(wide), c = c.to(wide);
    Value v = below(2) ? a * 0.5 - b * c.op(ir::Op::RoundEven) * 0.25
                       : ir::select(ir::lt(a, b), a - c * 0.5, ir::max(b, c) * 0.5);
    return ir::max(ir::min(v, v.like(4)), v.like(-4)).to(type_);
  }
  size_t target(bool column_too) {
    size_t k;
    do k = static_cast<size_t>(below(std::ssize(matrices_)));
    while (!matrices_[k].written || (!column_too && matrices_[k].columns == 1));
    return k;
  }

  TreeNode statement(const Nest& n, size_t to, const std::vector<size_t>& stored) {
    StatementBuilder s(axes(n));
    Value v = formula(s, n, stored);
    return place(n, s.store(own(matrices_[to], n), v));
  }
  /// Over the nest's columns, into the step's own or the one after them.
  TreeNode reduction(const Nest& n) {
    StatementBuilder s(axes(n));
    size_t to = target(n.part != Part::All || below(2) == 0);
    Value v = formula(s, n, {to});
    std::vector<int64_t> marked = by_axis(n, 0, 0, 0, 1);
    std::vector<bool> along(marked.begin(), marked.end());
    bool sums = below(2);
    if (type_ == at::kBool)
      v = s.reduce(sums ? ir::ReduceOp::Or : ir::ReduceOp::And, v, along, type_);
    else if (below(4) == 0)
      v = s.reduce(ir::ReduceOp::ArgMin, v, along, at::kLong).to(type_);
    else if (sums)
      v = s.reduce(ir::ReduceOp::Sum, v.to(at::kFloat).to(at::kLong), along, at::kLong).to(type_);
    else
      v = s.reduce(ir::ReduceOp::Max, v, along, type_);
    return place(n, s.store(access(matrices_[to], n, n.part == Part::Head, 1, 0), v));
  }

  TreeNode steps() {
    int step = made.variable(steps_, LoopKind::Step);
    std::vector<TreeNode> body;
    for (int k = 1 + below(4); k > 0; --k) {
      Nest n;
      n.step = step, n.row = row_;
      if (mode_ == Rows::Inside) n.row = made.vector(rows_);
      std::vector<TreeNode> inside;
      bool columns = below(3) > 0;
      n.part = columns ? static_cast<Part>(below(3)) : Part::One;
      if (columns) {
        bool vector = mode_ == Rows::Tiles && below(3) > 0;
        n.column = made.variable(n.part == Part::Tail   ? columns_ - 1
                                 : n.part == Part::Head ? 1
                                                        : columns_,
                                 vector ? LoopKind::Vector : LoopKind::Serial);
        if (n.part == Part::Tail) made.kernel.vars.back().growth = -1;
        if (n.part == Part::Head) made.kernel.vars.back().growth = 1;
        if (n.part != Part::All) made.kernel.vars.back().step = step;
        n.columns_first = below(4) == 0;
      }
      if (columns && n.part != Part::All && below(3) == 0) {
        inside.push_back(reduction(n));
      } else {
        std::vector<size_t> stored = {target(!columns), target(!columns)};
        inside.push_back(statement(n, stored[0], stored));
        if (below(2)) inside.push_back(statement(n, stored[1], stored));
      }
      bool rows_inside = columns && mode_ == Rows::Inside && below(2);
      std::vector<int> vars;
      if (rows_inside)
        vars = {n.row, n.column};
      else if (mode_ == Rows::Inside)
        vars = columns ? std::vector{n.column, n.row} : std::vector{n.row};
      else if (columns)
        vars = {n.column};
      for (int var : vars) {
        std::vector<TreeNode> around;
        around.push_back(loop(var, std::move(inside)));
        inside = std::move(around);
      }
      for (TreeNode& node : inside) body.push_back(std::move(node));
    }
    return loop(step, std::move(body));
  }

  std::mt19937 random_;
  ScalarType type_ = at::kFloat;
  Rows mode_ = Rows::Lanes;
  int64_t rows_, columns_, steps_, batches_ = 1;
  int batch_ = -1, row_ = -1, vectors_ = 1;
  std::vector<Matrix> matrices_;
  std::vector<Copy> copies_;
};

/// GRAFT_SEED=n runs that kernel alone, GRAFT_KERNELS=n that many.
TEST(Loops, RandomStepsAgreeWithTheInterpreter) {
  const char *only = std::getenv("GRAFT_SEED"), *many = std::getenv("GRAFT_KERNELS");
  uint32_t first = only ? static_cast<uint32_t>(std::atoi(only)) : 0;
  uint32_t count = only ? 1 : many ? static_cast<uint32_t>(std::atoi(many)) : 140;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    RandomLoops loops(seed);
    try {
      ASSERT_EQ(difference(loops.made), "") << "seed " << seed;
    } catch (const std::exception& e) {
      FAIL() << "seed " << seed << ": " << e.what() << "\n" << ir::print(loops.made.kernel, {});
    }
  }
}

}  // namespace
}  // namespace graft::test
