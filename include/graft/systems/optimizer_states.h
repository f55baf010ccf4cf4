// AdamW whose states live in a file, updated group by group while backward goes on.
//
//     graft::systems::OffloadedAdamW adamw(model->parameters(),
//                                          {.file = "adamw.states", .budget_bytes = 256 << 20});
//     for (int64_t i = adamw.steps(); i < n; ++i) {  // a killed run goes on where the file is
//       adamw.zero_grad();
//       loss(batch(i)).backward();                   // groups are updated as gradients arrive
//       adamw.step();                                // the rest; returns when all are updated
//     }
//
// Memory. The states (two fp32 numbers per element, three with the parameters' copy) are cut into
// groups. Three buffers of one group each are all that is resident: one is read into, one is
// updated, one is written back. The file is read and written explicitly and not mapped, because
// - buffers are a hard bound, while the resident pages of a mapping are the kernel's choice;
// - a mapped page may be written back at any time, so no order of writes could be relied upon;
// - a full disk or a bad sector is an error with a name, and not a SIGBUS in an update.
//
// Consistency. Each group has two slots in the file. A step writes the slot that does not hold the
// last committed step, each with its step and checksums; when all groups are written, one record
// commits the step. Killed at any time, the file holds the last committed step, and opening it
// restores parameters and states of that step, bit for bit. The space is taken when the file is
// made, so that a full disk shows then, and the file takes its name only when it is complete.
//
// Formula: at::_fused_adamw_'s, on the same whole parameters with the same bits (a parameter that
// is larger than a group is cut at multiples of 64 elements). Parameters of bfloat16 or half have
// a master copy in fp32 in the file, which is updated with the gradient in fp32 and rounded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graft/export.h"

namespace graft::systems {

/// How the state file is read and written.
enum class FileAccess {
  /// O_DIRECT: past the page cache, so that `budget_bytes` is all the memory there is. Where the
  /// file system has no O_DIRECT, as Cached.
  Direct,
  /// Through the page cache: the kernel keeps what it has room for. Faster where the states fit
  /// into free memory; a container's limit counts these pages.
  Cached
};

struct OffloadOptions {
  /// The state file; made where it does not exist, else opened, which restores the parameters
  /// where the file has them. In /dev/shm it is shared memory. Twice the states' size.
  std::string file;
  /// Bytes of all buffers together. At least 3 groups of 64 elements; more means fewer and larger
  /// groups. A file keeps the groups with which it was made.
  int64_t budget_bytes = int64_t{256} << 20;
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
  /// Groups are updated during backward, as soon as all their gradients are there. Not with what
  /// needs all gradients first, as clipping by their norm, and not for a backward pass inside of a
  /// function that graft::compile records (hooks are a graph break): there step() does it all.
  bool interleave = true;
  /// Backward passes whose gradients add up to those of one step; only read with `interleave`.
  int backwards_per_step = 1;
  /// The parameters of each step are in the file, too, so that a run resumes from it alone.
  /// Without, and with fp32 parameters, the caller restores the parameters of step steps().
  bool keep_parameters = true;
  FileAccess access = FileAccess::Direct;
  /// Wait at each commit until the disk has it, so that it survives the machine's loss of power and
  /// not only the process's end.
  bool sync = false;
  /// The step to open the file at; -1: the last one committed. The one before it is intact while no
  /// later step has begun, which helps if a disk lost a part of the last one.
  int64_t at_step = -1;
};

/// Sums since the optimizer was made.
struct OffloadStats {
  int64_t read_bytes = 0, written_bytes = 0, updated_elements = 0;
  double read_seconds = 0, update_seconds = 0, write_seconds = 0;  ///< of the background threads
  double waited_seconds = 0;                                       ///< of the caller, in step()
  int64_t updated_in_backward = 0;  ///< groups whose update had begun before step() was called
};

/// Not thread-safe: one thread calls it, which may be another one than backward's. Gradients and
/// parameters must not be touched between the arrival of the gradients and the end of step().
///
/// Errors are c10::ValueError for wrong arguments and c10::Error for the rest, with the file's
/// name, what was needed and what to do. An error of the background threads is thrown by the next
/// step() or wait(). After an error parameters in memory may be of two steps; the file still holds
/// committed(), and restore() goes back to it.
class GRAFT_API OffloadedAdamW {
 public:
  /// `parameters`: dense contiguous CPU tensors of float, bfloat16 or half. They are held, and
  /// have a post-accumulate-gradient hook while this object lives where `interleave` is set.
  OffloadedAdamW(std::vector<at::Tensor> parameters, OffloadOptions options);
  /// Waits for the last step's commit. Updates of a backward without step() are dropped.
  ~OffloadedAdamW();
  OffloadedAdamW(OffloadedAdamW&&) noexcept;
  OffloadedAdamW& operator=(OffloadedAdamW&&) noexcept;

  /// Updates each parameter that has a gradient. Writing back and the commit go on in the
  /// background.
  void step();
  /// Blocks until the last step is committed.
  void wait();
  /// Parameters (where the file has them) and states of step committed(), as at opening: of the
  /// last step() that returned, whose commit it waits for, unless there was an error. What backward
  /// passes since then began is dropped.
  void restore();
  /// Undefines all gradients.
  void zero_grad();

  void set_lr(double lr);     ///< between steps
  int64_t steps() const;      ///< made, those before the file was opened included
  int64_t committed() const;  ///< the step that the file holds now
  int64_t group_count() const;
  int64_t resident_bytes() const;  ///< of all buffers; no more than the budget
  int64_t state_bytes() const;     ///< of one step's states in the file
  bool direct() const;             ///< whether the page cache is passed by
  OffloadStats stats() const;
  /// {exp_avg, exp_avg_sq} of a parameter at the committed step, read from the file: fp32, of the
  /// parameter's shape. Waits first.
  std::vector<at::Tensor> state(int64_t parameter);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace graft::systems
