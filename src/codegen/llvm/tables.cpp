#include "codegen/llvm/emitter.h"
#include "ir/facts.h"

namespace graft::codegen {

namespace {

/// Operations that a look-up must save.
constexpr int kLeastSaved = 2;

class Tables {
 public:
  explicit Tables(KernelPlan& plan)
      : plan_(plan), functions_(plan.values.size()), tables_(plan.values.size(), -1) {}

  void run() {
    bool any = false;
    for (size_t v = 0; v < functions_.size(); ++v) {
      functions_[v] = function(static_cast<int>(v));
      any = any || functions_[v].operations >= kLeastSaved;
    }
    if (!any) return;
    const std::vector<bool> wanted = used_elsewhere();
    for (size_t v = 0; v < functions_.size(); ++v) {
      const ScalarType type = plan_.values[v].type;
      if (!wanted[v] || functions_[v].operations < kLeastSaved ||
          (type != ScalarType::Float && type != ScalarType::Int))
        continue;
      const int made = table(static_cast<int>(v), functions_[v].digit);
      plan_.values[v].table_value = made;
      plan_.values[v].digit_value = functions_[v].digit;
    }
  }

 private:
  /// What a value is of: a digit, and values that are the same in all of its loop.
  struct Function {
    int digit = -1;  ///< -1: not that
    int operations = 0;
  };

  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }
  int depth(int loop) const { return plan_.loops[static_cast<size_t>(loop)].depth; }

  Function function(int v) const {
    const PlanValue& x = value(v);
    const LoopPlan& home = plan_.loops[static_cast<size_t>(x.home)];
    if (!x.varying || !home.vector || home.strips) return {};
    if (x.digit) return {v, 0};
    if (!is_arithmetic(x.op)) return {};
    Function made{-1, 1};
    for (int in : x.in) {
      if (in < 0) continue;
      const PlanValue& operand = value(in);
      if (!operand.varying) {
        if (operand.home == x.home) return {};
        continue;
      }
      const Function& of = functions_[static_cast<size_t>(in)];
      if (of.digit < 0 || operand.home != x.home || (made.digit >= 0 && made.digit != of.digit))
        return {};
      made.digit = of.digit;
      made.operations += of.operations;
    }
    return made;
  }

  static bool is_arithmetic(ir::Op op) {
    switch (ir::types(op)) {
      case ir::TypeClass::Number:
      case ir::TypeClass::Real:
      case ir::TypeClass::Single:
      case ir::TypeClass::Integer:
      case ir::TypeClass::Logic:
      case ir::TypeClass::Compare:
      case ir::TypeClass::Select:
      case ir::TypeClass::Cast:
      case ir::TypeClass::Bitcast:
        return true;
      default:
        return false;
    }
  }

  /// Values that something asks for which is no function of the same digit.
  std::vector<bool> used_elsewhere() const {
    std::vector<bool> used(functions_.size(), false);
    auto use = [&](int v) { used[static_cast<size_t>(v)] = true; };
    for (size_t v = 0; v < functions_.size(); ++v) {
      for (int in : plan_.values[v].in)
        if (in >= 0 && functions_[static_cast<size_t>(in)].digit != functions_[v].digit) use(in);
      for (const auto& [index, stride] : plan_.values[v].indirect) use(index);
    }
    for (const StatementPlan& s : plan_.statements) each_use(s, use);
    return used;
  }

  /// The function's values for all digits, side by side.
  int table(int v, int digit) {
    if (tables_[static_cast<size_t>(v)] >= 0) return tables_[static_cast<size_t>(v)];
    PlanValue made = value(v);
    made.varying = false;
    made.is_table = true;
    made.home = 0;
    if (v == digit) {
      made.in = {-1, -1, -1};
    } else {
      made.digit = false;
      for (int& in : made.in) {
        if (in < 0) continue;
        if (value(in).varying) in = table(in, digit);
        if (depth(value(in).home) > depth(made.home)) made.home = value(in).home;
      }
    }
    plan_.values.push_back(made);
    return tables_[static_cast<size_t>(v)] = static_cast<int>(plan_.values.size() - 1);
  }

  KernelPlan& plan_;
  std::vector<Function> functions_;
  std::vector<int> tables_;  ///< of each value; -1: none yet
};

}  // namespace

KernelPlan with_tables(const KernelPlan& plan, const Machine& machine) {
  KernelPlan made = plan;
  if (machine.target.avx512() && machine.lanes == kDigits) Tables(made).run();
  return made;
}

}  // namespace graft::codegen
