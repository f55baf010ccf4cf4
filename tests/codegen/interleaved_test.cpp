// Lanes two to four elements apart: loads that share vectors, stores that are made together, and
// what lies around them in memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <random>

#include "codegen/kernels.h"
#include "support/compare.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;

constexpr ScalarType kTypes[] = {ScalarType::Bool, ScalarType::Char,  ScalarType::BFloat16,
                                 ScalarType::Half, ScalarType::Float, ScalarType::Double,
                                 ScalarType::Long};

/// Elements first, first + apart, … of a storage.
ir::View part(const ir::View& storage, int64_t first, int64_t apart, int64_t count) {
  ir::View view = storage;
  view.byte_offset = first * static_cast<int64_t>(c10::elementSize(storage.dtype));
  view.sizes = {count};
  view.strides = {apart};
  return view;
}

/// In Float for the narrow types, as ATen adds them.
Value add(Value a, Value b) {
  if (a.type() == ScalarType::Bool) return a ^ b;
  if (a.type() != ScalarType::BFloat16 && a.type() != ScalarType::Half) return a + b;
  return (a.to(ScalarType::Float) + b.to(ScalarType::Float)).to(a.type());
}

/// Statements in one vector loop of `n`.
class OneLoop {
 public:
  explicit OneLoop(int64_t n) : n_(n), var_(k.vector(n)) {
    loop_ = std::make_unique<ir::Loop>();
    loop_->var = var_;
  }
  void place(ir::Statement s) { loop_->body.push_back(k.place(std::move(s), {var_})); }
  /// to[i] = the sum of from[k][i]
  void sum(const ir::View& to, const std::vector<ir::View>& from) {
    StatementBuilder s({n_});
    Value value = s.load(from[0]);
    for (size_t i = 1; i < from.size(); ++i) value = add(value, s.load(from[i]));
    place(s.store(to, value));
  }
  KernelMaker& done() {
    k.body({std::move(loop_), -1});
    return k;
  }
  KernelMaker k;

 private:
  int64_t n_;
  int var_;
  std::unique_ptr<ir::Loop> loop_;
};

TEST(Interleaved, LoadsShareVectors) {
  for (ScalarType type : kTypes)
    for (int64_t n : {5, 8, 16, 70, 131})
      for (int64_t apart : {2, 3, 4})
        for (int first = 0; first < 2; ++first)
          for (int parts = 1; parts < 1 << apart; ++parts) {
            OneLoop loop(n);
            ir::View x = loop.k.storage(sample({n * apart + 1}, type));
            for (int p = 0; p < apart; ++p)
              if ((parts >> p & 1) != 0)
                loop.sum(loop.k.storage(at::zeros({n}, type)), {part(x, first + p, apart, n)});
            EXPECT_EQ(difference(loop.done()), "")
                << c10::toString(type) << " " << n << ": parts " << parts << " of " << apart;
          }
}

TEST(Interleaved, StoresOfAllPartsAreMadeTogether) {
  for (ScalarType type : kTypes)
    for (int64_t n : {5, 8, 16, 70, 131})
      for (int apart : {2, 3, 4})
        for (int parts = 1; parts < 1 << apart; ++parts) {
          OneLoop loop(n);
          ir::View y = loop.k.storage(at::ones({n * apart + 2}, type)),
                   x = loop.k.storage(sample({n * apart}, type));
          for (int p = apart; p-- > 0;)
            if ((parts >> p & 1) != 0)
              loop.sum(part(y, 1 + p, apart, n), {part(x, apart - 1 - p, apart, n)});
          EXPECT_EQ(difference(loop.done()), "")
              << c10::toString(type) << " " << n << ": parts " << parts << " of " << apart;
        }
}

/// A tensor that ends, or begins, where memory does.
class Bordered {
 public:
  Bordered(int64_t count, ScalarType type, bool ends) {
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t bytes = static_cast<size_t>(count) * c10::elementSize(type),
           pages = (bytes + page - 1) / page * page;
    size_ = pages + 2 * page;
    memory_ =
        static_cast<char*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + page, pages, PROT_READ | PROT_WRITE);
    char* data = memory_ + page + (ends ? pages - bytes : 0);
    tensor = at::from_blob(data, {count}, at::TensorOptions().dtype(type));
    tensor.copy_(tame({count}, type));
  }
  ~Bordered() { munmap(memory_, size_); }
  Bordered(const Bordered&) = delete;
  Bordered& operator=(const Bordered&) = delete;
  at::Tensor tensor;

 private:
  char* memory_ = nullptr;
  size_t size_ = 0;
};

