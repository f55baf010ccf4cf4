#include "codegen/llvm/emitter.h"
#include "ir/facts.h"

namespace graft::codegen {

using ir::TypeClass;

Emitter::At::At(Emitter& emitter, int depth)
    : e_(emitter), saved_(emitter.b_.saveIP()), saved_depth_(emitter.at_depth_) {
  if (depth >= saved_depth_) return;
  for (const Frame& frame : e_.frames_)
    if (frame.depth == depth + 1) {
      e_.b_.SetInsertPoint(frame.before->getTerminator());
      break;
    }
  e_.at_depth_ = depth;
}

Emitter::At::~At() {
  // Where nothing moved, what was emitted may have ended the block.
  if (e_.at_depth_ == saved_depth_) return;
  e_.b_.restoreIP(saved_);
  e_.at_depth_ = saved_depth_;
}

Emitter::Frame& Emitter::frame_at(int depth) {
  size_t k = frames_.size() - 1;
  while (frames_[k].depth != depth) --k;
  return frames_[k];
}

llvm::Value* Emitter::get(int v) {
  const PlanValue& plan = value(v);
  size_t c = plan.varying ? copy_ : 0;
  Emitted& known = emitted_[static_cast<size_t>(v)];
  if (known.value.size() > c && known.value[c]) return known.value[c];
  At at(*this, loop(plan.home).depth);
  if (llvm::Value* there = kept(v)) return remember(v, there);
  return remember(v, compute(v));
}

llvm::Value* Emitter::remember(int v, llvm::Value* made) {
  size_t c = value(v).varying ? copy_ : 0;
  Emitted& known = emitted_[static_cast<size_t>(v)];
  if (known.value.size() <= c) known.value.resize(c + 1, nullptr);
  known.value[c] = made;
  frame_at(loop(value(v).home).depth).defined.push_back(v);
  return made;
}

llvm::Value* Emitter::wide(int v) {
  const PlanValue& plan = value(v);
  if (plan.varying || plan.is_table) return get(v);
  Emitted& known = emitted_[static_cast<size_t>(v)];
  if (!known.wide.empty()) return known.wide[0];
  At at(*this, loop(plan.home).depth);
  llvm::Value* made = arithmetic_.mark_like(get(v), splat(get(v)));
  emitted_[static_cast<size_t>(v)].wide.push_back(made);
  return made;
}

llvm::Value* Emitter::compute(int v) {
  const PlanValue& plan = value(v);
  if (is_near(v)) return near_rounding(v);
  if (plan.table_value >= 0) return looked_up(plan);
  if (plan.is_table && plan.digit) return memory_.iota(reg(plan.type));
  switch (ir::types(plan.op)) {
    case TypeClass::Const:
      return arithmetic_.constant(plan.payload, plan.type);
    case TypeClass::Scalar: {
      llvm::Value* bits = argument(scalars_, static_cast<int>(plan.payload), b_.getInt64Ty());
      return arithmetic_.scalar(bits, plan.type);
    }
    case TypeClass::Axis: {
      if (!plan.varying)
        return loop(plan.home).var < 0 ? range_counter(static_cast<int>(plan.payload))
                                       : frame_at(loop(plan.home).depth).index;
      return b_.CreateAdd(splat(lanes_[copy_].index), memory_.iota(b_.getInt64Ty()));
    }
    case TypeClass::Load:
      return load(plan);
    case TypeClass::Reduced:
      throw std::runtime_error("graft: a reduction's result is used before it is complete");
    case TypeClass::Number:
    case TypeClass::Real:
    case TypeClass::Single:
    case TypeClass::Integer:
    case TypeClass::Logic:
    case TypeClass::Compare:
    case TypeClass::Select:
    case TypeClass::Cast:
    case TypeClass::Bitcast:
    case TypeClass::Call:
      break;
  }
  std::array<llvm::Value*, 3> x = {};
  for (size_t k = 0; k < 3; ++k)
    if (plan.in[k] >= 0) x[k] = plan.varying || plan.is_table ? wide(plan.in[k]) : get(plan.in[k]);
  return operation(plan, x);
}

/// A node with operands.
llvm::Value* Emitter::operation(const PlanValue& plan, const std::array<llvm::Value*, 3>& x) {
  if (plan.op == ir::Op::Call) {
    const auto routine = static_cast<ir::Routine>(plan.payload);
    llvm::Value* made = calls_.call(routine, plan.type, x[0], x[1]);
    return is_arithmetic(routine, machine_.target) ? arithmetic_.mark_like(x[0], made) : made;
  }
  ScalarType operand = value(plan.in[plan.op == ir::Op::Select ? 1 : 0]).type;
  return arithmetic_.node(plan.op, plan.type, operand, x[0], x[1], x[2]);
}

/// An entry of a table in a register. Of the index the low bits count.
llvm::Value* Emitter::looked_up(const PlanValue& v) {
  const PlanValue& digit = value(v.digit_value);
  auto word = [&](int index) {
    return b_.CreateZExtOrTrunc(wide(index), lanes_of(b_.getInt32Ty()));
  };
  llvm::Value* index = nullptr;
  if (digit.low_bits_of >= 0) {
    index = word(digit.in[static_cast<size_t>(digit.low_bits_of)]);
  } else if (digit.op == ir::Op::Shr && value(digit.in[1]).op == ir::Op::Const &&
             is_unsigned(value(digit.in[0]).type)) {
    // Widened first, as other digits of the same code are.
    index = b_.CreateLShr(word(digit.in[0]), static_cast<uint64_t>(value(digit.in[1]).payload));
  } else {
    index = word(v.digit_value);
  }
  return memory_.pick(wide(v.table_value), index);
}

}  // namespace graft::codegen
