#include "runtime/function/scales.h"

#include <map>
#include <stdexcept>

#include "ops/replay.h"
#include "passes/disturb.h"
#include "runtime/process/log.h"

namespace graft::runtime {

Scales compile_scales(const record::Trace& trace, const CompileSettings& given,
                      const Region* backward, StoredScales& kept) noexcept {
  // They run a few times: what is compiled soon, kernels of a statement, is better than what is
  // fast.
  CompileSettings settings = given;
  settings.skip_passes.emplace_back("fuse");
  auto part = [&](ir::Program program) {
    if (!trace.backward) return program;
    const passes::Seam seam = seam_of(*trace.backward);
    return backward != nullptr ? passes::whole_backward(program, seam, backward->kept_of.size())
                               : passes::whole_forward(program, seam);
  };
  auto make = [&](ir::Program program, StoredScale& scale) {
    scale.schedule = schedule(part(std::move(program)), settings);
    Generated made = generate(scale.schedule, settings.target, settings.name);
    scale.code = std::move(made.code);
    return std::move(made.plan);
  };
  Scales made;
  try {
    ops::Lowered lowered = lower_as_scheduled(trace, settings);
    std::map<int, int64_t> written_out;
    for (const ops::Approximation& a : lowered.approximated)
      if (a.terms > 0) written_out[a.record] = a.terms;
    for (int which = 0; which < passes::kDisturbances; ++which)
      made.disturbed.push_back(make(passes::disturb(lowered.program, which, written_out),
                                    kept.disturbed.emplace_back()));
    ops::Lowered called = ops::lower_as_called(trace);
    if (called.broken) throw std::runtime_error(*called.broken);
    made.replay = make(called.program, kept.replay.emplace());
    if (lowered.approximated.empty()) return made;
    try {
      made.reference = make(ops::in_double(std::move(called.program), trace, lowered.approximated),
                            kept.reference.emplace());
    } catch (const std::exception& error) {
      kept.reference.reset();
      log(Topic::Codegen, settings.name + ": no reference in fp64: " + error.what());
    }
    return made;
  } catch (const std::exception& error) {
    log(Topic::Codegen, settings.name + ": no scales for its rounding: " + error.what());
  } catch (...) {
  }
  kept = {};
  return {};
}

Scales load_scales(const StoredScales& kept, const CompileSettings& settings) {
  auto load = [&](const StoredScale& scale) {
    return generate(scale.schedule, settings.target, settings.name, scale.code).plan;
  };
  Scales made;
  for (const StoredScale& scale : kept.disturbed) made.disturbed.push_back(load(scale));
  if (kept.replay) made.replay = load(*kept.replay);
  if (kept.reference) made.reference = load(*kept.reference);
  return made;
}

}  // namespace graft::runtime
