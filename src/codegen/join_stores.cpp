#include "codegen/join_stores.h"

#include <algorithm>

namespace graft::codegen {

namespace {

class StoreJoiner {
 public:
  StoreJoiner(const Layout& layout, KernelPlan& plan) : layout_(layout), plan_(plan) {}

  void run() {
    for (size_t l = 0; l < plan_.loops.size(); ++l) {
      std::vector<int> run;  // statements up to the next loop
      for (const PlanItem& item : plan_.loops[l].items) {
        if (item.placed >= 0) {
          run.push_back(item.placed);
        } else {
          join(run, static_cast<int>(l));
          run.clear();
        }
      }
      join(run, static_cast<int>(l));
    }
  }

 private:
  const AffineAccess& access(const AccessUse& use) const {
    return layout_.accesses[static_cast<size_t>(use.access)];
  }
  const AffineAccess& stored(int p) const {
    return access(layout_.statements[static_cast<size_t>(p)].store);
  }
  StatementPlan& planned(int p) { return plan_.statements[static_cast<size_t>(p)]; }

  void join(const std::vector<int>& run, int l) {
    int vector = plan_.vector_loop(l);
    if (vector < 0) return;
    auto var = static_cast<size_t>(plan_.loops[static_cast<size_t>(vector)].var);
    for (size_t k = 0; k < run.size(); ++k) {
      if (!planned(run[k]).stores) continue;
      const AffineAccess& store = stored(run[k]);
      int parts = interleave(layout_.shapes[static_cast<size_t>(store.shape)].strides[var]);
      if (parts == 0 || store.reach != parts - 1 || !planned(run[k]).joined.empty()) continue;
      std::vector<int> joined = from(run, k, parts);
      for (int p : joined) planned(p).joined = joined;
    }
  }

  /// The statements, by part, that store with run[k] and after it; empty where they cannot be
  /// joined.
  std::vector<int> from(const std::vector<int>& run, size_t k, int parts) {
    const AffineAccess& own = stored(run[k]);
    std::vector<int> joined(static_cast<size_t>(parts), -1);
    for (int left = parts; k < run.size(); ++k) {
      int p = run[k];
      for (const AccessUse& load : layout_.statements[static_cast<size_t>(p)].loads) {
        const AffineAccess& from = access(load);
        if (from.storage != own.storage || left == parts) continue;
        bool other = from.first == own.first && load.indirect.empty() &&
                     joined[static_cast<size_t>(from.part)] < 0;
        if (!other) return {};
      }
      const AffineAccess& store = stored(p);
      if (store.storage != own.storage || !planned(p).stores) continue;
      if (store.first != own.first || planned(p).accumulate != Accumulate::None ||
          !layout_.statements[static_cast<size_t>(p)].store.indirect.empty() ||
          joined[static_cast<size_t>(store.part)] >= 0)
        return {};
      joined[static_cast<size_t>(store.part)] = p;
      if (--left > 0) continue;
      planned(p).last_joined = true;
      return joined;
    }
    return {};
  }

  const Layout& layout_;
  KernelPlan& plan_;
};

}  // namespace

void join_stores(const Layout& layout, KernelPlan& plan) {
  StoreJoiner(layout, plan).run();
}

}  // namespace graft::codegen