TEST(Interleaved, NothingAroundIsTouched) {
  for (ScalarType type : kTypes)
    for (int64_t n : {5, 8, 64, 72, 131})
      for (int64_t apart : {2, 3, 4})
        for (int64_t reach = 0; reach < apart; ++reach)
          for (bool ends : {false, true}) {
            // The last lane's last part is the last element.
            int64_t count = (n - 1) * apart + reach + 1;
            Bordered x(count, type, ends), y(n * apart, type, ends);
            OneLoop loop(n);
            ir::View from = loop.k.storage(x.tensor), to = loop.k.storage(y.tensor);
            for (int64_t p = 0; p < apart; ++p)
              loop.sum(part(to, p, apart, n),
                       {part(from, 0, apart, n), part(from, reach, apart, n)});
            KernelMaker& k = loop.done();
            at::Tensor first = x.tensor.slice(0, 0, count, apart),
                       last = x.tensor.slice(0, reach, count, apart);
            at::Tensor sum = type == ScalarType::Bool ? first ^ last : first + last;
            run_compiled(k.kernel, k.tensors);
            EXPECT_TRUE(at::equal(y.tensor.view({n, apart}), sum.unsqueeze(1).expand({n, apart})))
                << c10::toString(type) << " " << n << ": " << reach << " of " << apart;
          }
}

/// Programs in which later statements read what earlier ones store, or store over it.
TEST(Interleaved, StatementsKeepTheirOrder) {
  std::mt19937 random(1);
  auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint32_t>(limit));
  };
  for (int round = 0; round < 100; ++round) {
    int64_t n = round % 2 == 0 ? 70 : 19, apart = 2 + below(3);
    OneLoop loop(n);
    ScalarType type = round % 3 == 0 ? ScalarType::Double : ScalarType::Float;
    std::vector<ir::View> storages;
    for (uint64_t s = 0; s < 3; ++s) storages.push_back(loop.k.storage(tame({n * apart}, type, s)));
    auto any = [&] {
      return part(storages[static_cast<size_t>(below(3))], below(apart), apart, n);
    };
    for (int64_t statements = 2 + below(6); statements > 0; --statements) {
      std::vector<ir::View> from{any()};
      if (below(2) == 0) from.push_back(any());
      loop.sum(any(), from);
    }
    EXPECT_EQ(difference(loop.done()), "") << round;
  }
}

TEST(Interleaved, LoopsInsideAndAroundLanes) {
  for (ScalarType type : {ScalarType::Float, ScalarType::BFloat16, ScalarType::Long})
    for (int vector : {0, 1}) {
      // Complex numbers plus real ones, rows or columns as lanes.
      KernelMaker k;
      std::vector<int64_t> sizes{45, 21};
      ir::View x = k.storage(tame({45, 21, 2}, type)), w = k.storage(tame({45, 21}, type)),
               y = k.storage(at::zeros({45, 21, 2}, type));
      int a = k.variable(45, vector == 0 ? ir::LoopKind::Vector : ir::LoopKind::Serial),
          b = k.variable(21, vector == 1 ? ir::LoopKind::Vector : ir::LoopKind::Serial);
      auto inner = std::make_unique<ir::Loop>();
      inner->var = b;
      for (int64_t p = 0; p < 2; ++p) {
        auto half = [&](ir::View v) {
          v.byte_offset = p * static_cast<int64_t>(c10::elementSize(type));
          v.sizes = sizes;
          v.strides.pop_back();
          return v;
        };
        StatementBuilder s(sizes);
        inner->body.push_back(k.place(s.store(half(y), add(s.load(half(x)), s.load(w))), {a, b}));
      }
      k.body(KernelMaker::loop(a, ir::TreeNode{std::move(inner), -1}));
      EXPECT_EQ(difference(k), "") << c10::toString(type) << vector;
    }
}

/// A routine on arrays computes one of the parts: it is there a phase later than the other.
TEST(Interleaved, PartsOfSeveralPhases) {
  for (int64_t n : {20, 700, 1100}) {
    OneLoop loop(n);
    ir::View x = loop.k.storage(tame({2 * n}, ScalarType::Float)),
             y = loop.k.storage(at::zeros({2 * n}));
    StatementBuilder a({n});
    loop.place(a.store(part(y, 0, 2, n), a.load(part(x, 1, 2, n)) * 2));
    StatementBuilder b({n});
    Value root = ir::call(ir::Routine::ArrayExp, b.load(part(x, 0, 2, n)));
    loop.place(b.store(part(y, 1, 2, n), root + b.load(part(x, 1, 2, n))));
    EXPECT_EQ(difference(loop.done(), 1e-6), "") << n;
  }
}

}  // namespace
}  // namespace graft::test
