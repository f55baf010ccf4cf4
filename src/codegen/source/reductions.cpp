#include "codegen/source/printer.h"

namespace graft::codegen {

using ir::ReduceOp;

ScalarType SourcePrinter::accumulated(int p) const {
  return codegen::accumulated(plan_, reduction(p), p);
}

std::string SourcePrinter::accumulator_type(int p) const {
  std::string type = cpp_memory_type(accumulated(p));
  if (finds_place(reduction(p).op)) return "Place<" + type + ">";
  if (!planned(p).has_blocks()) return type;
  return "BlockSum<" + type + ", " + cpp_memory_type(stepped(plan_, reduction(p), p)) +
         (planned(p).levels == Levels::Cascade ? ", true>" : ", false>");
}

std::string SourcePrinter::accumulator(int p) const {
  return "r" + std::to_string(p) + (planned(p).accumulate == Accumulate::Lanes ? "[lane]" : "");
}

int SourcePrinter::vector_variable(int p) const {
  return loop(plan_.vector_loop(planned(p).loop)).var;
}
/// Elements of a step of the vector loop around the sum, and accumulators that it has.
int SourcePrinter::step_elements(int p) const {
  return target_.lanes * loop(plan_.vector_loop(planned(p).loop)).unroll;
}
int SourcePrinter::lane_sums(int p) const {
  return planned(p).paired ? target_.lanes : step_elements(p);
}

std::string SourcePrinter::identity(int p) const {
  ScalarType type = accumulated(p);
  std::string limits = "std::numeric_limits<" + cpp_memory_type(type) + ">::";
  auto edge = [&](bool lowest) -> std::string {
    if (is_float(type)) return (lowest ? "-" : "") + limits + "infinity()";
    if (type == ScalarType::Bool) return lowest ? "0" : "1";
    return limits + (lowest ? "min()" : "max()");
  };
  switch (reduction(p).op) {
    case ReduceOp::Sum:
    case ReduceOp::Or:
      return "0";
    case ReduceOp::Prod:
      return "1";
    case ReduceOp::And:
      return type == ScalarType::Bool ? "1" : "static_cast<" + cpp_memory_type(type) + ">(~0)";
    case ReduceOp::Max:
    case ReduceOp::ArgMax:
      return edge(true);
    case ReduceOp::Min:
    case ReduceOp::ArgMin:
      return edge(false);
  }
  return "0";
}

std::string SourcePrinter::step(int p, ScalarType type, const std::string& so_far,
                                const std::string& x) const {
  auto infix = [&](const char* op) {
    return "static_cast<" + cpp_memory_type(type) + ">(" + so_far + " " + op + " " + x + ")";
  };
  switch (reduction(p).op) {
    case ReduceOp::Sum:
      return infix(type == ScalarType::Bool ? "|" : "+");
    case ReduceOp::Prod:
      return infix(type == ScalarType::Bool ? "&" : "*");
    case ReduceOp::And:
      return infix("&");
    case ReduceOp::Or:
      return infix("|");
    case ReduceOp::Max:
      return "largest(" + x + ", " + so_far + ")";
    case ReduceOp::Min:
      return "smallest(" + x + ", " + so_far + ")";
    case ReduceOp::ArgMax:
    case ReduceOp::ArgMin:
      break;
  }
  std::string greatest = wants_largest(reduction(p).op) ? "true" : "false";
  return "replaces<" + greatest + ">(" + x + ", " + so_far + ") ? " + x + " : " + so_far;
}

/// Row-major index over the reduced axes, in the statement's order.
std::string SourcePrinter::place_of(int p) {
  const ir::Placed& placed = kernel_.placed[static_cast<size_t>(p)];
  std::string text;
  for (size_t a = 0; a < placed.axis_var.size(); ++a) {
    int var = placed.axis_var[a];
    if (!reduction(p).axes[a] || layout_.extent[static_cast<size_t>(var)] < 0) continue;
    text = text.empty() ? variable(var) : "(" + text + ") * " + extent(var) + " + " + variable(var);
  }
  return text.empty() ? "0" : text;
}

void SourcePrinter::start_reduction(int p) {
  const StatementPlan& plan = planned(p);
  std::string type = accumulator_type(p), name = "r" + std::to_string(p);
  bool finds = finds_place(reduction(p).op);
  std::string first = finds ? "{" + identity(p) + ", 0}" : identity(p);
  if (plan.accumulate == Accumulate::Array) {
    array_loop(p, [&] {
      line(array(p, false) + " = " + identity(p) + ";");
      if (finds) line(array(p, true) + " = 0;");
    });
    return;
  }
  if (plan.accumulate == Accumulate::Lanes) {
    line(type + " " + name + "[" + std::to_string(lane_sums(p)) + "];");
    if (plan.paired) line("float " + name + "_step[" + std::to_string(step_elements(p)) + "];");
    if (!plan.has_blocks())
      line("std::fill(std::begin(" + name + "), std::end(" + name + "), " + type +
           (finds ? first : "{" + first + "}") + ");");
    return;
  }
  line(type + " " + name + (plan.has_blocks() ? "" : " = " + first) + ";");
}

void SourcePrinter::accumulate(int p) {
  const StatementPlan& plan = planned(p);
  const ScalarType in_steps = stepped(plan_, reduction(p), p);
  std::string type = cpp_memory_type(in_steps), x = get(plan.input);
  if (cpp_memory_type(value(plan.input).type) != type || in_steps == ScalarType::Bool)
    x = "cast<" + type + ">(" + x + ")";
  bool is_array = plan.accumulate == Accumulate::Array;
  if (!finds_place(reduction(p).op)) {
    std::string to =
        is_array ? array(p, false) : accumulator(p) + (plan.has_blocks() ? ".value" : "");
    const std::array<int, 3>& in = value(plan.input).in;
    if (is_fused_sum(plan_, reduction(p), p, target_))
      line(to + " = std::fma(" + get(in[0]) + ", " + get(in[1]) + ", " + to + ");");
    else if (plan.paired)
      line("add_paired<" + std::to_string(target_.lanes) + ">(" + variable(vector_variable(p)) +
           " < whole, lane, " + x + ", r" + std::to_string(p) + "_step, r" + std::to_string(p) +
           ");");
    else
      line(to + " = " + step(p, in_steps, to, x) + ";");
    return;
  }
  std::string place = "Place<" + type + ">",
              greatest = wants_largest(reduction(p).op) ? "true" : "false";
  std::string now = "now" + std::to_string(p), best = accumulator(p);
  line("const " + place + " " + now + "{" + x + ", " + place_of(p) + "};");
  if (is_array) best = place + "{" + array(p, false) + ", " + array(p, true) + "}";
  std::string wins = plan.in_order
                         ? "better<" + greatest + ">(" + now + ".value, " + best + ".value)"
                         : "replaces<" + greatest + ">(" + now + ", " + best + ")";
  if (is_array)
    line("if (" + wins + ") " + array(p, false) + " = " + now + ".value, " + array(p, true) +
         " = " + now + ".place;");
  else
    line("if (" + wins + ") " + best + " = " + now + ";");
}

std::string SourcePrinter::total(int p) {
  const StatementPlan& plan = planned(p);
  bool finds = finds_place(reduction(p).op);
  std::string name = "r" + std::to_string(p), field = finds ? ".place" : "";
  if (plan.accumulate == Accumulate::Array) return array(p, finds);
  if (plan.accumulate != Accumulate::Lanes) return name + (plan.has_blocks() ? ".total()" : field);
  int count = lane_sums(p);
  std::string type = cpp_memory_type(accumulated(p)), parts = name;
  if (plan.has_blocks()) {
    parts += "_parts";
    line(type + " " + parts + "[" + std::to_string(count) + "];");
    line("for (int k = 0; k < " + std::to_string(count) + "; ++k) " + parts + "[k] = " + name +
         "[k].total();");
  }
  return "fold<" + std::to_string(count) + ">(" + parts + ", [](auto a, auto b) { return " +
         step(p, accumulated(p), "a", "b") + "; })" + field;
}

void SourcePrinter::finish_with(int p, const std::string& total) {
  const StatementPlan& plan = planned(p);
  int v = plan.reduced;
  std::string type = cpp_type(reduction(p).type);
  Frame& frame = frame_at(loop(value(v).home).depth);
  std::string name = "t" + std::to_string(v);
  line("const " + type + " " + name + " = cast<" + type + ">(" + total + ");");
  names_[static_cast<size_t>(v)] = name;
  frame.defined.push_back(v);
  store(p);
}

void SourcePrinter::finish_reduction(int p) {
  auto result = [&] { finish_with(p, total(p)); };
  if (planned(p).accumulate == Accumulate::Array)
    array_loop(p, result);
  else
    result();
}

/// A loop over the variable that the accumulator array runs along.
void SourcePrinter::array_loop(int p, const std::function<void()>& body) {
  int l = planned(p).array_loop;
  std::string v = variable(loop(l).var);
  open(l, "for (int64_t " + v + " = 0; " + v + " < " + extent(loop(l).var) + "; ++" + v + ")");
  body();
  close();
}

/// The array's entry for the current index: a value, or the place found.
std::string SourcePrinter::array(int p, bool places) {
  int var = loop(planned(p).array_loop).var;
  std::string base =
                  "(scratch + " + integer(layout_.statements[static_cast<size_t>(p)].array) + ")",
              index = "[" + variable(var) + "]";
  if (!places) return "reinterpret_cast<" + cpp_memory_type(accumulated(p)) + "*>" + base + index;
  // After array_entries() words for the values.
  return "(reinterpret_cast<int64_t*>" + base + " + (" + extent(var) + " + 127) / 64 * 64)" + index;
}

}  // namespace graft::codegen
