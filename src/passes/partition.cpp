#include "passes/partition.h"

#include <algorithm>
#include <set>

#include "ir/touch.h"
#include "ir/visit.h"
#include "passes/cost.h"
#include "passes/min_cut.h"
#include "passes/plain_calls.h"
#include "passes/rewrite.h"
#include "passes/share.h"

namespace graft::passes {

using ir::each_touch;
using ir::Extern;
using ir::Item;
using ir::Program;
using ir::Role;
using ir::Statement;
using ir::Storage;

namespace {

/// What is so many times as large as what it is a product of.
constexpr int64_t kExpands = 4;

View all_of(const Storage& storage, int id) {
  return {id, c10::ScalarType::Byte, 0, {storage.bytes}, {1}};
}

/// By storage: does one of the first `count` results lie in it?
std::vector<bool> results_among(const Program& program, size_t count) {
  std::vector<bool> among(program.storages.size());
  for (size_t r = 0; r < count; ++r) {
    const ir::Result& result = program.signature.results[r];
    if (result.defined && result.view.storage >= 0)
      among[static_cast<size_t>(result.view.storage)] = true;
  }
  return among;
}

/// What the items of the joint program do to each storage.
class Flow {
 public:
  Flow(const Program& joint, const Seam& seam) : joint_(joint) {
    const size_t storages = joint.storages.size();
    gradient.resize(storages);
    writers.resize(storages);
    readers.resize(storages);
    for (size_t s = 0; s < storages; ++s)
      gradient[s] = joint.storages[s].role == Role::Argument &&
                    static_cast<size_t>(joint.storages[s].source) >= seam.arguments;
    of_backward.resize(joint.items.size());
    for (size_t i = 0; i < joint.items.size(); ++i) {
      bool from_gradient = false;
      each_touch(joint.items[i], [&](int storage, bool writes) {
        const auto s = static_cast<size_t>(storage);
        from_gradient = from_gradient || (!writes && gradient[s]);
        (writes ? writers : readers)[s].push_back(i);
      });
      of_backward[i] = from_gradient;
      if (!from_gradient) continue;
      each_touch(joint.items[i], [&](int storage, bool writes) {
        if (writes) gradient[static_cast<size_t>(storage)] = true;
      });
    }
  }

  bool callers(size_t storage) const { return is_callers(joint_.storages[storage].role); }
  bool is_written(size_t storage) const { return !writers[storage].empty(); }
  /// Is what lies in it in the end what every reader but its own writers saw?
  bool is_settled(size_t storage) const {
    return std::none_of(readers[storage].begin(), readers[storage].end(),
                        [&](size_t i) { return reads_midway(i, storage); });
  }
  /// Likewise, of those readers that depend on incoming gradients.
  bool is_settled_for_backward(size_t storage) const {
    return std::none_of(readers[storage].begin(), readers[storage].end(),
                        [&](size_t i) { return of_backward[i] && reads_midway(i, storage); });
  }
  /// Does the item read there what others overwrite later?
  bool reads_midway(size_t i, size_t storage) const {
    const std::vector<size_t>& all = writers[storage];
    return !all.empty() && i < all.back() && !std::binary_search(all.begin(), all.end(), i);
  }
  /// Anywhere?
  bool reads_midway(size_t i) const {
    bool midway = false;
    each_touch(joint_.items[i], [&](int read, bool writes) {
      midway = midway || (!writes && reads_midway(i, static_cast<size_t>(read)));
    });
    return midway;
  }
  bool backward_reads(size_t storage) const {
    return std::any_of(readers[storage].begin(), readers[storage].end(),
                       [&](size_t i) { return of_backward[i]; });
  }

  std::vector<bool> gradient;     ///< by storage: something in it depends on incoming gradients
  std::vector<bool> of_backward;  ///< by item: what it does depends on incoming gradients
  std::vector<std::vector<size_t>> writers, readers;  ///< by storage: items

 private:
  const Program& joint_;
};

class Partitioner {
 public:
  Partitioner(const Program& joint, const Flow& flow, const Seam& seam,
              const PartitionSettings& settings)
      : joint_(joint),
        settings_(settings),
        flow_(flow),
        result_(results_among(joint, seam.results)) {}

