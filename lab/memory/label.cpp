#include "lab/memory/label.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

namespace graft::lab::detail {
namespace {

struct Entered {
  const at::RecordFunction* call;  // names it until it ends
  bool region;
};
thread_local std::vector<Entered> t_entered;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  t_entered.push_back({&call, call.scope() == at::RecordScope::USER_SCOPE});
  return nullptr;
}

void on_end(const at::RecordFunction& call, at::ObserverContext*) {
  // It is nearly always the last one, unless an asynchronous call ends late or on another thread.
  const auto found = std::find_if(t_entered.rbegin(), t_entered.rend(),
                                  [&](const Entered& entered) { return entered.call == &call; });
  if (found != t_entered.rend()) t_entered.erase(std::next(found).base());
}

/// Operators that do not tell who wanted the memory.
bool is_plumbing(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") ||
         name.starts_with("aten::resize") || name.starts_with("autograd::engine");
}

}  // namespace

Label current_label() {
  Label out;
  std::string_view outer, inner, plumbing;
  for (const Entered& entered : t_entered) {
    const std::string_view name = entered.call->name();
    if (entered.region) {
      out.region.append(out.region.empty() ? "" : "/").append(name);
    } else if (is_plumbing(name)) {
      plumbing = name;
    } else {
      if (outer.empty()) outer = name;
      inner = name;
    }
  }
  out.op = outer.empty() ? plumbing : outer;
  if (inner != outer) out.op.append(" > ").append(inner);
  return out;
}

at::RecordFunctionCallback label_observer() {
  using at::RecordScope;
  return at::RecordFunctionCallback(on_start, on_end)
      .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION,
               RecordScope::TORCHSCRIPT_FUNCTION, RecordScope::USER_SCOPE});
}

}  // namespace graft::lab::detail
