// Operators of ours that programs call in place of ATen's.
#pragma once

#include <torch/library.h>

#include <string>
#include <string_view>

namespace graft {

/// Defines "graft::name", `arguments` its schema from "(" on, for tensors of every kind.
template <class Function>
void add_operator(torch::Library& library, std::string_view name, std::string_view arguments,
                  Function function) {
  const std::string whole(name);
  library.def((whole + std::string(arguments)).c_str());
  library.impl(whole.c_str(), c10::DispatchKey::CompositeExplicitAutograd,
               torch::CppFunction(function));
}

}  // namespace graft
