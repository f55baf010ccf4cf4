#include "oracle/pointwise_cases.h"

#include <sstream>

#include "oracle/recipes.h"

namespace graft::test {

using enum Layout;

bool is_thorough(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kInt || type == at::kBool;
}

namespace {

/// Around the vector widths: one structure, so one compiled kernel.
const int64_t kCounts[] = {1, 15, 16, 17, 63, 64, 65, 1000};

std::vector<PointwiseCase> one_dimensional() {
  std::vector<PointwiseCase> cases;
  for (int64_t n : kCounts) cases.push_back({.sizes = {n}});
  cases.push_back({.sizes = {0}});
  return cases;
}

void add(std::vector<PointwiseCase>& to, std::vector<std::vector<Layout>> layouts,
         std::vector<int64_t> sizes) {
  for (auto& l : layouts) to.push_back({.sizes = sizes, .layouts = std::move(l)});
}

}  // namespace

std::vector<PointwiseCase> layout_cases(int operands, bool thorough) {
  std::vector<PointwiseCase> cases = one_dimensional();
  const std::vector<int64_t> matrix = {7, 33}, cube = {3, 5, 17};
  cases.push_back({.sizes = {}});
  if (operands == 1) {
    add(cases, {{Step}, {Transposed}}, matrix);
    if (!thorough) return cases;
    add(cases, {{Rows}, {Expanded}, {Windows}}, matrix);
    add(cases, {{Transposed}}, cube);
    cases.push_back({.sizes = {1000}, .layouts = {Shifted}});
    cases.push_back({.sizes = {4, 0, 3}});
    return cases;
  }
  add(cases, {{Contiguous, ZeroDim}, {ZeroDim, Contiguous}, {Step, Contiguous}, {Row, Column}},
      matrix);
  if (!thorough) return cases;
  add(cases,
      {{Contiguous, Transposed}, {Rows, Step}, {Contiguous, Row, ZeroDim}, {Windows, Expanded}},
      matrix);
  add(cases, {{Transposed}, {Column, Contiguous, Row}}, cube);
  cases.push_back({.sizes = {1000}, .layouts = {Shifted, Contiguous, Shifted}});
  cases.push_back({.sizes = {4, 0, 3}, .layouts = {Contiguous, Row}});
  cases.push_back({.sizes = matrix, .same_tensor = true});
  return cases;
}

std::vector<PointwiseCase> few_cases(int operands) {
  std::vector<PointwiseCase> cases = {{.sizes = {65}}, {.sizes = {1000}}};
  add(cases, {{Step, Contiguous}}, {7, 33});
  if (operands > 1) add(cases, {{Contiguous, ZeroDim}}, {7, 33});
  return cases;
}

std::vector<PointwiseCase> in_place_cases(int operands, bool few) {
  std::vector<PointwiseCase> cases = {{.sizes = {65}}};
  if (few) return cases;
  cases.push_back({.sizes = {1000}});
  cases.push_back({.sizes = {0}});
  add(cases, {{Step, Contiguous}, {Transposed, Contiguous}}, {7, 33});
  if (operands > 1) {
    add(cases, {{Rows, Row}, {Contiguous, ZeroDim}}, {7, 33});
    cases.push_back({.sizes = {33}, .same_tensor = true});
  }
  return cases;
}

std::vector<PointwiseCase> out_cases(int operands) {
  std::vector<PointwiseCase> cases = {{.sizes = {65}}};
  cases.push_back({.sizes = {7, 33}, .out_layout = Step});
  cases.push_back({.sizes = {7, 33}, .out_layout = Transposed});
  cases.push_back({.sizes = {65}, .out_dtype = at::kDouble});
  if (operands > 1) cases.push_back({.sizes = {7, 33}, .layouts = {Row, Column}});
  return cases;
}

std::vector<PointwiseCase> mixed_cases(int operands) {
  std::vector<PointwiseCase> cases = {{.sizes = {33}}};
  if (operands > 1) add(cases, {{Contiguous, ZeroDim}, {ZeroDim, Contiguous}}, {33});
  return cases;
}

namespace {

/// Reasons for which a row may leave a call to ATen. Everything else that stays extern is a
/// failure.
const std::vector<std::string_view> kRefusals = {
    "relu of Bool",
    "negation of Bool",
    "floor division of Bool",
    "truncating division of Bool",
    "power of Bool",
    "clamp of Bool",
    "addcmul of Bool",
    "addcdiv of integers",
    "integer power with a tensor exponent",
    "negative integer power",
    "fp32 rounds the exponent to an integer",
    "ATen's half-precision kernels do not agree",
    "out= has other strides than the input",
    "a floating tensor fills integers",
    "its tangent is the C library's",
    "a gradient that lies otherwise",
    "half precision, of which each step is rounded",
    "bounds that are NaN",
    "a gradient of integers",
};

bool is_truth(const Form& form, int tensor) {
  const std::string& name = form.argument_name(tensor);
  return name == "condition" || name == "mask";
}

/// Does the operand take part in type promotion?
bool is_promoted(const ops::PointwiseRow& row, const Form& form, int tensor) {
  return row.promoted >> form.tensor_at[static_cast<size_t>(tensor)] & 1;
}

Tensors make_operands(const ops::PointwiseRow& row, const Form& form, const PointwiseCase& c,
                      at::ScalarType type, int call) {
  Random random(
      seed_of(form.text, static_cast<uint64_t>(call) * 977 + static_cast<uint64_t>(type)));
  Tensors made;
  for (int i = 0; i < form.operands; ++i) {
    size_t at = static_cast<size_t>(i);
    Layout layout = c.layouts.empty() ? Contiguous : c.layouts[std::min(at, c.layouts.size() - 1)];
    at::ScalarType dtype = c.other && i > 0 && is_promoted(row, form, i) ? *c.other : type;
    if (is_truth(form, i)) dtype = at::kBool;
    if (c.same_tensor && i > 0 && dtype == made[0].scalar_type()) {
      made.push_back(made[0]);
      continue;
    }
    // One tensor for all operands has to do as a divisor as well.
    int k = c.same_tensor ? 1 : form.tensor_at[at];
    made.push_back(lay_out(dtype, row.domain, k, c.sizes, layout, random, c.specials));
  }
  return made;
}

/// out= tensors of the layout that the case asks for. What eager would make tells their sizes and
/// dtypes.
void add_outs(const Form& form, const PointwiseCase& c, Tensors& arguments) {
  size_t operands = arguments.size(), outs = form.tensor_at.size() - operands;
  if (outs == 0) return;
  Tensors made = arguments;
  for (size_t i = 0; i < outs; ++i)
    made.push_back(at::empty({0}, c.out_dtype.value_or(arguments[0].scalar_type())));
  // A result of another dtype than the operands' is found by letting eager complain.
  for (at::ScalarType type : {made.back().scalar_type(), at::kFloat, at::kBool, at::kLong}) {
    for (size_t i = 0; i < outs; ++i) made[operands + i] = at::empty({0}, type);
    try {
      call(form, made);
      break;
    } catch (const std::exception&) {
    }
  }
  Random random(7);
  for (size_t i = 0; i < outs; ++i) {
    const at::Tensor& like = made[operands + i];
    arguments.push_back(
        lay_out(like.scalar_type(), ops::Domain::Any, 0, like.sizes().vec(), c.out_layout, random));
  }
}

/// Operands as ATen's vector loop likes them: contiguous, and as many as fill whole vectors. Empty
/// where there is no such call: kernels of three operands have no vector loop for a 0-dim one, and
/// of another dtype it cannot be spread.
Tensors padded(const Form& form, const Tensors& arguments) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < static_cast<size_t>(form.operands); ++i)
    sizes = at::infer_size(sizes, arguments[i].sizes());
  Tensors out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const at::Tensor& t = arguments[i];
    bool operand = i < static_cast<size_t>(form.operands);
    bool number = t.dim() == 0 && (!sizes.empty() || i > 0);
    if (number && form.operands > 2) {
      if (t.scalar_type() != arguments[0].scalar_type()) return {};
      number = false;
    }
    if (!operand) {
      out.push_back(at::empty({0}, t.options()));
    } else if (number) {
      out.push_back(t);
    } else {
      at::Tensor flat = t.expand(sizes).contiguous().flatten();
      int64_t missing = (64 - flat.numel() % 64) % 64;
      if (missing > 0 && flat.numel() > 0)
        flat = at::cat({flat, flat.slice(0, 0, 1).expand({missing})});
      out.push_back(flat.clone());
    }
  }
  return out;
}

