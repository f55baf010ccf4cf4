#include "cli/frame/usage.h"

#include <unistd.h>

#include <ATen/Context.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>

#include "lab/timer.h"

namespace graft::cli {
namespace {

constexpr auto kSettleLimit = std::chrono::minutes(1);

/// Insertions, deletions and exchanges between two words.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t exchange = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, exchange});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> near_names(std::string_view given, const std::vector<std::string>& names) {
  constexpr size_t kMost = 3;
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(given, name);
    const bool part = given.size() >= 3 && name.find(given) != std::string::npos;
    if (part || distance <= std::max<size_t>(2, given.size() / 3))
      found.emplace_back(part ? 0 : distance, name);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(found.size(), kMost); ++i) out.push_back(found[i].second);
  return out;
}

std::string did_you_mean(std::string_view given, const std::vector<std::string>& names) {
  std::vector<std::string> near = near_names(given, names);
  if (near.empty()) return "expected one of " + lab::joined(names, ", ") + '.';
  for (std::string& name : near) name = '\'' + name + '\'';
  return "did you mean " + lab::joined(near, " or ") + '?';
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const workloads::Workload& workload : workloads::workloads()) names.push_back(workload.name);
  return names;
}

const workloads::Workload& workload_or_throw(const std::string& name) {
  const workloads::Workload* workload = workloads::find_workload(name);
  if (workload != nullptr) return *workload;
  throw UsageError("there is no workload '" + name + "'; " + did_you_mean(name, workload_names()) +
                   " 'graft list' shows all.");
}

void add_axis_flag(CLI::App& command, std::vector<std::string>& axes) {
  command.add_option("--axis", axes, "name=value: another value of an axis of the workload")
      ->allow_extra_args(false);
}

std::map<std::string, std::string> axis_values(const std::vector<std::string>& axes) {
  std::map<std::string, std::string> out;
  for (const std::string& axis : axes) {
    const size_t equals = axis.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("--axis: came '" + axis +
                       "'; expected name=value, such as rows=64. 'graft list' shows the axes.");
    }
    out[axis.substr(0, equals)] = axis.substr(equals + 1);
  }
  return out;
}

std::vector<std::string> set_names() {
  std::vector<std::string> names;
  for (const workloads::Workload& workload : workloads::workloads())
    if (std::find(names.begin(), names.end(), workload.set) == names.end())
      names.push_back(workload.set);
  return names;
}

void add_set_flag(CLI::App& command, std::string& set) {
  command
      .add_option_function<std::string>(
          "--set",
          [&set](const std::string& name) {
            const std::vector<std::string> names = set_names();
            if (std::find(names.begin(), names.end(), name) == names.end())
              throw UsageError("--set: came '" + name + "'; the sets are " +
                               lab::joined(names, ", ") + '.');
            set = name;
          },
          "The set of workloads: " + lab::joined(set_names(), ", "))
      ->default_str(set);
}

std::regex pattern_of(const std::string& flag, const std::string& text,
                      const std::string& such_as) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    throw UsageError(flag + ": came '" + text + "', which is not a regular expression (" +
                     error.what() + "); expected one such as " + such_as);
  }
}

void check_writable(const std::string& flag, const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  const bool is_folder = std::filesystem::is_directory(path);
  if (!is_folder && access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw UsageError(
      flag + ": came '" + path + "', " +
      (is_folder ? "which is a folder"
                 : "but in '" + folder.string() + "' nothing can be written (" +
                       std::strerror(errno) + ")") +
      "; expected a file's name in a folder that exists. Make the folder, or name another file.");
}

void must_be_path(CLI::Option* option) {
  option->check([](const std::string& given) -> std::string {
    if (given.empty()) return "came empty; expected a path. Is a shell variable not set?";
    if (given.starts_with('-'))
      return "came '" + given + "', which looks like an option; expected a path. Is a shell " +
             "variable not set? If it is meant, write './" + given + "'.";
    return "";
  });
}

namespace {

template <class T>
T named(const char* flag, const std::string& name, const std::map<std::string, T>& values) {
  const auto found = values.find(name);
  if (found != values.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, value] : values) names.push_back(known);
  const bool near = !near_names(name, names).empty();
  throw UsageError(std::string(flag) + ": came '" + name + "'; " + did_you_mean(name, names) +
                   (near ? " Expected one of " + lab::joined(names, ", ") + '.' : ""));
}

template <class T>
const std::string& name_of(T value, const std::map<std::string, T>& values) {
  return std::find_if(values.begin(), values.end(),
                      [&](const auto& entry) { return entry.second == value; })
      ->first;
}

const std::map<std::string, Numerics> kNumerics{{"exact", Numerics::Exact},
                                                {"fast", Numerics::Fast}};
const std::map<std::string, Mode> kModes{{"default", Mode::Default},
                                         {"max-autotune", Mode::MaxAutotune},
                                         {"reduce-overhead", Mode::ReduceOverhead}};
const std::map<std::string, at::Float32MatmulPrecision> kPrecisions{
    {"highest", at::Float32MatmulPrecision::HIGHEST},
    {"high", at::Float32MatmulPrecision::HIGH},
    {"medium", at::Float32MatmulPrecision::MEDIUM}};

}  // namespace

std::string numerics_name(Numerics numerics) {
  return name_of(numerics, kNumerics);
}

std::string mode_name(Mode mode) {
  return name_of(mode, kModes);
}

std::string float32_matmul_name() {
  return name_of(at::globalContext().float32MatmulPrecision(), kPrecisions);
}

void set_float32_matmul(const std::string& name) {
  named("--float32-matmul", name, kPrecisions);
  at::globalContext().setFloat32MatmulPrecision(name);
}

void add_compile_flags(CLI::App& command, Options& options) {
  options.cache = false;
  command.add_option_function<std::string>(
      "--numerics",
      [&options](const std::string& name) {
        options.numerics = named("--numerics", name, kNumerics);
      },
      "exact: round where eager rounds (the default); fast: keep fp32 inside kernels");
  command.add_option_function<std::string>(
      "--mode",
      [&options](const std::string& name) { options.mode = named("--mode", name, kModes); },
      "default; reduce-overhead: less time around functions of microseconds; max-autotune: matmuls "
      "by the fastest of ATen's routines and kernels with folded "
      "weights, and the fastest of several schedules");
  command.add_option_function<std::string>(
      "--float32-matmul", set_float32_matmul,
      "highest (the default), high or medium, as ATen's setFloat32MatmulPrecision: with medium, "
      "kernels may round factors of fp32 products to bf16");
}

bool is_final(Verdict verdict) {
  return verdict == Verdict::Faster || verdict == Verdict::NotFaster || verdict == Verdict::Break ||
         verdict == Verdict::Mismatch || verdict == Verdict::Failed;
}

double settle(const std::function<void()>& run, const std::function<void()>& wait,
              const std::function<Verdict()>& verdict) {
  const double first_call_ms = lab::time_once_ms(run);
  const auto limit = std::chrono::steady_clock::now() + kSettleLimit;
  for (;;) {
    wait();
    if (is_final(verdict()) || std::chrono::steady_clock::now() > limit) return first_call_ms;
    run();
  }
}

double settle(const workloads::CompiledCall& compiled) {
  return settle(compiled.run, compiled.wait, [&] { return compiled.report().verdict; });
}

}  // namespace graft::cli
