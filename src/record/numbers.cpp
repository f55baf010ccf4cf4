#include "record/numbers.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <string_view>

namespace graft::record {

namespace {

/// Does one of the calling thread's functions have such a name? A dozen frames up: the recorder,
/// the observer's hook and the dispatcher lie between.
template <class Is>
bool inside(Is is) {
  constexpr int kFrames = 24;
  std::array<void*, kFrames> frames{};
  const int count = backtrace(frames.data(), kFrames);
  for (int i = 0; i < count; ++i) {
    Dl_info found{};
    if (dladdr(frames[static_cast<size_t>(i)], &found) != 0 && found.dli_sname != nullptr &&
        is(std::string_view(found.dli_sname)))
      return true;
  }
  return false;
}

}  // namespace

bool inside_at_tensor() {
  // at::tensor(c10::ArrayRef<…>, const c10::TensorOptions&)
  return inside(
      [](std::string_view name) { return name.starts_with("_ZN2at6tensorEN3c108ArrayRef"); });
}

bool inside_index_put_of_number() {
  // at::Tensor::index_put_(…, const c10::Scalar&)
  return inside([](std::string_view name) {
    return name.starts_with("_ZN2at6Tensor10index_put_E") && name.ends_with("6ScalarE");
  });
}

}  // namespace graft::record
