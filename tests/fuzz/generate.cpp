#include "fuzz/generate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "codegen/backend.h"
#include "ops/lower.h"
#include "record/trace.h"

namespace graft::fuzz {

namespace {

constexpr int64_t kMostElements = 20000;

const std::vector<at::ScalarType> kFloats = {at::kFloat,    at::kFloat,  at::kFloat,
                                             at::kBFloat16, at::kDouble, at::kHalf};
const std::vector<at::ScalarType> kIntegers = {at::kLong, at::kInt,   at::kByte,
                                               at::kBool, at::kShort, at::kChar};

std::vector<int64_t> random_sizes(Random& random) {
  static const std::vector<int64_t> dims = {1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64, 65};
  switch (random.below(12)) {
    case 0:
      return {};
    case 1:
      return {random.pick<int64_t>({1, 15, 16, 17, 63, 64, 65, 128, 1000})};
    case 2:
      return {random.pick(dims), 0};
    case 3:
    case 4:
      return {random.between(1, 4), random.between(1, 6), random.pick(dims)};
    case 5:
      return {random.between(1, 3), random.between(1, 4), random.between(1, 5), random.pick(dims)};
    default:
      return {random.pick(dims), random.pick(dims)};
  }
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes,
                                   const std::vector<int64_t>& order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[static_cast<size_t>(order[i])] = next;
    next *= std::max<int64_t>(sizes[static_cast<size_t>(order[i])], 1);
  }
  return strides;
}

std::vector<int64_t> random_strides(const std::vector<int64_t>& sizes, Random& random) {
  std::vector<int64_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
  if (random.chance(0.2)) std::reverse(order.begin(), order.end());
  std::vector<int64_t> padded = sizes, strides;
  if (!padded.empty() && random.chance(0.2)) padded.back() += random.between(1, 3);
  strides = dense_strides(padded, order);
  if (random.chance(0.1))
    for (int64_t& stride : strides) stride *= 2;
  if (!strides.empty() && random.chance(0.07))
    strides[static_cast<size_t>(random.below(static_cast<int64_t>(strides.size())))] = 0;
  return strides;
}

/// Runs one step; does Graft promise eager's bits for it?
bool runs_exactly(const Step& step, const Tensors& values, Tensors& made, bool& either_zero) {
  auto lowered = [&] {
    auto run = [&] { made = execute(step, values); };
    return ops::lower(record::record(values, run, [&] { return made; }),
                      {.target = codegen::host_target(1)});
  };
  ops::Lowered first = lowered();
  either_zero = first.either_zero;
  if (!first.broken) return first.exact;
  // An out= argument of another size breaks the first call alone.
  if (first.broken->find("resized") == std::string::npos) return true;
  ops::Lowered second = lowered();
  return second.broken || second.exact;
}

/// Has it other results for -0 than for +0, beside zeros?
bool tells_zeros_apart(const Step& step) {
  static constexpr std::string_view kOperators[] = {"rsqrt",     "reciprocal", "div",         "pow",
                                                    "copysign",  "signbit",    "atan2",       "log",
                                                    "remainder", "fmod",       "floor_divide"};
  return std::any_of(std::begin(kOperators), std::end(kOperators), [&](std::string_view name) {
    return step.op.schema().name().find(name) != std::string::npos;
  });
}

/// The bytes of all memory behind some tensors, and how these lie in it, to be put back.
class Saved {
 public:
  explicit Saved(const Tensors& values) {
    std::set<const void*> seen;
    for (const at::Tensor& t : values) {
      layouts_.push_back({t, t.sizes().vec(), t.strides().vec(), t.storage_offset()});
      if (t.storage().nbytes() == 0 || !seen.insert(t.storage().data()).second) continue;
      at::Tensor copy = at::empty({static_cast<int64_t>(t.storage().nbytes())}, at::kByte);
      std::memcpy(copy.mutable_data_ptr(), t.storage().data(), t.storage().nbytes());
      copies_.emplace_back(t, copy);
    }
  }
  void restore() const {
    // out= may have enlarged it.
    for (const auto& [tensor, copy] : copies_)
      std::memcpy(tensor.storage().mutable_data(), copy.const_data_ptr(),
                  std::min(copy.nbytes(), tensor.storage().nbytes()));
    for (const Layout& l : layouts_)
      if (l.tensor.sizes() != l.sizes || l.tensor.strides() != l.strides)
        l.tensor.unsafeGetTensorImpl()->set_sizes_and_strides(l.sizes, l.strides, l.offset);
  }

