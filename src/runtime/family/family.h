// Plans for layouts that were never recorded.
//
// Records of a function at several layouts that differ in sizes alone become one program whose
// numbers are formulas of the free sizes (*symbols*). Sizes are divided into *boxes*, by powers of
// two. When a box is first met, its program is scheduled at several of its sizes, ends included:
// where all these schedules have one structure (one machine code), and each number of their plans
// is a formula again, any size between them gets its plan by putting numbers into a copy.
//
// What depends on a size other than by growing with it (that it divides by 16, say) would give two
// of the examples different structures: they are chosen to divide by little. A second set, of
// multiples of 16, serves these. Boxes whose examples differ are halved, and what differs from size
// to size has a plan for each.
#pragma once

#include <c10/util/SmallVector.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ops/lower.h"
#include "runtime/family/pattern.h"
#include "runtime/plan/plan.h"

namespace graft::runtime {

/// A plan whose numbers are formulas.
class Template {
 public:
  /// `numbers`: those of the plan at each point, of one structure. The last point is that of the
  /// largest sizes, and `plan` its plan. Throws std::runtime_error that
  /// says which number has no formula.
  Template(std::unique_ptr<const Plan> plan, std::span<const Point> points,
           std::span<const ir::Numbers> numbers, std::span<const Formula> extents, bool all);
  /// Null where a formula gives no whole number.
  std::shared_ptr<const Plan> at(std::span<const int64_t> point) const;
  /// Has it one plan, whatever the point is?
  bool is_constant() const { return follows_.empty(); }

 private:
  friend class Refill;
  std::vector<int64_t> numbers(const Formulas::Values& of) const;

  std::shared_ptr<const Plan> plan_;
  std::vector<int64_t> values_;  ///< all of the plan's, in the walk's order
  Formulas formulas_;
  std::vector<std::pair<uint32_t, uint32_t>> follows_;  ///< place in values_, formula
};

/// A plan that gets other numbers, which is much less than making one.
class Refill {
 public:
  /// `of` outlives this.
  explicit Refill(const Template& of);
  const Template& of() const { return *of_; }
  /// As Template::at(), the same plan each time: nobody runs it meanwhile.
  std::shared_ptr<const Plan> at(std::span<const int64_t> point);

 private:
  const Template* of_;
  std::shared_ptr<Plan> plan_;
  std::vector<ir::NumberPlaces::Place> places_;  ///< of what follows; empty where there is a walk
};

/// Sizes [low, high] of each symbol.
struct SizeRange {
  int64_t low, high;
  bool operator==(const SizeRange&) const = default;
};
using Box = c10::SmallVector<SizeRange, 3>;
Box box_of(std::span<const int64_t> point);

/// What compiling a box needs of whoever knows how to compile.
class Maker {
 public:
  virtual ~Maker() = default;
  /// With the ways in `decisions` (Options::decisions) taken.
  virtual ir::Schedule schedule(ir::Program program,
                                const std::map<std::string, std::string>& decisions) = 0;
  /// The ways that are the cheapest.
  virtual std::map<std::string, std::string> decide(ir::Program program) = 0;
  virtual std::unique_ptr<Plan> generate(const ir::Schedule& schedule) = 0;
  /// Will nobody use what is made?
  virtual bool stopping() const = 0;
};

/// One program for all sizes.
class FreeProgram {
 public:
  /// Programs of the layouts at those points. Throws std::runtime_error that says what is not a
  /// formula of the sizes.
  FreeProgram(std::vector<std::string> names, std::span<const Point> points,
              std::span<const ir::Program* const> programs);
  /// Throws std::runtime_error where there is no such program.
  ir::Program at(std::span<const int64_t> point) const;
  /// Those of its whole numbers.
  std::vector<Formula> formulas() const;
  /// Its whole numbers, from 2 on, that are the same whatever the sizes are.
  std::set<int64_t> constants() const;
  /// "64*s (12 times), s (7 times)".
  std::string text() const;

 private:
  std::vector<std::string> names_;
  ir::Program program_;
  std::vector<int64_t> values_;
  std::vector<ir::NumberKind> kinds_;
  std::vector<bool> positive_;  ///< at least 2 in all programs
  std::vector<Formula> formulas_;
  std::vector<std::pair<uint32_t, uint32_t>> follows_;
};

/// The plans of one box. Immutable.
class BoxPlans {
 public:
  /// Compiles. Never throws; `why` says what some sizes lack.
  BoxPlans(const FreeProgram& program, const Box& box, Maker& maker);
  /// Those that may have a plan for that point, best first.
  c10::SmallVector<const Template*, 2> of(std::span<const int64_t> point) const;
  /// Null where there is none for that point.
  std::shared_ptr<const Plan> at(std::span<const int64_t> point) const;
  size_t templates() const { return leaves_.size(); }
  const Template& operator[](size_t i) const { return *leaves_[i].plan; }
  const std::string& why() const { return why_; }

  /// For a part of the box.
  struct Leaf {
    Box box;
    int64_t unit;  ///< its sizes are multiples of this
    std::unique_ptr<const Template> plan;
  };

 private:
  std::vector<Leaf> leaves_;
  std::string why_;
};

}  // namespace graft::runtime
