// The plans of a box of sizes.
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <stdexcept>

#include "codegen/backend.h"
#include "runtime/family/family.h"

namespace graft::runtime {

namespace {

/// Sizes below that get plans of their own: what depends on them does so in many ways.
constexpr int64_t kFew = 18;
/// Examples have these remainders of 16. None is a multiple of 4, nor is the next number, nor one
/// more than a multiple of 8; all else is met.
constexpr std::array<int64_t, 7> kRemainders = {2, 5, 14, 13, 6, 10, 2};
constexpr int64_t kUnit = 16;
constexpr int kMostHalvingsOfUnits = 1;
constexpr size_t kMostExamples = 8;  ///< per size

/// Boxes begin behind powers of two, where thresholds lie.
int64_t border(int power) {
  return (int64_t{1} << power) + kRemainders[0];
}

SizeRange range_of(int64_t size) {
  if (size < kFew) return {size, size};
  int power = std::bit_width(static_cast<uint64_t>(size)) - 1;
  if (power > 4 && size < border(power)) --power;
  return {border(power), border(power + 1)};
}

bool is_plain(int64_t size) {
  return std::find(kRemainders.begin(), kRemainders.end(), size % 16) != kRemainders.end();
}

/// The multiple of `unit` nearest to `size` whose multiple has that remainder.
int64_t near(int64_t size, int64_t unit, int64_t remainder) {
  return (size / unit / 16 * 16 + remainder) * unit;
}

std::vector<int64_t> examples(const SizeRange& range, int64_t unit) {
  if (range.low == range.high) return {range.low};
  const int64_t width = range.high - range.low;
  std::vector<int64_t> found;
  if (unit == 1) found = {range.low, range.high};
  if (width / unit < 64) {
    for (int64_t s = (range.low + unit - 1) / unit * unit; s <= range.high; s += unit)
      if (is_plain(s / unit)) found.push_back(s);
  } else {
    for (size_t k = 0; k < kRemainders.size(); ++k)
      found.push_back(near(range.low + width * static_cast<int64_t>(k) / 6, unit, kRemainders[k]));
  }
  std::erase_if(found, [&](int64_t s) { return s < range.low || s > range.high; });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  while (found.size() > kMostExamples)
    found.erase(found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2));
  return found;
}

/// Points of a box, each once, of a few sizes of each symbol.
struct Grid {
  std::vector<std::vector<int64_t>> sizes;
  std::vector<Point> points = {};

