#include "runtime/communication/collectives.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <stdexcept>

#include "runtime/communication/tape.h"

namespace graft {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Collective>> by_name;
};

Registry& registry() {
  static auto* all = new Registry;  // a group may outlive static objects
  return *all;
}

void start(const at::Tensor& tensor, std::string_view name) {
  const std::string key(name);
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  if (runtime::Tape* tape = runtime::Tape::current()) return tape->start(tensor, key);
  runtime::find_collective(key)->start(tensor);
}

void wait(const at::Tensor& tensor, std::string_view name) {
  const std::string key(name);
  if (runtime::Tape* tape = runtime::Tape::current()) return tape->wait(tensor, key);
  runtime::find_collective(key)->wait(tensor);
}

using Signature = void(const at::Tensor&, std::string_view);

}  // namespace

Collective::~Collective() = default;

void register_collective(const std::string& name, const std::shared_ptr<Collective>& collective) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (collective == nullptr) {
    all.by_name.erase(name);
    return;
  }
  std::weak_ptr<Collective>& place = all.by_name[name];
  if (!place.expired())
    throw std::invalid_argument("a collective named '" + name +
                                "' is there already: give this one another name, or end the other");
  place = collective;
}

std::shared_ptr<Collective> runtime::find_collective(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_name.find(name);
  std::shared_ptr<Collective> collective =
      found == all.by_name.end() ? nullptr : found->second.lock();
  if (collective == nullptr)
    throw std::invalid_argument("there is no collective named '" + name +
                                "' in this process: it has ended, or register_collective() was "
                                "not called with that name");
  return collective;
}

void start_collective(const at::Tensor& tensor, const std::string& name) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("graft::start_", "").typed<Signature>();
  op.call(tensor, name);
}

void await_collective(const at::Tensor& tensor, const std::string& name) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("graft::wait_", "").typed<Signature>();
  op.call(tensor, name);
}

}  // namespace graft

TORCH_LIBRARY(graft, library) {
  library.def("start_(Tensor(a!) tensor, str collective) -> ()");
  library.def("wait_(Tensor(a!) tensor, str collective) -> ()");
  library.impl("start_", c10::DispatchKey::CompositeExplicitAutograd,
               torch::CppFunction(graft::start));
  library.impl("wait_", c10::DispatchKey::CompositeExplicitAutograd,
               torch::CppFunction(graft::wait));
}
