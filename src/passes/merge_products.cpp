#include "passes/merge_products.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "ir/builder.h"
#include "ir/touch.h"
#include "ir/visit.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Extern;
using ir::Item;
using ir::Program;
using ir::Statement;

namespace {

constexpr size_t kFewest = 4;                     // calls worth merging
constexpr int64_t kMostWork = int64_t{1} << 24;   // multiplications of one
constexpr int64_t kMostBytes = int64_t{1} << 26;  // of all results, which live at once

int64_t element_bytes(const View& view) {
  return static_cast<int64_t>(c10::elementSize(view.dtype));
}

/// The operands of a call: [bias,] left, right.
struct Product {
  bool adds = false;
  std::vector<View> operands;
  View out;
};

bool is_one(const Extern::Slot& slot) {
  const auto* number = std::get_if<int64_t>(&slot.constant.value);
  return slot.kind == OperandKind::Constant && number != nullptr && *number == 1;
}

std::optional<Product> read(const Program& program, const Item& item) {
  const auto* call = std::get_if<Extern>(&item);
  if (call == nullptr || !call->op.overload.empty() || call->outputs.size() != 1) return {};
  Product p;
  p.adds = call->op.name == "aten::addmm";
  const size_t operands = p.adds ? 3 : 2;
  if (call->slots.size() != operands + (p.adds ? 2 : 0)) return {};
  if (p.adds ? !is_one(call->slots[3]) || !is_one(call->slots[4]) : call->op.name != "aten::mm")
    return {};
  for (size_t k = 0; k < operands; ++k) {
    const Extern::Slot& slot = call->slots[k];
    if (slot.kind != OperandKind::Tensor || slot.views.at(0) < 0) return {};
    p.operands.push_back(call->inputs[static_cast<size_t>(slot.views[0])]);
  }
  p.out = call->outputs[0];
  if (p.out.storage < 0 || p.out.byte_offset != 0 || p.out.sizes.size() != 2) return {};
  const ir::Storage& storage = program.storages[static_cast<size_t>(p.out.storage)];
  const int64_t elements = ir::numel(p.out.sizes), terms = p.operands.back().sizes[0];
  if (storage.role != ir::Role::Temporary || !storage.made_by_extern || elements == 0 ||
      storage.bytes != elements * element_bytes(p.out) || elements * terms > kMostWork ||
      p.out.strides != ir::contiguous_strides(p.out.sizes))
    return {};
  return p;
}

/// Calls that differ by where their operands begin: each by its own step.
struct Run {
  Product first;
  std::vector<size_t> items;
  std::vector<int64_t> steps;  ///< bytes, one per operand; known from the second on
  bool open = true;            ///< nothing that it reads was written since
};

std::vector<int64_t> distances(const Product& from, const Product& to) {
  std::vector<int64_t> bytes;
  for (size_t k = 0; k < from.operands.size(); ++k)
    bytes.push_back(to.operands[k].byte_offset - from.operands[k].byte_offset);
  return bytes;
}

/// But for where they begin.
bool is_alike(const View& a, const View& b) {
  return a.storage == b.storage && a.dtype == b.dtype && a.sizes == b.sizes &&
         a.strides == b.strides;
}

bool continues(const Run& run, const Product& next) {
  if (next.adds != run.first.adds || next.out.sizes != run.first.out.sizes) return false;
  for (size_t k = 0; k < next.operands.size(); ++k)
    if (!is_alike(run.first.operands[k], next.operands[k])) return false;
  std::vector<int64_t> steps = run.steps;
  const auto count = static_cast<int64_t>(run.items.size());
  for (int64_t& step : steps) step *= count;
  if (count > 1) return distances(run.first, next) == steps;
  steps = distances(run.first, next);
  const bool forward = std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s >= 0; }),
             backward = std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s <= 0; });
  for (size_t k = 0; k < steps.size(); ++k)
    if (steps[k] % element_bytes(next.operands[k]) != 0) return false;
  return forward || backward;
}

