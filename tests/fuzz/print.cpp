// Random programs as text.
#include <ATen/ATen.h>

#include <sstream>

#include "fuzz/program.h"

namespace graft::fuzz {

namespace {

std::string name_of(int number) {
  return number < 0 ? "None" : "v" + std::to_string(number);
}

std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (int number : numbers) text += (text.empty() ? "" : ", ") + name_of(number);
  return text;
}

std::string constant_text(const c10::IValue& constant) {
  if (constant.isString()) return "\"" + constant.toStringRef() + "\"";
  std::ostringstream out;
  out << constant;
  return out.str();
}

std::string operand_text(const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::Constant:
      return constant_text(operand.constant);
    case Operand::Kind::Value:
      return list(operand.values);
    default:
      return "[" + list(operand.values) + "]";
  }
}

bool is_default(const c10::Argument& argument, const Operand& operand) {
  if (operand.kind != Operand::Kind::Constant) return false;
  if (operand.constant.isNone()) return true;
  return argument.default_value() &&
         constant_text(*argument.default_value()) == constant_text(operand.constant);
}

void print_source(std::ostream& out, const Program& program, size_t i) {
  const Source& s = program.sources[i];
  out << "  v" << i << " = " << (s.captured ? "captured" : "argument") << " "
      << c10::toString(s.dtype) << at::IntArrayRef(s.sizes) << ":" << at::IntArrayRef(s.strides);
  if (s.index_bound > 0) out << " indices below " << s.index_bound;
  if (!s.captured)
    for (const Placement& p : program.placements)
      out << "  in memory " << p.base[i] << " at " << p.offset[i];
  out << "\n";
}

void print_step(std::ostream& out, const Step& step) {
  const auto& arguments = step.op.schema().arguments();
  out << "  " << list(step.results) << " = " << c10::toString(step.op.operator_name()) << "(";
  bool first = true;
  for (size_t k = 0; k < step.operands.size(); ++k) {
    if (is_default(arguments[k], step.operands[k])) continue;
    out << (first ? "" : ", ");
    first = false;
    if (step.operands[k].kind == Operand::Kind::Constant) out << arguments[k].name() << "=";
    out << operand_text(step.operands[k]);
  }
  out << ")" << (step.inexact ? "  # inexact" : "");
}

}  // namespace

std::string print(const Program& program, const Tensors* inputs) {
  std::ostringstream out;
  std::set<int> used(program.results.begin(), program.results.end());
  for (const Step& step : program.steps)
    for (const Operand& operand : step.operands)
      used.insert(operand.values.begin(), operand.values.end());
  for (size_t i = 0; i < program.sources.size(); ++i)
    if (used.contains(static_cast<int>(i))) print_source(out, program, i);
  std::vector<std::string> layouts;
  if (inputs != nullptr) {
    try {
      execute(program, *inputs, [&](const Step&, Tensors& results) {
        std::string text;
        for (const at::Tensor& t : results) text += "  " + test::describe(t);
        layouts.push_back(text);
      });
    } catch (const std::exception&) {
      layouts.emplace_back("  throws");
    }
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    print_step(out, program.steps[i]);
    out << (i < layouts.size() ? "  #" + layouts[i] : "") << "\n";
  }
  out << "  return " << list(program.results) << "\n  calls with memory";
  for (int call : program.calls) out << " " << call;
  out << (program.special_values ? "; special values" : "") << (program.frees ? "; frees" : "");
  if (program.guard != Program::Guard::None)
    out << (program.guard == Program::Guard::NoGrad ? "; no grad" : "; inference mode");
  out << "\n";
  return out.str();
}

}  // namespace graft::fuzz
