// Calls that reach the rows which are not pointwise: their arguments follow no common rule, so each
// is written down. Tables.EveryRowHasARecipe fails for a row that none of these reaches.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "oracle/harness.h"
#include "oracle/layouts.h"

namespace graft::test {

/// What to make for an argument.
struct Input {
  enum class Kind : uint8_t { Values, Indices, Distinct, Mask, Positive } kind = Kind::Values;
  std::vector<int64_t> sizes;
  int64_t bound = 0;  ///< Indices: below this; Distinct: no two equal, below this
};
inline Input values(std::vector<int64_t> sizes) {
  return {Input::Kind::Values, std::move(sizes)};
}
inline Input positive(std::vector<int64_t> sizes) {
  return {Input::Kind::Positive, std::move(sizes)};
}
inline Input indices(std::vector<int64_t> sizes, int64_t bound) {
  return {Input::Kind::Indices, std::move(sizes), bound};
}
inline Input distinct(int64_t count, int64_t bound) {
  return {Input::Kind::Distinct, {count}, bound};
}
inline Input mask(std::vector<int64_t> sizes) {
  return {Input::Kind::Mask, std::move(sizes)};
}

struct Recipe {
  /// "aten::sum dim=-1"; begins with the row that must be seen, fused or as a view.
  std::string label;
  std::vector<Input> inputs;
  Function f;
  enum class Types : uint8_t { All, Floating, Numbers } types = Types::All;
  std::vector<std::string_view> may_refuse = {};
  bool must_fuse = true;

  /// Of a product partial products may overflow on one side and vanish on the other: NaN then,
  /// where another order gives infinity or 0.
  bool is_product() const { return row() == "aten::prod"; }
  std::string row() const { return label.substr(0, label.find(' ')); }
};

std::vector<Recipe> view_recipes();
std::vector<Recipe> copy_recipes();
std::vector<Recipe> plane_recipes();
std::vector<Recipe> reduction_recipes();
std::vector<Recipe> norm_recipes();
std::vector<Recipe> pool_recipes();
std::vector<Recipe> product_recipes();
std::vector<Recipe> order_recipes();
std::vector<Recipe> linalg_recipes();
std::vector<Recipe> backward_recipes();
std::vector<Recipe> loss_recipes();
std::vector<Recipe> index_recipes();

bool accepts(const Recipe& recipe, at::ScalarType type);
/// `layout` is that of the Values inputs.
Check check_of(const Recipe& recipe, at::ScalarType type, Layout layout);

/// Judges a floating result: its error against the same call in double is no larger than eager's,
/// with a little slack. In double itself, the two differ by roundings of that type only. `sums`:
/// differences are measured by the size of what was added, not by what was left of it.
std::string judge_by_double(const Function& f, const Tensors& arguments, const Tensors& eager,
                            const Tensors& came, bool sums);

}  // namespace graft::test
