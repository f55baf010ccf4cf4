// Flattens arguments and results: tensors, scalars, and standard containers of them. Not for users.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graft/detail/core.h"

namespace graft::detail {

template <class T>
struct Flatten {
  static constexpr bool known = false, owns = false;
};

/// `visit(x, leaf)` calls leaf.tensor(t) for each tensor and leaf.word(w) for each static word, in
/// a fixed order. X is T or const T. `owns`: a copy refers to nothing that the original holds.
template <>
struct Flatten<at::Tensor> {
  static constexpr bool known = true;
  static constexpr bool owns = true;
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    leaf.tensor(x);
  }
};

template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
struct Flatten<T> {
  static constexpr bool known = true;
  static constexpr bool owns = true;
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    static_assert(sizeof(T) <= 16);
    uint64_t words[2] = {0, 0};
    std::memcpy(words, &x, sizeof(T) < 16 ? sizeof(T) : 10);  // long double: 10 bytes of value
    leaf.word(words[0]);
    if constexpr (sizeof(T) > 8) leaf.word(words[1]);
  }
};

template <>
struct Flatten<c10::Scalar> {
  static constexpr bool known = true;
  static constexpr bool owns = true;
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    leaf.word(static_cast<uint64_t>(x.type()));
    if (x.isFloatingPoint()) {
      leaf.word(std::bit_cast<uint64_t>(x.toDouble()));
    } else if (x.isComplex()) {
      leaf.word(std::bit_cast<uint64_t>(x.toComplexDouble().real()));
      leaf.word(std::bit_cast<uint64_t>(x.toComplexDouble().imag()));
    } else if (x.type() == c10::ScalarType::UInt64) {
      leaf.word(x.toUInt64());
    } else {
      leaf.word(static_cast<uint64_t>(x.toLong()));
    }
  }
};

template <>
struct Flatten<std::string> {
  static constexpr bool known = true;
  static constexpr bool owns = true;
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    leaf.word(x.size());
    for (size_t i = 0; i < x.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, x.data() + i, std::min<size_t>(8, x.size() - i));
      leaf.word(word);
    }
  }
};

template <>
struct Flatten<std::monostate> {
  static constexpr bool known = true;
  static constexpr bool owns = true;
  template <class X, class Leaf>
  static void visit(X&, Leaf&&) {}
};

template <class T>
  requires(Flatten<T>::known)
struct Flatten<std::optional<T>> {
  static constexpr bool known = true;
  static constexpr bool owns = Flatten<T>::owns;
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    leaf.word(x.has_value());
    if (x.has_value()) Flatten<T>::visit(*x, leaf);
  }
};

template <class T>
concept FlatSequence = requires(T& t) {
  typename T::value_type;
  t.begin();
  t.end();
  t.size();
} && !std::is_same_v<T, std::string> && Flatten<typename T::value_type>::known;

template <FlatSequence T>
struct Flatten<T> {
  static constexpr bool known = true;
  // Spans, string views and ArrayRefs are copied bit by bit, as std::array is, which has its
  // elements inside.
  static constexpr bool owns = (!std::is_trivially_copyable_v<T> || requires {
                                 std::tuple_size<T>::value;
                               }) && Flatten<typename T::value_type>::owns;
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    leaf.word(x.size());
    if constexpr (std::is_same_v<T, std::vector<bool>>) {
      for (bool value : x) leaf.word(value);
    } else {
      for (auto& value : x) Flatten<typename T::value_type>::visit(value, leaf);
    }
  }
};

template <class K, class V>
  requires(Flatten<K>::known && Flatten<V>::known)
struct Flatten<std::map<K, V>> {
  static constexpr bool known = true;
  static constexpr bool owns = Flatten<K>::owns && Flatten<V>::owns;
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    leaf.word(x.size());
    for (auto& [key, value] : x) {
      Flatten<K>::visit(key, leaf);
      Flatten<V>::visit(value, leaf);
    }
  }
};

// Not for pairs with const parts, as those of a map, whose order may differ from copy to copy.
template <class A, class B>
  requires(Flatten<std::remove_reference_t<A>>::known && Flatten<std::remove_reference_t<B>>::known)
struct Flatten<std::pair<A, B>> {
  static constexpr bool known = true;
  static constexpr bool owns =
      Flatten<std::remove_reference_t<A>>::owns && Flatten<std::remove_reference_t<B>>::owns;
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    Flatten<std::remove_reference_t<A>>::visit(x.first, leaf);
    Flatten<std::remove_reference_t<B>>::visit(x.second, leaf);
  }
};

template <class... T>
  requires(Flatten<std::decay_t<T>>::known && ...)
struct Flatten<std::tuple<T...>> {
  static constexpr bool known = true;
  static constexpr bool owns = (Flatten<std::decay_t<T>>::owns && ...);
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    std::apply([&](auto&... value) { (Flatten<std::decay_t<T>>::visit(value, leaf), ...); }, x);
  }
};

template <class... Args>
constexpr void check_arguments() {
  static_assert((Flatten<Args>::known && ...),
                "graft::compile: Graft cannot look into an argument of this type, so it cannot "
                "tell what a plan depends on. Pass tensors, numbers, enums, std::string, "
                "at::Scalar, or std::vector / array / optional / pair / tuple / map of those; "
                "unpack other types before the call.");
}

template <class R>
constexpr void check_result() {
  static_assert(std::is_void_v<R> || Flatten<R>::known,
                "graft::compile: Graft cannot rebuild a result of this type. Return tensors, "
                "numbers, or std::vector / array / optional / pair / tuple / map of those, or "
                "void.");
  static_assert(
      std::is_void_v<R> || !Flatten<R>::known || Flatten<R>::owns,
      "graft::compile: a result of this type refers to memory that it does not own, which "
      "is gone when a later call returns it. Return a std::vector, std::array or "
      "std::string instead of a span, string_view or ArrayRef.");
}

