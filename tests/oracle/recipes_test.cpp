// Views, copies, reductions, norms and indexing against eager, over dtypes and layouts.
#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <set>

#include "ops/context.h"
#include "oracle/pointwise_cases.h"
#include "oracle/recipes.h"
#include "record/operators.h"

namespace graft::test {
namespace {

using at::ScalarType;

class Recipes : public testing::TestWithParam<ScalarType> {
 protected:
  static void sweep(const std::vector<Recipe>& recipes, std::vector<Layout> layouts) {
    for (size_t i = 0; i < recipes.size();) {
      std::string row = recipes[i].row();
      Reporter report(row + " " + c10::toString(GetParam()));
      for (; i < recipes.size() && recipes[i].row() == row; ++i)
        if (!Reporter::skipped(row) && accepts(recipes[i], GetParam()))
          for (Layout layout : layouts) report(check_of(recipes[i], GetParam(), layout));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Oracle, Recipes, testing::ValuesIn(kDtypes),
                         [](const testing::TestParamInfo<ScalarType>& info) {
                           return c10::toString(info.param);
                         });

std::vector<Layout> layouts_for(ScalarType type) {
  if (is_thorough(type)) return {Layout::Contiguous, Layout::Transposed, Layout::Step};
  return {Layout::Contiguous};
}

TEST_P(Recipes, Views) {
  sweep(view_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, Copies) {
  sweep(copy_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, Planes) {
  sweep(plane_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, Reductions) {
  sweep(reduction_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, Norms) {
  sweep(norm_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, Pools) {
  sweep(pool_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, Products) {
  sweep(product_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, Orders) {
  sweep(order_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, SmallMatrices) {
  sweep(linalg_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, Backward) {
  sweep(backward_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, Losses) {
  sweep(loss_recipes(), layouts_for(GetParam()));
}
TEST_P(Recipes, Indexing) {
  sweep(index_recipes(), layouts_for(GetParam()));
}

/// An index out of range throws what eager throws, be it in the first call or in one that runs a
/// plan, and leaves the arguments as eager leaves them.
TEST(Indices, OutOfRangeThrowsAsEager) {
  for (const Recipe& recipe : index_recipes()) {
    Reporter report(recipe.row() + " out of range");
    for (int first_bad : {0, 1, 2})
      for (int64_t bad : {int64_t{-1000}, int64_t{1000}}) {
        Check check = check_of(recipe, at::kFloat, Layout::Contiguous);
        auto plain = check.arguments;
        check.label += " bad from call " + std::to_string(first_bad + 1);
        check.must_fuse = false;
        check.arguments = [=](int call) {
          Tensors made = plain(call);
          if (call < first_bad) return made;
          for (size_t i = 0; i < made.size(); ++i)
            if (made[i].numel() > 0 && (recipe.inputs[i].kind == Input::Kind::Indices ||
                                        recipe.inputs[i].kind == Input::Kind::Distinct))
              made[i].flatten()[-1] = bad;
          return made;
        };
        // What _unsafe_ operators do with such an index is undefined.
        if (recipe.label.find("_unsafe_") == std::string::npos) report(check);
      }
  }
}

/// Threads must not change a reduction's bits. Sizes that ATen and Graft split among threads.
TEST(Reductions, SameBitsAtEveryThreadCount) {
  std::vector<Recipe> recipes = reduction_recipes(), norms = norm_recipes();
  recipes.insert(recipes.end(), norms.begin(), norms.end());
  std::set<std::string> seen;
  int before = at::get_num_threads();
  for (const Recipe& recipe : recipes) {
    if (!seen.insert(recipe.label).second || !recipe.must_fuse || Reporter::skipped(recipe.row()))
      continue;
    if (recipe.inputs.size() != 1 || recipe.label.find("empty") != std::string::npos) continue;
    std::vector<int64_t> sizes = recipe.inputs[0].sizes;
    // About a hundred thousand elements, the rank kept; 65 more than a power of two in one
    // dimension.
    if (sizes.empty()) continue;
    for (int64_t& size : sizes) size = sizes.size() == 1 ? 131137 : sizes.size() == 2 ? 321 : 65;
    for (ScalarType type : {at::kFloat, at::kBFloat16}) {
      Random random(seed_of(recipe.label));
      int64_t count = at::empty(sizes, at::kMeta).numel();
      at::Tensor x =
          random_values(type, ops::Domain::Small, 0, count, random, false).reshape(sizes);
      Compiled<Function> compiled(recipe.f, in_order(recipe.label));
      for (int call = 0; call < 2; ++call) compiled(Tensors{x});
      Tensors one;
      for (int threads : {1, 2, 4}) {
        at::set_num_threads(threads);
        Tensors came = compiled(Tensors{x});
        if (threads == 1) one = came;
        for (size_t i = 0; i < came.size(); ++i)
          EXPECT_EQ(difference(one[i], came[i]), "")
              << recipe.label << " " << type << " with " << threads << " threads";
      }
      at::set_num_threads(before);
      EXPECT_GT(compiled.report().plan_hits, 0) << recipe.label << " " << compiled.report().reason;
      EXPECT_EQ(judge_by_double(recipe.f, {x}, recipe.f({x}), one, true), "")
          << recipe.label << " " << type;
    }
  }
}

/// Most composite operators are not: the operators that they call are.
bool is_recorded(std::string_view name) {
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames())
    if (op.name == name)
      if (auto handle = c10::Dispatcher::singleton().findSchema(op);
          handle && !record::OperatorFacts(*handle).composite)
        return true;
  return false;
}

std::set<std::string> rows_reached() {
  std::set<std::string> reached;
  for (const auto& family : {view_recipes(), copy_recipes(), plane_recipes(), reduction_recipes(),
                             norm_recipes(), pool_recipes(), product_recipes(), order_recipes(),
                             linalg_recipes(), backward_recipes(), loss_recipes(), index_recipes()})
    for (const Recipe& recipe : family) {
      Check check = check_of(recipe, at::kFloat, Layout::Contiguous);
      Compiled<Function> compiled(recipe.f, in_order(recipe.label));
      attempt([&] {
        return compiled(clone_arguments(check.arguments(0)));
      });  // some recipes throw, in eager as well
      for (const OperatorReport& op : compiled.report().operators) {
        std::string name = op.name.substr(0, op.name.find('.'));
        if (name.size() > 2 && name.back() == '_' && name[name.size() - 2] != '_') name.pop_back();
        if (op.fate != "extern" || op.why.starts_with("graft::")) reached.insert(name);
      }
    }
  return reached;
}

/// Every row of the tables is reached by a recipe: seen in a report as fused or as a view.
TEST(Tables, EveryRowHasARecipe) {
  std::set<std::string> reached = rows_reached();
  for (const auto& family : {ops::view_rows(), ops::copy_rows(), ops::reduction_rows(),
                             ops::norm_rows(), ops::index_rows()})
    for (const ops::Row& row : family) {
      std::string name(row.name);
      EXPECT_TRUE(is_recorded(name)) << name << " is made of other operators, so no row is asked";
      EXPECT_TRUE(reached.contains(name)) << name << " has no recipe in tests/oracle";
    }
}

}  // namespace
}  // namespace graft::test
