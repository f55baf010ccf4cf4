// One way to tell the kinds of an Item or a Step apart, which the compiler checks to be whole.
#pragma once

#include <utility>
#include <variant>

namespace graft::ir {

template <class... Fns>
struct Overload : Fns... {
  using Fns::operator()...;
};
template <class... Fns>
Overload(Fns...) -> Overload<Fns...>;

/// Calls the one of `fns` that takes what `kind` holds:
///
///     match(item, [&](const Statement& s) { … }, [&](const Extern& e) { … },
///           [&](const Abort& a) { … }, [&](const Repeat& r) { … });
///
/// A kind that none of them takes does not compile; a new kind of item is met wherever it matters.
template <class Variant, class... Fns>
decltype(auto) match(Variant&& kind, Fns&&... fns) {
  return std::visit(Overload{std::forward<Fns>(fns)...}, std::forward<Variant>(kind));
}

}  // namespace graft::ir