  /// Has each symbol any?
  bool reaches(const Box& box, int64_t unit,
               std::vector<int64_t> (*sizes_of)(const SizeRange&, int64_t)) {
    for (const SizeRange& range : box) sizes.push_back(sizes_of(range, unit));
    return std::none_of(sizes.begin(), sizes.end(), [](const auto& of) { return of.empty(); });
  }
  /// `pick`: which of the sizes of symbol k, counted round.
  template <class Pick>
  void add(Pick pick) {
    Point point;
    for (size_t k = 0; k < sizes.size(); ++k) point.push_back(sizes[k][pick(k) % sizes[k].size()]);
    if (std::find(points.begin(), points.end(), point) == points.end())
      points.push_back(std::move(point));
  }
};

/// All corners, and mixtures of what lies between. The last one is the highest corner.
std::vector<Point> points_in(const Box& box, int64_t unit) {
  Grid grid;
  if (!grid.reaches(box, unit, examples)) return {};
  for (size_t i = 0; i < kMostExamples; ++i) grid.add([&](size_t) { return i; });
  if (box.size() > 1) {
    for (size_t corner = 0; corner < size_t{1} << box.size(); ++corner)
      grid.add([&](size_t k) { return (corner >> k & 1) != 0 ? grid.sizes[k].size() - 1 : 0; });
    for (size_t i = 1; i < 4; ++i) grid.add([&](size_t k) { return i * (k + 1); });
  }
  Point top;
  for (const auto& sizes : grid.sizes) top.push_back(sizes.back());
  std::erase(grid.points, top);
  grid.points.push_back(std::move(top));
  return std::move(grid.points);
}

/// Sizes of all remainders but those of a rest of one (of blocks of 8 and more). Of narrow ranges,
/// all multiples of 4.
std::vector<int64_t> witness_sizes(const SizeRange& range, int64_t unit) {
  constexpr std::array<int64_t, 8> kMixed = {0, 44, 67, 16, 123, 88, 31, 100};
  const int64_t width = (range.high - range.low) / unit, period = width >= 256 ? 128 : 16;
  std::vector<int64_t> found;
  if (width < 32) {
    for (int64_t s = (range.low + unit - 1) / unit; s * unit <= range.high; ++s)
      if (s % 4 == 0) found.push_back(s * unit);
    return found;
  }
  for (size_t k = 0; k < kMixed.size(); ++k) {
    const int64_t wanted = range.low / unit + width * static_cast<int64_t>(2 * k + 1) / 16,
                  size = (wanted / period * period + kMixed[k] % period) * unit;
    const bool one = unit == 1 && size % 8 == 1;
    if (size >= range.low && size <= range.high && !one) found.push_back(size);
  }
  return found;
}

/// Points that divide by anything. Their own schedules may differ from those of others in nothing
/// but which stores go past the cache: what holds for numbers that divide by little need not hold
/// for all. They also tell apart formulas of blocks. None is above `top`.
std::vector<Point> witnesses(Box box, int64_t unit, const Point& top) {
  for (size_t k = 0; k < box.size(); ++k) box[k].high = top[k];
  Grid grid;
  if (!grid.reaches(box, unit, witness_sizes)) return {};
  for (size_t i = 0; i < grid.sizes[0].size(); ++i) grid.add([&](size_t k) { return i * (k + 1); });
  return std::move(grid.points);
}

int64_t count_of(const Box& box) {
  int64_t count = 1;
  for (const SizeRange& range : box) count *= range.high - range.low + 1;
  return count;
}

/// Is the point in the box, and are its sizes multiples of `unit`?
bool contains(const Box& box, int64_t unit, std::span<const int64_t> point) {
  for (size_t k = 0; k < box.size(); ++k)
    if (point[k] < box[k].low || point[k] > box[k].high || (unit != 1 && point[k] % unit != 0))
      return false;
  return true;
}

/// Stands in for code that is not made.
void no_code(const codegen::LaunchArgs*, char*, int64_t, int64_t) {}

struct Example {
  ir::Schedule schedule;
  ir::Numbers numbers;
  std::vector<std::string> structures;  ///< one per kernel

  /// Empty where both have one structure.
  std::string difference(const Example& other) const {
    if (structures.size() != other.structures.size())
      return std::to_string(structures.size()) + " or " + std::to_string(other.structures.size()) +
             " kernels";
    for (size_t k = 0; k < structures.size(); ++k)
      if (structures[k] != other.structures[k]) return "kernel " + std::to_string(k) + " differs";
    return numbers.same_structure(other.numbers) ? "" : "their memory or calls differ";
  }
};

/// Which stores go past the cache and which loads ask for memory ahead decides nothing but time:
/// where the statements are alike, those of `other` do.
void take_hints(ir::Kernel& kernel, const ir::Kernel& other) {
  const auto alike = [&](size_t k) {
    return kernel.placed[k].axis_var == other.placed[k].axis_var &&
           kernel.placed[k].statement.loads.size() == other.placed[k].statement.loads.size();
  };
  if (kernel.placed.size() != other.placed.size() || kernel.vars.size() != other.vars.size())
    return;
  for (size_t k = 0; k < kernel.placed.size(); ++k) {
    if (!alike(k)) continue;
    kernel.placed[k].streamed = other.placed[k].streamed;
    kernel.placed[k].ahead = other.placed[k].ahead;
  }
}

void take_hints(ir::Schedule& schedule, const ir::Schedule& other) {
  if (schedule.steps.size() != other.steps.size()) return;
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    auto* kernel = std::get_if<ir::Kernel>(&schedule.steps[k]);
    const auto* theirs = std::get_if<ir::Kernel>(&other.steps[k]);
    if (kernel != nullptr && theirs != nullptr) take_hints(*kernel, *theirs);
  }
}

