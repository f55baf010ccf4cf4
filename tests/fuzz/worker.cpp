#include "fuzz/worker.h"

#include <ATen/Parallel.h>

#include <cstdio>

#include "fuzz/check.h"
#include "fuzz/generate.h"
#include "fuzz/reduce.h"
#include "fuzz/watchdog.h"

namespace graft::fuzz {

Config config_of(uint64_t seed, const Settings& settings) {
  static constexpr const char* kCapabilities[] = {"", "", "avx2", "default"};
  uint64_t batch = seed / kBatch;
  return {kCapabilities[batch % 4], batch % 3 == 2 ? 2 : 1, settings.fast || batch % 5 == 4,
          settings.gradients || seed % 3 == 0};
}

namespace {

std::string in_one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

const char* kind_of(const Outcome& outcome) {
  if (outcome.threw) return "throws";
  if (outcome.plan_hits > 0) return outcome.exact ? "planned" : "rounded";
  return "eager";
}

}  // namespace

int run_worker(uint64_t first, uint64_t last, const Settings& settings) {
  Config config = config_of(first, settings);
  Watchdog watchdog(settings.limit);
  for (uint64_t seed = first; seed < last; ++seed) {
    std::printf("@ %llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    watchdog.begin(seed, "hung while the program was made\n");
    at::set_num_threads(1);
    Program program = generate(seed);
    at::set_num_threads(config.threads);
    watchdog.begin(seed, print(program));
    if (settings.hang) wait_for_ever();
    const Outcome outcome = check(program, config.fast, config_of(seed, settings).gradients);
    watchdog.end();
    if (outcome.failure.empty())
      std::printf("+ %s %s\n", kind_of(outcome), in_one_line(outcome.verdict).c_str());
    else
      std::printf("! %s\n", in_one_line(outcome.failure).c_str());
    std::fflush(stdout);
  }
  return 0;
}

int run_reducer(uint64_t seed, const Settings& settings) {
  at::set_num_threads(1);
  Program program = generate(seed);
  std::string what;
  Program small = reduce(program, config_of(seed, settings), what);
  Tensors captured = make_captured(small);
  Memory sample(small, 0, 0, captured);
  std::printf("%s\n%s", what.c_str(), print(small, &sample.inputs()).c_str());
  return 0;
}

int run_show(uint64_t seed) {
  at::set_num_threads(1);
  Program program = generate(seed);
  Tensors captured = make_captured(program);
  Memory sample(program, 0, 0, captured);
  std::printf("%s", print(program, &sample.inputs()).c_str());
  std::fflush(stdout);
  std::printf("\n%s\n", explain(program).c_str());
  return 0;
}

}  // namespace graft::fuzz
