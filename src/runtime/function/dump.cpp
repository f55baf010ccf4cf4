#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "codegen/backend.h"
#include "codegen/source/source.h"
#include "runtime/function/compile.h"
#include "runtime/process/log.h"
#include "runtime/process/worker.h"

namespace graft::runtime {

namespace {

constexpr size_t kDecisions = 12;  ///< that a description shows

/// A part of a description: a heading or file name, and its text.
struct Part {
  std::string name, text;
};

std::vector<Part> parts(const record::Trace& trace, const Scheduled& scheduled) {
  std::vector<Part> all{{"trace", record::print(trace)}};
  std::ostringstream fates;
  for (const OperatorReport& row : scheduled.operators)
    fates << row.fate << "  " << row.name << (row.count > 1 ? " x" + std::to_string(row.count) : "")
          << (row.why.empty() ? "" : "  (" + row.why + ")") << '\n';
  all.push_back({"operators", fates.str()});
  if (scheduled.broken) {
    all.push_back({"break", *scheduled.broken + "\n"});
    return all;
  }
  std::ostringstream times;
  times.precision(3);
  int number = 0;
  for (const passes::PassRecord& record : scheduled.records) {
    times << record.name << "  " << record.milliseconds << " ms\n";
    std::string index = (number < 10 ? "0" : "") + std::to_string(number);
    ++number;
    all.push_back({index + "-" + record.name, record.after});
  }
  all.push_back({"pass-times", times.str()});
  all.push_back({"decisions", decisions_text(scheduled.decisions(), kDecisions)});
  return all;
}

/// "llama rope/2" as a folder's name.
std::string plain_name(const std::string& name) {
  std::string plain;
  for (char c : name)
    plain += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ? c : '_';
  return plain.substr(0, 80);
}

std::map<std::string, std::filesystem::path>& newest_folders() {
  static auto* folders = new std::map<std::string, std::filesystem::path>;
  return *folders;
}

std::filesystem::path make_folder(const std::string& directory, const std::string& name) {
  namespace fs = std::filesystem;
  auto make = [](const fs::path& path) {
    if (mkdir(path.c_str(), 0700) == 0) return true;
    if (errno == EEXIST) return false;
    throw fs::filesystem_error("cannot make the folder", path,
                               std::error_code(errno, std::generic_category()));
  };
  make(directory);
  for (int i = 1;; ++i) {
    fs::path path = fs::path(directory) /
                    (plain_name(name) + "-" + std::to_string(getpid()) + "-" + std::to_string(i));
    if (!make(path)) continue;
    std::lock_guard lock(runtime_mutex());
    newest_folders()[name] = path;
    return path;
  }
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) warn("GRAFT_TRACE: cannot write " + path.string());
}

std::vector<const ir::Kernel*> kernels_of(const Scheduled& scheduled) {
  std::vector<const ir::Kernel*> kernels;
  auto add = [&](const ir::Schedule& schedule) {
    for (const ir::Step& step : schedule.steps)
      if (const auto* kernel = std::get_if<ir::Kernel>(&step)) kernels.push_back(kernel);
  };
  add(scheduled.schedule);
  if (scheduled.backward) add(*scheduled.backward);
  return kernels;
}

/// All kernels as one C++ file; empty when there are none.
std::string source_of(const Scheduled& scheduled) {
  const std::vector<const ir::Kernel*> kernels = kernels_of(scheduled);
  return kernels.empty() ? "" : codegen::compile_source(kernels, scheduled.target).bytes;
}

}  // namespace

std::string describe(const record::Trace& trace, const Scheduled& scheduled) {
  std::ostringstream out;
  for (const Part& part : parts(trace, scheduled))
    out << "== " << part.name << " ==\n" << part.text << '\n';
  std::string source = source_of(scheduled);
  if (!source.empty()) out << "== source ==\n" << source << '\n';
  return out.str();
}

void dump(const std::string& directory, const std::string& name, const record::Trace& trace,
          const Scheduled& scheduled) noexcept {
  try {
    auto folder = make_folder(directory, name);
    for (const Part& part : parts(trace, scheduled))
      write_file(folder / (part.name + ".txt"), part.text);
    write_file(folder / "kernels.cpp", source_of(scheduled));
    int number = 0;
    for (const ir::Kernel* kernel : kernels_of(scheduled)) {
      std::string file = "kernel-" + std::to_string(number++) + "-" + plain_name(kernel->name);
      std::vector<codegen::Listing> listings;
      codegen::host_backend().compile({&kernel, 1}, scheduled.target, &listings);
      for (const codegen::Listing& listing : listings)
        write_file(folder / (file + "." + listing.kind), listing.text);
    }
  } catch (const std::exception& error) {
    warn(std::string("GRAFT_TRACE: ") + error.what());
  }
}

void dump_report(const std::string& directory, const std::string& name,
                 const std::string& text) noexcept {
  if (directory.empty()) return;
  try {
    std::filesystem::path folder;
    {
      std::lock_guard lock(runtime_mutex());
      auto found = newest_folders().find(name);
      if (found == newest_folders().end()) return;
      folder = found->second;
    }
    write_file(folder / "report.txt", text);
  } catch (const std::exception& error) {
    warn(std::string("GRAFT_TRACE: ") + error.what());
  }
}

}  // namespace graft::runtime
