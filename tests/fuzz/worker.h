// The processes of a fuzzing run. The driver starts workers, since ATen reads its vector width from
// the environment once, and since a crash must not end the run.
#pragma once

#include <cstdint>
#include <string>

namespace graft::fuzz {

struct Settings {
  double seconds = 0;  ///< 0: no limit in time
  uint64_t seed = 1;
  int64_t programs = -1;  ///< -1: no limit in number
  bool verbose = false;
  bool reduce = false;     ///< make every failing program smaller, not only the first few
  bool show = false;       ///< print the program of the seed, and what Graft makes of it
  bool fast = false;       ///< every program with Numerics::Fast, not only every fifth batch
  bool gradients = false;  ///< of every program, not only of every third
  int limit = 60;          ///< seconds that a program may take
  bool hang = false;       ///< each program stands still: for the watchdog's test
};

/// Seeds are run in batches, and a batch's number says how: so a seed alone says all about its run.
struct Config {
  std::string capability;  ///< ATEN_CPU_CAPABILITY, or empty for the host's best
  int threads = 1;
  bool fast = false;       ///< Numerics::Fast
  bool gradients = false;  ///< as a region, too (check.h)
};
constexpr uint64_t kBatch = 32;
Config config_of(uint64_t seed, const Settings& settings);

/// Prints "@ seed" before each program, and "+ seed …" or "! seed text" after it. Stops before
/// `last`.
int run_worker(uint64_t first, uint64_t last, const Settings& settings);
/// Reduces the program of that seed, and prints it.
int run_reducer(uint64_t seed, const Settings& settings);
/// Prints the program of that seed, and what Graft makes of it.
int run_show(uint64_t seed);

/// Gives the process's exit code: 0 when all agreed, 3 when a program hung, otherwise 1.
int run_driver(const Settings& settings);

}  // namespace graft::fuzz
