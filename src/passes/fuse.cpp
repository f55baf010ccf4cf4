#include "passes/fuse.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "ir/visit.h"
#include "passes/block_products.h"
#include "passes/build_kernel.h"
#include "passes/grouper.h"
#include "passes/merge_loops.h"
#include "passes/product_tiles.h"
#include "passes/products.h"
#include "passes/touch.h"

namespace graft::passes {

namespace {

class Fuser {
 public:
  Fuser(const Settings& settings, bool share, Decider& decider)
      : settings_(settings),
        target_(settings.target),
        share_(share),
        folds_(settings.most_folded_bytes > 0 && !settings.skips("fold")),
        decider_(decider) {}

  ir::Schedule run(ir::Program program) {
    const bool any = std::any_of(program.items.begin(), program.items.end(), [](const auto& item) {
      const auto* call = std::get_if<ir::Extern>(&item);
      return call != nullptr && call->may_be_loops;
    });
    if (!any) return *attempt(std::move(program));
    for (const ir::Item& item : program.items) {
      const auto* call = std::get_if<ir::Extern>(&item);
      if (call == nullptr || !call->may_be_loops) continue;
      ++calls_[call->record];
      if (call->may_be_alone) alone_.insert(call->record);
    }
    while (true) {
      // What does not become part of a kernel with others stays a call; all is grouped anew.
      const size_t refused = refused_.size();
      decider_.restart();
      std::optional<ir::Schedule> made =
          attempt(share_ ? products_as_loops(program, refused_, target_, folds_) : program);
      if (made) return std::move(*made);
      if (refused_.size() == refused) throw std::logic_error("fuse: a product is refused twice");
    }
  }

 private:
  /// Nothing where products had to be refused.
  std::optional<ir::Schedule> attempt(ir::Program program) {
    ir::Schedule schedule;
    schedule.storages = program.storages;
    schedule.signature = program.signature;
    products_.clear();
    for (const ir::Item& item : program.items)
      if (const auto* s = std::get_if<ir::Statement>(&item); s != nullptr && is_product(*s))
        ++products_[s->record];
    std::vector<GroupOrItem> groups = group(std::move(program), share_, settings_, decider_);
    const std::vector<int> owner = private_to(groups, schedule.storages);
    bool whole = true;
    for (size_t g = 0; g < groups.size(); ++g)
      ir::match(
          std::move(groups[g]),
          [&](Group&& members) {
            const std::vector<bool> local = owned_by(owner, static_cast<int>(g));
            if (has_product(members)) {
              whole = with_products(std::move(members), local, schedule) && whole;
              return;
            }
            ir::Kernel kernel = build_kernel(members, local);
            // Nothing is left of values that no one reads.
            if (!kernel.placed.empty()) schedule.steps.emplace_back(std::move(kernel));
          },
          [&](ir::Extern&& e) { schedule.steps.emplace_back(std::move(e)); },
          [&](ir::Abort&& a) { schedule.steps.emplace_back(a); });
    if (!whole) return {};
    return schedule;
  }

  /// Is there more than products, and what their calls do themselves? Or are all fast enough alone?
  bool has_company(const Group& group) const {
    const bool are_fast = std::all_of(
        group.members.begin(), group.members.end(),
        [&](const ir::Statement& s) { return !is_product(s) || alone_.contains(s.record); });
    return are_fast || !is_product_alone(group);
  }

  /// Of attention, both products or none: what lies between them is large.
  bool has_whole_calls(const Group& group) const {
    std::map<int, int> here;
    for (const ir::Statement& s : group.members)
      if (is_product(s)) ++here[s.record];
    return std::all_of(here.begin(), here.end(), [&](const auto& entry) {
      return entry.second % (products_.at(entry.first) / calls_.at(entry.first)) == 0;
    });
  }

  bool with_products(Group members, const std::vector<bool>& local, ir::Schedule& schedule) {
    std::optional<std::vector<ir::Kernel>> kernels;
    if (has_whole_calls(members) && has_company(members) && keep_rows(members, target_)) {
      ir::Kernel kernel = build_kernel(members, local);
      merge_serial_loops(kernel);  // what a mask leaves out is known along one loop
      kernels = block_products(kernel, local, schedule.storages, settings_);
    }
    if (!kernels) {
      for (const ir::Statement& s : members.members)
        if (is_product(s)) refused_.insert(s.record);
      return false;
    }
    for (ir::Kernel& kernel : *kernels) schedule.steps.emplace_back(std::move(kernel));
    return true;
  }

  const Settings& settings_;
  const ir::Target& target_;
  const bool share_, folds_;
  Decider& decider_;
  std::set<int> refused_;        ///< products that stay calls, by record
  std::set<int> alone_;          ///< that are fast enough alone
  std::map<int, int> calls_;     ///< by record: more than one where one is made again
  std::map<int, int> products_;  ///< likewise: how many statements they are
};

}  // namespace

ir::Schedule fuse(ir::Program program, bool share, const Settings& settings, Decider& decider) {
  return Fuser(settings, share, decider).run(std::move(program));
}

}  // namespace graft::passes
