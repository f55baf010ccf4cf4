#include "cli/inspect/check_common.h"

#include <graft/graft.h>

#include <utility>

#include "cli/frame/usage.h"

namespace graft::cli {

workloads::CompiledCall compiled_for_check(const workloads::Instance& instance, Options compile,
                                           const std::string& name) {
  compile.race = false;
  compile.name = name;
  workloads::CompiledCall compiled = instance.compile(std::move(compile));
  settle(compiled);
  return compiled;
}

HowItRan how_it_ran(const Report& report) {
  if (report.verdict == Verdict::Faster) return {.ran = "compiled", .reason = ""};
  return {.ran = std::string("eager: ") + to_string(report.verdict),
          .reason = report.reason,
          .mismatched = report.verdict == Verdict::Mismatch};
}

}  // namespace graft::cli
