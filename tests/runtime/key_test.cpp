#include "runtime/key/key.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

namespace graft::runtime {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Made {
  Key key;
  Unsupported unsupported;
};
std::unique_ptr<Made> make(const Tensors& tensors, std::vector<uint64_t> statics = {}) {
  detail::FlatArgs args;
  for (const at::Tensor& tensor : tensors) args.tensors.push_back(&tensor);
  args.statics.assign(statics.begin(), statics.end());
  auto made = std::make_unique<Made>();
  made->unsupported = made->key.build(args);
  return made;
}

/// The text of the difference; empty when the keys are equal. Both ways of telling must agree.
std::string key_difference(const Made& a, const Made& b) {
  EXPECT_FALSE(a.unsupported || b.unsupported);
  std::string text = describe_difference(a.key.words.view(), b.key.words.view());
  bool equal = StoredKey(a.key).matches(b.key);
  EXPECT_EQ(equal, text.empty()) << text;
  return text;
}
std::string key_difference(const Tensors& a, const Tensors& b) {
  return key_difference(*make(a), *make(b));
}

TEST(Key, EqualLayoutsAreEqual) {
  EXPECT_EQ(
      key_difference({at::randn({2, 3}), at::randn({4})}, {at::zeros({2, 3}), at::zeros({4})}), "");
  EXPECT_EQ(key_difference({at::Tensor()}, {at::Tensor()}), "");
  EXPECT_EQ(key_difference(Tensors{}, Tensors{}), "");
}

TEST(Key, EveryPropertyOfATensorMatters) {
  at::Tensor x = at::zeros({2, 3});
  EXPECT_EQ(key_difference({x}, {at::zeros({2, 4})}),
            "argument 0: sizes [2, 3] expected, [2, 4] came");
  EXPECT_EQ(key_difference({x}, {at::zeros({3, 2}).t()}),
            "argument 0: strides [3, 1] expected, [1, 2] came");
  EXPECT_EQ(key_difference({x}, {at::zeros({2, 3}, at::kDouble)}),
            "argument 0: dtype Float expected, Double came");
  EXPECT_EQ(key_difference({x}, {at::zeros({2, 3}).requires_grad_()}),
            "argument 0: requires_grad false expected, true came");
  EXPECT_EQ(key_difference({x}, {at::Tensor()}), "argument 0: defined true expected, false came");
  EXPECT_NE(key_difference({x}, {at::zeros({2, 3, 1})}), "");
  EXPECT_EQ(key_difference({x, x.clone()}, {x}), "arguments: number of tensors 2 expected, 1 came");
  at::Tensor inference;
  {
    c10::InferenceMode mode;
    inference = at::zeros({2, 3});
  }
  EXPECT_NE(key_difference({x}, {inference}).find("argument 0: kind"), std::string::npos);
  at::Tensor wrapped = at::zeros({}), number = at::zeros({});
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_EQ(key_difference({wrapped}, {number}),
            "argument 0: wrapped number false expected, true came");
}

TEST(Key, StaticsMatter) {
  EXPECT_NE(key_difference(*make({}, {1}), *make({}, {2})), "");
  EXPECT_NE(key_difference(*make({}, {1}), *make({}, {1, 1})), "");
  EXPECT_EQ(key_difference(*make({}, {7}), *make({}, {7})), "");
}

TEST(Key, ModesMatter) {
  Tensors x{at::zeros({2})};
  auto plain = make(x);
  {
    at::NoGradGuard guard;
    EXPECT_EQ(key_difference(*plain, *make(x)), "mode: grad mode true expected, false came");
  }
  {
    c10::InferenceMode mode;
    EXPECT_NE(key_difference(*plain, *make(x)), "");
  }
  {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    auto bf16 = make(x);
    EXPECT_EQ(key_difference(*plain, *bf16), "mode: autocast off expected, BFloat16 came");
    at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
    EXPECT_NE(key_difference(*bf16, *make(x)), "");
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  {
    c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
    EXPECT_EQ(key_difference(*plain, *make(x)), "mode: default dtype Float expected, Double came");
    c10::set_default_dtype(caffe2::TypeMeta::Make<float>());
  }
  {
    at::globalContext().setDeterministicAlgorithms(true, false);
    EXPECT_NE(key_difference(*plain, *make(x)), "");
    at::globalContext().setDeterministicAlgorithms(false, false);
  }
  if (at::globalContext().setFlushDenormal(true)) {
    EXPECT_EQ(key_difference(*plain, *make(x)),
              "mode: flushes denormals false expected, true came");
    at::globalContext().setFlushDenormal(false);
  }
  EXPECT_EQ(key_difference(*plain, *make(x)), "");
}

TEST(Key, OverlapMatters) {
  at::Tensor base = at::zeros({100}), other = at::zeros({100});
  auto slice = [](const at::Tensor& x, int64_t from) { return x.narrow(0, from, 10); };
  auto disjoint = make({slice(base, 0), slice(other, 0)});
  auto same = make({slice(base, 0), slice(base, 0)});
  auto by_five = make({slice(base, 0), slice(base, 5)});
  auto by_six = make({slice(base, 0), slice(base, 6)});
  EXPECT_EQ(key_difference(*disjoint, *same),
            "arguments: disjoint memory expected, some that share memory came");
  EXPECT_EQ(key_difference(*same, *disjoint),
            "arguments: shared memory expected, disjoint memory came");
  EXPECT_EQ(key_difference(*by_five, *by_six),
            "argument 1: overlaps the other arguments' memory differently than expected");
  // Where they lie together does not matter, only how far apart.
  EXPECT_EQ(key_difference(*by_five, *make({slice(other, 20), slice(other, 25)})), "");
  EXPECT_NE(key_difference(*by_five, *make({slice(base, 5), slice(base, 0)})), "");
  // One tensor given twice is not two views of the same bytes.
  at::Tensor x = slice(base, 0);
  EXPECT_NE(key_difference(*same, *make({x, x})), "");
}

TEST(Key, StoragesOverOneBufferOverlap) {
  std::vector<float> buffer(100);
  at::Tensor a = at::from_blob(buffer.data(), {50}), b = at::from_blob(buffer.data() + 25, {50});
  at::Tensor c = at::from_blob(buffer.data() + 50, {50});
  EXPECT_NE(key_difference({a, c}, {a, b}), "");
  EXPECT_EQ(key_difference({a, c}, {at::zeros({50}), at::zeros({50})}), "");
}

TEST(Key, ManyTensors) {
  Tensors many, moved;
  for (int i = 0; i < 200; ++i) many.push_back(at::zeros({3, i % 5 + 1}));
  for (int i = 199; i >= 0; --i) moved.push_back(at::zeros({3, (199 - i) % 5 + 1}));
  EXPECT_EQ(key_difference(many, moved), "");
  moved[148] = moved[3];
  moved[153] = moved[3];
  EXPECT_EQ(key_difference(many, moved),
            "arguments: disjoint memory expected, some that share memory came");
  moved[77] = at::zeros({3, 9});
  EXPECT_EQ(key_difference(many, moved), "argument 77: sizes [3, 3] expected, [3, 9] came");
}

TEST(Key, WhatIsNoPlainCpuTensorIsRefusedWithTheNextStep) {
  auto text = [](const at::Tensor& tensor) {
    detail::FlatArgs args;
    args.tensors.push_back(&tensor);
    auto made = std::make_unique<Key>();
    return made->build(args).text(args);
  };
  EXPECT_EQ(text(at::zeros({2})), "");
  EXPECT_NE(text(at::zeros({2}, at::kMeta)).find("argument 0 is on meta; "), std::string::npos);
  EXPECT_NE(text(at::eye(3).to_sparse()).find("to_dense()"), std::string::npos);
  EXPECT_EQ(text(at::zeros({2}, at::kComplexFloat).conj()),
            "argument 0 is a lazy conjugate; pass x.resolve_conj()");
  EXPECT_NE(text(at::imag(at::zeros({2}, at::kComplexFloat).conj())).find("resolve_neg"),
            std::string::npos);
}

}  // namespace
}  // namespace graft::runtime
