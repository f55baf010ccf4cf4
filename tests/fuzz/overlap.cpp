// Does ATen say what a step gives? It throws for most operands that overlap what is written; some
// overlaps it does not see, and then the order of its loops decides.
#include <algorithm>

#include "fuzz/program.h"

namespace graft::fuzz {

namespace {

/// Calls visit(address) for every element; stops when it gives false.
template <class Visit>
bool each_address(const at::Tensor& t, Visit visit) {
  std::vector<int64_t> at(static_cast<size_t>(t.dim()), 0);
  if (t.numel() == 0) return true;
  const char* base = static_cast<const char*>(t.const_data_ptr());
  for (;;) {
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * t.stride(static_cast<int64_t>(d));
    if (!visit(base + offset * static_cast<int64_t>(t.itemsize()))) return false;
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == t.size(static_cast<int64_t>(d - 1))) at[--d] = 0;
    if (d == 0) return true;
  }
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

}  // namespace

bool is_defined(const Step& step, const Tensors& values) {
  const auto& arguments = step.op.schema().arguments();
  if (step.op.hasTag(at::Tag::inplace_view)) return true;
  std::vector<at::Tensor> written, read;
  for (size_t k = 0; k < step.operands.size(); ++k)
    for (int number : step.operands[k].values) {
      if (number < 0) continue;
      const auto* alias = arguments[k].alias_info();
      bool writes = alias != nullptr && alias->isWrite();
      (writes ? written : read).push_back(values[static_cast<size_t>(number)]);
    }
  for (size_t w = 0; w < written.size(); ++w) {
    std::vector<const char*> bytes;
    auto collect = [&](const char* address) {
      for (size_t b = 0; b < written[w].itemsize(); ++b) bytes.push_back(address + b);
      return true;
    };
    each_address(written[w], collect);
    std::sort(bytes.begin(), bytes.end());
    if (std::adjacent_find(bytes.begin(), bytes.end()) != bytes.end()) return false;
    auto apart = [&](const at::Tensor& other) {
      if (!other.is_alias_of(written[w]) || same_layout(other, written[w])) return true;
      return each_address(other, [&](const char* address) {
        auto near = std::lower_bound(bytes.begin(), bytes.end(), address);
        return near == bytes.end() || *near >= address + other.itemsize();
      });
    };
    for (const at::Tensor& other : read)
      if (!apart(other)) return false;
    for (size_t v = 0; v < w; ++v)
      if (!apart(written[v]) || same_layout(written[v], written[w])) return false;
  }
  return true;
}

bool is_defined(const Program& program, const Tensors& inputs) {
  bool defined = true;
  try {
    execute(program, inputs, {}, [&](const Step& step, const Tensors& values) {
      defined = defined && is_defined(step, values);
    });
  } catch (const std::exception&) {
    // What throws is defined, as far as it came.
  }
  return defined;
}

}  // namespace graft::fuzz