  Partition run() {
    Partition out;
    out.refused = refuse();
    if (out.refused) return out;
    // Where memory that is overwritten can only be kept, what read it before is kept, too.
    std::optional<std::vector<int>> kept = keep();
    if (!kept) {
      keeps_overwritten_ = true;
      kept = keep();
    }
    if (!kept) {
      out.refused = "its backward reads memory that the forward changes in place";
      return out;
    }
    out.kept = std::move(*kept);
    for (int s : out.kept)
      if (!result_[static_cast<size_t>(s)]) out.kept_bytes += bytes(static_cast<size_t>(s));
    return out;
  }

 private:
  int64_t bytes(size_t storage) const { return joint_.storages[storage].bytes; }

  std::optional<std::string> refuse() const {
    for (size_t s = 0; s < joint_.storages.size(); ++s)
      if (flow_.callers(s) && flow_.gradient[s] && flow_.is_written(s))
        return "its backward changes the caller's memory";
    for (size_t i = 0; i < joint_.items.size(); ++i)
      if (std::holds_alternative<ir::Abort>(joint_.items[i]) && flow_.of_backward[i])
        return "its backward has an index that is checked and comes from a gradient";
    return std::nullopt;
  }

  /// Of computing what lies in it once more; kNever where that cannot be.
  double recompute(size_t storage) const {
    if (flow_.callers(storage)) return MinCut::kNever;
    if (keeps_overwritten_ &&
        std::any_of(flow_.writers[storage].begin(), flow_.writers[storage].end(),
                    [&](size_t i) { return flow_.reads_midway(i); }))
      return MinCut::kNever;
    double sum = 0;
    for (size_t i : flow_.writers[storage])
      ir::match(
          joint_.items[i],
          [&](const Statement& s) {
            sum += settings_.least_memory ? 0 : nanoseconds(s, settings_.target);
          },
          [&](const Extern& call) {
            const std::optional<double> flops = product_flops(call);
            if (!call.may_be_loops || !flops)
              sum = MinCut::kNever;
            else if (!settings_.least_memory)
              sum += *flops * settings_.target.product_flop(call.outputs[0].dtype);
          },
          [&](const auto&) { sum = MinCut::kNever; });
    return flow_.is_written(storage) ? sum : MinCut::kNever;
  }

  /// Of having it in the backward as the forward left it.
  double carry(size_t storage) const {
    if (flow_.callers(storage) && flow_.is_written(storage)) return MinCut::kNever;
    if (keeps_overwritten_ ? !flow_.is_settled_for_backward(storage) : !flow_.is_settled(storage))
      return MinCut::kNever;
    const bool there = flow_.callers(storage) || result_[storage];
    const auto size = static_cast<double>(bytes(storage));
    // What is kept is stored, loaded, and in the way until then; more so what a product made large,
    // which would not leave the cache. A little more than nothing, so that of two empty ones the
    // nearer is kept.
    return (there                    ? 1
            : settings_.least_memory ? 100
            : is_expanded(storage)   ? 6
                                     : 3) *
               settings_.target.times.memory_byte * size +
           1;
  }

  /// Do maps make it of what a product that a kernel may compute made of far less?
  bool is_expanded(size_t storage) const {
    std::vector<size_t> open{storage};
    std::vector<bool> seen(joint_.storages.size(), false);
    while (!open.empty()) {
      const size_t s = open.back();
      open.pop_back();
      if (seen[s] || flow_.callers(s) || bytes(s) < bytes(storage)) continue;
      seen[s] = true;
      for (size_t i : flow_.writers[s]) {
        int64_t read = 0;
        each_touch(joint_.items[i], [&](int input, bool writes) {
          if (writes) return;
          read += bytes(static_cast<size_t>(input));
          open.push_back(static_cast<size_t>(input));
        });
        const auto* call = std::get_if<Extern>(&joint_.items[i]);
        if (call != nullptr && call->may_be_loops && read * kExpands < bytes(storage)) return true;
      }
    }
    return false;
  }

