// Loops over the columns (or rows) of buffers, as recurrences, triangular solves and quantisers
// have them: one body, drawn once, whose indices advance from step to step.
#include "fuzz/generate.h"

namespace graft::fuzz {

namespace {

/// One line of the body. Values of a step are numbered in the order they are made; columns come
/// from select, parts (two-dimensional) from slice.
struct Line {
  enum class Kind : uint8_t {
    Column,     ///< buffer[:, i + shift]
    Tail,       ///< buffer[:, i + shift:]
    Head,       ///< buffer[:, :i + shift]
    Unary,      ///< op(column)
    Binary,     ///< op(column, column)
    Carried,    ///< what the step before kept
    Largest,    ///< the largest of each row of a part
    SetColumn,  ///< buffer[:, i + shift] op= column
    SetTail,    ///< buffer[:, i + shift:] op= column, broadcast
    Keep,       ///< for the next step, and perhaps for a stack at the end
  } kind;
  int buffer = 0;
  int64_t shift = 0;
  int a = -1, b = -1;  ///< values of the step
  std::string op = {};
};

class Loop {
 public:
  explicit Loop(Generator& g) : g_(g) {}

  void run() {
    if (!choose_buffers()) return;
    draw_body();
    int64_t size = g_.tensor(buffers_[0]).size(dim_), first = g_.random.below(2);
    int64_t steps = g_.random.between(3, 20);
    for (int64_t k = 0; k < steps; ++k) {
      int64_t i = backwards_ ? size - 1 - first - k : first + k;
      if (i < 0 || i >= size || !step(i)) break;
    }
    if (stacks_ && kept_.size() > 1)
      g_.add("aten::stack", {values_of(kept_), constant_of(g_.random.below(2))});
  }

 private:
  bool choose_buffers() {
    int x = g_.pick([](const at::Tensor& t) {
      return t.dim() == 2 && t.size(0) > 1 && t.size(1) > 1 && t.numel() < 5000 &&
             t.scalar_type() != at::kBool;
    });
    if (x < 0) return false;
    if (g_.random.chance(0.6)) x = g_.add("aten::clone", {value_of(x)});
    if (x < 0) return false;
    buffers_.push_back(x);
    if (g_.random.chance(0.6)) {
      int y = g_.random.chance(0.5)
                  ? g_.add("aten::zeros_like", {value_of(x)})
                  : g_.pick_like(g_.tensor(x).sizes(), g_.tensor(x).scalar_type());
      if (y >= 0) buffers_.push_back(y);
    }
    dim_ = g_.random.chance(0.7) ? 1 : 0;
    backwards_ = g_.random.chance(0.15);
    stacks_ = g_.random.chance(0.3);
    return true;
  }

  int buffer() { return static_cast<int>(g_.random.below(static_cast<int64_t>(buffers_.size()))); }
  int64_t shift() { return g_.random.chance(0.6) ? 0 : g_.random.between(-1, 2); }

