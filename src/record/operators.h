// What the recorder must know about an operator, derived once from its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <string>
#include <string_view>
#include <vector>

#include "record/trace.h"

namespace graft::record {

/// What an operator does with the memory of an argument.
enum class Access : uint8_t {
  None,  ///< reads its metadata only (empty_like), or changes it only (unsqueeze_)
  View,  ///< returns a view of it
  Read,
  Write,      ///< overwrites it without looking at what was there (copy_, fill_, out=)
  ReadWrite,  ///< in place
};

struct ArgumentFacts {
  Operand::Kind kind = Operand::Kind::Constant;
  Access access = Access::None;
  bool writes() const { return access == Access::Write || access == Access::ReadWrite; }
};

struct OperatorFacts {
  explicit OperatorFacts(const c10::OperatorHandle& handle);

  c10::OperatorHandle handle;
  std::string name;       ///< "aten::mul"
  std::string overload;   ///< "Tensor"
  std::string full_name;  ///< "aten::mul.Tensor"
  /// Result sizes follow from the second argument; where that is -1, from the data (one_hot).
  bool counts_classes = false;
  bool composite = false;       ///< made of other operators, which tell all that it does
  bool fills_itself = false;    ///< goes past the dispatcher, unless a gradient may be asked for
  bool autocasts = false;       ///< under autocast, its inputs are cast before it runs
  bool uninitialized = false;   ///< returns memory with no defined content
  bool changes_layout = false;  ///< changes the layout of `self` itself
  /// as_strided and the like: `storage_offset` counts from the storage's start.
  bool strided_view = false;
  bool draws = false;       ///< random numbers
  bool takes_mode = false;  ///< is told whether a module trains
  bool reads_data = false;  ///< brings data to the host, itself or within
  /// What it brings is a condition or a tensor's own number: a plan can demand the same.
  bool tells_value = false;
  bool tells_number = false;    ///< tells_value: the number
  bool makes_blank = false;     ///< fresh memory, which may be filled through a pointer later
  bool repeats = false;         ///< makes of the same inputs the same at every call
  bool shapes_by_data = false;  ///< the sizes of its result depend on data
  /// A library's operator that makes tensors and has no Meta kernel, so that nothing says what the
  /// sizes of its results depend on; or one whose results have usual sizes.
  bool unknown_shapes = false;
  /// unknown_shapes: it has usual sizes, and a loop can check that they are those.
  bool loop_checks_sizes = false;
  bool integer_indices_keep_shape = false;  ///< shapes_by_data, unless all indices are integers
  /// Of running_mean, which it writes, and running_var after it, though its schema does not say so;
  /// 0: has none. It writes them when the argument `training_flag` is set; 0: always.
  size_t running_statistics = 0, training_flag = 0;
  std::vector<ArgumentFacts> arguments;
  std::vector<Operand::Kind> returns;
};

/// Does what it makes lie at the same offset as its first argument, in a copy of all its memory?
bool copies_whole_memory(const c10::OperatorHandle& op);

/// Facts about the operator that `fn` calls; nullptr when `fn` is a user's range and not an
/// operator. Owned by this thread and valid until it ends.
const OperatorFacts* facts_of(const at::RecordFunction& fn);

}  // namespace graft::record