/// The operand of all calls as one, with an axis for the calls in front. A bias gets its rows.
View stacked(View view, int64_t count, int64_t step, const std::vector<int64_t>& out_sizes) {
  if (view.sizes.size() < 2 || view.sizes != out_sizes) {
    View whole{view.storage, view.dtype, view.byte_offset, out_sizes, {0, 0}};
    for (size_t d = 0; d < view.sizes.size(); ++d) {
      const size_t to = d + 2 - view.sizes.size();
      whole.strides[to] = view.sizes[d] == 1 ? 0 : view.strides[d];
    }
    view = std::move(whole);
  }
  view.sizes.insert(view.sizes.begin(), count);
  view.strides.insert(view.strides.begin(), step / element_bytes(view));
  return view;
}

/// A stack of matrices as one with all their rows, where those lie evenly.
std::optional<View> rows_of(const View& stack) {
  View view = stack;
  const int64_t rows = view.sizes[1], between = view.strides[0];
  if (rows > 1 && between != rows * view.strides[1]) return {};
  view.sizes = {view.sizes[0] * rows, view.sizes[2]};
  view.strides = {rows > 1 ? stack.strides[1] : between, stack.strides[2]};
  return view;
}

Extern call_of(const char* name, std::vector<View> operands, std::vector<int64_t> sizes) {
  Extern call{{name, ""}, {}, std::move(operands), {}, {}, -1};
  for (int k = 0; k < static_cast<int>(call.inputs.size()); ++k)
    call.slots.push_back({OperandKind::Tensor, {}, {k}});
  while (call.slots.size() == 3 || call.slots.size() == 4)  // beta and alpha
    call.slots.push_back({OperandKind::Constant, {int64_t{1}}, {}});
  View out{-1, call.inputs.back().dtype, 0, sizes, ir::contiguous_strides(sizes)};
  call.outputs.push_back(std::move(out));
  return call;
}

ProductsToMerge merged(const Program& program, Run run) {
  if (std::any_of(run.steps.begin(), run.steps.end(), [](int64_t s) { return s < 0; })) {
    std::reverse(run.items.begin(), run.items.end());
    run.first = *read(program, program.items[run.items.front()]);
    for (int64_t& step : run.steps) step = -step;
  }
  const auto count = static_cast<int64_t>(run.items.size());
  const Product& p = run.first;
  const int64_t rows = p.out.sizes[0], columns = p.out.sizes[1];
  std::vector<View> stacks;
  for (size_t k = 0; k < p.operands.size(); ++k) {
    const bool bias = p.adds && k == 0;
    stacks.push_back(
        stacked(p.operands[k], count, run.steps[k], bias ? p.out.sizes : p.operands[k].sizes));
  }
  const View& left = stacks[stacks.size() - 2];
  ProductsToMerge made{run.items, {}};
  const auto all_rows = rows_of(left);
  const bool one_bias = !p.adds || (run.steps[0] == 0 && (rows == 1 || stacks[0].strides[1] == 0));
  if (run.steps.back() == 0 && all_rows && one_bias) {
    std::vector<View> operands{*all_rows, p.operands.back()};
    if (p.adds)
      operands.insert(operands.begin(), View{stacks[0].storage,
                                             stacks[0].dtype,
                                             stacks[0].byte_offset,
                                             {columns},
                                             {stacks[0].strides[2]}});
    made.merged =
        call_of(p.adds ? "aten::addmm" : "aten::mm", std::move(operands), {count * rows, columns});
  } else {
    made.merged =
        call_of(p.adds ? "aten::baddbmm" : "aten::bmm", std::move(stacks), {count, rows, columns});
  }
  return made;
}

/// In time linear in the program's items.
class Search {
 public:
  explicit Search(const Program& program) : program_(program), readers_(program.storages.size()) {}

  std::vector<ProductsToMerge> run() {
    for (size_t i = 0; i < program_.items.size(); ++i) {
      if (auto product = read(program_, program_.items[i])) add(i, std::move(*product));
      ir::each_touch(program_.items[i], [&](int storage, bool writes) {
        if (writes) close_readers(storage);
      });
    }
    for (Run& run : runs_) close(run);
    return std::move(found_);
  }

 private:
  std::vector<size_t>& readers(int storage) { return readers_[static_cast<size_t>(storage)]; }

