#include "codegen/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "codegen/system_compiler.h"
#include "support/interpreter.h"
#include "support/scalars.h"

namespace graft::test {

ir::View KernelMaker::storage(const at::Tensor& tensor) {
  tensors.push_back(tensor);
  int id = static_cast<int>(tensors.size() - 1);
  return {id, tensor.scalar_type(), 0, tensor.sizes().vec(), tensor.strides().vec()};
}

ir::View KernelMaker::scratch(std::vector<int64_t> sizes, c10::ScalarType dtype) {
  // Stands for a temporary: the interpreter gets a tensor of that size as well.
  ir::View view = storage(at::empty(sizes, dtype));
  int64_t bytes = ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(dtype));
  kernel.scratch.push_back({view.storage, kernel.scratch_bytes, bytes});
  kernel.scratch_bytes += (bytes + 63) / 64 * 64;
  return view;
}

int KernelMaker::variable(int64_t extent, ir::LoopKind kind) {
  kernel.vars.push_back({extent, kind});
  return static_cast<int>(kernel.vars.size() - 1);
}

int KernelMaker::range(int64_t extent) {
  kernel.range.push_back(variable(extent, ir::LoopKind::Range));
  return kernel.range.back();
}

ir::TreeNode KernelMaker::place(ir::Statement statement, std::vector<int> axis_var) {
  kernel.placed.push_back({std::move(statement), std::move(axis_var)});
  return {nullptr, static_cast<int>(kernel.placed.size() - 1)};
}

namespace {

/// All of a storage's memory that the tensor reaches, as a copy.
at::Tensor clone_memory(const at::Tensor& t) {
  at::Tensor copy = at::empty_strided(t.sizes(), t.strides(), t.options());
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  std::memcpy(copy.data_ptr(), t.data_ptr(), static_cast<size_t>((last + 1) * t.element_size()));
  return copy;
}

int64_t reach_bytes(const at::Tensor& t) {
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return (last + 1) * t.element_size();
}

struct Buffer {
  explicit Buffer(int64_t bytes) : memory(static_cast<size_t>(bytes) + 64, '\xff') {}
  char* data() {
    return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  }
  std::vector<char> memory;
};

template <class T>
std::string compare(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  const T *x = static_cast<const T*>(a.data_ptr()), *y = static_cast<const T*>(b.data_ptr());
  int64_t count = reach_bytes(a) / a.element_size();
  for (int64_t i = 0; i < count; ++i) {
    if (to_bits(x[i]) == to_bits(y[i])) continue;
    double p = static_cast<double>(x[i]), q = static_cast<double>(y[i]);
    if constexpr (!std::is_integral_v<T>) {
      if (std::isnan(p) && std::isnan(q)) continue;
      if (tolerance > 0 && std::abs(p - q) <= tolerance * (1 + std::abs(q))) continue;
    }
    std::ostringstream out;
    out.precision(17);
    out << "element " << i << " is " << p << ", expected " << q;
    return out.str();
  }
  return {};
}

}  // namespace