  /// The storages at the cheapest cut between forward and backward, callers' ones left out.
  std::optional<std::vector<int>> keep() const {
    const size_t count = joint_.storages.size(), source = 2 * count, sink = source + 1;
    MinCut graph(2 * count + 2);
    auto in = [](size_t s) { return 2 * s; };
    auto out = [](size_t s) { return 2 * s + 1; };
    for (size_t s = 0; s < count; ++s) {
      if (flow_.gradient[s]) continue;
      graph.edge(in(s), out(s), carry(s));
      graph.edge(source, in(s), recompute(s));
      if (flow_.backward_reads(s)) graph.edge(out(s), sink, MinCut::kNever);
      for (size_t i : flow_.writers[s])
        each_touch(joint_.items[i], [&](int read, bool writes) {
          const auto r = static_cast<size_t>(read);
          if (!writes && r != s) graph.edge(out(r), in(s), MinCut::kNever);
        });
    }
    const std::vector<bool> forward = graph.cut(source, sink);
    if (forward.empty()) return std::nullopt;
    std::vector<int> kept;
    for (size_t s = 0; s < count; ++s)
      if (!flow_.gradient[s] && !flow_.callers(s) && forward[in(s)] && !forward[out(s)])
        kept.push_back(static_cast<int>(s));
    return kept;
  }

  const Program& joint_;
  const PartitionSettings& settings_;
  const Flow& flow_;
  const std::vector<bool> result_;  ///< by storage
  bool keeps_overwritten_ = false;
};

/// Makes one part of the joint program.
class ProgramPart {
 public:
  explicit ProgramPart(const Program& joint) : joint_(joint), needed_(joint.storages.size()) {
    made_.signature.captured = joint.signature.captured;
    made_.storages = joint.storages;
    given_.resize(joint.storages.size());
  }

  /// Results [first, last) of the joint program, and the bases that they are views of.
  void results(size_t first, size_t last) {
    auto& all = made_.signature.results;
    std::vector<int> place(joint_.signature.results.size(), -1);
    auto take = [&](size_t r) {
      place[r] = static_cast<int>(all.size());
      all.push_back(joint_.signature.results[r]);
    };
    for (size_t r = first; r < last; ++r) take(r);
    for (size_t k = 0; k < all.size(); ++k) {
      Lineage lineage = all[k].lineage;
      if (lineage.root != Lineage::Root::Result) continue;
      const auto root = static_cast<size_t>(lineage.index);
      if (place[root] < 0) take(root), all.back().returned = false;
      all[k].lineage.index = place[root];
    }
    for (ir::Result& result : all)
      if (result.same_as >= 0) result.same_as = place[static_cast<size_t>(result.same_as)];
    for (const ir::Result& result : all)
      if (result.defined && result.view.storage >= 0) need(result.view.storage);
  }

  void also_result(int storage) {
    ir::Result result;
    result.returned = false;
    result.view = all_of(joint_.storages[static_cast<size_t>(storage)], storage);
    made_.signature.results.push_back(std::move(result));
    need(storage);
  }

  void arguments(size_t count) {
    made_.signature.arguments = {
        joint_.signature.arguments.begin(),
        joint_.signature.arguments.begin() + static_cast<std::ptrdiff_t>(count)};
    for (int bumped : joint_.signature.bumped)
      if (static_cast<size_t>(bumped) < count) made_.signature.bumped.push_back(bumped);
    made_.signature.bumped_captured = joint_.signature.bumped_captured;
  }

  void also_argument(int storage) {
    Storage& kept = made_.storages[static_cast<size_t>(storage)];
    kept.role = Role::Argument;
    kept.source = static_cast<int>(made_.signature.arguments.size());
    kept.made_by_extern = false;
    made_.signature.arguments.push_back(all_of(kept, storage));
    given_[static_cast<size_t>(storage)] = true;
  }

  void need(int storage) { needed_[static_cast<size_t>(storage)] = true; }

  /// Takes the items that `must` names and those that make what is needed; `may` leaves some out.
  template <class May, class Must>
  Program run(May may, Must must) {
    std::vector<const Item*> taken;
    for (size_t i = joint_.items.size(); i-- > 0;) {
      if (!may(i)) continue;
      bool takes = must(i);
      each_touch(joint_.items[i], [&](int storage, bool writes) {
        const auto s = static_cast<size_t>(storage);
        takes = takes || (writes && needed_[s] && !given_[s]);
      });
      if (!takes) continue;
      taken.push_back(&joint_.items[i]);
      each_touch(joint_.items[i], [&](int storage, bool) { need(storage); });
    }
    for (size_t k = taken.size(); k-- > 0;) made_.items.push_back(*taken[k]);
    settle_roles();
    return std::move(made_);
  }