Example example(ir::Schedule schedule) {
  Example made;
  made.schedule = std::move(schedule);
  std::vector<ReadyKernel> kernels;
  for (const ir::Step& step : made.schedule.steps) {
    const auto* kernel = std::get_if<ir::Kernel>(&step);
    if (kernel == nullptr) continue;
    kernels.push_back({codegen::bind(*kernel), {no_code, nullptr, nullptr}});
    made.structures.push_back(kernels.back().binding.structure);
  }
  const Plan plan(made.schedule, std::move(kernels));
  if (!plan.has_sizes())
    throw std::runtime_error("some of it is computed once, of captured tensors");
  made.numbers = ir::numbers_of(plan);
  return made;
}

class Builder {
 public:
  Builder(const FreeProgram& program, Maker& maker)
      : program_(program), extents_(program.formulas()), maker_(maker) {}

  std::vector<BoxPlans::Leaf> leaves;
  std::string why;  ///< the first part that has none, and why

  void add(const Box& box, int64_t unit, int halvings) {
    if (const std::string cause = compile(box, unit, halvings); !cause.empty())
      halve(box, unit, halvings, cause);
  }

 private:
  using Decisions = std::map<std::string, std::string>;

  static constexpr int64_t kNarrow = 8;       ///< boxes of this width are halved no more
  static constexpr int64_t kEnd = 32;         ///< of boxes of this width, the end may differ alone
  static constexpr int kOwnHints = 4;         ///< halvings until which sizes have their own hints
  static constexpr int kMostSchedules = 400;  ///< then no box is halved
  static constexpr int64_t kMostAlone = 36;   ///< points of a box that get plans of their own
  static constexpr size_t kMostPlans = 64;

