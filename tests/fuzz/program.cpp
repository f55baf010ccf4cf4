#include "fuzz/program.h"

#include <ATen/core/stack.h>

#include <algorithm>
#include <map>

namespace graft::fuzz {

int64_t Source::extent() const {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

namespace {

at::Tensor value(const Tensors& values, int number) {
  return number < 0 ? at::Tensor() : values.at(static_cast<size_t>(number));
}

c10::IValue argument(const Operand& operand, const Tensors& values) {
  switch (operand.kind) {
    case Operand::Kind::Constant:
      return operand.constant;
    case Operand::Kind::Value:
      return value(values, operand.values.at(0));
    case Operand::Kind::Values: {
      c10::List<at::Tensor> list;
      for (int number : operand.values) list.push_back(value(values, number));
      return list;
    }
    case Operand::Kind::OptionalValues: {
      c10::List<std::optional<at::Tensor>> list;
      for (int number : operand.values)
        list.push_back(number < 0 ? std::nullopt : std::make_optional(value(values, number)));
      return list;
    }
  }
  return {};
}

template <class Visit>
void each_value(const Step& step, Visit visit) {
  for (const Operand& operand : step.operands)
    for (int number : operand.values)
      if (number >= 0) visit(number);
}

/// Numbers that no step after `i` and no result needs.
std::vector<std::vector<int>> last_uses(const Program& program) {
  std::map<int, size_t> last;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    each_value(program.steps[i], [&](int number) { last[number] = i; });
    for (int number : program.steps[i].results) last[number] = i;
  }
  for (int number : program.results) last.erase(number);
  std::vector<std::vector<int>> dead(program.steps.size());
  for (auto [number, i] : last) dead[i].push_back(number);
  return dead;
}

}  // namespace

Tensors execute(const Step& step, const Tensors& values) {
  torch::jit::Stack stack;
  for (const Operand& operand : step.operands) stack.push_back(argument(operand, values));
  step.op.callBoxed(stack);
  Tensors results;
  for (const c10::IValue& returned : stack) {
    if (returned.isTensor()) results.push_back(returned.toTensor());
    if (returned.isTensorList())
      for (const at::Tensor& t : returned.toTensorVector()) results.push_back(t);
  }
  return results;
}

Tensors execute(const Program& program, const Tensors& inputs, const StepHook& after,
                const BeforeStep& before) {
  Tensors values(static_cast<size_t>(program.values));
  std::copy(inputs.begin(), inputs.end(), values.begin());
  std::vector<std::vector<int>> dead;
  if (program.frees) dead = last_uses(program);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (before) before(step, values);
    {
      Tensors made = execute(step, values);
      if (after) after(step, made);
      for (size_t k = 0; k < step.results.size() && k < made.size(); ++k)
        values[static_cast<size_t>(step.results[k])] = std::move(made[k]);
    }
    if (program.frees)
      for (int number : dead[i]) values[static_cast<size_t>(number)] = at::Tensor();
  }
  Tensors results;
  for (int number : program.results) results.push_back(value(values, number));
  return results;
}

Program without(const Program& program, const std::set<int>& steps, const std::set<int>& results) {
  Program out = program;
  out.steps.clear();
  out.results.clear();
  std::vector<int> now(static_cast<size_t>(program.values), -1);  // what to read instead; -1: gone
  for (size_t i = 0; i < program.sources.size(); ++i) now[i] = static_cast<int>(i);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    Step step = program.steps[i];
    bool dropped = steps.contains(static_cast<int>(i));
    for (Operand& operand : step.operands)
      for (int& number : operand.values) {
        if (number < 0) continue;
        number = now[static_cast<size_t>(number)];
        dropped = dropped || number < 0;
      }
    for (size_t k = 0; k < step.results.size(); ++k) {
      int result = program.steps[i].results[k], substitute = step.stands_for[k];
      if (!dropped)
        now[static_cast<size_t>(result)] = result;
      else
        now[static_cast<size_t>(result)] =
            substitute < 0 ? -1 : now[static_cast<size_t>(substitute)];
    }
    if (!dropped) out.steps.push_back(std::move(step));
  }
  for (size_t i = 0; i < program.results.size(); ++i) {
    int number = now[static_cast<size_t>(program.results[i])];
    if (number >= 0 && !results.contains(static_cast<int>(i))) out.results.push_back(number);
  }
  return out;
}

// --- Memory

namespace {

constexpr int64_t kGuard = 16;  ///< elements around each base's inputs, to see stray stores

at::Tensor fill(const Program& program, const Source& like, int64_t count, uint64_t seed) {
  Random random(program.seed * 7919 + seed);
  if (like.index_bound > 0) {
    at::Tensor out = at::empty({count}, at::kLong);
    for (int64_t i = 0; i < count; ++i)
      out.mutable_data_ptr<int64_t>()[i] = random.below(like.index_bound);
    return out;
  }
  return test::random_values(like.dtype, ops::Domain::Any, 0, count, random,
                             program.special_values);
}

at::Tensor over(const at::Tensor& base, const Source& source, int64_t offset) {
  // A tensor of its own over shared memory, as two arguments of a caller's are: not a view that
  // autograd knows of.
  at::Tensor out = at::empty({0}, base.options());
  out.set_(base.storage(), offset + kGuard, source.sizes, source.strides);
  return out;
}

}  // namespace

Memory::Memory(const Program& program, int placement, int call, const Tensors& captured) {
  const Placement& place = program.placements[static_cast<size_t>(placement)];
  int bases = 0;
  for (int base : place.base) bases = std::max(bases, base + 1);
  for (int b = 0; b < bases; ++b) {
    const Source* like = nullptr;
    int64_t count = 0;
    for (size_t i = 0; i < place.base.size(); ++i) {
      if (place.base[i] != b) continue;
      like = &program.sources[i];
      count = std::max(count, place.offset[i] + like->extent());
    }
    if (like == nullptr)
      bases_.emplace_back();
    else
      bases_.push_back(
          fill(program, *like, count + 2 * kGuard, static_cast<uint64_t>(call * 64 + b)));
  }
  for (size_t i = 0; i < program.sources.size(); ++i) {
    const Source& source = program.sources[i];
    int base = place.base[i];
    if (source.captured)
      inputs_.push_back(captured[i]);
    else if (base < 0)
      inputs_.push_back(over(captured[static_cast<size_t>(-1 - base)], source, place.offset[i]));
    else
      inputs_.push_back(over(bases_[static_cast<size_t>(base)], source, place.offset[i]));
  }
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& t : tensors) copies.push_back(t.defined() ? t.clone() : t);
  return copies;
}

Tensors make_captured(const Program& program) {
  Tensors out(program.sources.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const Source& source = program.sources[i];
    if (!source.captured) continue;
    at::Tensor base = fill(program, source, source.extent() + 2 * kGuard, 5000 + i);
    out[i] = over(base, source, 0);
  }
  return out;
}

Function function_of(const Program& program, const Tensors& captured) {
  return [program, captured](const Tensors& arguments) {
    Tensors inputs = captured;
    size_t next = 0;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!program.sources[i].captured) inputs[i] = arguments[next++];
    return execute(program, inputs);
  };
}

}  // namespace graft::fuzz
