#include "runtime/process/machine_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

#include "runtime/process/cache_folder.h"
#include "runtime/process/log.h"

namespace graft::runtime {

namespace {

constexpr const char* kVersion = "graft machine times 6";

/// Further from the assumed number than by this factor it cannot be.
constexpr double kMost = 8;

struct Number {
  const char* name;
  double ir::Times::* place;
  double fitted;    ///< what measure_times() gives on the machine that the model was fitted on
  double step = 2;  ///< what is measured counts as a power of it
};
/// Those that are measured; the others are assumed. The model's numbers stand for more than a plain
/// loop shows (an instruction is an average one, waits and all), so what is measured scales them.
constexpr std::array<Number, 7> kNumbers{
    {{"instruction", &ir::Times::instruction, 0.0318},
     {"memory_byte", &ir::Times::memory_byte, 0.0200},
     {"far_line", &ir::Times::far_line, 2.4},
     {"unasked_stream", &ir::Times::unasked_stream, 1, 1.2},
     {"product_flop", &ir::Times::product_flop, 0.0046, 1.05},
     {"call_flop", &ir::Times::call_flop, 0.0050, 1.05},
     {"short_call_flop", &ir::Times::short_call_flop, 0.0050, 1.05}}};

ir::Times find_or_measure(const std::string& cpu) {
  const CacheFolder folder(cache_path());
  if (folder.path().empty()) return {};
  std::ostringstream name;
  name << "machine-" << std::hex << std::hash<std::string>()(cpu) << ".txt";
  std::string wrong;
  if (const auto text = folder.read(name.str(), wrong))
    if (const auto times = times_of(*text, cpu)) return *times;
  std::optional<ir::Times> measured;
  try {
    measured = measure_times();
  } catch (const std::exception& error) {  // no memory for it, or no thread
    log(Topic::Cache, std::string("could not measure this machine: ") + error.what());
  }
  if (!measured) return {};
  const ir::Times times = rounded(*measured);
  const std::string text = text_of(times, cpu);
  if (!folder.write(name.str(), text, wrong)) return {};
  log(Topic::Cache,
      "measured this machine, kept in " + (folder.path() / name.str()).string() + ": " + text);
  return times;
}

}  // namespace

ir::Times rounded(const ir::Times& measured) {
  const ir::Times assumed;
  ir::Times out;
  for (const Number& number : kNumbers) {
    const double ratio = measured.*number.place / number.fitted;
    if (!(ratio > 0) || !std::isfinite(ratio)) continue;
    const double most = std::log(kMost), by = std::log(number.step),
                 steps = std::round(std::clamp(std::log(ratio), -most, most) / by);
    out.*number.place = assumed.*number.place * std::pow(number.step, steps);
  }
  return out;
}

std::string text_of(const ir::Times& times, const std::string& cpu) {
  std::ostringstream text;
  text << kVersion << '\n' << cpu << '\n' << std::setprecision(17);
  for (const Number& number : kNumbers) text << number.name << ' ' << times.*number.place << '\n';
  return text.str();
}

std::optional<ir::Times> times_of(const std::string& text, const std::string& cpu) {
  std::istringstream lines(text);
  std::string version, processor;
  if (!std::getline(lines, version) || version != kVersion) return std::nullopt;
  if (!std::getline(lines, processor) || processor != cpu) return std::nullopt;
  ir::Times times;
  for (const Number& number : kNumbers) {
    std::string name;
    double value = 0;
    if (!(lines >> name >> value) || name != number.name || !(value > 0) || !std::isfinite(value))
      return std::nullopt;
    times.*number.place = value;
  }
  return times;
}

ir::Times machine_times(const std::string& cpu) {
  // Its compiler thread may outlive static objects.
  static const auto* times = new ir::Times(find_or_measure(cpu));
  return *times;
}

}  // namespace graft::runtime
