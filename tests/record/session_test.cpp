// The observer itself: what it leaves behind, whom it sees, what it costs.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <torch/csrc/autograd/profiler_legacy.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "recording.h"

namespace graft::record {
namespace {

namespace legacy = torch::autograd::profiler;

class Session : public ::testing::Test {
 protected:
  at::NoGradGuard no_grad;
  at::Tensor x = at::randn({4});

  static void expect_nothing_left() {
    EXPECT_FALSE(recording());
    EXPECT_FALSE(at::hasThreadLocalCallbacks());
    EXPECT_FALSE(c10::memoryProfilingEnabled());
  }
};

TEST_F(Session, LeavesNothingBehind) {
  expect_nothing_left();
  trace_of({x}, [&] { return Tensors{x + 1}; });
  expect_nothing_left();
}

TEST_F(Session, ExceptionsPassThrough) {
  EXPECT_THROW(trace_of({x}, [&] { return Tensors{x.mm(x)}; }), c10::Error);
  expect_nothing_left();
  EXPECT_THROW(trace_of({x}, [&]() -> Tensors { throw std::runtime_error("user's"); }),
               std::runtime_error);
  expect_nothing_left();
  EXPECT_THROW(record(
                   {x}, [] {}, []() -> Tensors { throw std::runtime_error("results"); }),
               std::runtime_error);
  expect_nothing_left();
  expect_whole(trace_of({x}, [&] { return Tensors{x + 1}; }));
}

TEST_F(Session, SaysThatItRecords) {
  EXPECT_FALSE(recording());
  bool inside = false, elsewhere = true;
  trace_of({x}, [&] {
    inside = recording();
    std::thread([&] { elsewhere = recording(); }).join();
    return Tensors{};
  });
  EXPECT_TRUE(inside);
  EXPECT_FALSE(elsewhere);
}

TEST_F(Session, ANestedRecordingIsSeenThrough) {
  Trace inner;
  const Trace outer = trace_of({x}, [&] {
    at::Tensor y;
    inner = record({x}, [&] { y = x.sin(); }, [&] { return Tensors{y}; });
    return Tensors{y.cos()};
  });
  EXPECT_EQ(names(outer), (std::vector<std::string>{"aten::sin", "aten::cos"}));
  expect_whole(outer);
  expect_broken(inner, {"inside the recorded run"});
}

TEST_F(Session, ThreadsRecordApart) {
  std::atomic<int> started = 0;
  std::atomic<int> wrong = 0;
  const auto work = [&](int length) {
    const at::NoGradGuard guard;
    const at::Tensor mine = at::randn({4});
    ++started;
    while (started < 2) std::this_thread::yield();
    for (int round = 0; round < 50; ++round) {
      const Trace trace = trace_of({mine}, [&] {
        at::Tensor y = mine;
        for (int i = 0; i < length; ++i) y = y + 1;
        return Tensors{y};
      });
      if (trace.broken || static_cast<int>(trace.ops.size()) != length) ++wrong;
    }
  };
  std::thread a(work, 10), b(work, 17);
  a.join();
  b.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Session, AUsersRangeIsNoOperator) {
  const Trace trace = trace_of({x}, [&] {
    RECORD_FUNCTION("aten::mul", std::vector<c10::IValue>({x}));
    return Tensors{x + 1};
  });
  expect_whole(trace);
  EXPECT_EQ(names(trace), (std::vector<std::string>{"aten::add.Scalar"}));
}

TEST_F(Session, RecordsWhereTheUserSwitchedObserversOff) {
  const at::DisableRecordFunctionGuard off;
  EXPECT_EQ(trace_of({x}, [&] { return Tensors{x + 1}; }).ops.size(), 1U);
  EXPECT_FALSE(at::isRecordFunctionEnabled());
}

TEST_F(Session, OtherObserversStillSee) {
  static int seen = 0;
  seen = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction&)
                                     -> std::unique_ptr<at::ObserverContext> {
        ++seen;
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  const Trace trace = trace_of({x}, [&] { return Tensors{x.sin()}; });
  EXPECT_EQ(seen, 1);
  x.sin();
  EXPECT_EQ(seen, 2);
  at::removeCallback(handle);
  expect_whole(trace);
}

TEST_F(Session, AProfilerSurvives) {
  const at::Tensor weight = at::randn({4});
  legacy::enableProfilerLegacy(legacy::ProfilerConfig(legacy::ProfilerState::CPU,
                                                      /*report_input_shapes=*/false,
                                                      /*profile_memory=*/true));
  x.sin();
  // Its callbacks take whatever lies in the profiler's slot for their own state, so they must rest.
  size_t observers = 0;
  const Trace trace = trace_of({x}, [&] {
    observers = at::get_record_function_tls_().sorted_tls_callbacks_.size();
    return Tensors{x.exp() * weight};
  });
  EXPECT_EQ(observers, 1U);
  const Trace hole =
      trace_of({x}, [&] { return Tensors{x * at::detail::empty_cpu({4}, at::kFloat)}; });
  x.cos();
  const legacy::thread_event_lists events = legacy::disableProfilerLegacy();
  expect_whole(trace);
  EXPECT_EQ(trace.ops.size(), 2U);
  expect_broken(hole, {"past the dispatcher"});
  bool sine = false, cosine = false;
  for (const auto& list : events) {
    for (const auto& event : list) {
      sine |= std::string(event.name()) == "aten::sin";
      cosine |= std::string(event.name()) == "aten::cos";
    }
  }
  EXPECT_TRUE(sine);
  EXPECT_TRUE(cosine);
  expect_nothing_left();
}

}  // namespace
}  // namespace graft::record
