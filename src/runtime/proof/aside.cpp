#include "runtime/proof/aside.h"

#include <chrono>

#include "runtime/plan/frame.h"

namespace graft::runtime {

namespace {

const at::Tensor& source(const Block& block, const detail::FlatArgs& args,
                         const at::Tensor* captured) {
  return block.kind == Block::Kind::Argument ? *args.tensors[static_cast<size_t>(block.source)]
                                             : captured[block.source];
}

}  // namespace

Plan::StandIns clone_written(const Plan& plan, const detail::FlatArgs& args,
                             const at::Tensor* captured) {
  Plan::StandIns stand_ins(plan.blocks().size());
  for (size_t b = 0; b < stand_ins.size(); ++b) {
    const Block& block = plan.blocks()[b];
    if (!block.is_callers() || !block.written) continue;
    stand_ins[b] = make_storage(block.bytes);
    const char* base =
        static_cast<const char*>(source(block, args, captured).const_data_ptr()) - block.back;
    if (block.bytes > 0)
      std::memcpy(stand_ins[b].mutable_data(), base, static_cast<size_t>(block.bytes));
  }
  return stand_ins;
}

std::optional<Outputs> run_aside(const Plan& plan, const detail::FlatArgs& args,
                                 const at::Tensor* captured, SavedGenerators& generators) {
  Outputs made{&plan, std::vector<at::Tensor>(plan.result_count()),
               clone_written(plan, args, captured)};
  bool done = false;
  const auto start = std::chrono::steady_clock::now();
  try {
    done = plan.run(args, captured, made.results.data(), &made.stand_ins) == Plan::Outcome::Done;
  } catch (const std::exception&) {
  }
  made.microseconds =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  generators.rewind();
  return done ? std::make_optional(std::move(made)) : std::nullopt;
}

}  // namespace graft::runtime
