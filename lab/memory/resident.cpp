#include "lab/memory/resident.h"

#include <fstream>
#include <string>

namespace graft::lab {

Resident read_resident() {
  Resident out;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {  // "VmRSS:     2160 kB"
    if (line.starts_with("VmHWM:")) out.peak = std::stoll(line.substr(6)) * 1024;
    if (line.starts_with("VmRSS:")) out.current = std::stoll(line.substr(6)) * 1024;
  }
  return out;
}

int64_t resident_bytes() {
  return read_resident().current;
}

bool reset_resident_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // see proc_pid_clear_refs(5)
  return file.good();
}

}  // namespace graft::lab
