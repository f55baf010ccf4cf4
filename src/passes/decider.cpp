#include "passes/decider.h"

#include <algorithm>

namespace graft::passes {

void Decider::restart() {
  if (made_ != nullptr) made_->clear();
  known_.clear();
}

size_t Decider::choose(size_t best, Decision decision) {
  if (decision.ways.size() < 2) return best;
  decision.pass = pass_;
  decision.taken = best;
  if (auto found = forced_.find(decision.id()); found != forced_.end())
    for (size_t w = 0; w < decision.ways.size(); ++w)
      if (decision.ways[w].name == found->second) decision.taken = w;
  const size_t taken = decision.taken;
  if (made_ == nullptr) return taken;
  auto [known, added] = known_.emplace(decision.about, made_->size());
  if (added) made_->emplace_back();
  (*made_)[known->second] = std::move(decision);
  return taken;
}

std::string stored_by(const std::vector<const ir::Statement*>& statements) {
  constexpr size_t kShown = 2;
  std::vector<int> storages;
  for (const ir::Statement* s : statements)
    if (std::find(storages.begin(), storages.end(), s->store.storage) == storages.end())
      storages.push_back(s->store.storage);
  std::string text;
  for (size_t k = 0; k < storages.size(); ++k) {
    bool last = k + 1 == storages.size();
    if (k >= kShown && !last) continue;
    if (last && k > kShown) text += " …";
    text += (text.empty() ? "%" : " %") + std::to_string(storages[k]);
  }
  if (storages.size() < statements.size() || storages.size() > kShown + 1)
    text += " (" + std::to_string(statements.size()) + ")";
  return text;
}

}  // namespace graft::passes
