#include "support/statement_run.h"

#include <cstring>
#include <stdexcept>

namespace graft::test {

namespace {

using ir::Op;

bool is_index(ir::ReduceOp op) {
  return op == ir::ReduceOp::ArgMax || op == ir::ReduceOp::ArgMin;
}

int64_t size_of(c10::ScalarType type) {
  return static_cast<int64_t>(c10::elementSize(type));
}

}  // namespace

StatementRun::StatementRun(const ir::Statement& statement, const Memory& memory)
    : s_(statement), memory_(memory), values_(statement.expr.nodes.size()) {
  std::vector<ir::NodeId> roots = {s_.value};
  for (const ir::Indirect& part : s_.store.indirect) roots.push_back(part.index);
  output_ = cone_of(roots);
  if (s_.reduction) input_ = cone_of({s_.reduction->input});
  check_epilogue();
}

StatementRun::Cone StatementRun::cone_of(const std::vector<ir::NodeId>& roots) const {
  Cone needed(s_.expr.nodes.size(), false);
  for (ir::NodeId root : roots) needed.at(static_cast<size_t>(root)) = true;
  // Operands come before their users, so one sweep backwards is enough.
  for (size_t id = needed.size(); id-- > 0;) {
    if (!needed[id]) continue;
    const ir::Node& node = s_.expr.nodes[id];
    for (int k = 0; k < arity(node); ++k)
      needed[static_cast<size_t>(node.in[static_cast<size_t>(k)])] = true;
    if (node.op != Op::Load) continue;
    for (const ir::Indirect& part : s_.loads.at(static_cast<size_t>(node.payload)).indirect)
      needed[static_cast<size_t>(part.index)] = true;
  }
  return needed;
}

/// What is computed from the accumulated value may not depend on an index that has been reduced
/// away.
void StatementRun::check_epilogue() const {
  if (!s_.reduction || s_.reduction->scan) return;
  for (size_t id = 0; id < output_.size(); ++id) {
    if (!output_[id]) continue;
    const ir::Node& node = s_.expr.nodes[id];
    for (size_t a = 0; a < s_.axes.size(); ++a) {
      if (!s_.reduction->axes[a]) continue;
      if (node.op == Op::Axis && node.payload == static_cast<int64_t>(a))
        fail("the stored value uses a reduced axis");
      if (node.op == Op::Load && s_.loads.at(static_cast<size_t>(node.payload)).strides.at(a) != 0)
        fail("the stored value loads along a reduced axis");
    }
  }
}

int64_t StatementRun::byte_offset(const ir::Access& access, const std::vector<int64_t>& at) const {
  int64_t element = access.offset;
  for (size_t a = 0; a < at.size(); ++a) element += at[a] * access.strides.at(a);
  for (const ir::Indirect& part : access.indirect)
    element += from_bits<int64_t>(values_[static_cast<size_t>(part.index)]) * part.stride;
  return element * size_of(access.dtype);
}

Bits StatementRun::leaf(const ir::Node& node, const std::vector<int64_t>& at) {
  switch (node.op) {
    case Op::Const:
      return literal(node.payload, node.type);
    case Op::Scalar:
      return literal(static_cast<int64_t>(s_.scalars.at(static_cast<size_t>(node.payload))),
                     node.type);
    case Op::Axis:
      return to_bits(at.at(static_cast<size_t>(node.payload)));
    case Op::Reduced:
      return reduced_;
    default:
      break;
  }
  const ir::Access& access = s_.loads.at(static_cast<size_t>(node.payload));
  int64_t offset = byte_offset(access, at), size = size_of(access.dtype);
  Bits bits = 0;
  std::memcpy(&bits, memory_.at(access.storage, offset, size), static_cast<size_t>(size));
  if (!writer_.empty() && access.storage == s_.store.storage)
    reads_.push_back({offset, size, point_});
  return access.dtype == c10::ScalarType::Bool ? Bits{bits != 0} : bits;
}

void StatementRun::evaluate(const Cone& cone, const std::vector<int64_t>& at) {
  for (size_t id = 0; id < cone.size(); ++id) {
    if (!cone[id]) continue;
    const ir::Node& node = s_.expr.nodes[id];
    if (arity(node) == 0) {
      values_[id] = leaf(node, at);
      continue;
    }
    auto operand = [&](size_t k) {
      return node.in[k] < 0 ? Bits{0} : values_[static_cast<size_t>(node.in[k])];
    };
    values_[id] =
        test::evaluate(node, s_.expr.type(node.in[0]), operand(0), operand(1), operand(2));
  }
}

void StatementRun::accumulate(Accumulator& into, const std::vector<int64_t>& at) {
  const ir::Reduction& r = *s_.reduction;
  evaluate(input_, at);
  Bits value = values_[static_cast<size_t>(r.input)];
  c10::ScalarType type = s_.expr.type(r.input);
  if (!is_index(r.op)) {
    if (ir::widens(r, type)) value = to_bits(static_cast<double>(from_bits<float>(value)));
    into.value = test::accumulate(r.op, r.type, into.value, value);
    return;
  }
  int64_t place = 0;
  for (size_t a = 0; a < at.size(); ++a)
    if (r.axes[a]) place = place * s_.axes[a] + at[a];
  bool first = into.place < 0 || beats(r.op, type, value, into.value);
  bool equal = into.place >= 0 && !first && !beats(r.op, type, into.value, value);
  if (first || (equal && place < into.place)) into.value = value, into.place = place;
}

void StatementRun::visit(const std::vector<int64_t>& at) {
  if (!s_.reduction) {
    point_ = points_++;
    store(at);
    return;
  }
  const ir::Reduction& r = *s_.reduction;
  std::vector<int64_t> key = at;
  for (size_t a = 0; a < at.size(); ++a)
    if (r.axes[a]) key[a] = 0;
  auto [found, is_new] = open_.try_emplace(key);
  Accumulator& accumulator = found->second;
  if (is_new) {
    accumulator.point = points_++;
    if (!is_index(r.op)) accumulator.value = identity(r.op, r.type);
  }
  point_ = r.scan ? points_++ : accumulator.point;
  accumulate(accumulator, at);
  if (r.scan) store_reduced(accumulator, at);
}

void StatementRun::finish() {
  if (s_.reduction && !s_.reduction->scan)
    for (const auto& [key, accumulator] : open_) {
      point_ = accumulator.point;
      store_reduced(accumulator, key);
    }
  open_.clear();
}

void StatementRun::store_reduced(const Accumulator& accumulator, const std::vector<int64_t>& at) {
  reduced_ = is_index(s_.reduction->op) ? to_bits(accumulator.place) : accumulator.value;
  store(at);
}

void StatementRun::store(const std::vector<int64_t>& at) {
  evaluate(output_, at);
  int64_t offset = byte_offset(s_.store, at), size = size_of(s_.store.dtype);
  char* place = memory_.at(s_.store.storage, offset, size);
  const Bits* value = &values_[static_cast<size_t>(s_.value)];
  // Two stores of the same bits to one place are as good as one (a scatter of one value through
  // equal indices).
  bool same = std::memcmp(place, value, static_cast<size_t>(size)) == 0;
  std::memcpy(place, value, static_cast<size_t>(size));
  if (writer_.empty()) return;
  for (int64_t byte = offset; byte < offset + size; ++byte) {
    int64_t& writer = writer_.at(static_cast<size_t>(byte));
    stored_twice_ = stored_twice_ || (writer >= 0 && writer != point_ && !same);
    writer = point_;
  }
}

std::string StatementRun::conflict() const {
  if (stored_twice_) return "two points store different values in the same place";
  for (const Read& read : reads_)
    for (int64_t byte = read.offset; byte < read.offset + read.size; ++byte) {
      int64_t writer = writer_.at(static_cast<size_t>(byte));
      if (writer >= 0 && writer != read.point) return "a point reads what another point stores";
    }
  return {};
}

}  // namespace graft::test
