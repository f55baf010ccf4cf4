#include "codegen/llvm/emitter.h"
#include "codegen/llvm/flow.h"

namespace graft::codegen {

namespace {

/// Elements that tasks of an element range get in multiples.
constexpr int64_t kBorder = 64;
// Streamed stores (Placed::streamed) of the narrowest elements begin at lines of 64 bytes.
static_assert(kBorder % 64 == 0 && kStripElements % 64 == 0);

/// Steps, at most, of a loop that is written out.
constexpr int64_t kMostWritten = 2;

}  // namespace

void Emitter::open(int l, llvm::BasicBlock* before, llvm::Value* index) {
  Frame frame;
  frame.loop = l;
  // In strips, what is hoisted goes before all of them.
  frame.before = strips_ && loop(l).vector ? strips_->before : before;
  frame.index = index;
  frame.depth = loop(l).depth;
  frames_.push_back(frame);
  at_depth_ = frame.depth;
}

void Emitter::close() {
  for (int v : frames_.back().defined) emitted_[static_cast<size_t>(v)] = {};
  frames_.pop_back();
  at_depth_ = frames_.back().depth;
}

/// for (i = from; i < to; i += step). `sure`: from < to is known.
void Emitter::repeated(llvm::Value* from, llvm::Value* to, int64_t step, bool sure,
                       const std::function<void(llvm::Value*)>& body) {
  llvm::BasicBlock *before = b_.GetInsertBlock(), *run = block("loop"), *after = block("after");
  if (sure)
    b_.CreateBr(run);
  else
    b_.CreateCondBr(b_.CreateICmpSLT(from, to), run, after);
  b_.SetInsertPoint(run);
  llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2);
  index->addIncoming(from, before);
  body(index);
  llvm::Value* next = b_.CreateNSWAdd(index, i64(step));
  index->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, to), run, after);
  b_.SetInsertPoint(after);
}

/// A loop of the plan that is known to have few steps, one after the other: how many. Nothing, and
/// nothing done, where it has more or nobody knows.
std::optional<int64_t> Emitter::written_out(int l, llvm::Value* from, llvm::Value* to, int64_t step,
                                            const std::function<void(llvm::Value*)>& body) {
  const std::optional<int64_t> size = distance(from, to);
  const int var = loop(l).var;
  // The kernel's own range has no variable.
  const bool is_short = var >= 0 &&
                        kernel_.vars[static_cast<size_t>(var)].kind == ir::LoopKind::Serial &&
                        layout_.fixed[static_cast<size_t>(var)] > 0;
  if (!size || (*size > kMostWritten * step && !is_short)) return std::nullopt;
  const int64_t steps = (*size + step - 1) / step;
  for (int64_t k = 0; k < steps; ++k) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *run = block("step");
    b_.CreateBr(run);
    b_.SetInsertPoint(run);
    llvm::Value* index = b_.CreateAdd(from, i64(k * step));
    open(l, before, index);
    body(index);
    close();
  }
  return steps;
}

/// for (i = from; i < to; i += step), a loop of the plan. Values hoisted out go before it.
void Emitter::counted(int l, llvm::Value* from, llvm::Value* to, int64_t step, bool sure,
                      const std::function<void(llvm::Value*)>& body) {
  if (written_out(l, from, to, step, body).has_value()) return;
  llvm::BasicBlock* before = b_.GetInsertBlock();
  repeated(from, to, step, sure, [&](llvm::Value* index) {
    open(l, before, index);
    body(index);
    close();
  });
}

/// The same, in blocks of a fixed number of steps when a sum inside adds up in blocks.
void Emitter::blocked(int l, llvm::Value* from, llvm::Value* to, int64_t step, bool sure,
                      const std::function<void(llvm::Value*)>& body) {
  const std::vector<int> sums = plan_.block_sums(l);
  if (sums.empty()) {
    counted(l, from, to, step, sure, body);
    return;
  }
  if (const auto steps = written_out(l, from, to, step, body)) {
    if (*steps > 0) flush_after(sums, i64(*steps));
    return;
  }
  llvm::BasicBlock *before = b_.GetInsertBlock(), *outer = block("block"), *run = block("loop"),
                   *flush = block("flush"), *after = block("after");
  if (sure)
    b_.CreateBr(outer);
  else
    b_.CreateCondBr(b_.CreateICmpSLT(from, to), outer, after);
  b_.SetInsertPoint(outer);
  llvm::PHINode* start = b_.CreatePHI(b_.getInt64Ty(), 2);
  start->addIncoming(from, before);
  llvm::Value* limit = b_.CreateNSWAdd(start, i64(step * kBlockSteps));
  llvm::Value* stop = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, limit, to);
  b_.CreateBr(run);
  b_.SetInsertPoint(run);
  llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2);
  index->addIncoming(start, outer);
  open(l, before, index);
  body(index);
  close();
  llvm::Value* next = b_.CreateNSWAdd(index, i64(step));
  index->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, stop), run, flush);
  b_.SetInsertPoint(flush);
  llvm::Value* steps = b_.CreateUDiv(b_.CreateSub(next, start), i64(step));
  flush_after(sums, steps);
  start->addIncoming(stop, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(stop, to), outer, after);
  b_.SetInsertPoint(after);
}

