#include "optim/host_modes.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <typeinfo>

#include "optim/caller.h"

namespace graft::optim {

class HostModes::Mode final : public record::Participant {
 public:
  /// `owned`: by a std::shared_ptr. Another one lies in some variable, and is taken for gone once
  /// something else lies there.
  Mode(const torch::nn::Module& module, uintptr_t table, bool owned)
      : unowned_(owned ? nullptr : &module), table_(table), trains_(module.is_training()) {
    if (owned) module_ = module.weak_from_this();
  }

  std::string prepare() override {
    const std::shared_ptr<const torch::nn::Module> module = module_.lock();
    if (module == nullptr && unowned_ == nullptr) return "a module of the recorded call is gone";
    if (!is_switched(module.get())) return {};
    return "a module, or one inside of it, was in another mode when the function was recorded (" +
           std::string(trains_ ? "training)" : "evaluation)");
  }
  bool is_switched() const { return is_switched(module_.lock().get()); }
  /// A module inside of it, which does not lie on the stack itself.
  void add_part(const std::shared_ptr<const torch::nn::Module>& part) {
    parts_.push_back({part, part->is_training()});
  }
  /// Leaves parts to those that watch them already.
  void share(std::unordered_set<const void*>& watched) {
    std::erase_if(parts_, [&](const Part& part) {
      const std::shared_ptr<const torch::nn::Module> alive = part.module.lock();
      return alive == nullptr || !watched.insert(alive.get()).second;
    });
  }
  void commit() override {}
  bool may_come_back() const override { return true; }
  bool is_gone() const { return unowned_ == nullptr && module_.expired(); }

 private:
  bool is_switched(const torch::nn::Module* module) const {
    uintptr_t table = 0;
    if (module == nullptr) {
      if (unowned_ == nullptr) return false;
      const auto place = reinterpret_cast<uintptr_t>(unowned_);
      if (!read_word(place, table) || table != table_ || !is_rest_readable(place, sizeof *unowned_))
        return false;
      module = unowned_;
    }
    return module->is_training() != trains_ ||
           std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
             const std::shared_ptr<const torch::nn::Module> alive = part.module.lock();
             return alive != nullptr && alive->is_training() != part.trains;
           });
  }

  struct Part {
    std::weak_ptr<const torch::nn::Module> module;
    bool trains;
  };
  std::vector<Part> parts_;
  std::weak_ptr<const torch::nn::Module> module_;
  const torch::nn::Module* const unowned_;
  const uintptr_t table_;
  const bool trains_;
};

namespace {

/// Of counts and an object in one piece, from the one's beginning to the other's.
constexpr uintptr_t kMostBetween = 256;

/// Whose a module is that a word of the stack leads to.
enum class Owner { Nobody, SharedPointer, Dead };

/// The stack has words of old, and memory that was freed still looks like what it was, except for
/// what the owners' counts say. They are not set of a variable, or of one that a std::unique_ptr
/// has. Where such a one was lent to a std::shared_ptr that is gone, they lie elsewhere.
Owner owner_of(const torch::nn::Module* object) {
  constexpr uintptr_t kWord = sizeof(uintptr_t);
  // What libstdc++ keeps: the object's address, and that of the counts.
  const auto own = reinterpret_cast<uintptr_t>(
      static_cast<const std::enable_shared_from_this<torch::nn::Module>*>(object));
  uintptr_t self = 0, block = 0, table = 0, counts = 0, type = 0, name = 0, first = 0;
  if (!read_word(own, self) || !read_word(own + kWord, block)) return Owner::Dead;
  if (self == 0 && block == 0) return Owner::Nobody;
  if (self != reinterpret_cast<uintptr_t>(object)) return Owner::Dead;
  if (!read_word(block, table) || !read_word(block + kWord, counts)) return Owner::Dead;
  const auto used = static_cast<int32_t>(counts), watched = static_cast<int32_t>(counts >> 32);
  const uintptr_t behind = self - block;  // std::make_shared has both in one piece
  const bool was_lent = used == 0 && (behind < 2 * kWord || behind > kMostBetween);
  if ((used <= 0 && !was_lent) || watched <= 0) return Owner::Dead;
  // std::_Sp_counted_ptr_inplace and the like: "St23_Sp_counted_ptr…", or "*St23_Sp_counted_ptr…"
  // where the module's type is of an unnamed namespace.
  if (!read_word(table - kWord, type) || !read_word(type + kWord, name)) return Owner::Dead;
  const uintptr_t aligned = name - name % kWord;
  uintptr_t second = 0;
  if (!read_word(aligned, first) || !read_word(aligned + kWord, second)) return Owner::Dead;
  std::array<char, 2 * kWord> text{};
  std::memcpy(text.data(), &first, kWord);
  std::memcpy(text.data() + kWord, &second, kWord);
  std::string_view start(text.data() + name % kWord, kWord + 1);
  if (start.front() == '*') start.remove_prefix(1);
  if (start.substr(4, 4) != "_Sp_") return Owner::Dead;
  return was_lent ? Owner::Nobody : Owner::SharedPointer;
}

/// May the module do one thing or another as its own mode says? Of libtorch's only some do.
bool asks_for_its_mode(const torch::nn::Module& module) {
  const std::string_view name = typeid(module).name();
  if (!name.starts_with("N5torch2nn")) return true;
  constexpr std::string_view kAsking[] = {"Dropout", "BatchNorm", "InstanceNorm",
                                          "RReLU",   "LSTM",      "GRU",
                                          "RNN",     "Attention", "Transformer"};
  return std::any_of(std::begin(kAsking), std::end(kAsking), [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

}  // namespace

void HostModes::look(const void* outermost) {
  for (const uintptr_t word : words_of_callers(reinterpret_cast<uintptr_t>(outermost))) {
    uintptr_t table = 0;
    if (!known_.insert(word).second || !read_word(word, table) ||
        !is_table_of(table, typeid(torch::nn::Module)) ||
        !is_rest_readable(word, sizeof(torch::nn::Module)))
      continue;
    const auto* object = reinterpret_cast<const torch::nn::Module*>(word);
    const Owner owner = owner_of(object);
    if (owner == Owner::Dead) {
      known_.erase(word);  // another may come to lie there
      continue;
    }
    modes_.push_back(std::make_shared<Mode>(*object, table, owner == Owner::SharedPointer));
    if (owner == Owner::Nobody) continue;  // it may be what is left of one
    // A part that calls an operator may be in no register by then (DropoutImpl::forward). What
    // holds it may be gone before the part is, so that each of them watches it.
    for (const std::shared_ptr<torch::nn::Module>& part : object->modules(/*include_self=*/false))
      if (asks_for_its_mode(*part)) modes_.back()->add_part(part);
  }
}

std::string HostModes::why_not() const {
  const bool switched = std::any_of(modes_.begin(), modes_.end(),
                                    [](const auto& mode) { return mode->is_switched(); });
  return switched ? "the function changes whether a module trains, which a plan does not repeat; "
                    "call train() or eval() outside the compiled function"
                  : "";
}

std::vector<std::shared_ptr<record::Participant>> HostModes::participants() const {
  std::vector<std::shared_ptr<record::Participant>> all;
  std::unordered_set<const void*> watched;  // parts: each call looks at them
  for (const std::shared_ptr<Mode>& mode : modes_) {
    if (mode->is_gone()) continue;
    mode->share(watched);
    all.push_back(mode);
  }
  return all;
}

}  // namespace graft::optim
