#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/accumulate.h>

#include "graft/systems/gradient_compression.h"
#include "systems/compression/factors.h"

namespace graft::systems {
namespace {

/// A part of the gradient: a matrix, or what is sent as it is.
struct Part {
  int64_t offset = 0, rows = 0, columns = 0;
  bool factored = false;

  int64_t count() const { return rows * columns; }
  at::Tensor of(const at::Tensor& flat) const {
    return flat.narrow(0, offset, count()).view({rows, columns});
  }
};

std::vector<Part> parts_of(const std::vector<std::vector<int64_t>>& shapes, int64_t count,
                           int64_t rank) {
  std::vector<Part> out;
  if (shapes.empty()) {
    int64_t rows = 1;
    for (int64_t d = 2; d * d <= count; ++d)
      if (count % d == 0) rows = d;
    out.push_back({0, rows, count / rows});
  }
  int64_t offset = 0;
  for (const auto& shape : shapes) {
    const int64_t values = c10::multiply_integers(shape);
    const int64_t rows = shape.size() < 2 || values == 0 ? 1 : shape[0];
    out.push_back({offset, rows, values / rows});
    offset += values;
  }
  for (Part& part : out) part.factored = (part.rows + part.columns) * rank < part.count();
  return out;
}

/// Of one bucket.
struct State {
  int64_t calls = 0;
  at::Tensor remembered;
  std::vector<at::Tensor> right;  ///< per part that is factored: (rank, columns)
};

class PowerSgd final : public Compressor {
 public:
  explicit PowerSgd(const PowerSgdOptions& options) : options_(options) {
    TORCH_CHECK_VALUE(options.rank >= 1, "power_sgd: the rank came as ", options.rank,
                      "; expected at least 1, the columns of each factor");
  }
  std::string name() const override { return "power_sgd"; }

 protected:
  void average(Group& group, const at::Tensor& gradient, size_t bucket,
               const Shapes& shapes) override {
    State& state = states_[bucket];
    if (state.calls++ < options_.start_step) {
      all_reduce(group, gradient);
      gradient.div_(group.size());
      return;
    }
    if (options_.error_feedback) {
      if (!state.remembered.defined()) state.remembered = at::zeros_like(gradient);
      gradient.add_(state.remembered);
      state.remembered.copy_(gradient);
    }
    const std::vector<Part> parts = parts_of(shapes, gradient.numel(), options_.rank);
    refresh(state, parts, bucket);
    // One message for all left factors and what is not factored, a second for the right ones.
    const auto send = [&](auto sizes_of, auto fill) {
      int64_t count = 0;
      for (const Part& part : parts) count += sizes_of(part);
      const at::Tensor message = at::empty({count}, at::kFloat);
      std::vector<at::Tensor> views;
      int64_t offset = 0;
      for (const Part& part : parts) {
        views.push_back(message.narrow(0, offset, sizes_of(part)));
        offset += sizes_of(part);
      }
      for (size_t i = 0; i < parts.size(); ++i) fill(i, views[i]);
      if (count > 0) all_reduce(group, message);
      return views;
    };
    const int64_t rank = options_.rank;
    std::vector<at::Tensor> left =
        send([&](const Part& part) { return part.factored ? rank * part.rows : part.count(); },
             [&](size_t i, at::Tensor view) {
               const at::Tensor values = parts[i].of(gradient);
               if (!parts[i].factored) {
                 view.copy_(values.view(-1));
                 return;
               }
               view = view.view({rank, parts[i].rows});
               at::mm_out(view, state.right[i], values.t());
             });
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i].factored) orthogonalize(left[i].mutable_data_ptr<float>(), rank, parts[i].rows);
    std::vector<at::Tensor> right =
        send([&](const Part& part) { return part.factored ? rank * part.columns : 0; },
             [&](size_t i, at::Tensor view) {
               if (!parts[i].factored) return;
               view = view.view({rank, parts[i].columns});
               at::mm_out(view, left[i].view({rank, parts[i].rows}), parts[i].of(gradient));
             });
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      const at::Tensor values = part.of(gradient);
      if (part.factored) {
        right[i].div_(group.size());
        multiply(left[i].const_data_ptr<float>(), right[i].const_data_ptr<float>(), rank, part.rows,
                 part.columns, values.mutable_data_ptr<float>());
        state.right[i] = right[i].view({rank, part.columns}).clone();
      } else {
        values.view(-1).copy_(left[i].div_(group.size()));
      }
      if (options_.error_feedback) remember(part, right[i], values, state.remembered);
    }
  }
  void forget(size_t bucket) override { states_.erase(bucket); }
  std::vector<double> options() const override {
    return {double(options_.rank), double(options_.start_step), double(options_.error_feedback),
            double(options_.warm_start), double(options_.seed)};
  }

 private:
  /// Random factors where there are none, where a call shall not begin with those of the call
  /// before, and where these would stay what they are: zero, or not finite.
  void refresh(State& state, const std::vector<Part>& parts, size_t bucket) const {
    state.right.resize(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].factored) continue;
      at::Tensor& right = state.right[i];
      const bool keeps =
          right.defined() && options_.warm_start && right.isfinite().all().item<bool>();
      const at::Tensor not_zero = keeps ? right.ne(0).any(1, true) : at::Tensor();
      if (keeps && not_zero.all().item<bool>()) continue;
      uint64_t seed = options_.seed;
      for (const uint64_t x : {static_cast<uint64_t>(state.calls), uint64_t{bucket}, uint64_t{i}})
        seed = (seed + x + 1) * 0x9e3779b97f4a7c15u;
      const at::Tensor fresh =
          at::randn({options_.rank, parts[i].columns}, at::detail::createCPUGenerator(seed),
                    at::TensorOptions(at::kFloat));
      right = keeps ? at::where(not_zero, right, fresh) : fresh;
    }
  }

  /// What was to be sent less what was: nothing of a part that is sent as it is.
  static void remember(const Part& part, const at::Tensor& right, const at::Tensor& sent,
                       const at::Tensor& remembered) {
    const at::Tensor left = part.of(remembered);
    if (part.factored && right.isfinite().all().item<bool>())
      left.sub_(sent);
    else
      left.zero_();
  }

  PowerSgdOptions options_;
  std::unordered_map<size_t, State> states_;
};

}  // namespace

std::shared_ptr<Compressor> power_sgd(const PowerSgdOptions& options) {
  return std::make_shared<PowerSgd>(options);
}

}  // namespace graft::systems
