#include "passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <type_traits>

#include "ir/verify.h"
#include "passes/ahead.h"
#include "passes/copies_early.h"
#include "passes/dead_stores.h"
#include "passes/early.h"
#include "passes/fold.h"
#include "passes/free_sizes.h"
#include "passes/fuse.h"
#include "passes/in_place.h"
#include "passes/inline.h"
#include "passes/keep_wide.h"
#include "passes/lanes.h"
#include "passes/memory.h"
#include "passes/merge_loops.h"
#include "passes/narrow_integers.h"
#include "passes/near_sums.h"
#include "passes/one_hot.h"
#include "passes/recompute.h"
#include "passes/reroll.h"
#include "passes/scattered_rows.h"
#include "passes/scratch.h"
#include "passes/share.h"
#include "passes/simplify.h"
#include "passes/split_counts.h"
#include "passes/split_reduce.h"
#include "passes/stream.h"
#include "passes/tasks.h"
#include "passes/tiles.h"
#include "passes/vectors.h"

namespace graft::passes {

using ir::Program;
using ir::Schedule;

namespace {

struct ProgramPass {
  PassName name;
  Program (*run)(Program, const Settings&, Decider&);
  bool fast_only = false;  ///< runs under Numerics::Fast alone
};
struct SchedulePass {
  PassName name;
  void (*run)(Schedule&, const Settings&, Decider&);
};

/// For passes that no setting changes, and for those that decide nothing by cost.
template <Program (*pass)(Program)>
Program plain(Program program, const Settings&, Decider&) {
  return pass(std::move(program));
}
template <Program (*pass)(Program, const Settings&)>
Program plain(Program program, const Settings& settings, Decider&) {
  return pass(std::move(program), settings);
}
template <void (*pass)(Schedule&)>
void plain(Schedule& schedule, const Settings&, Decider&) {
  pass(schedule);
}
template <void (*pass)(Schedule&, const Settings&)>
void plain(Schedule& schedule, const Settings& settings, Decider&) {
  pass(schedule, settings);
}

constexpr ProgramPass kProgramPasses[] = {
    {{"simplify", true, "rewrites expressions by rules that hold bit for bit"}, plain<simplify>},
    {{"one-hot", true, "stores of one element per row become part of the rows' own stores"},
     plain<one_hot>},
    {{"share", true, "what several statements compute of the same elements is computed once"},
     [](Program program, const Settings& settings, Decider&) {
       return share(std::move(program), settings.target);
     }},
    {{"inline", true, "readers compute what others would have stored, where that costs less"},
     inline_producers},
    {{"recompute", true,
      "what lies in memory for long is computed anew, if that takes little time"},
     plain<recompute>},
    {{"simplify-inlined", true, "the same rules over what inlining put together"}, plain<simplify>},
    {{"near-sums", true, "functions of single numbers are computed by vector inside of sums"},
     plain<near_sums>},
    {{"keep-wide", true, "fast numerics: bf16 and fp16 chains stay fp32 inside a statement"},
     plain<keep_wide>,
     true},
    {{"copies-early", true, "copies of what a loop made move behind what they copy"},
     plain<copies_early>},
    {{"reroll", true, "finds the loop that statements were unrolled from"}, plain<reroll>},
    {{"dead-stores", true, "removes statements nobody reads"}, plain<dead_stores>},
    {{"split-counts", true, "counts by an index are made in parts, each with a table of its own"},
     plain<split_counts>},
    {{"narrow-integers", true, "whole numbers that fit 32 bits are computed and kept in 32"},
     plain<narrow_integers>},
    {{"split-reduce", true, "cuts long reductions, and those over slow axes, into parts"},
     plain<split_reductions>},
};
/// Between the tables: it makes a schedule of the program. Left out, each statement is a kernel.
constexpr PassName kFuse{"fuse", true, "statements that share tiles become one kernel"};
constexpr SchedulePass kSchedulePasses[] = {
    {{"merge-loops", true, "loops that walk memory as one become one"}, plain<merge_loops>},
    {{"rows", true, "threads share steps by the rows that they store to, where columns are few"},
     plain<share_rows>},
    {{"lanes", true, "neighbouring tiles become lanes where a tile is sequential or short"},
     to_lanes},
    {{"vectors", false, "chooses the vector loops of what has none; code needs them"},
     choose_vectors},
    {{"tiles", true, "orders the tile loops, and pairs tiles that share what they read"},
     plain<order_tiles>},
    {{"scratch", false,
      "temporaries of a tile move to its thread's memory; tiles would share them"},
     plain<tile_scratch>},
    {{"tasks", true, "names kernels, and says how much work a task gets at least"},
     plain<size_tasks>},
    {{"early", true, "kernels that free large temporaries run as soon as they can"},
     plain<free_early>},
    {{"stream", true, "large results that nothing reads go past the cache"}, plain<stream_results>},
    {{"ahead", true, "loads from memory ask for a later row, or 2 KiB ahead, too"},
     plain<fetch_ahead>},
    {{"fold", true, "what is computed of captured tensors alone is computed once"}, plain<fold>},
    {{"memory", false, "packs temporaries into one arena by lifetime; a plan needs their places"},
     plain<plan_memory>},
    {{"in-place", true, "large results take over the memory of what is read for the last time"},
     plain<reuse_in_place>},
};

bool skipped(const Settings& settings, const PassName& pass) {
  return pass.optional && settings.skips(pass.name);
}

/// Times and checks the steps, and keeps their text and decisions when asked to.
class Log {
 public:
  Log(std::vector<PassRecord>* records, const Settings& settings)
      : records_(records), settings_(settings) {}
  /// `fn(decider)` runs a pass and says what is wrong with what it made.
  template <class Fn, class Made>
  void step(const PassName& pass, const Made& made, Fn fn) {
    const bool keep = records_ != nullptr && settings_.keep_text;
    std::vector<Decision> decisions;
    const bool decides = keep || (records_ != nullptr && settings_.keep_decisions);
    Decider decider(pass.name, settings_.decisions, decides ? &decisions : nullptr);
    auto start = std::chrono::steady_clock::now();
    std::string wrong = fn(decider);
    double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!wrong.empty())
      throw std::logic_error("pass " + std::string(pass.name) + " left a malformed " +
                             (std::is_same_v<Made, Program> ? "program: " : "schedule: ") + wrong);
    if (records_)
      records_->push_back({pass.name, ms, keep ? ir::print(made) : "", std::move(decisions)});
  }