namespace {

void run(codegen::KernelFn function, const codegen::Binding& binding,
         const std::vector<at::Tensor>& tensors, int parts) {
  std::vector<char*> pointers;
  for (const auto& p : binding.pointers)
    pointers.push_back(static_cast<char*>(tensors[static_cast<size_t>(p.storage)].data_ptr()) +
                       p.byte_offset);
  codegen::LaunchArgs args{pointers.data(), binding.integers.data(), binding.scalars.data()};
  for (int64_t k = 0; k < parts; ++k) {
    Buffer scratch(binding.scratch_bytes);
    int64_t begin = binding.range_extent * k / parts, end = binding.range_extent * (k + 1) / parts;
    function(&args, scratch.data(), begin, end);
  }
}

constexpr int kParts = 3;

std::vector<ir::TreeNode> clone(const std::vector<ir::TreeNode>& body) {
  std::vector<ir::TreeNode> copy;
  for (const ir::TreeNode& node : body)
    copy.push_back(
        {node.loop ? std::make_unique<ir::Loop>(ir::Loop{node.loop->var, clone(node.loop->body)})
                   : nullptr,
         node.placed});
  return copy;
}

/// A kernel that LLVM's code has run.
struct Kept {
  ir::Kernel kernel;
  codegen::Binding binding;
  std::vector<at::Tensor> before, after;
};
std::map<std::string, Kept>* kept = nullptr;  ///< by structure

void keep(const ir::Kernel& kernel, const ir::Target& target, const std::vector<at::Tensor>& before,
          const std::vector<at::Tensor>& after) {
  if (kept == nullptr || target.code_key() != codegen::host_target(1).code_key()) return;
  Kept one;
  one.binding = codegen::bind(kernel);
  const std::string structure = one.binding.structure;
  if (kept->contains(structure)) return;
  // One of five, sums that widen, and whatever has a node of a dtype that none had so far.
  static auto* seen = new std::set<std::pair<ir::Op, c10::ScalarType>>;
  bool wanted = std::hash<std::string>()(structure) % 5 == 0;
  for (const ir::Placed& placed : kernel.placed) {
    const ir::Statement& s = placed.statement;
    if (s.reduction) wanted = wanted || widens(*s.reduction, s.expr.type(s.reduction->input));
    for (const ir::Node& node : s.expr.nodes)
      wanted = seen->emplace(node.op, node.type).second || wanted;
  }
  if (!wanted) return;
  one.kernel = {kernel.vars,    kernel.range,         clone(kernel.body), kernel.placed,
                kernel.scratch, kernel.scratch_bytes, kernel.name,        kernel.grain,
                kernel.own,     kernel.any_size,      kernel.is_rest,     kernel.rows};
  for (const at::Tensor& t : before) one.before.push_back(clone_memory(t));
  for (const at::Tensor& t : after) one.after.push_back(clone_memory(t));
  kept->emplace(structure, std::move(one));
}

std::string difference_of(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  return with_type(a.scalar_type(),
                   [&](auto zero) { return compare<decltype(zero)>(a, b, tolerance); });
}

bool is_scratch(const ir::Kernel& kernel, size_t storage) {
  return std::any_of(kernel.scratch.begin(), kernel.scratch.end(), [&](const ir::Scratch& s) {
    return static_cast<size_t>(s.storage) == storage;
  });
}

/// The nodes that no kept kernel has, one per line.
std::string unseen_nodes() {
  constexpr const char* kNames[] = {
#define NODE(name, ...) #name,
#include "ir/nodes.def"
  };
  std::vector<bool> seen(std::size(kNames), false);
  for (const auto& [structure, one] : *kept)
    for (const ir::Placed& placed : one.kernel.placed)
      for (const ir::Node& node : placed.statement.expr.nodes)
        seen[static_cast<size_t>(node.op)] = true;
  std::string text;
  for (size_t op = 0; op < seen.size(); ++op)
    if (!seen[op]) text += std::string("no kernel has the node ") + kNames[op] + "\n";
  return text;
}

}  // namespace

void keep_kernels() {
  kept = new std::map<std::string, Kept>;
}

std::string source_differences(size_t& count) {
  constexpr size_t kBatch = 150;  // kernels per file: each start of a compiler is slow
  std::string wrong = unseen_nodes();
  count = kept->size();
  SystemCompiler backend;
  for (auto at = kept->begin(); at != kept->end();) {
    std::vector<const ir::Kernel*> kernels;
    auto first = at;
    for (; at != kept->end() && kernels.size() < kBatch; ++at)
      kernels.push_back(&at->second.kernel);
    codegen::Loaded loaded =
        backend.load(backend.compile(kernels, codegen::host_target(1), nullptr));
    for (size_t k = 0; k < kernels.size(); ++k, ++first) {
      Kept& one = first->second;
      run(loaded.functions[k], one.binding, one.before, kParts);
      for (size_t t = 0; t < one.before.size(); ++t) {
        if (is_scratch(one.kernel, t)) continue;
        std::string difference = difference_of(one.before[t], one.after[t], 0);
        if (!difference.empty())
          wrong += "storage " + std::to_string(t) + ": " + difference + " by LLVM\n" +
                   ir::print(one.kernel, {});
      }
    }
  }
  return wrong;
}

void run_compiled(const ir::Kernel& kernel, const std::vector<at::Tensor>& tensors,
                  const ir::Target& target, int parts) {
  codegen::Binding binding = codegen::bind(kernel);
  bool fresh;
  run(codegen::get_or_compile(kernel, binding, target, nullptr, fresh).fn, binding, tensors, parts);
}