  /// One plan for the box: an empty string, or why there is none.
  std::string compile(const Box& box, int64_t unit, int halvings) {
    const std::vector<Point> points = points_in(box, unit);
    if (points.empty()) return "";
    try {
      // Ways that cost nearly the same are taken alike.
      const Decisions decisions =
          points.size() == 1 ? Decisions() : decide(points[points.size() / 2]);
      const Example top = example(schedule(points.back(), decisions));
      std::vector<Point> all;
      std::vector<ir::Numbers> numbers;
      // Adds the point, or says how its plan's structure is not the highest corner's.
      const auto meet = [&](const Point& point, bool own_hints) -> std::string {
        if (point == points.back()) return "";
        ir::Schedule own = schedule(point, decisions);
        if (!own_hints) take_hints(own, top.schedule);
        Example met = example(std::move(own));
        if (const std::string what = met.difference(top); !what.empty())
          return "at " + list(point) + " and " + list(points.back()) + ": " + what;
        all.push_back(point);
        numbers.push_back(std::move(met.numbers));
        return "";
      };
      // The lowest corner comes first: what changes within the box differs there. Each half has its
      // own hints, where there are halves.
      const bool own_hints = halvings < kOwnHints && !is_narrow(box, unit, halvings);
      for (const Point& point : points)
        if (std::string what = meet(point, own_hints); !what.empty()) return what;
      for (const Point& point : witnesses(box, unit, points.back()))
        if (std::string what = meet(point, false); !what.empty()) return what;
      all.push_back(points.back());
      numbers.push_back(top.numbers);
      auto made = std::make_unique<const Template>(
          maker_.generate(top.schedule), all, numbers, extents_,
          unit == 1 && count_of(box) == static_cast<int64_t>(points.size()));
      Box met = box;
      for (size_t k = 0; k < box.size(); ++k)
        for (const Point& point : points)
          met[k] = {std::min(point == points[0] ? point[k] : met[k].low, point[k]),
                    points.back()[k]};
      leaves.push_back({met, unit, std::move(made)});
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  ir::Schedule schedule(const Point& point, const Decisions& decisions) {
    return maker_.schedule(next_program(point), decisions);
  }
  Decisions decide(const Point& point) { return maker_.decide(next_program(point)); }
  ir::Program next_program(const Point& point) {
    if (maker_.stopping()) throw std::runtime_error("nobody asks any more");
    ++schedules_;
    return program_.at(point);
  }

  static int64_t width(const SizeRange& range) { return range.high - range.low; }
  static size_t widest(const Box& box) {
    size_t found = 0;
    for (size_t k = 1; k < box.size(); ++k)
      if (width(box[k]) > width(box[found])) found = k;
    return found;
  }
  /// Is it halved no more?
  bool is_narrow(const Box& box, int64_t unit, int halvings) const {
    return (unit > 1 && halvings >= kMostHalvingsOfUnits) || width(box[widest(box)]) <= kNarrow ||
           schedules_ >= kMostSchedules || leaves.size() >= kMostPlans;
  }
  bool is_served(const Point& point) const {
    return std::any_of(leaves.begin(), leaves.end(), [&](const BoxPlans::Leaf& leaf) {
      return contains(leaf.box, leaf.unit, point);
    });
  }

  void halve(const Box& box, int64_t unit, int halvings, const std::string& cause) {
    if (maker_.stopping()) return;
    const size_t k = widest(box);
    const SizeRange whole = box[k];
    // Blocks of 16 and more begin behind multiples of 16, just below a box's end.
    if (unit == 1 && width(whole) > kNarrow && width(whole) <= kEnd) {
      Box shorter = box, rest = box;
      do --shorter[k].high;
      while (!is_plain(shorter[k].high));
      rest[k].low = shorter[k].high + 1;
      if (compile(shorter, unit, halvings).empty()) return add_alone(rest, cause);
    }
    if (is_narrow(box, unit, halvings)) {
      // (Plans of other sizes serve multiples, too.)
      if (unit == 1) add_alone(box, cause);
      return;
    }
    int64_t middle = whole.low + width(whole) / 2;
    if (width(whole) >= 64)
      middle = near(middle, 1, kRemainders[0]);
    else
      while (!is_plain(middle)) ++middle;
    Box low = box, high = box;
    low[k] = {whole.low, middle};
    high[k] = {middle, whole.high};
    add(low, unit, halvings + 1);
    add(high, unit, halvings + 1);
  }

  /// Each point of the box gets a plan of its own, where they are few.
  void add_alone(const Box& box, const std::string& cause) {
    if (count_of(box) > kMostAlone || leaves.size() >= kMostPlans) return lack(box, cause);
    Point point;
    for (const SizeRange& range : box) point.push_back(range.low);
    for (size_t k = 0; k < box.size();) {
      if (!is_served(point)) {
        Box alone;
        for (int64_t size : point) alone.push_back({size, size});
        if (const std::string none = compile(alone, 1, 0); !none.empty()) lack(alone, none);
      }
      for (k = 0; k < box.size() && ++point[k] > box[k].high; ++k) point[k] = box[k].low;
    }
  }

  void lack(const Box& box, const std::string& cause) {
    if (!why.empty()) return;
    const SizeRange& whole = box[widest(box)];
    why = "sizes " + std::to_string(whole.low) + " to " + std::to_string(whole.high) + ": " + cause;
  }

  const FreeProgram& program_;
  const std::vector<Formula> extents_;
  Maker& maker_;
  int schedules_ = 0;
};

}  // namespace

Box box_of(std::span<const int64_t> point) {
  Box box;
  for (int64_t size : point) box.push_back(range_of(size));
  return box;
}

Template::Template(std::unique_ptr<const Plan> plan, std::span<const Point> points,
                   std::span<const ir::Numbers> numbers, std::span<const Formula> extents, bool all)
    : plan_(std::move(plan)), values_(numbers.back().values) {
  std::map<std::pair<bool, std::vector<int64_t>>, uint32_t> known;
  std::vector<int64_t> values(points.size());
  bool shrinks = false, has_rooms = false;
  size_t next_part = 0;
  auto check_rooms = [&] {
    if (shrinks && has_rooms) throw std::runtime_error("parts of its memory shrink with the sizes");
    shrinks = has_rooms = false;
  };
  for (uint32_t i = 0; i < values_.size(); ++i) {
    const ir::NumberKind kind = numbers.back().kinds[i];
    const auto& parts = numbers.back().parts;
    for (; next_part < parts.size() && parts[next_part].first == i; ++next_part) check_rooms();
    const bool largest = next_part > 0 && parts[next_part - 1].largest;
    for (size_t k = 0; k < numbers.size(); ++k) values[k] = numbers[k].values[i];
    if (std::equal(values.begin() + 1, values.end(), values.begin())) continue;
    const bool largest_last = *std::max_element(values.begin(), values.end()) == values.back();
    // The highest corner's regions hold what lies in them elsewhere, if that is no larger there.
    if (kind == ir::NumberKind::Room) {
      has_rooms = !largest;
      continue;
    }
    if (kind == ir::NumberKind::Free) {
      values_[i] = numbers[numbers.size() / 2].values[i];
      continue;
    }
    const bool real = kind == ir::NumberKind::Real;
    shrinks = shrinks || (!real && !largest_last);
    auto [found, fresh] = known.try_emplace({real, values}, 0);
    if (fresh) {
      auto formula = explain(points, values, kind, extents, all);
      if (!formula) throw std::runtime_error("a number of the plan is " + list(values));
      found->second = formulas_.add(std::move(*formula));
    }
    follows_.emplace_back(i, found->second);
  }
  check_rooms();
}

std::vector<int64_t> Template::numbers(const Formulas::Values& of) const {
  std::vector<int64_t> values = values_;
  for (auto [place, formula] : follows_) values[place] = of[formula];
  return values;
}

std::shared_ptr<const Plan> Template::at(std::span<const int64_t> point) const {
  if (is_constant()) return plan_;
  Formulas::Values of;
  return formulas_.at(point, of) ? plan_->with_numbers(numbers(of)) : nullptr;
}

Refill::Refill(const Template& of) : of_(&of), plan_(of.plan_->with_numbers(of.values_)) {
  ir::NumberPlaces all;
  plan_->visit(all);
  for (auto [place, formula] : of.follows_) places_.push_back(all.places[place]);
  if (std::any_of(places_.begin(), places_.end(), [](const auto& to) { return to.at == nullptr; }))
    places_.clear();
}

std::shared_ptr<const Plan> Refill::at(std::span<const int64_t> point) {
  Formulas::Values of;
  if (!of_->formulas_.at(point, of)) return nullptr;
  if (places_.empty()) {
    plan_->set_numbers(of_->numbers(of));
  } else {
    const auto* follows = of_->follows_.data();
    for (const auto& to : places_) *to.at = to.base + of[(follows++)->second];
  }
  return plan_;
}

BoxPlans::BoxPlans(const FreeProgram& program, const Box& box, Maker& maker) {
  Builder builder(program, maker);
  const bool wide = std::all_of(box.begin(), box.end(),
                                [](const SizeRange& r) { return r.high - r.low >= 5 * kUnit; });
  if (wide) builder.add(box, kUnit, 0);
  builder.add(box, 1, 0);
  leaves_ = std::move(builder.leaves);
  why_ = std::move(builder.why);
}

c10::SmallVector<const Template*, 2> BoxPlans::of(std::span<const int64_t> point) const {
  c10::SmallVector<const Template*, 2> found;
  for (const Leaf& leaf : leaves_)
    if (contains(leaf.box, leaf.unit, point)) found.push_back(leaf.plan.get());
  return found;
}

std::shared_ptr<const Plan> BoxPlans::at(std::span<const int64_t> point) const {
  for (const Template* one : of(point))
    if (auto plan = one->at(point)) return plan;
  return nullptr;
}

}  // namespace graft::runtime
