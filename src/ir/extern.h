// An ATen operator that a program calls as it is. Operators are named and constants are plain
// values, so that nothing here needs ATen's dispatcher; a plan looks the operator up.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tensor/view.h"

namespace c10 {
struct IValue;
}

namespace graft::ir {

/// "aten::add" and "Tensor"; the overload may be empty.
struct OperatorName {
  std::string name, overload;
};

/// A number that the operator takes as a tensor of no dimensions.
struct NumberTensor {
  c10::ScalarType dtype;
  int64_t bits;  ///< as a Const node's payload: of a double for floating types
  bool wrapped;  ///< promotes as a Scalar does
};

/// A value without a text form: a generator, a complex number.
struct Opaque {
  std::string what;                          ///< "Generator"
  std::shared_ptr<const c10::IValue> value;  ///< null in a program that was read from text
};

/// What an operator is given beside tensors. Devices are strings, dtypes and layouts are numbers,
/// as the schema's type tells.
struct Constant {
  using List = std::vector<Constant>;
  std::variant<std::monostate, bool, int64_t, double, std::string, List, NumberTensor, Opaque>
      value;  ///< monostate: None
};

struct Extern {
  OperatorName op;
  struct Slot {
    using Kind = OperandKind;
    Kind kind = Kind::Constant;
    Constant constant;       ///< Kind::Constant
    std::vector<int> views;  ///< indices into `inputs`; -1 = None / undefined. Kind::Number: one
  };
  std::vector<Slot> slots;  ///< one per argument of the schema
  std::vector<View> inputs;
  /// Tensors it returns, flattened; a storage that is made_by_extern is bound from here.
  std::vector<View> outputs;
  std::vector<int> written;  ///< storages it writes (new ones and mutated inputs)
  int record = -1;           ///< the recorded operator it came from
  /// A matrix product, or attention, that may run as loops among others: other sums.
  bool may_be_loops = false;
  bool may_be_alone = false;   ///< … or with nothing beside it
  bool short_factors = false;  ///< … of fp32 factors that are rounded to bf16 first
  /// Bit k: its return k was an undefined tensor. (Another mode may make a workspace of it.)
  uint64_t undefined = 0;
};

}  // namespace graft::ir
