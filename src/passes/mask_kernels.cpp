#include "passes/mask_kernels.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "passes/kernel_loops.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Placed;

namespace {

constexpr int64_t kLineBytes = 64;

class MaskKernel {
 public:
  MaskKernel(Kernel& kernel, int block, size_t needed)
      : kernel_(kernel), block_(block), needed_(needed) {
    for (int v : kernel.range)
      if (matters(kernel.placed[needed], v))
        ranges_.push_back(v);
      else
        sharers_ *= extent(v);
    for (size_t k = needed; k < kernel.placed.size(); ++k)
      pitch_[kernel.placed[k].statement.store.storage] = 0;
  }

  /// Do several tiles find the same, and can it be found before the kernel, and by all who read it?
  bool is_shared() const {
    if (sharers_ < 2 || std::count(ranges_.begin(), ranges_.end(), block_) == 0) return false;
    for (size_t k = 0; k < kernel_.placed.size(); ++k) {
      const Placed& p = kernel_.placed[k];
      for (const Access& load : p.statement.loads) {
        const bool moves = pitch_.count(load.storage) > 0;
        if (k < needed_ && moves && !has_ranges(p)) return false;
        if (k >= needed_ && !moves && (is_made_here(load.storage) || !load.indirect.empty()))
          return false;
      }
    }
    return true;
  }

  Kernel move(std::vector<ir::Storage>& storages) {
    int64_t tiles = 1;
    for (int v : ranges_) tiles *= extent(v);
    for (auto& [storage, pitch] : pitch_) {
      ir::Storage& own = storages[static_cast<size_t>(storage)];
      pitch = (own.bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
      own.bytes = pitch * tiles;
      std::erase_if(kernel_.scratch, [id = storage](const auto& s) { return s.storage == id; });
    }
    Kernel made;
    made.vars = kernel_.vars;
    made.range = ranges_;
    for (size_t k = needed_; k < kernel_.placed.size(); ++k) {
      const Position at = position_of(kernel_, block_, k);
      ir::TreeNode node = std::move(at.body[static_cast<size_t>(at.at)]);
      at.body.erase(at.body.begin() + at.at);
      ir::TreeNode* leaf = &node;
      while (leaf->loop) leaf = leaf->loop->body.data();
      leaf->placed = static_cast<int>(k - needed_);
      made.body.push_back(std::move(node));
      for (int v : kernel_.range) give_axis(kernel_.placed[k], v);
    }
    for (Placed& p : kernel_.placed) {
      set_strides(p, p.statement.store);
      for (Access& load : p.statement.loads) set_strides(p, load);
    }
    const auto first = kernel_.placed.begin() + static_cast<std::ptrdiff_t>(needed_);
    made.placed.assign(std::make_move_iterator(first),
                       std::make_move_iterator(kernel_.placed.end()));
    kernel_.placed.erase(first, kernel_.placed.end());
    return made;
  }

 private:
  int64_t extent(int v) const { return kernel_.vars[static_cast<size_t>(v)].extent; }
  bool has_ranges(const Placed& p) const {
    return std::all_of(ranges_.begin(), ranges_.end(), [&](int v) { return axis_of(p, v) >= 0; });
  }
  bool is_made_here(int storage) const {
    return std::any_of(kernel_.placed.begin(), kernel_.placed.end(),
                       [&](const Placed& p) { return p.statement.store.storage == storage; });
  }

  static bool matters(const Placed& p, int v) {
    const int a = axis_of(p, v);
    const ir::Statement& s = p.statement;
    return a >= 0 &&
           varying_along(s, static_cast<size_t>(a))[static_cast<size_t>(s.reduction->input)];
  }
  /// Of each range that matters, and of no other.
  void give_axis(Placed& p, int v) const {
    ir::Statement& s = p.statement;
    const int a = axis_of(p, v);
    const bool stays = std::count(ranges_.begin(), ranges_.end(), v) > 0;
    if (a >= 0 && !stays) {
      drop_axis(s, static_cast<size_t>(a));
      p.axis_var.erase(p.axis_var.begin() + a);
    }
    if (a >= 0 || !stays) return;
    p.axis_var.push_back(v);
    s.axes.push_back(extent(v));
    s.store.strides.push_back(0);
    for (Access& load : s.loads) load.strides.push_back(0);
    if (s.reduction) s.reduction->axes.push_back(false);
  }
  /// One tile's bytes lie behind another's.
  void set_strides(const Placed& p, Access& x) const {
    const auto found = pitch_.find(x.storage);
    if (found == pitch_.end()) return;
    int64_t stride = found->second / static_cast<int64_t>(c10::elementSize(x.dtype));
    for (size_t r = ranges_.size(); r-- > 0; stride *= extent(ranges_[r]))
      x.strides[static_cast<size_t>(axis_of(p, ranges_[r]))] = stride;
  }

  Kernel& kernel_;
  const int block_;
  const size_t needed_;
  std::vector<int> ranges_;       ///< that matter
  int64_t sharers_ = 1;           ///< tiles to which the others make no difference
  std::map<int, int64_t> pitch_;  ///< of what is moved, by storage: bytes
};

}  // namespace

void share_mask(Kernel& kernel, const Reader& reader, size_t needed,
                std::vector<ir::Storage>& storages, std::vector<Kernel>& before) {
  MaskKernel mask(kernel, reader.block, needed);
  if (mask.is_shared()) before.push_back(mask.move(storages));
}

}  // namespace graft::passes
