#include "codegen/source/printer.h"

#include <algorithm>
#include <stdexcept>

namespace graft::codegen {

SourcePrinter::SourcePrinter(const ir::Kernel& kernel, const ir::Target& target,
                             std::map<std::string, std::string>& routines)
    : kernel_(kernel),
      target_(target),
      routines_(routines),
      layout_(lay_out(kernel, binding_)),
      plan_(make_plan(kernel, layout_)),
      names_(plan_.values.size()) {
  count_uses();
}

std::string SourcePrinter::print(const std::string& function) {
  std::string text;
  std::string program = ir::print(kernel_, {});
  for (size_t at = 0, end; at < program.size(); at = end + 1) {
    end = std::min(program.find('\n', at), program.size());
    text += "// " + program.substr(at, end - at) + "\n";
  }
  text +=
      "extern \"C\" void " + function +
      "([[maybe_unused]] const LaunchArgs* args, [[maybe_unused]] char* scratch, int64_t begin, "
      "int64_t end) {\n  if (begin >= end) return;\n";
  frames_.push_back({});
  if (layout_.range == RangeKind::Flattened)
    range_loop();
  else
    items(0);
  return text + frames_.front().text + "}\n";
}

// --- Frames --------------------------------------------------------------------------------------

void SourcePrinter::open(int l, const std::string& head) {
  line(head + " {");
  Frame frame;
  frame.loop = l;
  frame.depth = l < 0 ? -1 : loop(l).depth;
  frame.indent = frames_.back().indent + 1;
  // What values put before the loop has to come before its head.
  size_t begins = frames_.back().text.rfind('\n', frames_.back().text.size() - 2) + 1;
  frame.text = frames_.back().text.substr(begins);
  frames_.back().text.erase(begins);
  frames_.push_back(std::move(frame));
}

void SourcePrinter::close() {
  Frame done = std::move(frames_.back());
  frames_.pop_back();
  for (int v : done.defined) names_[static_cast<size_t>(v)].clear();
  frames_.back().text += done.text;
  line("}");
}

void SourcePrinter::line(const std::string& text) {
  line_at(frames_.back(), text);
}

void SourcePrinter::line_at(Frame& frame, const std::string& text) {
  frame.text += std::string(2 * static_cast<size_t>(frame.indent), ' ') + text + "\n";
}

SourcePrinter::Frame& SourcePrinter::frame_at(int depth) {
  auto found = std::find_if(frames_.rbegin(), frames_.rend(),
                            [&](const Frame& frame) { return frame.depth == depth; });
  return *found;
}

// --- Kernel arguments, sizes and places ----------------------------------------------------------

std::string SourcePrinter::integer(int slot) {
  std::string& name = integers_[slot];
  if (name.empty()) {
    name = "n" + std::to_string(slot);
    line_at(frames_.front(),
            "const int64_t " + name + " = args->integers[" + std::to_string(slot) + "];");
  }
  return name;
}

std::string SourcePrinter::stride(const Stride& s) {
  switch (s.kind) {
    case StrideKind::Zero:
      return "0";
    case StrideKind::One:
      return "1";
    case StrideKind::Two:
    case StrideKind::Three:
    case StrideKind::Four:
      return std::to_string(interleave(s));
    case StrideKind::MinusOne:
      return "-1";
    case StrideKind::Argument:
      break;
  }
  return integer(s.slot);
}

std::string SourcePrinter::extent(int var) {
  auto v = static_cast<size_t>(var);
  std::string first = integer(layout_.extent[v]);
  if (layout_.growth[v].kind == StrideKind::Zero) return first;
  int step = kernel_.vars[v].step;
  if (layout_.extent[static_cast<size_t>(step)] < 0) return first;  // one step: a dissolved loop
  return "(" + first + " + " + variable(step) + " * " + stride(layout_.growth[v]) + ")";
}

std::string SourcePrinter::pointer(int access) {
  std::string& name = pointers_[access];
  if (!name.empty()) return name;
  const AffineAccess& affine = layout_.accesses[static_cast<size_t>(access)];
  std::string type = cpp_memory_type(affine.dtype);
  std::string from = affine.pointer >= 0 ? "args->pointers[" + std::to_string(affine.pointer) + "]"
                                         : "scratch + " + integer(affine.scratch);
  std::string what;
  if (affine.pointer >= 0) {
    const Binding::Pointer& p = binding_.pointers[static_cast<size_t>(affine.pointer)];
    what = "  // %" + std::to_string(p.storage);
  }
  name = "p" + std::to_string(access);
  line_at(frames_.front(),
          type + "* const " + name + " = reinterpret_cast<" + type + "*>(" + from + ");" + what);
  return name;
}

/// Is it the variable of the vector loop that is open?
bool SourcePrinter::is_lanes(int var) const {
  return std::any_of(frames_.begin(), frames_.end(), [&](const Frame& frame) {
    return frame.depth >= 0 && loop(frame.loop).vector && loop(frame.loop).var == var;
  });
}

/// "p3[v0 * n2 + v1]"
std::string SourcePrinter::place(int access, const std::vector<std::pair<int, Stride>>& indirect) {
  const AffineAccess& affine = layout_.accesses[static_cast<size_t>(access)];
  const Shape& shape = layout_.shapes[static_cast<size_t>(affine.shape)];
  std::string text;
  auto add = [&](const std::string& index, const Stride& s) {
    if (s.kind == StrideKind::Zero) return;
    text += text.empty() ? "" : " + ";
    text += s.kind == StrideKind::One ? index : index + " * " + stride(s);
  };
  for (size_t v = 0; v < shape.strides.size(); ++v) {
    bool by_lane = affine.vectors != 0 && is_lanes(static_cast<int>(v));
    add(by_lane ? "lane" : variable(static_cast<int>(v)), shape.strides[v]);
  }
  for (const auto& [index, s] : indirect)
    if (s.kind != StrideKind::Zero) add(get(index), s);
  return pointer(access) + "[" + (text.empty() ? "0" : text) + "]";
}

// --- Loops ---------------------------------------------------------------------------------------

/// Iterations [begin, end) of the flattened range, last variable fastest.
void SourcePrinter::range_loop() {
  open(1, "for (int64_t tile = begin; tile < end; ++tile)");
  std::vector<int> vars;
  for (int v : kernel_.range)
    if (layout_.extent[static_cast<size_t>(v)] >= 0) vars.push_back(v);
  std::string rest = "tile";
  for (size_t k = vars.size(); k-- > 0;) {
    std::string size = extent(vars[k]);
    line("[[maybe_unused]] const int64_t " + variable(vars[k]) + " = " + rest +
         (k == 0 ? "" : " % " + size) + ";");
    rest += " / " + size;
  }
  items(1);
  close();
}

void SourcePrinter::items(int l) {
  for (const PlanItem& item : loop(l).items)
    if (item.loop >= 0)
      inner_loop(item.loop);
    else
      statement(item.placed);
}

void SourcePrinter::inner_loop(int l) {
  for (size_t p = 0; p < plan_.statements.size(); ++p)
    if (plan_.statements[p].reduce_loop == l) start_reduction(static_cast<int>(p));
  if (loop(l).vector) {
    bool is_range = layout_.range == RangeKind::Elements && loop(l).parent == 0;
    std::string from = is_range ? "begin" : "0", to = is_range ? "end" : extent(loop(l).var);
    if (loop(l).strips && !plan_strips(layout_, plan_, l).phases.empty())
      strip_loop(l, from, to);
    else
      vector_loop(l, from, to, nullptr);
  } else {
    serial_loop(l);
  }
  for (int p : loop(l).finishes) finish_reduction(p);
}

void SourcePrinter::serial_loop(int l) {
  std::string v = variable(loop(l).var), size = extent(loop(l).var);
  open(l, "for (int64_t " + v + " = 0; " + v + " < " + size + "; ++" + v + ")");
  if (layout_.range == RangeKind::Rows && loop(l).parent == 0) {
    const std::string row = get(plan_.statements[0].store_indirect[0].first);
    line("if (" + row + " < begin || " + row + " >= end) continue;");
  }
  items(l);
  std::string block = std::to_string(kBlockSteps);
  for (int p : plan_.block_sums(l))
    line("if ((" + v + " + 1) % " + block + " == 0 || " + v + " + 1 == " + size + ") " +
         accumulator(p) + ".flush(" +
         (planned(p).is_nested() ? v + " % " + block + " + 1, " + block : "") + ");");
  close();
}

/// Do lanes of the loop have memory of their own: accumulators, or scratch?
bool SourcePrinter::counts_lanes(int l) const {
  auto inside = [&](int other) { return plan_.vector_loop(other) == l; };
  return std::any_of(layout_.accesses.begin(), layout_.accesses.end(),
                     [](const AffineAccess& a) { return a.vectors != 0; }) ||
         std::any_of(plan_.statements.begin(), plan_.statements.end(), [&](const StatementPlan& s) {
           return s.accumulate == Accumulate::Lanes && inside(s.loop);
         });
}

/// Whole vectors, `unroll` of them per step, then what is left, as if one vector per step: an
/// element's lane is its place in the step.
void SourcePrinter::vector_loop(int l, const std::string& from, const std::string& to,
                                const StripPhase* phase) {
  std::string v = variable(loop(l).var);
  std::string lanes = std::to_string(target_.lanes),
              step = std::to_string(target_.lanes * loop(l).unroll);
  open(l, "for (int64_t " + v + " = " + from + "; " + v + " < " + to + "; ++" + v + ")");
  auto past = [&](const std::string& index) {
    return from == "0" ? index : "(" + index + " - " + from + ")";
  };
  std::vector<int> sums = plan_.block_sums(l);
  if (counts_lanes(l)) {
    line("const int64_t whole = " + (from == "0" ? "" : from + " + ") + past(to) + " / " + step +
         " * " + step + ";");
    line("[[maybe_unused]] const int64_t lane = " + v + " < whole ? " + past(v) + " % " + step +
         " : (" + v + " - whole) % " + lanes + ";");
  }
  if (phase == nullptr) {
    items(l);
  } else {
    for (const StripStep& s : phase->steps) {
      if (s.statement >= 0) {
        statement(s.statement);
        continue;
      }
      const PlanValue& kept_value = value(s.keep);
      std::string x = get(is_array_call(kept_value) ? kept_value.in[0] : s.keep);
      line("b" + std::to_string(s.keep) + "[" + v + " - start] = " + x + ";");
    }
  }
  for (int p : sums) {
    std::string block = std::to_string(kBlockSteps * target_.lanes * loop(l).unroll);
    line("if (" + v + " < whole && ((" + past(v) + " + 1) % " + block + " == 0 || " + v +
         " + 1 == whole))");
    const std::string done = past(v) + " / " + std::to_string(target_.lanes * loop(l).unroll) +
                             " % " + std::to_string(kBlockSteps) + " + 1, " +
                             std::to_string(kBlockSteps);
    line("  for (auto& sum : r" + std::to_string(p) + ") sum.flush(" +
         (planned(p).is_nested() ? done : "") + ");");
  }
  close();
  for (int p : sums)
    if (planned(p).is_nested())
      line("for (auto& sum : r" + std::to_string(p) + ") sum.flush((" + past(to) + " % " + step +
           " + " + lanes + " - 1) / " + lanes + ", " + std::to_string(kBlockSteps) + ");");
}

void SourcePrinter::strip_loop(int l, const std::string& from, const std::string& to) {
  Strips strips{plan_strips(layout_, plan_, l)};
  for (size_t v = 0; v < strips.plan.ready.size(); ++v)
    if (strips.plan.ready[v] >= 0)
      line(cpp_memory_type(plan_.values[v].type) + " b" + std::to_string(v) + "[" +
           std::to_string(kStripElements) + "];");
  std::string most = std::to_string(kStripElements);
  open(-1, "for (int64_t start = " + from + "; start < " + to + "; start += " + most + ")");
  line("const int64_t stop = std::min<int64_t>(start + " + most + ", " + to + ");");
  strips_ = &strips;
  for (size_t k = 0; k < strips.plan.phases.size(); ++k) {
    strips.phase = static_cast<int>(k);
    const StripPhase& phase = strips.plan.phases[k];
    if (!phase.steps.empty()) vector_loop(l, "start", "stop", &phase);
    for (int c : phase.calls) {
      std::string buffer = "b" + std::to_string(c), routine = routine_of(value(c));
      int load = strips.plan.straight[static_cast<size_t>(c)];
      if (load < 0) {
        line("vml(" + routine + ", stop - start, " + buffer + ", " + buffer + ");");
        continue;
      }
      open(-1, "if (const int64_t " + variable(loop(l).var) + " = start; true)");
      std::string first = place(value(load).access, {});
      line("vml(" + routine + ", stop - start, &" + first + ", " + buffer + ");");
      close();
    }
  }
  strips_ = nullptr;
  close();
}

void SourcePrinter::statement(int p) {
  const StatementPlan& plan = planned(p);
  if (layout_.statements[static_cast<size_t>(p)].product) {
    product(p);
    return;
  }
  if (plan.accumulate == Accumulate::None) {
    store(p);
    return;
  }
  if (plan.reduce_loop < 0) start_reduction(p);
  accumulate(p);
  if (!plan.scan && plan.reduce_loop >= 0) return;
  finish_with(p, total(p));
}

void SourcePrinter::product(int p) {
  const StatementLayout& s = layout_.statements[static_cast<size_t>(p)];
  const ProductLayout& product = *s.product;
  auto size = [&](int var) {
    return layout_.extent[static_cast<size_t>(var)] < 0 ? std::string("1") : extent(var);
  };
  auto loop_over = [&](int var) {
    const std::string v = variable(var);
    open(-1, "for (int64_t " + v + " = 0; " + v + " < " + size(var) + "; ++" + v + ")");
  };
  std::vector<int> around{product.rows, product.panels, product.columns};
  std::erase(around, -1);
  for (int var : around) loop_over(var);
  const bool in_pairs = product.in_pair >= 0;
  const std::string k = in_pairs ? "term" : variable(product.terms),
                    block = std::to_string(ir::kProductTerms),
                    count = in_pairs ? "2 * " + size(product.terms) : size(product.terms);
  auto factor = [&](size_t load, ScalarType dtype, ScalarType type) {
    std::string x = place(s.loads[load].access, {});
    if (type != dtype) x = "cast<" + cpp_type(type) + ">(" + x + ")";
    return is_reduced(type) ? "widen(" + x + ")" : x;
  };
  const std::string left = factor(product.left, product.left_dtype, product.left_type),
                    right = factor(product.right, product.right_dtype, product.right_type);
  const std::string to = place(s.store.access, {});
  // The machine's instruction for two terms adds the second first; for tiles: ir::kTileTerms.
  const bool tiles = product.pairs && target_.tiles(ScalarType::BFloat16);
  const bool pairs = !tiles && product.pairs && target_.pairs(ScalarType::BFloat16);
  line("float total = " + (product.adds ? to : std::string("0")) +
       (tiles ? ", parts[2] = {0, 0};" : ", sum = 0;"));
  const std::string step = pairs ? "step" : k;
  open(-1, "for (int64_t " + step + " = 0; " + step + " < " + count + "; ++" + step + ")");
  if (pairs) line("const int64_t " + k + " = (step ^ 1) < " + count + " ? step ^ 1 : step;");
  if (in_pairs)
    line("const int64_t " + variable(product.terms) + " = " + k + " / 2, " +
         variable(product.in_pair) + " = " + k + " % 2;");
  const std::string adds_to = tiles ? "parts[" + k + " % 2]" : "sum";
  line(target_.fma ? adds_to + " = std::fma(" + left + ", " + right + ", " + adds_to + ");"
                   : adds_to + " += " + left + " * " + right + ";");
  if (tiles) {
    line("if ((" + k + " + 1) % " + std::to_string(ir::kTileTerms) + " == 0 || " + k +
         " + 1 == " + count + ") total += parts[0] + parts[1], parts[0] = parts[1] = 0;");
  } else {
    line("if ((" + step + " + 1) % " + block + " != 0 && " + step + " + 1 != " + count +
         ") continue;");
    line(product.adds ? "total += sum;"
                      : "total = " + step + " < " + block + " ? sum : total + sum;");
    line("sum = 0;");
  }
  close();
  line(to + " = total;");
  for (size_t n = 0; n < around.size(); ++n) close();
}

void SourcePrinter::store(int p) {
  const StatementPlan& plan = planned(p);
  std::string x = get(plan.value);
  if (!plan.stores) return;
  line(place(layout_.statements[static_cast<size_t>(p)].store.access, plan.store_indirect) + " = " +
       x + ";");
}

}  // namespace graft::codegen
