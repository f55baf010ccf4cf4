// A random loop body, unrolled into statements as a recorded program has them.
#pragma once

#include <random>

#include "build.h"

namespace graft::passes {

using c10::ScalarType;
using ir::Role;
using ir::Value;

/// A matrix, or a column. What each step makes anew has one storage per step, perhaps wider each
/// time.
struct Buffer {
  enum class Use : uint8_t { Constant, RowAStep, Kept, Fresh, Carried };
  Use use;
  int64_t rows, width, grows = 0;
  bool turned;
  ScalarType type;
  std::vector<int> storage;  ///< before the first step and after each; or one for all
  int at(int64_t v) const {
    return storage.size() == 1 ? storage[0] : storage.at(static_cast<size_t>(v));
  }
  int64_t columns(int64_t v) const { return width + grows * v; }
  int64_t fewest() const { return std::min(columns(0), columns(std::ssize(storage) - 1)); }
};
using Use = Buffer::Use;

/// Axes of a statement: rows, and columns whose number grows with the steps.
struct Nest {
  bool rows, columns, columns_first;
  int64_t length, growth;
  int64_t at(int64_t step) const { return columns ? length + growth * step : 1; }
  template <class T = int64_t>
  std::vector<T> by_axis(T row, T column) const {
    std::vector<T> all;
    if (rows) all.push_back(row);
    if (columns) all.insert(columns_first ? all.begin() : all.end(), column);
    return all;
  }
};

/// Column first + advance * step + stride * j of a buffer.
struct Columns {
  int64_t first = 0, advance = 0, stride = 0;
  int64_t low(const Nest& n, int64_t i) const {
    return first + advance * i + std::min<int64_t>(0, stride * (n.at(i) - 1));
  }
  int64_t high(const Nest& n, int64_t i) const {
    return low(n, i) + std::abs(stride) * (n.at(i) - 1);
  }
};

class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {
    rows_ = pick({1, 2, 2, 3, 3, 5, 17, 36});
    steps_ = 4 + below(rows_ > 8 ? 4 : 9);
    columns_ = below(3) ? steps_ + below(4) : 2 * steps_ + 1;
    matrix(Use::Constant, rows_, 1);
    matrix(Use::RowAStep, columns_, columns_);
    for (int k = 0; k < 3; ++k) matrix(Use::Kept, rows_, columns_);
    beside(below(4), 0, {});
    for (int k = below(4) ? 1 : 2; k > 0; --k) {
      loop();
      beside(1 + below(3), 0, {});
    }
  }
  ProgramBuilder made;
  std::vector<at::Tensor> arguments;

