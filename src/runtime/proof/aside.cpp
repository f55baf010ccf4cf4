#include "runtime/proof/aside.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/plan/frame.h"

namespace graft::runtime {

namespace {

const at::Tensor& source(const Block& block, const detail::FlatArgs& args,
                         const at::Tensor* captured) {
  return block.kind == Block::Kind::Argument ? *args.tensors[static_cast<size_t>(block.source)]
                                             : captured[block.source];
}

c10::Storage copy_of(const char* memory, int64_t bytes) {
  c10::Storage made = make_storage(bytes);
  if (bytes > 0) std::memcpy(made.mutable_data(), memory, static_cast<size_t>(bytes));
  return made;
}

c10::Storage copy_now(const Block& block, const detail::FlatArgs& args,
                      const at::Tensor* captured) {
  return copy_of(
      static_cast<const char*>(source(block, args, captured).const_data_ptr()) - block.back,
      block.bytes);
}

}  // namespace

Plan::StandIns clone_written(const Plan& plan, const detail::FlatArgs& args,
                             const at::Tensor* captured) {
  Plan::StandIns stand_ins(plan.blocks().size());
  for (size_t b = 0; b < stand_ins.size(); ++b) {
    const Block& block = plan.blocks()[b];
    if (!block.is_callers() || !block.written) continue;
    stand_ins[b] = copy_now(block, args, captured);
  }
  return stand_ins;
}

Plan::StandIns Originals::clone(const Plan& plan) const {
  Plan::StandIns stand_ins(plan.blocks().size());
  for (size_t b = 0; b < stand_ins.size(); ++b) {
    const Block& block = plan.blocks()[b];
    if (!block.is_callers() || !block.written) continue;
    const auto& blocks = plan_.blocks();
    const auto same = std::find_if(blocks.begin(), blocks.end(), [&](const Block& other) {
      return other.written && other.kind == block.kind && other.source == block.source &&
             other.bytes == block.bytes && other.back == block.back;
    });
    const auto place = static_cast<size_t>(same - blocks.begin());
    stand_ins[b] = same == blocks.end()
                       ? copy_now(block, args_, captured_)
                       : copy_of(static_cast<const char*>(copies_[place].data()), block.bytes);
  }
  return stand_ins;
}

namespace {

std::optional<Outputs> run_over(Plan::StandIns stand_ins, const Plan& plan,
                                const detail::FlatArgs& args, const at::Tensor* captured,
                                SavedGenerators& generators) {
  Outputs made{&plan, std::vector<at::Tensor>(plan.result_count()), std::move(stand_ins)};
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

}  // namespace

std::optional<Outputs> run_aside(const Plan& plan, const detail::FlatArgs& args,
                                 const at::Tensor* captured, SavedGenerators& generators) {
  return run_over(clone_written(plan, args, captured), plan, args, captured, generators);
}

std::optional<Outputs> run_aside(const Plan& plan, const detail::FlatArgs& args,
                                 const at::Tensor* captured, SavedGenerators& generators,
                                 const Originals& originals) {
  return run_over(originals.clone(plan), plan, args, captured, generators);
}

}  // namespace graft::runtime