 private:
  struct Layout {
    at::Tensor tensor;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
  };
  std::vector<Layout> layouts_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
};

}  // namespace

Generator::Generator(uint64_t seed) : random(seed * 0x9e3779b97f4a7c15 + 1) {
  program.seed = seed;
  program.special_values = random.chance(0.5);
  program.frees = random.chance(0.6);
  allows_inexact_ = random.chance(0.35);
  alias_arguments_ = random.chance(0.4);
  // Rounding errors of sums of infinities tell nothing.
  if (allows_inexact_) program.special_values = random.chance(0.15);
  if (random.chance(0.15))
    program.guard = random.chance(0.5) ? Program::Guard::NoGrad : Program::Guard::Inference;
  make_sources();
}

int Generator::source(Source source, Placement& placement) {
  // A new base, or a place in one of the same dtype: the very same memory, overlapping or beside
  // what is there.
  int base = -1;
  int64_t offset = 0;
  if (alias_arguments_ && source.index_bound == 0 && !source.captured && random.chance(0.7))
    for (size_t b = 0; b < bases_.size(); ++b)
      if (bases_[b].second == source.dtype && bases_[b].first > 0) base = static_cast<int>(b);
  if (base < 0) {
    base = static_cast<int>(bases_.size());
    // Captured memory is not refilled at each call; its base stands for nothing.
    bool shared = !source.captured && source.index_bound == 0;
    bases_.emplace_back(shared ? source.extent() : 0, source.dtype);
  } else {
    int64_t extent = bases_[static_cast<size_t>(base)].first;
    offset = random.chance(0.4) ? 0 : random.chance(0.5) ? extent : random.below(extent);
    bases_[static_cast<size_t>(base)].first = std::max(extent, offset + source.extent());
  }
  placement.base.push_back(base);
  placement.offset.push_back(offset);
  program.sources.push_back(std::move(source));
  return static_cast<int>(program.sources.size()) - 1;
}

void Generator::make_sources() {
  Placement first;
  std::vector<int64_t> sizes = random_sizes(random);
  at::ScalarType dtype = random.chance(0.75) ? random.pick(kFloats) : random.pick(kIntegers);
  int64_t wanted = random.between(1, 4);
  for (int64_t i = 0; i < wanted; ++i) {
    Source s;
    s.dtype = dtype;
    if (random.chance(0.25))
      s.dtype = random.chance(0.5) ? random.pick(kFloats) : random.pick(kIntegers);
    s.sizes = sizes;
    if (i > 0 && random.chance(0.3)) s.sizes = random_sizes(random);
    if (i > 0 && !s.sizes.empty() && random.chance(0.25))
      s.sizes[static_cast<size_t>(random.below(static_cast<int64_t>(s.sizes.size())))] = 1;
    if (i > 0 && !s.sizes.empty() && random.chance(0.15)) s.sizes.erase(s.sizes.begin());
    s.strides = random_strides(s.sizes, random);
    s.captured = i > 0 && random.chance(0.2);
    source(std::move(s), first);
  }
  program.placements.push_back(std::move(first));
  Tensors captured = make_captured(program);
  Memory sample(program, 0, 0, captured);
  values_ = sample.inputs();
  memory_ = sample.bases();
  program.values = count();
}

