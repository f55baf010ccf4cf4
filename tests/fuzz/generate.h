// Makes random programs. A step is tried on sample data as it is chosen, so that every later choice
// knows the layouts.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/program.h"

namespace graft::fuzz {

/// The same seed gives the same program on every machine with the same tables.
Program generate(uint64_t seed);

/// A program in the making.
class Generator {
 public:
  explicit Generator(uint64_t seed);
  Program finish();

  Random random;
  Program program;

  const at::Tensor& tensor(int number) const { return values_[static_cast<size_t>(number)]; }
  int count() const { return static_cast<int>(values_.size()); }

  /// A value that `fits`, later ones more often; -1 when there is none.
  template <class Fits>
  int pick(Fits fits) {
    std::vector<int> all;
    for (int i = 0; i < count(); ++i)
      if (fits(tensor(i))) all.push_back(i);
    if (all.empty()) return -1;
    auto newest = std::min<int64_t>(3, static_cast<int64_t>(all.size()));
    if (random.chance(0.4)) return all[all.size() - 1 - static_cast<size_t>(random.below(newest))];
    return random.pick(all);
  }
  int pick_any();
  /// Values of more than one dimension and element are wanted where there is a choice.
  int pick_of_rank(int64_t at_least);
  /// A value that broadcasts against `like`; of the same dtype where there is a choice and `same`
  /// is drawn.
  int pick_beside(int like, double same = 0.8);
  /// A value of exactly these sizes and dtype.
  int pick_like(at::IntArrayRef sizes, at::ScalarType dtype);
  /// An argument with indices below `bound`: one that is there, or a new one of `sizes`.
  int index_source(std::vector<int64_t> sizes, int64_t bound);
  int64_t dim_of(int number);

  /// Tries the operator on the sample data; keeps it and gives its first result's number, or gives
  /// -1. A step that throws is kept now and then: it must throw in the compiled function as well,
  /// and ends the program.
  int add(const std::string& name, std::vector<Operand> operands);
  /// All results of the latest step.
  std::vector<int> latest() const { return program.steps.back().results; }
  bool ended() const { return ended_; }
  bool allows_inexact() const { return allows_inexact_; }

 private:
  int source(Source source, Placement& placement);
  void make_sources();
  void add_placements();
  bool place_in_captured(size_t i, Placement& placement);
  bool fits_budget(const Tensors& made) const;
  bool keep(Step step);

  Tensors values_;
  std::vector<at::Tensor> memory_;  ///< of the sample data
  std::vector<std::pair<int64_t, at::ScalarType>> bases_;
  bool ended_ = false;
  bool allows_inexact_ = false;
  bool zeros_by_chance_ = false;  ///< some step left it open whether a zero is +0 or -0
  bool alias_arguments_ = false;
};

inline Operand value_of(int number) {
  return {Operand::Kind::Value, {}, {number}};
}
inline Operand constant_of(c10::IValue constant) {
  return {Operand::Kind::Constant, std::move(constant), {}};
}
inline Operand integers(std::vector<int64_t> numbers) {
  return constant_of(c10::IValue(std::move(numbers)));
}
inline Operand integer(int64_t number) {
  return constant_of(number);
}
inline Operand values_of(std::vector<int> numbers) {
  return {Operand::Kind::Values, {}, std::move(numbers)};
}
inline Operand optionals_of(std::vector<int> numbers) {
  return {Operand::Kind::OptionalValues, {}, std::move(numbers)};
}

// One random step or a few, by family. Nothing happens where no value fits.
void add_pointwise(Generator& g);  // steps_pointwise.cpp
void add_view(Generator& g);       // steps_view.cpp
void add_join(Generator& g);       // cat, stack, split, chunk, unbind
void add_copy(Generator& g);       // steps_copy.cpp: copy_, fills, clones, conversions
void add_reduction(Generator& g);  // steps_reduce.cpp
void add_norm(Generator& g);
void add_index(Generator& g);   // steps_reduce.cpp: reads and stores by a tensor of indices
void add_extern(Generator& g);  // matmul, sort, random numbers
void add_loop(Generator& g);    // steps_loop.cpp: one body with indices that advance
void add_idiom(Generator& g);   // steps_idioms.cpp: what schedules are chosen for

}  // namespace graft::fuzz
