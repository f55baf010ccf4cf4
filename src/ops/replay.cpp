#include "ops/replay.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ir/builder.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using ir::Constant;
using ir::Extern;
using Kind = OperandKind;

/// Of all copies that one operator needs: more would be a risk to the process.
constexpr int64_t kMostBytes = int64_t{2} << 30;

bool is_narrow(c10::ScalarType type) {
  return (is_float(type) && type != c10::ScalarType::Double) ||
         type == c10::ScalarType::ComplexFloat;
}

/// Double, of complex numbers ComplexDouble.
c10::ScalarType widened(c10::ScalarType type) {
  return c10::isComplexType(type) ? c10::ScalarType::ComplexDouble : c10::ScalarType::Double;
}
Constant constant_of_dtype(c10::ScalarType type) {
  return {static_cast<int64_t>(type)};
}

bool takes_dtype(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

/// One operator's call on doubles.
class Widening {
 public:
  Widening(const Extern& call, const record::OperatorRecord& op, ir::Program& program,
           std::vector<ir::Item>& items)
      : call_(call), op_(op), program_(program), items_(items) {}

  void run() {
    Extern wide = call_;
    for (View& view : wide.inputs) view = input(view);
    for (View& view : wide.outputs) view = output(view);
    wide.written = written();
    widen_dtypes(wide);
    items_.emplace_back(std::move(wide));
    store_mutated();
    for (const Copy& copy : returned_) store(copy);
  }

 private:
  struct Copy {
    View from, wide;
  };

  [[noreturn]] void refuse(const std::string& why) const {
    throw std::runtime_error(full_name(op_) + " is not called on doubles: " + why);
  }

  static const Copy* find(const std::vector<Copy>& copies, const View& view) {
    auto copy = std::find_if(copies.begin(), copies.end(),
                             [&](const Copy& seen) { return seen.from == view; });
    return copy == copies.end() ? nullptr : &*copy;
  }

  bool is_input(int storage) const {
    return std::any_of(call_.inputs.begin(), call_.inputs.end(),
                       [&](const View& view) { return view.storage == storage; });
  }
  bool is_written(int storage) const {
    return std::find(call_.written.begin(), call_.written.end(), storage) != call_.written.end();
  }

  /// Whole numbers of which the operator makes floating ones are its data as well.
  bool is_data(const View& view) const {
    auto floating = [](const View& v) { return is_float(v.dtype) || c10::isComplexType(v.dtype); };
    const auto& in = call_.inputs;
    return is_narrow(view.dtype) ||
           (std::none_of(in.begin(), in.end(), floating) &&
            std::any_of(call_.outputs.begin(), call_.outputs.end(), floating));
  }

  View make_wide(const View& view) {
    ir::Storage storage;
    const c10::ScalarType type = widened(view.dtype);
    storage.bytes = ir::numel(view.sizes) * static_cast<int64_t>(c10::elementSize(type));
    storage.made_by_extern = true;
    bytes_ += storage.bytes;
    if (bytes_ > kMostBytes) refuse("its tensors are too large");
    program_.storages.push_back(storage);
    return {static_cast<int>(program_.storages.size()) - 1, type, 0, view.sizes,
            ir::contiguous_strides(view.sizes)};
  }

  View input(const View& view) {
    if (view.storage < 0 || !is_data(view)) return view;
    if (const Copy* seen = find(given_, view)) return seen->wide;
    given_.push_back({view, make_wide(view)});
    const View& wide = given_.back().wide;
    const Constant none, contiguous{static_cast<int64_t>(c10::MemoryFormat::Contiguous)};
    // _to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format)
    Extern copy{{"aten::_to_copy", ""}, {}, {view}, {wide}, {wide.storage}, call_.record};
    copy.slots.push_back({Kind::Tensor, none, {0}});
    for (const Constant& constant :
         {constant_of_dtype(wide.dtype), none, none, none, Constant{false}, contiguous})
      copy.slots.push_back({Kind::Constant, constant, {}});
    items_.emplace_back(std::move(copy));
    return wide;
  }

  View output(const View& view) {
    if (view.storage < 0 || !is_narrow(view.dtype)) return view;
    if (const Copy* seen = find(given_, view)) return seen->wide;
    if (is_input(view.storage) || !is_written(view.storage))
      refuse("it returns other views of its arguments");
    returned_.push_back({view, make_wide(view)});
    program_.storages[static_cast<size_t>(view.storage)].made_by_extern = false;
    return returned_.back().wide;
  }

  std::vector<int> written() const {
    std::vector<int> all;
    for (int storage : call_.written) {
      const size_t before = all.size();
      for (const auto* copies : {&given_, &returned_})
        for (const Copy& copy : *copies)
          if (copy.from.storage == storage) all.push_back(copy.wide.storage);
      if (all.size() == before) all.push_back(storage);
    }
    return all;
  }

  void widen_dtypes(Extern& wide) const {
    const auto& arguments = op_.op.schema().arguments();
    for (size_t k = 0; k < wide.slots.size(); ++k) {
      const auto* dtype = std::get_if<int64_t>(&wide.slots[k].constant.value);
      if (dtype == nullptr || !takes_dtype(arguments[k])) continue;
      const auto type = static_cast<c10::ScalarType>(*dtype);
      if (is_narrow(type)) wide.slots[k].constant = constant_of_dtype(widened(type));
    }
  }

  void store_mutated() {
    const auto& arguments = op_.op.schema().arguments();
    for (size_t k = 0; k < call_.slots.size(); ++k) {
      const c10::AliasInfo* alias = arguments[k].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      for (int index : call_.slots[k].views)
        if (index >= 0)
          if (const Copy* copy = find(given_, call_.inputs[static_cast<size_t>(index)]))
            store(*copy);
    }
  }

  void store(const Copy& copy) {
    // copy_(self, src, non_blocking)
    Extern back{{"aten::copy_", ""},
                {{Kind::Tensor, {}, {0}}, {Kind::Tensor, {}, {1}}, {Kind::Constant, {false}, {}}},
                {copy.from, copy.wide},
                {copy.from},
                {copy.from.storage},
                call_.record};
    items_.emplace_back(std::move(back));
  }

  const Extern& call_;
  const record::OperatorRecord& op_;
  ir::Program& program_;
  std::vector<ir::Item>& items_;
  std::vector<Copy> given_, returned_;
  int64_t bytes_ = 0;
};

}  // namespace

ir::Program in_double(ir::Program called, const record::Trace& trace,
                      const std::vector<Approximation>& which) {
  std::vector<ir::Item> items;
  for (ir::Item& item : called.items) {
    const auto* call = std::get_if<Extern>(&item);
    auto is_it = [&](const Approximation& a) { return call->record == a.record; };
    if (call == nullptr || std::none_of(which.begin(), which.end(), is_it))
      items.push_back(std::move(item));
    else
      Widening(*call, trace.ops[static_cast<size_t>(call->record)], called, items).run();
  }
  called.items = std::move(items);
  return called;
}

}  // namespace graft::ops
