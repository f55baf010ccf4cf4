// Regional compilation: submodules of a torch::nn::Module, each compiled by itself.
//
//     auto regions = graft::compile_regions(*model, {"encoder.*"});
//     model->forward(x);                        // the layers record themselves, and are compiled
//     for (const auto& region : regions) std::cout << region.report();
//
// Equal layers are compiled once: a plan reads the weights of the layer that it runs for. So a
// model of 32 layers is compiled as fast as one layer, and another process finds that one in the
// folder of plans (graft/cache.h).
//
// C++ calls forward() of a member directly, where nothing can come between. What can be wrapped are
// the modules that a torch::nn::Sequential holds, which are called through torch::nn::AnyModule:
// those whose forward takes one tensor and gives one. Anything else is compiled by hand, with
// graft::compile on a lambda that calls it.
#pragma once

#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/graft.h"

namespace graft {

namespace detail {

/// Does `name` fit `pattern`, in which a star stands for any part of one name between dots, and two
/// for any names?
inline bool fits(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() != '*')
    return !name.empty() && name.front() == pattern.front() &&
           fits(name.substr(1), pattern.substr(1));
  const bool any = pattern.starts_with("**");
  const std::string_view rest = pattern.substr(any ? 2 : 1);
  for (size_t length = 0; length <= name.size(); ++length) {
    if (fits(name.substr(length), rest)) return true;
    if (length < name.size() && name[length] == '.' && !any) return false;
  }
  return false;
}

/// What calls the module that was there. `training`: what its code may depend on.
struct CallModule {
  std::shared_ptr<torch::nn::AnyModule> module;
  at::Tensor operator()(const at::Tensor& x, bool /*training*/) const {
    return module->forward<at::Tensor>(x);
  }
};

class RegionImpl : public torch::nn::Module {
 public:
  RegionImpl(std::shared_ptr<torch::nn::AnyModule> module, Options options)
      : torch::nn::Module(options.name), module_(module), compiled_(CallModule{module}, options) {}
  at::Tensor forward(const at::Tensor& x) { return compiled_(x, module_->ptr()->is_training()); }
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<at::Device>& /*device*/ = std::nullopt) const override {
    throw Error(name() +
                ": a module that graft::compile_regions wrapped cannot be cloned; clone "
                "the model first, then compile its regions");
  }
  const Compiled<CallModule>& compiled() const { return compiled_; }

 private:
  std::shared_ptr<torch::nn::AnyModule> module_;
  Compiled<CallModule> compiled_;
};

}  // namespace detail

/// A submodule that was wrapped. Copies share the compiled function.
class Region {
 public:
  Region(std::string name, Compiled<detail::CallModule> compiled)
      : name_(std::move(name)), compiled_(std::move(compiled)) {}
  /// As in named_modules(): "encoder.3".
  const std::string& name() const { return name_; }
  Report report() const { return compiled_.report(); }
  std::string explain() const { return compiled_.explain(); }
  void wait() const { compiled_.wait(); }
  void reset() const { compiled_.reset(); }

 private:
  std::string name_;
  Compiled<detail::CallModule> compiled_;
};

/// Compiles, in place, the modules within `module` that a torch::nn::Sequential holds and whose
/// name fits a pattern: "layers.*", "*.mlp", "**" ('*' stands for a part of a name without dots,
/// "**" for any names). A module within one that was wrapped is not wrapped by itself. Parameters,
/// buffers, names and modes (train(), eval()) of the model stay as they are; a Sequential's own
/// as<T>() and ptr<T>() do not find the module that was wrapped, and clone() throws. The forward of
/// what fits must take one tensor and give one.
///
/// `options`: of each region, whose name follows Options::name. Throws graft::Error where nothing
/// fits, naming what could have been meant. Not thread-safe.
inline std::vector<Region> compile_regions(torch::nn::Module& module,
                                           const std::vector<std::string>& patterns,
                                           const Options& options = {}) {
  std::vector<Region> regions;
  std::string could;
  auto wanted = [&](const std::string& name) {
    for (const std::string& pattern : patterns)
      if (detail::fits(name, pattern)) return true;
    return false;
  };
  auto is_within = [&](const std::string& name) {
    for (const Region& region : regions)
      if (name == region.name() || name.starts_with(region.name() + ".")) return true;
    return false;
  };
  auto wrap_children = [&](torch::nn::SequentialImpl& sequential, const std::string& prefix) {
    const auto children = sequential.named_children();
    for (size_t k = 0; k < children.size(); ++k) {
      const std::string name = prefix + children[k].key();
      could += (could.empty() ? "" : ", ") + name;
      if (!wanted(name) || is_within(name)) continue;
      torch::nn::AnyModule& place = *(sequential.begin() + static_cast<std::ptrdiff_t>(k));
      Options own = options;
      own.name = options.name.empty() ? name : options.name + "." + name;
      const auto region =
          std::make_shared<detail::RegionImpl>(std::make_shared<torch::nn::AnyModule>(place), own);
      place = torch::nn::AnyModule(region);
      regions.emplace_back(name, region->compiled());
    }
  };
  if (auto* self = module.as<torch::nn::SequentialImpl>()) wrap_children(*self, "");
  for (const auto& item : module.named_modules(/*name_prefix=*/"", /*include_self=*/false))
    if (auto* sequential = item.value()->as<torch::nn::SequentialImpl>())
      wrap_children(*sequential, item.key() + ".");
  if (!regions.empty()) return regions;
  std::string given;
  for (const std::string& pattern : patterns)
    given += (given.empty() ? "\"" : ", \"") + pattern + '"';
  throw Error("graft::compile_regions: no module that a torch::nn::Sequential holds fits " +
              (given.empty() ? "no pattern" : given) + "; there are " +
              (could.empty() ? "none: compile a lambda that calls the module instead" : could));
}

}  // namespace graft
