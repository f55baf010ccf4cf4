// The machine and the build that a measurement was made on.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace graft::lab {

struct Cache {
  std::string name;   ///< "L1d", "L1i", "L2", "L3"
  int64_t bytes = 0;  ///< of one instance
  int shared_by = 1;  ///< logical CPUs that share one instance
};

/// What cannot be read is empty or 0.
struct Environment {
  std::string cpu;
  std::vector<std::string> flags;  ///< those that decide which kernels run: avx2, fma, avx512f, …
  int logical_cpus = 0;
  int physical_cores = 0;
  std::vector<Cache> caches;
  int64_t memory_bytes = 0;
  std::string governor;    ///< frequency scaling; empty on most virtual machines
  std::string huge_pages;  ///< transparent huge pages: "always", "madvise" or "never"
  double load = 0;         ///< one-minute load average; above about 0.5, timings suffer
  std::string os;
  int threads = 0;       ///< ATen's intra-op threads
  std::string aten_cpu;  ///< ATen's kernels: "DEFAULT", "AVX2", "AVX512"
  std::string torch;
  std::string graft;
  std::string compiler;
};

/// Reads Linux's /proc and /sys, ATen's settings and this build's. `graft_version` is kept as
/// given.
Environment read_environment(const std::string& graft_version);
nlohmann::json to_json(const Environment& environment);
void print(std::ostream& out, const Environment& environment, bool colour = false);

}  // namespace graft::lab