  void draw_body() {
    using Kind = Line::Kind;
    static const std::vector<std::string> unary = {"aten::neg", "aten::abs", "aten::relu",
                                                   "aten::square"};
    static const std::vector<std::string> binary = {"aten::add.Tensor", "aten::sub.Tensor",
                                                    "aten::mul.Tensor", "aten::maximum"};
    static const std::vector<std::string> update = {"aten::add_.Tensor", "aten::sub_.Tensor",
                                                    "aten::mul_.Tensor", "aten::copy_"};
    std::vector<int> columns, parts;
    int made = 0;
    auto line = [&](Line l, std::vector<int>* into) {
      if (into != nullptr) into->push_back(made);
      if (into != nullptr) ++made;
      body_.push_back(std::move(l));
    };
    line({Kind::Column, buffer(), shift()}, &columns);
    int64_t lines = g_.random.between(2, 8);
    for (int64_t k = 0; k < lines; ++k) {
      switch (g_.random.below(12)) {
        case 0:
          line({Kind::Column, buffer(), shift()}, &columns);
          break;
        case 1:
        case 2:
          line({Kind::Unary, 0, 0, g_.random.pick(columns), -1, g_.random.pick(unary)}, &columns);
          break;
        case 3:
        case 4:
          line({Kind::Binary, 0, 0, g_.random.pick(columns), g_.random.pick(columns),
                g_.random.pick(binary)},
               &columns);
          break;
        case 5:
          line({Kind::Carried}, &columns);
          break;
        case 6:
          line({g_.random.chance(0.5) ? Kind::Tail : Kind::Head, buffer(), shift()}, &parts);
          break;
        case 7:
          if (!parts.empty()) line({Kind::Largest, 0, 0, g_.random.pick(parts)}, &columns);
          break;
        case 8:
        case 9:
          line({Kind::SetColumn, buffer(), shift(), g_.random.pick(columns), -1,
                g_.random.pick(update)},
               nullptr);
          break;
        case 10:
          line({Kind::SetTail, buffer(), shift(), g_.random.pick(columns), -1,
                g_.random.pick(update)},
               nullptr);
          break;
        default:
          line({Kind::Keep, 0, 0, g_.random.pick(columns)}, nullptr);
      }
    }
    line({Kind::SetColumn, buffer(), shift(), columns.back(), -1, g_.random.pick(update)}, nullptr);
  }

  int slice(int number, int64_t from, int64_t to) {
    return g_.add("aten::slice.Tensor",
                  {value_of(number), constant_of(dim_), constant_of(from), constant_of(to)});
  }

  /// False when a line does not fit any more: an index left the buffer, or a value was refused.
  bool step(int64_t i) {
    using Kind = Line::Kind;
    std::vector<int> made;
    for (const Line& l : body_) {
      int target = buffers_[static_cast<size_t>(l.buffer)];
      int64_t size = g_.tensor(target).size(dim_), at = i + l.shift;
      auto value = [&](int k) { return value_of(made[static_cast<size_t>(k)]); };
      int out = -1;
      switch (l.kind) {
        case Kind::Column:
        case Kind::SetColumn:
          if (at < 0 || at >= size) return false;
          out = g_.add("aten::select.int", {value_of(target), constant_of(dim_), constant_of(at)});
          break;
        case Kind::Tail:
        case Kind::SetTail:
          if (at < 0 || at >= size) return false;
          out = slice(target, at, size);
          break;
        case Kind::Head:
          if (at < 1 || at > size) return false;
          out = slice(target, 0, at);
          break;
        case Kind::Unary:
          out = g_.add(l.op, {value(l.a)});
          break;
        case Kind::Binary:
          out = g_.add(l.op, {value(l.a), value(l.b)});
          break;
        case Kind::Carried:
          out = carried_ >= 0 ? carried_ : made.front();
          break;
        case Kind::Largest:
          out = g_.add("aten::amax",
                       {value(l.a), constant_of(c10::IValue(std::vector<int64_t>{dim_}))});
          break;
        case Kind::Keep:
          carried_ = made[static_cast<size_t>(l.a)];
          kept_.push_back(carried_);
          continue;
      }
      if (out < 0) return false;
      if (l.kind == Kind::SetColumn) {
        if (g_.add(l.op, {value_of(out), value(l.a)}) < 0) return false;
      } else if (l.kind == Kind::SetTail) {
        int wide = g_.add("aten::unsqueeze", {value(l.a), constant_of(dim_)});
        if (wide < 0 || g_.add(l.op, {value_of(out), value_of(wide)}) < 0) return false;
      } else {
        made.push_back(out);
      }
    }
    return true;
  }

  Generator& g_;
  std::vector<int> buffers_;
  std::vector<Line> body_;
  int64_t dim_ = 1;
  bool backwards_ = false, stacks_ = false;
  int carried_ = -1;
  std::vector<int> kept_;
};

}  // namespace

void add_loop(Generator& g) {
  Loop(g).run();
}

}  // namespace graft::fuzz