int Generator::index_source(std::vector<int64_t> sizes, int64_t bound) {
  if (bound <= 0) return -1;
  for (size_t i = 0; i < program.sources.size(); ++i)
    if (program.sources[i].index_bound == bound && program.sources[i].sizes == sizes)
      return static_cast<int>(i);
  // Sources come first in the numbering, so a new one is possible only before the first step.
  if (!program.steps.empty()) return -1;
  Source s;
  s.dtype = at::kLong;
  s.index_bound = bound;
  std::vector<int64_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
  s.strides = dense_strides(sizes, order);
  s.sizes = std::move(sizes);
  int number = source(std::move(s), program.placements[0]);
  Memory sample(program, 0, 0, make_captured(program));
  values_ = sample.inputs();
  memory_ = sample.bases();
  program.values = count();
  return number;
}

int Generator::pick_any() {
  return pick([](const at::Tensor&) { return true; });
}

int Generator::pick_of_rank(int64_t at_least) {
  int number = pick([&](const at::Tensor& t) { return t.dim() >= at_least && t.numel() > 1; });
  return number >= 0 ? number : pick([&](const at::Tensor& t) { return t.dim() >= at_least; });
}

int Generator::pick_beside(int like, double same) {
  auto broadcasts = [&](const at::Tensor& t) {
    const at::Tensor& l = tensor(like);
    for (int64_t d = 1; d <= std::min(t.dim(), l.dim()); ++d)
      if (t.size(-d) != l.size(-d) && t.size(-d) != 1 && l.size(-d) != 1) return false;
    return true;
  };
  if (random.chance(same)) {
    int number = pick([&](const at::Tensor& t) {
      return t.scalar_type() == tensor(like).scalar_type() && broadcasts(t);
    });
    if (number >= 0) return number;
  }
  return pick(broadcasts);
}

int Generator::pick_like(at::IntArrayRef sizes, at::ScalarType dtype) {
  return pick([&](const at::Tensor& t) { return t.sizes() == sizes && t.scalar_type() == dtype; });
}

int64_t Generator::dim_of(int number) {
  int64_t rank = tensor(number).dim();
  if (rank == 0) return 0;
  return random.chance(0.4) ? rank - 1 : random.between(-rank, rank - 1);
}

int Generator::add(const std::string& name, std::vector<Operand> operands) {
  if (ended_) return -1;
  size_t dot = name.find('.');
  auto op = c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  if (!op) throw std::logic_error("fuzz: no operator " + name);
  const auto& arguments = op->schema().arguments();
  for (size_t k = operands.size(); k < arguments.size(); ++k)
    operands.push_back(constant_of(arguments[k].default_value().value_or(c10::IValue())));
  Step step{*op};
  step.operands = std::move(operands);
  return keep(std::move(step)) ? (latest().empty() ? -1 : latest()[0]) : -1;
}

bool Generator::fits_budget(const Tensors& made) const {
  return std::all_of(made.begin(), made.end(), [](const at::Tensor& t) {
    return t.defined() && t.numel() <= kMostElements && t.dim() <= 6 && t.layout() == at::kStrided;
  });
}

bool Generator::keep(Step step) {
  std::optional<Saved> before;
  if (step.op.schema().is_mutable()) before.emplace(values_);
  bool defined = is_defined(step, values_);
  Tensors made;
  bool wanted = false;
  try {
    bool either_zero = false;
    step.inexact = !runs_exactly(step, values_, made, either_zero) ||
                   (zeros_by_chance_ && tells_zeros_apart(step));
    zeros_by_chance_ = zeros_by_chance_ || either_zero;
    wanted = defined && fits_budget(made) && (allows_inexact_ || !step.inexact);
  } catch (const std::exception&) {
    wanted = ended_ = !program.steps.empty() && random.chance(0.03);
    made.clear();
  }
  if (!wanted) {
    if (before) before->restore();
    return false;
  }
  for (const at::Tensor& t : made) {
    int substitute = -1;
    for (const Operand& operand : step.operands)
      for (int number : operand.values)
        if (substitute < 0 && number >= 0 && tensor(number).sizes() == t.sizes() &&
            tensor(number).scalar_type() == t.scalar_type())
          substitute = number;
    step.stands_for.push_back(substitute);
    step.results.push_back(program.values++);
  }
  values_.insert(values_.end(), made.begin(), made.end());
  program.steps.push_back(std::move(step));
  return true;
}