 private:
  /// Storages of the other part are nobody's, and what was a result there is none here.
  void settle_roles() {
    const std::vector<bool> result = results_among(made_, made_.signature.results.size());
    for (size_t s = 0; s < made_.storages.size(); ++s) {
      Storage& storage = made_.storages[s];
      if (!needed_[s])
        storage.role = Role::Temporary, storage.source = -1, storage.made_by_extern = false;
      else if (!is_callers(storage.role))
        storage.role = result[s] ? Role::Output : Role::Temporary;
    }
  }

  const Program& joint_;
  Program made_;
  std::vector<bool> needed_;  ///< by storage
  std::vector<bool> given_;   ///< by storage: kept from the forward
};

Program make_forward(const Program& joint, const Flow& flow, const Seam& seam,
                     const std::vector<int>& kept) {
  ProgramPart part(joint);
  part.arguments(seam.arguments);
  part.results(0, seam.results);
  for (int storage : kept) part.also_result(storage);
  return part.run([&](size_t i) { return !flow.of_backward[i]; },
                  [&](size_t i) {
                    // Calls of the forward's are made: they may draw numbers, or change memory.
                    const Item& item = joint.items[i];
                    bool writes_callers = false;
                    each_touch(item, [&](int storage, bool writes) {
                      writes_callers =
                          writes_callers || (writes && flow.callers(static_cast<size_t>(storage)));
                    });
                    return writes_callers || std::holds_alternative<ir::Abort>(item) ||
                           (std::holds_alternative<Extern>(item) &&
                            std::get<Extern>(item).record < seam.operators);
                  });
}

/// Did the recorded forward do it, of no gradient?
bool of_forward(const Item& item, const Seam& seam) {
  const auto recorded = [&](const auto& one) { return one.record < seam.operators; };
  return ir::match(
      item, recorded,
      [&](const ir::Repeat& r) { return std::any_of(r.body.begin(), r.body.end(), recorded); },
      [](const ir::Abort&) { return false; });
}

/// The caller's storages that the backward reads to do again what the forward did.
std::vector<int> recomputed_from(const Program& backward, const Seam& seam) {
  std::set<int> read;
  for (const Item& item : backward.items)
    if (of_forward(item, seam))
      each_touch(item, [&](int storage, bool writes) {
        if (!writes && is_callers(backward.storages[static_cast<size_t>(storage)].role))
          read.insert(storage);
      });
  return {read.begin(), read.end()};
}

Program make_backward(const Program& joint, const Seam& seam, const std::vector<int>& kept) {
  ProgramPart part(joint);
  part.arguments(joint.signature.arguments.size());
  const auto& results = joint.signature.results;
  part.results(seam.results,
               static_cast<size_t>(std::count_if(results.begin(), results.end(),
                                                 [](const auto& r) { return r.returned; })));
  for (int storage : kept) part.also_argument(storage);
  Program made =
      part.run([&](size_t i) { return !std::holds_alternative<ir::Abort>(joint.items[i]); },
               [](size_t) { return false; });
  made.signature.bumped.clear();
  made.signature.bumped_captured.clear();
  return made;
}

}  // namespace

Partition partition(const Program& recorded, const Seam& seam, const PartitionSettings& settings) {
  const Program joint = share(recorded, settings.target, /*across_calls=*/true);
  const Flow flow(joint, seam);
  Partition out = Partitioner(joint, flow, seam, settings).run();
  if (out.refused) return out;
  out.forward = make_forward(joint, flow, seam, out.kept);
  out.backward = make_backward(joint, seam, out.kept);
  out.recomputed_from = recomputed_from(out.backward, seam);
  return out;
}

Program whole_forward(const Program& joint, const Seam& seam) {
  return make_forward(joint, Flow(joint, seam), seam, {});
}

Program whole_backward(const Program& joint, const Seam& seam, size_t kept) {
  Program made = make_backward(joint, seam, {});
  std::vector<View>& arguments = made.signature.arguments;
  arguments.resize(arguments.size() + kept);
  return made;
}

}  // namespace graft::passes
