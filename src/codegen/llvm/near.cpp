#include "codegen/llvm/near.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace graft::codegen {

namespace {

class Roundings {
 public:
  explicit Roundings(const KernelPlan& plan)
      : plan_(plan),
        uses_(plan.values.size(), 0),
        gains_(plan.values.size(), false),
        units_(plan.values.size(), 0),
        made_(plan.values.size(), Near::No) {}

  std::vector<Near> run() {
    count_uses();
    // Operands come before those who use them.
    for (size_t v = 0; v < gains_.size(); ++v) gains_[v] = gains(static_cast<int>(v));
    for (size_t v = 0; v < made_.size(); ++v)
      if (const PlanValue& x = plan_.values[v];
          x.op == ir::Op::Cast && x.type == ScalarType::BFloat16 && is_in_lanes(x))
        rounding(static_cast<int>(v));
    return made_;
  }

 private:
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }

  void count_uses() {
    auto use = [&](int v) {
      if (v >= 0) ++uses_[static_cast<size_t>(v)];
    };
    for (const PlanValue& v : plan_.values) {
      for (int in : v.in) use(in);
      for (const auto& [index, stride] : v.indirect) use(index);
      use(v.table_value);
      use(v.digit_value);
    }
    for (const StatementPlan& s : plan_.statements) each_use(s, use);
  }

  bool is_in_lanes(const PlanValue& x) const {
    const LoopPlan& home = plan_.loops[static_cast<size_t>(x.home)];
    return x.varying && home.vector && !home.strips && x.table_value < 0;
  }
  bool is_used_once(int v, int home) const {
    return uses_[static_cast<size_t>(v)] == 1 && value(v).home == home && is_in_lanes(value(v));
  }

  /// Is its cheap evaluation one of fewer instructions, or has it a part that is?
  bool gains(int v) const {
    const PlanValue& x = value(v);
    if (!is_in_lanes(x) || x.type != ScalarType::Float) return false;
    if (is_tanh(x) || is_quotient(x)) return true;
    if (!carries(x)) return false;
    for (int in : x.in)
      if (in >= 0 && gains_[static_cast<size_t>(in)]) return true;
    return false;
  }
  bool is_quotient(const PlanValue& x) const {
    if (x.op != ir::Op::Div) return false;
    const OnePlusExp divisor = one_plus_exp(plan_, x.in[1]);
    return divisor.exp >= 0 && is_used_once(x.in[1], x.home) && is_used_once(divisor.exp, x.home);
  }
  static bool carries(const PlanValue& x) {
    return x.op == ir::Op::Neg || x.op == ir::Op::Add || x.op == ir::Op::Sub ||
           x.op == ir::Op::Mul || x.op == ir::Op::Fma;
  }

  void rounding(int root) {
    const int home = value(root).home;
    std::map<int, int> asked{{value(root).in[0], 1}};  // by what is inside
    std::vector<int> inside;
    for (auto at = asked.end(); at != asked.begin();) {
      --at;  // those who use a value come before it
      const auto [v, count] = *at;
      if (!gains_[static_cast<size_t>(v)] || value(v).home != home ||
          uses_[static_cast<size_t>(v)] != count)
        continue;
      inside.push_back(v);
      const PlanValue& x = value(v);
      if (carries(x))
        for (int in : x.in)
          if (in >= 0) ++asked[in];
      if (is_quotient(x)) {
        ++asked[x.in[0]];
        const OnePlusExp divisor = one_plus_exp(plan_, x.in[1]);
        inside.push_back(x.in[1]);
        inside.push_back(divisor.exp);
        if (value(divisor.exponent).op == ir::Op::Neg && is_used_once(divisor.exponent, home))
          inside.push_back(divisor.exponent);
      }
    }
    std::sort(inside.begin(), inside.end());
    for (int v : inside) units_[static_cast<size_t>(v)] = units(value(v));
    const double units = units_of(value(root).in[0]);
    // Bounds that are computed cost more than a quotient gains.
    const bool pays = std::isinf(units) ? std::any_of(inside.begin(), inside.end(),
                                                      [&](int v) { return is_tanh(value(v)); })
                                        : units > 0 && units < kMostUnits;
    if (!pays) return;
    made_[static_cast<size_t>(root)] = Near::Rounding;
    for (int v : inside) made_[static_cast<size_t>(v)] = Near::Inside;
  }

  double units_of(int v) const { return units_[static_cast<size_t>(v)]; }

  /// NearNumber::units of a value inside; infinite where there is an absolute bound.
  double units(const PlanValue& x) const {
    if (is_tanh(x)) return kTanhUnits;
    if (x.op == ir::Op::Div) return units_of(x.in[0]) + kQuotientUnits;
    double sum = 0;
    for (int in : x.in)
      if (in >= 0) sum += units_of(in);
    if (sum == 0 || x.op == ir::Op::Neg) return sum;
    return x.op == ir::Op::Mul ? sum + kOperationUnits : std::numeric_limits<double>::infinity();
  }

  const KernelPlan& plan_;
  std::vector<int> uses_;
  std::vector<bool> gains_;
  std::vector<double> units_;  ///< 0 of what is not inside
  std::vector<Near> made_;
};

}  // namespace

bool is_tanh(const PlanValue& x) {
  return x.op == ir::Op::Call && x.payload == static_cast<int64_t>(ir::Routine::VectorTanh);
}

OnePlusExp one_plus_exp(const KernelPlan& plan, int v) {
  const PlanValue& sum = plan.values[static_cast<size_t>(v)];
  if (sum.op != ir::Op::Add || sum.type != ScalarType::Float) return {};
  for (const auto& [one, exp] :
       {std::pair{sum.in[0], sum.in[1]}, std::pair{sum.in[1], sum.in[0]}}) {
    const PlanValue &k = plan.values[static_cast<size_t>(one)],
                    &e = plan.values[static_cast<size_t>(exp)];
    if (k.op == ir::Op::Const && std::bit_cast<double>(k.payload) == 1.0 && e.op == ir::Op::Call &&
        e.payload == static_cast<int64_t>(ir::Routine::VectorExp))
      return {exp, e.in[0]};
  }
  return {};
}

std::vector<Near> near_roundings(const KernelPlan& plan) {
  return Roundings(plan).run();
}

}  // namespace graft::codegen
