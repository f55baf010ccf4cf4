#include "runtime/store/store.h"

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>

#include "runtime/process/cache_folder.h"
#include "runtime/process/kept.h"
#include "runtime/process/log.h"

namespace graft::runtime {

namespace {

// Never destroyed: background threads may look while the process exits.

Kept<std::string, std::shared_ptr<const StoredEntry>>& provided() {
  static auto* made = new Kept<std::string, std::shared_ptr<const StoredEntry>>;
  return *made;
}
Kept<std::string, std::weak_ptr<const StoredEntry>>& shared() {
  static auto* made = new Kept<std::string, std::weak_ptr<const StoredEntry>>;
  return *made;
}

bool is_wanted(const StoredEntry& entry, const StoredEntry& wanted) {
  return entry.machine == wanted.machine && entry.key == wanted.key;
}

/// Writes of this process between two looks at how much there is.
constexpr int kWritesPerTrim = 16;

}  // namespace

std::shared_ptr<const StoredEntry> find_stored(const StoredEntry& wanted) {
  const std::string name = name_of(wanted);
  if (auto given = provided().find(name); given && is_wanted(**given, wanted)) return *given;
  if (auto known = shared().find(name))
    if (auto entry = known->lock(); entry && is_wanted(*entry, wanted)) return entry;
  const CacheFolder folder(cache_path());
  if (folder.path().empty()) return nullptr;
  const std::string file = name + kPlanEnding;
  std::string wrong;
  const std::optional<std::string> bytes = folder.read(file, wrong);
  if (!bytes) {
    if (!wrong.empty()) warn_once("the cache of plans is of no use: ", wrong);
    return nullptr;
  }
  std::optional<StoredEntry> entry = unpack_whole(*bytes, wrong);
  if (!entry) {
    warn_once("a stored plan is of no use: ", (folder.path() / file).string() + ": " + wrong);
    return nullptr;
  }
  if (!is_wanted(*entry, wanted)) return nullptr;  // two names are equal by chance
  folder.touch(file);
  return std::make_shared<const StoredEntry>(std::move(*entry));
}

void drop_stored(const StoredEntry& entry) {
  const std::string name = name_of(entry);
  shared().erase_if([&](const auto& known) {
    const auto held = known.lock();
    return held == nullptr || is_wanted(*held, entry);
  });
  if (const CacheFolder folder(cache_path()); !folder.path().empty())
    folder.remove(name + kPlanEnding);
}

void keep_stored(const StoredEntry& entry) {
  const CacheFolder folder(cache_path());
  if (folder.path().empty()) return;
  std::string wrong;
  const std::string file = name_of(entry) + kPlanEnding;
  if (!folder.write(file, pack(entry), wrong)) {
    warn_once("a plan could not be kept for other processes: ",
              wrong + "; GRAFT_CACHE_DIR names another folder, or is off");
    return;
  }
  log(Topic::Cache, "kept " + (folder.path() / file).string());
  static std::atomic<int> writes{0};
  if (writes.fetch_add(1) % kWritesPerTrim != 0) return;
  int64_t most = 0;
  try {
    most = most_stored_bytes();
  } catch (const std::exception& error) {
    return warn_once("the cache of plans grows without bound: ", error.what());
  }
  if (const int64_t removed = folder.trim(kPlanEnding, most); removed > 0)
    log(Topic::Cache, "removed " + std::to_string(removed) + " bytes of plans used long ago");
}

void provide_stored(StoredEntry entry) {
  std::string name = name_of(entry);
  provided().add(name, std::make_shared<const StoredEntry>(std::move(entry)));
}

void share_stored(const std::shared_ptr<const StoredEntry>& entry) {
  shared().erase_if([](const auto& known) { return known.expired(); });
  shared().add(name_of(*entry), entry);
}

int64_t bytes_of_text(const std::string& text) {
  int64_t number = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(static_cast<const char*>(end), text.data() + text.size());
  int shift = -1;
  if (unit.empty() || unit == "B") shift = 0;
  if (unit == "K" || unit == "KiB") shift = 10;
  if (unit == "M" || unit == "MiB") shift = 20;
  if (unit == "G" || unit == "GiB") shift = 30;
  if (failed != std::errc() || shift < 0 || number < 0 || number > (INT64_MAX >> shift))
    throw std::runtime_error("\"" + text +
                             "\" is no size; expected a number of bytes, or one such as "
                             "512M or 2G");
  return number << shift;
}

int64_t most_stored_bytes() {
  const char* set = std::getenv("GRAFT_CACHE_SIZE");
  constexpr int64_t kDefault = int64_t{1} << 30;
  return set == nullptr || *set == '\0' ? kDefault : bytes_of_text(set);
}

}  // namespace graft::runtime
