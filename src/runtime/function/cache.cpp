// graft/cache.h, and the files that graft::save writes.
#include "graft/cache.h"

#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "codegen/backend.h"
#include "graft/options.h"
#include "runtime/function/core_impl.h"
#include "runtime/function/stored.h"
#include "runtime/process/cache_folder.h"
#include "runtime/process/worker.h"
#include "runtime/store/store.h"

namespace graft {

namespace {

using runtime::CacheFolder;
using runtime::StoredEntry;

CacheFolder folder_of_plans() {
  CacheFolder folder(runtime::cache_path());
  if (folder.path().empty())
    throw Error("no plans are kept: GRAFT_CACHE_DIR is off, or there is no HOME");
  return folder;
}

std::string here() {
  std::string text;  // a fork must not come in between
  runtime::Worker::run([&] { text = runtime::machine_text(codegen::host_target(1)); });
  return text;
}

/// What follows "function " in a line of `about`.
std::string fact(const std::string& about, const std::string& name) {
  std::istringstream lines(about);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + " ")) return line.substr(name.size() + 1);
  return {};
}

void describe(const StoredEntry& entry, cache::Plan& plan) {
  plan.function = fact(entry.about, "function");
  plan.made = fact(entry.about, "made");
  plan.kernels = std::atoll(fact(entry.about, "kernels").c_str());
  plan.machine = entry.machine;
  std::istringstream lines(entry.about);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("operator ")) plan.operators += line.substr(sizeof "operator") + "\n";
  if (const std::string other = runtime::difference_of_machines(entry.machine, here());
      !other.empty()) {
    plan.refused = "of another machine or build: " + other;
    return;
  }
  try {
    plan.proof = runtime::text_of(runtime::proof_of(entry.proof));
  } catch (const std::exception& error) {
    plan.refused = error.what();
  }
}

/// Nothing, and why, where it is not what it should be.
std::optional<StoredEntry> read_plan(const CacheFolder& folder, const std::string& file,
                                     std::string& wrong) {
  const std::optional<std::string> bytes = folder.read(file, wrong);
  if (!bytes) {
    if (wrong.empty()) wrong = "it is gone";
    return std::nullopt;
  }
  return runtime::unpack_whole(*bytes, wrong);
}

}  // namespace

namespace cache {

std::string folder() {
  return runtime::cache_path().string();
}

int64_t parse_size(const std::string& text) {
  try {
    return runtime::bytes_of_text(text);
  } catch (const std::exception& error) {
    throw Error(error.what());
  }
}

int64_t most_bytes() {
  try {
    return runtime::most_stored_bytes();
  } catch (const std::exception& error) {
    throw Error(std::string("GRAFT_CACHE_SIZE: ") + error.what());
  }
}

std::vector<Plan> list() {
  const CacheFolder folder = folder_of_plans();
  std::string wrong;
  const std::vector<CacheFolder::File> files = folder.list(runtime::kPlanEnding, wrong);
  if (!wrong.empty()) throw Error(wrong);
  std::vector<Plan> plans;
  for (const CacheFolder::File& file : files) {
    Plan plan;
    plan.name =
        file.name.substr(0, file.name.size() - std::string_view(runtime::kPlanEnding).size());
    plan.bytes = file.bytes;
    plan.used = file.used;
    std::string why;
    const std::optional<StoredEntry> entry = read_plan(folder, file.name, why);
    if (entry)
      describe(*entry, plan);
    else
      plan.refused = why;
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::string schedule(const std::string& name) {
  const CacheFolder folder = folder_of_plans();
  std::string wrong;
  const std::optional<StoredEntry> entry = read_plan(folder, name + runtime::kPlanEnding, wrong);
  if (!entry) throw Error("plan " + name + ": " + wrong);
  if (const std::string other = runtime::difference_of_machines(entry->machine, here());
      !other.empty())
    throw Error("plan " + name + " is of another machine or build: " + other);
  try {
    return runtime::schedule_text(*entry);
  } catch (const std::exception& error) {
    throw Error("plan " + name + ": " + error.what());
  }
}

int64_t trim(int64_t most) {
  return folder_of_plans().trim(runtime::kPlanEnding, most);
}

int64_t remove_refused() {
  const CacheFolder folder = folder_of_plans();
  int64_t removed = 0;
  for (const Plan& plan : list()) {
    const std::string file = plan.name + runtime::kPlanEnding;
    std::string wrong;
    if (plan.refused.empty() || !folder.read(file, wrong)) continue;  // or it cannot be read now
    if (folder.remove(file)) removed += plan.bytes;
  }
  return removed;
}

}  // namespace cache

int64_t load(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    throw Error(path + " is no file; expected one that graft::save wrote");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(path + " cannot be read");
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<StoredEntry> entries;
  for (std::string_view left = bytes; !left.empty();) {
    std::string wrong;
    std::optional<StoredEntry> entry = runtime::unpack(left, wrong);
    if (!entry) throw Error(path + ": " + wrong + "; graft::save or graft compile writes it anew");
    if (const std::string other = runtime::difference_of_machines(entry->machine, here());
        !other.empty())
      throw Error(path + " was made on another machine or by another build: " + other +
                  "; save it there where it is to run");
    entries.push_back(std::move(*entry));
  }
  if (entries.empty()) throw Error(path + " is empty; expected plans that graft::save wrote");
  runtime::Worker::run([&] {
    for (StoredEntry& entry : entries) runtime::provide_stored(std::move(entry));
  });
  return static_cast<int64_t>(entries.size());
}

namespace detail {

void Core::save(const std::string& path) const {
  impl_->save(path);
}

void Core::Impl::save(const std::string& path) const {
  std::string bytes;
  {
    std::lock_guard lock(runtime::runtime_mutex());
    for (const auto& entry : all_entries()) {
      const Tier tier = entry->tier.load(std::memory_order_acquire);
      const bool usable = entry->verdict != Verdict::Mismatch &&
                          entry->verdict != Verdict::Failed && entry->verdict != Verdict::Break;
      if (tier > Tier::Compiling && usable && entry->stored != nullptr)
        bytes += runtime::pack(*entry->stored);
    }
  }
  if (bytes.empty())
    throw Error(options.name +
                ": there is no plan to save; call the function on what it will be called on, "
                "wait(), and see its report()");
  if (path.empty())
    throw Error(options.name + ": save() was given an empty path; it needs a file's name");
  const std::filesystem::path file = std::filesystem::absolute(path);
  std::string wrong;
  if (!runtime::replace_file(file, bytes, wrong)) throw Error(wrong);
}

}  // namespace detail

}  // namespace graft