std::string label_of(const Form& form, const PointwiseCase& c, at::ScalarType type) {
  std::ostringstream out;
  out << form.text << " " << c10::toString(type) << at::IntArrayRef(c.sizes);
  for (Layout layout : c.layouts) out << " " << name_of(layout);
  if (c.other) out << " with " << c10::toString(*c.other);
  if (form.out) out << " out " << name_of(c.out_layout);
  if (c.same_tensor) out << " same tensor";
  return out.str();
}

}  // namespace

Check check_of(const ops::PointwiseRow& row, const Form& form, const PointwiseCase& c,
               at::ScalarType type) {
  Check check;
  check.label = label_of(form, c, type);
  check.f = [form](const Tensors& tensors) { return call(form, tensors); };
  check.arguments = [&row, form, c, type](int k) {
    Tensors made = make_operands(row, form, c, type, k);
    add_outs(form, c, made);
    return made;
  };
  check.body = [form](const Tensors& tensors) -> Tensors {
    Tensors operands = padded(form, tensors);
    return operands.empty() ? Tensors{} : call(form, operands);
  };
  check.ulps = row.bits.tail_ulps;
  if (row.bits.exactness == ops::Exactness::Close) {
    check.body = nullptr;
    check.ulps = 1e9;  // the judge looks at the results
    check.judge = [f = check.f](const Tensors& arguments, const Tensors& eager,
                                const Tensors& came) {
      return judge_by_double(f, arguments, eager, came, /*sums=*/false);
    };
  }
  if (c10::elementSize(type) < c10::elementSize(at::kFloat) && at::isFloatingType(type))
    check.computed = type;
  else if (type != at::kDouble)
    check.computed = at::kFloat;
  check.may_refuse = kRefusals;
  // A NaN of the vector body's, and alpha b rounded to fp16 in the tail: docs/numerics.md.
  check.eager_may_lose_numbers =
      row.name == "aten::fmod" || row.name == "aten::remainder" ||
      ((row.name == "aten::add" || row.name == "aten::sub") && type == at::kHalf);
  // Eager gives the buffer other strides, and a plan cannot.
  if (row.name == "aten::log_sigmoid_forward" && form.out && c.out_layout != Contiguous)
    check.must_fuse = false;
  // Nothing runs for an empty tensor, so nothing is fused either.
  for (int64_t size : c.sizes) check.must_fuse = check.must_fuse && size != 0;
  return check;
}

Check fast_check_of(const ops::PointwiseRow& row, const Form& form, const PointwiseCase& c,
                    at::ScalarType type, bool chain) {
  Check check = check_of(row, form, c, type);
  check.label += chain ? " fast, in a chain" : " fast";
  check.numerics = Numerics::Fast;
  if (chain)
    check.f = [f = check.f](const Tensors& tensors) {
      Tensors operands = tensors;
      if (at::isFloatingType(operands[0].scalar_type())) operands[0] = operands[0] * 0.75 + 0.125;
      Tensors results = f(operands);
      for (at::Tensor& t : results)
        if (at::isFloatingType(t.scalar_type())) t = t * 1.5 - 0.25;
      return results;
    };
  check.body = nullptr;
  check.ulps = 1e9;  // the judge looks at the results
  check.judge = [f = check.f](const Tensors& arguments, const Tensors& eager, const Tensors& came) {
    return judge_by_double(f, arguments, eager, came, /*sums=*/false);
  };
  return check;
}

}  // namespace graft::test
