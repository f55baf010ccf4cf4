// Shapes into bytes; /proc and /sys into what is free.
#include "quantizer/model/memory_need.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "lab/memory/resident.h"
#include "lab/words.h"
#include "quantizer/model/error.h"

namespace graft::quantizer {
namespace {

constexpr int64_t kFloat = 4;
constexpr int64_t kIds = 3 * 8;  // a token's id: as it is made, in its sample, in its batch

std::string text_of(int64_t bytes) {
  return lab::bytes_text(static_cast<double>(bytes));
}

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

int64_t MemoryNeed::total() const {
  return weights + hessians + activations + std::max(work, forward);
}

MemoryNeed memory_need(const Architecture& model, const CalibrationSize& calibration,
                       const Settings& settings) {
  MemoryNeed out;
  std::set<std::string> inputs;
  for (const LinearSpec& linear : model.linears(0)) {
    const int64_t elements = linear.rows * linear.columns, square = linear.columns * linear.columns;
    // The weight, and its codes, scales and zeros until the layer is written.
    out.weights += elements * kFloat + elements * settings.bits / 8 +
                   elements / std::max<int64_t>(settings.group, 16) * 2 * kFloat;
    if (inputs.insert(linear.inputs).second) out.hessians += square * kFloat;
    // H, its factor, its inverse and that one's factor; the weights as they change, their codes,
    // values and losses.
    out.work = std::max(out.work, 4 * square * kFloat + 5 * elements * kFloat);
  }
  // In tokens.
  const int64_t batch = std::min(calibration.tokens, std::max(kBatchTokens, calibration.longest));
  out.activations = calibration.tokens * (model.hidden * kFloat + kIds);
  out.forward = batch *
                (3 * model.intermediate + 8 * model.hidden + calibration.longest * model.heads) *
                kFloat;
  return out;
}

int64_t available_memory() {
  int64_t out = kilobytes_after("/proc/meminfo", "MemAvailable:");
  if (const int64_t limit = group_limit(), resident = lab::resident_bytes();
      limit >= 0 && resident >= 0) {
    const int64_t left = std::max<int64_t>(0, limit - resident);
    out = out < 0 ? left : std::min(out, left);
  }
  if (const int64_t left = address_space_left(); left >= 0)
    out = out < 0 ? left : std::min(out, left);
  return out;
}

void check_memory(const MemoryNeed& need, int64_t available) {
  if (available < 0 || need.total() <= available) return;
  throw GptqError("one layer needs about " + text_of(need.total()) + " of memory (weights " +
                  text_of(need.weights) + ", Hessians " + text_of(need.hessians) +
                  ", quantising one linear layer " + text_of(need.work) + ", activations " +
                  text_of(need.activations) + ", running a batch " + text_of(need.forward) +
                  "), but there are " + text_of(available) +
                  "; lower --samples or --sequence, which the activations grow with, or use a "
                  "machine with more memory");
}

}  // namespace graft::quantizer