 private:
  int below(int64_t n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  int64_t pick(std::vector<int64_t> from) {
    return from[static_cast<size_t>(below(std::ssize(from)))];
  }
  uint32_t draw() { return static_cast<uint32_t>(random_()); }
  size_t any() { return static_cast<size_t>(below(std::ssize(buffers_))); }

  Buffer shaped(Use use, int64_t rows, int64_t columns) {
    auto type = static_cast<size_t>(below(4));
    return {use,
            rows,
            columns,
            0,
            below(4) == 0,
            std::vector{kFloat, kFloat, ScalarType::BFloat16, ScalarType::Double}[type],
            {}};
  }
  void add(Buffer& b, Role role) {
    std::vector<int64_t> sizes = {b.rows, b.columns(std::ssize(b.storage))};
    b.storage.push_back(
        (role == Role::Output ? made.output(sizes, b.type) : made.storage(role, sizes, b.type))
            .storage);
  }
  /// An argument, or memory of the run that is filled before the loop.
  void matrix(Use use, int64_t rows, int64_t columns) {
    Buffer b = shaped(use, rows, columns);
    bool own = use == Use::Kept && below(3);
    add(b, !own ? Role::Argument : below(2) ? Role::Output : Role::Temporary);
    if (own)
      fill(b);
    else
      arguments.push_back(
          (at::arange(rows * columns).mul(draw() % 977).remainder(97) / 16 - 3).to(b.type));
    made.program.storages.back().source = own ? -1 : std::ssize(arguments) - 1;
    buffers_.push_back(b);
  }
  void fill(const Buffer& b) {
    Nest n{true, true, false, b.width, 0};
    ir::StatementBuilder s({b.rows, b.width});
    Value v = (s.axis(0) * 3.0 + s.axis(1)).to(kFloat) * 0.125;
    made.program.items.emplace_back(s.store(access(b, 0, n, {0, 0, 1}, 0, 0), v.to(b.type)));
  }

  /// Columns that stay inside of the buffer at every step.
  Columns columns_of(const Buffer& b, const Nest& n, bool store) {
    for (int tries = 0; tries < 4; ++tries) {
      Columns c;
      c.advance = count_ == 1 ? 0 : pick({1, 1, 1, 0, 0, -1, 2});
      if (n.columns) c.stride = store ? pick({1, 1, 1, -1}) : pick({1, 1, 1, 1, -1, 0});
      int64_t low = std::min(c.low(n, 0), c.low(n, count_ - 1));
      int64_t room = b.fewest() - 1 - std::max(c.high(n, 0), c.high(n, count_ - 1)) + low;
      if (room < 0) continue;
      c.first = (below(3) ? pick({0, room}) : below(room + 1)) - low;
      return c;
    }
    return {};
  }
  ir::Access access(const Buffer& b, int64_t version, const Nest& n, const Columns& c, int64_t row,
                    int64_t step) const {
    bool along = n.rows && b.use != Use::RowAStep;
    int64_t down = b.turned ? 1 : b.columns(version), right = b.turned ? b.rows : 1;
    int64_t offset = (c.first + c.advance * step) * right + (along ? 0 : row * down);
    return {
        b.at(version), b.type, offset, n.by_axis<int64_t>(along ? down : 0, c.stride * right), {}};
  }

  /// What is known about a statement before it is made; its choices are the same at each step.
  struct At {
    int64_t step;
    size_t target;
    bool whole;               ///< all of what is made anew
    std::vector<bool> ready;  ///< what this step has made
    int64_t version;
  };

  Value leaf(ir::StatementBuilder& s, const Nest& n, const At& at, bool outside = false) {
    Nest seen = n;
    if (outside) seen.columns = false;
    for (int tries = 0; tries < 6; ++tries) {
      size_t k = any();
      const Buffer& b = buffers_[k];
      bool made_now = at.ready[k] && (b.use == Use::Fresh || below(3)), own = below(2);
      Columns c = columns_of(b, seen, false);
      int64_t row = b.use == Use::RowAStep && below(2) ? at.step : below(std::min(b.rows, steps_));
      if (b.use == Use::Fresh && !made_now) continue;
      int64_t version = at.version + made_now;
      if (b.at(version) == stored_) {
        // Where it stores, a statement may read its own point, or else what it leaves alone.
        bool apart = true;
        for (int64_t i = 0; i < count_; ++i)
          apart = apart && (c.high(seen, i) < store_.low(store_nest_, i) ||
                            c.low(seen, i) > store_.high(store_nest_, i));
        if (own) c = store_;
        if (!own && !apart) continue;
        row = store_row_;
      }
      ir::Access a = access(b, version, seen, c, row, at.step);
      if (outside) a.strides = n.by_axis<int64_t>(n.rows ? a.strides[0] : 0, 0);
      return s.load(a).to(kFloat);
    }
    int64_t constant = below(5) + (below(2) ? at.step : 0) * pick({1, 1, -1, 2});
    return s.integer(constant, kLong).to(kFloat) * 0.125;
  }
  Value expression(ir::StatementBuilder& s, const Nest& n, const At& at) {
    Value a = leaf(s, n, at);
    for (int k = 1 + below(3); k > 0; --k) {
      Value b = leaf(s, n, at);
      // Now and then one step is unlike the others.
      bool odd = below(60) == 0 && at.step == 2;
      int64_t border = below(columns_) + (below(2) ? at.step : 0) + odd;
      int op = below(6);
      if (op == 0) a = ir::max(a, b);
      if (op == 1) a = (a * 0.5).to(ScalarType::BFloat16).to(kFloat) - b * (odd ? 0.25 : 0.5);
      if (op == 2) a = ir::select(ir::lt(a, b), a * 0.5, -b);
      if (op == 3) a = a * s.scalar(odd ? 0.25 : 0.5, kFloat) + b * 0.25;
      if (op == 4) a = (a + b) * 0.5;
      if (op == 5 && n.columns) {
        Value column = s.axis(n.rows && !n.columns_first);
        a = ir::select(ir::lt(column, s.integer(border, kLong)), a, b * 0.5);
      }
    }
    return a;
  }
  void statement(uint32_t seed, const At& at) {
    std::mt19937 outer = std::exchange(random_, std::mt19937(seed));
    const Buffer& to = buffers_[at.target];
    Nest n{at.whole || below(8) > 0, to.fewest() > 1 && below(3) > 0, below(4) == 0, 0, 0};
    n.growth = count_ == 1 ? 0 : pick({-1, -1, 0, 1});
    int64_t span = std::abs(n.growth) * (count_ - 1);
    n.length = 1 + below(columns_ - span) + (n.growth < 0 ? span : 0);
    if (at.whole) n.columns = to.width > 1, n.length = to.columns(1), n.growth = to.grows;
    store_ = at.whole ? Columns{0, 0, n.columns} : columns_of(to, n, true);
    n.columns = n.columns && store_.stride != 0;
    store_row_ = below(to.rows);
    store_nest_ = n;
    int64_t version = at.version + (at.whole || at.ready[at.target]);
    stored_ = to.at(version);
    ir::Access store = access(to, version, n, store_, store_row_, at.step);
    bool reduces = !n.columns && below(3) == 0;
    if (reduces)
      n.columns = true, store.strides = n.by_axis<int64_t>(n.rows ? store.strides[0] : 0, 0);
    ir::StatementBuilder s(n.by_axis(rows_, n.at(at.step)));
    Value v = expression(s, n, at);
    if (reduces) {
      std::vector<bool> along = n.by_axis<bool>(false, true);
      int op = below(3);
      if (op == 0) v = s.reduce(ir::ReduceOp::Max, v, along, kFloat);
      if (op == 1)
        v = s.reduce(ir::ReduceOp::Sum, (v * 64.0).to(kLong), along, kLong).to(kFloat) * 0.001;
      if (op == 2) v = s.reduce(ir::ReduceOp::ArgMin, v, along, kLong).to(kFloat) * 0.125;
      if (below(2)) v = (v + leaf(s, n, at, true)) * 0.5;
    }
    made.program.items.emplace_back(s.store(store, v.to(to.type)));
    random_ = outer;
  }
  /// Statements that are not the loop's: before it, after it, or between two of its own.
  void beside(int count, int64_t version, std::vector<bool> ready) {
    int64_t steps = std::exchange(count_, 1);
    ready.resize(buffers_.size());
    for (; count > 0; --count)
      if (size_t k = any(); ready[k] || buffers_[k].use == Use::Kept)
        statement(draw(), {0, k, false, ready, version});
    count_ = steps;
  }

  void make_anew() {
    Buffer b = shaped(below(2) ? Use::Fresh : Use::Carried, rows_, below(2) ? 1 : columns_);
    // As a causal loop has them, or an elimination.
    if (b.width > 1 && below(2)) b.grows = below(2) ? 1 : -1;
    if (b.grows < 0) b.width += steps_;
    int results = below(8), middle = 1 + below(steps_);
    bool one = b.use == Use::Fresh && b.grows == 0 && below(4) == 0;
    for (int64_t v = 0; v <= (one ? 0 : steps_); ++v)
      add(b,
          (results == 0 && v == steps_) || (results == 1 && v > 0) || (results == 2 && v == middle)
              ? Role::Output
              : Role::Temporary);
    if (b.use == Use::Carried) fill(b);
    buffers_.push_back(b);
  }
  void loop() {
    count_ = steps_;
    size_t before = buffers_.size();
    for (int k = below(4); k > 0; --k) make_anew();
    struct Planned {
      uint32_t seed;
      size_t target;
      bool whole;
    };
    std::vector<Planned> body;
    for (size_t k = before; k < buffers_.size(); ++k) body.push_back({draw(), k, true});
    std::shuffle(body.begin(), body.end(), random_);
    for (int k = below(4) + body.empty(); k > 0; --k) {
      auto place = body.begin() + below(std::ssize(body) + 1);
      size_t target = any();
      bool there =
          std::any_of(body.begin(), place, [&](const Planned& p) { return p.target == target; });
      if (buffers_[target].use != Use::Kept && !there) continue;
      place = body.insert(place, {draw(), target, false});
      if (below(6) == 0) body.insert(place, Planned(*place));
    }
    int missing = below(4), disturbed = below(5) ? -1 : below(steps_),
        where = below(std::ssize(body) + 1);
    for (int64_t i = 0; i < steps_; ++i) {
      std::vector<bool> ready(buffers_.size(), false);
      for (int k = 0; k < std::ssize(body); ++k) {
        const Planned& p = body[static_cast<size_t>(k)];
        if (i == disturbed && k == where) beside(1, i, ready);
        bool left_out = !p.whole && ((missing == 0 && i == 0) || (missing == 1 && i + 1 == steps_));
        if (!left_out) statement(p.seed, {i, p.target, p.whole, ready, i});
        if (p.whole) ready[p.target] = true;
      }
    }
    // What comes after reads the last of each, or one from the middle.
    for (size_t k = before; k < buffers_.size(); ++k) {
      Buffer& b = buffers_[k];
      int64_t v = below(6) ? steps_ : 1 + below(steps_);
      b.width = b.columns(v), b.storage = {b.at(v)}, b.grows = 0, b.use = Use::Kept;
    }
    count_ = 1;
  }

  std::mt19937 random_;
  int64_t rows_, steps_, columns_, count_ = 1;  ///< count_: steps of the statements being made
  std::vector<Buffer> buffers_;
  int stored_ = -1;  ///< by the statement that is being made, and where
  Columns store_;
  Nest store_nest_{};
  int64_t store_row_ = 0;
};

}  // namespace graft::passes
