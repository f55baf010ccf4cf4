#include "lab/env.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <sys/utsname.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <sstream>

#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

constexpr const char* kFlags[] = {
    "avx",      "avx2",     "fma",         "f16c",        "avx512f",     "avx512bw",
    "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni",
    "amx_tile", "amx_bf16", "amx_int8",    "asimd",       "sve"};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

void read_cpuinfo(Environment& out) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::pair<std::string, std::string>> cores;  // socket, core
  std::set<std::string> have;
  std::string socket;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
    if (key == "processor") ++out.logical_cpus;
    if (key == "model name" && out.cpu.empty()) out.cpu = value;
    if (key == "physical id") socket = value;
    if (key == "core id") cores.emplace(socket, value);
    if ((key == "flags" || key == "Features") && have.empty()) {
      std::istringstream words(value);
      for (std::string word; words >> word;) have.insert(word);
    }
  }
  out.physical_cores = cores.empty() ? out.logical_cpus : static_cast<int>(cores.size());
  for (const char* flag : kFlags) {
    if (have.count(flag) > 0) out.flags.emplace_back(flag);
  }
}

/// CPUs in the kernel's list form: "0-3,8" are five.
int count_cpu_list(const std::string& list) {
  int count = 0;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0, last = 0;
    const int fields = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    count += fields == 2 ? last - first + 1 : fields;
  }
  return std::max(count, 1);
}

void read_caches(Environment& out) {
  for (int index = 0; index < 8; ++index) {
    const std::string base =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + '/';
    const std::string level = first_line(base + "level"), type = first_line(base + "type");
    const std::string size = first_line(base + "size");
    if (level.empty()) return;
    const int64_t unit = size.ends_with('K') ? 1024 : size.ends_with('M') ? 1024 * 1024 : 1;
    const char* suffix = type == "Data" ? "d" : type == "Instruction" ? "i" : "";
    out.caches.push_back({'L' + level + suffix, std::atoll(size.c_str()) * unit,
                          count_cpu_list(first_line(base + "shared_cpu_list"))});
  }
}

std::string chosen_huge_pages() {
  // "always [madvise] never"
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = line.find('['), close = line.find(']');
  return open == std::string::npos || close == std::string::npos
             ? ""
             : line.substr(open + 1, close - open - 1);
}

std::string os_text() {
  utsname name{};
  return uname(&name) == 0 ? std::string(name.sysname) + ' ' + name.release + ' ' + name.machine
                           : "";
}

std::string compiler_text() {
#if defined(__clang__)
  return std::string("clang ") + __clang_version__;
#else
  return std::string("gcc ") + __VERSION__;
#endif
}

}  // namespace

Environment read_environment(const std::string& graft_version) {
  Environment out;
  read_cpuinfo(out);
  read_caches(out);
  out.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  out.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  out.huge_pages = chosen_huge_pages();
  out.load = std::atof(first_line("/proc/loadavg").c_str());
  out.os = os_text();
  out.threads = at::get_num_threads();
  out.aten_cpu = at::get_cpu_capability();
  out.torch = TORCH_VERSION;
  out.graft = graft_version;
  out.compiler = compiler_text();
  return out;
}

nlohmann::json to_json(const Environment& e) {
  nlohmann::json caches = nlohmann::json::array();
  for (const Cache& cache : e.caches) {
    caches.push_back(
        {{"name", cache.name}, {"bytes", cache.bytes}, {"shared_by", cache.shared_by}});
  }
  return {{"cpu", e.cpu},
          {"flags", e.flags},
          {"logical_cpus", e.logical_cpus},
          {"physical_cores", e.physical_cores},
          {"caches", caches},
          {"memory_bytes", e.memory_bytes},
          {"governor", e.governor},
          {"huge_pages", e.huge_pages},
          {"load", e.load},
          {"os", e.os},
          {"threads", e.threads},
          {"aten_cpu", e.aten_cpu},
          {"torch", e.torch},
          {"graft", e.graft},
          {"compiler", e.compiler}};
}

void print(std::ostream& out, const Environment& e, bool colour) {
  const auto known = [](const std::string& text) {
    return text.empty() ? std::string("unknown") : text;
  };
  std::string caches;
  for (const Cache& cache : e.caches) {
    caches += (caches.empty() ? "" : ", ") + cache.name + ' ' +
              bytes_text(static_cast<double>(cache.bytes));
    if (cache.shared_by > 1) caches += " for " + std::to_string(cache.shared_by) + " CPUs";
  }
  Table table({{"fact"}, {"value"}});
  table.row({"Graft", e.graft});
  table.row({"torch", e.torch + ", kernels for " + e.aten_cpu});
  table.row({"compiler", e.compiler});
  table.row({"threads", std::to_string(e.threads)});
  table.row({"CPU", known(e.cpu)});
  table.row({"flags", known(joined(e.flags, " "))});
  table.row({"cores", std::to_string(e.physical_cores) + " (" + std::to_string(e.logical_cpus) +
                          " logical CPUs)"});
  table.row({"caches", known(caches)});
  table.row({"memory", bytes_text(static_cast<double>(e.memory_bytes))});
  table.row({"huge pages", known(e.huge_pages)});
  table.row({"governor", known(e.governor)});
  table.row({"load", number(e.load)});
  table.row({"system", known(e.os)});
  table.print(out, colour);
}

}  // namespace graft::lab