/// What a result is kept as: the references of std::tie (and of at::max_out) become values.
template <class T>
struct Owned {
  using type = T;
};
template <class... T>
struct Owned<std::tuple<T...>> {
  using type = std::tuple<typename Owned<std::decay_t<T>>::type...>;
};
template <class A, class B>
struct Owned<std::pair<A, B>> {
  using type =
      std::pair<typename Owned<std::decay_t<A>>::type, typename Owned<std::decay_t<B>>::type>;
};

struct CollectArgs {
  FlatArgs& out;
  void tensor(const at::Tensor& t) { out.tensors.push_back(&t); }
  void word(uint64_t w) { out.statics.push_back(w); }
};
struct CollectTensors {
  std::vector<at::Tensor>& out;
  void tensor(const at::Tensor& t) { out.push_back(t); }
  void word(uint64_t) {}
};
struct CollectWords {
  std::vector<uint64_t>& out;
  void tensor(const at::Tensor&) {}
  void word(uint64_t w) { out.push_back(w); }
};
struct ClearTensors {
  void tensor(at::Tensor& t) { t = at::Tensor(); }
  void word(uint64_t) {}
};
struct FillTensors {
  at::Tensor* next;
  void tensor(at::Tensor& t) { t = std::move(*next++); }
  void word(uint64_t) {}
};

/// The wrapped function, which calls that are kept hold as well.
template <class F>
struct Shared : std::enable_shared_from_this<Shared<F>> {
  explicit Shared(F fn) : f(std::move(fn)) {}
  F f;
};

struct CopyTensors {
  const at::Tensor* next;
  void tensor(at::Tensor& t) { t = *next++; }
  void word(uint64_t) {}
};

template <class F, class R, class... Args>
class CallAgain final : public KeptCall {
 public:
  CallAgain(std::shared_ptr<const Shared<F>> function, const std::tuple<Args&...>& arguments)
      : function_(std::move(function)), arguments_(arguments) {
    Flatten<Copies>::visit(arguments_, ClearTensors{});
  }

  std::vector<at::Tensor> run(const at::Tensor* tensors) override {
    Copies arguments = arguments_;
    Flatten<Copies>::visit(arguments, CopyTensors{tensors});
    auto call = [&](auto&... a) -> decltype(auto) {
      return function_->f(static_cast<Args&>(a)...);
    };
    std::vector<at::Tensor> out;
    if constexpr (std::is_void_v<R>) {
      std::apply(call, arguments);
    } else {
      const typename Owned<std::decay_t<R>>::type result = std::apply(call, arguments);
      Flatten<std::decay_t<decltype(result)>>::visit(result, CollectTensors{out});
    }
    return out;
  }

 private:
  using Copies = std::tuple<std::decay_t<Args>...>;
  std::shared_ptr<const Shared<F>> function_;
  Copies arguments_;
};

/// One call of a function with arguments `Args...`, which Core serves.
template <class F, class R, class... Args>
class Call final : public CallBase {
  using Value =
      std::conditional_t<std::is_void_v<R>, std::monostate, typename Owned<std::decay_t<R>>::type>;

 public:
  Call(const Shared<F>& function, Args&... arguments)
      : function_(function), arguments_(arguments...) {
    (Flatten<std::decay_t<Args>>::visit(std::as_const(arguments), CollectArgs{args}), ...);
  }

  std::vector<FlatArgs> arguments() const override {
    std::vector<FlatArgs> now(sizeof...(Args));
    auto next = now.begin();
    std::apply(
        [&](const auto&... a) {
          (Flatten<std::decay_t<Args>>::visit(a, CollectArgs{*next++}), ...);
        },
        arguments_);
    return now;
  }

  void run_eager() override {
    if constexpr (std::is_void_v<R>) {
      std::apply([&](auto&... a) { function_.f(a...); }, arguments_);
      result_.emplace();
    } else {
      result_.emplace(
          std::apply([&](auto&... a) -> decltype(auto) { return function_.f(a...); }, arguments_));
    }
  }
  std::vector<at::Tensor> result_tensors() const override {
    std::vector<at::Tensor> out;
    Flatten<Value>::visit(*result_, CollectTensors{out});
    return out;
  }
  std::vector<uint64_t> result_words() const override {
    std::vector<uint64_t> out;
    Flatten<Value>::visit(*result_, CollectWords{out});
    return out;
  }
  std::shared_ptr<const void> result_prototype() const override {
    auto prototype = std::make_shared<Value>(*result_);
    Flatten<Value>::visit(*prototype, ClearTensors{});
    return prototype;
  }
  void set_result(const void* prototype, at::Tensor* tensors) override {
    result_.emplace(*static_cast<const Value*>(prototype));
    Flatten<Value>::visit(*result_, FillTensors{tensors});
  }
  std::shared_ptr<KeptCall> keep() const override {
    if constexpr ((Flatten<std::decay_t<Args>>::owns && ...))
      return std::make_shared<CallAgain<F, R, Args...>>(function_.shared_from_this(), arguments_);
    else
      return nullptr;
  }
  std::span<const std::byte> function_memory() const override {
    return std::as_bytes(std::span(&function_.f, 1));
  }
  std::span<const std::byte> own_memory() const override {
    return std::as_bytes(std::span(this, 1));
  }
  auto take_result() {
    if constexpr (!std::is_void_v<R>) return Value(std::move(*result_));
  }

 private:
  const Shared<F>& function_;
  std::tuple<Args&...> arguments_;
  std::optional<Value> result_;
};

}  // namespace graft::detail