 private:
  std::vector<PassRecord>* records_;
  const Settings& settings_;
};

}  // namespace

Schedule run(Program program, const Settings& settings, std::vector<PassRecord>* records) {
  Log log(records, settings);
  log.step({"lower", false, ""}, program, [&](Decider&) { return ir::verify(program); });
  for (const ProgramPass& pass : kProgramPasses) {
    if (skipped(settings, pass.name) || (pass.fast_only && !settings.fast)) continue;
    log.step(pass.name, program, [&](Decider& decider) {
      program = pass.run(std::move(program), settings, decider);
      return ir::verify(program);
    });
  }
  Schedule schedule;
  log.step(kFuse, schedule, [&](Decider& decider) {
    schedule = fuse(std::move(program), !skipped(settings, kFuse), settings, decider);
    return ir::verify(schedule);
  });
  for (const SchedulePass& pass : kSchedulePasses) {
    if (skipped(settings, pass.name)) continue;
    log.step(pass.name, schedule, [&](Decider& decider) {
      pass.run(schedule, settings, decider);
      return ir::verify(schedule);
    });
  }
  if (settings.any_size) free_sizes(schedule);
  return schedule;
}

const std::vector<PassName>& list() {
  static const std::vector<PassName> names = [] {
    std::vector<PassName> out;
    for (const ProgramPass& pass : kProgramPasses) out.push_back(pass.name);
    out.push_back(kFuse);
    for (const SchedulePass& pass : kSchedulePasses) out.push_back(pass.name);
    return out;
  }();
  return names;
}

}  // namespace graft::passes
