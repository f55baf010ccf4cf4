#include "lab/memory/available.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "lab/memory/resident.h"

namespace graft::lab {
namespace {

// The number after `key` in a file of "key: number kB" lines, in bytes; -1 if it is not there.
int64_t kilobytes_after(const char* file, const std::string& key) {
  std::ifstream in(file);
  std::string word;
  while (in >> word) {
    int64_t value = 0;
    if (word == key && in >> value) return value * 1024;
  }
  return -1;
}

// The limit of this process's control group; -1 if there is none ("max", or no such file).
int64_t group_limit() {
  std::ifstream groups("/proc/self/cgroup");
  int64_t least = -1;
  for (std::string line; std::getline(groups, line);) {
    const size_t colon = line.rfind(':');
    if (colon == line.npos) continue;
    const std::string path = line.substr(colon + 1);
    for (const std::string& file :
         {"/sys/fs/cgroup" + path + "/memory.max", std::string("/sys/fs/cgroup/memory.max"),
          "/sys/fs/cgroup/memory" + path + "/memory.limit_in_bytes"}) {
      int64_t limit = 0;
      if (std::ifstream(file) >> limit && limit > 0)
        least = least < 0 ? limit : std::min(least, limit);
    }
  }
  return least;
}

// What `ulimit -v` leaves; -1 if there is no such limit.
int64_t address_space_left() {
  rlimit limit{};
  const int64_t used = kilobytes_after("/proc/self/status", "VmSize:");
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || used < 0) return -1;
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used);
}

}  // namespace

int64_t available_memory() {
  int64_t out = kilobytes_after("/proc/meminfo", "MemAvailable:");
  if (const int64_t limit = group_limit(), resident = resident_bytes();
      limit >= 0 && resident >= 0) {
    const int64_t left = std::max<int64_t>(0, limit - resident);
    out = out < 0 ? left : std::min(out, left);
  }
  if (const int64_t left = address_space_left(); left >= 0)
    out = out < 0 ? left : std::min(out, left);
  return out;
}

}  // namespace graft::lab