  void add(size_t item, Product product) {
    const View& left = product.operands[product.operands.size() - 2];
    for (size_t r : readers(left.storage)) {
      Run& run = runs_[r];
      if (!run.open || !continues(run, product)) continue;
      if (run.items.size() == 1) run.steps = distances(run.first, product);
      run.items.push_back(item);
      return;
    }
    for (const View& view : product.operands) readers(view.storage).push_back(runs_.size());
    runs_.push_back({std::move(product), {item}, {}});
  }

  /// What is called later cannot move before the write.
  void close_readers(int storage) {
    for (size_t r : readers(storage)) close(runs_[r]);
    readers(storage).clear();
  }

  void close(Run& run) {
    if (!std::exchange(run.open, false)) return;
    const auto count = static_cast<int64_t>(run.items.size());
    const int64_t bytes = ir::numel(run.first.out.sizes) * element_bytes(run.first.out);
    const bool moves = std::any_of(run.steps.begin(), run.steps.end(), [](int64_t s) { return s; });
    if (run.items.size() >= kFewest && moves && count * bytes <= kMostBytes)
      found_.push_back(merged(program_, std::move(run)));
  }

  const Program& program_;
  std::vector<Run> runs_;
  std::vector<std::vector<size_t>> readers_;  ///< by storage: runs of products that read it
  std::vector<ProductsToMerge> found_;
};

/// Where a storage's bytes went.
struct Moved {
  int storage = -1;
  int64_t bytes = 0;
};

void move(Access& access, const std::vector<Moved>& moved) {
  const Moved& to = moved[static_cast<size_t>(access.storage)];
  if (to.storage < 0) return;
  access.storage = to.storage;
  access.offset += to.bytes / static_cast<int64_t>(c10::elementSize(access.dtype));
}
void move(View& view, const std::vector<Moved>& moved) {
  if (view.storage < 0) return;
  const Moved& to = moved[static_cast<size_t>(view.storage)];
  if (to.storage < 0) return;
  view.storage = to.storage;
  view.byte_offset += to.bytes;
}

void move(Item& item, const std::vector<Moved>& moved) {
  auto statement = [&](Statement& s) {
    each_access(s, [&](Access& access) { move(access, moved); });
  };
  ir::match(
      item, statement,
      [&](ir::Repeat& r) {
        for (Statement& s : r.body) statement(s);
      },
      [&](Extern& e) {
        for (View& view : e.inputs) move(view, moved);
        for (View& view : e.outputs) move(view, moved);
        for (int& storage : e.written)
          if (storage >= 0 && moved[static_cast<size_t>(storage)].storage >= 0)
            storage = moved[static_cast<size_t>(storage)].storage;
      },
      [](ir::Abort&) {});
}

}  // namespace

std::vector<ProductsToMerge> products_to_merge(const Program& program) {
  return Search(program).run();
}

Program merge_products(Program program, const std::vector<ProductsToMerge>& all) {
  if (all.empty()) return program;
  std::vector<Moved> moved(program.storages.size());
  std::vector<bool> gone(program.items.size(), false);
  for (const ProductsToMerge& group : all) {
    Extern call = group.merged;
    const int storage = static_cast<int>(program.storages.size());
    View& out = call.outputs[0];
    out.storage = storage;
    call.written = {storage};
    const int64_t bytes = ir::numel(out.sizes) * element_bytes(out),
                  each = bytes / static_cast<int64_t>(group.items.size());
    program.storages.push_back({ir::Role::Temporary, bytes, -1, true});
    for (size_t k = 0; k < group.items.size(); ++k) {
      const auto& from = std::get<Extern>(program.items[group.items[k]]);
      const auto old = static_cast<size_t>(from.outputs[0].storage);
      moved[old] = {storage, static_cast<int64_t>(k) * each};
      program.storages[old].made_by_extern = false;
      gone[group.items[k]] = true;
    }
    const size_t first = *std::min_element(group.items.begin(), group.items.end());
    call.record = std::get<Extern>(program.items[first]).record;
    program.items[first] = std::move(call);
    gone[first] = false;
  }
  moved.resize(program.storages.size());
  std::vector<Item> kept;
  for (size_t i = 0; i < program.items.size(); ++i) {
    if (gone[i]) continue;
    move(program.items[i], moved);
    kept.push_back(std::move(program.items[i]));
  }
  program.items = std::move(kept);
  return program;
}

}  // namespace graft::passes
