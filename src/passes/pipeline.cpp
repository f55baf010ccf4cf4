#include "passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "passes/arrange.h"
#include "passes/dead_stores.h"
#include "passes/fuse.h"
#include "passes/inline.h"
#include "passes/reroll.h"
#include "passes/self_reads.h"
#include "passes/simplify.h"
#include "passes/split_reduce.h"

namespace graft::passes {

using ir::Program;
using ir::Schedule;

namespace {

struct ProgramPass {
  PassName name;
  Program (*run)(Program);
  bool fast_only = false;
};

constexpr ProgramPass kProgramPasses[] = {
    {{"simplify", true, "rewrites expressions by rules that hold bit for bit"}, simplify},
    {{"inline", true, "readers compute what cheap or single-use producers would have stored"},
     inline_producers},
    {{"simplify-inlined", true, "the same rules over what inlining put together"}, simplify},
    {{"keep-wide", true, "fast numerics: bf16 and fp16 chains stay fp32 inside a statement"},
     keep_wide,
     true},
    {{"reroll", true, "finds the loop that statements were unrolled from"}, reroll},
    {{"dead-stores", true, "removes statements nobody reads"}, remove_dead_stores},
    {{"split-reduce", true, "cuts long reductions with few results into parts"}, split_reductions},
};
constexpr PassName kFuse{"fuse", true, "statements that share tiles become one kernel"};
constexpr PassName kArrange{"arrange", false,
                            "merges loops, chooses vector loop and tile-local scratch"};
constexpr PassName kStream{"stream", true, "large results that nothing reads go past the cache"};
constexpr PassName kMemory{"memory", false, "packs temporaries into one arena by lifetime"};

bool skipped(const Settings& settings, const PassName& pass) {
  return pass.optional &&
         std::find(settings.skip.begin(), settings.skip.end(), pass.name) != settings.skip.end();
}

/// Times and checks the steps, and keeps their text when asked to.
class Log {
 public:
  Log(std::vector<PassRecord>* records, bool keep) : records_(records), keep_(keep) {}
  template <class Fn, class Text>
  void step(const PassName& pass, Fn fn, Text text) {
    auto start = std::chrono::steady_clock::now();
    std::string wrong = fn();
    double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!wrong.empty())
      throw std::logic_error("pass " + std::string(pass.name) +
                             " left a malformed program: " + wrong);
    if (records_) records_->push_back({pass.name, ms, keep_ ? text() : ""});
  }

 private:
  std::vector<PassRecord>* records_;
  bool keep_;
};

/// Temporaries that one group alone touches.
std::vector<std::vector<bool>> local_temporaries(const Program& program,
                                                 const std::vector<GroupOrItem>& groups) {
  std::vector<int> owner(program.storages.size(), -1);
  auto touch = [&](int storage, int who) {
    if (storage < 0) return;
    int& o = owner[static_cast<size_t>(storage)];
    o = o == -1 || o == who ? who : -2;
  };
  for (size_t g = 0; g < groups.size(); ++g) {
    if (const auto* group = std::get_if<Group>(&groups[g])) {
      for (const ir::Statement& s : group->members) {
        touch(s.store.storage, static_cast<int>(g));
        for (const ir::Access& load : s.loads) touch(load.storage, static_cast<int>(g));
      }
    } else if (const auto* e = std::get_if<ir::Extern>(&groups[g])) {
      for (const ir::View& v : e->inputs) touch(v.storage, -2);
      for (int storage : e->written) touch(storage, -2);
    } else {
      touch(std::get<ir::Abort>(groups[g]).flag, -2);
    }
  }
  std::vector<std::vector<bool>> local(groups.size(),
                                       std::vector<bool>(program.storages.size(), false));
  for (size_t s = 0; s < owner.size(); ++s)
    if (owner[s] >= 0 && program.storages[s].role == ir::Role::Temporary &&
        !program.storages[s].made_by_extern)
      local[static_cast<size_t>(owner[s])][s] = true;
  return local;
}

}  // namespace

Schedule run(Program program, const Settings& settings, std::vector<PassRecord>* records) {
  Log log(records, settings.keep_text);
  auto verified = [&] {
    std::string wrong = ir::verify(program);
    return wrong.empty() ? reads_of_own_stores(program) : wrong;
  };
  log.step({"lower", false, ""}, verified, [&] { return ir::print(program); });
  for (const ProgramPass& pass : kProgramPasses) {
    if (skipped(settings, pass.name) || (pass.fast_only && !settings.fast)) continue;
    log.step(
        pass.name,
        [&] {
          program = pass.run(std::move(program));
          return verified();
        },
        [&] { return ir::print(program); });
  }
  Schedule schedule;
  std::vector<GroupOrItem> groups;
  std::vector<std::vector<bool>> local;
  auto text = [&] { return ir::print(schedule); };
  auto check = [&] {
    for (const ir::Step& step : schedule.steps)
      if (const auto* kernel = std::get_if<ir::Kernel>(&step))
        if (auto wrong = ir::verify(*kernel, schedule.storages); !wrong.empty()) return wrong;
    return std::string();
  };
  log.step(
      kFuse,
      [&] {
        groups = group(program, !skipped(settings, kFuse));
        local = local_temporaries(program, groups);
        schedule.storages = program.storages;
        schedule.results = program.results;
        schedule.arena_offset.assign(program.storages.size(), -1);
        for (size_t g = 0; g < groups.size(); ++g) {
          if (const auto* members = std::get_if<Group>(&groups[g]))
            schedule.steps.emplace_back(build_kernel(*members, local[g]));
          else if (auto* e = std::get_if<ir::Extern>(&groups[g]))
            schedule.steps.emplace_back(std::move(*e));
          else
            schedule.steps.emplace_back(std::get<ir::Abort>(groups[g]));
        }
        return check();
      },
      text);
  log.step(
      kArrange,
      [&] {
        for (size_t k = 0; k < schedule.steps.size(); ++k)
          if (auto* kernel = std::get_if<ir::Kernel>(&schedule.steps[k]))
            arrange(*kernel, schedule, local[k], settings);
        return check();
      },
      text);
  if (!skipped(settings, kStream))
    log.step(
        kStream,
        [&] {
          stream_results(schedule, settings);
          return check();
        },
        text);
  log.step(
      kMemory,
      [&] {
        plan_memory(schedule);
        return check();
      },
      text);
  return schedule;
}

const std::vector<PassName>& list() {
  static const std::vector<PassName> names = [] {
    std::vector<PassName> out;
    for (const ProgramPass& pass : kProgramPasses) out.push_back(pass.name);
    out.insert(out.end(), {kFuse, kArrange, kStream, kMemory});
    return out;
  }();
  return names;
}

}  // namespace graft::passes