std::string difference(const KernelMaker& made, double tolerance, const ir::Target& target) {
  std::vector<at::Tensor> compiled, interpreted;
  ir::Schedule schedule;
  for (const at::Tensor& t : made.tensors) {
    compiled.push_back(clone_memory(t));
    interpreted.push_back(clone_memory(t));
    schedule.storages.push_back(
        {ir::Role::Argument, reach_bytes(t), static_cast<int>(schedule.storages.size()), false});
  }
  for (const ir::Scratch& s : made.kernel.scratch)
    schedule.storages[static_cast<size_t>(s.storage)].role = ir::Role::Temporary;
  ir::Kernel copy;
  // Kernels own their trees: the schedule gets the kernel for a moment.
  auto& kernel = const_cast<ir::Kernel&>(made.kernel);
  std::string wrong = ir::verify(kernel, schedule.storages);
  if (!wrong.empty()) return "malformed kernel: " + wrong;
  run_compiled(kernel, compiled, target, kParts);
  keep(kernel, target, made.tensors, compiled);
  schedule.steps.emplace_back(std::move(kernel));
  try {
    interpret(schedule, interpreted);
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  kernel = std::move(std::get<ir::Kernel>(schedule.steps[0]));
  if (!wrong.empty()) return wrong;
  for (size_t k = 0; k < compiled.size(); ++k) {
    bool scratch = schedule.storages[k].role == ir::Role::Temporary;
    if (scratch) continue;
    wrong = difference_of(compiled[k], interpreted[k], tolerance);
    if (!wrong.empty())
      return "storage " + std::to_string(k) + ": " + wrong + "\n" +
             ir::print(kernel, schedule.storages);
  }
  return {};
}

namespace {

uint64_t scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

template <class T>
T draw(uint64_t bits, bool tame) {
  double uniform = static_cast<double>(bits >> 40) * 0x1p-24;
  if constexpr (std::is_same_v<T, bool>)
    return bits & 1;
  else if constexpr (std::is_integral_v<T>) {
    using L = std::numeric_limits<T>;
    if (tame) return static_cast<T>(bits % 100);
    switch (bits % 8) {
      case 0:
        return L::min();
      case 1:
        return L::max();
      case 2:
        return 0;
      case 3:
        return static_cast<T>(-1);
      case 4:
        return static_cast<T>(bits >> 8);
      default:
        return static_cast<T>(static_cast<int64_t>((bits >> 8) % 50) - 20);
    }
  } else {
    if (tame) return static_cast<T>(static_cast<float>(uniform * 4 - 2));
    switch (bits % 16) {
      case 0:
        return static_cast<T>(-0.0f);
      case 1:
        return static_cast<T>(std::numeric_limits<float>::infinity());
      case 2:
        return static_cast<T>(-std::numeric_limits<float>::infinity());
      case 3:
        return static_cast<T>(std::numeric_limits<float>::quiet_NaN());
      case 4:
        return static_cast<T>(static_cast<float>(uniform * 1e-40));
      case 5:
        return static_cast<T>(static_cast<float>((uniform - 0.5) * 1e38));
      case 6:
        return static_cast<T>(static_cast<float>((uniform - 0.5) * 1e11));
      case 7:
        return static_cast<T>(static_cast<float>((uniform - 0.5) * 600));
      case 8:
        return static_cast<T>(static_cast<float>(static_cast<int>(uniform * 20) - 10) / 2);
      default:
        return static_cast<T>(static_cast<float>(uniform * 4 - 2));
    }
  }
}

at::Tensor fill(std::vector<int64_t> sizes, c10::ScalarType dtype, uint64_t seed, bool tame) {
  at::Tensor t = at::empty(sizes, dtype);
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* data = static_cast<T*>(t.data_ptr());
    for (int64_t i = 0; i < t.numel(); ++i)
      data[i] = draw<T>(scramble(seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(i)), tame);
    return 0;
  });
  return t;
}

}  // namespace

at::Tensor sample(std::vector<int64_t> sizes, c10::ScalarType dtype, uint64_t seed) {
  return fill(std::move(sizes), dtype, seed, false);
}
at::Tensor tame(std::vector<int64_t> sizes, c10::ScalarType dtype, uint64_t seed) {
  return fill(std::move(sizes), dtype, seed, true);
}

void nest(KernelMaker& made, ir::Statement statement, int ranges, int vector,
          std::vector<int> order) {
  size_t count = statement.axes.size();
  if (order.empty()) {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0);
  }
  std::vector<int> vars(count);
  for (size_t k = 0; k < count; ++k) {
    auto axis = static_cast<size_t>(order[k]);
    int64_t extent = statement.axes[axis];
    if (static_cast<int>(k) < ranges)
      vars[axis] = made.range(extent);
    else
      vars[axis] =
          made.variable(extent, order[k] == vector ? ir::LoopKind::Vector : ir::LoopKind::Serial);
  }
  ir::TreeNode node = made.place(std::move(statement), vars);
  for (size_t k = count; k-- > static_cast<size_t>(ranges);)
    node = KernelMaker::loop(vars[static_cast<size_t>(order[k])], std::move(node));
  made.body(std::move(node));
}

}  // namespace graft::test
