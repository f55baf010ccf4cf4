// What cannot be compiled, and what the user is told.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/native/cpu/utils.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <thread>

#include "recording.h"

namespace graft::record {
namespace {

class Breaks : public ::testing::Test {
 protected:
  at::NoGradGuard no_grad;
  at::Tensor x = at::randn({4, 8});
};

TEST_F(Breaks, ReadingData) {
  expect_broken(trace_of({x}, [&] { return Tensors{x * x.sum().item()}; }),
                {"aten::_local_scalar_dense", "item()", "at::where", "outside"});
  expect_broken(
      trace_of(
          {x},
          [&] { return x.sum().is_nonzero() ? Tensors{x * at::rand({1}).item()} : Tensors{}; }),
      {"aten::_local_scalar_dense"});
}

// Conditions and whole numbers are recorded, behind writes, too.
TEST_F(Breaks, ReadingConditions) {
  expect_whole(trace_of({x}, [&] { return x.equal(x) ? Tensors{x} : Tensors{}; }));
  expect_whole(trace_of({x}, [&] { return (x > 0).all().is_nonzero() ? Tensors{x} : Tensors{}; }));
  expect_whole(trace_of({x}, [&] { return (x > 0).any().item<bool>() ? Tensors{x} : Tensors{}; }));
  expect_whole(trace_of({x}, [&] { return Tensors{x * x.argmax().item<int64_t>()}; }));
  const auto late = [&](const std::function<bool()>& reads) {
    expect_whole(trace_of({x}, [&] { return x.add_(1), reads() ? Tensors{x} : Tensors{}; }));
  };
  late([&] { return x.equal(x); });
  late([&] { return x.sum().is_nonzero(); });
  late([&] { return x.argmax().item<int64_t>() > 0; });
  expect_whole(trace_of(
      {x}, [&] { return at::bernoulli(x * 0).any().item<bool>() ? Tensors{x} : Tensors{}; }));
  expect_broken(
      trace_of({x}, [&] { return at::zeros({2}).any().item<bool>() ? Tensors{x} : Tensors{}; }),
      {"whole numbers that arguments decide"});
}

// Composites that read on the host what no operator of theirs shows.
TEST_F(Breaks, ReadingDataWithinAComposite) {
  const auto reads = [](const std::string& name, const Tensors& args,
                        const std::function<Tensors()>& fn) {
    SCOPED_TRACE(name);
    expect_broken(trace_of(args, fn), {"aten::" + name, "on the host", "outside"});
  };
  const at::Tensor places = at::tensor({1, 3}, at::kLong), sizes = at::tensor({2, 1}, at::kLong);
  reads("tensor_split.tensor_indices_or_sections", {x, places},
        [&] { return x.tensor_split(places, 0); });
  expect_whole(trace_of({x}, [&] { return x.tensor_split(at::IntArrayRef{1, 3}, 0); }));

  const at::Tensor packed = at::randn({3, 8}), hidden = at::zeros({1, 2, 4});
  const auto weights = [](int64_t gates) {
    return Tensors{at::randn({gates * 4, 8}), at::randn({gates * 4, 4}), at::randn({gates * 4}),
                   at::randn({gates * 4})};
  };
  const Tensors lstm = weights(4), gru = weights(3), rnn = weights(1);
  reads("lstm.data", {packed, sizes}, [&] {
    return Tensors{
        std::get<0>(at::lstm(packed, sizes, {hidden, hidden}, lstm, true, 1, 0.0, false, false))};
  });
  reads("gru.data", {packed, sizes}, [&] {
    return Tensors{std::get<0>(at::gru(packed, sizes, hidden, gru, true, 1, 0.0, false, false))};
  });
  reads("rnn_tanh.data", {packed, sizes}, [&] {
    return Tensors{
        std::get<0>(at::rnn_tanh(packed, sizes, hidden, rnn, true, 1, 0.0, false, false))};
  });
  reads("rnn_relu.data", {packed, sizes}, [&] {
    return Tensors{
        std::get<0>(at::rnn_relu(packed, sizes, hidden, rnn, true, 1, 0.0, false, false))};
  });
  reads("_pad_packed_sequence", {packed, sizes},
        [&] { return Tensors{std::get<0>(at::_pad_packed_sequence(packed, sizes, true, 0, 2))}; });
  reads("choose_qparams_optimized", {x}, [&] {
    return Tensors{std::get<0>(at::choose_qparams_optimized(x, x.numel(), 16, 0.2, 8))};
  });
  const at::Tensor shape = at::tensor({8, 4}, at::kLong);
  reads("_reshape_from_tensor", {x, shape},
        [&] { return Tensors{at::_reshape_from_tensor(x, shape)}; });
  const at::Tensor rows = at::tensor({1, 0, 1, 1}, at::kLong).to(at::kBool);
  reads("_rowwise_prune", {x, rows},
        [&] { return Tensors{std::get<0>(at::_rowwise_prune(x, rows, at::kInt))}; });
  at::Tensor quasi = at::zeros({2}, at::kLong);
  const at::Tensor directions = at::ones({2, 30}, at::kLong);
  reads("_sobol_engine_draw", {quasi, directions}, [&] {
    return Tensors{std::get<0>(at::_sobol_engine_draw(quasi, 3, directions, 2, 1, at::kFloat))};
  });
  reads("_sobol_engine_ff_", {quasi, directions},
        [&] { return Tensors{at::_sobol_engine_ff_(quasi, 3, directions, 2, 1)}; });
  const at::Tensor weight = at::randn({4, 8});
  reads("_saturate_weight_to_fp16", {weight},
        [&] { return Tensors{at::_saturate_weight_to_fp16(weight)}; });
  const at::Tensor scores = at::randn({5, 2, 3}).log_softmax(2),
                   targets = at::ones({2, 2}, at::kLong),
                   input_lengths = at::tensor({5, 5}, at::kLong),
                   target_lengths = at::tensor({2, 1}, at::kLong);
  reads("ctc_loss.Tensor", {scores, targets, input_lengths, target_lengths},
        [&] { return Tensors{at::ctc_loss(scores, targets, input_lengths, target_lengths)}; });
}

TEST_F(Breaks, SizesThatDependOnDataWithoutATag) {
  const at::Tensor numbers = at::tensor({1, 1, 2}, at::kLong);
  expect_broken(trace_of({numbers}, [&] { return Tensors{std::get<0>(at::_unique(numbers))}; }),
                {"aten::_unique", "sizes depend on data"});
  // The out= form of a tagged operator.
  expect_broken(trace_of({numbers},
                         [&] {
                           at::Tensor out = at::empty({0}, at::kLong), places = at::empty_like(out),
                                      counts = at::empty_like(out);
                           at::_unique2_out(out, places, counts, numbers);
                           return Tensors{out};
                         }),
                {"aten::_unique2.out", "sizes depend on data"});
}

TEST_F(Breaks, SizesThatDependOnData) {
  expect_broken(trace_of({x}, [&] { return Tensors{x.nonzero()}; }),
                {"aten::nonzero", "sizes depend on data"});
  expect_broken(trace_of({x}, [&] { return Tensors{x.masked_select(x > 0)}; }),
                {"aten::masked_select"});
  expect_broken(trace_of({x}, [&] { return Tensors{x.index({x > 0})}; }), {"aten::index.Tensor"});
  const at::Tensor places = at::arange(2);
  expect_whole(trace_of({x, places}, [&] { return Tensors{x.index({places})}; }));
}

TEST_F(Breaks, DataFilledPastTheDispatcher) {
  expect_broken(
      trace_of({x},
               [&] {
                 const at::Tensor four = at::empty({4});
                 four.mutable_data_ptr<float>()[0] = 1.F;
                 return Tensors{x.select(1, 0) + four};
               }),
      {"aten::add.Tensor", "aten::empty.memory_format", "f32[4]", "capture it or pass it"});
  expect_broken(trace_of({x},
                         [&] {
                           const at::Tensor table = at::empty({8});
                           for (int i = 0; i < 8; ++i) table.mutable_data_ptr<float>()[i] = 1.F;
                           return Tensors{x * table};
                         }),
                {"aten::mul.Tensor", "aten::empty.memory_format", "data pointer"});
  expect_broken(trace_of({x},
                         [&] {
                           const at::Tensor two = at::empty({2});
                           two.mutable_data_ptr<float>()[0] = 1.F;
                           return Tensors{two};
                         }),
                {"result 0", "data pointer"});
  expect_broken(trace_of({x},
                         [&] {
                           const at::Tensor sum = at::empty({4, 8});
                           sum.mutable_data_ptr<float>()[0] = 1.F;
                           return Tensors{sum.add_(x)};  // in place reads as well
                         }),
                {"aten::add_.Tensor"});
}

TEST_F(Breaks, AKernelCalledPastTheDispatcher) {
  at::Tensor kept;
  const auto made_past = [&] {
    kept = at::detail::empty_cpu({8}, at::kFloat);
    kept.mutable_data_ptr<float>()[0] = 1;
    return Tensors{x * kept};
  };
  // Even if somebody keeps it: its memory was allocated during the run.
  expect_broken(trace_of({x}, made_past),
                {"aten::mul.Tensor", "f32[8]", "past the dispatcher", "capture it or pass it"});
  expect_whole(trace_of({x}, [&] { return Tensors{x * kept}; }));
}

TEST_F(Breaks, AnotherThreadIsNotSeen) {
  const auto elsewhere = [](const std::function<void()>& fn) { std::thread(fn).join(); };
  expect_broken(trace_of({x},
                         [&] {
                           at::Tensor y;
                           elsewhere([&] { y = x * 2; });
                           return Tensors{y + 1};
                         }),
                {"f32[4,8]", "another thread"});
  expect_broken(trace_of({x},
                         [&] {
                           at::Tensor y;
                           elsewhere([&] { y = x * 2; });
                           return Tensors{y};
                         }),
                {"result 0", "another thread"});
  expect_broken(trace_of({x},
                         [&] {
                           elsewhere([&] {
                             const at::NoGradGuard guard;
                             x.mul_(2);
                           });
                           return Tensors{x + 1};
                         }),
                {"argument 0", "no recorded operator"});
  expect_broken(trace_of({x},
                         [&] {
                           const at::Tensor y = at::empty({4});
                           elsewhere([&] { y.fill_(1); });
                           return Tensors{y + 1};
                         }),
                {"another thread"});
}

TEST_F(Breaks, ParallelUserCode) {
  const at::Tensor out = at::empty({4, 8});
  const Trace trace = trace_of({x, out}, [&] {
    at::parallel_for(0, 4, 1, [&](int64_t begin, int64_t end) {
      const at::NoGradGuard guard;
      for (int64_t i = begin; i < end; ++i) out[i].copy_(x[i] * 2);
    });
    return Tensors{};
  });
  if (at::get_num_threads() > 1) {
    expect_broken(trace, {"at::parallel_for"});
  } else {
    expect_whole(trace);
  }
}

TEST_F(Breaks, MemoryThatIsGoneAfterTheCall) {
  std::vector<float> data(8);
  expect_broken(trace_of({x}, [&] { return Tensors{x * at::from_blob(data.data(), {8})}; }),
                {"f32[8]", "from_blob", "outside"});
  const at::Tensor held = at::from_blob(data.data(), {8});
  expect_whole(trace_of({x}, [&] { return Tensors{x * held}; }));
  // Over an argument's own memory it is a view, wherever the next argument lies.
  const Trace view =
      trace_of({x}, [&] { return Tensors{at::from_blob(x.data_ptr<float>() + 8, {8}) + 1}; });
  expect_whole(view);
  EXPECT_EQ(input(view, 0, 0).storage, 0);
  EXPECT_EQ(input(view, 0, 0).byte_offset, 8 * 4);
}

TEST_F(Breaks, ACapturedTensorInAnArgumentsMemory) {
  const at::Tensor part = x.slice(0, 1, 2);
  expect_broken(trace_of({x}, [&] { return Tensors{x + part}; }),
                {"f32[1,8]", "shares memory with an argument", "pass both"});
  expect_whole(trace_of({x, part}, [&] { return Tensors{x + part}; }));
}

TEST_F(Breaks, OutsideOfTheArgument) {
  const at::Tensor row = x[1];
  expect_broken(trace_of({row}, [&] { return Tensors{row.as_strided({2, 8}, {8, 1}) + 1}; }),
                {"argument 0", "bytes 0 to 64", "0 to 32"});
  expect_broken(trace_of({row}, [&] { return Tensors{row.as_strided({8}, {1}, 8) + 1}; }),
                {"aten::as_strided", "storage_offset"});
  expect_whole(trace_of({row}, [&] { return Tensors{row.as_strided({4}, {2}) + 1}; }));
  expect_whole(trace_of({row}, [&] { return Tensors{(row + 1).as_strided({4}, {2}, 1) + 1}; }));
}

TEST_F(Breaks, LookingAroundInACopyOfWholeMemory) {
  const at::Tensor row = x[1], part = at::ones({3});
  expect_broken(trace_of({row, part},
                         [&] {
                           const at::Tensor y = at::slice_scatter(row, part, 0, 1, 4);
                           return Tensors{y.as_strided({8}, {1}, 0)};
                         }),
                {"aten::as_strided", "aten::slice_scatter", "clone()"});
  expect_whole(trace_of({row, part}, [&] {
    return Tensors{at::slice_scatter(row, part, 0, 1, 4).clone().as_strided({4}, {2}, 1)};
  }));
}

TEST_F(Breaks, LayoutOfAnArgument) {
  const at::Tensor weight = at::randn({8});
  const auto changes = [&](const std::function<void(at::Tensor&)>& change) {
    at::Tensor y = at::randn({4, 1, 8});
    return trace_of({y}, [&] {
      change(y);
      return Tensors{y + weight};
    });
  };
  expect_broken(changes([](at::Tensor& t) { t.squeeze_(); }),
                {"aten::squeeze_", "argument 0", "without the underscore"});
  expect_broken(changes([](at::Tensor& t) { t.unsqueeze_(0); }), {"aten::unsqueeze_"});
  expect_broken(changes([](at::Tensor& t) { t.transpose_(0, 1); }), {"aten::transpose_"});
  expect_broken(changes([](at::Tensor& t) { t.resize_({8}); }), {"aten::resize_"});
  expect_broken(changes([](at::Tensor& t) { t.set_(at::ones({8})); }), {"aten::set_"});
  expect_whole(changes([](at::Tensor& t) { t.detach_(); }));  // there is nothing to detach it from
  expect_broken(changes([](at::Tensor& t) { t.requires_grad_(); }),
                {"requires_grad of argument 0"});
  expect_broken(changes([](at::Tensor& t) { t.set_data(at::ones({4, 1, 8})); }), {"argument 0"});
  expect_broken(trace_of({x},
                         [&] {
                           const at::Tensor y = x + weight;
                           weight.unsqueeze_(0);
                           return Tensors{y};
                         }),
                {"aten::unsqueeze_", "captured tensor 0"});
  at::Tensor out = at::empty({0});
  expect_broken(trace_of({x, out}, [&] { return Tensors{at::add_out(out, x, x)}; }),
                {"aten::add.out", "resized"});
}

TEST_F(Breaks, TensorsOfOtherKinds) {
  expect_broken(trace_of({x}, [&] { return Tensors{x.to_sparse()}; }), {"sparse f32[4,8]"});
  const at::Tensor sparse = x.to_sparse();
  expect_broken(trace_of({sparse}, [&] { return Tensors{sparse * 2}; }),
                {"argument 0", "sparse", "dense CPU"});
  expect_broken(trace_of({x}, [&] { return Tensors{x + sparse}; }), {"aten::add.Tensor", "sparse"});
  expect_broken(trace_of({x}, [&] { return Tensors{at::complex(x, x).conj()}; }),
                {"lazily conjugated ComplexFloat[4,8]"});
  const at::Tensor negated = at::imag(at::complex(x, x).conj());
  ASSERT_TRUE(negated.is_neg());
  expect_broken(trace_of({negated}, [&] { return Tensors{negated + 1}; }),
                {"lazily negated f32[4,8]"});
  expect_broken(trace_of({x}, [&] { return Tensors{x.to(at::kMeta)}; }), {"meta f32[4,8]"});
  expect_broken(
      trace_of({x}, [&] { return Tensors{at::quantize_per_tensor(x, 0.1, 0, at::kQUInt8)}; }),
      {"quantized"});
}

TEST_F(Breaks, TensorsThatRequireGrad) {
  const at::Tensor parameter = at::randn({8}).set_requires_grad(true);
  const auto fn = [&] { return Tensors{x * parameter}; };
  {
    const at::AutoGradMode grad(true);
    expect_broken(trace_of({x}, fn), {"result 0 requires grad", "NoGradGuard", "detached"});
    expect_whole(trace_of({x}, [&] { return Tensors{x * parameter.detach()}; }));
    expect_whole(trace_of({x}, [&] {
      const at::NoGradGuard guard;
      parameter.mul_(2);
      return fn();
    }));
  }
  expect_whole(trace_of({x}, fn));
  const c10::InferenceMode inference;
  expect_whole(trace_of({x}, fn));
}

TEST_F(Breaks, AnErrorThatTheFunctionSwallows) {
  expect_broken(trace_of({x},
                         [&] {
                           try {
                             return Tensors{x.mm(x)};
                           } catch (const c10::Error&) {
                             return Tensors{x + 1};
                           }
                         }),
                {"aten::mm", "threw"});
}

TEST_F(Breaks, TheFirstReasonCountsAndTheRunGoesOn) {
  at::Tensor result;
  const Trace trace = record(
      {x},
      [&] {
        const double sum = x.sum().item().toDouble();
        result = x.masked_select(x > 0) * sum;
      },
      [&] { return Tensors{result}; });
  expect_broken(trace, {"aten::_local_scalar_dense"});
  EXPECT_TRUE(result.equal(x.masked_select(x > 0) * x.sum().item().toDouble()));
}

}  // namespace
}  // namespace graft::record