/// Whole vectors, several per iteration; then what is left, one vector per iteration: a masked one
/// where the loop's size is not known to be of whole vectors.
void Emitter::vector_loop(int l, llvm::Value* from, llvm::Value* to, const Body& body) {
  lanes_loop_ = l;
  int64_t lanes = machine_.lanes, unroll = loop(l).unroll, step = lanes * unroll;
  llvm::Value* whole = b_.CreateAnd(b_.CreateSub(to, from), i64(-step));
  llvm::Value *middle = b_.CreateAdd(from, whole), *steps_end = middle;
  blocked(l, from, middle, step, false, [&](llvm::Value* index) {
    for (int64_t c = 0; c < unroll; ++c)
      lanes_.push_back({c == 0 ? index : b_.CreateNSWAdd(index, i64(c * lanes)), nullptr});
    body();
    lanes_.clear();
  });
  const std::optional<int64_t> rest = distance(middle, to);
  if (rest == 0) return;
  auto one_by_one = [&](llvm::Value* first, llvm::Value* last, bool masked) {
    counted(l, first, last, lanes, false, [&](llvm::Value* index) {
      llvm::Value* mask = nullptr;
      if (masked) {
        llvm::Value* left = b_.CreateTrunc(b_.CreateSub(last, index), b_.getInt32Ty());
        mask = b_.CreateICmpULT(memory_.iota(b_.getInt32Ty()), splat(left));
      }
      lanes_.push_back({index, mask});
      body();
      lanes_.clear();
    });
  };
  const bool are_whole = rest && *rest % lanes == 0;
  bool squares = false;
  for (size_t p = 0; p < plan_.statements.size(); ++p)
    squares = squares || (laid_out(static_cast<int>(p)).transposed &&
                          plan_.vector_loop(planned(static_cast<int>(p)).loop) == l);
  if (!are_whole && (squares || !machine_.target.avx512()) && unroll > 1) {
    // Masks cost more without AVX-512, and squares have none: the last vector alone has one.
    llvm::Value* last = b_.CreateAdd(from, b_.CreateAnd(b_.CreateSub(to, from), i64(-lanes)));
    one_by_one(middle, last, false);
    middle = last;
  }
  one_by_one(middle, to, !are_whole);
  // Of loops that follow one another, what is left counts: there may be nothing else.
  std::vector<int> sums = plan_.block_sums(l);
  std::erase_if(sums, [&](int p) { return !planned(p).is_nested(); });
  if (sums.empty()) return;
  llvm::Value* left = b_.CreateSub(to, steps_end);
  Flow(b_, fn_).only_if(b_.CreateICmpSGT(left, i64(0)), [&] {
    flush_after(sums, b_.CreateUDiv(b_.CreateAdd(left, i64(lanes - 1)), i64(lanes)));
  });
}

void Emitter::serial_loop(int l) {
  if (layout_.range == RangeKind::Rows && loop(l).parent == 0) {
    rows_loop(l);
    return;
  }
  blocked(l, i64(0), extent(loop(l).var), 1, true, [&](llvm::Value*) { items(l); });
}

/// A border between two tasks' elements, moved up to the next whole vectors: both move it alike, so
/// that nothing is left out or done twice, and vectors stay aligned in memory.
llvm::Value* Emitter::whole_vectors(llvm::Value* border, int l) {
  bool streams = std::any_of(layout_.statements.begin(), layout_.statements.end(),
                             [](const StatementLayout& s) { return s.streamed; });
  // Loops inside make each vector long work, worth sharing one by one.
  int64_t step = loop(l).nested && !streams ? machine_.lanes * loop(l).unroll : kBorder;
  llvm::Value* up = b_.CreateAnd(b_.CreateAdd(border, i64(step - 1)), i64(-step));
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, up, extent(loop(l).var));
}

void Emitter::inner_loop(int l) {
  std::vector<int> started;
  for (size_t p = 0; p < plan_.statements.size(); ++p)
    if (plan_.statements[p].reduce_loop == l) started.push_back(static_cast<int>(p));
  for (int p : started) start_reduction(p);
  if (loop(l).vector) {
    bool is_range = layout_.range == RangeKind::Elements && loop(l).parent == 0;
    llvm::Value *from = is_range ? whole_vectors(begin_, l) : i64(0),
                *to = is_range ? whole_vectors(end_, l) : extent(loop(l).var);
    if (!is_range && is_quiet(l))
      std::tie(from, to) = needed_part(l);
    else
      store_deferred(l, b_.getFalse());
    StripPlan strips;
    if (loop(l).strips) strips = plan_strips(layout_, plan_, l);
    if (strips.phases.empty())
      vector_loop(l, from, to, [&] {
        words_ = copies() > 1 && has_words(l);
        items(l);
        words_ = false;
      });
    else
      strip_loop(l, from, to, std::move(strips));
  } else if (transposes(l)) {
    transposed_loop(l);
  } else {
    if (kernel_.vars[static_cast<size_t>(loop(l).var)].kind == ir::LoopKind::Step)
      deferred_.clear();
    store_deferred(l, b_.getFalse());
    serial_loop(l);
  }
  for (int p : loop(l).finishes) finish_reduction(p);
}

void Emitter::items(int l) {
  const std::vector<PlanItem>& all = loop(l).items;
  for (size_t i = 0; i < all.size();) {
    if (all[i].loop >= 0) {
      inner_loop(all[i++].loop);
      continue;
    }
    // Statements up to the next loop, vector by vector: few values are live at a time.
    size_t end = i;
    while (end < all.size() && all[end].placed >= 0) ++end;
    for (copy_ = 0; copy_ < copies(); ++copy_)
      for (size_t k = i; k < end; ++k) statement(all[k].placed);
    copy_ = 0;
    i = end;
  }
}

void Emitter::statement(int p) {
  const StatementPlan& plan = planned(p);
  if (laid_out(p).product) {
    product(p);
    return;
  }
  if (plan.accumulate == Accumulate::None) {
    store(p);
    return;
  }
  if (plan.reduce_loop < 0) start_reduction(p);
  accumulate(p);
  if (!plan.scan && plan.reduce_loop >= 0) return;
  set_reduced(p, total(p));
  store(p);
}

}  // namespace graft::codegen