bool Generator::place_in_captured(size_t i, Placement& placement) {
  for (size_t c = 0; c < program.sources.size(); ++c) {
    const Source& held = program.sources[c];
    const Source& mine = program.sources[i];
    if (!held.captured || held.dtype != mine.dtype || held.extent() < mine.extent() ||
        mine.index_bound > 0)
      continue;
    placement.base[i] = -1 - static_cast<int>(c);
    placement.offset[i] = random.between(0, held.extent() - mine.extent());
    return true;
  }
  return false;
}

/// Calls after the third may have their arguments alias in another way.
void Generator::add_placements() {
  program.calls = {0, 0, 0, 0};
  if (!random.chance(0.4)) return;
  Placement other = program.placements[0];
  for (size_t i = 0; i < program.sources.size(); ++i) {
    if (program.sources[i].captured || program.sources[i].index_bound > 0) continue;
    if (random.chance(0.2) && place_in_captured(i, other)) continue;
    // In another input's memory, or in memory of its own.
    int fresh = static_cast<int>(program.sources.size() + i);
    other.base[i] = fresh;
    other.offset[i] = 0;
    for (size_t j = 0; j < i; ++j) {
      const Source& a = program.sources[j];
      if (a.captured || a.index_bound > 0 || a.dtype != program.sources[i].dtype ||
          other.base[j] < 0)
        continue;
      if (!random.chance(0.6)) continue;
      other.base[i] = other.base[j];
      other.offset[i] = other.offset[j] + (random.chance(0.5) ? 0 : random.below(a.extent() + 1));
    }
  }
  program.placements.push_back(std::move(other));
  program.calls = {0, 0, 0, 1, 1, 1, 0, 1};
}

Program Generator::finish() {
  // Results: what came last, and a few others; now and then an input, or one value twice.
  int64_t wanted = random.between(1, 4);
  for (int64_t i = 0; i < wanted; ++i) {
    int number =
        random.chance(0.1)
            ? static_cast<int>(random.below(static_cast<int64_t>(program.sources.size())))
            : program.values - 1 - static_cast<int>(random.below(std::min(program.values, 8)));
    program.results.push_back(number);
  }
  add_placements();
  return std::move(program);
}

Program generate(uint64_t seed) {
  at::NoGradGuard no_grad;
  at::manual_seed(seed);
  Generator g(seed);
  using Family = void (*)(Generator&);
  struct Weighted {
    Family add;
    int weight;
  };
  static constexpr Weighted kFamilies[] = {
      {add_pointwise, 40}, {add_view, 18}, {add_join, 8},   {add_copy, 10}, {add_reduction, 8},
      {add_norm, 3},       {add_index, 6}, {add_extern, 3}, {add_loop, 4},  {add_idiom, 8}};
  int total = 0;
  for (const Weighted& family : kFamilies) total += family.weight;
  // Indices have to be inputs, and inputs come first.
  if (g.random.chance(0.3)) add_index(g);
  if (g.random.chance(0.2)) add_loop(g);
  if (g.random.chance(0.2)) add_idiom(g);
  int64_t steps = g.random.chance(0.15) ? g.random.between(20, 45) : g.random.between(1, 16);
  for (int tries = 0;
       tries < 200 && static_cast<int64_t>(g.program.steps.size()) < steps && !g.ended(); ++tries) {
    int64_t draw = g.random.below(total);
    for (const Weighted& family : kFamilies) {
      draw -= family.weight;
      if (draw < 0) {
        family.add(g);
        break;
      }
    }
  }
  return g.finish();
}

}  // namespace graft::fuzz
